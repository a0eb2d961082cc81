// SPDX-License-Identifier: GPL-2.0

//! What a port counts: `rdma statistic show`, and `hw_counters` in sysfs.

use super::{
    port,
    Device,
    Provider,
    ProviderDevice, //
};
use crate::kapi::bindings as b;
use core::ptr;
use kernel::{
    error::from_result,
    prelude::*,
    str::CStr, //
};

/// The name of something that is counted ([`struct rdma_stat_desc`]).
///
/// [`struct rdma_stat_desc`]: srctree/include/rdma/ib_verbs.h
#[repr(transparent)]
pub(crate) struct StatDesc(b::rdma_stat_desc);

// SAFETY: The pointers in it are to what never changes, or null.
unsafe impl Sync for StatDesc {}

impl StatDesc {
    /// Something called `name`.
    pub(crate) const fn new(name: &'static CStr) -> Self {
        Self(b::rdma_stat_desc {
            name: name.to_bytes_with_nul().as_ptr().cast(),
            flags: 0,
            priv_: ptr::null(),
        })
    }
}

/// The operation `alloc_hw_port_stats`.
///
/// # Safety
///
/// To be called by the RDMA core, as [`ops`](super::ops) says.
pub(super) unsafe extern "C" fn alloc<P: Provider>(
    _ib: *mut b::ib_device,
    _port: u32,
) -> *mut b::rdma_hw_stats {
    allocate::<P>()
}

/// Makes a place for the values of what is counted; null when out of memory.
pub(super) fn allocate<P: Provider>() -> *mut b::rdma_hw_stats {
    let descs = P::Device::counters();
    let Ok(count) = c_int::try_from(descs.len()) else {
        return ptr::null_mut();
    };
    // SAFETY: The descriptions are valid for ever, and as many.
    unsafe {
        b::rdma_alloc_hw_stats_struct(
            descs.as_ptr().cast(),
            count,
            b::RDMA_HW_STATS_DEFAULT_LIFESPAN as c_ulong,
        )
    }
}

/// The operation `get_hw_stats`. Always gives all values.
///
/// # Safety
///
/// To be called by the RDMA core, as [`ops`](super::ops) says.
pub(super) unsafe extern "C" fn get<P: Provider>(
    ib: *mut b::ib_device,
    stats: *mut b::rdma_hw_stats,
    port: u32,
    _index: c_int,
) -> c_int {
    from_result(|| {
        if port != port::NUMBER || stats.is_null() {
            return Err(EINVAL);
        }
        // SAFETY: The core passes a live device.
        let device = unsafe { Device::<P>::from_raw(ib) };
        // SAFETY: The core passes what `alloc` made, and holds its lock.
        unsafe { fill::<P>(stats, |index| device.data().count(index)) };
        Ok(c_int::try_from(P::Device::counters().len())?)
    })
}

/// Writes what there is of each thing that is counted.
///
/// # Safety
///
/// `stats` must be what [`allocate`] made, and no one else's meanwhile.
pub(super) unsafe fn fill<P: Provider>(stats: *mut b::rdma_hw_stats, count: impl Fn(usize) -> u64) {
    // SAFETY: By the requirements.
    let values = unsafe { (*stats).value.as_mut_ptr() };
    for index in 0..P::Device::counters().len() {
        // SAFETY: There are as many places as descriptions.
        let place = unsafe { values.add(index) };
        // SAFETY: As above.
        unsafe { place.write(count(index)) };
    }
}
