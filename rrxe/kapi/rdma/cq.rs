// SPDX-License-Identifier: GPL-2.0

//! Completion queues.

use super::{
    cq_notify::NotifyOwner,
    event::{
        CqEvents,
        EventOwner, //
    },
    object::Cq,
    wc::CompletionPlace,
    CqNotify,
    Details,
    Device,
    Provider,
    Udata, //
};
use crate::kapi::bindings as b;
use core::{
    ptr,
    slice,
    time::Duration, //
};
use kernel::{
    error::from_result,
    new_mutex,
    prelude::*, //
};

/// What the creator of a completion queue asks for.
#[derive(Clone, Copy, Debug)]
pub(crate) struct CqInit {
    /// Completions that must fit, at least 1.
    pub(crate) entries: u32,
    /// Special wishes: bits of [`enum ib_uverbs_ex_create_cq_flags`].
    ///
    /// [`enum ib_uverbs_ex_create_cq_flags`]: srctree/include/uapi/rdma/ib_user_ioctl_verbs.h
    pub(crate) flags: u32,
}

/// What a consumer wants to be notified of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Moment {
    /// The next completion.
    Next,
    /// The next completion that is solicited or an error.
    Solicited,
}

/// The driver's part of a completion queue.
pub(crate) trait CompletionQueue<P: Provider<Cq = Self>>: Sized + Send + Sync {
    /// Makes a completion queue. `udata` is `None` for a user inside the kernel.
    ///
    /// Process context, may sleep.
    fn create(
        device: &Device<P>,
        init: &CqInit,
        notify: CqNotify,
        events: CqEvents,
        udata: Option<&mut Udata<'_>>,
    ) -> Result<Self>;

    /// Completions that fit, at least what was asked for.
    fn entries(&self) -> u32;

    /// Asks for one call of [`CqNotify::notify`] at `moment`.
    ///
    /// Returns whether the queue holds completions already. Any context.
    fn arm(&self, moment: Moment) -> bool;

    /// Has the consumer notified of no fewer than `count` completions at once, or when `period` has
    /// passed since the first of those that it waits for. Zero of either: at once. May sleep.
    fn moderate(&self, count: u16, period: Duration);

    /// Takes completions off the queue of a user inside the kernel, oldest first, to `places`, and
    /// returns how many. Any context.
    ///
    /// # Errors
    ///
    /// `EOPNOTSUPP` for the queue of a user process, who polls by itself.
    fn poll(&self, device: &Device<P>, places: &mut [CompletionPlace]) -> Result<usize>;

    /// Makes room for `entries` completions, or fails and changes nothing.
    ///
    /// What was shared with the user process before is not to be had any more once this
    /// succeeds, but what the process has mapped stays. Process context, may sleep. One call
    /// at a time.
    fn resize(&self, entries: u32, udata: &mut Udata<'_>) -> Result;

    /// Adds what there is to tell of it to whoever looks on. Process context, may sleep.
    fn describe(&self, details: &mut Details);

    /// Tears the queue down; no queue pair uses it any more. May sleep.
    fn destroy(self) {}
}

/// The operation `create_cq`.
///
/// # Safety
///
/// To be called by the RDMA core, as [`ops`](super::ops) says.
pub(super) unsafe extern "C" fn create<P: Provider>(
    cq: *mut b::ib_cq,
    attr: *const b::ib_cq_init_attr,
    attrs: *mut b::uverbs_attr_bundle,
) -> c_int {
    // SAFETY: The core passes a valid structure that it does not touch meanwhile.
    let attr = unsafe { &*attr };
    let init = CqInit {
        entries: attr.cqe,
        flags: attr.flags,
    };
    let udata = if attrs.is_null() {
        ptr::null_mut()
    } else {
        // SAFETY: The core passes null or a valid bundle.
        unsafe { b::helpers::uverbs_attr_bundle_udata(attrs) }
    };
    let make = |device: &Device<P>, mut udata: Option<Udata<'_>>| {
        // SAFETY: `cq` stays valid until its destroy operation, and so does the owner.
        let notify = unsafe { NotifyOwner::new(cq, attr.comp_vector) }?;
        // SAFETY: `cq` stays valid until its destroy operation, and so does the owner.
        let events = unsafe { EventOwner::new(cq) }?;
        let mappings = KBox::pin_init(new_mutex!(KVec::new()), GFP_KERNEL_ACCOUNT)?;

        let data = P::Cq::create(
            device,
            &init,
            notify.handle(),
            events.handle(),
            udata.as_mut(),
        )?;
        *mappings.lock() = Udata::into_mappings(udata);
        let entries = c_int::try_from(data.entries())?;
        // SAFETY: The queue is ours until we return.
        unsafe { (*cq).cqe = entries };
        Ok((data, (notify, events, mappings)))
    };
    // SAFETY: This is the create operation.
    unsafe { Cq::<P>::create(cq, udata, make) }
}

