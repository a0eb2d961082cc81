// SPDX-License-Identifier: GPL-2.0

//! The part of the send side that makes good what was lost.
//!
//! Two things can be missing. A *response* to a READ or atomic that the responder has executed: it is
//! asked for again by itself, as what comes after it can be placed meanwhile. Or a *request*: it is
//! sent again by itself at first. If what is acknowledged then reaches further, the responder has kept
//! what came after it. If not, it is one that drops all after a gap, and all is sent again from there.

use crate::{
    rc::{
        cursor::Cursor,
        heard::Heard,
        plan::{AckRequest, RequestPlan},
        request::{Answer, SendQueue},
        requester::{Before, Phase, Repeat, Requester, Undo},
        resend::{Cause, Resend},
        retry::Exhausted, //
    },
    status::WcStatus,
    time::Instant, //
};

impl Requester {
    /// Has the packet at `at` sent again, which the responder lacks, and maybe all that follows it.
    pub(super) fn resend(&mut self, at: Cursor) {
        let is_last = at.psn.next() == self.sent;
        if self.next.psn == self.sent && !is_last && self.habit.try_one() {
            self.send_again(Resend::one(at, Cause::Told));
            self.undo = None;
        } else {
            self.go_back();
        }
    }

    /// Has packets sent again the first of which the responder lacks: it has answered to those before.
    fn send_again(&mut self, resend: Resend) {
        self.inquired = resend.at.psn;
        self.resend = Some(resend);
    }

    /// Has all be sent again that is not acknowledged.
    pub(super) fn go_back(&mut self) {
        self.next = self.acked;
        self.shown = self.acked.psn;
        self.asked = self.acked.psn;
        self.resend = None;
        self.inquired = self.acked.psn;
        self.undo = None;
        self.ack_deadline = None;
    }

    /// Takes a retry because a packet was lost. `false` if none is left, and the oldest request fails.
    pub(super) fn may_retry(&mut self) -> bool {
        match self.retries.take(self.config.retry) {
            Ok(()) => true,
            Err(Exhausted) => {
                self.fail(self.acked.wqe, WcStatus::RetryExceeded);
                false
            }
        }
    }

    /// A response past the oldest one that is missing has come: that is asked for again, which is a
    /// retry. If it has been asked for already, this is old news.
    pub(super) fn response_is_missing(&mut self, now: Instant) {
        if self.phase == Phase::Running && self.is_waiting() && self.repeat == Repeat::NotAsked {
            self.repeat = Repeat::Lost;
            if self.may_retry() {
                self.arm_timeout(now);
            }
        }
    }

    /// The responder lacks the request at `at`: a NAK said so.
    ///
    /// If it has not been sent since that was known, this is old news: a NAK in the wake of an RNR
    /// NAK, for example, which must not use up retries.
    pub(super) fn request_is_missing(&mut self, now: Instant, at: Cursor) {
        if self.phase != Phase::Running || !self.is_waiting() || self.told == Some(at.psn) {
            return;
        }
        self.told = Some(at.psn);
        // While a response before it is missing, it is not the oldest, whose retries count.
        if at.psn != self.acked.psn {
            self.resend(at);
        } else if self.repeat == Repeat::NotAsked {
            self.repeat = Repeat::Lost;
            if self.may_retry() {
                self.arm_timeout(now);
                self.resend(at);
            }
        }
    }

    /// The peer has been silent for long: it is reminded of the oldest packet.
    pub(super) fn remind(&mut self) {
        self.silence.remind();
        if self.acked.psn == self.confirmed {
            let cause = self
                .resend
                .map_or(Cause::Silence, |resend| resend.cause.and_silence());
            self.resend = Some(Resend::one(self.acked, cause));
            self.told = Some(self.acked.psn);
        } else {
            self.show(self.confirmed);
            self.asked = self.acked.psn;
        }
        self.repeat = Repeat::Lost;
        self.undo = None;
    }

