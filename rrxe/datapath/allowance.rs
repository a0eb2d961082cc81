// SPDX-License-Identifier: GPL-2.0

//! How much memory the packets that wait on a device may take.

use kernel::sync::atomic::{
    Atomic,
    Relaxed, //
};
use rrxe_proto::rc::share;

/// An allowance of bytes.
pub(super) struct Allowance {
    limit: usize,
    /// Bytes in use.
    used: Atomic<usize>,
}

/// Whether something keeps within a limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fit {
    Fits,
    Exceeds,
}

impl Allowance {
    /// One of `limit` bytes, all of which are there.
    pub(super) fn new(limit: usize) -> Self {
        Self {
            limit,
            used: Atomic::new(0),
        }
    }

    /// Takes `bytes`, whether there are as many or not, and tells.
    pub(super) fn charge(&self, bytes: usize) -> Fit {
        // Spares the others' cache line.
        if bytes == 0 {
            return Fit::Fits;
        }
        let used = self.used.fetch_add(bytes, Relaxed).saturating_add(bytes);
        if used <= self.limit {
            Fit::Fits
        } else {
            Fit::Exceeds
        }
    }

    /// Takes `bytes` for one that holds `held`, if they are within its [share](share::may_take).
    pub(super) fn take_share(&self, held: usize, bytes: usize) -> Fit {
        let used = self.used.fetch_add(bytes, Relaxed);
        if share::may_take(self.limit, used, held, bytes) {
            return Fit::Fits;
        }
        self.give_back(bytes);
        Fit::Exceeds
    }

    /// Gives back `bytes` that were taken.
    pub(super) fn give_back(&self, bytes: usize) {
        if bytes != 0 {
            self.used.fetch_sub(bytes, Relaxed);
        }
    }
}
