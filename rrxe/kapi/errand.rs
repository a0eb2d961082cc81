// SPDX-License-Identifier: GPL-2.0

//! Work that may take as long as it likes, and that nobody waits for.
//!
//! A [`Work`](super::work::Work) belongs to what contains it, whose end waits for it. An errand belongs
//! to all who hold it, to the queue as well while it is on its way there.

use super::{
    bindings as b,
    work::WorkQueue, //
};
use kernel::{
    new_work,
    prelude::*,
    sync::Arc,
    workqueue::{
        impl_has_work,
        HasWork,
        Work,
        WorkItem, //
    },
};

/// What is done on an errand.
pub(crate) trait Go: Send + Sync + 'static {
    /// Called by a thread, in which it may sleep. If the errand is sent again while this goes on, the
    /// next call comes after it. That it is sent to another queue is no way round: then it may come
    /// after it or beside it.
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

    /// Takes it off the queue on which it waits, if it does. Whoever has set out already is not waited
    /// for. Any context.
    pub(crate) fn recall(this: &Arc<Self>) {
        let errand = Arc::as_ptr(this);
        // SAFETY: It is referenced.
        let work = unsafe { Self::raw_get_work(errand.cast_mut()) };
        // SAFETY: As above.
        let work = unsafe { Work::raw_get(work) };
        // SAFETY: The work is initialised.
        if unsafe { b::cancel_work(work.cast()) } {
            // SAFETY: The queue had a reference, which nobody takes over now.
            drop(unsafe { Arc::from_raw(errand) });
        }
    }
}
