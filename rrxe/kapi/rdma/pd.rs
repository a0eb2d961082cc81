// SPDX-License-Identifier: GPL-2.0

//! Protection domains.

use super::{
    object::Pd,
    Device,
    Provider,
    Udata, //
};
use crate::kapi::bindings as b;
use kernel::prelude::*;

/// The driver's part of a protection domain.
pub(crate) trait ProtectionDomain<P: Provider<Pd = Self>>: Sized + Send + Sync {
    /// Makes a protection domain. `udata` is `None` for a user inside the kernel.
    ///
    /// Process context, may sleep.
    fn create(device: &Device<P>, udata: Option<&mut Udata<'_>>) -> Result<Self>;
}

/// The operation `alloc_pd`.
///
/// # Safety
///
/// To be called by the RDMA core, as [`ops`](super::ops) says.
pub(super) unsafe extern "C" fn alloc<P: Provider>(
    pd: *mut b::ib_pd,
    udata: *mut b::ib_udata,
) -> c_int {
    let make = |device: &Device<P>, mut udata: Option<Udata<'_>>| {
        Ok((P::Pd::create(device, udata.as_mut())?, ()))
    };
    // SAFETY: This is the create operation.
    unsafe { Pd::<P>::create(pd, udata, make) }
}

/// The operation `dealloc_pd`.
///
/// # Safety
///
/// To be called by the RDMA core, as [`ops`](super::ops) says.
pub(super) unsafe extern "C" fn dealloc<P: Provider>(
    pd: *mut b::ib_pd,
    _udata: *mut b::ib_udata,
) -> c_int {
    // SAFETY: This is the destroy operation.
    unsafe { Pd::<P>::destroy(pd, drop) };
    0
}
