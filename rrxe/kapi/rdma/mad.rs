// SPDX-License-Identifier: GPL-2.0

//! Management datagrams that a device answers itself.

use super::{
    port,
    Device,
    Provider,
    ProviderDevice, //
};
use crate::kapi::bindings as b;
use kernel::prelude::*;

/// Bytes of a management datagram.
const MAD_SIZE: usize = b::IB_MGMT_MAD_SIZE as usize;

/// A management datagram ([`struct ib_mad`]).
///
/// [`struct ib_mad`]: srctree/include/rdma/ib_mad.h
pub(crate) type Mad = [u8; MAD_SIZE];

/// The operation `process_mad`.
///
/// # Safety
///
/// To be called by the RDMA core, as [`ops`](super::ops) says.
pub(super) unsafe extern "C" fn process<P: Provider>(
    ib: *mut b::ib_device,
    _flags: c_int,
    port: u32,
    _wc: *const b::ib_wc,
    _grh: *const b::ib_grh,
    request: *const b::ib_mad,
    response: *mut b::ib_mad,
    _response_size: *mut usize,
    _response_pkey_index: *mut u16,
) -> c_int {
    if port != port::NUMBER {
        return b::ib_mad_result_IB_MAD_RESULT_FAILURE as c_int;
    }
    // SAFETY: The core passes a live device.
    let device = unsafe { Device::<P>::from_raw(ib) };
    // SAFETY: The core passes a datagram that nobody changes meanwhile. It has that size.
    let request = unsafe { &*request.cast::<Mad>() };
    let Some(answer) = device.data().answer(request) else {
        return b::ib_mad_result_IB_MAD_RESULT_SUCCESS as c_int;
    };
    // SAFETY: The core passes a place for a datagram of that size.
    unsafe { response.cast::<Mad>().write(answer) };
    (b::ib_mad_result_IB_MAD_RESULT_SUCCESS | b::ib_mad_result_IB_MAD_RESULT_REPLY) as c_int
}
