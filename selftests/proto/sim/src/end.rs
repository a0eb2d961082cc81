// SPDX-License-Identifier: GPL-2.0

//! One end of a connection: carries out what both sides of the engine decide, as a data path would.

mod answering;
mod asking;
mod pace;
mod pages;

pub use asking::{config, mtu, request};

use rrxe_proto::{
    status::WcStatus,
    wire::Packet, //
};

use self::{
    answering::Answering,
    asking::{
        Asking,
        Burst,
        Rest, //
    },
    pace::{
        Admission,
        Pace, //
    }, //
};
use crate::{
    agenda::Nanos,
    frame::Frame,
    program::Flow,
    reference::{
        Reference,
        Violation, //
    },
    rng::Rng,
    scenario::{
        EndPlan,
        Incident, //
    },
    watch::{
        Circumstances,
        Watch, //
    }, //
};

/// One end of a connection.
#[derive(Debug)]
pub struct End {
    index: usize,
    flow: Flow,
    budget: u32,
    asking: Asking,
    answering: Answering,
    pace: Pace,
    life: Life,
}

/// The state of a queue pair.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Life {
    Ready,
    /// In error because a work of its own failed.
    Failed,
    /// In error for another reason.
    Aborted,
}

/// What an end sends.
pub struct Sent {
    /// Frames in order.
    pub frames: Vec<Frame>,
    /// There may be more to send.
    pub more: bool,
    /// The responder has nothing more to say.
    pub answered: bool,
}

impl End {
    /// End number `index`, with its plan and that of its peer.
    pub fn new(index: usize, plan: &EndPlan, peer: &EndPlan, mut rng: Rng) -> Self {
        Self {
            index,
            flow: plan.flow.clone(),
            budget: plan.budget,
            asking: Asking::new(plan, rng.fork()),
            answering: Answering::new(plan, peer, rng.fork()),
            pace: Pace::new(plan.control),
            life: Life::Ready,
        }
    }

    /// The queue pair number of an end.
    pub fn qpn(index: usize) -> u32 {
        asking::qpn(index).get()
    }

    /// Whether its queue pair is in the error state.
    pub fn is_dead(&self) -> bool {
        self.life != Life::Ready
    }

    /// When the engine wants to be called.
    pub fn next_deadline(&self) -> Option<Nanos> {
        [self.asking.next_deadline(), self.pace.next_deadline()]
            .into_iter()
            .flatten()
            .min()
    }

    /// Notices of congestion that it has heeded.
    pub fn heeded(&self) -> u64 {
        self.pace.heeded()
    }

    /// Plans that had to wait for their data.
    pub fn withheld(&self) -> u64 {
        self.asking.withheld()
    }

    /// Posts works that are due.
    pub fn post_works(&mut self, now: Nanos) -> bool {
        self.asking.post(now, &self.flow)
    }

    /// Posts receives that are due.
    pub fn post_receives(&mut self, now: Nanos) {
        self.answering.post(now);
    }

    /// Calls the engine's timer.
    pub fn on_timeout(&mut self, now: Nanos) {
        self.asking.on_timeout(now);
        self.pace.on_timeout(now);
    }

    /// The peer tells of congestion.
    pub fn notified(&mut self, now: Nanos) {
        self.pace.notified(now);
    }

    /// Lets an incident happen.
    pub fn incident(
        &mut self,
        incident: Incident,
        own: &mut Watch,
        peer: &mut Watch,
    ) -> Result<(), Violation> {
        match incident {
            Incident::Drain => {
                self.asking.engine().drain();
                own.observer.drain(true);
            }
            Incident::Resume => {
                self.asking.engine().resume();
                own.observer.drain(false);
            }
            Incident::Retune(tuning) => {
                let engine = self.asking.engine();
                if engine.is_drained() {
                    let settings = own.reference.settings();
                    settings.tune(tuning);
                    engine.set_config(config(settings));
                }
            }
            Incident::Readjust {
                max_dest_rd_atomic,
                min_rnr_timer,
            } => {
                let settings = peer.reference.settings();
                settings.max_dest_rd_atomic = max_dest_rd_atomic;
                peer.observer.change_timer(settings.min_rnr_timer);
                settings.min_rnr_timer = min_rnr_timer;
                self.answering.readjust(settings);
            }
            Incident::Invalidate { rkey } => {
                self.answering.memory().invalidate(rkey);
            }
            Incident::Forget => self.answering.forget(),
            Incident::Error => {
                self.die(Life::Aborted, peer)?;
            }
        }
        Ok(())
    }

