// SPDX-License-Identifier: GPL-2.0

//! Work that may take as long as it likes, and that nobody waits for.
//!
//! A [`Work`](super::work::Work) belongs to what contains it, whose end waits for it. An errand belongs
//! to all who hold it, to the queue as well while it is on its way there.

use super::work::WorkQueue;
use kernel::{
    new_work,
    prelude::*,
    sync::Arc,
    workqueue::{
        impl_has_work,
        Work,
        WorkItem, //
    },
};

/// What is done on an errand.
pub(crate) trait Go: Send + Sync + 'static {
    /// Called by a thread, in which it may sleep; by more than one at a time, if the errand was sent
    /// to several queues.
    ///
    /// Whoever sent it may be gone.
    fn go(&self);
}

/// An errand.
#[pin_data]
pub(crate) struct Errand<T: Go> {
    #[pin]
    target: T,
    #[pin]
    work: Work<Errand<T>>,
}

impl_has_work! {
    impl{T: Go} HasWork<Self> for Errand<T> { self.work }
}

impl<T: Go> WorkItem for Errand<T> {
    type Pointer = Arc<Self>;

    fn run(this: Arc<Self>) {
        this.target.go();
    }
}

impl<T: Go> Errand<T> {
    /// An errand for `target`. May sleep.
    pub(crate) fn new(target: impl PinInit<T>) -> Result<Arc<Self>> {
        Arc::pin_init(
            pin_init!(Self {
                target <- target,
                work <- new_work!("rrxe::Errand"),
            }),
            GFP_KERNEL_ACCOUNT,
        )
    }

    /// Whose errand it is.
    pub(crate) fn target(&self) -> &T {
        &self.target
    }

    /// Goes on it once more, by a thread of `queue`, unless that is to come anyway. Any context.
    ///
    /// Everything that was written before is seen by the run that follows.
    pub(crate) fn send(this: &Arc<Self>, queue: &WorkQueue) {
        let _ = queue.as_queue().enqueue(this.clone());
    }
}
