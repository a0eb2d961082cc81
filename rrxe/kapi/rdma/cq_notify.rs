// SPDX-License-Identifier: GPL-2.0

//! Telling the consumer of a completion queue to look at it.
//!
//! A driver must not call the handler of a consumer inside the kernel from within an operation that
//! the consumer has called, whose locks it may hold, nor from two contexts at once. And whoever chose a
//! completion vector wants to be told on a CPU of its own. So the handler is called in a softirq of its
//! own, on the CPU with the number of the queue's completion vector.

use crate::kapi::{
    bindings as b,
    work::{
        self,
        new_work,
        Run,
        Work, //
    },
};
use core::ptr::NonNull;
use kernel::{
    prelude::*,
    sync::Arc, //
};

/// Tells the consumer of a completion queue to look at it; harmless once the queue is gone.
#[derive(Clone)]
pub(crate) struct CqNotify(Arc<Deferred>);

impl CqNotify {
    /// Has the consumer's completion handler called, soon.
    ///
    /// Any context; never sleeps.
    pub(crate) fn notify(&self) {
        // If it is queued already, the handler will see what there is now.
        work::enqueue_softirq(self.0.vector, &self.0.call);
    }
}

/// A call of the handler that waits for its softirq.
#[pin_data]
struct Deferred {
    vector: u32,
    #[pin]
    call: Work<Handler>,
}

/// The handler of a C queue.
///
/// # Invariants
///
/// The queue is valid for as long as this may run.
struct Handler(NonNull<b::ib_cq>);

// SAFETY: The pointer is only used for calls that any thread may make.
unsafe impl Send for Handler {}

// SAFETY: As for `Send`.
unsafe impl Sync for Handler {}

impl Run for Handler {
    fn run(&self) {
        // SAFETY: Valid by the type invariant.
        unsafe { b::helpers::ib_cq_notify(self.0.as_ptr()) };
    }
}

/// The owning end of a [`CqNotify`]: its drop waits for a running call and stops others.
pub(crate) struct NotifyOwner(CqNotify);

impl NotifyOwner {
    /// The owner for a queue whose consumer is to be notified on the CPU with number `vector`.
    ///
    /// # Safety
    ///
    /// `cq` must be valid until the result has been dropped.
    pub(super) unsafe fn new(cq: *mut b::ib_cq, vector: u32) -> Result<Self> {
        // INVARIANT: The owner's drop keeps it from running once the queue may be gone.
        let handler = Handler(NonNull::new(cq).ok_or(EINVAL)?);
        let deferred = pin_init!(Deferred {
            vector,
            call <- new_work!(handler, "rdma::CqNotify"),
        });
        Ok(Self(CqNotify(Arc::pin_init(deferred, GFP_KERNEL)?)))
    }

    pub(super) fn handle(&self) -> CqNotify {
        self.0.clone()
    }
}

impl Drop for NotifyOwner {
    fn drop(&mut self) {
        self.0 .0.call.disable();
    }
}
