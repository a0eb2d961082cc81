// SPDX-License-Identifier: GPL-2.0

//! Tests of both points. The rates are compared with those of a second implementation, which
//! computes in floating point and takes one step after the other.

use core::time::Duration;

use proptest::prelude::*;

use super::{
    rate::Volume,
    *, //
};
use crate::time::Instant;

const MBPS: f64 = 1e6 / 8.0;

fn at_us(micros: u64) -> Instant {
    Instant::from_nanos(micros * 1000)
}

fn us(micros: u64) -> Duration {
    Duration::from_micros(micros)
}

/// Parameters with which the first notification cuts `mbps`, and then little happens soon.
fn from_rate(mbps: u32) -> ReactionParams {
    ReactionParams {
        rate_to_set_on_first_cnp: Rate::from_mbps(mbps),
        ai_rate: Rate::from_mbps(5),
        time_reset: us(300),
        byte_reset: 1 << 20,
        ..ReactionParams::DEFAULT
    }
}

fn mbps(point: &ReactionPoint) -> u32 {
    point.rate().expect("a rate").mbps()
}

/// A limited sender of `mbps`, half of what it was at time 0.
fn limited(mbps: u32) -> ReactionPoint {
    let mut point = ReactionPoint::new();
    point.on_cnp(at_us(0), &from_rate(2 * mbps));
    point
}

/// Sends `packet` bytes whenever it may, asking again when told to, until `end` or nothing holds it
/// back. The bytes come back.
fn greedy(point: &mut ReactionPoint, start: Instant, end: Instant, packet: u64) -> u64 {
    let (mut now, mut sent) = (start, 0);
    while now < end && !point.is_free() {
        let earliest = point.earliest_send(now);
        if earliest <= now {
            point.on_sent(now, packet);
            sent += packet;
        } else {
            now = earliest.min(point.next_deadline().unwrap_or(earliest));
        }
    }
    sent
}

// Rates.

#[test]
fn rates_are_told_in_megabits() {
    for mbps in [1, 10, 100, 1000, 10_000, 400_000, 8_000_000] {
        assert_eq!(Rate::from_mbps(mbps).mbps(), mbps);
    }
    assert_eq!(Rate::from_mbps(u32::MAX), Rate::MAX);
    assert_eq!(Volume::of(u64::MAX), Volume::of((16 << 40) - 1));
    let second = Rate::from_mbps(1000).bytes_in(Duration::from_secs(1));
    assert!((124_999_000..=125_000_000).contains(&second), "{second}");
}

proptest! {
    #[test]
    fn time_and_bytes_of_a_rate_are_inverse(mbps in 1..1_000_000u32, bytes in 0..1u64 << 40) {
        let rate = Rate::from_mbps(mbps);
        let time = rate.time_for(Volume::of(bytes));
        prop_assume!(time < Duration::from_secs(2000));
        prop_assert!(rate.bytes_in(time) >= bytes);
        prop_assert!(rate.bytes_in(time.saturating_sub(Duration::from_nanos(1))) <= bytes);
    }

    #[test]
    fn nothing_overflows(bytes: u64, nanos: u64, mbps: u32) {
        let time = Duration::from_nanos(nanos);
        let _ = (Rate::of(bytes, time), Rate::from_mbps(mbps).bytes_in(time));
        let volume = Volume::of(bytes).plus(Volume::of(bytes));
        let _ = (Rate::ZERO.time_for(volume), Rate::MAX.time_for(volume));
        prop_assert_eq!(Rate::MAX.plus(Rate::MAX), Rate::MAX);
    }
}

// The notification point.

#[test]
fn one_notification_an_interval() {
    let mut point = NotificationPoint::new();
    assert!(point.is_due(at_us(7), us(50)));
    assert!(!point.is_due(at_us(7), us(50)));
    assert!(!point.is_due(at_us(56), us(50)));
    assert!(point.is_due(at_us(57), us(50)));
    assert!(!point.is_due(at_us(106), us(50)));
    assert!(point.is_due(at_us(106), us(0)));
}

#[test]
fn ecn_is_the_low_bits_of_the_traffic_class() {
    for class in 0..=u8::MAX {
        assert_eq!(Ecn::of(class).put(class), class);
        assert_eq!(Ecn::Experienced.put(class), class | 3);
        assert_eq!(Ecn::NotCapable.put(class), class & 0xfc);
    }
    assert_eq!((Ecn::of(2), Ecn::of(0xc1)), (Ecn::Capable0, Ecn::Capable1));
}

// The reaction point: one thing at a time.

