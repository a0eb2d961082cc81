// SPDX-License-Identifier: GPL-2.0

//! What can be set about the reaction to congestion.

use core::time::Duration;

use crate::congestion::Rate;

/// How a [`ReactionPoint`](super::ReactionPoint) reacts. Any values will do.
///
/// The names are those that adapters have for these.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReactionParams {
    /// A rate is not cut below this. If it is zero, the lowest there is counts: a flow that nobody
    /// lets go on must not stand for ever.
    pub min_rate: Rate,
    /// Where a rate that rises is lifted. If it is zero, only a rate that holds nothing back is.
    pub max_rate: Rate,
    /// The rate that the first notification cuts, or zero to measure what is being sent.
    pub rate_to_set_on_first_cnp: Rate,
    /// What is added to the target when time or bytes have raised the rate often enough.
    pub ai_rate: Rate,
    /// What is added to the target when time and bytes have.
    pub hai_rate: Rate,
    /// How often the rate rises towards its target before the target rises.
    pub threshold: u32,
    /// The rate rises after so long without a notification, again and again.
    pub time_reset: Duration,
    /// The rate rises after so many bytes without a notification, again and again.
    pub byte_reset: u32,
    /// Notifications that come sooner than this after one that cut the rate cut nothing.
    pub rate_reduce_monitor_period: Duration,
    /// What alpha keeps of its value each time it is updated, in parts of 1024.
    pub dce_tcp_g: u32,
    /// Alpha falls each time that this has passed without a notification.
    pub dce_tcp_rtt: Duration,
    /// Alpha at the first notification, in parts of 1024.
    pub initial_alpha_value: u32,
}

impl ReactionParams {
    /// The lowest rate that may be set: a packet of the largest MTU takes 34 ms.
    pub const LOWEST_RATE: Rate = Rate::from_mbps(1);

    /// The shortest period of the timers, which bounds what they cost.
    pub const SHORTEST_PERIOD: Duration = Duration::from_micros(1);

    /// What the publication of the algorithm recommends, and what adapters do where it says nothing.
    pub const DEFAULT: Self = Self {
        min_rate: Rate::from_mbps(10),
        max_rate: Rate::ZERO,
        rate_to_set_on_first_cnp: Rate::ZERO,
        ai_rate: Rate::from_mbps(40),
        hai_rate: Rate::from_mbps(50),
        threshold: 5,
        time_reset: Duration::from_micros(55),
        byte_reset: 10 << 20,
        rate_reduce_monitor_period: Duration::from_micros(4),
        dce_tcp_g: 1019,
        dce_tcp_rtt: Duration::from_micros(55),
        initial_alpha_value: 1023,
    };

    /// `rate`, or the rate at which a limit is lifted if that is lower.
    pub(super) fn capped(&self, rate: Rate) -> Rate {
        match self.max_rate {
            Rate::ZERO => rate,
            most => rate.min(most),
        }
    }

    /// Whether a limit that has risen to `rate` is lifted.
    pub(super) fn lifts(&self, rate: Rate) -> bool {
        self.max_rate != Rate::ZERO && rate >= self.max_rate
    }

    /// The same with every value in its range.
    pub(super) fn valid(&self) -> Self {
        let min_rate = self.min_rate.clamp(Self::LOWEST_RATE, Rate::MAX);
        let max_rate = match self.max_rate {
            Rate::ZERO => Rate::ZERO,
            // The first cut must leave something.
            rate => rate.max(min_rate.plus(min_rate)),
        };
        Self {
            min_rate,
            max_rate,
            threshold: self.threshold.clamp(1, 31),
            time_reset: self.time_reset.max(Self::SHORTEST_PERIOD),
            byte_reset: self.byte_reset.max(1 << 10),
            dce_tcp_g: self.dce_tcp_g.min(1023),
            dce_tcp_rtt: self.dce_tcp_rtt.max(Self::SHORTEST_PERIOD),
            initial_alpha_value: self.initial_alpha_value.clamp(1, 1023),
            ..*self
        }
    }
}
