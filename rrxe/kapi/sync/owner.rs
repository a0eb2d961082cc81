// SPDX-License-Identifier: GPL-2.0

//! One runner at a time, without waiting for it.
//!
//! Several contexts bring work to a state machine: a system call, a softirq, a timer. One of them
//! at a time may run it, and one that finds it running must not wait: it leaves its work in a queue
//! and goes away. The runner looks into the queue once more before it lets go.
//!
//! # No wake-up is lost
//!
//! A producer first puts its work where the runner will look (say, a queue with a lock of its own)
//! and then calls [`Owned::enter`], a read-modify-write of the state word:
//!
//! ```text
//!   Idle    -> Running   the producer is the runner now and will find its own work
//!   Running -> Pending   somebody else is the runner
//!   Pending -> Pending   likewise, and that it has to look again is known already
//! ```
//!
//! The runner, when it has found the queue empty, calls [`Turn::leave`], another one:
//!
//! ```text
//!   Running -> Idle      nobody called `enter` since the runner entered or last looked
//!   Pending -> Running   somebody did: look again
//! ```
//!
//! All of these are atomic and fully ordered, so there is one order of them all. A producer that was
//! sent away changed the word to `Pending`, or found it so. Only the runner takes `Pending` away, by
//! a `leave` that comes later in that order, and it looks into the queue after it: the producer's
//! work was put there before its `enter`, so the runner sees it. A producer whose `enter` comes after
//! a `leave` to `Idle` becomes the runner itself. There is no third case.
//!
//! The same order makes each runner see everything the one before it wrote, which is what lets
//! [`Turn`] hand out `&mut T`.

use core::{
    cell::UnsafeCell,
    marker::PhantomData,
    ops::{
        Deref,
        DerefMut, //
    },
};
use kernel::{
    prelude::*,
    sync::atomic::{
        ordering,
        Atomic, //
    },
    time::{
        delay::fsleep,
        Delta, //
    },
};
use pin_init::Wrapper;

/// Nobody runs.
const IDLE: u32 = 0;
/// Somebody runs, and has seen all work that was announced.
const RUNNING: u32 = 1;
/// Somebody runs and must look for work again before it leaves.
const PENDING: u32 = 2;

/// How long [`Owned::enter_sleeping`] sleeps between two tries, in microseconds.
const RETRY_US: i64 = 20;

/// Data that one context at a time works on; the others leave word and go.
///
/// # Invariants
///
/// `state` is not [`IDLE`] exactly while a [`Turn`] on it exists.
#[pin_data]
pub(crate) struct Owned<T> {
    state: Atomic<u32>,
    #[pin]
    data: UnsafeCell<T>,
}

// SAFETY: The data goes where the whole goes.
unsafe impl<T: Send> Send for Owned<T> {}

// SAFETY: Shared references give access to the data only through a `Turn`, of which there is one at
// a time, so `T` is moved between threads at most, never shared.
unsafe impl<T: Send> Sync for Owned<T> {}

impl<T> Owned<T> {
    /// An initialiser of idle data.
    pub(crate) fn new(data: impl PinInit<T>) -> impl PinInit<Self> {
        // INVARIANT: No `Turn` exists and the state says so.
        pin_init!(Self {
            state: Atomic::new(IDLE),
            data <- UnsafeCell::pin_init(data),
        })
    }

    /// Makes the caller the runner, or makes the runner look for work again.
    ///
    /// Call it after the work has been put where the runner looks. `None`: somebody else runs and
    /// will find the work. Never waits; any context. The runner must not sleep if any caller of
    /// [`enter`](Self::enter) counts on the work being done soon.
    #[inline]
    pub(crate) fn enter(&self) -> Option<Turn<'_, T>> {
        let mut seen = self.state.load(ordering::Relaxed);
        loop {
            let next = if seen == IDLE { RUNNING } else { PENDING };
            // A successful exchange is needed even from `PENDING` to `PENDING`: it orders the work
            // that was queued before it with the `leave` that follows.
            match self.state.cmpxchg(seen, next, ordering::Full) {
                Ok(_) if next == RUNNING => {
                    // INVARIANT: The state left `IDLE` by our hand, so there was no `Turn`.
                    return Some(Turn::new(self));
                }
                Ok(_) => return None,
                Err(now) => seen = now,
            }
        }
    }

    /// Makes the caller the runner if nobody else is; leaves no word otherwise. Any context.
    #[inline]
    pub(crate) fn try_enter(&self) -> Option<Turn<'_, T>> {
        self.state.cmpxchg(IDLE, RUNNING, ordering::Full).ok()?;
        // INVARIANT: The state left `IDLE` by our hand, so there was no `Turn`.
        Some(Turn::new(self))
    }

    /// Makes the caller the runner, sleeping until nobody else is.
    ///
    /// Process context, may sleep. For rare operations (a change of attributes, tear-down): the wait
    /// is a poll of some tens of microseconds.
    pub(crate) fn enter_sleeping(&self) -> Turn<'_, T> {
        loop {
            if let Some(turn) = self.try_enter() {
                return turn;
            }
            fsleep(Delta::from_micros(RETRY_US));
        }
    }
}

/// The right to work on the data of an [`Owned`]; there is at most one.
///
/// Give it back with [`leave`](Self::leave). Dropping it leaves too, but forgets that others may have
/// announced work: right only for a caller that announces a run of its own afterwards (a work item,
/// say), or that knows that its next step does.
///
/// # Invariants
///
/// The state of `owned` is not [`IDLE`] and no other `Turn` on it exists.
#[must_use = "dropping a turn may leave announced work undone"]
pub(crate) struct Turn<'a, T> {
    owned: &'a Owned<T>,
    /// What a turn is: to share one between threads is to share the data, to send it, to send them.
    data: PhantomData<&'a mut T>,
}

impl<'a, T> Turn<'a, T> {
    /// The turn on `owned`, of which there must be no other, and whose state must say so.
    #[inline]
    fn new(owned: &'a Owned<T>) -> Self {
        Self {
            owned,
            data: PhantomData,
        }
    }

    /// Ends the turn, unless somebody announced work: then the turn goes on and is given back.
    ///
    /// ```ignore
    /// let mut turn = owned.enter();
    /// while let Some(mut running) = turn {
    ///     running.drain(&queue);
    ///     turn = running.leave();
    /// }
    /// ```
    #[inline]
    #[must_use = "a turn that is given back must look for work again"]
    pub(crate) fn leave(self) -> Option<Self> {
        let state = &self.owned.state;
        if state.cmpxchg(RUNNING, IDLE, ordering::Full).is_ok() {
            // The state is idle already and the word may be somebody else's: skip the drop.
            core::mem::forget(self);
            return None;
        }
        // Nobody but the runner takes `PENDING` away, so this cannot overwrite anything else.
        state.xchg(RUNNING, ordering::Full);
        Some(self)
    }
}

impl<T> Deref for Turn<'_, T> {
    type Target = T;

    #[inline]
    fn deref(&self) -> &T {
        // SAFETY: By the type invariant nobody else has access to the data.
        unsafe { &*self.owned.data.get() }
    }
}

impl<T: Unpin> DerefMut for Turn<'_, T> {
    #[inline]
    fn deref_mut(&mut self) -> &mut T {
        // SAFETY: By the type invariant nobody else has access to the data.
        unsafe { &mut *self.owned.data.get() }
    }
}

impl<T> Drop for Turn<'_, T> {
    #[inline]
    fn drop(&mut self) {
        self.owned.state.xchg(IDLE, ordering::Full);
    }
}
