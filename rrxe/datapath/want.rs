// SPDX-License-Identifier: GPL-2.0

//! What one side of a queue pair waits for: a page, and the news that it cannot be had.
//!
//! The news is for who waits, and for nobody else: it is told in the turn that follows, once, and
//! forgotten with that. Whoever misses the page later has it looked for again.
//!
//! # Locking
//!
//! A lock guards what is wanted and what is known of it. It is taken with softirqs disabled, for a few
//! instructions, and no other lock is taken under it.

use super::paging::Missing;
use crate::kapi::sync::{
    new_spinlock_bh,
    SpinLockBh, //
};
use kernel::{
    prelude::*,
    sync::atomic::{
        Acquire,
        Atomic,
        Relaxed,
        Release, //
    },
};

/// The page that a side waits for.
#[pin_data]
pub(super) struct Want {
    /// Whether a turn has to be told something, or has been.
    is_news: Atomic<bool>,
    #[pin]
    state: SpinLockBh<State>,
}

#[derive(Default)]
struct State {
    wanted: Option<Order>,
    /// Orders so far.
    orders: u64,
    /// A page that could not be had.
    lost: Option<Missing>,
    /// One of which the present turn knows that.
    known: Option<Missing>,
}

/// A page that is to come in, for a side that waits for it.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) struct Order {
    page: Missing,
    number: u64,
}

/// A page that was waited for cannot be had.
pub(super) struct Lost;

/// What a side has to do about a page.
#[derive(Clone, Copy, PartialEq, Eq)]
#[must_use]
pub(super) enum Asked {
    /// Have it come in.
    Anew,
    /// Nothing: it is under way.
    Already,
}

impl Order {
    /// The page.
    pub(super) fn page(&self) -> Missing {
        self.page
    }
}

impl Want {
    /// Nothing is wanted.
    pub(super) fn new() -> impl PinInit<Self> {
        pin_init!(Self {
            is_news: Atomic::new(false),
            state <- new_spinlock_bh!(State::default(), "rrxe::Want"),
        })
    }

    /// Asks for `page`. `Lost` if the side has waited for it in vain; it is told so once.
    ///
    /// If the side waits for another page, it will find that missing again.
    pub(super) fn ask(&self, page: Missing) -> Result<Asked, Lost> {
        let mut state = self.state.lock();
        if state.known.take_if(|known| *known == page).is_some() {
            return Err(Lost);
        }
        if state.wanted.is_some_and(|order| order.page == page) {
            return Ok(Asked::Already);
        }
        state.orders = state.orders.wrapping_add(1);
        state.wanted = Some(Order {
            page,
            number: state.orders,
        });
        Ok(Asked::Anew)
    }

    /// What is to come in.
    pub(super) fn order(&self) -> Option<Order> {
        self.state.lock().wanted
    }

    /// Takes note of how `order` went. The side is to take a turn after this.
    pub(super) fn settle(&self, order: Order, outcome: Result) {
        let mut state = self.state.lock();
        // Who waited may have given up.
        if state.wanted.take_if(|wanted| *wanted == order).is_some() && outcome.is_err() {
            state.lost = Some(order.page);
            self.is_news.store(true, Release);
        }
    }

    /// A turn begins.
    pub(super) fn begin_turn(&self) {
        if self.is_news.load(Acquire) {
            let mut state = self.state.lock();
            let lost = state.lost.take();
            state.known = lost.or(state.known);
        }
    }

    /// A turn ends. What it was told and did not ask for is forgotten.
    pub(super) fn end_turn(&self) {
        if self.is_news.load(Relaxed) {
            let mut state = self.state.lock();
            state.known = None;
            self.is_news.store(state.lost.is_some(), Relaxed);
        }
    }

    /// Nobody waits any more.
    pub(super) fn forget(&self) {
        let mut state = self.state.lock();
        state.wanted = None;
        state.lost = None;
        state.known = None;
    }
}