#[test]
fn a_sender_that_was_not_notified_is_free() {
    let mut point = ReactionPoint::new();
    for time in 0..10 {
        assert_eq!(point.earliest_send(at_us(time)), at_us(time));
        point.on_sent(at_us(time), 1 << 30);
    }
    assert!(point.is_free());
    assert_eq!((point.next_deadline(), point.rate()), (None, None));
}

#[test]
fn the_first_notification_has_what_is_sent_measured_and_cut() {
    let mut point = ReactionPoint::new();
    point.on_cnp(at_us(0), &ReactionParams::DEFAULT);
    assert!(!point.is_free());
    assert_eq!(point.next_deadline(), Some(at_us(100)));
    // 1000 bytes in 8 us are one gigabit a second.
    for time in (0..120).step_by(8) {
        assert_eq!(point.earliest_send(at_us(time)), at_us(time));
        assert_eq!(point.rate().is_some(), time >= 100, "{time}");
        if time < 100 {
            point.on_sent(at_us(time), 1000);
        }
    }
    assert_eq!(mbps(&point), 500);
    assert_eq!(point.limit().unwrap().target().mbps(), 1000);
}

#[test]
fn notifications_do_not_prolong_a_measurement() {
    let mut point = ReactionPoint::new();
    for time in 0..100 {
        point.on_cnp(at_us(time), &ReactionParams::DEFAULT);
        point.on_sent(at_us(time), 125);
        assert_eq!(point.rate(), None);
    }
    point.on_timeout(at_us(100));
    assert_eq!(mbps(&point), 500);
}

#[test]
fn a_sender_that_sends_nothing_is_let_go() {
    let mut point = ReactionPoint::new();
    point.on_cnp(at_us(0), &ReactionParams::DEFAULT);
    point.on_timeout(at_us(49_999));
    assert!(!point.is_free());
    point.on_timeout(at_us(50_000));
    assert!(point.is_free());
}

#[test]
fn what_was_sent_too_long_ago_is_no_measure() {
    let mut point = ReactionPoint::new();
    point.on_cnp(at_us(0), &ReactionParams::DEFAULT);
    point.on_sent(at_us(1), 100_000);
    assert_eq!(point.earliest_send(at_us(60_000)), at_us(60_000));
    assert!(point.is_free());
}

#[test]
fn a_rate_recovers_to_what_it_was_and_rises_past_it() {
    let mut point = limited(400);
    let mut rates = Vec::new();
    for period in 0..=7 {
        point.on_timeout(at_us(300 * period));
        rates.push(mbps(&point));
        point.earliest_send(at_us(300 * period));
    }
    // Halfway to the target five times, which then rises by 5.
    assert_eq!(rates, [400, 600, 700, 750, 775, 788, 796, 803]);
    assert_eq!(point.limit().unwrap().target().mbps(), 810);
}

#[test]
fn bytes_raise_a_rate_as_time_does_and_both_together_raise_it_fast() {
    let params = ReactionParams {
        byte_reset: 10_000,
        ..from_rate(800)
    };
    let mut point = ReactionPoint::new();
    point.on_cnp(at_us(0), &params);
    let mut rates = Vec::new();
    for packet in 1..=70 {
        point.on_sent(at_us(0), 1000);
        if packet % 10 == 0 {
            rates.push(mbps(&point));
        }
    }
    assert_eq!(rates, [600, 700, 750, 775, 788, 796, 803]);
    let target = |point: &ReactionPoint| point.limit().unwrap().target().mbps();
    assert_eq!(target(&point), 810);
    point.on_timeout(at_us(5 * 300));
    assert_eq!(target(&point), 810 + 5 * 5);
    point.on_timeout(at_us(6 * 300));
    assert_eq!(target(&point), 810 + 5 * 5 + 50);
}

#[test]
fn a_burst_of_many_byte_periods_counts_once() {
    let mut point = limited(400);
    point.on_sent(at_us(0), 100 << 20);
    assert_eq!(mbps(&point), 600);
    point.on_sent(at_us(0), 1);
    assert_eq!(mbps(&point), 700);
    point.on_sent(at_us(0), 1);
    assert_eq!(mbps(&point), 700);
}

#[test]
fn alpha_falls_while_no_notification_comes_and_then_cuts_less() {
    let mut point = limited(1000);
    let alpha = point.limit().unwrap().alpha();
    assert!((0.99..=1.0).contains(&alpha), "{alpha}");
    greedy(&mut point, at_us(0), at_us(55 * 400), 1500);
    let before = f64::from(mbps(&point));
    point.on_cnp(at_us(55 * 400), &from_rate(0));
    let after = f64::from(mbps(&point));
    // (1019 / 1024)^400 is 0.141.
    let part = 1.0 - after / before;
    assert!((0.068..0.073).contains(&part), "{before} {after}");
}

