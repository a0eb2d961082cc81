// SPDX-License-Identifier: GPL-2.0

//! The receive side of a reliable connection: what a request has done here, and what it is
//! answered.

use crate::{
    access::Access,
    mtu::PathMtu,
    psn::{Arrival, Msn, Psn},
    rc::{
        aside::Asides,
        assembly::{Assembly, Refusal},
        kept::{Keep, Kept},
        news::News,
        plan::AckRequest,
        saved::Saved,
        task::{
            Action,
            Discard,
            Done,
            Effect,
            Event,
            ExecError,
            ReceiveCompletion,
            ReceiveSource,
            Step,
            Task,
            Verdict, //
        },
    },
    status::NakCode,
    timers::RnrTimer,
    wire::{Bth, Headers, Kind, Syndrome}, //
};

/// Attributes of a receive side that may change while it lives.
#[derive(Clone, Copy, Debug)]
pub struct ReceiveConfig {
    /// READs and atomics that the peer may have on their way at a time.
    pub max_dest_rd_atomic: u8,
    /// How long the peer waits when it finds no receive work request.
    pub min_rnr_timer: RnrTimer,
    /// What the peer may do.
    pub access: Access,
}

/// The receive side of a reliable connection.
///
/// What it owes the peer comes out of [`poll_transmit`](Self::poll_transmit) only, so that all
/// packets taken in before that call share one acknowledgement.
#[derive(Debug)]
pub struct Responder {
    pub(super) mtu: PathMtu,
    pub(super) config: ReceiveConfig,
    /// The PSN that is due.
    pub(super) expected: Psn,
    /// Messages completed.
    pub(super) msn: Msn,
    pub(super) assembly: Assembly,
    pub(super) phase: Phase,
    gap: Gap,
    pub(super) kept: Kept,
    pub(super) owed: Owed,
    /// READs and atomics executed so far. The last of them are in the saved ring, each in the
    /// place that is its number modulo the ring's length.
    pub(super) executed: u64,
    /// No READ or atomic with a lower number has a response that is due.
    pub(super) due_from: u64,
    pub(super) asides: Asides,
    news: News,
}

/// What happens to requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Phase {
    /// They are executed.
    Running,
    /// They are dropped, but responses to those before still go out, and after them a NAK.
    Failing,
    /// They are dropped, and nothing goes out.
    Closed,
}

/// Whether the peer has been told to go back to the expected PSN. That is said once (PROTOCOL
/// rule 3), whether because a packet is missing or because there was no receive work request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Gap {
    Untold,
    Told,
}

/// What is to be said once all due responses are out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Owed {
    Nothing,
    /// That all before the expected PSN has arrived.
    Ack,
    /// That something is wrong at a PSN. All before it has arrived.
    Nak(Psn, Syndrome),
}

impl Responder {
    /// Packets that are kept at most, each in a place with a lower number.
    pub const PLACES: usize = Kept::PLACES;

    /// A receive side that expects the PSN `rq_psn`.
    pub fn new(mtu: PathMtu, rq_psn: Psn, config: ReceiveConfig) -> Self {
        Self {
            mtu,
            config,
            expected: rq_psn,
            msn: Msn::ZERO,
            assembly: Assembly::new(mtu),
            phase: Phase::Running,
            gap: Gap::Untold,
            kept: Kept::new(),
            owed: Owed::Nothing,
            executed: 0,
            due_from: 0,
            asides: Asides::new(),
            news: News::new(),
        }
    }

    /// Changes attributes.
    pub fn set_config(&mut self, config: ReceiveConfig) {
        self.config = config;
    }

    /// Takes a packet in. What was kept may be due then: ask [`poll_kept`](Self::poll_kept).
    ///
    /// `saved` is a ring of at least `max_dest_rd_atomic` places, the same at each call.
    pub fn on_request(
        &mut self,
        headers: &Headers,
        source: &mut impl ReceiveSource,
        saved: &mut [Saved],
    ) -> Action {
        let Kind::RcRequest(request) = headers.kind() else {
            return Action::Dropped(Discard::NotRequest);
        };
        match self.arrive(headers.psn()) {
            Ok(Arrival::Expected) => match self.check(headers, request, source, saved) {
                Ok(task) => Action::Execute(task),
                Err(Refusal::NotReady) => {
                    self.not_ready();
                    Action::None
                }
                Err(Refusal::Wrong(verdict)) => {
                    self.refuse(self.expected, verdict);
                    Action::None
                }
            },
            Ok(Arrival::Duplicate) => self.on_duplicate(headers.psn(), request, saved),
            Ok(Arrival::Ahead) => match self.kept.offer(headers.psn(), self.expected) {
                Some(keep) => Action::Keep(keep),
                None => Action::Dropped(Discard::OutOfOrder),
            },
            Err(discard) => Action::Dropped(discard),
        }
    }

