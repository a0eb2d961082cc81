// SPDX-License-Identifier: GPL-2.0

//! The send side of a queue pair: from the ring to the machine, from the machine to the wire,
//! and from the responses to the completion ring.

use super::{
    arrival::Arrival,
    congestion,
    counters::Counter,
    cq::Cq,
    flush::Flush,
    local,
    machine::SendMachine,
    patience::Patience,
    peer::Peer,
    qp::Qp,
    station::{
        Progress,
        Side, //
    },
    transmit, //
};
use crate::{
    kapi::{
        rdma::QpEvent,
        time::now, //
    },
    ring::{
        LocalData,
        SendRing,
        Sge,
        Wc, //
    },
};
use rrxe_proto::{
    mtu::PathMtu,
    psn::Psn,
    rc::{
        Completion,
        Placement,
        RequestPlan,
        Response,
        SendConfig,
        SendSnapshot,
        WqeSeq, //
    },
    status::WcStatus,
    time::Instant,
    uc::Sender,
    Qkey, //
};

/// The send side of a queue pair.
pub(crate) struct SendSide {
    ring: SendRing,
    cq: Cq,
    flush: Flush,
    /// What to do with the response that waits for its memory.
    postponed: Option<Placement>,
    /// Runs in the states from RTS on. Before that requests stay in the ring.
    running: Option<Running>,
}

/// What the send side has once it may send.
struct Running {
    machine: SendMachine,
    /// Absent in a queue pair that went to the error state before it could send.
    outlet: Option<Outlet>,
    when_drained: WhenDrained,
}

/// Where packets go.
pub(crate) enum Outlet {
    /// To the queue pair at the other end of the connection.
    Peer(Peer),
    /// To wherever each request says.
    Anywhere(Patience),
}

/// What is to happen when the queue has drained.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum WhenDrained {
    /// Nothing.
    Nothing,
    /// An event.
    Tell,
}

impl SendSide {
    /// A send side that does not send yet.
    pub(crate) fn new(ring: SendRing, cq: Cq) -> Self {
        Self {
            ring,
            cq,
            flush: Flush::default(),
            postponed: None,
            running: None,
        }
    }

    /// Begins to send to `outlet` as `machine` says, unless the queue pair has failed already.
    pub(crate) fn start(&mut self, outlet: Outlet, machine: SendMachine) {
        self.running.get_or_insert_with(|| Running {
            machine,
            outlet: Some(outlet),
            when_drained: WhenDrained::Nothing,
        });
    }

    /// Changes the attributes of a side that sends.
    pub(crate) fn configure(&mut self, config: SendConfig) {
        if let Some(running) = &mut self.running {
            running.machine.configure(config);
        }
    }

    /// Changes the queue key of a side that sends.
    pub(crate) fn set_qkey(&mut self, qkey: Qkey) {
        if let Some(running) = &mut self.running {
            running.machine.set_qkey(qkey);
        }
    }

    /// Sends to another address from now on.
    pub(crate) fn redirect(&mut self, peer: Peer) {
        if let Some(running) = &mut self.running {
            running.outlet = Some(Outlet::Peer(peer));
        }
    }

    /// Has the route to the peer looked up anew.
    pub(super) fn forget_route(&mut self) {
        if let Some(Running {
            outlet: Some(Outlet::Peer(peer)),
            ..
        }) = &mut self.running
        {
            peer.forget_route();
        }
    }

    /// Lets messages that have begun finish and no other begin.
    pub(crate) fn drain(&mut self, then: WhenDrained) {
        if let Some(running) = &mut self.running {
            running.when_drained = then;
            running.machine.drain();
        }
    }

    /// Ends what [`drain`](Self::drain) began.
    pub(crate) fn resume(&mut self) {
        if let Some(running) = &mut self.running {
            running.when_drained = WhenDrained::Nothing;
            running.machine.resume();
        }
    }

    /// Sends again what is posted from now on, after a request has failed.
    pub(crate) fn restart(&mut self) {
        if let Some(running) = &mut self.running {
            running.when_drained = WhenDrained::Nothing;
            running.machine.restart();
        }
    }

    /// Whether the queue still drains.
    pub(crate) fn is_draining(&self) -> bool {
        self.running
            .as_ref()
            .is_some_and(|running| !running.machine.is_drained())
    }

