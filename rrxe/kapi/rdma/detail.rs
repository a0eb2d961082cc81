// SPDX-License-Identifier: GPL-2.0

//! What a driver tells of its objects beyond what the core knows: `rdma resource show ... -dd`.
//!
//! C header: [`include/rdma/restrack.h`](srctree/include/rdma/restrack.h)

use super::{
    object::{
        Cq,
        Mr,
        Qp,
        Srq, //
    },
    CompletionQueue,
    MemoryRegion,
    Provider,
    QueuePair,
    SharedReceiveQueue, //
};
use crate::kapi::bindings as b;
use core::ptr::NonNull;
use kernel::{
    error::{
        from_result,
        to_result, //
    },
    prelude::*,
    str::CStr, //
};

/// Names and values, in the order in which they are added.
///
/// What does not fit any more is left out; the core then asks again, with more room.
///
/// # Invariants
///
/// `message` is one that the core fills in, and that no one else does meanwhile.
pub(crate) struct Details {
    message: NonNull<b::sk_buff>,
    result: Result,
}

impl Details {
    /// Adds a number.
    pub(crate) fn number(&mut self, name: &'static CStr, value: impl Into<u64>) -> &mut Self {
        // SAFETY: By the type invariant.
        self.add(|message| unsafe {
            b::rdma_nl_put_driver_u64(message, name.as_char_ptr(), value.into())
        })
    }

    /// Adds a number that is shown in hexadecimal digits.
    pub(crate) fn hex(&mut self, name: &'static CStr, value: impl Into<u64>) -> &mut Self {
        // SAFETY: By the type invariant.
        self.add(|message| unsafe {
            b::rdma_nl_put_driver_u64_hex(message, name.as_char_ptr(), value.into())
        })
    }

    /// Adds a word.
    pub(crate) fn word(&mut self, name: &'static CStr, value: &'static CStr) -> &mut Self {
        // SAFETY: By the type invariant.
        self.add(|message| unsafe {
            b::rdma_nl_put_driver_string(message, name.as_char_ptr(), value.as_char_ptr())
        })
    }

    fn add(&mut self, put: impl FnOnce(*mut b::sk_buff) -> c_int) -> &mut Self {
        if self.result.is_ok() {
            self.result = to_result(put(self.message.as_ptr()));
        }
        self
    }
}

/// Whether the calling process may see details. They are for administrators: whoever knows the keys,
/// addresses and PSNs of others can forge packets, and looking at a queue pair holds it up.
fn may_look() -> bool {
    // SAFETY: The namespace is static.
    unsafe { b::ns_capable_noaudit(&raw mut b::init_user_ns, b::CAP_NET_ADMIN as c_int) }
}

/// Adds the details that `describe` gives to `message`, or nothing if there is no room or if the
/// calling process may not see them.
///
/// # Safety
///
/// `message` must be one that the core fills in, and no one else's meanwhile.
unsafe fn fill(message: *mut b::sk_buff, describe: impl FnOnce(&mut Details)) -> c_int {
    if !may_look() {
        return 0;
    }
    from_result(|| {
        // INVARIANT: By the requirements.
        let mut details = Details {
            message: NonNull::new(message).ok_or(EINVAL)?,
            result: Ok(()),
        };
        // SAFETY: By the requirements.
        let nest = unsafe { b::helpers::rdma_details_begin(message) };
        if nest.is_null() {
            return Err(EMSGSIZE);
        }
        describe(&mut details);
        match details.result {
            // SAFETY: The nest is of this message, and open.
            Ok(()) => unsafe { b::helpers::rdma_details_end(message, nest) },
            // SAFETY: As above.
            Err(_) => unsafe { b::helpers::rdma_details_cancel(message, nest) },
        }
        details.result.map(|()| 0)
    })
}

/// The operation `fill_res_qp_entry`.
///
/// # Safety
///
/// To be called by the RDMA core, as [`ops`](super::ops) says.
pub(super) unsafe extern "C" fn qp<P: Provider>(
    message: *mut b::sk_buff,
    qp: *mut b::ib_qp,
) -> c_int {
    // SAFETY: The core passes a live queue pair.
    let qp = unsafe { Qp::<P>::from_raw(qp) };
    // SAFETY: The core passes the message that it fills in.
    unsafe { fill(message, |details| qp.describe(details)) }
}

/// The operation `fill_res_cq_entry`.
///
/// # Safety
///
/// To be called by the RDMA core, as [`ops`](super::ops) says.
pub(super) unsafe extern "C" fn cq<P: Provider>(
    message: *mut b::sk_buff,
    cq: *mut b::ib_cq,
) -> c_int {
    // SAFETY: The core passes a live queue.
    let cq = unsafe { Cq::<P>::from_raw(cq) };
    // SAFETY: The core passes the message that it fills in.
    unsafe { fill(message, |details| cq.describe(details)) }
}

/// The operation `fill_res_srq_entry`.
///
/// # Safety
///
/// To be called by the RDMA core, as [`ops`](super::ops) says.
pub(super) unsafe extern "C" fn srq<P: Provider>(
    message: *mut b::sk_buff,
    srq: *mut b::ib_srq,
) -> c_int {
    // SAFETY: The core passes a live queue.
    let srq = unsafe { Srq::<P>::from_raw(srq) };
    // SAFETY: The core passes the message that it fills in.
    unsafe { fill(message, |details| srq.describe(details)) }
}

/// The operation `fill_res_mr_entry`.
///
/// # Safety
///
/// To be called by the RDMA core, as [`ops`](super::ops) says.
pub(super) unsafe extern "C" fn mr<P: Provider>(
    message: *mut b::sk_buff,
    mr: *mut b::ib_mr,
) -> c_int {
    // SAFETY: The core passes a live region.
    let mr = unsafe { Mr::<P>::from_raw(mr) };
    // SAFETY: The core passes the message that it fills in.
    unsafe { fill(message, |details| mr.describe(details)) }
}