    /// Takes a packet in whose opcode is reserved.
    pub fn on_unknown_opcode(&mut self, bth: &Bth) -> Action {
        match self.arrive(bth.psn()) {
            Ok(Arrival::Expected) => {
                self.refuse(self.expected, Verdict::INVALID_REQUEST);
                Action::None
            }
            Ok(Arrival::Duplicate) => Action::Dropped(Discard::UnknownDuplicate),
            Ok(Arrival::Ahead) => Action::Dropped(Discard::OutOfOrder),
            Err(discard) => Action::Dropped(discard),
        }
    }

    /// Takes note that the packet of `keep` is stored.
    pub fn keep(&mut self, keep: Keep) {
        self.kept.add(keep);
    }

    /// The place of a packet that was kept and whose turn has come. It is taken from there, and
    /// [taken in](Self::on_request) as if it came now.
    ///
    /// Where the next gap begins, this tells no more than an acknowledgement does: a peer that
    /// sends all again is about to fill it, and another can tell from what was acknowledged. Once
    /// the error state has been entered, nothing that is kept is asked for any more.
    pub fn poll_kept(&mut self) -> Option<usize> {
        if self.phase != Phase::Running {
            return None;
        }
        self.kept.take_due(self.expected)
    }

    /// Forgets all packets that are kept, which count as lost then. The peer sends them again, if it
    /// still is there.
    pub fn drop_kept(&mut self) {
        self.kept.clear();
    }

    /// Takes note of how a task went. The receive work request that it completes, if any, is
    /// reported by the result if that is success, and by [`poll_flush`](Self::poll_flush) if not.
    pub fn commit(
        &mut self,
        task: Task,
        outcome: Result<Done, ExecError>,
        saved: &mut [Saved],
    ) -> Option<ReceiveCompletion> {
        let done = match outcome {
            Ok(done) => done,
            Err(error) => {
                self.refuse(self.expected, error.into());
                return None;
            }
        };
        if task.ack_request == AckRequest::Yes {
            self.owed = Owed::Ack;
        }
        match task.effect {
            Effect::Message(step) => {
                self.expected = self.expected.next();
                if let Step::Complete(_) = step {
                    self.msn = self.msn.next();
                }
                self.assembly.advance(step)
            }
            Effect::Respond(executed) => {
                self.respond(executed, done, saved);
                None
            }
        }
    }

    /// The next thing to tell the consumer.
    pub fn poll_event(&mut self) -> Option<Event> {
        self.news.poll()
    }

    /// Drops all requests from now on. A NAK that is the reason for it still goes out, with all
    /// that must precede it.
    pub fn enter_error(&mut self) {
        if self.phase == Phase::Running {
            self.phase = Phase::Closed;
        }
    }

    /// The receive work request that was in use when the error state was entered. Those that were
    /// not taken are the caller's to flush.
    pub fn poll_flush(&mut self) -> Option<ReceiveCompletion> {
        if self.phase == Phase::Running {
            return None;
        }
        self.assembly.flush()
    }
}

impl Responder {
    /// Checks the PSN of a packet.
    fn arrive(&mut self, psn: Psn) -> Result<Arrival, Discard> {
        if self.phase != Phase::Running {
            return Err(Discard::Closed);
        }
        let arrival = psn.against(self.expected);
        match arrival {
            Arrival::Expected => {
                self.news.arrived();
                self.gap = Gap::Untold;
                if let Owed::Nak(..) = self.owed {
                    // It would have acknowledged what is before the PSN.
                    self.owed = Owed::Ack;
                }
            }
            Arrival::Ahead => self.go_back(Syndrome::Nak(NakCode::Sequence)),
            Arrival::Duplicate => (),
        }
        Ok(arrival)
    }

    /// Tells the peer to go back to the expected PSN, unless it has been told.
    fn go_back(&mut self, syndrome: Syndrome) {
        if self.gap == Gap::Untold {
            self.gap = Gap::Told;
            self.owed = Owed::Nak(self.expected, syndrome);
        }
    }

    fn not_ready(&mut self) {
        self.go_back(Syndrome::RnrNak(self.config.min_rnr_timer));
    }

    /// Ends the connection with a NAK for `psn`.
    pub(super) fn refuse(&mut self, psn: Psn, verdict: Verdict) {
        self.owed = Owed::Nak(psn, Syndrome::Nak(verdict.nak));
        if self.phase == Phase::Failing {
            return;
        }
        self.phase = Phase::Failing;
        self.news.failed(verdict.failure);
        self.assembly.spoil(verdict.receive);
    }
}
