// SPDX-License-Identifier: GPL-2.0

//! User contexts: one for each device file that a process has opened.

use super::{
    object::Context,
    Device,
    Provider,
    Udata, //
};
use crate::kapi::bindings as b;
use kernel::{
    error::from_result,
    prelude::*, //
};

/// The driver's part of a user context.
pub(crate) trait UserContext<P: Provider<Context = Self>>: Sized + Send + Sync {
    /// Makes a user context.
    ///
    /// Process context, may sleep.
    fn create(device: &Device<P>, udata: &mut Udata<'_>) -> Result<Self>;
}

/// The operation `alloc_ucontext`.
///
/// # Safety
///
/// To be called as [`ops`](super::ops) says.
pub(super) unsafe extern "C" fn alloc<P: Provider>(
    context: *mut b::ib_ucontext,
    udata: *mut b::ib_udata,
) -> c_int {
    from_result(|| {
        // SAFETY: The core sets the device before the call.
        let device = unsafe { (*context).device };
        // SAFETY: The device outlives the context and is of this provider.
        let device = unsafe { Device::<P>::from_raw(device) };
        // SAFETY: `udata` is valid during the call.
        let mut udata = unsafe { Udata::from_raw(udata) }.ok_or(EINVAL)?;
        let data = P::Context::create(device, &mut udata)?;
        // SAFETY: The core allocated `Context::<P>::SIZE` bytes, and this is the create
        // operation.
        unsafe { Context::<P>::init(context, data, ()) };
        Ok(0)
    })
}

/// The operation `dealloc_ucontext`.
///
/// # Safety
///
/// To be called as [`ops`](super::ops) says.
pub(super) unsafe extern "C" fn dealloc<P: Provider>(context: *mut b::ib_ucontext) {
    // SAFETY: This is the destroy operation.
    drop(unsafe { Context::<P>::take(context) });
}

/// The operation `disassociate_ucontext`.
///
/// The device goes away while the process still has its file open.
///
/// There is nothing to do: before this call the core has destroyed all objects of the
/// context, and it has detached the file from the device so that no operation comes any
/// more. That the operation exists is what makes the core do so, rather than wait for the
/// process to close its file. What the process has mapped stays mapped, see
/// [`Mappable`](super::Mappable).
///
/// # Safety
///
/// To be called as [`ops`](super::ops) says.
pub(super) unsafe extern "C" fn disassociate(_context: *mut b::ib_ucontext) {}
