// SPDX-License-Identifier: GPL-2.0

//! The part of the send side that digests responses.

use crate::{
    opcode::Position,
    psn::Psn,
    rc::{
        cursor::{byte_offset, Cursor},
        request::{Answer, Operation, SendQueue},
        requester::{Pause, Phase, Repeat, Requester},
        response::{DropReason, Placement, Response},
        retry::{Exhausted, Retries}, //
    },
    status::{NakCode, WcStatus},
    time::Instant,
    timers::RnrTimer,
    wire::{Aeth, Syndrome}, //
};

/// How far an implied acknowledgement gets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Reach {
    /// To the PSN in question.
    All,
    /// To a READ or atomic before it whose own response is missing: an implied NAK.
    Gap,
}

impl Requester {
    /// Takes a response in.
    pub fn on_response(
        &mut self,
        now: Instant,
        response: &Response,
        queue: &impl SendQueue,
    ) -> Placement {
        if self.phase == Phase::Flushing {
            return Placement::Dropped(DropReason::Flushing);
        }
        let unacked = self.sent.offset_from(self.acked.psn);
        if !response.psn().is_within(self.acked.psn, unacked) {
            return Placement::Dropped(DropReason::Stale);
        }
        match *response {
            Response::Ack { psn, aeth } => self.on_ack(now, psn, aeth, queue),
            Response::Read {
                psn,
                position,
                aeth,
                len,
            } => {
                let (at, reach) = self.walk(psn, queue);
                if reach == Reach::Gap {
                    return self.on_data_past_gap(now, at, aeth, queue);
                }
                self.on_read(now, at, position, aeth, len, queue)
            }
            Response::Atomic {
                psn,
                aeth,
                original,
            } => {
                let (at, reach) = self.walk(psn, queue);
                if reach == Reach::Gap {
                    return self.on_data_past_gap(now, at, Some(aeth), queue);
                }
                self.on_atomic(now, at, aeth, original, queue)
            }
        }
    }

    /// Goes from the oldest unacknowledged packet towards the PSN `to`, which has been sent.
    ///
    /// A response to a request acknowledges all SENDs and WRITEs before it, but no READ and no
    /// atomic (PROTOCOL rule 8).
    fn walk(&self, to: Psn, queue: &impl SendQueue) -> (Cursor, Reach) {
        let mut at = self.acked;
        while at.psn != to {
            if at.wqe == self.begun {
                // Not reached: all PSNs up to `sent` are of requests before `begun`.
                return (self.acked, Reach::Gap);
            }
            let request = queue.request(at.wqe);
            if request.operation().answer() == Answer::Response {
                return (at, Reach::Gap);
            }
            at.advance(request, self.mtu, to.offset_from(at.psn));
        }
        (self.past_done(at, queue), Reach::All)
    }

    fn on_ack(&mut self, now: Instant, psn: Psn, aeth: Aeth, queue: &impl SendQueue) -> Placement {
        let syndrome = aeth.syndrome();
        let to = match syndrome {
            Syndrome::Ack(_) => psn.next(),
            Syndrome::RnrNak(_) | Syndrome::Nak(_) | Syndrome::Reserved(_) => psn,
        };
        let (at, reach) = self.walk(to, queue);
        match (syndrome, reach) {
            // Of these the second is for reliable datagrams only.
            (Syndrome::Reserved(_) | Syndrome::Nak(NakCode::InvalidRdRequest), _) => {
                return match reach {
                    Reach::All => self.malformed(at),
                    Reach::Gap => Placement::Dropped(DropReason::Malformed),
                };
            }
            (Syndrome::Ack(_), Reach::All) => self.progress(now, at, queue),
            (Syndrome::RnrNak(timer), Reach::All) => {
                self.progress(now, at, queue);
                self.on_rnr_nak(now, timer);
            }
            (Syndrome::Nak(code), Reach::All) => {
                self.progress(now, at, queue);
                self.on_nak(code);
            }
            // A READ that failed in the middle. The responder does not answer a retry.
            (Syndrome::Nak(code), Reach::Gap) if self.covers(at, psn, queue) => {
                self.progress(now, at, queue);
                self.on_nak(code);
            }
            (Syndrome::Ack(_) | Syndrome::RnrNak(_) | Syndrome::Nak(_), Reach::Gap) => {
                return self.on_gap(now, at, queue);
            }
        }
        Placement::None
    }

    /// Whether `psn` is one of the request that `at` stands at.
    fn covers(&self, at: Cursor, psn: Psn, queue: &impl SendQueue) -> bool {
        let left = at.packets_left(queue.request(at.wqe), self.mtu);
        psn.is_within(at.psn, left)
    }

