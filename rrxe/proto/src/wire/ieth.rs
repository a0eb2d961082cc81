// SPDX-License-Identifier: GPL-2.0

//! Invalidate extended transport header.

use core::fmt;

use zerocopy::byteorder::{
    BigEndian,
    U32, //
};
use zerocopy_derive::{
    FromBytes,
    Immutable,
    IntoBytes,
    KnownLayout,
    Unaligned, //
};

use crate::key::Key;

/// Invalidate extended transport header, 4 bytes.
#[derive(Clone, Copy, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub struct Ieth {
    rkey: U32<BigEndian>,
}

impl Ieth {
    /// Has the receiver invalidate its `rkey`.
    pub const fn new(rkey: Key) -> Self {
        Self {
            rkey: U32::new(rkey.0),
        }
    }

    /// The key to invalidate.
    pub const fn rkey(&self) -> Key {
        Key(self.rkey.get())
    }
}

impl fmt::Debug for Ieth {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Ieth").field(&self.rkey()).finish()
    }
}