    /// Takes a frame in. What came of it is told.
    pub fn on_frame(
        &mut self,
        now: Nanos,
        frame: &Frame,
        own: &mut Watch,
        peer: &mut Watch,
    ) -> Result<String, Violation> {
        self.pace.arrived(now, frame);
        let packet = Packet::parse(frame.transport())
            .map_err(|error| format!("a good packet is refused: {error:?}"))?;
        let (headers, payload) = (packet.headers(), packet.payload());
        if headers.info().is_response() {
            return self.asking.on_response(now, headers, payload, own);
        }
        let said = self.answering.on_request(frame, peer)?;
        if said.fatal {
            let flushed = self.die(Life::Aborted, peer)?;
            return Ok(format!("{}, receive flushed: {flushed:?}", said.line));
        }
        Ok(said.line)
    }

    /// Sends what there is to send, responses first.
    pub fn transmit(&mut self, now: Nanos, own: &mut Watch) -> Result<Sent, Violation> {
        let mut sent = Sent {
            frames: self.pace.notices(self.index).collect(),
            more: true,
            answered: false,
        };
        let notices = sent.frames.len();
        let admission = self.pace.admit(now);
        let mut left = admission.limit(self.budget);
        while left > 0 {
            let held = admission.holds_responses() && self.answering.is_read_next();
            let response = match held {
                true => None,
                false => self.answering.transmit(self.index, left)?,
            };
            let burst = match response {
                Some(burst) => burst,
                None => {
                    sent.answered = !held;
                    sent.more = match admission {
                        Admission::All | Admission::Nothing(_) => false,
                        Admission::Requests => held,
                        Admission::ReadResponses => return Ok(sent),
                    };
                    if self.is_dead() {
                        return Ok(sent);
                    }
                    // What is before a local work is seen to be sent before that happens.
                    if sent.frames.len() > notices && self.asking.is_local_next() {
                        sent.more = true;
                        return Ok(sent);
                    }
                    let held_until = match admission {
                        Admission::Nothing(until) => Some(until),
                        _ => None,
                    };
                    match self
                        .asking
                        .transmit(now, self.index, left, held_until, own)?
                    {
                        Some(burst) => burst,
                        None => return Ok(sent),
                    }
                }
            };
            let Burst { frames, rest } = burst;
            left -= frames.len() as u32;
            sent.frames.extend(self.pace.send(now, frames));
            if rest == Rest::Withheld {
                return Ok(sent);
            }
            sent.more = true;
            if rest == Rest::Unsent {
                return Ok(sent);
            }
        }
        Ok(sent)
    }

    /// Reports completions.
    pub fn complete(
        &mut self,
        harmed: bool,
        peer_dead: bool,
        own: &mut Watch,
        peer: &Watch,
        said: &mut Vec<String>,
    ) -> Result<(), Violation> {
        let aborted = self.life == Life::Aborted;
        let about = Circumstances {
            harmed,
            aborted,
            peer_dead,
        };
        if self.asking.complete(about, own, said)? {
            self.die(Life::Failed, peer)?;
        }
        Ok(())
    }

    /// Judges what is true after every step.
    pub fn check(&mut self, own: &Watch) -> Result<(), Violation> {
        if self.is_dead() {
            return match self.asking.next_deadline() {
                Some(_) => Err("a deadline in the error state".into()),
                None => Ok(()),
            };
        }
        self.asking.check(own, self.next_deadline())
    }

    /// Judges the memory that the peer worked on.
    pub fn memory_is(&self, reference: &Reference) -> Result<(), Violation> {
        self.answering.memory_is(reference)
    }

    /// Puts the queue pair in the error state; how the receive in use ended comes back.
    fn die(&mut self, life: Life, peer: &Watch) -> Result<Option<WcStatus>, Violation> {
        if self.is_dead() {
            return Ok(None);
        }
        self.life = life;
        self.asking.enter_error();
        self.answering.engine().enter_error();
        self.answering.flush(peer)
    }
}
