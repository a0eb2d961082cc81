// SPDX-License-Identifier: GPL-2.0

//! Where work completes.
//!
//! # Locking
//!
//! The queue's lock is a leaf, taken in any context, as consumers inside the kernel may poll. The
//! consumer is notified when it has been released, and after the completion has become visible. So is
//! the timer armed by which it is notified of what was held back.

use super::moderation::{
    Limits,
    Moderation,
    Verdict, //
};
use crate::{
    kapi::{
        error::eopnotsupp,
        rdma::{
            CqEvent,
            CqEvents,
            CqNotify,
            Moment, //
        },
        sync::{
            new_spinlock_irq,
            SpinLockIrq, //
        },
        time::{
            now,
            Expire,
            Timer, //
        },
    },
    ring::{
        self,
        CompletionList,
        CompletionRing,
        Wc, //
    },
};
use core::{
    mem,
    slice,
    time::Duration, //
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
    contents: Arc<Contents>,
    /// Notifies of what was held back.
    #[pin]
    alarm: Timer<Alarm>,
    events: CqEvents,
}

#[pin_data]
struct Contents {
    #[pin]
    state: SpinLockIrq<State>,
    notify: CqNotify,
}

/// The consumer is to be notified of what was held back.
struct Alarm(Arc<Contents>);

impl Expire for Alarm {
    fn expired(&self) {
        self.0.release();
    }
}

struct State {
    completions: Completions,
    /// What the consumer has asked to be notified of, once.
    armed: Option<Moment>,
    /// What of that has come.
    moderation: Moderation,
    /// A completion was lost for want of room. There will be no more.
    dead: bool,
}

/// Completions that have not been polled.
pub(crate) enum Completions {
    /// By a user process, which polls by itself.
    User(CompletionRing),
    /// By a consumer inside the kernel.
    Kernel(CompletionList),
}

/// The completion queue is dead: its consumer did not poll it in time. Completions are lost, and
/// its queue pairs are of no use any more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Overrun;

/// There is no room for a completion just now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Full;

/// How full a queue is, for those who look on.
pub(crate) struct Report {
    /// How many completions fit.
    pub(crate) capacity: u32,
    /// How many have not been polled.
    pub(crate) pending: u32,
    /// What the consumer waits for.
    pub(crate) armed: Option<Moment>,
    /// How much is held back before it is notified.
    pub(crate) moderation: Option<Limits>,
    /// It has overrun.
    pub(crate) dead: bool,
}

/// What is to be done about an attempt to append completions once the lock has been released.
struct Appended {
    /// The consumer is to be notified.
    wake: bool,
    /// It is, when so much time has passed.
    wake_after: Option<Duration>,
    /// The queue has just died.
    died: bool,
    /// All of them are there.
    result: Result<(), Overrun>,
}

impl Cq {
    /// A queue without completions. May sleep. `ENOMEM` when out of memory.
    pub(crate) fn new(
        completions: Completions,
        notify: CqNotify,
        events: CqEvents,
    ) -> Result<Self> {
        let state = State {
            completions,
            armed: None,
            moderation: Moderation::default(),
            dead: false,
        };
        let contents = pin_init!(Contents {
            state <- new_spinlock_irq!(state, "rrxe::Cq"),
            notify,
        });
        let contents = Arc::pin_init(contents, GFP_KERNEL)?;
        let queue = pin_init!(Queue {
            alarm <- Timer::new(Alarm(contents.clone())),
            contents,
            events,
        });
        Ok(Self(Arc::pin_init(queue, GFP_KERNEL)?))
    }

    /// How many completions fit.
    pub(crate) fn capacity(&self) -> u32 {
        self.0.contents.state.lock().completions.capacity()
    }

    /// How full it is, and whether it is of use.
    pub(crate) fn report(&self) -> Report {
        let state = self.0.contents.state.lock();
        Report {
            capacity: state.completions.capacity(),
            pending: state.completions.pending(),
            armed: state.armed,
            moderation: state.moderation.limits(),
            dead: state.dead,
        }
    }

    /// Holds notifications back as `limits` say, or not at all. What was held back so far is told of.
    pub(crate) fn moderate(&self, limits: Option<Limits>) {
        self.0.contents.moderate(limits);
    }

    /// Asks to be notified at `moment`, once. Returns whether there are completions already.
    ///
    /// Any context.
    pub(crate) fn arm(&self, moment: Moment) -> bool {
        let mut state = self.0.contents.state.lock();
        // Who waits for any completion also waits for a solicited one.
        if state.armed != Some(Moment::Next) {
            state.armed = Some(moment);
        }
        state.completions.pending() != 0
    }

