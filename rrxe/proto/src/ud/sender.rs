// SPDX-License-Identifier: GPL-2.0

//! The send side of a datagram queue pair.

use crate::{
    key::Qkey,
    mtu::PathMtu,
    psn::Psn,
    qpn::Qpn,
    rc::{
        Completion,
        Operation,
        Request,
        RequestPlan,
        SendQueue,
        WqeSeq, //
    },
    status::WcStatus,
    time::Instant,
    uc,
    wire::Deth, //
};

/// Whom a work request sends its message to, besides the network address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Destination {
    /// The queue pair, or [`Qpn::MULTICAST`].
    pub qpn: Qpn,
    /// The key to show. One that is controlled stands for the queue pair's own.
    pub qkey: Qkey,
}

/// Storage of work requests that each have a destination.
pub trait DatagramQueue: SendQueue {
    /// The destination of the request stored as `wqe`, or `None` if it has none.
    fn destination(&self, wqe: WqeSeq) -> Option<Destination>;
}

/// The send side of a datagram queue pair.
///
/// It is that of an [unreliable connection](uc::Sender) whose messages have one packet each.
#[derive(Debug)]
pub struct Sender {
    qpn: Qpn,
    qkey: Qkey,
    messages: uc::Sender,
}

/// No packet is longer, whatever the port allows.
const LONGEST: PathMtu = PathMtu::Mtu4096;

impl Sender {
    /// The send side of the queue pair `qpn`, whose key is `qkey` and whose first packet has the PSN
    /// `sq_psn`.
    pub fn new(qpn: Qpn, qkey: Qkey, sq_psn: Psn) -> Self {
        Self {
            qpn,
            qkey,
            messages: uc::Sender::new(LONGEST, sq_psn),
        }
    }

    /// Changes the key of the queue pair.
    pub fn set_qkey(&mut self, qkey: Qkey) {
        self.qkey = qkey;
    }

    /// The oldest request that is not reported.
    pub fn head(&self) -> WqeSeq {
        self.messages.head()
    }

    /// Where the caller stores the next request.
    pub fn tail(&self) -> WqeSeq {
        self.messages.tail()
    }

    /// Takes over the request that the caller has stored at [`tail`](Self::tail).
    pub fn post(&mut self) {
        self.messages.post();
    }

    /// The next packet to send by a port whose packets carry up to `mtu`, or `None` if there is none
    /// for now.
    ///
    /// A message that is longer is not sent, and that is no error (C10-93.1.1). A request for
    /// something other than a SEND fails.
    pub fn poll_transmit(
        &mut self,
        now: Instant,
        mtu: PathMtu,
        queue: &impl DatagramQueue,
    ) -> Option<RequestPlan> {
        loop {
            let plan = self.messages.poll_transmit(now, u32::MAX, queue)?;
            let to = queue.destination(plan.wqe());
            if to.is_some() && is_too_long(plan.request(), mtu) {
                continue;
            }
            let datagram =
                to.and_then(|to| plan.datagram(Deth::new(to.qkey.or_own(self.qkey), self.qpn)));
            if datagram.is_some() {
                return datagram;
            }
            self.messages.unsent(now, plan.psn(), queue);
            self.messages.fail(plan.wqe(), WcStatus::LocalQpOperation);
        }
    }

    /// Takes back the packet of the last plan, whose PSN is `psn`, which the caller could not send. It
    /// is offered again shortly.
    ///
    /// Only the call that follows [`poll_transmit`](Self::poll_transmit) has an effect.
    pub fn unsent(&mut self, now: Instant, psn: Psn, queue: &impl SendQueue) {
        self.messages.unsent(now, psn, queue);
    }

    /// Takes back the packets of the last plan from the PSN `psn` on, whose data is not there yet. They
    /// are offered again by the next [`poll_transmit`](Self::poll_transmit).
    pub fn withheld(&mut self, psn: Psn, queue: &impl SendQueue) {
        self.messages.withheld(psn, queue);
    }

    /// Has `wqe` complete with `status` when all before it have completed. Nothing after it is sent
    /// any more.
    pub fn fail(&mut self, wqe: WqeSeq, status: WcStatus) {
        self.messages.fail(wqe, status);
    }

    /// The next request that is done, in the order of posting.
    ///
    /// One that fails for itself puts the queue pair in state SQE, where those after it are flushed
    /// until [`restart`](Self::restart).
    pub fn poll_completion(&mut self, queue: &impl SendQueue) -> Option<Completion> {
        self.messages.poll_completion(queue)
    }

    /// When to call [`on_timeout`](Self::on_timeout), unless something happens before.
    pub fn next_deadline(&self) -> Option<Instant> {
        self.messages.next_deadline()
    }

    /// Does what is due at `now`. A call that comes early is harmless.
    pub fn on_timeout(&mut self, now: Instant) {
        self.messages.on_timeout(now);
    }

    /// Lets no message begin.
    pub fn drain(&mut self) {
        self.messages.drain();
    }

    /// Ends what [`drain`](Self::drain) began.
    pub fn resume(&mut self) {
        self.messages.resume();
    }

    /// Whether the queue drains.
    pub fn is_drained(&self) -> bool {
        self.messages.is_drained()
    }

    /// Flushes all that is not done, and all that is posted from now on.
    pub fn enter_error(&mut self) {
        self.messages.enter_error();
    }

    /// Leaves state SQE: what is posted from now on is sent. What was posted before still is flushed.
    pub fn restart(&mut self) {
        self.messages.restart();
    }
}

/// Whether a request is for a message that does not fit into a packet.
fn is_too_long(request: &Request, mtu: PathMtu) -> bool {
    matches!(request.operation(), Operation::Send | Operation::SendImm(_))
        && request.len() > mtu.bytes()
}
