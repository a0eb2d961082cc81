// SPDX-License-Identifier: GPL-2.0

//! A queue pair as packets, doorbells and timers see it.

use super::{
    arrival::Arrival,
    counters::Counter,
    memory::Memory,
    node::Node,
    paging::{
        Fetcher,
        Missing, //
    },
    region::PdId,
    respond::ReceiveSide,
    send::SendSide,
    station::Station,
    tally::Binding,
    throttle::Throttle,
    wake::Wake,
    want::Lost, //
};
use crate::kapi::{
    process::User,
    rdma::{
        QpEvent,
        QpEvents,
        QpObject, //
    },
    time::now, //
};
use core::time::Duration;
use kernel::{
    prelude::*,
    sync::{
        atomic::{
            Acquire,
            Atomic,
            Full,
            Relaxed,
            Release, //
        },
        barrier::smp_mb,
        Arc, //
    },
};
use rrxe_proto::{
    congestion::Rate,
    mw::QpId,
    time::Instant,
    Qpn, //
};

/// A queue pair.
///
/// Its two sides run independently of each other. Neither ever waits for the other: they meet in
/// `failed`, which tells each that the other has failed, and in `throttle`.
///
/// The table of the [`Node`] owns it, and look-ups under RCU lead to it. Once it has been removed
/// from there, and the grace period is over, nothing runs here any more.
#[pin_data]
pub(crate) struct Qp {
    qpn: Qpn,
    id: QpId,
    /// The protection domain.
    pd: PdId,
    /// Whose process made it.
    owner: User,
    node: Arc<Node>,
    events: QpEvents,
    /// Whether something went wrong that puts the queue pair in the error state.
    failed: Atomic<bool>,
    /// Whether a send request has failed that stops no more than the send queue: state SQE.
    stalled: Atomic<bool>,
    /// Whether to tell when the first packet arrives: in state RTR only.
    is_news: Atomic<bool>,
    /// The counters that it is bound to.
    tally: Binding,
    /// How fast it may send.
    #[pin]
    throttle: Throttle,
    #[pin]
    send: Station<SendSide>,
    #[pin]
    receive: Station<ReceiveSide>,
}

impl Qp {
    /// A queue pair in state RESET, of the user who calls. Process context, may sleep.
    pub(crate) fn new(
        qpn: Qpn,
        pd: PdId,
        node: Arc<Node>,
        events: QpEvents,
        send: SendSide,
        receive: ReceiveSide,
    ) -> Result<Arc<Self>> {
        let wake = |then| Wake::new(node.clone(), qpn, then);
        let send_alarm = wake(|qp| qp.send.run_alarm(qp));
        let send_rest = wake(|qp| qp.send.run(qp));
        let send_fetcher = Fetcher::new(
            node.clone(),
            qpn,
            |qp| qp.send.order(),
            |qp, order, outcome| qp.send.settle(qp, order, outcome),
        )?;
        let receive_fetcher = Fetcher::new(
            node.clone(),
            qpn,
            |qp| qp.receive.order(),
            |qp, order, outcome| qp.receive.settle(qp, order, outcome),
        )?;
        let receive_alarm = wake(|qp| qp.receive.run_alarm(qp));
        let receive_rest = wake(|qp| qp.receive.run(qp));
        let (sender, receiver) = (node.clone(), node.clone());
        Arc::pin_init(
            pin_init!(Self {
                qpn,
                id: node.number_qp(),
                pd,
                owner: User::current(),
                node,
                events,
                failed: Atomic::new(false),
                stalled: Atomic::new(false),
                is_news: Atomic::new(false),
                tally: Binding::new(),
                throttle <- Throttle::new(),
                send <- Station::new(sender, send, send_alarm, send_rest, send_fetcher),
                receive <- Station::new(receiver, receive, receive_alarm, receive_rest, receive_fetcher),
            }),
            GFP_KERNEL,
        )
    }

    /// Its number.
    pub(crate) fn qpn(&self) -> Qpn {
        self.qpn
    }

    /// What windows know it by.
    pub(super) fn id(&self) -> QpId {
        self.id
    }

    /// The protection domain.
    pub(super) fn pd(&self) -> PdId {
        self.pd
    }

    /// Whose process made it.
    pub(super) fn owner(&self) -> User {
        self.owner
    }

    /// As its consumer inside the kernel knows it.
    pub(crate) fn object(&self) -> QpObject {
        self.events.object()
    }

    /// The device it is of.
    pub(super) fn node(&self) -> &Arc<Node> {
        &self.node
    }

    /// Counts one more. Any context.
    pub(super) fn count(&self, counter: Counter) {
        self.add(counter, 1);
    }

    /// Counts `n` more. Any context.
    #[inline]
    pub(super) fn add(&self, counter: Counter, n: u64) {
        self.node.counters().add(counter, n);
        self.tally.add(&self.node, counter, n);
    }

    /// Counts a packet of `len` bytes for the counters it is bound to. The device has counted it before
    /// it was known whose it is.
    pub(super) fn count_arrival(&self, len: usize) {
        self.tally.add(&self.node, Counter::ReceivedPackets, 1);
        self.tally
            .add(&self.node, Counter::ReceivedBytes, len as u64);
    }

    /// Has the counters `number` count what happens to it from now on, besides those of the device, or
    /// none. On return those before do not any more. Process context, sleeps.
    pub(crate) fn bind_tally(&self, number: Option<u32>) {
        self.tally.change(number, &self.node);
    }

    /// How fast it may send.
    pub(super) fn throttle(&self) -> &Throttle {
        &self.throttle
    }

