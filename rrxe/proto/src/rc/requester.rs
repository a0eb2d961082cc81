// SPDX-License-Identifier: GPL-2.0

//! The send side of a reliable connection: what to send, when to send it again, what is done.
//!
//! [`sender`](super::sender) has the part that plans packets, [`completer`](super::completer) the
//! one that digests responses, [`recovery`](super::recovery) the one that makes good what was lost.

use crate::{
    mtu::PathMtu,
    psn::Psn,
    rc::{
        cursor::Cursor,
        heard::Heard,
        plan::RequestPlan,
        request::{SendQueue, WqeSeq},
        resend::{Habit, Resend},
        retry::{Retries, RetryLimit},
        silence::Silence,
        window::Window, //
    },
    status::WcStatus,
    time::Instant,
    timers::AckTimeout, //
};

/// Attributes of a send side that may change while it lives.
#[derive(Clone, Copy, Debug)]
pub struct SendConfig {
    /// How long the oldest packet may go without an answer.
    pub timeout: AckTimeout,
    /// Retries after a lost packet before the request fails.
    pub retry: RetryLimit,
    /// Retries after an RNR NAK before the request fails.
    pub rnr_retry: RetryLimit,
    /// READs and atomics that may be on their way at a time.
    pub max_rd_atomic: u8,
    /// SENDs and WRITEs that may be on their way at a time.
    pub window: Window,
}

/// A work request is done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Completion {
    /// The request. Its storage is free.
    pub wqe: WqeSeq,
    /// How it ended. Anything but [`WcStatus::Success`] and [`WcStatus::WrFlush`] puts the queue
    /// pair in the error state.
    pub status: WcStatus,
    /// Whether the consumer is told: success is told only if it asked for that.
    pub reported: bool,
}

/// The send side of a reliable connection.
///
/// Work requests pass `head <= acked.wqe <= next.wqe <= begun <= tail`, each in this order and
/// none twice: posted at `tail`, first sent at `begun`, sent (again) at `next`, acknowledged at
/// `acked`, reported at `head`.
///
/// # Invariants
///
/// - `confirmed` lies neither before `acked` nor past `sent`.
/// - `next` lies neither before `acked` nor past `sent`, and there are at most 2^23 PSNs from
///   `acked` to `sent`.
/// - `shown` lies neither before `acked` nor past `next` or `confirmed`.
/// - `inquired` lies neither before `acked` nor past `sent`.
/// - Unless the queue is being flushed, `acked` has not reached `failure`.
/// - The request at `acked` is no local operation that is done.
#[derive(Debug)]
pub struct Requester {
    pub(super) mtu: PathMtu,
    pub(super) config: SendConfig,
    head: WqeSeq,
    /// From `head` on, so many requests are of the time before a [restart](Self::restart), and
    /// flushed.
    stale: u32,
    /// All that lies behind is done.
    pub(super) acked: Cursor,
    /// The responder has executed all requests before this PSN. Where it is past `acked`, responses
    /// are missing.
    pub(super) confirmed: Psn,
    /// The same, as far as something has shown it since sending went back: what is missing before this
    /// PSN is not on its way.
    pub(super) shown: Psn,
    /// Which of the responses past `acked` have come.
    pub(super) heard: Heard,
    /// All responses before this PSN that are missing have been asked for again.
    pub(super) asked: Psn,
    /// Before this PSN a response may be the last of a part that was asked for again.
    pub(super) split: Psn,
    /// Where sending goes on.
    pub(super) next: Cursor,
    /// The PSN past the last one ever sent.
    pub(super) sent: Psn,
    /// The first request of which nothing was ever sent.
    pub(super) begun: WqeSeq,
    pub(super) tail: WqeSeq,
    /// Of all before this PSN the peer has been asked whether it has arrived.
    pub(super) inquired: Psn,
    /// The packet with this PSN was [withheld](Self::withheld) last.
    pub(super) withheld: Psn,
    /// What [`unsent`](Self::unsent) goes back to.
    pub(super) undo: Option<Undo>,
    pub(super) phase: Phase,
    pub(super) gate: Gate,
    /// The first request that cannot succeed.
    pub(super) failure: Option<Failure>,
    pub(super) pause: Option<Pause>,
    /// When to give up waiting for the answer to the oldest packet.
    pub(super) ack_deadline: Option<Instant>,
    pub(super) silence: Silence,
    pub(super) repeat: Repeat,
    /// The PSN that the responder has said it lacks, which has been sent again, or will be.
    pub(super) told: Option<Psn>,
    /// What is sent again by itself.
    pub(super) resend: Option<Resend>,
    pub(super) habit: Habit,
    pub(super) retries: Retries,
    pub(super) rnr_retries: Retries,
}

