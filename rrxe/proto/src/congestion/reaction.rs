// SPDX-License-Identifier: GPL-2.0

//! The sender's part of congestion control.

use core::time::Duration;

use crate::{
    congestion::{
        limit::{
            Limit,
            Need, //
        },
        Rate,
        ReactionParams, //
    },
    time::Instant, //
};

/// What holds a sender back that notifications have come for.
///
/// Most senders have nothing that does, and [are free](Self::is_free): then nothing need be asked or
/// told here. An adapter's rate starts from that of its link. A soft one hardly ever sends that fast,
/// and to cut a rate that is not reached would do nothing. So the first notification starts a
/// measurement, and what is found to be sent is cut.
///
/// Time passes in the calls that are told of it; those that come late find the same rate as those
/// that came in time.
#[derive(Clone, Debug)]
pub struct ReactionPoint {
    params: ReactionParams,
    state: State,
}

#[derive(Clone, Copy, Debug)]
enum State {
    Free,
    /// A notification has come: how fast is what is being sent?
    Measuring {
        since: Instant,
        bytes: u64,
    },
    Limited(Limit),
}

/// How long a sender is measured at least.
const MEASURED: Duration = Duration::from_micros(100);

/// When a measurement is too old to tell anything: the congestion is, too.
const STALE: Duration = Duration::from_millis(50);

impl Default for ReactionPoint {
    fn default() -> Self {
        Self::new()
    }
}

impl ReactionPoint {
    /// A sender that may send as fast as it can.
    pub fn new() -> Self {
        Self {
            params: ReactionParams::DEFAULT,
            state: State::Free,
        }
    }

    /// Whether nothing holds the sender back, or may come to do so, before the next notification.
    pub fn is_free(&self) -> bool {
        matches!(self.state, State::Free)
    }

    /// The rate of a sender that has one.
    pub fn rate(&self) -> Option<Rate> {
        match &self.state {
            State::Limited(limit) => Some(limit.rate()),
            State::Free | State::Measuring { .. } => None,
        }
    }

    /// A notification has come. From now on `params` are what counts.
    pub fn on_cnp(&mut self, now: Instant, params: &ReactionParams) {
        self.on_timeout(now);
        self.params = params.valid();
        let first = self.params.rate_to_set_on_first_cnp;
        match &mut self.state {
            State::Free if first == Rate::ZERO => {
                self.state = State::Measuring {
                    since: now,
                    bytes: 0,
                };
            }
            State::Free => self.state = State::Limited(Limit::new(now, first, &self.params)),
            State::Measuring { .. } => (),
            State::Limited(limit) => limit.on_cnp(now, &self.params),
        }
    }

    /// When the next bytes may be sent: at once, unless that is after `now`. Ask again at
    /// [`next_deadline`](Self::next_deadline), when it may be earlier.
    pub fn earliest_send(&mut self, now: Instant) -> Instant {
        self.on_timeout(now);
        match &mut self.state {
            State::Limited(limit) => limit.earliest_send(now),
            State::Free | State::Measuring { .. } => now,
        }
    }

    /// `sent` bytes were sent: all of the packets, not only their payload.
    pub fn on_sent(&mut self, now: Instant, sent: u64) {
        self.on_timeout(now);
        match &mut self.state {
            State::Free => (),
            State::Measuring { bytes, .. } => *bytes = bytes.saturating_add(sent),
            State::Limited(limit) => limit.on_sent(sent, &self.params),
        }
    }

    /// When the rate rises by itself, or is found.
    pub fn next_deadline(&self) -> Option<Instant> {
        match &self.state {
            State::Free => None,
            State::Measuring { since, .. } => Some(since.saturating_add(MEASURED)),
            State::Limited(limit) => Some(limit.next(&self.params)),
        }
    }

    /// Does what is due. A call that comes early is harmless, and so is one that comes late.
    pub fn on_timeout(&mut self, now: Instant) {
        match &mut self.state {
            State::Free => (),
            State::Measuring { since, bytes } => {
                let elapsed = now.saturating_since(*since);
                if elapsed >= STALE {
                    self.state = State::Free;
                } else if elapsed >= MEASURED && *bytes != 0 {
                    let rate = Rate::of(*bytes, elapsed);
                    self.state = State::Limited(Limit::new(now, rate, &self.params));
                }
            }
            State::Limited(limit) => {
                if limit.advance(now, &self.params) == Need::Lifted {
                    self.state = State::Free;
                }
            }
        }
    }

    #[cfg(test)]
    pub(super) fn limit(&self) -> Option<&Limit> {
        match &self.state {
            State::Limited(limit) => Some(limit),
            State::Free | State::Measuring { .. } => None,
        }
    }
}
