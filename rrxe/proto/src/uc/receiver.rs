// SPDX-License-Identifier: GPL-2.0

//! The receive side of an unreliable connection.

use crate::{
    access::Access,
    mtu::PathMtu,
    psn::Psn,
    rc::{
        assembly::{Assembly, Refusal},
        news::News,
        task::{Effect, Verdict},
        Action,
        Discard,
        Done,
        Event,
        ExecError,
        ReceiveCompletion,
        ReceiveSource,
        Task,
        TaskKind, //
    },
    wire::{Headers, Kind, RcRequest}, //
};

/// The receive side of an unreliable connection.
///
/// A packet is taken in if it starts a message, or goes on with the one before it without a gap. If
/// a message does not come to its end, its receive work request serves the next one.
#[derive(Debug)]
pub struct Receiver {
    access: Access,
    /// The PSN with which the message goes on.
    expected: Psn,
    assembly: Assembly,
    phase: Phase,
    news: News,
}

/// What happens to requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    /// They are executed.
    Running,
    /// They are dropped.
    Closed,
}

impl Receiver {
    /// A receive side that expects the PSN `rq_psn`, of a peer that may do what `access` says.
    pub fn new(mtu: PathMtu, rq_psn: Psn, access: Access) -> Self {
        Self {
            access,
            expected: rq_psn,
            assembly: Assembly::new(mtu),
            phase: Phase::Running,
            news: News::new(),
        }
    }

    /// Changes what the peer may do.
    pub fn set_access(&mut self, access: Access) {
        self.access = access;
    }

    /// Takes a packet in.
    pub fn on_request(&mut self, headers: &Headers, source: &mut impl ReceiveSource) -> Action {
        if self.phase == Phase::Closed {
            return Action::Dropped(Discard::Closed);
        }
        let Kind::Uc(request) = headers.kind() else {
            return Action::Dropped(Discard::NotRequest);
        };
        self.news.arrived();
        let request = request.to_rc();
        if request.position().starts() || headers.psn() != self.expected {
            self.assembly.abandon();
        }
        self.expected = headers.psn().next();
        if !self.assembly.is_continued_by(&request) {
            self.assembly.abandon();
            return Action::Dropped(Discard::OutOfOrder);
        }
        match self.check(headers, &request, source) {
            Ok((kind, effect)) => Action::Execute(Task::new(headers, kind, effect)),
            Err(refusal) => {
                self.assembly.abandon();
                Action::Dropped(match refusal {
                    Refusal::NotReady => Discard::NotReady,
                    Refusal::Wrong(verdict) => {
                        self.judge(verdict);
                        Discard::Refused
                    }
                })
            }
        }
    }

    /// Takes note of how a task went. The receive work request that it completes, if any, is
    /// reported by the result if that is success, and by [`poll_flush`](Self::poll_flush) if it is
    /// at fault.
    pub fn commit(
        &mut self,
        task: Task,
        outcome: Result<Done, ExecError>,
    ) -> Option<ReceiveCompletion> {
        match (outcome, task.effect()) {
            (Ok(_), Effect::Message(step)) => self.assembly.advance(step),
            // Nothing is answered here.
            (Ok(_), Effect::Respond(_)) => None,
            (Err(error), _) => {
                self.assembly.abandon();
                self.judge(error.into());
                None
            }
        }
    }

    /// The next thing to tell the consumer.
    pub fn poll_event(&mut self) -> Option<Event> {
        self.news.poll()
    }

    /// Drops all requests from now on.
    pub fn enter_error(&mut self) {
        self.phase = Phase::Closed;
    }

    /// The receive work request that was in use when the error state was entered. Those that were
    /// not taken are the caller's to flush.
    pub fn poll_flush(&mut self) -> Option<ReceiveCompletion> {
        match self.phase {
            Phase::Running => None,
            Phase::Closed => self.assembly.flush(),
        }
    }

    /// What a packet leads to that continues what came before.
    fn check(
        &mut self,
        headers: &Headers,
        request: &RcRequest,
        source: &mut impl ReceiveSource,
    ) -> Result<(TaskKind, Effect), Refusal> {
        if !self.access.contains(request.access()) {
            return Err(Verdict::INVALID_REQUEST.into());
        }
        let (kind, step) = match request {
            RcRequest::Send(part) => self.assembly.check_send(headers, part, source)?,
            RcRequest::Write(part) => self.assembly.check_write(headers, part, source)?,
            _ => return Err(Verdict::INVALID_REQUEST.into()),
        };
        Ok((kind, Effect::Message(step)))
    }

    /// Ends the connection if it is not the peer that is at fault.
    fn judge(&mut self, verdict: Verdict) {
        if verdict.blames_peer() {
            return;
        }
        self.phase = Phase::Closed;
        self.news.failed(verdict.failure);
        self.assembly.spoil(verdict.receive);
    }
}
