// SPDX-License-Identifier: GPL-2.0

//! User contexts: one for each device file that a process has opened.

use super::{
    object::Context,
    Device,
    Provider,
    Udata, //
};
use crate::kapi::bindings as b;
use kernel::prelude::*;

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
/// To be called by the RDMA core, as [`ops`](super::ops) says.
pub(super) unsafe extern "C" fn alloc<P: Provider>(
    context: *mut b::ib_ucontext,
    udata: *mut b::ib_udata,
) -> c_int {
    let make = |device: &Device<P>, udata: Option<Udata<'_>>| {
        let mut udata = udata.ok_or(EINVAL)?;
        Ok((P::Context::create(device, &mut udata)?, ()))
    };
    // SAFETY: This is the create operation.
    unsafe { Context::<P>::create(context, udata, make) }
}

/// The operation `dealloc_ucontext`.
///
/// # Safety
///
/// To be called by the RDMA core, as [`ops`](super::ops) says.
pub(super) unsafe extern "C" fn dealloc<P: Provider>(context: *mut b::ib_ucontext) {
    // SAFETY: This is the destroy operation.
    unsafe { Context::<P>::destroy(context, drop) };
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
/// To be called by the RDMA core, as [`ops`](super::ops) says.
pub(super) unsafe extern "C" fn disassociate(_context: *mut b::ib_ucontext) {}