    /// Takes the oldest completion off the queue of a consumer inside the kernel. Any context.
    ///
    /// # Errors
    ///
    /// `EOPNOTSUPP` for the queue of a user process.
    pub(crate) fn poll(&self) -> Result<Option<Wc>> {
        match &mut self.0.contents.state.lock().completions {
            Completions::User(_) => Err(eopnotsupp()),
            Completions::Kernel(list) => Ok(list.pop()),
        }
    }

    /// Goes on with `ring`, which gets all that user space has not polled yet. May sleep; one call
    /// at a time.
    ///
    /// # Errors
    ///
    /// `EINVAL` if `ring` is too small; nothing has changed then. `EOPNOTSUPP` for the queue of a
    /// consumer inside the kernel.
    pub(crate) fn replace_ring(&self, mut ring: CompletionRing) -> Result {
        // Most of what is pending is copied without the lock.
        let old = self.0.contents.state.lock().user_ring()?.snapshot();
        let copied = ring.append_from(&old, old.first_pending());
        let copied = copied.map_err(|_| EINVAL)?;

        let mut state = self.0.contents.state.lock();
        let current = state.user_ring()?;
        ring.append_from(current, copied).map_err(|_| EINVAL)?;
        mem::swap(current, &mut ring);
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
        let appended = self.0.contents.state.lock().append(wcs);
        self.notify(&appended);
        if appended.died {
            self.0.events.raise(CqEvent::Error);
        }
        appended.result
    }

    /// Appends a completion if there is room, and notifies the consumer if it waits for it.
    ///
    /// Process or softirq context; never sleeps.
    ///
    /// # Errors
    ///
    /// [`Full`], which is no overrun: to be tried again later.
    pub(crate) fn post_if_room(&self, wc: &Wc) -> Result<(), Full> {
        let mut state = self.0.contents.state.lock();
        if !state.dead && state.room() == 0 {
            return Err(Full);
        }
        let appended = state.append(slice::from_ref(wc));
        drop(state);
        self.notify(&appended);
        Ok(())
    }

    /// Notifies the consumer, now or later.
    fn notify(&self, appended: &Appended) {
        if appended.wake {
            self.0.contents.notify.notify();
        } else if let Some(period) = appended.wake_after {
            self.0.alarm.arm(now().saturating_add(period));
        }
    }
}

impl Contents {
    fn moderate(&self, limits: Option<Limits>) {
        self.change(|moderation| moderation.set(limits));
    }

    /// Notifies the consumer of what was held back.
    fn release(&self) {
        self.change(Moderation::release);
    }

    /// Makes a change that says whether to notify the consumer.
    fn change(&self, change: impl FnOnce(&mut Moderation) -> bool) {
        let mut state = self.state.lock();
        let wake = change(&mut state.moderation);
        if wake {
            state.armed = None;
        }
        drop(state);
        if wake {
            self.notify.notify();
        }
    }
}

impl State {
    fn append(&mut self, wcs: &[Wc]) -> Appended {
        let mut appended = Appended {
            wake: false,
            wake_after: None,
            died: false,
            result: Ok(()),
        };
        for wc in wcs {
            if self.dead || self.completions.push(wc).is_err() {
                appended.died = !mem::replace(&mut self.dead, true);
                appended.result = Err(Overrun);
                break;
            }
            if self.awaits(wc) {
                match self.moderation.add() {
                    Verdict::Tell => {
                        self.armed = None;
                        appended.wake = true;
                    }
                    Verdict::TellAfter(period) => appended.wake_after = Some(period),
                    Verdict::Hold => (),
                }
            }
        }
        appended
    }

    /// Whether the consumer waits for a completion, or for one before it.
    fn awaits(&self, wc: &Wc) -> bool {
        match self.armed {
            None => false,
            Some(Moment::Next) => true,
            Some(Moment::Solicited) => self.moderation.is_holding() || wc.is_solicited(),
        }
    }

    fn room(&self) -> u32 {
        let (capacity, pending) = (self.completions.capacity(), self.completions.pending());
        capacity.saturating_sub(pending)
    }

    fn user_ring(&mut self) -> Result<&mut CompletionRing> {
        match &mut self.completions {
            Completions::User(ring) => Ok(ring),
            Completions::Kernel(_) => Err(eopnotsupp()),
        }
    }
}

/// Does the same to either kind of completions.
macro_rules! either {
    ($completions:expr, $it:ident => $action:expr) => {
        match $completions {
            Completions::User($it) => $action,
            Completions::Kernel($it) => $action,
        }
    };
}

impl Completions {
    fn capacity(&self) -> u32 {
        either!(self, it => it.capacity())
    }

    fn pending(&self) -> u32 {
        either!(self, it => it.pending())
    }

    fn push(&mut self, wc: &Wc) -> Result<(), ring::Full> {
        either!(self, it => it.push(wc))
    }
}
