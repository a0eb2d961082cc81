// SPDX-License-Identifier: GPL-2.0

//! A receive queue that queue pairs share.
//!
//! # Locking
//!
//! The queue's lock is a leaf, taken in process and softirq context: queue pairs take requests from
//! it at the same time. The event is raised when it has been released.

use super::region::PdId;
use crate::{
    kapi::{
        rdma::{
            SrqEvent,
            SrqEvents, //
        },
        sync::{
            new_spinlock_bh,
            SpinLockBh, //
        },
    },
    ring::{
        ReceiveCaps,
        ReceiveRing,
        ReceiveWqe,
        Take, //
    },
};
use core::mem;
use kernel::{
    prelude::*,
    sync::Arc, //
};

/// A shared receive queue. Clones are handles of the same queue; queue pairs keep one.
#[derive(Clone)]
pub(crate) struct Srq(Arc<Queue>);

#[pin_data]
struct Queue {
    /// The protection domain of the memory that messages are put into, whoever receives them.
    pd: PdId,
    #[pin]
    state: SpinLockBh<State>,
    events: SrqEvents,
}

struct State {
    ring: ReceiveRing,
    /// Warn when fewer requests are left, once; 0 for never.
    limit: u32,
}

impl Srq {
    /// A queue without requests and without a limit. May sleep. `ENOMEM` when out of memory.
    pub(crate) fn new(ring: ReceiveRing, pd: PdId, events: SrqEvents) -> Result<Self> {
        let state = State { ring, limit: 0 };
        let queue = pin_init!(Queue {
            pd,
            state <- new_spinlock_bh!(state, "rrxe::Srq"),
            events,
        });
        Ok(Self(Arc::pin_init(queue, GFP_KERNEL)?))
    }

    /// How many requests fit.
    pub(crate) fn sizes(&self) -> ReceiveCaps {
        self.0.state.lock().ring.caps()
    }

    /// How many requests are posted.
    pub(crate) fn posted(&self) -> u32 {
        self.0.state.lock().ring.posted()
    }

    /// Whose memory messages are put into.
    pub(super) fn pd(&self) -> PdId {
        self.0.pd
    }

    /// How few requests are to be warned of; 0 if none are, or if that has been done.
    pub(crate) fn limit(&self) -> u32 {
        self.0.state.lock().limit
    }

    /// Warns, once, when a request is taken and fewer than `limit` are left; 0 for never.
    ///
    /// `EINVAL` if the queue cannot hold so many.
    pub(crate) fn set_limit(&self, limit: u32) -> Result {
        self.0.state.lock().set_limit(limit)
    }

    /// Goes on with `ring`, which gets all requests that have not been taken, in their order, and
    /// warns as [`set_limit`](Self::set_limit) has it. May sleep; one call at a time.
    ///
    /// What user space posts to the old ring meanwhile is lost. Its library does not.
    ///
    /// # Errors
    ///
    /// `EINVAL` if `ring` is too small for the requests or for the limit; nothing has changed then.
    pub(crate) fn replace_ring(&self, mut ring: ReceiveRing, limit: Option<u32>) -> Result {
        // All is copied without the lock. What is taken meanwhile is skipped afterwards.
        let old = self.0.state.lock().ring.snapshot();
        ring.append_from(&old)?;

        let mut state = self.0.state.lock();
        let limit = limit.unwrap_or(state.limit);
        if limit > ring.caps().max_wr {
            return Err(EINVAL);
        }
        ring.skip(state.ring.taken_since(&old));
        state.limit = limit;
        mem::swap(&mut state.ring, &mut ring);
        drop(state);
        // The old ring goes away here, without the lock: freeing it may sleep.
        drop(ring);
        Ok(())
    }

    /// Takes the next posted request to `wqe`, private memory of the caller.
    ///
    /// Process or softirq context; never sleeps.
    pub(super) fn take(&self, wqe: &mut ReceiveWqe) -> Take {
        let mut state = self.0.state.lock();
        let taken = state.ring.take(wqe);
        let warn = taken != Take::Empty && state.ring.posted() < state.limit;
        if warn {
            state.limit = 0;
        }
        drop(state);
        if warn {
            self.0.events.raise(SrqEvent::LimitReached);
        }
        taken
    }
}

impl State {
    fn set_limit(&mut self, limit: u32) -> Result {
        if limit > self.ring.caps().max_wr {
            return Err(EINVAL);
        }
        self.limit = limit;
        Ok(())
    }
}
