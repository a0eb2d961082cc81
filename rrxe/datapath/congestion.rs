// SPDX-License-Identifier: GPL-2.0

//! Congestion control: what is set for a device, and what its queue pairs do.
//!
//! A packet that met congestion has its sender notified ([`answer`]), at most once in an interval.
//! A notification limits the rate of the queue pair it is for ([`Qp::notified`]), and both sides of
//! that ask before each burst whether they may send it.

use super::{
    arrival::Arrival,
    counters::Counter,
    peer::Peer,
    qp::Qp,
    setting::Setting,
    transmit, //
};
use crate::kapi::{
    net::Headers,
    time::now, //
};
use core::time::Duration;
use kernel::debugfs::ScopedDir;
use rrxe_proto::{
    congestion::{
        Ecn,
        Rate,
        ReactionParams, //
    },
    time::Instant,
};

/// What is set for a device.
///
/// Names and units are those that adapters have. Rates are in Mbit/s, times in microseconds.
#[derive(Debug)]
pub(crate) struct Congestion {
    np_enabled: Setting,
    np_cnp_dscp: Setting,
    np_min_time_between_cnps: Setting,
    rp_enabled: Setting,
    rp_min_rate: Setting,
    rp_max_rate: Setting,
    rp_rate_to_set_on_first_cnp: Setting,
    rp_ai_rate: Setting,
    rp_hai_rate: Setting,
    rp_threshold: Setting,
    rp_time_reset: Setting,
    rp_byte_reset: Setting,
    rp_rate_reduce_monitor_period: Setting,
    rp_dce_tcp_g: Setting,
    rp_dce_tcp_rtt: Setting,
    rp_initial_alpha_value: Setting,
}

impl Congestion {
    /// Both points enabled.
    pub(super) fn new() -> Self {
        let default = ReactionParams::DEFAULT;
        let switch = || Setting::new(1, 0..=1);
        let rate = |rate: Rate, least| Setting::new(rate.mbps(), least..=Rate::MAX.mbps());
        let micros = |time: Duration, least| Setting::new(time.as_micros() as u32, least..=1 << 17);
        Self {
            np_enabled: switch(),
            np_cnp_dscp: Setting::new(48, 0..=63),
            np_min_time_between_cnps: micros(Duration::from_micros(50), 0),
            rp_enabled: switch(),
            rp_min_rate: rate(default.min_rate, 1),
            rp_max_rate: rate(default.max_rate, 0),
            rp_rate_to_set_on_first_cnp: rate(default.rate_to_set_on_first_cnp, 0),
            rp_ai_rate: rate(default.ai_rate, 1),
            rp_hai_rate: rate(default.hai_rate, 1),
            rp_threshold: Setting::new(default.threshold, 1..=31),
            rp_time_reset: micros(default.time_reset, 1),
            rp_byte_reset: Setting::new(default.byte_reset, 1 << 10..=u32::MAX),
            rp_rate_reduce_monitor_period: micros(default.rate_reduce_monitor_period, 0),
            rp_dce_tcp_g: Setting::new(default.dce_tcp_g, 0..=1023),
            rp_dce_tcp_rtt: micros(default.dce_tcp_rtt, 1),
            rp_initial_alpha_value: Setting::new(default.initial_alpha_value, 1..=1023),
        }
    }

