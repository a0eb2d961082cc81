// SPDX-License-Identifier: GPL-2.0

//! Shared receive queues.

use super::{
    event::{
        EventOwner,
        SrqEvents, //
    },
    object::{
        Pd,
        Srq, //
    },
    wr::ReceiveList,
    Details,
    Provider,
    Udata, //
};
use crate::kapi::{
    bindings as b,
    error::eopnotsupp, //
};
use kernel::{
    error::from_result,
    new_mutex,
    prelude::*, //
};

/// Sizes of a shared receive queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SrqCaps {
    /// Work requests that fit.
    pub(crate) max_wr: u32,
    /// Scatter entries of a request.
    pub(crate) max_sge: u32,
}

/// What a change of a shared receive queue asks for.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SrqModify {
    /// Work requests that shall fit.
    pub(crate) max_wr: Option<u32>,
    /// Raise [`LimitReached`](super::SrqEvent::LimitReached), once, when fewer requests are left;
    /// 0 for never.
    pub(crate) limit: Option<u32>,
}

/// The driver's part of a shared receive queue.
pub(crate) trait SharedReceiveQueue<P: Provider<Srq = Self>>: Sized + Send + Sync {
    /// Makes a queue on `pd` with at least the sizes asked for. `udata` is `None` for a user inside
    /// the kernel.
    ///
    /// Process context, may sleep.
    fn create(
        pd: &Pd<P>,
        caps: SrqCaps,
        events: SrqEvents,
        udata: Option<&mut Udata<'_>>,
    ) -> Result<Self>;

    /// The sizes that it has.
    fn caps(&self) -> SrqCaps;

    /// How few requests are to be warned of; 0 if none are, or if that has been done.
    fn limit(&self) -> u32;

    /// Takes the requests of a user inside the kernel, up to the first that it refuses. Any context.
    ///
    /// # Errors
    ///
    /// `EOPNOTSUPP` for the queue of a user process, `EINVAL` for a request that makes no sense,
    /// `ENOMEM` if the queue is full.
    fn post(&self, requests: &mut ReceiveList) -> Result;

    /// Changes it, or nothing if it fails.
    ///
    /// What was shared with the user process before is not to be had any more once a change of
    /// size succeeds, but what the process has mapped stays. Process context, may sleep. One call
    /// at a time.
    fn modify(&self, change: &SrqModify, udata: Option<&mut Udata<'_>>) -> Result;

    /// Adds what there is to tell of it to whoever looks on. Process context, may sleep.
    fn describe(&self, details: &mut Details);

    /// Tears the queue down; no queue pair uses it any more. May sleep.
    fn destroy(self) {}
}

/// The operation `create_srq`.
///
/// # Safety
///
/// To be called by the RDMA core, as [`ops`](super::ops) says.
pub(super) unsafe extern "C" fn create<P: Provider>(
    srq: *mut b::ib_srq,
    init: *mut b::ib_srq_init_attr,
    udata: *mut b::ib_udata,
) -> c_int {
    // SAFETY: The core passes a valid structure that it does not touch meanwhile.
    let init = unsafe { &mut *init };
    let make = |pd: &Pd<P>, mut udata: Option<Udata<'_>>| {
        if init.srq_type != b::ib_srq_type_IB_SRQT_BASIC {
            return Err(eopnotsupp());
        }
        let wanted = SrqCaps {
            max_wr: init.attr.max_wr,
            max_sge: init.attr.max_sge,
        };
        // SAFETY: `srq` stays valid until its destroy operation, and so does the owner.
        let events = unsafe { EventOwner::new(srq) }?;
        let mappings = KBox::pin_init(new_mutex!(KVec::new()), GFP_KERNEL_ACCOUNT)?;
        let data = P::Srq::create(pd, wanted, events.handle(), udata.as_mut())?;
        *mappings.lock() = Udata::into_mappings(udata);

        let caps = data.caps();
        init.attr.max_wr = caps.max_wr;
        init.attr.max_sge = caps.max_sge;
        Ok((data, (events, mappings)))
    };
    // SAFETY: This is the create operation.
    unsafe { Srq::<P>::create(srq, udata, make) }
}

