// SPDX-License-Identifier: GPL-2.0

//! Counters that no two CPUs share a cache line for.
//!
//! C header: [`include/linux/percpu.h`](srctree/include/linux/percpu.h)

use crate::kapi::bindings as b;
use core::ptr::NonNull;
use kernel::prelude::*;

/// `N` counters of 64 bits, each kept once on every CPU.
///
/// Adding is one instruction on this CPU's own copy, in any context; reading sums over all CPUs.
/// Counters start at zero and wrap.
///
/// # Invariants
///
/// `base` is a per-CPU allocation of `N` (at least one) `u64`, owned by this object.
pub(crate) struct Counters<const N: usize> {
    base: NonNull<u64>,
}

// SAFETY: The allocation may be freed by any thread.
unsafe impl<const N: usize> Send for Counters<N> {}

// SAFETY: Counters are changed by single per-CPU instructions and read by single loads only.
unsafe impl<const N: usize> Sync for Counters<N> {}

impl<const N: usize> Counters<N> {
    /// Allocates the counters; process context, may sleep. `ENOMEM` when out of memory.
    pub(crate) fn new() -> Result<Self> {
        // SAFETY: A number of at least one may be asked for.
        let base = unsafe { b::helpers::alloc_percpu_u64s(N.max(1)) };
        // INVARIANT: That many were just allocated.
        Ok(Self {
            base: NonNull::new(base).ok_or(ENOMEM)?,
        })
    }

    /// Adds `n` to counter `index`; nothing happens if there is no such counter. Any context.
    #[inline]
    pub(crate) fn add(&self, index: usize, n: u64) {
        if let Some(counter) = self.counter(index) {
            // SAFETY: `counter` is one of the per-CPU numbers of this allocation.
            unsafe { b::helpers::this_cpu_add_u64(counter, n) };
        }
    }

    /// Adds one to counter `index`, as [`add`](Self::add) does.
    #[inline]
    pub(crate) fn increment(&self, index: usize) {
        self.add(index, 1);
    }

    /// Counter `index` summed over all CPUs, zero if there is no such counter. Any context.
    ///
    /// What other CPUs add meanwhile may be missed.
    pub(crate) fn sum(&self, index: usize) -> u64 {
        self.counter(index).map_or(0, |counter| {
            // SAFETY: `counter` is one of the per-CPU numbers of this allocation.
            unsafe { b::helpers::sum_percpu_u64(counter) }
        })
    }

    /// The per-CPU address of counter `index`.
    #[inline]
    fn counter(&self, index: usize) -> Option<*mut u64> {
        // A per-CPU address is an offset, not memory: it is advanced as a number.
        (index < N).then(|| self.base.as_ptr().wrapping_add(index))
    }
}

impl<const N: usize> Drop for Counters<N> {
    fn drop(&mut self) {
        // SAFETY: By the type invariant the allocation is ours, and nobody can use it any more.
        unsafe { b::helpers::free_percpu(self.base.as_ptr().cast()) };
    }
}
