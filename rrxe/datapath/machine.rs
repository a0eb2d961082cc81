// SPDX-License-Identifier: GPL-2.0

//! The machines of the protocol that the sides of a queue pair run, by its service.
//!
//! What the services have in common is a function of all; what is of one only does nothing for the
//! others.

use super::{
    arrival::Arrival,
    node::Node,
    qp::Qp,
    waiting::Waiting, //
};
use crate::kapi::{
    net::RxPacket,
    time::now, //
};
use kernel::{
    prelude::*,
    sync::Arc, //
};
use rrxe_proto::{
    psn::Psn,
    rc::{
        Action,
        Completion,
        Discard,
        Done,
        Event,
        ExecError,
        Keep,
        LocalFailed,
        LocalTask,
        ReceiveCompletion,
        ReceiveConfig,
        ReceiveSnapshot,
        ReceiveSource,
        RequestPlan,
        Requester,
        Responder,
        Saved,
        SendConfig,
        SendQueue,
        SendSnapshot,
        Task,
        WqeSeq, //
    },
    status::WcStatus,
    time::Instant,
    uc,
    ud::{
        self,
        DatagramQueue, //
    },
    PathMtu,
    Qkey, //
};

/// Does the same to a machine of each service.
macro_rules! of_each {
    ($machine:expr, $it:ident => $action:expr) => {
        match $machine {
            Self::Rc($it) => $action,
            Self::Uc($it) => $action,
            Self::Ud($it) => $action,
        }
    };
}

/// What decides about sending.
pub(crate) enum SendMachine {
    /// Of a reliable connection.
    Rc(Requester),
    /// Of an unreliable connection.
    Uc(uc::Sender),
    /// Of datagrams.
    Ud(ud::Sender),
}

impl SendMachine {
    /// Changes attributes.
    pub(super) fn configure(&mut self, config: SendConfig) {
        match self {
            Self::Rc(requester) => requester.set_config(config),
            Self::Uc(_) | Self::Ud(_) => (),
        }
    }

    /// Changes the queue key.
    pub(super) fn set_qkey(&mut self, qkey: Qkey) {
        if let Self::Ud(sender) = self {
            sender.set_qkey(qkey);
        }
    }

    /// Puts the queue pair in the state that the failure of a request leads to.
    pub(super) fn failed(&self, qp: &Qp) {
        match self {
            Self::Rc(_) => qp.fail(),
            Self::Uc(_) | Self::Ud(_) => qp.stall(),
        }
    }

    /// Sends again what is posted from now on, after [`failed`](Self::failed).
    pub(super) fn restart(&mut self) {
        match self {
            // Its failure is for ever.
            Self::Rc(_) => (),
            Self::Uc(sender) => sender.restart(),
            Self::Ud(sender) => sender.restart(),
        }
    }

    /// Takes over the request that was fetched last.
    pub(super) fn post(&mut self) {
        of_each!(self, it => it.post())
    }

    /// The local operation that is next.
    pub(super) fn poll_local(&mut self, queue: &impl SendQueue) -> Option<LocalTask> {
        match self {
            Self::Rc(requester) => requester.poll_local(queue),
            Self::Uc(sender) => sender.poll_local(queue),
            Self::Ud(_) => None,
        }
    }

    /// Takes note of how a local operation went.
    pub(super) fn commit_local(
        &mut self,
        task: LocalTask,
        outcome: Result<(), LocalFailed>,
        queue: &impl SendQueue,
    ) {
        match self {
            Self::Rc(requester) => requester.commit_local(task, outcome, queue),
            Self::Uc(sender) => sender.commit_local(task, outcome, queue),
            Self::Ud(_) => (),
        }
    }

    /// The next packets to send: of datagrams one, that the port must have room for.
    pub(super) fn poll_transmit(
        &mut self,
        now: Instant,
        max_packets: u32,
        port: PathMtu,
        queue: &impl DatagramQueue,
    ) -> Option<RequestPlan> {
        match self {
            Self::Rc(requester) => requester.poll_transmit(now, max_packets, queue),
            Self::Uc(sender) => sender.poll_transmit(now, max_packets, queue),
            Self::Ud(sender) => sender.poll_transmit(now, port, queue),
        }
    }

    /// Takes back what of the last plan was not sent.
    pub(super) fn unsent(&mut self, now: Instant, psn: Psn, queue: &impl SendQueue) {
        of_each!(self, it => it.unsent(now, psn, queue))
    }