/// What happens to work requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Phase {
    /// They are sent.
    Running,
    /// They are flushed.
    Flushing,
}

/// Whether requests of which nothing was ever sent may begin.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Gate {
    Open,
    /// The queue drains.
    Shut,
}

/// A request that cannot succeed. Those before it still can, and are reported first.
#[derive(Clone, Copy, Debug)]
pub(super) struct Failure {
    pub(super) wqe: WqeSeq,
    status: WcStatus,
}

/// Why nothing may be sent before an instant.
#[derive(Clone, Copy, Debug)]
pub(super) enum Pause {
    /// The responder has no receive work request.
    Rnr(Instant),
    /// The caller could not send.
    Unsent(Instant),
}

/// Whether, and why, the oldest unacknowledged packet has been asked for again.
///
/// A responder tells of a gap once, and each response past a gap in the responses tells of it
/// again. The first one counts; the others, until the packet is acknowledged or the timer expires,
/// are either copies or of packets sent before. The same goes for what follows an RNR NAK.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Repeat {
    NotAsked,
    /// It or its response was lost.
    Lost,
    /// The responder had no receive work request.
    NotReady,
}

/// How to undo a plan whose packets were not sent.
#[derive(Clone, Copy, Debug)]
pub(super) struct Undo {
    /// The first PSN of the plan.
    pub(super) first: Psn,
    /// Packets of the plan.
    pub(super) planned: u32,
    /// As it was before the plan, whose last packet may have asked.
    pub(super) inquired: Psn,
    pub(super) before: Before,
}

/// The state before a plan, as far as it is undone.
#[derive(Clone, Copy, Debug)]
pub(super) enum Before {
    /// Of a plan to go on.
    Next {
        next: Cursor,
        sent: Psn,
        begun: WqeSeq,
    },
    /// Of a plan to send again what the responder lacks.
    Resend(Resend),
    /// Of a plan to ask for a response again: `asked`.
    Ask(Psn),
}

impl Undo {
    /// Undoes `plan`: the state was as `inquired` and `before` say.
    pub(super) fn new(plan: &RequestPlan, inquired: Psn, before: Before) -> Self {
        Self {
            first: plan.psn(),
            planned: plan.count(),
            inquired,
            before,
        }
    }
}

impl Requester {
    /// A send side whose first packet has the PSN `sq_psn`.
    pub fn new(mtu: PathMtu, sq_psn: Psn, config: SendConfig) -> Self {
        let start = Cursor::start(sq_psn);
        Self {
            mtu,
            config,
            head: start.wqe,
            stale: 0,
            acked: start,
            confirmed: start.psn,
            shown: start.psn,
            heard: Heard::new(),
            asked: start.psn,
            split: start.psn,
            next: start,
            sent: start.psn,
            begun: start.wqe,
            tail: start.wqe,
            inquired: start.psn,
            withheld: start.psn,
            undo: None,
            phase: Phase::Running,
            gate: Gate::Open,
            failure: None,
            pause: None,
            ack_deadline: None,
            silence: Silence::new(),
            repeat: Repeat::NotAsked,
            told: None,
            resend: None,
            habit: Habit::Unknown,
            retries: Retries::FULL,
            rnr_retries: Retries::FULL,
        }
    }

    /// Changes attributes. A timer that runs keeps its deadline.
    pub fn set_config(&mut self, config: SendConfig) {
        self.config = config;
    }

    /// The oldest request that is not reported.
    pub fn head(&self) -> WqeSeq {
        self.head
    }

