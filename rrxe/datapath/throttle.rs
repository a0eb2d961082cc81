// SPDX-License-Identifier: GPL-2.0

//! How fast a queue pair may send, and how often it may notify its peer.

use super::station::BURST;
use crate::kapi::{
    sync::{
        new_spinlock_bh,
        SpinLockBh, //
    },
    time::now,
};
use core::time::Duration;
use kernel::{
    prelude::*,
    sync::atomic::{
        Atomic,
        Relaxed, //
    },
};
use rrxe_proto::{
    congestion::{
        NotificationPoint,
        Rate,
        ReactionParams,
        ReactionPoint, //
    },
    time::Instant,
};

/// Packets of one plan while there is a rate to keep.
const LIMITED_BURST: u32 = 4;

/// Both points of a queue pair's congestion control, which its two sides share.
#[pin_data]
pub(super) struct Throttle {
    /// Whether the reaction point wants to be asked. It does not in nearly all queue pairs, which
    /// take no lock then.
    engaged: Atomic<bool>,
    /// Guards both points. Taken by whoever runs a side; nothing is taken under it.
    #[pin]
    points: SpinLockBh<Points>,
}

struct Points {
    reaction: ReactionPoint,
    notification: NotificationPoint,
}

impl Throttle {
    /// One that holds nothing back.
    pub(super) fn new() -> impl PinInit<Self> {
        pin_init!(Self {
            engaged: Atomic::new(false),
            points <- new_spinlock_bh!(Points {
                reaction: ReactionPoint::new(),
                notification: NotificationPoint::new(),
            }),
        })
    }

    /// Forgets what has happened.
    pub(super) fn reset(&self) {
        self.react(|reaction| *reaction = ReactionPoint::new());
    }

    /// Packets to send at most before asking again.
    #[inline]
    pub(super) fn burst(&self) -> u32 {
        if self.is_engaged() {
            LIMITED_BURST
        } else {
            BURST
        }
    }

    /// Whether packets may be sent now. If not: when to ask again.
    #[inline]
    pub(super) fn admit(&self) -> Result<(), Instant> {
        if self.is_engaged() {
            self.admit_limited()
        } else {
            Ok(())
        }
    }

    /// Counts a packet sent.
    #[inline]
    pub(super) fn sent(&self, bytes: usize) {
        if self.is_engaged() {
            self.react(|reaction| reaction.on_sent(now(), bytes as u64));
        }
    }

    /// The rate to keep, if there is one.
    pub(super) fn rate(&self) -> Option<Rate> {
        self.points.lock().reaction.rate()
    }

    /// Takes note that the peer has told of congestion.
    pub(super) fn slow_down(&self, now: Instant, params: &ReactionParams) {
        self.react(|reaction| reaction.on_cnp(now, params));
    }

    /// Whether to tell the peer of congestion, which it is told once in `interval`.
    pub(super) fn may_notify(&self, now: Instant, interval: Duration) -> bool {
        self.points.lock().notification.is_due(now, interval)
    }

    #[inline]
    fn is_engaged(&self) -> bool {
        self.engaged.load(Relaxed)
    }

    fn admit_limited(&self) -> Result<(), Instant> {
        let now = now();
        self.react(|reaction| match reaction.earliest_send(now) {
            earliest if earliest <= now => Ok(()),
            // The rate may rise before.
            earliest => Err(reaction
                .next_deadline()
                .map_or(earliest, |deadline| deadline.min(earliest))),
        })
    }

    fn react<R>(&self, action: impl FnOnce(&mut ReactionPoint) -> R) -> R {
        let mut points = self.points.lock();
        let result = action(&mut points.reaction);
        self.engaged.store(!points.reaction.is_free(), Relaxed);
        result
    }
}