/// The operation `destroy_srq`.
///
/// # Safety
///
/// To be called by the RDMA core, as [`ops`](super::ops) says.
pub(super) unsafe extern "C" fn destroy<P: Provider>(
    srq: *mut b::ib_srq,
    _udata: *mut b::ib_udata,
) -> c_int {
    // SAFETY: This is the destroy operation.
    unsafe { Srq::<P>::destroy(srq, P::Srq::destroy) };
    0
}

/// The operation `modify_srq`.
///
/// # Safety
///
/// To be called by the RDMA core, as [`ops`](super::ops) says.
pub(super) unsafe extern "C" fn modify<P: Provider>(
    srq: *mut b::ib_srq,
    attr: *mut b::ib_srq_attr,
    mask: b::ib_srq_attr_mask,
    udata: *mut b::ib_udata,
) -> c_int {
    const KNOWN: b::ib_srq_attr_mask =
        b::ib_srq_attr_mask_IB_SRQ_MAX_WR | b::ib_srq_attr_mask_IB_SRQ_LIMIT;

    from_result(|| {
        if mask & !KNOWN != 0 {
            return Err(EINVAL);
        }
        // SAFETY: The core passes a live queue.
        let object = unsafe { Srq::<P>::from_raw(srq) };
        // SAFETY: The core passes valid attributes that it does not touch meanwhile.
        let attr = unsafe { &*attr };
        let given = |bit, value| (mask & bit != 0).then_some(value);
        let change = SrqModify {
            max_wr: given(b::ib_srq_attr_mask_IB_SRQ_MAX_WR, attr.max_wr),
            limit: given(b::ib_srq_attr_mask_IB_SRQ_LIMIT, attr.srq_limit),
        };
        // SAFETY: `udata` is null or valid during the call.
        let mut udata = unsafe { Udata::from_raw(udata) };
        // The core lets several threads in. This keeps them apart.
        let (_, mappings) = object.handles();
        let mut mappings = mappings.lock();
        object.modify(&change, udata.as_mut())?;
        if change.max_wr.is_some() {
            *mappings = Udata::into_mappings(udata);
        }
        Ok(0)
    })
}

/// The operation `query_srq`.
///
/// # Safety
///
/// To be called by the RDMA core, as [`ops`](super::ops) says.
pub(super) unsafe extern "C" fn query<P: Provider>(
    srq: *mut b::ib_srq,
    attr: *mut b::ib_srq_attr,
) -> c_int {
    // SAFETY: The core passes a live queue.
    let srq = unsafe { Srq::<P>::from_raw(srq) };
    let caps = srq.caps();
    let found = b::ib_srq_attr {
        max_wr: caps.max_wr,
        max_sge: caps.max_sge,
        srq_limit: srq.limit(),
    };
    // SAFETY: The core passes a place for attributes that it does not touch meanwhile.
    unsafe { attr.write(found) };
    0
}

/// The operation `post_srq_recv`.
///
/// # Safety
///
/// To be called by the RDMA core, as [`ops`](super::ops) says.
pub(super) unsafe extern "C" fn post_recv<P: Provider>(
    srq: *mut b::ib_srq,
    list: *const b::ib_recv_wr,
    bad: *mut *const b::ib_recv_wr,
) -> c_int {
    from_result(|| {
        // SAFETY: The core passes a live queue.
        let srq = unsafe { Srq::<P>::from_raw(srq) };
        // SAFETY: The core passes a list that stays valid during the call.
        let mut requests = unsafe { ReceiveList::new(list) };
        let posted = srq.post(&mut requests);
        if posted.is_err() {
            // SAFETY: The core passes a valid place for the first request not posted.
            unsafe { bad.write(requests.first()) };
        }
        posted.map(|()| 0)
    })
}
