// SPDX-License-Identifier: GPL-2.0

//! The part of the send side that plans packets.

use core::time::Duration;

use crate::{
    psn::Psn,
    rc::{
        plan::{AckRequest, RequestPlan},
        request::{Answer, Request, SendQueue, WqeSeq},
        requester::{Before, Gate, Pause, Phase, Requester, Undo}, //
    },
    status::WcStatus,
    time::Instant, //
};

impl Requester {
    /// The next packets to send, at most `max_packets` of them, or `None` if there are none for
    /// now.
    pub fn poll_transmit(
        &mut self,
        now: Instant,
        max_packets: u32,
        queue: &impl SendQueue,
    ) -> Option<RequestPlan> {
        if self.phase == Phase::Flushing || self.pause.is_some() || max_packets == 0 {
            return None;
        }
        let plan = self
            .plan_recovery(now, max_packets, queue)
            .or_else(|| self.plan_new(max_packets, queue));
        // Whatever is on its way awaits an answer, be it sent now or before.
        if self.phase == Phase::Running && self.ack_deadline.is_none() {
            self.arm(now);
        }
        plan
    }

    /// The next packets to go on with.
    fn plan_new(&mut self, max_packets: u32, queue: &impl SendQueue) -> Option<RequestPlan> {
        self.pass_done(queue);
        let request = self.turn(queue)?;
        if request.operation().answer() == Answer::Response && self.config.max_rd_atomic == 0 {
            self.fail(self.next.wqe, WcStatus::LocalQpOperation);
            return None;
        }
        let (count, ack_request) = self.plan_next(request, max_packets)?;
        let wqe = self.next.wqe;
        let from = (self.next.packet, self.next.psn);
        let plan = RequestPlan::new(wqe, request, self.mtu, from, count, ack_request)
            .repeating(self.packets_to_repeat());
        self.sending(request, &plan);
        Some(plan)
    }

    /// Whether something would be sent now.
    pub(super) fn has_to_send(&self, queue: &impl SendQueue) -> bool {
        let has_next = || {
            self.turn(queue)
                .and_then(|request| self.plan_next(request, 1))
                .is_some()
        };
        self.phase == Phase::Running
            && self.pause.is_none()
            && (self.has_to_recover(queue) || has_next())
    }

