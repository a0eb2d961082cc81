// SPDX-License-Identifier: GPL-2.0

//! The receiver's part of congestion control.

use core::time::Duration;

use crate::time::Instant;

/// When a peer was last notified of congestion.
#[derive(Clone, Copy, Debug, Default)]
pub struct NotificationPoint {
    last: Option<Instant>,
}

impl NotificationPoint {
    /// Nothing was sent so far.
    pub const fn new() -> Self {
        Self { last: None }
    }

    /// A packet has arrived that met congestion: whether to notify its sender of it, once in
    /// `interval`. Counts as done if so.
    pub fn is_due(&mut self, now: Instant, interval: Duration) -> bool {
        let due = self
            .last
            .is_none_or(|last| now.saturating_since(last) >= interval);
        if due {
            self.last = Some(now);
        }
        due
    }
}
