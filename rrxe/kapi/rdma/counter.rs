// SPDX-License-Identifier: GPL-2.0

//! Counters that queue pairs are bound to: `rdma statistic qp`.
//!
//! What the core calls a counter is a set of them, one for each thing that the port counts. Queue pairs
//! are bound to it and from it, by hand or as they are made. For the core, which adds the two, what is
//! counted there is not counted by the port.
//!
//! C header: [`include/rdma/rdma_counter.h`](srctree/include/rdma/rdma_counter.h)

use super::{
    object::Qp,
    stats,
    Device,
    Provider,
    ProviderDevice,
    QueuePair, //
};
use crate::kapi::bindings as b;
use core::ptr;
use kernel::{
    error::from_result,
    prelude::*, //
};

/// Size of a counter; there is nothing of the driver's in it but its number.
pub(super) const SIZE: usize = size_of::<b::rdma_counter>();

/// The operation `counter_init`.
///
/// # Safety
///
/// To be called by the RDMA core, as [`ops`](super::ops) says.
pub(super) unsafe extern "C" fn init(_counter: *mut b::rdma_counter) {}

/// The operation `counter_alloc_stats`.
///
/// # Safety
///
/// To be called by the RDMA core, as [`ops`](super::ops) says.
pub(super) unsafe extern "C" fn alloc_stats<P: Provider>(
    _counter: *mut b::rdma_counter,
) -> *mut b::rdma_hw_stats {
    stats::allocate::<P>()
}

/// The operation `counter_bind_qp`. The first one makes the set: if that fails the core calls no
/// other operation of the counter.
///
/// # Safety
///
/// To be called by the RDMA core, as [`ops`](super::ops) says, with the lock of the counter.
pub(super) unsafe extern "C" fn bind_qp<P: Provider>(
    counter: *mut b::rdma_counter,
    qp: *mut b::ib_qp,
    _port: u32,
) -> c_int {
    from_result(|| {
        // SAFETY: The core passes a live queue pair.
        let object = unsafe { Qp::<P>::from_raw(qp) };
        // SAFETY: The core passes a valid counter, whose number only this operation writes.
        let id = unsafe { &mut (*counter).id };
        if *id == 0 {
            *id = object.device().data().add_tally()?;
        }
        object.bind_tally(Some(*id));
        // SAFETY: The member is the driver's to set; the core reads it while it is changed.
        unsafe { ptr::write_volatile(&raw mut (*qp).counter, counter) };
        Ok(0)
    })
}

/// The operation `counter_unbind_qp`.
///
/// # Safety
///
/// To be called by the RDMA core, as [`ops`](super::ops) says, for a queue pair that is bound, with the
/// lock of its counter.
pub(super) unsafe extern "C" fn unbind_qp<P: Provider>(qp: *mut b::ib_qp, _port: u32) -> c_int {
    // SAFETY: The member is the driver's to set; the core reads it while it is changed.
    unsafe { ptr::write_volatile(&raw mut (*qp).counter, ptr::null_mut()) };
    // SAFETY: The core passes a live queue pair.
    unsafe { Qp::<P>::from_raw(qp) }.bind_tally(None);
    0
}

/// The operation `counter_dealloc`.
///
/// # Safety
///
/// To be called by the RDMA core, as [`ops`](super::ops) says, when no queue pair is bound any more.
pub(super) unsafe extern "C" fn dealloc<P: Provider>(counter: *mut b::rdma_counter) -> c_int {
    // SAFETY: The core passes a valid counter.
    let (device, id) = unsafe { parts::<P>(counter) };
    device.data().remove_tally(id);
    0
}

/// The operation `counter_update_stats`.
///
/// # Safety
///
/// To be called by the RDMA core, as [`ops`](super::ops) says.
pub(super) unsafe extern "C" fn update_stats<P: Provider>(counter: *mut b::rdma_counter) -> c_int {
    // SAFETY: The core passes a valid counter.
    let (device, id) = unsafe { parts::<P>(counter) };
    // SAFETY: `alloc_stats` has made them; the core holds the lock of the counter.
    unsafe { stats::fill::<P>((*counter).stats, |index| device.data().tally(id, index)) };
    0
}

/// The device of a counter, and its number.
///
/// # Safety
///
/// The counter must be one of the core's that has a number, and stay valid during `'a`.
unsafe fn parts<'a, P: Provider>(counter: *mut b::rdma_counter) -> (&'a Device<P>, u32) {
    // SAFETY: By the requirements.
    let ib = unsafe { (*counter).device };
    // SAFETY: As above.
    let id = unsafe { (*counter).id };
    // SAFETY: The device of a counter is alive.
    (unsafe { Device::from_raw(ib) }, id)
}