#[test]
fn notifications_close_together_cut_once() {
    let mut point = limited(400);
    for nanos in (0..4000).step_by(100) {
        point.on_cnp(Instant::from_nanos(nanos), &from_rate(0));
    }
    assert_eq!(mbps(&point), 400);
    point.on_cnp(at_us(4), &from_rate(0));
    assert_eq!(mbps(&point), 200);
}

#[test]
fn no_flood_cuts_below_the_least_rate() {
    let mut point = limited(400);
    let params = from_rate(0);
    let mut sent = 0;
    for time in 0..400_000 {
        point.on_cnp(at_us(time), &params);
        assert!(point.rate().unwrap() >= params.min_rate);
        if point.earliest_send(at_us(time)) <= at_us(time) {
            point.on_sent(at_us(time), 4096);
            sent += 4096;
        }
    }
    // 10 Mbit/s for 0.4 s.
    assert!((500_000..540_000).contains(&sent), "{sent}");
}

#[test]
fn no_parameters_stop_a_sender() {
    let zero = ReactionParams {
        min_rate: Rate::ZERO,
        max_rate: Rate::ZERO,
        rate_to_set_on_first_cnp: Rate::ZERO,
        ai_rate: Rate::ZERO,
        hai_rate: Rate::ZERO,
        threshold: 0,
        time_reset: Duration::ZERO,
        byte_reset: 0,
        rate_reduce_monitor_period: Duration::ZERO,
        dce_tcp_g: 0,
        dce_tcp_rtt: Duration::ZERO,
        initial_alpha_value: 0,
    };
    let mut point = ReactionPoint::new();
    let mut sent = 0;
    for time in 0..200_000 {
        point.on_cnp(at_us(time), &zero);
        if point.earliest_send(at_us(time)) <= at_us(time) {
            point.on_sent(at_us(time), 1000);
            sent += 1000;
        }
    }
    // At 1 Mbit/s it would be 25000.
    assert!(sent >= 25_000, "{sent}");
}

#[test]
fn a_limit_that_holds_nothing_back_is_lifted() {
    let mut point = limited(400);
    point.on_timeout(at_us(300 * 256 - 1));
    assert!(!point.is_free());
    point.on_timeout(at_us(300 * 256));
    assert!(point.is_free());

    // To ask is not to be held back.
    let mut point = limited(400);
    for period in 0..=256 {
        assert!(!point.is_free(), "{period}");
        assert_eq!(
            point.earliest_send(at_us(300 * period)),
            at_us(300 * period)
        );
    }
    assert!(point.is_free());

    // However long nobody asks, that ends soon.
    let mut point = limited(400);
    point.on_timeout(Instant::MAX);
    assert!(point.is_free());
}

#[test]
fn a_limit_that_holds_something_back_is_not() {
    let mut point = limited(400);
    greedy(&mut point, at_us(0), at_us(300 * 300), 1500);
    assert!(!point.is_free());
    assert!(mbps(&point) > 1000);
}

#[test]
fn a_limit_that_reaches_the_highest_rate_is_lifted() {
    let params = ReactionParams {
        max_rate: Rate::from_mbps(900),
        ..from_rate(2000)
    };
    let mut point = ReactionPoint::new();
    point.on_cnp(at_us(0), &params);
    assert_eq!(mbps(&point), 450);
    greedy(&mut point, at_us(0), at_us(300 * 10), 1500);
    assert!(!point.is_free());
    greedy(&mut point, at_us(300 * 10), at_us(300 * 40), 1500);
    assert!(point.is_free());
}