    /// What follows for packets that were sent again, now that more is acknowledged.
    pub(super) fn judge_resend(&mut self) {
        let Some(resend) = self.resend.take() else {
            return;
        };
        let at = self.acked;
        let beyond = at.psn.since(resend.at.psn);
        if beyond < 0 || resend.left != 0 && beyond == 0 {
            self.resend = Some(resend);
            return;
        }
        if resend.left != 0 {
            self.resend = self.follow(resend, at);
            return;
        }
        let was_kept = beyond > 0 && resend.cause.is_told();
        if was_kept {
            self.habit.kept();
        }
        // Of what has been executed no more than the response can be missing.
        if !at.psn.is_before(resend.horizon) || at.psn != self.confirmed {
            return;
        }
        match resend.cause {
            Cause::Told | Cause::Both if was_kept => self.send_again(Resend::one(at, Cause::Told)),
            Cause::Told | Cause::Both => {
                self.habit.missed();
                if self.habit.keeps() {
                    self.send_again(resend.twice(at));
                } else {
                    self.go_back();
                }
            }
            // What is acknowledged may be no answer, but late.
            Cause::Silence if beyond == 0 && !self.habit.keeps() => {
                self.resend = Some(resend.twice(at));
            }
            Cause::Silence => return,
        }
        self.told = Some(at.psn);
        self.repeat = Repeat::Lost;
    }

    /// What is to be sent again now that what was about to be has arrived after all, with all before
    /// `at`.
    fn follow(&self, resend: Resend, at: Cursor) -> Option<Resend> {
        let is_missing = resend.cause.is_told() && at.psn != self.sent;
        is_missing.then(|| Resend::one(at, Cause::Told))
    }

    /// What is to be sent again, past what has been executed or done meanwhile.
    fn pass_executed(&self, resend: Resend, queue: &impl SendQueue) -> Option<Resend> {
        if resend.at.psn.is_before(self.confirmed) {
            return self.follow(resend, self.locate(self.confirmed, queue));
        }
        Some(resend.from(self.past_done(resend.at, queue)))
    }

    /// Whether the oldest packet has been sent since the peer has said that it lacks it.
    pub(super) fn has_sent_oldest(&self) -> bool {
        match self.resend {
            Some(Resend {
                at,
                left: 1..,
                cause: Cause::Told,
                ..
            }) if at.psn == self.acked.psn => false,
            _ => self.is_waiting(),
        }
    }

    /// Whether nothing new is sent before it is known what the responder has kept.
    pub(super) fn is_held(&self) -> bool {
        self.resend
            .is_some_and(|resend| resend.cause.is_told() && !self.habit.keeps())
    }

    /// Packets to be sent again, if there are any now.
    pub(super) fn plan_recovery(
        &mut self,
        now: Instant,
        max_packets: u32,
        queue: &impl SendQueue,
    ) -> Option<RequestPlan> {
        self.plan_ask(queue)
            .or_else(|| self.plan_resend(now, max_packets, queue))
    }

    /// Whether there are packets to be sent again now.
    pub(super) fn has_to_recover(&self, queue: &impl SendQueue) -> bool {
        let has_to_ask = self
            .next_ask(queue)
            .is_some_and(|(at, _)| !self.lacks_earlier_part(at, queue));
        let has_to_resend = self
            .resend
            .filter(|resend| resend.left != 0)
            .and_then(|resend| self.pass_executed(resend, queue))
            .is_some_and(|Resend { at, .. }| {
                at.psn != self.sent && at.wqe.is_before(self.sendable())
            });
        has_to_ask || has_to_resend
    }

    /// Where, from `from` to before `to`, the first response is missing, and how many in a row are.
    /// Both count from the oldest packet.
    pub(super) fn missing(
        &self,
        from: u32,
        to: u32,
        queue: &impl SendQueue,
    ) -> Option<(Cursor, u32)> {
        let is_missing = |offset: u32| {
            offset >= Heard::REACH || !self.heard.contains(self.acked.psn.wrapping_add(offset))
        };
        let mut at = self.acked;
        let mut start = 0;
        while start < to && at.wqe != self.begun {
            let request = queue.request(at.wqe);
            let end = at
                .packets_left(request, self.mtu)
                .saturating_add(start)
                .min(to);
            if request.operation().answer() == Answer::Response {
                let first = (start.max(from)..end).find(|offset| is_missing(*offset));
                if let Some(first) = first {
                    at.advance(request, self.mtu, first.saturating_sub(start));
                    // Past what is remembered all counts as missing.
                    let end = end.min(Heard::REACH.max(first.saturating_add(1)));
                    let run = (first..end).find(|offset| !is_missing(*offset));
                    return Some((at, run.unwrap_or(end).saturating_sub(first)));
                }
            }
            at.advance(request, self.mtu, end.saturating_sub(start));
            start = end;
        }
        None
    }

