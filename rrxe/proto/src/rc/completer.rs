// SPDX-License-Identifier: GPL-2.0

//! The part of the send side that digests responses.

use crate::{
    opcode::Position,
    psn::Psn,
    rc::{
        cursor::{byte_offset, Cursor},
        heard::Heard,
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
                let at = self.locate(psn, queue);
                self.on_read(now, at, position, aeth, len, queue)
            }
            Response::Atomic {
                psn,
                aeth,
                original,
            } => {
                let at = self.locate(psn, queue);
                self.on_atomic(now, at, aeth, original, queue)
            }
        }
    }

    /// The place of the PSN `psn`, which has been sent and is not acknowledged.
    pub(super) fn locate(&self, psn: Psn, queue: &impl SendQueue) -> Cursor {
        let mut at = self.acked;
        // All PSNs up to `sent` are of requests before `begun`.
        while at.psn != psn && at.wqe != self.begun {
            at.advance(queue.request(at.wqe), self.mtu, psn.offset_from(at.psn));
        }
        self.past_done(at, queue)
    }

    /// Where the first response before `psn` is missing, if one is.
    fn gap_before(&self, psn: Psn, queue: &impl SendQueue) -> Option<Cursor> {
        let (at, _) = self.missing(0, psn.offset_from(self.acked.psn), queue)?;
        Some(at)
    }

    /// The responder has executed all before `psn`.
    ///
    /// A response to a request acknowledges all SENDs and WRITEs before it, but no READ and no
    /// atomic (PROTOCOL rule 8).
    fn executed(&mut self, now: Instant, psn: Psn, queue: &impl SendQueue) {
        self.confirmed = self.confirmed.max_from(self.acked.psn, psn);
        self.show(psn);
        let mut at = self.acked;
        while at.psn != self.confirmed {
            let request = queue.request(at.wqe);
            let left = self.confirmed.offset_from(at.psn);
            let done = match request.operation().answer() {
                Answer::None => {
                    at = self.past_done(at, queue);
                    continue;
                }
                Answer::Acknowledge => left,
                Answer::Response => {
                    let most = at.packets_left(request, self.mtu).min(left);
                    self.heard.take_run(at.psn, most)
                }
            };
            if done == 0 {
                break;
            }
            at.advance(request, self.mtu, done);
        }
        self.progress(now, at, queue);
    }

    /// All before `psn` is executed, which no response to what is about to be sent again has to show.
    pub(super) fn show(&mut self, psn: Psn) {
        let oldest = self.acked.psn;
        let psn = match psn.offset_from(oldest) < self.next.psn.offset_from(oldest) {
            true => psn,
            false => self.next.psn,
        };
        self.shown = self.shown.max_from(oldest, psn);
    }

    /// An implied NAK if a response is missing before one that has come.
    fn past_gap(&mut self, now: Instant) -> Placement {
        if self.acked.psn == self.shown {
            return Placement::None;
        }
        self.response_is_missing(now);
        Placement::Dropped(DropReason::Gap)
    }

    fn on_ack(&mut self, now: Instant, psn: Psn, aeth: Aeth, queue: &impl SendQueue) -> Placement {
        match aeth.syndrome() {
            Syndrome::Ack(_) => {
                self.executed(now, psn.next(), queue);
                self.past_gap(now)
            }
            Syndrome::RnrNak(timer) => self.on_rnr_nak(now, psn, timer, queue),
            // The second of these is for reliable datagrams only.
            Syndrome::Reserved(_) | Syndrome::Nak(NakCode::InvalidRdRequest) => {
                self.malformed(self.locate(psn, queue), queue)
            }
            Syndrome::Nak(code) => self.on_nak(now, psn, code, queue),
        }
    }

    fn on_nak(
        &mut self,
        now: Instant,
        psn: Psn,
        code: NakCode,
        queue: &impl SendQueue,
    ) -> Placement {
        let at = self.locate(psn, queue);
        self.executed(now, psn, queue);
        match code.status() {
            // A READ that failed in the middle counts: the responder does not answer a retry.
            Some(status) if !self.acked.wqe.is_before(at.wqe) => {
                self.fail(at.wqe, status);
                Placement::None
            }
            None if psn == self.confirmed => {
                let placement = self.past_gap(now);
                self.request_is_missing(now, at);
                placement
            }
            _ => self.past_gap(now),
        }
    }

    fn on_rnr_nak(
        &mut self,
        now: Instant,
        psn: Psn,
        timer: RnrTimer,
        queue: &impl SendQueue,
    ) -> Placement {
        let at = self.locate(psn, queue);
        self.executed(now, psn, queue);
        let is_oldest = psn == self.acked.psn;
        if !is_oldest {
            // There is no time to wait: a response before it is missing.
            return self.on_nak(now, psn, NakCode::Sequence, queue);
        }
        // One that comes before the packet is sent again is a copy of the last.
        let is_copy = self.repeat == Repeat::NotReady && !self.has_sent_oldest();
        if self.phase == Phase::Flushing || is_copy {
            return Placement::None;
        }
        // The peer is alive, however long it makes us wait: packets lost from now on are no longer
        // lost in a row with those before.
        self.retries = Retries::FULL;
        match self.rnr_retries.take(self.config.rnr_retry) {
            Ok(()) => {
                if self.acked.psn == self.confirmed {
                    self.resend(at);
                } else {
                    // It has executed the request, and is not ready to answer once more.
                    self.go_back();
                }
                self.ack_deadline = None;
                self.told = Some(psn);
                self.repeat = Repeat::NotReady;
                self.pause = Some(Pause::Rnr(now.saturating_add(timer.duration())));
            }
            Err(Exhausted) => self.fail(at.wqe, WcStatus::RnrRetryExceeded),
        }
        Placement::None
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
        // go on with the old one. Where only a part was asked for, the response may end with that.
        let oldest = self.acked.psn;
        let may_end = is_last || at.psn.offset_from(oldest) < self.split.offset_from(oldest);
        let fits = due == Some(len)
            && (position.ends() || !is_last)
            && (!position.ends() || may_end)
            && (position.starts() || at.packet != 0)
            && aeth.is_none_or(is_ack);
        if !fits {
            return self.malformed(at, queue);
        }
        let placement = match request.operation() {
            Operation::Read { .. } => Placement::Read {
                wqe: at.wqe,
                offset: byte_offset(at.packet, self.mtu),
                len,
            },
            _ => Placement::None,
        };
        self.answered(now, at, placement, queue)
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
            return self.malformed(at, queue);
        }
        let placement = Placement::Atomic {
            wqe: at.wqe,
            original,
        };
        self.answered(now, at, placement, queue)
    }

    /// The response to the packet at `at` is there, and is to be placed as `placement` says.
    fn answered(
        &mut self,
        now: Instant,
        at: Cursor,
        placement: Placement,
        queue: &impl SendQueue,
    ) -> Placement {
        self.executed(now, at.psn, queue);
        let within_reach = at.psn.is_within(self.acked.psn, Heard::REACH);
        let is_copy = within_reach && self.heard.contains(at.psn);
        if within_reach {
            self.heard.insert(at.psn);
        }
        self.executed(now, at.psn.next(), queue);
        let _ = self.past_gap(now);
        match is_copy {
            true => Placement::Dropped(DropReason::Stale),
            false if !within_reach => Placement::Dropped(DropReason::Gap),
            false => placement,
        }
    }

    /// The response to the packet at `at` cannot be one: the request fails, and what is before it
    /// is not acknowledged thereby. It says nothing if a response before it is missing.
    fn malformed(&mut self, at: Cursor, queue: &impl SendQueue) -> Placement {
        if self.gap_before(at.psn, queue).is_none() {
            self.fail(at.wqe, WcStatus::BadResponse);
        }
        Placement::Dropped(DropReason::Malformed)
    }
}

/// Whether the syndrome is one that data may come with.
fn is_ack(aeth: Aeth) -> bool {
    matches!(aeth.syndrome(), Syndrome::Ack(_))
}