#[test]
fn values_out_of_range_count_as_the_nearest_within() {
    let of_all = |value: u32| ReactionParams {
        min_rate: Rate::from_mbps(value),
        max_rate: Rate::from_mbps(value),
        threshold: value,
        time_reset: Duration::from_nanos(value.into()),
        byte_reset: value,
        dce_tcp_g: value,
        dce_tcp_rtt: Duration::from_nanos(value.into()),
        initial_alpha_value: value,
        ..ReactionParams::DEFAULT
    };
    let least = ReactionParams {
        min_rate: ReactionParams::LOWEST_RATE,
        max_rate: Rate::ZERO,
        threshold: 1,
        time_reset: ReactionParams::SHORTEST_PERIOD,
        byte_reset: 1024,
        dce_tcp_g: 0,
        dce_tcp_rtt: ReactionParams::SHORTEST_PERIOD,
        initial_alpha_value: 1,
        ..ReactionParams::DEFAULT
    };
    let most = ReactionParams {
        min_rate: Rate::MAX,
        max_rate: Rate::MAX,
        threshold: 31,
        dce_tcp_g: 1023,
        initial_alpha_value: 1023,
        ..of_all(u32::MAX)
    };
    assert_eq!(of_all(0).valid(), least);
    assert_eq!(of_all(u32::MAX).valid(), most);
    assert_eq!(ReactionParams::DEFAULT.valid(), ReactionParams::DEFAULT);
    // The first cut must leave something.
    let low = ReactionParams {
        max_rate: Rate::from_mbps(11),
        ..ReactionParams::DEFAULT
    };
    let twice_the_least = low.min_rate.plus(low.min_rate);
    assert_eq!(low.valid().max_rate, twice_the_least);
}

#[test]
fn who_comes_late_catches_up_but_not_for_all_the_time() {
    let mut point = limited(800);
    // 100 bytes a microsecond. The limit may be ahead by 250 us.
    let burst = |point: &mut ReactionPoint, time| {
        let mut sent = 0;
        while point.earliest_send(at_us(time)) <= at_us(time) {
            point.on_sent(at_us(time), 1000);
            sent += 1;
        }
        sent
    };
    assert_eq!(burst(&mut point, 0), 26);
    assert_eq!(burst(&mut point, 100), 10);
    assert_eq!(burst(&mut point, 101), 0);
    // The rate has risen to nearly 200 bytes a microsecond.
    assert!((48..=51).contains(&burst(&mut point, 1700)));
}

// The reaction point against the second implementation.

/// Takes its steps one by one, in floating point.
struct Reference {
    params: ReactionParams,
    current: f64,
    target: f64,
    alpha: f64,
    alpha_due: u64,
    rise_due: u64,
    cut: u64,
    by_time: u32,
    by_bytes: u32,
    bytes: u64,
}

impl Reference {
    fn new(now: u64, rate: f64, params: ReactionParams) -> Self {
        let mut new = Self {
            params,
            current: rate,
            target: rate,
            alpha: f64::from(params.initial_alpha_value) / 1024.0,
            alpha_due: 0,
            rise_due: 0,
            cut: 0,
            by_time: 0,
            by_bytes: 0,
            bytes: 0,
        };
        new.cut(now);
        new
    }

    fn rate(rate: Rate) -> f64 {
        f64::from(rate.mbps()) * MBPS
    }

    fn pass(&mut self, now: u64) {
        while self.alpha_due <= now {
            self.alpha *= f64::from(self.params.dce_tcp_g) / 1024.0;
            self.alpha_due += self.params.dce_tcp_rtt.as_nanos() as u64;
        }
        while self.rise_due <= now {
            self.rise_due += self.params.time_reset.as_nanos() as u64;
            self.by_time += 1;
            self.rise();
        }
    }

    fn cnp(&mut self, now: u64) {
        self.pass(now);
        if now - self.cut >= self.params.rate_reduce_monitor_period.as_nanos() as u64 {
            self.cut(now);
        }
    }

    fn cut(&mut self, now: u64) {
        let keep = f64::from(self.params.dce_tcp_g) / 1024.0;
        self.target = self.current;
        self.current *= 1.0 - self.alpha / 2.0;
        self.current = self.current.max(Self::rate(self.params.min_rate));
        self.alpha = keep * self.alpha + (1.0 - keep);
        self.alpha_due = now + self.params.dce_tcp_rtt.as_nanos() as u64;
        self.rise_due = now + self.params.time_reset.as_nanos() as u64;
        (self.by_time, self.by_bytes, self.bytes) = (0, 0, 0);
        self.cut = now;
    }

    fn sent(&mut self, now: u64, bytes: u64) {
        self.pass(now);
        self.bytes += bytes;
        if self.bytes >= self.params.byte_reset.into() {
            self.bytes -= u64::from(self.params.byte_reset);
            self.by_bytes += 1;
            self.rise();
        }
    }

    fn rise(&mut self) {
        let threshold = self.params.threshold;
        if self.by_time > threshold && self.by_bytes > threshold {
            self.target += Self::rate(self.params.hai_rate);
        } else if self.by_time > threshold || self.by_bytes > threshold {
            self.target += Self::rate(self.params.ai_rate);
        }
        self.current = (self.current + self.target) / 2.0;
    }
}

#[derive(Clone, Debug)]
enum Step {
    Cnp,
    Sent(u64),
    Ask,
}

