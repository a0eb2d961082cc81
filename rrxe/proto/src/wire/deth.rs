// SPDX-License-Identifier: GPL-2.0

//! Datagram extended transport header: who sent it, and by what right.

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

use crate::{
    key::Qkey,
    qpn::Qpn,
    wire::bth::{
        from_be24,
        to_be24, //
    }, //
};

/// Datagram extended transport header, 8 bytes.
#[derive(Clone, Copy, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub struct Deth {
    qkey: U32<BigEndian>,
    reserved: u8,
    src_qp: [u8; 3],
}

impl Deth {
    /// Shows `qkey` on behalf of `src_qp`.
    pub const fn new(qkey: Qkey, src_qp: Qpn) -> Self {
        Self {
            qkey: U32::new(qkey.0),
            reserved: 0,
            src_qp: to_be24(src_qp.get()),
        }
    }

    /// The key the receiver compares with its own.
    pub const fn qkey(&self) -> Qkey {
        Qkey(self.qkey.get())
    }

    /// The queue pair that sent the datagram.
    pub const fn src_qp(&self) -> Qpn {
        Qpn::truncate(from_be24(self.src_qp))
    }
}

impl fmt::Debug for Deth {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Deth")
            .field("qkey", &self.qkey())
            .field("src_qp", &self.src_qp())
            .finish()
    }
}
