// SPDX-License-Identifier: GPL-2.0

//! Congestion control of an end: it tells its peer of marks, and keeps the rate that is left to it when
//! it is told of them.

use std::time::Duration;

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
        Kind, //
    }, //
};

use super::asking::qpn;
use crate::{
    agenda::Nanos,
    frame::Frame,
    packet::opcode::ACK, //
};

/// A peer is told once in so long.
const NOTICE_INTERVAL: Duration = Duration::from_micros(50);

/// Packets that are sent in one go while there is a rate to keep.
const LIMITED_BURST: u32 = 4;

/// Both points of an end's congestion control.
#[derive(Debug)]
pub struct Pace {
    /// How it reacts, if it does.
    params: Option<ReactionParams>,
    reaction: ReactionPoint,
    notification: NotificationPoint,
    /// Notices that the peer is owed.
    owed: u32,
    /// Notices that were heeded.
    heeded: u64,
    turn: Turn,
    /// When to ask again.
    wake: Option<Nanos>,
}

/// What a rate is kept with next.
#[derive(Clone, Copy, Debug)]
enum Turn {
    ReadResponses,
    Requests,
}

/// What of all that the rate is about may be sent now.
#[derive(Clone, Copy, Debug)]
pub enum Admission {
    /// As much as there is.
    All,
    /// A few responses to READs.
    ReadResponses,
    /// A few requests.
    Requests,
    /// Nothing before an instant.
    Nothing(Nanos),
}

impl Admission {
    /// Packets to send at most of a budget of `budget`.
    pub fn limit(self, budget: u32) -> u32 {
        match self {
            Self::All => budget,
            _ => budget.min(LIMITED_BURST),
        }
    }

    /// Whether responses to READs wait.
    pub fn holds_responses(self) -> bool {
        matches!(self, Self::Requests | Self::Nothing(_))
    }
}

impl Pace {
    /// Congestion control that reacts by `params`, if at all.
    pub fn new(params: Option<ReactionParams>) -> Self {
        Self {
            params,
            reaction: ReactionPoint::new(),
            notification: NotificationPoint::new(),
            owed: 0,
            heeded: 0,
            turn: Turn::Requests,
            wake: None,
        }
    }

    /// A frame has arrived.
    pub fn arrived(&mut self, now: Nanos, frame: &Frame) {
        let now = Instant::from_nanos(now);
        if frame.is_marked() && self.notification.is_due(now, NOTICE_INTERVAL) {
            self.owed += 1;
        }
    }

    /// A notice has arrived.
    pub fn notified(&mut self, now: Nanos) {
        if let Some(params) = &self.params {
            self.reaction.on_cnp(Instant::from_nanos(now), params);
            self.heeded += 1;
        }
    }

    /// Notices that were heeded.
    pub fn heeded(&self) -> u64 {
        self.heeded
    }

    /// When to ask again whether something may be sent.
    pub fn next_deadline(&self) -> Option<Nanos> {
        self.wake
    }

    /// Takes note of the time.
    pub fn on_timeout(&mut self, now: Nanos) {
        self.wake = self.wake.filter(|&wake| wake > now);
    }

    /// The notices that end `end` owes its peer.
    pub fn notices(&mut self, end: usize) -> impl Iterator<Item = Frame> {
        let spec = HeaderSpec {
            migrated: false,
            ..HeaderSpec::new(Kind::Cnp, qpn(end ^ 1), Psn::truncate(0))
        };
        let owed = std::mem::take(&mut self.owed);
        (0..owed).map(move |_| Frame::new(end & 1, end ^ 1, &spec, &[]))
    }

    /// What may be sent now.
    pub fn admit(&mut self, now: Nanos) -> Admission {
        if self.reaction.is_free() {
            return Admission::All;
        }
        let earliest = self.reaction.earliest_send(Instant::from_nanos(now));
        if earliest.as_nanos() > now {
            // The rate may rise before.
            let again = self
                .reaction
                .next_deadline()
                .map_or(earliest, |deadline| deadline.min(earliest));
            let again = again.as_nanos().max(now + 1);
            self.wake = Some(again);
            return Admission::Nothing(again);
        }
        match self.turn {
            Turn::ReadResponses => {
                self.turn = Turn::Requests;
                Admission::ReadResponses
            }
            Turn::Requests => {
                self.turn = Turn::ReadResponses;
                Admission::Requests
            }
        }
    }

    /// Frames are sent, as those of a sender that reacts, if it does.
    pub fn send(
        &mut self,
        now: Nanos,
        frames: Vec<Frame>,
    ) -> impl Iterator<Item = Frame> + use<'_> {
        frames.into_iter().map(move |frame| {
            let bytes = frame.bytes.len() as u64;
            self.reaction.on_sent(Instant::from_nanos(now), bytes);
            match self.params {
                Some(_) if frame.transport()[0] != ACK => frame.capable(),
                _ => frame,
            }
        })
    }
}
