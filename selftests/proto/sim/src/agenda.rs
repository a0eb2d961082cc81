// SPDX-License-Identifier: GPL-2.0

//! Virtual time: what happens when. Entries of the same instant keep the order they were made in.

use std::{
    cmp::Reverse,
    collections::BinaryHeap, //
};

/// Nanoseconds since the scenario began.
pub type Nanos = u64;

/// One microsecond.
pub const MICROSECOND: Nanos = 1_000;
/// One millisecond.
pub const MILLISECOND: Nanos = 1_000_000;
/// One second.
pub const SECOND: Nanos = 1_000_000_000;

/// A queue of future events, popped in the order of time.
#[derive(Debug)]
pub struct Agenda<E> {
    now: Nanos,
    made: u64,
    heap: BinaryHeap<Reverse<Entry<E>>>,
}

impl<E> Default for Agenda<E> {
    fn default() -> Self {
        Self {
            now: 0,
            made: 0,
            heap: BinaryHeap::new(),
        }
    }
}

impl<E> Agenda<E> {
    /// The time of the event popped last.
    pub fn now(&self) -> Nanos {
        self.now
    }

    /// Adds an event; one for the past happens now.
    pub fn at(&mut self, time: Nanos, event: E) {
        let time = time.max(self.now);
        self.heap.push(Reverse(Entry {
            time,
            order: self.made,
            event,
        }));
        self.made += 1;
    }

    /// Adds an event `delay` from now.
    pub fn after(&mut self, delay: Nanos, event: E) {
        self.at(self.now.saturating_add(delay), event);
    }

    /// Advances to the next event.
    pub fn pop(&mut self) -> Option<E> {
        let Reverse(entry) = self.heap.pop()?;
        self.now = entry.time;
        Some(entry.event)
    }
}

#[derive(Debug)]
struct Entry<E> {
    time: Nanos,
    order: u64,
    event: E,
}

impl<E> Entry<E> {
    fn key(&self) -> (Nanos, u64) {
        (self.time, self.order)
    }
}

impl<E> PartialEq for Entry<E> {
    fn eq(&self, other: &Self) -> bool {
        self.key() == other.key()
    }
}

impl<E> Eq for Entry<E> {}

impl<E> PartialOrd for Entry<E> {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl<E> Ord for Entry<E> {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.key().cmp(&other.key())
    }
}
