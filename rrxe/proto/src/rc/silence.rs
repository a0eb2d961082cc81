// SPDX-License-Identifier: GPL-2.0

//! How long a peer is silent.

use core::time::Duration;

use crate::time::Instant;

/// How long there has been no progress, and when to remind the peer of the oldest packet before the
/// acknowledgement timeout.
///
/// A responder tells of a gap once. If that is lost, or what was sent again because of it, nobody
/// says anything any more, and the timeout may be long. A reminder is one packet, and no retry: the
/// timeout alone decides when to give up.
#[derive(Debug)]
pub(super) struct Silence {
    since: Instant,
    /// Reminders since then.
    reminders: u32,
    /// How long silence lasts where nothing is lost, in nanoseconds: its longest, forgotten slowly.
    usual: u64,
}

/// Reminders in a timeout at most.
const REMINDERS: u32 = 3;

/// Silence that may mean nothing however short the timeout is, in nanoseconds.
const SHORT: u64 = 1_000_000;

impl Silence {
    /// No silence yet.
    pub(super) const fn new() -> Self {
        Self {
            since: Instant::from_nanos(0),
            reminders: 0,
            usual: 0,
        }
    }

    /// It begins anew, because something was sent.
    pub(super) fn begin(&mut self, now: Instant) {
        self.since = now;
        self.reminders = 0;
    }

    /// It goes on, but what came before `now` does not count.
    pub(super) fn go_on(&mut self, now: Instant) {
        self.since = now;
    }

    /// It ends with progress.
    pub(super) fn end(&mut self, now: Instant) {
        let lasted = now.as_nanos().saturating_sub(self.since.as_nanos());
        self.usual = match self.reminders {
            0 => lasted.max(self.usual.saturating_sub(self.usual >> 6)),
            // It is not known which packet this answers: longer than was thought, maybe.
            _ => self.usual.saturating_add((self.usual >> 2).max(SHORT >> 2)),
        };
    }

    /// When to send a reminder, if nothing has happened by then, for a timeout of `timeout`.
    pub(super) fn deadline(&self, timeout: Duration) -> Option<Instant> {
        let timeout = u64::try_from(timeout.as_nanos()).ok()?;
        // A sixteenth of the timeout means nothing either.
        let patience = (timeout >> 4).max(SHORT).max(self.usual.saturating_mul(2));
        // Each reminder is waited for twice as long as the one before.
        let waits = (2u64 << self.reminders.min(REMINDERS)).saturating_sub(1);
        let after = patience.saturating_mul(waits);
        let is_due = self.reminders < REMINDERS && after <= timeout >> 1;
        is_due.then(|| self.since.saturating_add(Duration::from_nanos(after)))
    }

    /// A reminder is sent.
    pub(super) fn remind(&mut self) {
        self.reminders = self.reminders.saturating_add(1);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TIMEOUT: Duration = Duration::from_millis(64);

    fn millis(ms: u64) -> Instant {
        Instant::from_nanos(ms * 1_000_000)
    }

    #[test]
    fn reminders_come_ever_more_slowly_and_end() {
        let mut silence = Silence::new();
        silence.begin(millis(100));
        for due in [104, 112, 128] {
            assert_eq!(silence.deadline(TIMEOUT), Some(millis(due)));
            silence.remind();
        }
        assert_eq!(silence.deadline(TIMEOUT), None);
    }

    #[test]
    fn a_short_timeout_leaves_no_time_for_reminders() {
        assert_eq!(Silence::new().deadline(Duration::from_millis(1)), None);
    }

    #[test]
    fn a_slow_peer_is_given_more_time() {
        let mut silence = Silence::new();
        silence.begin(millis(0));
        silence.end(millis(10));
        silence.begin(millis(10));
        assert_eq!(silence.deadline(TIMEOUT), Some(millis(30)));
        for _ in 0..1000 {
            silence.end(millis(10));
        }
        assert_eq!(silence.deadline(TIMEOUT), Some(millis(14)));
    }

    #[test]
    fn what_was_held_back_begins_the_wait_and_not_the_reminders_anew() {
        let mut silence = Silence::new();
        silence.begin(millis(0));
        silence.remind();
        silence.go_on(millis(20));
        assert_eq!(silence.deadline(TIMEOUT), Some(millis(20 + 12)));
    }

    #[test]
    fn a_slow_peer_is_forgotten_by_a_sixty_fourth() {
        let mut silence = Silence::new();
        silence.end(millis(8));
        silence.begin(millis(8));
        silence.end(millis(8));
        let usual = Duration::from_millis(8) * 63 / 64;
        assert_eq!(
            silence.deadline(TIMEOUT),
            Some(millis(8).saturating_add(2 * usual))
        );
    }

    #[test]
    fn an_answer_to_a_reminder_adds_a_quarter_but_not_too_little() {
        let timeout = Duration::from_millis(16);
        let mut silence = Silence::new();
        silence.remind();
        // Four times 0.25 ms, then a quarter.
        for usual in [1_000_000, 1_250_000] {
            while silence.usual < usual {
                silence.end(millis(0));
            }
            silence.begin(millis(0));
            let due = Instant::from_nanos(2 * usual);
            assert_eq!(silence.deadline(timeout), Some(due));
            silence.remind();
        }
    }

    #[test]
    fn reminders_that_are_answered_make_for_patience() {
        let mut silence = Silence::new();
        for _ in 0..100 {
            silence.begin(millis(0));
            silence.remind();
            silence.end(millis(5));
        }
        assert_eq!(silence.deadline(TIMEOUT), None);
    }
}