    /// Completes all requests with an error, now and those posted later.
    pub(crate) fn enter_error(&mut self) {
        let running = self.running.get_or_insert_with(Running::without_outlet);
        running.when_drained = WhenDrained::Nothing;
        running.machine.enter_error();
        self.postponed = None;
    }

    /// Forgets all requests, without a completion.
    pub(crate) fn reset(&mut self) {
        self.running = None;
        self.postponed = None;
        self.flush = Flush::default();
        self.ring.clear();
    }
}

/// How far the send side has come, for those who look on.
pub(crate) struct SendReport {
    /// Requests that have been taken from the ring and are not done.
    pub(crate) pending: u32,
    /// On a reliable connection, once it sends.
    pub(crate) connection: Option<SendSnapshot>,
}

impl SendSide {
    /// How far it has come.
    pub(crate) fn report(&self) -> SendReport {
        let machine = self.running.as_ref().map(|running| &running.machine);
        SendReport {
            pending: machine.map_or(0, SendMachine::pending),
            connection: machine.and_then(SendMachine::snapshot),
        }
    }
}

impl Side for SendSide {
    fn receive(&mut self, qp: &Qp, arrival: Arrival) -> Result<(), Arrival> {
        // Nobody answers to what is unreliable.
        let Some(Running {
            machine: SendMachine::Rc(requester),
            outlet: Some(Outlet::Peer(peer)),
            ..
        }) = &mut self.running
        else {
            return Ok(());
        };
        let ring = &self.ring;
        let placement = match self.postponed.take() {
            Some(placement) => placement,
            None => {
                let Some(response) = arrival.headers().and_then(Response::from_headers) else {
                    return Ok(());
                };
                if !peer.is_source_of(&arrival) {
                    return Ok(());
                }
                if let Response::Read { .. } = response {
                    congestion::answer(qp, peer, &arrival);
                }
                if let Some(counter) = response.syndrome().and_then(Counter::of_received) {
                    qp.count(counter);
                }
                requester.on_response(now(), &response, ring)
            }
        };
        let memory = qp.memory();
        let (wqe, placed) = match placement {
            Placement::None | Placement::Dropped(_) => {
                arrival.consume();
                return Ok(());
            }
            Placement::Read { wqe, offset, len } => (
                wqe,
                memory.scatter(local_sges(ring, wqe), offset, arrival.payload(len)),
            ),
            Placement::Atomic { wqe, original } => {
                let original = original.to_ne_bytes();
                (wqe, memory.scatter_bytes(local_sges(ring, wqe), &original))
            }
        };
        if let Err(status) = placed {
            let missing = memory.take_missing();
            if missing.is_some_and(|page| qp.page_in_for_send(page).is_ok()) {
                self.postponed = Some(placement);
                return Err(arrival);
            }
            requester.fail(wqe, status);
        }
        arrival.consume();
        Ok(())
    }

    fn work(&mut self, qp: &Qp, budget: u32) -> Progress {
        if qp.has_failed() {
            self.enter_error();
        }
        if self.postponed.is_some() {
            // The machine counts on the data being there before it is asked for completions.
            return Progress::Idle;
        }
        let Some(running) = &mut self.running else {
            return Progress::Idle;
        };
        let now = now();
        running.machine.on_timeout(now);
        let fetched = running.fetch(&mut self.ring, budget);
        let sent = running.transmit(qp, &self.ring, now, budget);
        if let Some(deadline) = running.machine.next_deadline() {
            qp.wake_send_at(deadline);
        }
        let progress = fetched.and(sent).and(self.complete(qp, budget));
        if progress == Progress::Idle {
            self.tell_drained(qp);
        }
        progress
    }
}

impl SendSide {
    /// Reports the requests that are done.
    fn complete(&mut self, qp: &Qp, budget: u32) -> Progress {
        let Some(running) = &mut self.running else {
            return Progress::Idle;
        };
        let mut room = self.flush.settle(&self.cq);
        for _ in 0..budget {
            if room.is_err() {
                qp.wake_send_in(self.flush.delay());
                return Progress::Idle;
            }
            let Some(completion) = running.machine.poll_completion(&self.ring) else {
                return Progress::Idle;
            };
            if let Some(counter) = Counter::of_sending(completion.status) {
                qp.count(counter);
            }
            let wc = work_completion(qp, &self.ring, &completion);
            // Who sees the completion may post another request at once.
            self.ring.retire();
            match completion.status {
                WcStatus::WrFlush => room = self.flush.post(&self.cq, wc),
                WcStatus::Success if !completion.reported => (),
                status => {
                    if self.cq.post(wc).is_err() {
                        qp.lose_completion();
                    } else if status != WcStatus::Success {
                        running.machine.failed(qp);
                    }
                }
            }
        }
        Progress::Busy
    }

