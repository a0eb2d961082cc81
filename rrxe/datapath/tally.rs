// SPDX-License-Identifier: GPL-2.0

//! Counters of queue pairs (`rdma statistic qp`): sets that queue pairs are bound to, for which they
//! count besides their device.
//!
//! The number of its set is all that a queue pair knows, so that binding it takes no lock of the
//! packet path, and one that is not bound looks at nothing but that number.

use super::{
    counters::{
        Counter,
        Counters, //
    },
    node::Node,
};
use crate::kapi::sync::RcuTable;
use core::ops::RangeInclusive;
use kernel::{
    prelude::*,
    sync::{
        atomic::{
            Atomic,
            Relaxed, //
        },
        rcu,
        Arc, //
    },
};

/// Numbers of sets. Zero is nobody's.
const NUMBERS: RangeInclusive<u32> = 1..=1 << 20;

/// The sets of counters that queue pairs of a device are bound to.
#[pin_data]
pub(crate) struct Tallies {
    /// By number.
    #[pin]
    sets: RcuTable<Counters>,
    /// What was counted for any set, also for those that are gone.
    all: Counters,
}

impl Tallies {
    /// No sets, where `all` are zero.
    pub(super) fn new(all: Counters) -> impl PinInit<Self> {
        pin_init!(Self {
            sets <- RcuTable::new(*NUMBERS.start()),
            all,
        })
    }

    /// Makes a set of counters that are zero, and returns its number. Process context, may sleep.
    ///
    /// # Errors
    ///
    /// `EBUSY` if there are as many as there may be, `ENOMEM` when out of memory.
    pub(crate) fn add(&self) -> Result<u32> {
        let place = self.sets.reserve(NUMBERS, GFP_KERNEL)?;
        let number = place.id();
        place.publish(Arc::new(Counters::new()?, GFP_KERNEL)?)?;
        Ok(number)
    }

    /// Drops the set `number`. Process context, sleeps.
    pub(crate) fn remove(&self, number: u32) {
        drop(self.sets.remove(number));
    }

    /// The counter at `index` of the set `number`; zero if there is none.
    pub(crate) fn get(&self, number: u32, index: usize) -> u64 {
        let guard = rcu::read_lock();
        self.sets
            .get(number, &guard)
            .map_or(0, |set| set.get(index))
    }

    /// What was counted for any set of the counter at `index`.
    pub(crate) fn total(&self, index: usize) -> u64 {
        self.all.get(index)
    }
}

/// Which set a queue pair is bound to.
pub(super) struct Binding(Atomic<u32>);

/// A queue pair counts for its device alone.
const UNBOUND: u32 = 0;

impl Binding {
    pub(super) const fn new() -> Self {
        Self(Atomic::new(UNBOUND))
    }

    /// Counts for the set `number` from now on, or for none. On return nothing is counted any more for
    /// the one before. Process context, sleeps.
    pub(super) fn change(&self, number: Option<u32>, node: &Node) {
        self.0.store(number.unwrap_or(UNBOUND), Relaxed);
        node.tallies().sets.wait_for_lookups();
    }

    /// Counts `n` more for the set that it is bound to, if it is bound. Any context.
    #[inline]
    pub(super) fn add(&self, node: &Node, counter: Counter, n: u64) {
        if self.0.load(Relaxed) != UNBOUND {
            self.add_bound(node, counter, n);
        }
    }

    #[cold]
    fn add_bound(&self, node: &Node, counter: Counter, n: u64) {
        let guard = rcu::read_lock();
        // Within the section, so that whoever changes it waits for this.
        let number = self.0.load(Relaxed);
        if let Some(set) = node.tallies().sets.get(number, &guard) {
            set.add(counter, n);
            node.tallies().all.add(counter, n);
        }
    }
}
