// SPDX-License-Identifier: GPL-2.0

//! Congestion control as a loop: senders with a reaction point each, which send all they may, share a
//! port of a switch that marks frames; a notification point at the other end answers the marks.

use rrxe_proto::{
    congestion::{
        NotificationPoint,
        ReactionParams,
        ReactionPoint, //
    },
    psn::Psn,
    time::Instant,
    wire::{
        HeaderSpec,
        Kind,
        RcRequest,
        SendPart, //
    },
    Qpn, //
};
use rrxe_sim::{
    agenda::{
        Agenda,
        Nanos,
        MICROSECOND,
        MILLISECOND, //
    },
    frame::Frame,
    link::{
        Bottleneck,
        Mark,
        Node,
        Parcel,
        Patience,
        Port, //
    },
    rng::Rng, //
};
use std::time::Duration;

const PAYLOAD: usize = 1024;

/// From a sender to the port, and from there to the other end and back.
const LATENCY: Nanos = 10 * MICROSECOND;

const CNP_INTERVAL: Duration = Duration::from_micros(50);

/// 8 Gbit/s, as the links of the senders.
const PORT: Port = Port {
    nanos_per_byte: 1,
    capacity: 1 << 20,
    threshold: 50_000,
};
const LINE: f64 = 8000.0;

#[derive(Debug)]
enum Event {
    Send { flow: usize },
    Arrive { flow: usize, frame: Frame },
    Notify { flow: usize },
}

struct Flow {
    reaction: ReactionPoint,
    notification: NotificationPoint,
    from: Nanos,
    to: Nanos,
    arrived: u64,
    notified: u64,
}

/// Whether senders react.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Control {
    On,
    Off,
}

struct Loop {
    agenda: Agenda<Event>,
    flows: Vec<Flow>,
    /// Marks by chance, before the port.
    noise: Mark,
    port: Bottleneck,
    control: Control,
    params: ReactionParams,
}

impl Loop {
    /// Flows that send all they may in the times given.
    fn new(control: Control, times: &[(Nanos, Nanos)]) -> Self {
        let mut agenda = Agenda::default();
        for (flow, &(from, _)) in times.iter().enumerate() {
            agenda.at(from, Event::Send { flow });
        }
        let flow = |&(from, to)| Flow {
            reaction: ReactionPoint::new(),
            notification: NotificationPoint::new(),
            from,
            to,
            arrived: 0,
            notified: 0,
        };
        Self {
            agenda,
            flows: times.iter().map(flow).collect(),
            noise: Mark::new(0, Rng::new(1)),
            port: Bottleneck::new(PORT),
            control,
            params: ReactionParams::DEFAULT,
        }
    }

    /// Lets time pass. What arrived of each flow meanwhile comes back, in Mbit/s.
    fn run(&mut self, until: Nanos) -> Vec<f64> {
        let start = self.agenda.now();
        for flow in &mut self.flows {
            flow.arrived = 0;
        }
        while self.agenda.now() < until {
            let Some(event) = self.agenda.pop() else {
                break;
            };
            self.happen(event);
        }
        let micros = (self.agenda.now() - start) as f64 / 1000.0;
        let rate = |flow: &Flow| flow.arrived as f64 * 8.0 / micros;
        self.flows.iter().map(rate).collect()
    }

    fn happen(&mut self, event: Event) {
        let now = self.agenda.now();
        let instant = Instant::from_nanos(now);
        match event {
            Event::Send { flow } => self.send(now, flow),
            Event::Arrive { flow, frame } => {
                let state = &mut self.flows[flow];
                state.arrived += frame.bytes.len() as u64;
                let due = frame.is_marked() && state.notification.is_due(instant, CNP_INTERVAL);
                if due && self.control == Control::On {
                    state.notified += 1;
                    self.agenda.after(LATENCY, Event::Notify { flow });
                }
            }
            Event::Notify { flow } => {
                self.flows[flow].reaction.on_cnp(instant, &self.params);
            }
        }
    }

    /// Sends a frame if that may be; has it asked again otherwise.
    fn send(&mut self, now: Nanos, flow: usize) {
        let state = &mut self.flows[flow];
        if now >= state.to || now < state.from {
            return;
        }
        let instant = Instant::from_nanos(now);
        let earliest = state.reaction.earliest_send(instant);
        if earliest > instant {
            let again = state
                .reaction
                .next_deadline()
                .map_or(earliest, |deadline| deadline.min(earliest));
            self.agenda.at(again.as_nanos(), Event::Send { flow });
            return;
        }
        let frame = data(flow);
        let len = frame.bytes.len() as u64;
        state.reaction.on_sent(instant, len);
        let (mut marked, mut out) = (Vec::new(), Vec::new());
        let parcel = Parcel {
            at: now + LATENCY,
            frame,
        };
        let patience = &mut Patience::endless();
        self.noise.pass(parcel, patience, &mut marked);
        for parcel in marked {
            self.port.pass(parcel, patience, &mut out);
        }
        for Parcel { at, frame } in out {
            self.agenda.at(at + LATENCY, Event::Arrive { flow, frame });
        }
        self.agenda
            .after(len * PORT.nanos_per_byte, Event::Send { flow });
    }
}

