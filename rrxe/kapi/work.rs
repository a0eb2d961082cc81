// SPDX-License-Identifier: GPL-2.0

//! Work that is done later: in a thread, what may sleep and what exceeded a budget; in a softirq, what
//! must not be done on the spot.
//!
//! C header: [`include/linux/workqueue.h`](srctree/include/linux/workqueue.h)
//!
//! `kernel::workqueue` has no queues of one's own and cannot cancel or flush; besides, its items
//! hold a reference to what contains them. Here, as in [`crate::kapi::time::timer`], an item owns
//! what it needs.

use crate::kapi::{
    bindings as b,
    callback::{
        Callback,
        CallsBack, //
    },
};
use core::ptr::NonNull;
use kernel::{
    prelude::*,
    str::CStr,
    sync::LockClassKey,
    types::Opaque,
    workqueue::Queue, //
};

/// The system's queue whose work runs on any CPU.
///
/// `workqueue::system_unbound()` still is its old name, of which the kernel warns.
pub(crate) fn system_queue() -> &'static Queue {
    // SAFETY: Set before any module is loaded, and never again.
    let queue = unsafe { kernel::bindings::system_dfl_wq };
    // SAFETY: It stays.
    unsafe { Queue::from_raw(queue) }
}

/// A queue of its own, whose work runs on any CPU, many items at once.
///
/// # Invariants
///
/// `queue` is a valid workqueue owned by this object.
pub(crate) struct WorkQueue {
    queue: NonNull<b::workqueue_struct>,
}

// SAFETY: A workqueue may be used and destroyed by any thread.
unsafe impl Send for WorkQueue {}

// SAFETY: The operations on a workqueue synchronise themselves.
unsafe impl Sync for WorkQueue {}

impl WorkQueue {
    /// Makes an unbound queue called `name` that goes on under memory pressure.
    ///
    /// Process context, may sleep. `ENOMEM` when out of memory.
    pub(crate) fn new_unbound(name: &'static CStr) -> Result<Self> {
        Self::new(name, b::wq_flags_WQ_UNBOUND | b::wq_flags_WQ_MEM_RECLAIM, 0)
    }

    /// Makes an unbound queue called `name` on which no more than `width` items run at once. NUMA nodes
    /// have shares of that by their CPUs, rounded up.
    ///
    /// Process context, may sleep. `ENOMEM` when out of memory.
    pub(crate) fn new_narrow(name: &'static CStr, width: u32) -> Result<Self> {
        // Each node may have as many as a queue is made for, up to eight.
        let queue = Self::new(name, b::wq_flags_WQ_UNBOUND, 1)?;
        // SAFETY: By the type invariant it is valid.
        unsafe { b::workqueue_set_max_active(queue.as_ptr(), width as c_int) };
        Ok(queue)
    }

    /// `width` 0 is as many as there may be.
    fn new(name: &'static CStr, flags: b::wq_flags, width: c_int) -> Result<Self> {
        // SAFETY: The format takes one string, and one is given.
        let queue = unsafe {
            b::alloc_workqueue_noprof(c"%s".as_char_ptr(), flags, width, name.as_char_ptr())
        };
        // INVARIANT: The queue was just made for us.
        Ok(Self {
            queue: NonNull::new(queue).ok_or(ENOMEM)?,
        })
    }

    /// As the `kernel` crate knows it.
    pub(super) fn as_queue(&self) -> &Queue {
        // SAFETY: By the type invariant it is valid for as long as this object.
        unsafe { Queue::from_raw(self.as_ptr().cast()) }
    }

    /// The C object.
    pub(in crate::kapi) fn as_ptr(&self) -> *mut b::workqueue_struct {
        self.queue.as_ptr()
    }

    /// Has `work` run once, soon. `false` if it is queued already and does not run yet. Any context.
    ///
    /// Everything that was written before is seen by the run that follows, also in the `false` case.
    pub(crate) fn enqueue<T: Run>(&self, work: &Work<T>) -> bool {
        // SAFETY: Both are initialised. The work's drop waits until it is neither queued nor running.
        unsafe { b::helpers::queue_work(self.queue.as_ptr(), work.work.raw()) }
    }
}

