// SPDX-License-Identifier: GPL-2.0

//! Where work completes.
//!
//! # Locking
//!
//! The queue's lock is a leaf, taken in process and softirq context. The consumer is notified when
//! it has been released, and after the completion has become visible.

use crate::{
    kapi::{
        rdma::{
            CqEvent,
            CqEvents,
            CqNotify,
            Moment, //
        },
        sync::{
            new_spinlock_bh,
            SpinLockBh, //
        },
    },
    ring::{
        CompletionRing,
        Wc, //
    },
};
use core::{
    mem,
    slice, //
};
use kernel::{
    prelude::*,
    sync::Arc, //
};

/// A completion queue. Clones are handles of the same queue; queue pairs keep one.
#[derive(Clone)]
pub(crate) struct Cq(Arc<Queue>);

#[pin_data]
struct Queue {
    #[pin]
    state: SpinLockBh<State>,
    notify: CqNotify,
    events: CqEvents,
}

struct State {
    ring: CompletionRing,
    /// What the consumer has asked to be notified of, once.
    armed: Option<Moment>,
    /// A completion was lost for want of room. There will be no more.
    dead: bool,
}

/// The completion queue is dead: its consumer did not poll it in time. Completions are lost, and
/// its queue pairs are of no use any more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Overrun;

/// What is to be done about an attempt to append completions once the lock has been released.
struct Appended {
    /// The consumer has waited for one of them.
    wake: bool,
    /// The queue has just died.
    died: bool,
    /// All of them are there.
    result: Result<(), Overrun>,
}

impl Cq {
    /// A queue without completions. May sleep. `ENOMEM` when out of memory.
    pub(crate) fn new(ring: CompletionRing, notify: CqNotify, events: CqEvents) -> Result<Self> {
        let state = State {
            ring,
            armed: None,
            dead: false,
        };
        let queue = pin_init!(Queue {
            state <- new_spinlock_bh!(state, "rrxe::Cq"),
            notify,
            events,
        });
        Ok(Self(Arc::pin_init(queue, GFP_KERNEL)?))
    }

    /// How many completions fit.
    pub(crate) fn capacity(&self) -> u32 {
        self.0.state.lock().ring.capacity()
    }

    /// Asks to be notified at `moment`, once. Returns whether there are completions already.
    ///
    /// Process or softirq context; never sleeps.
    pub(crate) fn arm(&self, moment: Moment) -> bool {
        let mut state = self.0.state.lock();
        // Who waits for any completion also waits for a solicited one.
        if state.armed != Some(Moment::Next) {
            state.armed = Some(moment);
        }
        state.ring.pending() != 0
    }

    /// Goes on with `ring`, which gets all that user space has not polled yet. May sleep; one call
    /// at a time.
    ///
    /// # Errors
    ///
    /// `EINVAL` if `ring` is too small; nothing has changed then.
    pub(crate) fn replace_ring(&self, mut ring: CompletionRing) -> Result {
        // Most of what is pending is copied without the lock.
        let old = self.0.state.lock().ring.snapshot();
        let copied = ring.append_from(&old, old.first_pending());
        let copied = copied.map_err(|_| EINVAL)?;

        let mut state = self.0.state.lock();
        ring.append_from(&state.ring, copied).map_err(|_| EINVAL)?;
        mem::swap(&mut state.ring, &mut ring);
        drop(state);
        // The old ring goes away here, without the lock: freeing it may sleep.
        drop(ring);
        Ok(())
    }

    /// Appends a completion, and notifies the consumer if it waits for it.
    ///
    /// Process or softirq context; never sleeps.
    ///
    /// # Errors
    ///
    /// [`Overrun`], of which the consumer has been told, once.
    pub(crate) fn post(&self, wc: Wc) -> Result<(), Overrun> {
        self.post_all(slice::from_ref(&wc))
    }

    /// Appends completions in order, and notifies the consumer at most once.
    ///
    /// Process or softirq context; never sleeps.
    ///
    /// # Errors
    ///
    /// [`Overrun`], of which the consumer has been told, once. Those that did fit are there.
    pub(crate) fn post_all(&self, wcs: &[Wc]) -> Result<(), Overrun> {
        let appended = self.0.state.lock().append(wcs);
        if appended.wake {
            self.0.notify.notify();
        }
        if appended.died {
            self.0.events.raise(CqEvent::Error);
        }
        appended.result
    }

    /// How many completions can be appended without an overrun, if the consumer polls none.
    pub(crate) fn room(&self) -> u32 {
        self.0.state.lock().room()
    }
}

impl State {
    fn append(&mut self, wcs: &[Wc]) -> Appended {
        let mut appended = Appended {
            wake: false,
            died: false,
            result: Ok(()),
        };
        for wc in wcs {
            if self.dead || self.ring.push(wc).is_err() {
                appended.died = !mem::replace(&mut self.dead, true);
                appended.result = Err(Overrun);
                break;
            }
            appended.wake |= match self.armed {
                None => false,
                Some(Moment::Next) => true,
                Some(Moment::Solicited) => wc.is_solicited(),
            };
        }
        if appended.wake {
            self.armed = None;
        }
        appended
    }

    fn room(&self) -> u32 {
        if self.dead {
            return 0;
        }
        self.ring.capacity().saturating_sub(self.ring.pending())
    }
}
