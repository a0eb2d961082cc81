// SPDX-License-Identifier: GPL-2.0

//! Counters that every CPU has its own copy of, so that counting costs no cache line that others
//! want.
//!
//! C header: [`include/linux/percpu.h`](srctree/include/linux/percpu.h)

use crate::kapi::bindings as b;
use core::ptr::NonNull;
use kernel::prelude::*;

/// An array of `N` counters.
///
/// # Invariants
///
/// `counters` is an allocation of the per-CPU allocator for `N` counters, and ours.
pub(crate) struct PerCpuCounters<const N: usize> {
    counters: NonNull<u64>,
}

// SAFETY: Any thread may count, read and free.
unsafe impl<const N: usize> Send for PerCpuCounters<N> {}

// SAFETY: The accesses are those of the per-CPU operations, which need no lock.
unsafe impl<const N: usize> Sync for PerCpuCounters<N> {}

impl<const N: usize> PerCpuCounters<N> {
    /// Counters that are zero. May sleep. `ENOMEM` when out of memory.
    pub(crate) fn new() -> Result<Self> {
        // SAFETY: May be called in process context.
        let counters = unsafe { b::helpers::percpu_counters_alloc(N) };
        // INVARIANT: The allocator gave it to us.
        Ok(Self {
            counters: NonNull::new(counters).ok_or(ENOMEM)?,
        })
    }

    /// Counts `n` more of what is at `index`; nothing if there is no such place. Any context.
    #[inline]
    pub(crate) fn add(&self, index: usize, n: u64) {
        if let Some(counter) = self.counter(index) {
            // SAFETY: It is a per-CPU counter.
            unsafe { b::helpers::percpu_counter_add(counter, n) };
        }
    }

    /// How many all CPUs have counted of what is at `index`, modulo 2^64. Any context.
    pub(crate) fn sum(&self, index: usize) -> u64 {
        self.counter(index).map_or(0, |counter| {
            // SAFETY: It is a per-CPU counter.
            unsafe { b::helpers::percpu_counter_sum(counter) }
        })
    }

    /// The per-CPU address of a counter, which is none that can be dereferenced.
    fn counter(&self, index: usize) -> Option<*mut u64> {
        (index < N).then(|| self.counters.as_ptr().wrapping_add(index))
    }
}

impl<const N: usize> Drop for PerCpuCounters<N> {
    fn drop(&mut self) {
        // SAFETY: It is ours by the type invariant, and not used any more.
        unsafe { b::helpers::percpu_counters_free(self.counters.as_ptr()) };
    }
}