    /// The rate that it is limited to, in Mbit/s, if it is.
    pub(crate) fn rate_mbps(&self) -> Option<u32> {
        self.throttle.rate().map(Rate::mbps)
    }

    /// The memory it may touch.
    pub(super) fn memory(&self) -> Memory<'_> {
        Memory::new(&self.node, self.pd, self.id)
    }

    /// Looks at the send ring. Any context.
    pub(crate) fn ring_doorbell(&self) {
        self.send.run_or_queue(self);
    }

    /// Looks at the receive ring, if receives are flushed. Any context.
    pub(crate) fn ring_receive_doorbell(&self) {
        // Pairs with the read-modify-write by which the receive side is entered when the queue pair
        // has failed: either that sees the receive, or this sees the failure.
        smp_mb();
        if self.has_failed() {
            self.receive.run_or_queue(self);
        }
    }

    /// Hands a response of the peer to the send side.
    pub(super) fn deliver_response(&self, arrival: Arrival) {
        self.send.deliver(self, arrival);
    }

    /// Hands a request of the peer to the receive side.
    pub(super) fn deliver_request(&self, arrival: Arrival) {
        self.receive.deliver(self, arrival);
    }

    /// Changes the send side. Process context, may sleep.
    pub(crate) fn update_send<R>(&self, change: impl FnOnce(&mut SendSide) -> R) -> R {
        self.send.update(self, change)
    }

    /// Changes the receive side. Process context, may sleep.
    pub(crate) fn update_receive<R>(&self, change: impl FnOnce(&mut ReceiveSide) -> R) -> R {
        self.receive.update(self, change)
    }

    /// Waits for the turns that both sides are in. Process context, may sleep.
    pub(crate) fn await_turns(&self) {
        self.update_send(|_| ());
        self.update_receive(|_| ());
    }

    /// Drops the routes that both sides have found. Process context, may sleep.
    pub(super) fn forget_routes(&self) {
        self.update_send(SendSide::forget_route);
        self.update_receive(ReceiveSide::forget_route);
    }

    /// Whether something went wrong that puts the queue pair in the error state.
    pub(crate) fn has_failed(&self) -> bool {
        self.failed.load(Acquire)
    }

    /// Puts the queue pair in the error state. Any context; both sides learn of it.
    ///
    /// The side that calls this learns of it in its present turn or in the next one.
    pub(crate) fn fail(&self) {
        self.fail_once();
    }

    /// Puts the queue pair in the error state because a completion could not be reported. If that is
    /// what takes it there, an event tells.
    pub(super) fn lose_completion(&self) {
        if self.fail_once() {
            self.raise(QpEvent::Fatal);
        }
    }

    /// Whether the queue pair has not been in the error state before.
    fn fail_once(&self) -> bool {
        let first = !self.has_failed() && !self.failed.xchg(true, Full);
        if first {
            self.send.run(self);
            self.receive.run(self);
        }
        first
    }

    /// Whether a send request has failed that stops no more than the send queue.
    pub(crate) fn is_stalled(&self) -> bool {
        self.stalled.load(Acquire)
    }

    /// Puts the queue pair in state SQE. The send side, whose machine flushes already, calls this.
    pub(super) fn stall(&self) {
        self.stalled.store(true, Release);
    }

    /// Leaves state SQE. Process context, may sleep.
    pub(crate) fn restart(&self) {
        self.update_send(|side| {
            self.stalled.store(false, Release);
            side.restart();
        });
    }

    /// Makes good what went wrong: the queue pair is reset. Both sides must be idle.
    pub(crate) fn forgive(&self) {
        self.failed.store(false, Release);
        self.stalled.store(false, Release);
        self.throttle.reset();
    }

    /// Waits for no page any more, once both sides have been reset. Process context, may sleep.
    pub(crate) fn forget_pages(&self) {
        self.send.forget_pages();
        self.receive.forget_pages();
    }

    /// Whether to raise an event when the first packet arrives.
    pub(crate) fn announce_first_packet(&self, announce: bool) {
        self.is_news.store(announce, Relaxed);
    }

    /// Raises an event.
    pub(super) fn raise(&self, event: QpEvent) {
        self.events.raise(event);
    }

    /// The first packet has arrived.
    pub(super) fn tell_established(&self) {
        if self.is_news.load(Relaxed) {
            self.raise(QpEvent::Established);
        }
    }

    /// Has the send side worked on at `deadline` at the latest.
    pub(super) fn wake_send_at(&self, deadline: Instant) {
        self.send.wake_at(deadline);
    }

    /// Has the send side worked on again after `delay`.
    pub(super) fn wake_send_in(&self, delay: Duration) {
        self.send.wake_at(now().saturating_add(delay));
    }

    /// Has a page come in that the send side waits for, unless it has waited for it in vain.
    pub(super) fn page_in_for_send(&self, missing: Missing) -> Result<(), Lost> {
        self.send.page_in(self, missing)
    }

    /// Has a page come in that the receive side waits for, unless it has waited for it in vain.
    pub(super) fn page_in_for_receive(&self, missing: Missing) -> Result<(), Lost> {
        self.receive.page_in(self, missing)
    }

    /// Has the receive side worked on at `deadline` at the latest.
    pub(super) fn wake_receive_at(&self, deadline: Instant) {
        self.receive.wake_at(deadline);
    }

    /// Has the receive side worked on again after `delay`.
    pub(super) fn wake_receive_in(&self, delay: Duration) {
        self.receive.wake_at(now().saturating_add(delay));
    }
}
