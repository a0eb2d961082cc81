// SPDX-License-Identifier: GPL-2.0

//! Asynchronous events of queue pairs, completion queues and shared receive queues.
//!
//! The driver finds them anywhere, often in a softirq or under its locks, but the handlers
//! of the RDMA core's users may expect process context. So an event is noted and delivered
//! from a workqueue. The same event raised again before it has been delivered is one event.

use crate::kapi::{
    bindings as b,
    sync::{
        new_spinlock_bh,
        SpinLockBh, //
    },
    work::system_queue, //
};
use core::{
    mem,
    ptr::NonNull, //
};
use kernel::{
    impl_has_work, new_work,
    prelude::*,
    sync::Arc,
    workqueue::{
        Work,
        WorkItem, //
    },
};

/// An event of a queue pair ([`enum ib_event_type`]).
///
/// [`enum ib_event_type`]: srctree/include/rdma/ib_verbs.h
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub(crate) enum QpEvent {
    /// An error that has no completion to be told by; the queue pair is in state ERR.
    Fatal = b::ib_event_type_IB_EVENT_QP_FATAL,
    /// The peer sent an invalid request.
    RequestError = b::ib_event_type_IB_EVENT_QP_REQ_ERR,
    /// The peer touched memory it may not.
    AccessError = b::ib_event_type_IB_EVENT_QP_ACCESS_ERR,
    /// The first packet came while the queue pair was only ready to receive.
    Established = b::ib_event_type_IB_EVENT_COMM_EST,
    /// The send queue has drained.
    SqDrained = b::ib_event_type_IB_EVENT_SQ_DRAINED,
    /// No more requests of the shared receive queue complete here.
    LastWqeReached = b::ib_event_type_IB_EVENT_QP_LAST_WQE_REACHED,
}

/// An event of a completion queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub(crate) enum CqEvent {
    /// The queue has overrun and is dead.
    Error = b::ib_event_type_IB_EVENT_CQ_ERR,
}

/// An event of a shared receive queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub(crate) enum SrqEvent {
    /// Fewer requests are left than the limit.
    LimitReached = b::ib_event_type_IB_EVENT_SRQ_LIMIT_REACHED,
}

/// A kind of object that has events.
///
/// # Safety
///
/// - Codes of events are below 32.
/// - `deliver` does nothing but call the handler that the object's creator registered.
pub(crate) unsafe trait EventSource: 'static {
    /// The C structure.
    type Raw;
    /// The driver's events.
    type Event: Copy;

    /// The C code of `event`.
    fn code(event: Self::Event) -> u32;

    /// Calls the registered handler.
    ///
    /// # Safety
    ///
    /// `raw` must be a valid object. Process context.
    unsafe fn deliver(raw: NonNull<Self::Raw>, code: b::ib_event_type);
}

macro_rules! event_source {
    ($name:ident: $raw:ident, $event:ident, $deliver:path) => {
        /// Marks what the events come from.
        pub(crate) struct $name;

        // SAFETY: All codes come from `enum ib_event_type`, which has about 20, and `deliver`
        // only calls the handler.
        unsafe impl EventSource for $name {
            type Raw = b::$raw;
            type Event = $event;

            fn code(event: $event) -> u32 {
                event as u32
            }

            unsafe fn deliver(raw: NonNull<b::$raw>, code: b::ib_event_type) {
                // SAFETY: The object is valid by the requirements.
                unsafe { $deliver(raw.as_ptr(), code) };
            }
        }
    };
}

event_source!(QpSource: ib_qp, QpEvent, b::helpers::ib_qp_deliver);
event_source!(CqSource: ib_cq, CqEvent, b::helpers::ib_cq_deliver);
event_source!(SrqSource: ib_srq, SrqEvent, b::helpers::ib_srq_deliver);

/// Events on their way to the handler.
///
/// # Invariants
///
/// `source` is valid for as long as `work` can run.
#[pin_data]
struct Mailbox<S: EventSource> {
    source: NonNull<S::Raw>,
    /// Bit `1 << code` of each event not yet delivered.
    #[pin]
    pending: SpinLockBh<u32>,
    #[pin]
    work: Work<Mailbox<S>>,
}

