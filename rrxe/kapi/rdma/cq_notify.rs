// SPDX-License-Identifier: GPL-2.0

//! Telling the consumer of a completion queue to look at it.
//!
//! A driver must not call the handler of a consumer inside the kernel from within an operation that
//! the consumer has called, whose locks it may hold, nor from two contexts at once. So such a
//! handler is called in a softirq of its own, on the CPU that the consumer chose as the queue's
//! completion vector. The handler of user processes' queues is the core's and may be called anywhere.

use crate::kapi::{
    bindings as b,
    sync::{
        new_spinlock_bh,
        SpinLockBh, //
    },
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
pub(crate) enum CqNotify {
    /// A user process.
    User(Arc<Target>),
    /// Somebody inside the kernel.
    Kernel(Arc<Deferred>),
}

impl CqNotify {
    /// Has the consumer's completion handler called: now or soon.
    ///
    /// Process or softirq context; never sleeps. The caller must not hold the lock of the queue
    /// unless the consumer is a user process.
    pub(crate) fn notify(&self) {
        match self {
            Self::User(target) => target.call(),
            // If it is queued already, the handler will see what there is now.
            Self::Kernel(deferred) => {
                work::enqueue_softirq(deferred.vector, &deferred.call);
            }
        }
    }
}

/// The C queue, while it is there to be notified of.
#[pin_data]
pub(crate) struct Target {
    #[pin]
    cq: SpinLockBh<Option<NonNull<b::ib_cq>>>,
}

// SAFETY: The pointer is only used under the lock, for calls that any thread may make.
unsafe impl Send for Target {}

// SAFETY: As for `Send`.
unsafe impl Sync for Target {}

impl Target {
    fn call(&self) {
        let target = self.cq.lock();
        let Some(cq) = *target else {
            return;
        };
        // SAFETY: The queue is valid while the target is set, which we hold the lock of.
        unsafe { b::helpers::ib_cq_notify(cq.as_ptr()) };
    }
}

/// A call of the handler that waits for its softirq.
#[pin_data]
pub(crate) struct Deferred {
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
    /// The owner for a queue of a user process.
    ///
    /// # Safety
    ///
    /// `cq` must be valid until the result has been dropped.
    pub(super) unsafe fn of_user(cq: *mut b::ib_cq) -> Result<Self> {
        let target = pin_init!(Target {
            cq <- new_spinlock_bh!(NonNull::new(cq)),
        });
        Ok(Self(CqNotify::User(Arc::pin_init(
            target,
            GFP_KERNEL_ACCOUNT,
        )?)))
    }

    /// The owner for a queue of a consumer inside the kernel, to be notified on the CPU with number
    /// `vector`.
    ///
    /// # Safety
    ///
    /// As for [`of_user`](Self::of_user).
    pub(super) unsafe fn of_kernel(cq: *mut b::ib_cq, vector: u32) -> Result<Self> {
        // INVARIANT: The owner's drop keeps it from running once the queue may be gone.
        let handler = Handler(NonNull::new(cq).ok_or(EINVAL)?);
        let deferred = pin_init!(Deferred {
            vector,
            call <- new_work!(handler, "rdma::CqNotify"),
        });
        Ok(Self(CqNotify::Kernel(Arc::pin_init(deferred, GFP_KERNEL)?)))
    }

    pub(super) fn handle(&self) -> CqNotify {
        self.0.clone()
    }
}

impl Drop for NotifyOwner {
    fn drop(&mut self) {
        match &self.0 {
            CqNotify::User(target) => *target.cq.lock() = None,
            CqNotify::Kernel(deferred) => deferred.call.disable(),
        }
    }
}