    /// A response shows that those to the READ or atomic at `at` were lost.
    fn on_gap(&mut self, now: Instant, at: Cursor, queue: &impl SendQueue) -> Placement {
        self.progress(now, at, queue);
        self.ask_again();
        Placement::Dropped(DropReason::Gap)
    }

    /// Data with a syndrome that no data comes with says nothing of what is before it.
    fn on_data_past_gap(
        &mut self,
        now: Instant,
        at: Cursor,
        aeth: Option<Aeth>,
        queue: &impl SendQueue,
    ) -> Placement {
        if !aeth.is_none_or(is_ack) {
            return Placement::Dropped(DropReason::Malformed);
        }
        self.on_gap(now, at, queue)
    }

    fn on_nak(&mut self, code: NakCode) {
        match code.status() {
            Some(status) => self.fail(self.acked.wqe, status),
            None => self.ask_again(),
        }
    }

    /// The oldest unacknowledged packet, or the response to it, was lost.
    ///
    /// If it has not been sent since sending went back to it, this is old news: a NAK in the wake
    /// of an RNR NAK, for example, which must not use up retries.
    fn ask_again(&mut self) {
        if self.phase == Phase::Running && self.is_waiting() && self.repeat == Repeat::NotAsked {
            self.retry();
            self.repeat = Repeat::Lost;
        }
    }

    fn on_rnr_nak(&mut self, now: Instant, timer: RnrTimer) {
        // One that comes before the packet is sent again is a copy of the last.
        let is_copy = self.repeat == Repeat::NotReady && !self.is_waiting();
        if self.phase == Phase::Flushing || is_copy {
            return;
        }
        // The peer is alive, however long it makes us wait: packets lost from now on are no longer
        // lost in a row with those before.
        self.retries = Retries::FULL;
        match self.rnr_retries.take(self.config.rnr_retry) {
            Ok(()) => {
                self.go_back();
                self.repeat = Repeat::NotReady;
                self.pause = Some(Pause::Rnr(now.saturating_add(timer.duration())));
            }
            Err(Exhausted) => self.fail(self.acked.wqe, WcStatus::RnrRetryExceeded),
        }
    }

    /// Takes in part `at.packet` of what was to be read, or the answer to a FLUSH or an ATOMIC WRITE,
    /// which is a READ response without data.
    fn on_read(
        &mut self,
        now: Instant,
        at: Cursor,
        position: Position,
        aeth: Option<Aeth>,
        len: u32,
        queue: &impl SendQueue,
    ) -> Placement {
        let request = queue.request(at.wqe);
        let is_last = at.packets_left(request, self.mtu) == 1;
        let due = request
            .fetches()
            .map(|bytes| self.mtu.payload_of(at.packet, bytes));
        // Where a READ was sent again from its middle, a responder may start the response anew or
        // go on with the old one.
        let fits = due == Some(len)
            && position.ends() == is_last
            && (position.starts() || at.packet != 0)
            && aeth.is_none_or(is_ack);
        if !fits {
            return self.malformed(at);
        }
        let placement = match request.operation() {
            Operation::Read { .. } => Placement::Read {
                wqe: at.wqe,
                offset: byte_offset(at.packet, self.mtu),
                len,
            },
            _ => Placement::None,
        };
        self.answered(now, at, queue);
        placement
    }

    fn on_atomic(
        &mut self,
        now: Instant,
        at: Cursor,
        aeth: Aeth,
        original: u64,
        queue: &impl SendQueue,
    ) -> Placement {
        let is_atomic = matches!(
            queue.request(at.wqe).operation(),
            Operation::CompareSwap { .. } | Operation::FetchAdd { .. }
        );
        if !is_atomic || !is_ack(aeth) {
            return self.malformed(at);
        }
        self.answered(now, at, queue);
        Placement::Atomic {
            wqe: at.wqe,
            original,
        }
    }

    /// The response to the packet at `at` is there.
    fn answered(&mut self, now: Instant, mut at: Cursor, queue: &impl SendQueue) {
        at.advance(queue.request(at.wqe), self.mtu, 1);
        self.progress(now, at, queue);
    }

    /// The response to the packet at `at` cannot be one: the request fails, and what is before it
    /// is not acknowledged thereby.
    fn malformed(&mut self, at: Cursor) -> Placement {
        self.fail(at.wqe, WcStatus::BadResponse);
        Placement::Dropped(DropReason::Malformed)
    }
}

/// Whether the syndrome is one that data may come with.
fn is_ack(aeth: Aeth) -> bool {
    matches!(aeth.syndrome(), Syndrome::Ack(_))
}
