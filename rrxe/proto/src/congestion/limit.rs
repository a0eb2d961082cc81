// SPDX-License-Identifier: GPL-2.0

//! The rate of a sender that was notified.

use crate::{
    congestion::{
        alpha::Alpha,
        bucket::Bucket,
        stages::{
            Rise,
            Stages, //
        },
        Rate,
        ReactionParams, //
    },
    time::Instant, //
};

/// A rate, cut by notifications and raised by time and bytes.
#[derive(Clone, Copy, Debug)]
pub(super) struct Limit {
    current: Rate,
    /// What the current rate rises to.
    target: Rate,
    alpha: Alpha,
    stages: Stages,
    bucket: Bucket,
    /// When it was cut.
    cut_at: Instant,
    /// Whether somebody was told to wait in this period.
    has_held: bool,
    /// Periods in a row in which nobody was.
    idle: u32,
}

/// Whether a sender still needs its limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Need {
    Limited,
    Lifted,
}

/// So many periods of time without holding anything back, and the limit is lifted.
const IDLE: u32 = 256;

impl Limit {
    /// The limit of a sender that was sending at `rate` when it was notified.
    pub(super) fn new(now: Instant, rate: Rate, params: &ReactionParams) -> Self {
        let rate = params.capped(rate);
        let mut limit = Self {
            current: rate,
            target: rate,
            alpha: Alpha::new(now, params),
            stages: Stages::new(now),
            bucket: Bucket::new(now),
            cut_at: now,
            has_held: false,
            idle: 0,
        };
        limit.cut(now, params);
        limit
    }

    /// The rate now.
    pub(super) fn rate(&self) -> Rate {
        self.current
    }

    /// When the rate rises by itself.
    pub(super) fn next(&self, params: &ReactionParams) -> Instant {
        self.stages.next(params)
    }

    /// When the next bytes may be sent.
    pub(super) fn earliest_send(&mut self, now: Instant) -> Instant {
        let earliest = self.bucket.earliest(self.current);
        self.has_held |= earliest > now;
        earliest
    }

    /// A notification has come.
    pub(super) fn on_cnp(&mut self, now: Instant, params: &ReactionParams) {
        if now.saturating_since(self.cut_at) >= params.rate_reduce_monitor_period {
            self.alpha.fall(now, params);
            self.cut(now, params);
        }
    }

    /// Bytes were sent.
    pub(super) fn on_sent(&mut self, bytes: u64, params: &ReactionParams) {
        self.bucket.fill(bytes);
        if let Some(rise) = self.stages.on_sent(bytes, params) {
            self.raise(rise, params);
        }
    }

    /// Lets time pass: in steps, of which there are [`IDLE`] at most.
    pub(super) fn advance(&mut self, now: Instant, params: &ReactionParams) -> Need {
        while self.next(params) <= now {
            self.bucket.drain(self.next(params), self.current);
            let rise = self.stages.on_period(params);
            self.raise(rise, params);
            self.idle = match core::mem::take(&mut self.has_held) {
                true => 0,
                false => self.idle.saturating_add(1),
            };
            if self.idle >= IDLE {
                return Need::Lifted;
            }
        }
        self.bucket.drain(now, self.current);
        if params.lifts(self.current) {
            return Need::Lifted;
        }
        Need::Limited
    }

    fn cut(&mut self, now: Instant, params: &ReactionParams) {
        let before = self.current.max(params.min_rate);
        self.target = before;
        self.current = self.alpha.cut(before).max(params.min_rate);
        self.alpha.rise(now, params);
        self.stages = Stages::new(now);
        self.cut_at = now;
        self.idle = 0;
    }

    fn raise(&mut self, rise: Rise, params: &ReactionParams) {
        let risen = match rise {
            Rise::Recover => self.target,
            Rise::Add => self.target.plus(params.ai_rate),
            Rise::Hyper => self.target.plus(params.hai_rate),
        };
        self.target = params.capped(risen);
        self.current = self.current.middle(self.target);
    }

    #[cfg(test)]
    pub(super) fn alpha(&self) -> f64 {
        self.alpha.value()
    }

    #[cfg(test)]
    pub(super) fn target(&self) -> Rate {
        self.target
    }
}