fn steps() -> impl Strategy<Value = Vec<(u64, Step)>> {
    let step = prop_oneof![
        2 => Just(Step::Cnp),
        5 => (1..20_000u64).prop_map(Step::Sent),
        2 => Just(Step::Ask),
    ];
    let gap = prop_oneof![0..20_000u64, 0..400_000u64, 0..3_000_000u64];
    prop::collection::vec((gap, step), 1..300)
}

fn params() -> impl Strategy<Value = ReactionParams> {
    (
        (1..50u32, 1..200u32, 1..400u32, 1..8u32),
        (20..1000u64, 20_000..300_000u32, 0..100u64),
        (900..1024u32, 5..200u64, 1..1024u32, 60..20_000u32),
    )
        .prop_map(
            |((min, ai, hai, threshold), (time, bytes, monitor), (g, rtt, alpha, first))| {
                ReactionParams {
                    min_rate: Rate::from_mbps(min),
                    max_rate: Rate::ZERO,
                    rate_to_set_on_first_cnp: Rate::from_mbps(first),
                    ai_rate: Rate::from_mbps(ai),
                    hai_rate: Rate::from_mbps(hai),
                    threshold,
                    time_reset: us(time),
                    byte_reset: bytes,
                    rate_reduce_monitor_period: us(monitor),
                    dce_tcp_g: g,
                    dce_tcp_rtt: us(rtt),
                    initial_alpha_value: alpha,
                }
            },
        )
}

proptest! {
    #[test]
    fn rates_are_those_of_the_reference(steps in steps(), params in params()) {
        let mut point = ReactionPoint::new();
        let mut now = 1_000_000;
        point.on_cnp(Instant::from_nanos(now), &params);
        let first = f64::from(params.rate_to_set_on_first_cnp.mbps()) * MBPS;
        let mut reference = Reference::new(now, first, params);
        let idle = params.time_reset.as_nanos() as u64 * 256;
        for (gap, step) in steps {
            now += gap;
            let instant = Instant::from_nanos(now);
            match step {
                Step::Sent(bytes) => point.on_sent(instant, bytes),
                Step::Ask | Step::Cnp => _ = point.earliest_send(instant),
            }
            if point.is_free() {
                prop_assert!(now - reference.cut >= idle, "lifted too early");
                break;
            }
            match step {
                Step::Sent(bytes) => reference.sent(now, bytes),
                Step::Ask => reference.pass(now),
                Step::Cnp => {
                    point.on_cnp(instant, &params);
                    reference.cnp(now);
                }
            }
            let rate = point.rate().expect("a rate").bytes_in(Duration::from_secs(1)) as f64;
            let error = (rate - reference.current).abs();
            prop_assert!(
                error <= 0.02 * reference.current + 0.01 * MBPS,
                "{rate} is not {} at {now}", reference.current
            );
        }
    }

    #[test]
    fn a_greedy_sender_sends_at_its_rate(mbps in 20..5000u32, packet in 500..9000u64) {
        let mut point = ReactionPoint::new();
        let params = ReactionParams {
            ai_rate: Rate::ZERO,
            hai_rate: Rate::ZERO,
            initial_alpha_value: 1,
            ..from_rate(mbps)
        };
        point.on_cnp(at_us(0), &params);
        let sent = greedy(&mut point, at_us(0), at_us(5000), packet) as f64;
        let due = f64::from(mbps) * MBPS * 0.005;
        let ahead = f64::from(mbps) * MBPS * 250e-6 + packet as f64;
        prop_assert!(sent <= due + ahead + 1.0, "{sent} of {due}");
        prop_assert!(sent >= due * 0.995 - packet as f64, "{sent} of {due}");
    }

    #[test]
    fn no_order_of_events_makes_it_wait_long(steps in steps(), params in params()) {
        let mut point = ReactionPoint::new();
        let mut now = 0;
        for (gap, step) in steps {
            now += gap;
            let instant = Instant::from_nanos(now);
            let earliest = point.earliest_send(instant);
            match step {
                Step::Cnp => point.on_cnp(instant, &params),
                Step::Sent(bytes) if earliest <= instant => point.on_sent(instant, bytes),
                Step::Sent(_) | Step::Ask => (),
            }
            // What was sent ahead, at the least rate: the slack at the highest, and a burst.
            let ahead = 20_000 + Rate::from_mbps(20_000).bytes_in(us(250));
            let longest = params.min_rate.time_for(Volume::of(ahead));
            prop_assert!(point.earliest_send(instant).saturating_since(instant) <= longest);
        }
    }
}
