// SPDX-License-Identifier: GPL-2.0

//! How long to go on trying to send where there is no room.

use crate::kapi::time::now;
use core::time::Duration;
use rrxe_proto::time::Instant;

/// How long there may be no room for a packet before packets count as lost.
const LIMIT: Duration = Duration::from_millis(100);

/// How long one sender has found no room for its packets.
///
/// If a queue is full for a moment packets wait for it. But there are queues that drop all there is,
/// and one has to come to the end of the retries.
#[derive(Default)]
pub(crate) struct Patience {
    /// Since when there has been no room for any packet.
    blocked: Option<Instant>,
}

impl Patience {
    /// Takes note that there was room for a packet.
    pub(super) fn has_room(&mut self) {
        self.blocked = None;
    }

    /// Takes note that there was no room for a packet, and says whether it counts as lost.
    pub(super) fn has_no_room(&mut self) -> bool {
        let now = now();
        let since = *self.blocked.get_or_insert(now);
        now.saturating_since(since) >= LIMIT
    }
}