    /// Takes back what of the last plan has to wait for its data, of whose arrival it will be told by
    /// being asked again.
    pub(super) fn withheld(&mut self, psn: Psn, queue: &impl SendQueue) {
        of_each!(self, it => it.withheld(psn, queue))
    }

    /// Has a request complete with an error.
    pub(super) fn fail(&mut self, wqe: WqeSeq, status: WcStatus) {
        of_each!(self, it => it.fail(wqe, status))
    }

    /// The next request that is done.
    pub(super) fn poll_completion(&mut self, queue: &impl SendQueue) -> Option<Completion> {
        of_each!(self, it => it.poll_completion(queue))
    }

    /// When to call [`on_timeout`](Self::on_timeout).
    pub(super) fn next_deadline(&self) -> Option<Instant> {
        of_each!(self, it => it.next_deadline())
    }

    /// Takes note that nothing may be sent before `until`.
    pub(super) fn hold(&mut self, until: Instant, queue: &impl SendQueue) {
        match self {
            Self::Rc(requester) => requester.hold(until, queue),
            // They wait for nobody.
            Self::Uc(_) | Self::Ud(_) => (),
        }
    }

    /// Does what is due.
    pub(super) fn on_timeout(&mut self, now: Instant) {
        of_each!(self, it => it.on_timeout(now))
    }

    /// Requests that are not done.
    pub(super) fn pending(&self) -> u32 {
        of_each!(self, it => it.tail().since(it.head())).unsigned_abs()
    }

    /// How far it has come, if it knows how far the peer has.
    pub(super) fn snapshot(&self) -> Option<SendSnapshot> {
        match self {
            Self::Rc(requester) => Some(requester.snapshot()),
            Self::Uc(_) | Self::Ud(_) => None,
        }
    }

    /// Lets nothing begin.
    pub(super) fn drain(&mut self) {
        of_each!(self, it => it.drain())
    }

    /// Ends what [`drain`](Self::drain) began.
    pub(super) fn resume(&mut self) {
        of_each!(self, it => it.resume())
    }

    /// Whether nothing is left that has begun.
    pub(super) fn is_drained(&self) -> bool {
        of_each!(self, it => it.is_drained())
    }

    /// Flushes everything.
    pub(super) fn enter_error(&mut self) {
        of_each!(self, it => it.enter_error())
    }
}

/// What decides about receiving.
pub(crate) enum ReceiveMachine {
    /// Of a reliable connection.
    Rc(KBox<Answering>),
    /// Of an unreliable connection.
    Uc(uc::Receiver),
    /// Of datagrams.
    Ud(ud::Receiver),
}

/// A responder with the storage that it needs.
pub(crate) struct Answering {
    pub(super) responder: Responder,
    pub(super) saved: KVec<Saved>,
    waiting: Waiting,
}

impl Answering {
    /// The two, with room in `saved` for as many READs and atomics as the peer may have under way,
    /// on `node`. May sleep.
    pub(crate) fn new(
        responder: Responder,
        saved: KVec<Saved>,
        node: Arc<Node>,
    ) -> Result<KBox<Self>> {
        let answering = Self {
            responder,
            saved,
            waiting: Waiting::new(node, Responder::PLACES)?,
        };
        Ok(KBox::new(answering, GFP_KERNEL)?)
    }

    fn on_arrival(&mut self, arrival: &Arrival, source: &mut impl ReceiveSource) -> Action {
        match arrival.headers() {
            Some(headers) => self.responder.on_request(headers, source, &mut self.saved),
            None => self.responder.on_unknown_opcode(arrival.bth()),
        }
    }

    fn keep(&mut self, keep: Keep, packet: RxPacket) {
        if self.waiting.store(keep.place(), packet).is_ok() {
            self.responder.keep(keep);
        }
    }

    /// See [`ReceiveMachine::drop_stale`].
    fn drop_stale(&mut self) -> Option<Instant> {
        let stale_at = self.waiting.stale_at()?;
        if now() < stale_at {
            return Some(stale_at);
        }
        self.responder.drop_kept();
        self.waiting.clear();
        None
    }

    fn poll_kept(&mut self) -> Option<RxPacket> {
        self.waiting.take(self.responder.poll_kept()?)
    }