impl Drop for WorkQueue {
    /// Waits for what is queued. Process context, sleeps.
    fn drop(&mut self) {
        // SAFETY: By the type invariant the queue is ours.
        unsafe { b::destroy_workqueue(self.queue.as_ptr()) };
    }
}

/// Has `work` run once, soon, by a thread of the system's on any CPU. `false` if it is queued already
/// and does not run yet. Any context.
pub(crate) fn enqueue_unbound<T: Run>(work: &Work<T>) -> bool {
    // SAFETY: Set before any module is loaded, and never again.
    let queue = unsafe { b::system_dfl_wq };
    // SAFETY: Both are initialised. The work's drop waits until it is neither queued nor running.
    unsafe { b::helpers::queue_work(queue, work.work.raw()) }
}

/// Has `work` run once, soon, in a softirq on the CPU with number `cpu`, or on this one if that is
/// not online. `false` if it is queued already and does not run yet. Any context.
pub(crate) fn enqueue_softirq<T: Run>(cpu: u32, work: &Work<T>) -> bool {
    // SAFETY: The work is initialised. Its drop waits until it is neither queued nor running.
    unsafe { b::helpers::queue_work_bh(cpu, work.work.raw()) }
}

/// What a [`Work`] does.
pub(crate) trait Run: Send + Sync + 'static {
    /// Called by one context at a time: a thread, in which it may sleep, or a softirq, as the work
    /// was queued.
    ///
    /// Must not drop the last reference to what holds the work: that waits for this very call.
    fn run(&self);
}

/// A piece of work that can be queued again and again.
///
/// The target must not own what contains the work, as with [`Timer`](crate::kapi::time::Timer).
/// Dropping cancels it and waits for a run that goes on.
///
/// # Invariants
///
/// `work` has an initialised `work_struct`, whose function is [`Work::<T>::call`].
#[pin_data(PinnedDrop)]
pub(crate) struct Work<T: Run> {
    #[pin]
    work: Callback<b::work_struct, T>,
}

// SAFETY: The operations on a `work_struct` are atomic.
unsafe impl CallsBack for b::work_struct {}

impl<T: Run> Work<T> {
    /// An initialiser of work that is not queued. See [`new_work!`].
    pub(crate) fn new(
        target: T,
        name: &'static CStr,
        key: Pin<&'static LockClassKey>,
    ) -> impl PinInit<Self> {
        let work = Opaque::ffi_init(move |slot| {
            let (name, key) = (name.as_char_ptr(), key.as_ptr());
            // SAFETY: `slot` is valid for writes and pinned from now on; name and key are static.
            unsafe { b::init_work_with_key(slot, Some(Self::call), false, name, key) }
        });
        // INVARIANT: The work is initialised, with that function.
        pin_init!(Self {
            work <- Callback::new(target, work),
        })
    }

    /// Takes the work off its queue, or waits for the run that goes on. Process context, sleeps; not
    /// from the run itself.
    ///
    /// Others may queue it again afterwards: prevent that first.
    pub(crate) fn cancel(&self) {
        // SAFETY: By the type invariant the work is initialised.
        unsafe { b::cancel_work_sync(self.work.raw()) };
    }

    /// Has the work never run again, and waits for the run that goes on. Process context, sleeps; not
    /// from the run itself.
    pub(crate) fn disable(&self) {
        // SAFETY: By the type invariant the work is initialised.
        unsafe { b::disable_work_sync(self.work.raw()) };
    }

    /// The function of the C work.
    ///
    /// # Safety
    ///
    /// To be called for the C work of a [`Work`] of this type only.
    unsafe extern "C" fn call(work: *mut b::work_struct) {
        // SAFETY: By the type invariant the C work is that of a `Callback` of this type. The drop of
        // the `Work` waits for this call.
        let target = unsafe { Callback::<_, T>::target(work) };
        target.run();
    }
}

#[pinned_drop]
impl<T: Run> PinnedDrop for Work<T> {
    fn drop(self: Pin<&mut Self>) {
        self.cancel();
    }
}

/// Creates an initialiser of a [`Work`] with the target given.
macro_rules! new_work {
    ($target:expr $(, $name:literal)? $(,)?) => {
        $crate::kapi::work::Work::new(
            $target,
            ::kernel::optional_name!($($name)?),
            ::kernel::static_lock_class!(),
        )
    };
}
pub(crate) use new_work;