    /// Where the caller stores the next request.
    pub fn tail(&self) -> WqeSeq {
        self.tail
    }

    /// Takes over the request that the caller has stored at [`tail`](Self::tail).
    pub fn post(&mut self) {
        self.tail = self.tail.next();
    }

    /// Has `wqe` complete with `status`, for a reason that the responder knows nothing of, when
    /// all before it have completed. Nothing after it is sent any more.
    pub fn fail(&mut self, wqe: WqeSeq, status: WcStatus) {
        let known = !wqe.is_before(self.head) && wqe.is_before(self.tail);
        let first = self
            .failure
            .is_none_or(|failure| wqe.is_before(failure.wqe));
        if known && first {
            self.failure = Some(Failure { wqe, status });
            self.settle();
        }
    }

    /// The next request that is done, in the order of posting.
    pub fn poll_completion(&mut self, queue: &impl SendQueue) -> Option<Completion> {
        let wqe = self.head;
        if wqe == self.tail {
            return None;
        }
        let status = match self.failure {
            _ if self.stale != 0 => WcStatus::WrFlush,
            Some(failure) if failure.wqe == wqe => {
                self.enter_error();
                failure.status
            }
            Some(failure) if failure.wqe.is_before(wqe) => WcStatus::WrFlush,
            _ if wqe.is_before(self.acked.wqe) => WcStatus::Success,
            _ if self.phase == Phase::Flushing => WcStatus::WrFlush,
            _ => return None,
        };
        self.head = wqe.next();
        self.stale = self.stale.saturating_sub(1);
        Some(Completion {
            wqe,
            status,
            reported: status != WcStatus::Success || queue.request(wqe).flags().signaled,
        })
    }

    /// When to call [`on_timeout`](Self::on_timeout), unless something happens before.
    pub fn next_deadline(&self) -> Option<Instant> {
        let pause = match self.pause {
            Some(Pause::Rnr(until) | Pause::Unsent(until)) => Some(until),
            None => None,
        };
        [pause, self.ack_deadline, self.reminder()]
            .into_iter()
            .flatten()
            .min()
    }

    /// Does what is due at `now`. A call that comes early is harmless.
    pub fn on_timeout(&mut self, now: Instant) {
        if let Some(Pause::Rnr(until) | Pause::Unsent(until)) = self.pause {
            if until <= now {
                self.pause = None;
            }
        }
        if self.ack_deadline.is_some_and(|deadline| deadline <= now) {
            self.repeat = Repeat::NotAsked;
            self.told = None;
            // Who has not been asked owes no answer: what is sent again asks for one.
            if !self.is_owed() || self.may_retry() {
                self.go_back();
            }
        } else if self.reminder().is_some_and(|due| due <= now) {
            self.remind();
        }
    }

    /// Takes note that the caller will send nothing before `until`, to keep a rate.
    ///
    /// If there is something to send, what asks for an answer may be among it, so the wait for one
    /// starts then.
    pub fn hold(&mut self, until: Instant, queue: &impl SendQueue) {
        self.pass_done(queue);
        if self.ack_deadline.is_some() && self.has_to_send(queue) {
            self.put_off(until);
        }
    }

    /// Lets messages that have begun finish, and no other begin.
    pub fn drain(&mut self) {
        self.gate = Gate::Shut;
    }

    /// Ends what [`drain`](Self::drain) began.
    pub fn resume(&mut self) {
        self.gate = Gate::Open;
    }

    /// Whether the queue drains and nothing of it is on its way.
    pub fn is_drained(&self) -> bool {
        self.gate == Gate::Shut && self.acked.wqe == self.begun
    }

    /// Flushes all that is not done, and all that is posted from now on.
    pub fn enter_error(&mut self) {
        if self
            .failure
            .is_some_and(|failure| self.acked.wqe.is_before(failure.wqe))
        {
            // It is flushed as those before it are.
            self.failure = None;
        }
        self.phase = Phase::Flushing;
        self.pause = None;
        self.ack_deadline = None;
        self.undo = None;
    }

