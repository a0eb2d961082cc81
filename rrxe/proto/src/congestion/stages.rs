// SPDX-License-Identifier: GPL-2.0

//! What time and bytes sent since the last cut do to a rate.

use crate::{
    congestion::ReactionParams,
    time::Instant, //
};

/// How a rate rises.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Rise {
    /// Towards its target, which stays.
    Recover,
    /// The target rises, too.
    Add,
    /// The target rises fast.
    Hyper,
}

/// How often the rate has risen since the last cut, and when it does next.
#[derive(Clone, Copy, Debug)]
pub(super) struct Stages {
    by_time: u32,
    by_bytes: u32,
    /// When the current period of time began.
    since: Instant,
    /// Bytes of the current period of bytes.
    bytes: u64,
}

impl Stages {
    /// Starts from a cut.
    pub(super) fn new(now: Instant) -> Self {
        Self {
            by_time: 0,
            by_bytes: 0,
            since: now,
            bytes: 0,
        }
    }

    /// When the current period of time ends.
    pub(super) fn next(&self, params: &ReactionParams) -> Instant {
        self.since.saturating_add(params.time_reset)
    }

    /// Ends the current period of time.
    pub(super) fn on_period(&mut self, params: &ReactionParams) -> Rise {
        self.since = self.next(params);
        self.by_time = self.by_time.saturating_add(1);
        self.rise(params)
    }

    /// Counts bytes sent. Says how the rate rises if they end a period.
    pub(super) fn on_sent(&mut self, bytes: u64, params: &ReactionParams) -> Option<Rise> {
        self.bytes = self.bytes.saturating_add(bytes);
        let left = self.bytes.checked_sub(params.byte_reset.into())?;
        // A burst of several periods counts as one.
        self.bytes = left.min(params.byte_reset.into());
        self.by_bytes = self.by_bytes.saturating_add(1);
        Some(self.rise(params))
    }

    fn rise(&self, params: &ReactionParams) -> Rise {
        let (low, high) = (
            self.by_time.min(self.by_bytes),
            self.by_time.max(self.by_bytes),
        );
        if low > params.threshold {
            Rise::Hyper
        } else if high > params.threshold {
            Rise::Add
        } else {
            Rise::Recover
        }
    }
}
