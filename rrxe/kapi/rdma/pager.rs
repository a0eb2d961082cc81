// SPDX-License-Identifier: GPL-2.0

//! Threads that have pages of user processes come in: a few for each process.
//!
//! A process may have its pages take as long as it likes, say, by a file system that it provides itself.
//! That holds up a thread each time, uninterruptibly. So each process has a queue of its own, with a
//! limit: those who wait in vain have none but themselves in their way. The end of objects, processes
//! and devices waits for none of them; the module cannot be unloaded meanwhile
//! ([`Hold`](crate::kapi::module::Hold)).
//!
//! # Locking
//!
//! `PAGERS` guards which processes have a queue. It is a mutex, under which a queue is made, and which
//! is taken in process context, under no spin lock.

use crate::kapi::{
    errand::{
        Errand,
        Go, //
    },
    work::WorkQueue, //
};
use kernel::{
    global_lock, new_work,
    prelude::*,
    sync::{
        Arc,
        SetOnce, //
    },
    warn_on,
    workqueue::{
        impl_has_work,
        Work,
        WorkItem, //
    },
};

/// Pages that come in at a time for one process.
const WIDTH: u32 = 8;

global_lock! {
    // SAFETY: Only used by `Pagers::new`, and by those who find that it has been there.
    unsafe(uninit) static PAGERS: Mutex<Option<Known>> = None;
}

/// Set when `PAGERS` is initialized.
static READY: SetOnce<()> = SetOnce::new();

/// The processes that have queues.
struct Known {
    /// Ends the queues of those that need none any more.
    burials: WorkQueue,
    entries: KVec<Entry>,
}

struct Entry {
    process: usize,
    users: usize,
    pager: Arc<Pager>,
}

/// The queue of one process.
#[pin_data]
struct Pager {
    queue: WorkQueue,
    #[pin]
    burial: Work<Pager>,
}

impl_has_work! {
    impl HasWork<Self> for Pager { self.burial }
}

impl WorkItem for Pager {
    type Pointer = Arc<Self>;

    /// Waits for what is on the queue, which has no users any more, and ends it.
    fn run(this: Arc<Self>) {
        drop(this);
    }
}

/// The module's part: while it exists there may be queues.
pub(crate) struct Pagers(());

impl Pagers {
    /// Lets there be queues. Process context, may sleep. `EBUSY` if that has been done before.
    pub(crate) fn new() -> Result<Self> {
        static CLAIMED: SetOnce<()> = SetOnce::new();

        let known = Known {
            burials: WorkQueue::new_narrow(c"rrxe-pagers", WIDTH)?,
            entries: KVec::new(),
        };
        if !CLAIMED.populate(()) {
            return Err(EBUSY);
        }
        // SAFETY: Only one caller gets here, once.
        unsafe { PAGERS.init() };
        *PAGERS.lock() = Some(known);
        READY.populate(());
        Ok(Self(()))
    }
}

impl Drop for Pagers {
    /// Waits for the ends of all queues. There must be no users any more.
    fn drop(&mut self) {
        let known = PAGERS.lock().take();
        drop(known);
    }
}

/// A use of the queue of a process, which is there for that long.
pub(super) struct PagerUse {
    process: usize,
    /// Gone during the drop only.
    pager: Option<Arc<Pager>>,
}

impl PagerUse {
    /// A use for the process whose `mm_struct` has that address. Process context, may sleep. `ENOMEM` when out of
    /// memory.
    pub(super) fn of(process: usize) -> Result<Self> {
        READY.as_ref().ok_or(ENODEV)?;
        let mut known = PAGERS.lock();
        let known = known.as_mut().ok_or(ENODEV)?;
        let found = known
            .entries
            .iter_mut()
            .find(|entry| entry.process == process);
        let pager = match found {
            Some(entry) => {
                entry.users += 1;
                entry.pager.clone()
            }
            None => {
                let queue = WorkQueue::new_narrow(c"rrxe-paging", WIDTH)?;
                let pager = Arc::pin_init(
                    pin_init!(Pager {
                        queue,
                        burial <- new_work!("rrxe::Pager::burial"),
                    }),
                    GFP_KERNEL_ACCOUNT,
                )?;
                let entry = Entry {
                    process,
                    users: 1,
                    pager: pager.clone(),
                };
                known.entries.push(entry, GFP_KERNEL_ACCOUNT)?;
                pager
            }
        };
        Ok(Self {
            process,
            pager: Some(pager),
        })
    }

    /// Goes on `errand` by a thread for the process. Any context.
    pub(super) fn send<T: Go>(&self, errand: &Arc<Errand<T>>) {
        if let Some(pager) = &self.pager {
            Errand::send(errand, &pager.queue);
        }
    }
}

impl Drop for PagerUse {
    fn drop(&mut self) {
        let mut known = PAGERS.lock();
        // As long as there are users, there are queues.
        let Some(known) = known.as_mut() else {
            warn_on!(true);
            return;
        };
        // Not the last one as long as the entry has one, too; so it goes before the lock does.
        let pager = self.pager.take();
        let Some(index) = known
            .entries
            .iter()
            .position(|entry| entry.process == self.process)
        else {
            warn_on!(true);
            return;
        };
        let is_last = known.entries.get_mut(index).is_some_and(|entry| {
            entry.users -= 1;
            entry.users == 0
        });
        if is_last {
            let _ = known.entries.remove(index);
            // This may be a thread of the queue, which cannot end that itself.
            if let Some(pager) = pager {
                let _ = known.burials.as_queue().enqueue(pager);
            }
        }
    }
}
