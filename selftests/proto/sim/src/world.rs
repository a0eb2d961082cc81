// SPDX-License-Identifier: GPL-2.0

//! The world: hosts, links, and the passing of time.

use crate::{
    agenda::{
        Agenda,
        Nanos,
        MICROSECOND,
        SECOND, //
    },
    end::{
        End,
        Sent, //
    },
    frame::Frame,
    link::{
        Link,
        Parcel,
        Patience, //
    },
    packet::Packet,
    reference::{
        Reference,
        Violation, //
    },
    rng::Rng,
    scenario::{
        Family,
        Incident,
        Scenario, //
    },
    watch::Watch, //
};

/// A scenario may last so long.
const LONGEST: Nanos = 3_000 * SECOND;
/// And have so many events.
const MOST_EVENTS: u64 = 400_000;

/// A scenario in which something went wrong.
#[derive(Clone, Debug)]
pub struct Failure {
    /// Its seed.
    pub seed: u64,
    /// When.
    pub at: Nanos,
    /// What.
    pub violation: Violation,
}

impl std::fmt::Display for Failure {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(
            f,
            "seed {}, {} ns: {}\nreplay with: cargo run --release --bin rrxe-sim -- --seed {} --verbose",
            self.seed, self.at, self.violation, self.seed,
        )
    }
}

/// What a finished scenario amounted to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// Packets that entered a link.
    pub packets: u64,
    /// Packets sent more than once.
    pub resent: u64,
    /// Faults of the links.
    pub faults: u64,
    /// Damaged packets that were noticed.
    pub damaged: u64,
    /// Works completed.
    pub works: u64,
    /// Flows that ended in an error.
    pub failed: u64,
    /// Notices of congestion that were heeded.
    pub heeded: u64,
    /// Plans that had to wait for their data.
    pub withheld: u64,
    /// Virtual time.
    pub nanos: Nanos,
}

impl Tally {
    /// Adds another scenario's.
    pub fn add(&mut self, other: Self) {
        self.packets += other.packets;
        self.resent += other.resent;
        self.faults += other.faults;
        self.damaged += other.damaged;
        self.works += other.works;
        self.failed += other.failed;
        self.heeded += other.heeded;
        self.withheld += other.withheld;
        self.nanos += other.nanos;
    }
}

/// What is told while a scenario runs.
pub type Trace<'a> = &'a mut dyn FnMut(Nanos, String);

#[derive(Debug)]
enum Event {
    Arrive { end: usize, frame: Frame },
    Work { end: usize },
    Receive { end: usize },
    Pump { end: usize },
    Timer { end: usize, deadline: Nanos },
    Incident { end: usize, incident: Incident },
}

/// A scenario that runs.
pub struct World<'a> {
    scenario: &'a Scenario,
    agenda: Agenda<Event>,
    links: [Link; 2],
    patience: Patience,
    ends: Vec<End>,
    watches: Vec<Watch>,
    /// A pump is on the agenda.
    pumped: Vec<bool>,
    /// The deadline that the agenda knows of.
    deadlines: Vec<Option<Nanos>>,
    rng: Rng,
    tally: Tally,
    trace: Option<Trace<'a>>,
}

/// Runs a scenario to its end.
pub fn run<'a>(scenario: &'a Scenario, trace: Option<Trace<'a>>) -> Result<Tally, Failure> {
    let mut world = World::new(scenario, trace);
    let mut events = 0;
    while let Some(event) = world.agenda.pop() {
        events += 1;
        if events > MOST_EVENTS || world.agenda.now() > LONGEST {
            return Err(world.failure("the scenario does not end".into()));
        }
        world
            .happen(event)
            .map_err(|violation| world.failure(violation))?;
    }
    world.finish().map_err(|violation| world.failure(violation))
}

