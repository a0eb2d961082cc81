// SPDX-License-Identifier: GPL-2.0

//! Immediate data header.

use zerocopy_derive::{
    FromBytes,
    Immutable,
    IntoBytes,
    KnownLayout,
    Unaligned, //
};

use crate::key::Imm;

/// Immediate data header, 4 bytes.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned,
)]
#[repr(C)]
pub struct ImmDt {
    data: [u8; 4],
}

impl ImmDt {
    /// Carries `imm`, as it was posted.
    pub const fn new(imm: Imm) -> Self {
        Self { data: imm.0 }
    }

    /// The immediate data.
    pub const fn imm(&self) -> Imm {
        Imm(self.data)
    }
}
