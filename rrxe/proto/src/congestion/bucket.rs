// SPDX-License-Identifier: GPL-2.0

//! Spreading what is sent over time.

use core::time::Duration;

use crate::{
    congestion::rate::{
        Rate,
        Volume, //
    },
    time::Instant, //
};

/// Bytes that were sent and are ahead of the rate.
///
/// A sender that comes late, as those who wait for timers do, may catch up with up to [`SLACK`].
#[derive(Clone, Copy, Debug)]
pub(super) struct Bucket {
    ahead: Volume,
    at: Instant,
}

/// How late a sender may come without a loss of rate.
pub(super) const SLACK: Duration = Duration::from_micros(250);

impl Bucket {
    /// Nothing was sent so far.
    pub(super) fn new(now: Instant) -> Self {
        Self {
            ahead: Volume::default(),
            at: now,
        }
    }

    /// Lets time pass at `rate`.
    pub(super) fn drain(&mut self, now: Instant, rate: Rate) {
        let drained = rate.volume_in(now.saturating_since(self.at));
        self.ahead = self.ahead.beyond(drained);
        self.at = self.at.max(now);
    }

    /// Counts bytes sent.
    pub(super) fn fill(&mut self, bytes: u64) {
        self.ahead = self.ahead.plus(Volume::of(bytes));
    }

    /// When the next bytes may be sent at `rate`.
    pub(super) fn earliest(&self, rate: Rate) -> Instant {
        let excess = self.ahead.beyond(rate.volume_in(SLACK));
        self.at.saturating_add(rate.time_for(excess))
    }
}
