// SPDX-License-Identifier: GPL-2.0

//! Protection domains.

use super::{
    object::Pd,
    Device,
    Provider,
    Udata, //
};
use crate::kapi::bindings as b;
use kernel::{
    error::from_result,
    prelude::*, //
};

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
/// To be called as [`ops`](super::ops) says.
pub(super) unsafe extern "C" fn alloc<P: Provider>(
    pd: *mut b::ib_pd,
    udata: *mut b::ib_udata,
) -> c_int {
    from_result(|| {
        // SAFETY: The core sets the device before the call.
        let device = unsafe { (*pd).device };
        // SAFETY: The device outlives the domain and is of this provider.
        let device = unsafe { Device::<P>::from_raw(device) };
        // SAFETY: `udata` is null or valid during the call.
        let mut udata = unsafe { Udata::from_raw(udata) };
        let data = P::Pd::create(device, udata.as_mut())?;
        // SAFETY: The core allocated `Pd::<P>::SIZE` bytes, and this is the create operation.
        unsafe { Pd::<P>::init(pd, data, ()) };
        Ok(0)
    })
}

/// The operation `dealloc_pd`.
///
/// # Safety
///
/// To be called as [`ops`](super::ops) says.
pub(super) unsafe extern "C" fn dealloc<P: Provider>(
    pd: *mut b::ib_pd,
    _udata: *mut b::ib_udata,
) -> c_int {
    // SAFETY: This is the destroy operation.
    drop(unsafe { Pd::<P>::take(pd) });
    0
}