    /// Tells that the queue has drained, and what has finished has been reported.
    fn tell_drained(&mut self, qp: &Qp) {
        let Some(running) = &mut self.running else {
            return;
        };
        if running.when_drained == WhenDrained::Tell && running.machine.is_drained() {
            running.when_drained = WhenDrained::Nothing;
            qp.raise(QpEvent::SqDrained);
        }
    }
}

impl Outlet {
    /// Sends the packets of `plan`, whose request is in `ring`.
    fn send(
        &mut self,
        qp: &Qp,
        ring: &SendRing,
        plan: &RequestPlan,
    ) -> Result<(), transmit::Failure> {
        let local = ring.local(plan.wqe());
        match self {
            Self::Peer(peer) => transmit::request(qp, peer, plan, local),
            Self::Anywhere(patience) => {
                let addressee = ring.wqe(plan.wqe()).addressee();
                transmit::datagram(qp, patience, plan, addressee, local)
            }
        }
    }
}

impl Running {
    /// What a queue pair flushes with that cannot send yet. Nothing is sent, so that the simplest
    /// machine will do for all services.
    fn without_outlet() -> Self {
        Self {
            machine: SendMachine::Uc(Sender::new(PathMtu::Mtu256, Psn::truncate(0))),
            outlet: None,
            when_drained: WhenDrained::Nothing,
        }
    }

    /// Takes posted requests from the ring.
    fn fetch(&mut self, ring: &mut SendRing, budget: u32) -> Progress {
        for _ in 0..budget {
            let Some(fetched) = ring.fetch() else {
                return Progress::Idle;
            };
            self.machine.post();
            if let Err(invalid) = fetched.validity {
                self.machine.fail(fetched.seq, invalid.status());
            }
        }
        Progress::Busy
    }

    /// Sends what the machine wants sent, and does what is between it.
    fn transmit(&mut self, qp: &Qp, ring: &SendRing, now: Instant, budget: u32) -> Progress {
        let Some(outlet) = &mut self.outlet else {
            return Progress::Idle;
        };
        let port = qp.node().mtu();
        let mut left = budget;
        while left != 0 {
            if let Some(task) = self.machine.poll_local(ring) {
                left = left.saturating_sub(1);
                let outcome = local::execute(qp, task.local());
                self.machine.commit_local(task, outcome, ring);
                continue;
            }
            if let Err(later) = qp.may_send() {
                self.machine.hold(later, ring);
                qp.wake_send_at(later);
                return Progress::Idle;
            }
            let burst = left.min(qp.throttle().burst());
            let plan = self.machine.poll_transmit(now, burst, port, ring);
            let Some(plan) = plan else {
                return Progress::Idle;
            };
            left = left.saturating_sub(plan.count());
            let repeated = plan.repeated();
            if repeated != 0 {
                qp.add(Counter::Retransmitted, repeated.into());
            }
            match outlet.send(qp, ring, &plan) {
                Ok(()) => (),
                Err(transmit::Failure::Local(status)) => self.machine.fail(plan.wqe(), status),
                Err(transmit::Failure::Unsent(psn)) => {
                    self.machine.unsent(now, psn, ring);
                    return Progress::Idle;
                }
                Err(transmit::Failure::Missing(psn)) => {
                    self.machine.withheld(psn, ring);
                    return Progress::Idle;
                }
            }
        }
        Progress::Busy
    }
}

fn local_sges(ring: &SendRing, wqe: WqeSeq) -> &[Sge] {
    match ring.local(wqe) {
        LocalData::Sges(sges) => sges,
        // Nothing that asks for a response with data may be inline.
        LocalData::Inline(_) => &[],
    }
}

fn work_completion(qp: &Qp, ring: &SendRing, completion: &Completion) -> Wc {
    let wqe = ring.wqe(completion.wqe);
    Wc {
        byte_len: wqe.request().len(),
        ..Wc::new(wqe.wr_id(), wqe.opcode(), completion.status, qp.qpn())
    }
}
