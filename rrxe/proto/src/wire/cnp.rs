// SPDX-License-Identifier: GPL-2.0

//! What follows the BTH of a congestion notification.

use zerocopy_derive::{
    FromBytes,
    Immutable,
    IntoBytes,
    KnownLayout,
    Unaligned, //
};

/// The 16 reserved bytes of a congestion notification: sent as zeros, not looked at.
#[derive(
    Clone,
    Copy,
    Debug,
    Default,
    PartialEq,
    Eq,
    FromBytes,
    IntoBytes,
    Immutable,
    KnownLayout,
    Unaligned,
)]
#[repr(C)]
pub struct CnpReserved([u8; 16]);
