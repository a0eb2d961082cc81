// SPDX-License-Identifier: GPL-2.0

//! Dropping objects later, in a thread: when no RCU reader uses them any more.
//!
//! C header: [`include/linux/workqueue.h`](srctree/include/linux/workqueue.h)

use super::wait_for_burials;
use crate::kapi::{
    bindings as b,
    work::WorkQueue, //
};
use core::{
    marker::PhantomData,
    ptr, //
};
use kernel::{
    prelude::*,
    str::CStr,
    sync::Arc,
    types::{
        ForeignOwnable,
        Opaque, //
    },
};

/// A queue of objects to be dropped. Its own drop waits until all of them have been.
pub(crate) struct Undertaker {
    queue: WorkQueue,
}

/// What it takes to have an object of a table dropped. It is made along with the object, so that the
/// removal needs no memory.
pub(crate) struct SlowBurial<T: Send + Sync + 'static>(KBox<Grave<T>>);

/// An object that waits for the end of a grace period.
#[repr(C)]
struct Grave<T: Send + Sync + 'static> {
    // The first, so that its address is that of the whole.
    work: Opaque<b::rcu_work>,
    /// The pointer of an `Arc` that belongs to this; null before it is buried.
    object: *mut c_void,
    objects: PhantomData<Arc<T>>,
}

// SAFETY: What there is to send is an `Arc<T>`.
unsafe impl<T: Send + Sync> Send for Grave<T> {}

// SAFETY: There is nothing to be done with a shared reference.
unsafe impl<T: Send + Sync> Sync for Grave<T> {}

impl Undertaker {
    /// One whose queue is called `name`. Process context, may sleep. `ENOMEM` when out of memory.
    pub(crate) fn new(name: &'static CStr) -> Result<Self> {
        Ok(Self {
            queue: WorkQueue::new_unbound(name)?,
        })
    }

    /// Drops `object`, an entry that a table has given up, after a grace period. Any context.
    pub(super) fn bury<T: Send + Sync>(&self, burial: SlowBurial<T>, object: *mut c_void) {
        let mut grave = burial.0;
        grave.object = object;
        let work = grave.work.get();
        // From now on others use it: it is no box any more.
        KBox::leak(grave);
        // SAFETY: The work is not in use yet, and stays until it is done, once.
        unsafe { b::helpers::init_rcu_work(work, Some(SlowBurial::<T>::dig)) };
        // SAFETY: It has just been initialised. The queue stays until it is done: before the queue goes
        // all is waited for that has been announced to RCU.
        unsafe { b::queue_rcu_work(self.queue.as_ptr(), work) };
    }
}

impl Drop for Undertaker {
    /// Process context, sleeps.
    fn drop(&mut self) {
        // After this all is on the queue.
        wait_for_burials();
    }
}

impl<T: Send + Sync + 'static> SlowBurial<T> {
    /// May sleep; `ENOMEM` when out of memory.
    pub(crate) fn new() -> Result<Self> {
        let grave = Grave {
            work: Opaque::uninit(),
            object: ptr::null_mut(),
            objects: PhantomData,
        };
        Ok(Self(KBox::new(grave, GFP_KERNEL_ACCOUNT)?))
    }

    /// Drops what was buried.
    ///
    /// # Safety
    ///
    /// To be called by the workqueue, with the work of a grave that was a box.
    unsafe extern "C" fn dig(work: *mut b::work_struct) {
        // SAFETY: The work is the first member of the first member of the grave.
        let grave = unsafe { KBox::from_raw(work.cast::<Grave<T>>()) };
        // SAFETY: The object is an entry that a table has given up; a grace period has passed.
        drop(unsafe { <Arc<T> as ForeignOwnable>::from_foreign(grave.object) });
    }
}
