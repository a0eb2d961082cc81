// SPDX-License-Identifier: GPL-2.0

//! RDMA extended transport header: which remote memory, and how much of it.

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

/// RDMA extended transport header, 16 bytes.
#[derive(Clone, Copy, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub struct Reth {
    va: U64<BigEndian>,
    rkey: U32<BigEndian>,
    dma_len: U32<BigEndian>,
}

impl Reth {
    /// `dma_len` bytes at `va` of the memory that `rkey` names.
    pub const fn new(va: u64, rkey: Key, dma_len: u32) -> Self {
        Self {
            va: U64::new(va),
            rkey: U32::new(rkey.0),
            dma_len: U32::new(dma_len),
        }
    }

    /// The address of the first byte.
    pub const fn va(&self) -> u64 {
        self.va.get()
    }

    /// The key of the memory.
    pub const fn rkey(&self) -> Key {
        Key(self.rkey.get())
    }

    /// Bytes of the whole message, as the peer says.
    pub const fn dma_len(&self) -> u32 {
        self.dma_len.get()
    }
}

impl fmt::Debug for Reth {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Reth")
            .field("va", &format_args!("{:#x}", self.va()))
            .field("rkey", &self.rkey())
            .field("dma_len", &self.dma_len())
            .finish()
    }
}