impl<'a> World<'a> {
    fn new(scenario: &'a Scenario, trace: Option<Trace<'a>>) -> Self {
        let mut rng = Rng::new(scenario.seed ^ 0x5eed_0f00_d1ce);
        let links = [0, 1].map(|side| scenario.link(side, &mut rng));
        let mut agenda = Agenda::default();
        let (mut ends, mut watches) = (Vec::new(), Vec::new());
        for (index, plan) in scenario.ends.iter().enumerate() {
            let peer = &scenario.ends[index ^ 1];
            ends.push(End::new(index, plan, peer, rng.fork()));
            watches.push(Watch::new(Reference::new(plan.flow.clone()), plan.fate));
            for work in &plan.flow.works {
                agenda.at(work.at, Event::Work { end: index });
            }
            for receive in &peer.flow.receives {
                agenda.at(receive.at, Event::Receive { end: index });
            }
            for &(at, incident) in &plan.incidents {
                agenda.at(
                    at,
                    Event::Incident {
                        end: index,
                        incident,
                    },
                );
            }
        }
        let count = ends.len();
        Self {
            scenario,
            agenda,
            links,
            patience: scenario
                .patience
                .map_or_else(Patience::endless, Patience::limited),
            ends,
            watches,
            pumped: vec![false; count],
            deadlines: vec![None; count],
            rng,
            tally: Tally::default(),
            trace,
        }
    }

    fn happen(&mut self, event: Event) -> Result<(), Violation> {
        let now = self.agenda.now();
        match event {
            Event::Arrive { end, frame } => {
                if !self.arrive(now, end, &frame)? {
                    return Ok(());
                }
                self.after(now, end)
            }
            Event::Work { end } | Event::Receive { end } => {
                if let Event::Receive { .. } = event {
                    self.ends[end].post_receives(now);
                }
                self.after(now, end)
            }
            Event::Pump { end } => {
                self.pumped[end] = false;
                self.pump(now, end)?;
                self.after(now, end)
            }
            Event::Timer { end, deadline } => {
                if self.deadlines[end] != Some(deadline) {
                    return Ok(());
                }
                self.deadlines[end] = None;
                self.ends[end].on_timeout(now);
                self.note(now, || format!("{end}: timer"));
                self.request_pump(end);
                self.after(now, end)
            }
            Event::Incident { end, incident } => {
                self.note(now, || format!("{end}: {incident:?}"));
                let (own, peer) = pair(&mut self.watches, end);
                self.ends[end].incident(incident, own, peer)?;
                self.request_pump(end);
                self.after(now, end)
            }
        }
    }

    /// A frame comes off the link. True if the end took it in.
    fn arrive(&mut self, now: Nanos, end: usize, frame: &Frame) -> Result<bool, Violation> {
        if !frame.is_intact() {
            self.tally.damaged += 1;
            self.note(now, || format!("{end}: damaged frame"));
            return Ok(false);
        }
        let packet = Packet::decode(frame).map_err(|e| format!("arrived: {e}"))?;
        self.note(now, || format!("{end} <-- {packet}"));
        if self.ends[end].is_dead() {
            return Ok(false);
        }
        if packet.is_notification() {
            self.ends[end].notified(now);
            self.request_pump(end);
            return Ok(true);
        }
        let (own, peer) = pair(&mut self.watches, end);
        if packet.is_response() {
            if own
                .observer
                .response_delivered(now, &own.reference, &packet)
            {
                self.patience.renew(end);
            }
        } else {
            peer.observer.request_delivered(&peer.reference, &packet);
        }
        let said = self.ends[end].on_frame(now, frame, own, peer)?;
        self.note(now, || format!("{end}     {said}"));
        self.request_pump(end);
        Ok(true)
    }

    /// Lets an end send what it has to send.
    fn pump(&mut self, now: Nanos, end: usize) -> Result<(), Violation> {
        let (own, _) = pair(&mut self.watches, end);
        let Sent {
            frames,
            more,
            answered,
        } = self.ends[end].transmit(now, own)?;
        for frame in frames {
            self.send(now, end, frame)?;
        }
        if answered && !self.ends[end].is_dead() {
            let (_, peer) = pair(&mut self.watches, end);
            peer.observer
                .responder_idle()
                .map_err(|v| format!("end {end}: {v}"))?;
        }
        if more {
            self.request_pump(end);
        }
        Ok(())
    }

    fn send(&mut self, now: Nanos, end: usize, frame: Frame) -> Result<(), Violation> {
        self.tally.packets += 1;
        let packet = Packet::decode(&frame).map_err(|e| format!("end {end} sent: {e}"))?;
        self.note(now, || format!("{end} --> {packet}"));
        let (own, peer) = pair(&mut self.watches, end);
        if packet.dest != End::qpn(end ^ 1) {
            return Err(format!("end {end} sent to queue pair {:#x}", packet.dest));
        }
        if packet.is_notification() {
            notification_is(&packet)
        } else if packet.is_response() {
            peer.observer.response_sent(&peer.reference, &packet)
        } else {
            own.observer.request_sent(now, &own.reference, &packet)
        }
        .map_err(|violation| format!("end {end} sent {packet}: {violation}"))?;
        for Parcel { at, frame } in self.links[end & 1].carry(now, frame, &mut self.patience) {
            self.agenda.at(
                at,
                Event::Arrive {
                    end: end ^ 1,
                    frame,
                },
            );
        }
        Ok(())
    }

