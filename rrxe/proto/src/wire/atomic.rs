// SPDX-License-Identifier: GPL-2.0

//! The headers of an atomic operation and of its answer.

use core::fmt;

use zerocopy::byteorder::{
    BigEndian,
    U32,
    U64, //
};
use zerocopy_derive::{
    FromBytes,
    Immutable,
    IntoBytes,
    KnownLayout,
    Unaligned, //
};

use crate::key::Key;

/// Atomic extended transport header, 28 bytes.
#[derive(Clone, Copy, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub struct AtomicEth {
    va: U64<BigEndian>,
    rkey: U32<BigEndian>,
    swap_or_add: U64<BigEndian>,
    compare: U64<BigEndian>,
}

impl AtomicEth {
    /// Puts `swap` at `va` of the memory that `rkey` names if `compare` is there.
    pub const fn compare_swap(va: u64, rkey: Key, compare: u64, swap: u64) -> Self {
        Self {
            va: U64::new(va),
            rkey: U32::new(rkey.0),
            swap_or_add: U64::new(swap),
            compare: U64::new(compare),
        }
    }

    /// Adds `add` to what is at `va` of the memory that `rkey` names.
    pub const fn fetch_add(va: u64, rkey: Key, add: u64) -> Self {
        Self::compare_swap(va, rkey, 0, add)
    }

    /// The address of the eight bytes.
    pub const fn va(&self) -> u64 {
        self.va.get()
    }

    /// The key of the memory.
    pub const fn rkey(&self) -> Key {
        Key(self.rkey.get())
    }

    /// What to put there, or to add.
    pub const fn swap_or_add(&self) -> u64 {
        self.swap_or_add.get()
    }

    /// What must be there. Means nothing in a fetch and add.
    pub const fn compare(&self) -> u64 {
        self.compare.get()
    }
}

impl fmt::Debug for AtomicEth {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AtomicEth")
            .field("va", &format_args!("{:#x}", self.va()))
            .field("rkey", &self.rkey())
            .field("swap_or_add", &format_args!("{:#x}", self.swap_or_add()))
            .field("compare", &format_args!("{:#x}", self.compare()))
            .finish()
    }
}

/// Atomic acknowledge extended transport header, 8 bytes.
#[derive(Clone, Copy, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub struct AtomicAckEth {
    original: U64<BigEndian>,
}

impl AtomicAckEth {
    /// Tells that `original` was there before the operation.
    pub const fn new(original: u64) -> Self {
        Self {
            original: U64::new(original),
        }
    }

    /// What was there before the operation.
    pub const fn original(&self) -> u64 {
        self.original.get()
    }
}

impl fmt::Debug for AtomicAckEth {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "AtomicAckEth({:#x})", self.original())
    }
}
