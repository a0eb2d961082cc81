// SPDX-License-Identifier: GPL-2.0

//! The send side of an unreliable connection.

use crate::{
    mtu::PathMtu,
    psn::Psn,
    rc::{
        Completion,
        LocalFailed,
        LocalTask,
        RequestPlan,
        Requester,
        RetryLimit,
        SendConfig,
        SendQueue,
        Window,
        WqeSeq, //
    },
    status::WcStatus,
    time::Instant,
    timers::AckTimeout, //
};

/// The send side of an unreliable connection.
///
/// It is that of a reliable one to which all that is handed over is acknowledged at once: at the
/// call that follows the one that handed it over, as it may be taken back until then.
#[derive(Debug)]
pub struct Sender(Requester);

/// What does not wait does not need a limit.
const CONFIG: SendConfig = SendConfig {
    timeout: AckTimeout::NEVER,
    retry: RetryLimit::Finite(0),
    rnr_retry: RetryLimit::Finite(0),
    max_rd_atomic: 0,
    window: Window {
        bytes: u32::MAX,
        packets: u32::MAX,
    },
};

impl Sender {
    /// A send side whose first packet has the PSN `sq_psn`.
    pub fn new(mtu: PathMtu, sq_psn: Psn) -> Self {
        Self(Requester::new(mtu, sq_psn, CONFIG))
    }

    /// The oldest request that is not reported.
    pub fn head(&self) -> WqeSeq {
        self.0.head()
    }

    /// Where the caller stores the next request.
    pub fn tail(&self) -> WqeSeq {
        self.0.tail()
    }

    /// Takes over the request that the caller has stored at [`tail`](Self::tail).
    pub fn post(&mut self) {
        self.0.post();
    }

    /// The local operation that is next, if one is. To be asked before
    /// [`poll_transmit`](Self::poll_transmit).
    pub fn poll_local(&mut self, queue: &impl SendQueue) -> Option<LocalTask> {
        self.settled().poll_local(queue)
    }

    /// Takes note of how a local operation went.
    pub fn commit_local(
        &mut self,
        task: LocalTask,
        outcome: Result<(), LocalFailed>,
        queue: &impl SendQueue,
    ) {
        self.settled().commit_local(task, outcome, queue);
    }

    /// The next packets to send, at most `max_packets` of them, or `None` if there are none for
    /// now.
    ///
    /// A request for something that an unreliable connection does not do fails.
    pub fn poll_transmit(
        &mut self,
        now: Instant,
        max_packets: u32,
        queue: &impl SendQueue,
    ) -> Option<RequestPlan> {
        let plan = self.settled().poll_transmit(now, max_packets, queue)?;
        let unreliable = plan.unreliable();
        if unreliable.is_none() {
            self.0.unsent(now, plan.psn(), queue);
            self.fail(plan.wqe(), WcStatus::LocalQpOperation);
        }
        unreliable
    }

    /// Takes back the packets of the last plan from the PSN `psn` on, which the caller could not
    /// send. They are offered again shortly.
    ///
    /// Only the call that follows [`poll_transmit`](Self::poll_transmit) has an effect.
    pub fn unsent(&mut self, now: Instant, psn: Psn, queue: &impl SendQueue) {
        self.0.unsent(now, psn, queue);
    }

    /// Takes back the packets of the last plan from the PSN `psn` on, whose data is not there yet. They
    /// are offered again by the next [`poll_transmit`](Self::poll_transmit).
    pub fn withheld(&mut self, psn: Psn, queue: &impl SendQueue) {
        self.0.withheld(psn, queue);
    }

    /// Has `wqe` complete with `status` when all before it have completed. Nothing after it is sent
    /// any more.
    pub fn fail(&mut self, wqe: WqeSeq, status: WcStatus) {
        self.settled().fail(wqe, status);
    }

    /// The next request that is done, in the order of posting.
    ///
    /// One that fails for itself puts the queue pair in state SQE, where those after it are flushed
    /// until [`restart`](Self::restart).
    pub fn poll_completion(&mut self, queue: &impl SendQueue) -> Option<Completion> {
        self.settled().poll_completion(queue)
    }

    /// When to call [`on_timeout`](Self::on_timeout), unless something happens before.
    pub fn next_deadline(&self) -> Option<Instant> {
        self.0.next_deadline()
    }

    /// Does what is due at `now`. A call that comes early is harmless.
    pub fn on_timeout(&mut self, now: Instant) {
        self.settled().on_timeout(now);
    }

    /// Lets messages that have begun finish, and no other begin.
    pub fn drain(&mut self) {
        self.settled().drain();
    }

    /// Ends what [`drain`](Self::drain) began.
    pub fn resume(&mut self) {
        self.settled().resume();
    }

    /// Whether the queue drains and no message has been handed over in part. What was handed over
    /// last counts from the next [`poll_transmit`](Self::poll_transmit) on.
    pub fn is_drained(&self) -> bool {
        self.0.is_drained()
    }

    /// Flushes all that is not done, and all that is posted from now on.
    pub fn enter_error(&mut self) {
        self.settled().enter_error();
    }

    /// Leaves state SQE: what is posted from now on is sent. What was posted before still is flushed.
    pub fn restart(&mut self) {
        self.settled().restart();
    }

    /// The machine, which has learned that what was handed over is done.
    fn settled(&mut self) -> &mut Requester {
        self.0.acknowledge_sent();
        &mut self.0
    }
}