    /// The request whose turn it is to be sent, or to go on.
    fn turn<'a>(&self, queue: &'a impl SendQueue) -> Option<&'a Request> {
        let may_go_on = !self.is_held() && self.next.wqe.is_before(self.sendable());
        may_go_on.then(|| queue.request(self.next.wqe))
    }

    /// How many packets of `request` to send, at most `max_packets`, and whether to ask for an answer.
    fn plan_next(&self, request: &Request, max_packets: u32) -> Option<(u32, AckRequest)> {
        match request.operation().answer() {
            Answer::Acknowledge => self.plan_message(request, max_packets),
            Answer::Response => self.plan_demand(request),
            // Its turn comes from `poll_local()`.
            Answer::None => None,
        }
    }

    /// Takes back the packets of the last plan from the PSN `psn` on, which the caller could not
    /// send. They are offered again shortly, which is no retry.
    ///
    /// Only the call that follows [`poll_transmit`](Self::poll_transmit) has an effect.
    pub fn unsent(&mut self, now: Instant, psn: Psn, queue: &impl SendQueue) {
        if self.take_back(psn, queue) {
            // Without a request for an acknowledgement, which may be among what was not sent, there
            // is none to wait for.
            self.put_off(now);
            self.pause = Some(Pause::Unsent(now.saturating_add(UNSENT_DELAY)));
        }
    }

    /// Takes back the packets of the last plan from the PSN `psn` on, whose data is not there yet. They
    /// are offered again by the next [`poll_transmit`](Self::poll_transmit), which is no retry; the
    /// caller knows when that makes sense.
    ///
    /// The peer has to answer to what was sent before. If it has not been asked to by the time it should
    /// have, that is sent again up to here, which asks and is no retry.
    pub fn withheld(&mut self, psn: Psn, queue: &impl SendQueue) {
        if self.take_back(psn, queue) {
            self.withheld = psn;
            if !self.is_waiting() {
                self.ack_deadline = None;
            }
        }
    }

    /// Takes back the packets of the last plan from the PSN `psn` on, and tells whether there are any
    /// that had not been taken back.
    fn take_back(&mut self, psn: Psn, queue: &impl SendQueue) -> bool {
        let Some(undo) = self.undo.take() else {
            return false;
        };
        let count = psn.offset_from(undo.first);
        if count >= undo.planned {
            return false;
        }
        self.inquired = undo.inquired;
        match undo.before {
            Before::Next { next, sent, begun } => {
                self.next = next;
                self.sent = sent;
                if count == 0 {
                    self.begun = begun;
                } else {
                    let request = queue.request(self.next.wqe);
                    self.next.advance(request, self.mtu, count);
                    self.note_sent();
                }
            }
            Before::Resend(mut resend) => {
                if count != 0 {
                    let request = queue.request(resend.at.wqe);
                    resend.at.advance(request, self.mtu, count);
                    resend.left = resend.left.saturating_sub(count);
                }
                self.resend = Some(resend);
            }
            Before::Ask(asked) => self.asked = asked,
        }
        true
    }

    /// The first request that nothing is sent of, for now.
    pub(super) fn sendable(&self) -> WqeSeq {
        let end = match self.gate {
            Gate::Open => self.tail,
            Gate::Shut => self.begun,
        };
        match self.failure {
            Some(failure) if failure.wqe.is_before(end) => failure.wqe,
            _ => end,
        }
    }

    /// How many packets of a SEND or WRITE to send.
    fn plan_message(&self, request: &Request, max_packets: u32) -> Option<(u32, AckRequest)> {
        let mtu = self.mtu;
        let left = self.next.packets_left(request, mtu);
        let in_flight = self.next.load.since(self.acked.load);
        if self.is_fenced(request) {
            return None;
        }
        let window = self.config.window;
        let bytes_left = self.next.bytes_left(request, mtu);
        let mut end = window
            .room(in_flight, left, bytes_left, mtu)
            .min(self.span_left())
            .min(left)
            .min(window.quarter(mtu).saturating_sub(self.unasked()).max(1));
        // What is sent again ends with a packet that asks whether it has arrived, and so does what comes
        // before a packet whose data may not be there yet.
        let again = self.packets_to_repeat();
        if again != 0 {
            end = end.min(again);
            let there = self.withheld.offset_from(self.next.psn);
            if there != 0 {
                end = end.min(there);
            }
        }
        match end.min(max_packets) {
            0 => None,
            count if count == end => Some((count, AckRequest::Yes)),
            count => Some((count, AckRequest::No)),
        }
    }

    /// Whether to send a READ or atomic.
    fn plan_demand(&self, request: &Request) -> Option<(u32, AckRequest)> {
        let in_flight = self.next.load.since(self.acked.load).responses;
        let may_begin = in_flight < u32::from(self.config.max_rd_atomic)
            && !self.is_fenced(request)
            && self.next.packets_left(request, self.mtu) <= self.span_left();
        may_begin.then_some((1, AckRequest::Yes))
    }

    /// Whether the request waits for READs and atomics ahead of it.
    pub(super) fn is_fenced(&self, request: &Request) -> bool {
        request.flags().fence && self.next.load.since(self.acked.load).responses != 0
    }

    /// Packets from the next one on that have been sent before.
    fn packets_to_repeat(&self) -> u32 {
        self.sent.offset_from(self.next.psn)
    }

    /// Packets since one asked for an acknowledgement.
    fn unasked(&self) -> u32 {
        let packets = self.next.psn.since(self.inquired);
        u32::try_from(packets).unwrap_or(0)
    }

    /// PSNs that may be used before some are acknowledged.
    fn span_left(&self) -> u32 {
        MAX_SPAN.saturating_sub(self.next.psn.offset_from(self.acked.psn))
    }

    /// Takes note that `plan` is being sent.
    fn sending(&mut self, request: &Request, plan: &RequestPlan) {
        let before = Before::Next {
            next: self.next,
            sent: self.sent,
            begun: self.begun,
        };
        self.undo = Some(Undo::new(plan, self.inquired, before));
        if self.next.wqe == self.begun {
            self.begun = self.begun.next();
        }
        let psns = match request.operation().answer() {
            Answer::Acknowledge | Answer::None => plan.count(),
            Answer::Response => self.next.packets_left(request, self.mtu),
        };
        self.next.advance(request, self.mtu, psns);
        self.note_sent();
        if plan.ack_request() == AckRequest::Yes {
            self.inquired = self.next.psn;
        }
    }

    /// Raises `sent` to `next`.
    fn note_sent(&mut self) {
        let sent = self.sent.offset_from(self.acked.psn);
        if self.next.psn.offset_from(self.acked.psn) > sent {
            self.sent = self.next.psn;
        }
    }
}

/// PSNs from the oldest unacknowledged packet to the last one sent: no more than a responder that
/// has got them all still takes for duplicates.
const MAX_SPAN: u32 = 1 << 23;

/// How soon to try again to send what could not be sent.
const UNSENT_DELAY: Duration = Duration::from_micros(100);
