// SPDX-License-Identifier: GPL-2.0

//! How congested the path seems to be.

use crate::{
    congestion::{
        rate::nanos,
        Rate,
        ReactionParams, //
    },
    time::Instant, //
};

/// A part of one: near one if notifications come all the time, falling while none do.
#[derive(Clone, Copy, Debug)]
pub(super) struct Alpha {
    /// In parts of [`ONE`].
    value: u32,
    /// When it was updated.
    at: Instant,
}

const ONE: u32 = 1 << BITS;
const BITS: u32 = 20;

/// How many bits fewer a parameter has.
const PARAM_SHIFT: u32 = BITS - 10;

impl Alpha {
    /// As it is at a first notification.
    pub(super) fn new(now: Instant, params: &ReactionParams) -> Self {
        Self {
            value: params.initial_alpha_value << PARAM_SHIFT,
            at: now,
        }
    }

    /// `rate`, cut by half of this.
    pub(super) fn cut(&self, rate: Rate) -> Rate {
        rate.less(self.value, BITS.saturating_add(1))
    }

    /// A notification has come.
    pub(super) fn rise(&mut self, now: Instant, params: &ReactionParams) {
        let keep = params.dce_tcp_g << PARAM_SHIFT;
        self.value = part(self.value, keep).saturating_add(ONE.saturating_sub(keep));
        self.at = now;
    }

    /// No notification has come until now.
    pub(super) fn fall(&mut self, now: Instant, params: &ReactionParams) {
        let period = params.dce_tcp_rtt;
        let elapsed = nanos(now.saturating_since(self.at));
        let periods = elapsed.checked_div(nanos(period)).unwrap_or(0);
        let periods = u32::try_from(periods).unwrap_or(u32::MAX);
        self.value = part(self.value, power(params.dce_tcp_g << PARAM_SHIFT, periods));
        self.at = self.at.saturating_add(period.saturating_mul(periods));
    }

    #[cfg(test)]
    pub(super) fn value(&self) -> f64 {
        f64::from(self.value) / f64::from(ONE)
    }
}

/// The product of two parts of one.
fn part(a: u32, b: u32) -> u32 {
    (u64::from(a).wrapping_mul(b.into()) >> BITS) as u32
}

/// A part of one, `exponent` times multiplied.
fn power(base: u32, exponent: u32) -> u32 {
    let (mut result, mut square, mut left) = (ONE, base, exponent);
    while left != 0 && result != 0 {
        if left & 1 != 0 {
            result = part(result, square);
        }
        square = part(square, square);
        left >>= 1;
    }
    result
}