// SAFETY: `source` is used only by the work, for calls that any thread may make.
unsafe impl<S: EventSource> Send for Mailbox<S> {}

// SAFETY: As for `Send`; the rest is synchronized.
unsafe impl<S: EventSource> Sync for Mailbox<S> {}

impl_has_work! {
    impl{S: EventSource} HasWork<Self> for Mailbox<S> { self.work }
}

impl<S: EventSource> WorkItem for Mailbox<S> {
    type Pointer = Arc<Self>;

    fn run(this: Arc<Self>) {
        let mut pending = mem::take(&mut *this.pending.lock());
        while pending != 0 {
            let code = pending.trailing_zeros();
            pending &= pending.wrapping_sub(1);
            // SAFETY: This is the work, so that `source` is valid by the type invariant.
            unsafe { S::deliver(this.source, code) };
        }
    }
}

/// A queue pair as its consumer inside the kernel knows it: good for nothing but to be given back.
#[derive(Clone, Copy, Debug)]
pub(crate) struct QpObject(NonNull<b::ib_qp>);

// SAFETY: The pointer is not used.
unsafe impl Send for QpObject {}

// SAFETY: As above.
unsafe impl Sync for QpObject {}

impl QpObject {
    pub(super) fn as_ptr(self) -> *mut b::ib_qp {
        self.0.as_ptr()
    }
}

impl QpEvents {
    /// The queue pair that the events are of.
    pub(crate) fn object(&self) -> QpObject {
        QpObject(self.0.source)
    }
}

/// Raises the events of one object; harmless once the object is gone.
pub(crate) struct Events<S: EventSource>(Arc<Mailbox<S>>);

/// Raises the events of a queue pair.
pub(crate) type QpEvents = Events<QpSource>;

/// Raises the events of a completion queue.
pub(crate) type CqEvents = Events<CqSource>;

/// Raises the events of a shared receive queue.
pub(crate) type SrqEvents = Events<SrqSource>;

impl<S: EventSource> Events<S> {
    /// Raises `event`. Process or softirq context; never sleeps.
    pub(crate) fn raise(&self, event: S::Event) {
        if let Some(bit) = 1u32.checked_shl(S::code(event)) {
            *self.0.pending.lock() |= bit;
        }
        // If the work is queued already it has yet to take what is pending, and if it is
        // disabled there is no one to deliver to.
        let _ = system_queue().enqueue(self.0.clone());
    }
}

/// The owning end of [`Events`]: its drop waits for a running delivery and stops the rest.
pub(crate) struct EventOwner<S: EventSource>(Arc<Mailbox<S>>);

impl<S: EventSource> EventOwner<S> {
    /// # Safety
    ///
    /// `source` must be valid until the result has been dropped.
    pub(super) unsafe fn new(source: *mut S::Raw) -> Result<Self> {
        let source = NonNull::new(source).ok_or(EINVAL)?;
        // INVARIANT: The work cannot run once the owner has been dropped, and until then
        // `source` is valid.
        let mailbox = Arc::pin_init(
            pin_init!(Mailbox {
                source,
                pending <- new_spinlock_bh!(0),
                work <- new_work!("rdma::Events"),
            }),
            GFP_KERNEL_ACCOUNT,
        )?;
        Ok(Self(mailbox))
    }

    /// Another handle for the driver.
    pub(super) fn handle(&self) -> Events<S> {
        Events(self.0.clone())
    }
}

impl<S: EventSource> Drop for EventOwner<S> {
    fn drop(&mut self) {
        // SAFETY: The mailbox is alive.
        let work = unsafe { Work::raw_get(&self.0.work) };
        // SAFETY: The work was initialized in `new`. This is process context.
        if unsafe { b::disable_work_sync(work) } {
            // SAFETY: The work was queued, with a reference from `Arc::into_raw` that its
            // run would have taken back.
            drop(unsafe { Arc::from_raw(Arc::as_ptr(&self.0)) });
        }
    }
}
