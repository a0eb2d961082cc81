// SPDX-License-Identifier: GPL-2.0

//! The receive side of a datagram queue pair.

use crate::{
    key::Qkey,
    mtu::PathMtu,
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
        Task, //
    },
    wire::{Headers, Kind}, //
};

/// The receive side of a datagram queue pair.
///
/// Each packet is for itself. If one is not taken in after all, its receive work request serves the
/// next one.
#[derive(Debug)]
pub struct Receiver {
    qkey: Qkey,
    assembly: Assembly,
    phase: Phase,
    news: News,
}

/// What happens to packets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    /// They are received.
    Running,
    /// They are dropped.
    Closed,
}

impl Receiver {
    /// A receive side for packets that show `qkey`.
    pub fn new(qkey: Qkey) -> Self {
        Self {
            qkey,
            // What a peer's port lets through, ours takes.
            assembly: Assembly::new(PathMtu::Mtu4096),
            phase: Phase::Running,
            news: News::new(),
        }
    }

    /// Changes the key.
    pub fn set_qkey(&mut self, qkey: Qkey) {
        self.qkey = qkey;
    }

    /// Takes a packet in.
    pub fn on_request(&mut self, headers: &Headers, receives: &mut impl ReceiveSource) -> Action {
        if self.phase == Phase::Closed {
            return Action::Dropped(Discard::Closed);
        }
        let Kind::Ud(deth, imm) = headers.kind() else {
            return Action::Dropped(Discard::NotRequest);
        };
        if deth.qkey() != self.qkey {
            return Action::Dropped(Discard::WrongQkey);
        }
        match self
            .assembly
            .check_datagram(headers, deth.src_qp(), *imm, receives)
        {
            Ok((kind, step)) => Action::Execute(Task::new(headers, kind, Effect::Message(step))),
            Err(Refusal::NotReady) => Action::Dropped(Discard::NotReady),
            Err(Refusal::Wrong(verdict)) => {
                self.judge(verdict);
                Action::Dropped(Discard::Refused)
            }
        }
    }

    /// Takes note of how a task went. The receive work request that it completes is reported by the
    /// result if that is success, and by [`poll_flush`](Self::poll_flush) if it is at fault.
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
                self.judge(error.into());
                None
            }
        }
    }

    /// The next thing to tell the consumer.
    pub fn poll_event(&mut self) -> Option<Event> {
        self.news.poll()
    }

    /// Drops all packets from now on.
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

    /// Ends the queue pair if it is not the sender of a packet that is at fault.
    fn judge(&mut self, verdict: Verdict) {
        if verdict.blames_peer() {
            return;
        }
        self.phase = Phase::Closed;
        self.news.failed(verdict.failure);
        self.assembly.spoil(verdict.receive);
    }
}