    /// Takes all that is sent for acknowledged: nobody will answer.
    pub(crate) fn acknowledge_sent(&mut self) {
        self.acked = self.next;
        self.confirmed = self.next.psn;
        self.shown = self.next.psn;
        self.asked = self.next.psn;
        self.inquired = self.next.psn;
        self.undo = None;
        self.ack_deadline = None;
        self.settle();
    }

    /// Ends the flushing after a request that failed, all before which is reported. What is posted
    /// from now on is sent; what was posted before still is flushed.
    pub(crate) fn restart(&mut self) {
        let start = Cursor {
            wqe: self.tail,
            packet: 0,
            ..self.next
        };
        self.stale = self.tail.get().wrapping_sub(self.head.get());
        self.acked = start;
        self.confirmed = start.psn;
        self.shown = start.psn;
        self.asked = start.psn;
        self.inquired = start.psn;
        self.next = start;
        self.sent = start.psn;
        self.begun = start.wqe;
        self.undo = None;
        self.phase = Phase::Running;
        self.gate = Gate::Open;
        self.failure = None;
    }

    /// Starts the wait for an answer to the oldest packet, if there is one.
    pub(super) fn arm(&mut self, now: Instant) {
        self.arm_timeout(now);
        self.silence.begin(now);
    }

    /// Starts the wait anew that ends with a retry.
    pub(super) fn arm_timeout(&mut self, now: Instant) {
        self.ack_deadline = match self.config.timeout.duration() {
            Some(timeout) if self.is_waiting() => {
                Some(now.saturating_add(self.retries.stretch(timeout)))
            }
            _ => None,
        };
    }

    /// Starts the wait for an answer at `until`, as what asks for one is not sent before.
    pub(super) fn put_off(&mut self, until: Instant) {
        self.arm_timeout(until);
        self.silence.go_on(until);
    }

    /// When to remind the peer of the oldest packet, if that is to be.
    fn reminder(&self) -> Option<Instant> {
        let may_remind = self.pause.is_none()
            && self.ack_deadline.is_some()
            && self.has_sent_oldest()
            && self.resend.is_none_or(|resend| resend.left == 0)
            && self.config.retry != RetryLimit::Finite(0);
        self.silence
            .deadline(self.config.timeout.duration()?)
            .filter(|_| may_remind)
    }

    /// Whether something on its way awaits an answer.
    pub(super) fn is_waiting(&self) -> bool {
        self.next.psn != self.acked.psn
    }

    /// Whether the peer owes an answer: it has been asked for one, and has not given it.
    fn is_owed(&self) -> bool {
        self.inquired != self.acked.psn
    }

    /// All before `to` is done.
    pub(super) fn progress(&mut self, now: Instant, to: Cursor, queue: &impl SendQueue) {
        if to.psn == self.acked.psn {
            return;
        }
        let to = self.past_done(to, queue);
        if self.next.is_before(&to) {
            // What was about to be sent again has arrived after all.
            self.next = to;
            self.pause = None;
        }
        let from = self.acked.psn;
        self.confirmed = self.confirmed.max_from(from, to.psn);
        self.shown = self.shown.max_from(from, to.psn);
        self.asked = self.asked.max_from(from, to.psn);
        self.split = self.split.max_from(from, to.psn);
        self.inquired = self.inquired.max_from(from, to.psn);
        self.told = self.told.filter(|psn| !psn.is_before(to.psn));
        self.acked = to;
        self.undo = None;
        self.silence.end(now);
        self.repeat = Repeat::NotAsked;
        self.retries = Retries::FULL;
        self.rnr_retries = Retries::FULL;
        let is_all = to.psn == self.sent;
        if matches!(self.pause, Some(Pause::Rnr(_))) || is_all {
            self.pause = None;
        }
        self.arm(now);
        self.judge_resend();
        self.settle();
    }

    /// Starts to flush if nothing is left to wait for before the request that cannot succeed.
    pub(super) fn settle(&mut self) {
        if let Some(failure) = self.failure {
            if !self.acked.wqe.is_before(failure.wqe) {
                self.enter_error();
            }
        }
    }
}