    /// What follows every step of an end: completions, new work, invariants, timers.
    fn after(&mut self, now: Nanos, end: usize) -> Result<(), Violation> {
        let peer_dead = self.ends[end ^ 1].is_dead();
        let harmed = self.patience.total() > 0
            || matches!(self.scenario.family, Family::Death | Family::Lossy);
        let (own, peer) = pair(&mut self.watches, end);
        let mut said = Vec::new();
        self.ends[end].complete(harmed, peer_dead, own, peer, &mut said)?;
        let posted = self.ends[end].post_works(now);
        for line in said {
            self.note(now, || format!("{end}     {line}"));
        }
        if posted {
            self.request_pump(end);
        }
        if !self.pumped[end] {
            // Nothing to send: whatever is open now must end by itself.
            let (own, _) = pair(&mut self.watches, end);
            self.ends[end]
                .check(own)
                .map_err(|v| format!("end {end}: {v}"))?;
        }
        self.rearm(end);
        Ok(())
    }

    fn rearm(&mut self, end: usize) {
        let due = self.ends[end].next_deadline();
        if due == self.deadlines[end] {
            return;
        }
        self.deadlines[end] = due;
        if let Some(deadline) = due {
            // Timers are late now and then.
            let late = if self.rng.chance(200) {
                self.rng.below(3 * MICROSECOND)
            } else {
                0
            };
            self.agenda
                .at(deadline + late, Event::Timer { end, deadline });
        }
    }

    fn request_pump(&mut self, end: usize) {
        if std::mem::replace(&mut self.pumped[end], true) {
            return;
        }
        let lag = self.rng.below(self.scenario.ends[end].lag + 1);
        self.agenda.after(lag, Event::Pump { end });
    }

    fn note(&mut self, now: Nanos, line: impl FnOnce() -> String) {
        if let Some(trace) = &mut self.trace {
            trace(now, line());
        }
    }

    fn failure(&self, violation: Violation) -> Failure {
        Failure {
            seed: self.scenario.seed,
            at: self.agenda.now(),
            violation,
        }
    }

    /// Nothing will happen any more: is all done that had to be done?
    fn finish(&mut self) -> Result<Tally, Violation> {
        for (index, watch) in self.watches.iter().enumerate() {
            if !watch.is_done() {
                return Err(format!(
                    "end {index} stalls: {} of {} works completed",
                    watch.completed(),
                    watch.reference.flow().works.len(),
                ));
            }
            self.tally.heeded += self.ends[index].heeded();
            self.tally.withheld += self.ends[index].withheld();
            self.tally.resent += watch.observer.resent();
            self.tally.works += watch.completed() as u64;
            if !watch.has_succeeded() {
                self.tally.failed += 1;
                continue;
            }
            self.ends[index ^ 1].memory_is(&watch.reference)?;
            if watch.taken() != watch.received() {
                return Err(format!(
                    "{} receives taken, {} done",
                    watch.taken(),
                    watch.received()
                ));
            }
            if self.scenario.family == Family::Clean && watch.observer.resent() > 0 {
                return Err(format!(
                    "end {index} sent {} packets again over a perfect link",
                    watch.observer.resent(),
                ));
            }
        }
        self.tally.faults = self.patience.total();
        self.tally.nanos = self.agenda.now();
        Ok(self.tally)
    }
}

/// Is `packet` what a notice of congestion must look like?
fn notification_is(packet: &Packet<'_>) -> Result<(), Violation> {
    let bits = packet.solicited || packet.ack_req || packet.migrated;
    if bits || packet.psn != 0 || !packet.payload.is_empty() {
        return Err("bits, a PSN or a payload in a notice of congestion".into());
    }
    Ok(())
}

/// The watches of the flow that `end` requests, and of the one that it responds to.
fn pair(watches: &mut [Watch], end: usize) -> (&mut Watch, &mut Watch) {
    let [own, peer] = watches
        .get_disjoint_mut([end, end ^ 1])
        .expect("ends come in pairs");
    (own, peer)
}