fn data(flow: usize) -> Frame {
    let kind = Kind::RcRequest(RcRequest::Send(SendPart::Middle));
    let spec = HeaderSpec::new(kind, Qpn::truncate(0x20), Psn::truncate(0));
    Frame::new(0, flow, &spec, &[0; PAYLOAD]).capable()
}

/// One if all are the same, 1/n if one has all.
fn fairness(rates: &[f64]) -> f64 {
    let sum: f64 = rates.iter().sum();
    let squares: f64 = rates.iter().map(|rate| rate * rate).sum();
    sum * sum / (squares * rates.len() as f64)
}

const LONG: Nanos = 100_000 * MILLISECOND;

#[test]
fn without_control_the_queue_overflows() {
    let mut world = Loop::new(Control::Off, &[(0, LONG), (0, LONG)]);
    world.run(20 * MILLISECOND);
    assert!(world.port.lost() > 1000, "{}", world.port.lost());
}

#[test]
fn flows_share_a_bottleneck_and_lose_nothing() {
    for count in [2, 3, 8] {
        // They begin one after the other: those that are there have to give way.
        let times: Vec<_> = (0..count)
            .map(|flow| (flow * 5 * MILLISECOND, LONG))
            .collect();
        let mut world = Loop::new(Control::On, &times);
        world.run(100 * MILLISECOND);
        assert_eq!(world.port.lost(), 0, "{count} flows");
        world.port.longest();
        let rates = world.run(300 * MILLISECOND);
        let (sum, fair) = (rates.iter().sum::<f64>(), fairness(&rates));
        let longest = world.port.longest();
        println!("{count} flows: {rates:.0?}, fairness {fair:.3}, {longest} bytes wait at most");
        assert_eq!(world.port.lost(), 0, "{count} flows");
        assert!(sum > 0.95 * LINE, "{rates:?}");
        assert!(fair > 0.98, "{rates:?}");
        assert!(longest < 3 * PORT.threshold, "{longest} bytes wait");
    }
}

#[test]
fn flows_that_begin_together_give_way_together() {
    let mut world = Loop::new(Control::On, &[(0, LONG); 4]);
    world.run(20 * MILLISECOND);
    assert_eq!(world.port.lost(), 0);
    let rates = world.run(200 * MILLISECOND);
    assert!(fairness(&rates) > 0.98, "{rates:?}");
}

#[test]
fn who_stays_takes_what_others_leave() {
    let leave = 100 * MILLISECOND;
    let mut world = Loop::new(Control::On, &[(0, LONG), (0, leave)]);
    world.run(leave);
    assert!(!world.flows[0].reaction.is_free());
    world.run(leave + 10 * MILLISECOND);
    let rates = world.run(leave + 60 * MILLISECOND);
    assert!(rates[0] > 0.95 * LINE && rates[1] == 0.0, "{rates:?}");
    // Nothing is congested any more, and nothing holds it back.
    world.run(leave + 200 * MILLISECOND);
    assert!(world.flows[0].reaction.is_free());
}

#[test]
fn one_flow_alone_meets_no_congestion() {
    let mut world = Loop::new(Control::On, &[(0, LONG)]);
    let rates = world.run(20 * MILLISECOND);
    assert!(rates[0] > 0.99 * LINE, "{rates:?}");
    assert_eq!(world.flows[0].notified, 0);
    assert!(world.flows[0].reaction.is_free());
}

#[test]
fn a_flow_is_notified_once_in_an_interval() {
    let mut world = Loop::new(Control::On, &[(0, LONG), (0, LONG)]);
    world.run(5 * MILLISECOND);
    for flow in &world.flows {
        assert!((10..=100).contains(&flow.notified), "{}", flow.notified);
    }
}

#[test]
fn what_comes_from_nowhere_stops_no_flow() {
    // Notifications as fast as they can be sent, though nothing is congested.
    let mut world = Loop::new(Control::On, &[(0, LONG)]);
    world.run(MILLISECOND);
    for time in 0..100_000 {
        world
            .agenda
            .at(time * MICROSECOND, Event::Notify { flow: 0 });
    }
    world.run(20 * MILLISECOND);
    let rates = world.run(100 * MILLISECOND);
    let least = f64::from(world.params.min_rate.mbps());
    assert!(
        (0.9 * least..3.0 * least).contains(&rates[0]),
        "{rates:?}, at least {least}"
    );
    // And when that ends all is as before.
    world.run(150 * MILLISECOND);
    let rates = world.run(200 * MILLISECOND);
    assert!(rates[0] > 0.95 * LINE, "{rates:?}");
}

#[test]
fn marks_by_chance_slow_down_the_more_the_more_there_are() {
    let found: Vec<f64> = [1, 10, 100, 1000]
        .map(|per_mille| {
            let mut world = Loop::new(Control::On, &[(0, LONG)]);
            world.noise = Mark::new(per_mille, Rng::new(7));
            world.run(20 * MILLISECOND);
            world.run(200 * MILLISECOND)[0]
        })
        .into();
    println!("{found:.0?}");
    assert!(found.is_sorted_by(|a, b| a > b), "{found:?}");
    let least = f64::from(ReactionParams::DEFAULT.min_rate.mbps());
    assert!(found.iter().all(|&rate| rate > 0.9 * least), "{found:?}");
}
