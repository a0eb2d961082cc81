// SPDX-License-Identifier: GPL-2.0

//! How far the sides of a connection have come, for those who look on.

use crate::{
    psn::{Msn, Psn},
    rc::{
        requester::{Gate, Pause, Phase},
        Requester,
        Responder, //
    },
};

/// What a send side does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Activity {
    /// All is acknowledged that was sent, and there is nothing to send.
    Idle,
    /// It sends, or waits for what it has sent to be answered.
    Sending,
    /// It waits as the peer has no receive work request.
    NotReady,
    /// It lets nothing begin.
    Draining,
    /// It flushes.
    Flushing,
}

/// How far a send side has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SendSnapshot {
    /// What it does.
    pub activity: Activity,
    /// The oldest PSN that is not acknowledged.
    pub acked: Psn,
    /// The PSN past the last one sent.
    pub sent: Psn,
    /// Retries after losses since there was progress.
    pub retries: u8,
    /// Retries after RNR NAKs since there was progress. Where there is no limit none are counted.
    pub rnr_retries: u8,
}

impl Requester {
    /// How far it has come.
    pub fn snapshot(&self) -> SendSnapshot {
        SendSnapshot {
            activity: self.activity(),
            acked: self.acked.psn,
            sent: self.sent,
            retries: self.retries.used(),
            rnr_retries: self.rnr_retries.used(),
        }
    }

    fn activity(&self) -> Activity {
        match (self.phase, self.gate, self.pause) {
            (Phase::Flushing, ..) => Activity::Flushing,
            (Phase::Running, Gate::Shut, _) => Activity::Draining,
            (Phase::Running, Gate::Open, Some(Pause::Rnr(_))) => Activity::NotReady,
            (Phase::Running, Gate::Open, _) if self.head() == self.tail() => Activity::Idle,
            (Phase::Running, Gate::Open, _) => Activity::Sending,
        }
    }
}

/// How far a receive side has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReceiveSnapshot {
    /// The PSN that is due.
    pub expected: Psn,
    /// Messages completed.
    pub msn: Msn,
    /// Packets that have come before their turn.
    pub kept: usize,
}

impl Responder {
    /// How far it has come.
    pub fn snapshot(&self) -> ReceiveSnapshot {
        ReceiveSnapshot {
            expected: self.expected,
            msn: self.msn,
            kept: self.kept.len(),
        }
    }
}