    fn commit(
        &mut self,
        task: Task,
        outcome: Result<Done, ExecError>,
    ) -> Option<ReceiveCompletion> {
        self.responder.commit(task, outcome, &mut self.saved)
    }

    fn enter_error(&mut self) {
        self.responder.enter_error();
        self.waiting.clear();
    }
}

impl ReceiveMachine {
    /// Changes attributes.
    pub(super) fn configure(&mut self, config: ReceiveConfig) {
        match self {
            Self::Rc(answering) => answering.responder.set_config(config),
            Self::Uc(receiver) => receiver.set_access(config.access),
            Self::Ud(_) => (),
        }
    }

    /// Changes the queue key.
    pub(super) fn set_qkey(&mut self, qkey: Qkey) {
        if let Self::Ud(receiver) = self {
            receiver.set_qkey(qkey);
        }
    }

    /// Gives more room for READs and atomics, if `saved` has more.
    pub(super) fn enlarge_saved(&mut self, mut saved: KVec<Saved>) {
        let Self::Rc(answering) = self else {
            return;
        };
        if saved.len() > answering.saved.len() {
            answering.responder.move_saved(&answering.saved, &mut saved);
            answering.saved = saved;
        }
    }

    /// Takes a packet in.
    pub(super) fn on_arrival(
        &mut self,
        arrival: &Arrival,
        source: &mut impl ReceiveSource,
    ) -> Action {
        match (self, arrival.headers()) {
            (Self::Rc(answering), _) => answering.on_arrival(arrival, source),
            (Self::Uc(receiver), Some(headers)) => receiver.on_request(headers, source),
            (Self::Ud(receiver), Some(headers)) => receiver.on_request(headers, source),
            (Self::Uc(_) | Self::Ud(_), None) => Action::Dropped(Discard::NotRequest),
        }
    }

    /// Stores a packet until its turn comes. One for which there is no room is lost.
    pub(super) fn keep(&mut self, keep: Keep, packet: RxPacket) {
        match self {
            Self::Rc(answering) => answering.keep(keep, packet),
            // Nothing is kept there.
            Self::Uc(_) | Self::Ud(_) => (),
        }
    }

    /// Drops the packets that were stored, if their turn has not come for long. Tells when to ask
    /// again, if any are left.
    pub(super) fn drop_stale(&mut self) -> Option<Instant> {
        match self {
            Self::Rc(answering) => answering.drop_stale(),
            Self::Uc(_) | Self::Ud(_) => None,
        }
    }

    /// The next packet that was kept and whose turn has come.
    pub(super) fn poll_kept(&mut self) -> Option<RxPacket> {
        match self {
            Self::Rc(answering) => answering.poll_kept(),
            Self::Uc(_) | Self::Ud(_) => None,
        }
    }

    /// Takes note of how a task went.
    pub(super) fn commit(
        &mut self,
        task: Task,
        outcome: Result<Done, ExecError>,
    ) -> Option<ReceiveCompletion> {
        match self {
            Self::Rc(answering) => answering.commit(task, outcome),
            Self::Uc(receiver) => receiver.commit(task, outcome),
            Self::Ud(receiver) => receiver.commit(task, outcome),
        }
    }

    /// The next thing to tell the consumer.
    pub(super) fn poll_event(&mut self) -> Option<Event> {
        match self {
            Self::Rc(answering) => answering.responder.poll_event(),
            Self::Uc(receiver) => receiver.poll_event(),
            Self::Ud(receiver) => receiver.poll_event(),
        }
    }

    /// How far it has come, if packets have an order that counts.
    pub(super) fn snapshot(&self) -> Option<ReceiveSnapshot> {
        match self {
            Self::Rc(answering) => Some(answering.responder.snapshot()),
            Self::Uc(_) | Self::Ud(_) => None,
        }
    }

    /// Drops all requests.
    pub(super) fn enter_error(&mut self) {
        match self {
            Self::Rc(answering) => answering.enter_error(),
            Self::Uc(receiver) => receiver.enter_error(),
            Self::Ud(receiver) => receiver.enter_error(),
        }
    }

    /// The receive work request that was in use when the error state was entered.
    pub(super) fn poll_flush(&mut self) -> Option<ReceiveCompletion> {
        match self {
            Self::Rc(answering) => answering.responder.poll_flush(),
            Self::Uc(receiver) => receiver.poll_flush(),
            Self::Ud(receiver) => receiver.poll_flush(),
        }
    }
}