    /// PSNs from the oldest packet on among which responses are asked for again.
    fn askable(&self) -> u32 {
        self.shown.offset_from(self.acked.psn).min(Heard::REACH)
    }

    /// The place of the first response to ask for again, and how many in a row are missing there.
    fn next_ask(&self, queue: &impl SendQueue) -> Option<(Cursor, u32)> {
        if self.asked == self.shown {
            return None;
        }
        let from = self.asked.offset_from(self.acked.psn);
        self.missing(from, self.askable(), queue)
            .filter(|(at, _)| at.wqe.is_before(self.sendable()))
    }

    /// A READ or atomic to ask for again, of which only the responses are missing.
    fn plan_ask(&mut self, queue: &impl SendQueue) -> Option<RequestPlan> {
        let oldest = self.acked.psn;
        let Some((at, count)) = self.next_ask(queue) else {
            let all = oldest.wrapping_add(self.askable());
            self.asked = self.asked.max_from(oldest, all);
            return None;
        };
        if self.lacks_earlier_part(at, queue) {
            return None;
        }
        let plan = RequestPlan::new(
            at.wqe,
            queue.request(at.wqe),
            self.mtu,
            (at.packet, at.psn),
            1,
            AckRequest::Yes,
        )
        .asking_for(count)
        .repeating(1);
        self.undo = Some(Undo::new(&plan, self.inquired, Before::Ask(self.asked)));
        self.asked = at.psn.wrapping_add(count);
        self.split = self.split.max_from(oldest, self.asked);
        self.inquired = self.inquired.max_from(oldest, self.asked);
        Some(plan)
    }

    /// Whether a response is missing that is of the same READ as the one to the packet at `at`, and
    /// before it.
    ///
    /// Some responders (`rdma_rxe`) do not answer a READ again from before a place from which they have
    /// answered it again already. So parts of one READ are asked for in their order, each when the one
    /// before has come.
    fn lacks_earlier_part(&self, at: Cursor, queue: &impl SendQueue) -> bool {
        let offset = at.psn.offset_from(self.acked.psn);
        let start = offset.saturating_sub(at.packet);
        self.missing(start, offset, queue).is_some()
    }

    /// The next packets of those that the responder lacks.
    fn plan_resend(
        &mut self,
        now: Instant,
        max_packets: u32,
        queue: &impl SendQueue,
    ) -> Option<RequestPlan> {
        let before = self.resend.filter(|resend| resend.left != 0)?;
        self.resend = self.pass_executed(before, queue);
        let before = self.resend?;
        let mut resend = before;
        if resend.at.psn == self.sent || !resend.at.wqe.is_before(self.sendable()) {
            resend.left = 0;
            self.resend = (resend.at.psn == self.sent).then_some(resend);
            return None;
        }
        let request = queue.request(resend.at.wqe);
        let rest = resend.at.packets_left(request, self.mtu);
        let (count, psns) = match request.operation().answer() {
            Answer::Acknowledge => {
                let unacked = self.sent.offset_from(resend.at.psn);
                let count = rest.min(unacked).min(resend.left).min(max_packets);
                (count, count)
            }
            Answer::Response | Answer::None => (1, rest),
        };
        let at = resend.at;
        resend.at.advance(request, self.mtu, psns);
        resend.left = resend.left.saturating_sub(count);
        let is_end = resend.left == 0 || resend.at.psn == self.sent;
        if is_end {
            resend.left = 0;
        }
        resend.horizon = self.sent;
        // As ever, a message ends with a request for an acknowledgement.
        let ack_request = match is_end || count == rest {
            true => AckRequest::Yes,
            false => AckRequest::No,
        };
        let plan = RequestPlan::new(
            at.wqe,
            request,
            self.mtu,
            (at.packet, at.psn),
            count,
            ack_request,
        )
        .repeating(count);
        self.undo = Some(Undo::new(&plan, self.inquired, Before::Resend(before)));
        self.resend = Some(resend);
        if ack_request == AckRequest::Yes {
            self.inquired = self.inquired.max_from(self.acked.psn, resend.at.psn);
        }
        if resend.cause == Cause::Told {
            self.arm(now);
        }
        Some(plan)
    }
}