    /// Shows all of it in a directory of debugfs.
    pub(crate) fn publish<'data>(&'data self, dir: &ScopedDir<'data, '_>) {
        let settings = [
            (c"np_enabled", &self.np_enabled),
            (c"np_cnp_dscp", &self.np_cnp_dscp),
            (c"np_min_time_between_cnps", &self.np_min_time_between_cnps),
            (c"rp_enabled", &self.rp_enabled),
            (c"rp_min_rate", &self.rp_min_rate),
            (c"rp_max_rate", &self.rp_max_rate),
            (
                c"rp_rate_to_set_on_first_cnp",
                &self.rp_rate_to_set_on_first_cnp,
            ),
            (c"rp_ai_rate", &self.rp_ai_rate),
            (c"rp_hai_rate", &self.rp_hai_rate),
            (c"rp_threshold", &self.rp_threshold),
            (c"rp_time_reset", &self.rp_time_reset),
            (c"rp_byte_reset", &self.rp_byte_reset),
            (
                c"rp_rate_reduce_monitor_period",
                &self.rp_rate_reduce_monitor_period,
            ),
            (c"rp_dce_tcp_g", &self.rp_dce_tcp_g),
            (c"rp_dce_tcp_rtt", &self.rp_dce_tcp_rtt),
            (c"rp_initial_alpha_value", &self.rp_initial_alpha_value),
        ];
        for (name, setting) in settings {
            dir.read_write_file(name, setting);
        }
    }

    /// Whether queue pairs slow down when they are notified.
    #[inline]
    pub(super) fn is_reacting(&self) -> bool {
        self.rp_enabled.get() != 0
    }

    /// What packets with data say about congestion.
    #[inline]
    pub(super) fn data_ecn(&self) -> Ecn {
        if self.is_reacting() {
            Ecn::Capable0
        } else {
            Ecn::NotCapable
        }
    }

    /// The traffic class of notifications.
    fn notification_class(&self) -> u8 {
        (self.np_cnp_dscp.get() << 2) as u8
    }

    /// How queue pairs react.
    fn params(&self) -> ReactionParams {
        let rate = |setting: &Setting| Rate::from_mbps(setting.get());
        ReactionParams {
            min_rate: rate(&self.rp_min_rate),
            max_rate: rate(&self.rp_max_rate),
            rate_to_set_on_first_cnp: rate(&self.rp_rate_to_set_on_first_cnp),
            ai_rate: rate(&self.rp_ai_rate),
            hai_rate: rate(&self.rp_hai_rate),
            threshold: self.rp_threshold.get(),
            time_reset: micros(&self.rp_time_reset),
            byte_reset: self.rp_byte_reset.get(),
            rate_reduce_monitor_period: micros(&self.rp_rate_reduce_monitor_period),
            dce_tcp_g: self.rp_dce_tcp_g.get(),
            dce_tcp_rtt: micros(&self.rp_dce_tcp_rtt),
            initial_alpha_value: self.rp_initial_alpha_value.get(),
        }
    }
}

/// `headers` of a packet of which `ecn` is to be said, unless the consumer has said something else.
pub(super) fn marked(headers: Headers, ecn: Ecn) -> Headers {
    match Ecn::of(headers.traffic_class) {
        Ecn::NotCapable => Headers {
            traffic_class: ecn.put(headers.traffic_class),
            ..headers
        },
        _ => headers,
    }
}

fn micros(setting: &Setting) -> Duration {
    Duration::from_micros(setting.get().into())
}

/// Notifies `peer` if a packet with data has arrived from it that met congestion.
pub(super) fn answer(qp: &Qp, peer: &mut Peer, arrival: &Arrival) {
    if arrival.packet().traffic_class().map(Ecn::of) != Some(Ecn::Experienced) {
        return;
    }
    let congestion = qp.node().congestion();
    qp.count(Counter::CongestedPackets);
    let interval = micros(&congestion.np_min_time_between_cnps);
    if congestion.np_enabled.get() != 0 && qp.throttle().may_notify(now(), interval) {
        qp.count(Counter::SentNotifications);
        transmit::notification(qp, peer, congestion.notification_class());
    }
}

impl Qp {
    /// Whether packets may be sent now. If not: when to ask again.
    #[inline]
    pub(super) fn may_send(&self) -> Result<(), Instant> {
        let admitted = self.throttle().admit();
        if admitted.is_err() && !self.node().congestion().is_reacting() {
            self.throttle().reset();
            return Ok(());
        }
        admitted
    }

    /// The peer has told of congestion.
    pub(super) fn notified(&self) {
        let congestion = self.node().congestion();
        if congestion.is_reacting() {
            self.count(Counter::HandledNotifications);
            self.throttle().slow_down(now(), &congestion.params());
        } else {
            self.count(Counter::IgnoredNotifications);
        }
    }
}