/// The operation `destroy_cq`.
///
/// # Safety
///
/// To be called by the RDMA core, as [`ops`](super::ops) says.
pub(super) unsafe extern "C" fn destroy<P: Provider>(
    cq: *mut b::ib_cq,
    _udata: *mut b::ib_udata,
) -> c_int {
    // SAFETY: This is the destroy operation.
    unsafe { Cq::<P>::destroy(cq, P::Cq::destroy) };
    0
}

/// The operation `resize_user_cq`.
///
/// # Safety
///
/// To be called by the RDMA core, as [`ops`](super::ops) says.
pub(super) unsafe extern "C" fn resize<P: Provider>(
    cq: *mut b::ib_cq,
    entries: c_uint,
    udata: *mut b::ib_udata,
) -> c_int {
    from_result(|| {
        // SAFETY: The core passes a live queue.
        let object = unsafe { Cq::<P>::from_raw(cq) };
        // SAFETY: `udata` is valid during the call.
        let mut udata = unsafe { Udata::from_raw(udata) }.ok_or(EINVAL)?;
        // The core lets several threads in. This keeps them apart.
        let (_, _, mappings) = object.handles();
        let mut mappings = mappings.lock();
        object.resize(entries, &mut udata)?;
        let entries = c_int::try_from(object.entries())?;
        // SAFETY: The queue is live.
        let cqe = unsafe { &raw mut (*cq).cqe };
        // SAFETY: Only resizes write it. The core may read it meanwhile, hence the volatile access.
        unsafe { cqe.write_volatile(entries) };
        *mappings = Udata::into_mappings(Some(udata));
        Ok(0)
    })
}

/// The operation `modify_cq`. The period is in microseconds.
///
/// # Safety
///
/// To be called by the RDMA core, as [`ops`](super::ops) says.
pub(super) unsafe extern "C" fn modify<P: Provider>(
    cq: *mut b::ib_cq,
    count: u16,
    period: u16,
) -> c_int {
    // SAFETY: The core passes a live queue.
    let cq = unsafe { Cq::<P>::from_raw(cq) };
    cq.moderate(count, Duration::from_micros(period.into()));
    0
}

/// The operation `req_notify_cq`.
///
/// # Safety
///
/// To be called by the RDMA core, as [`ops`](super::ops) says.
pub(super) unsafe extern "C" fn arm<P: Provider>(
    cq: *mut b::ib_cq,
    flags: b::ib_cq_notify_flags,
) -> c_int {
    // SAFETY: The core passes a live queue.
    let cq = unsafe { Cq::<P>::from_raw(cq) };
    let moment = if flags & b::ib_cq_notify_flags_IB_CQ_NEXT_COMP != 0 {
        Moment::Next
    } else {
        Moment::Solicited
    };
    let missed = cq.arm(moment);
    let report = flags & b::ib_cq_notify_flags_IB_CQ_REPORT_MISSED_EVENTS != 0;
    c_int::from(missed && report)
}

/// The operation `poll_cq`.
///
/// # Safety
///
/// To be called by the RDMA core, as [`ops`](super::ops) says.
pub(super) unsafe extern "C" fn poll<P: Provider>(
    cq: *mut b::ib_cq,
    count: c_int,
    places: *mut b::ib_wc,
) -> c_int {
    from_result(|| {
        // SAFETY: The core passes a live queue.
        let cq = unsafe { Cq::<P>::from_raw(cq) };
        let count = usize::try_from(count)?;
        // SAFETY: The core passes that many places, which are ours meanwhile; the type takes
        // whatever is there.
        let places = unsafe { slice::from_raw_parts_mut(places.cast::<CompletionPlace>(), count) };
        Ok(c_int::try_from(cq.poll(cq.device(), places)?)?)
    })
}
