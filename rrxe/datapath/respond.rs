// SPDX-License-Identifier: GPL-2.0

//! The receive side of a queue pair: requests from the wire to the machine, its tasks to memory,
//! responses to the wire.

use super::{
    arrival::Arrival,
    congestion,
    counters::Counter,
    cq::Cq,
    flush::Flush,
    machine::{
        Answering,
        ReceiveMachine, //
    },
    memory::Memory,
    peer::Peer,
    qp::Qp,
    receive_queue::{
        Leftover,
        ReceiveQueue,
        Supply, //
    },
    station::{
        Progress,
        Side, //
    },
    transmit,
    want::Lost, //
};
use crate::{
    kapi::rdma::QpEvent,
    ring::{
        Datagram,
        Wc,
        WcExtra, //
    },
};
use core::time::Duration;
use kernel::prelude::*;
use rrxe_proto::{
    access::Access,
    rc::{
        Action,
        Discard,
        Done,
        Event,
        ExecError,
        Failure,
        LocalFailed,
        ReceiveCompletion,
        ReceiveConfig,
        ReceiveSnapshot,
        ResponsePlan,
        Saved,
        Task,
        TaskKind, //
    },
    status::{
        WcOpcode,
        WcStatus, //
    },
    ud::GRH_LEN,
    wire::{
        Headers,
        Kind, //
    },
    Qkey, //
};

/// How soon to try again to send responses that could not be sent.
const UNSENT_DELAY: Duration = Duration::from_micros(100);

/// The receive side of a queue pair.
pub(crate) struct ReceiveSide {
    queue: ReceiveQueue,
    cq: Cq,
    flush: Flush,
    /// What to do for the request that waits for its memory.
    postponed: Option<Task>,
    phase: Phase,
}

/// What happens to requests of the peer and to receive work requests.
enum Phase {
    /// Neither is touched.
    Idle,
    /// They meet.
    Running(Running),
    /// The peer's are dropped, ours are flushed.
    Flushing(Option<Running>),
    /// The peer's are dropped, and there are none of ours: the queue is shared.
    Flushed(Option<Running>),
}

/// What the receive side has once it may receive.
struct Running {
    machine: ReceiveMachine,
    /// Absent where packets come from anywhere, and nothing is answered.
    peer: Option<Peer>,
}

impl ReceiveSide {
    /// A receive side that does not receive yet.
    pub(crate) fn new(supply: Supply, cq: Cq) -> Self {
        Self {
            queue: ReceiveQueue::new(supply),
            cq,
            flush: Flush::default(),
            postponed: None,
            phase: Phase::Idle,
        }
    }

    /// Begins to take requests of `peer`, or of anyone, as `machine` says.
    pub(crate) fn start(&mut self, peer: Option<Peer>, machine: ReceiveMachine) {
        self.phase = Phase::Running(Running { machine, peer });
    }

    /// Changes the attributes of a side that receives.
    pub(crate) fn configure(&mut self, config: ReceiveConfig) {
        if let Phase::Running(running) = &mut self.phase {
            running.machine.configure(config);
        }
    }

    /// Changes the queue key of a side that receives.
    pub(crate) fn set_qkey(&mut self, qkey: Qkey) {
        if let Phase::Running(running) = &mut self.phase {
            running.machine.set_qkey(qkey);
        }
    }

    /// Gives the side more room for READs and atomics, if `saved` has more.
    pub(crate) fn enlarge_saved(&mut self, saved: KVec<Saved>) {
        if let Phase::Running(running) = &mut self.phase {
            running.machine.enlarge_saved(saved);
        }
    }

    /// Answers to another address from now on.
    pub(crate) fn redirect(&mut self, peer: Peer) {
        if let Phase::Running(running) = &mut self.phase {
            running.peer = Some(peer);
        }
    }

    /// Has the route to the peer looked up anew.
    pub(super) fn forget_route(&mut self) {
        if let Some(Running {
            peer: Some(peer), ..
        }) = self.phase.running()
        {
            peer.forget_route();
        }
    }

    /// Completes all receive work requests with an error, now and those posted later.
    pub(crate) fn enter_error(&mut self) {
        self.phase = match core::mem::replace(&mut self.phase, Phase::Idle) {
            Phase::Idle => Phase::Flushing(None),
            Phase::Running(mut running) => {
                running.machine.enter_error();
                Phase::Flushing(Some(running))
            }
            other @ (Phase::Flushing(_) | Phase::Flushed(_)) => other,
        };
        self.postponed = None;
    }

    /// Forgets all requests, without a completion.
    pub(crate) fn reset(&mut self) {
        self.phase = Phase::Idle;
        self.postponed = None;
        self.flush = Flush::default();
        self.queue.clear();
    }
}

/// How far the receive side has come, for those who look on.
pub(crate) struct ReceiveReport {
    /// Requests that are posted to the queue pair's own queue and have not been taken.
    pub(crate) posted: u32,
    /// On a reliable connection, once it receives.
    pub(crate) connection: Option<ReceiveSnapshot>,
}

impl ReceiveSide {
    /// How far it has come.
    pub(crate) fn report(&mut self) -> ReceiveReport {
        let running = self.phase.running();
        ReceiveReport {
            connection: running.and_then(|running| running.machine.snapshot()),
            posted: self.queue.posted(),
        }
    }
}

impl Side for ReceiveSide {
    fn receive(&mut self, qp: &Qp, arrival: Arrival) -> Result<(), Arrival> {
        let Phase::Running(running) = &mut self.phase else {
            return Ok(());
        };
        if self.postponed.is_none() && !running.expects(&arrival) {
            return Ok(());
        }
        if self.postponed.is_none() {
            match (arrival.headers().map(Headers::kind), &mut running.peer) {
                (Some(Kind::Cnp), Some(_)) => {
                    qp.notified();
                    arrival.consume();
                    return Ok(());
                }
                (Some(_), Some(peer)) => congestion::answer(qp, peer, &arrival),
                _ => (),
            }
        }
        self.take_in(qp, arrival)?;
        while let Some(kept) = self.poll_kept() {
            self.take_in(qp, kept)?;
        }
        Ok(())
    }

    fn work(&mut self, qp: &Qp, budget: u32) -> Progress {
        if let Phase::Running(running) = &mut self.phase {
            while let Some(event) = running.machine.poll_event() {
                tell(qp, event);
            }
            if let Some(later) = running.machine.drop_stale() {
                qp.wake_receive_at(later);
            }
            if qp.has_failed() {
                self.enter_error();
            }
        }
        let sent = match self.phase.running() {
            Some(running) => running.transmit(qp, budget),
            None => Progress::Idle,
        };
        sent.and(self.flush(qp, budget))
    }
}

impl ReceiveSide {
    /// Does what a request of the peer asks for, or stores it; or gives it back, if some memory is
    /// missing.
    fn take_in(&mut self, qp: &Qp, arrival: Arrival) -> Result<(), Arrival> {
        let Phase::Running(running) = &mut self.phase else {
            return Ok(());
        };
        let queue = &mut self.queue;
        let action = match self.postponed.take() {
            Some(task) => Action::Execute(task),
            None => running.machine.on_arrival(&arrival, queue),
        };
        let completion = match action {
            Action::Keep(keep) => {
                qp.count(Counter::OutOfSequence);
                running.machine.keep(keep, arrival.into_packet());
                return Ok(());
            }
            Action::Dropped(Discard::OutOfOrder) => {
                qp.count(Counter::OutOfSequence);
                None
            }
            Action::Dropped(Discard::WrongQkey) => {
                qp.count(Counter::BadQkey);
                None
            }
            Action::Repeated => {
                qp.count(Counter::DuplicateRequests);
                None
            }
            Action::None | Action::Dropped(_) => None,
            Action::Execute(task) => match execute(qp, queue, &task, &arrival) {
                Ok(outcome) => running.machine.commit(task, outcome),
                Err(Postponed) => {
                    self.postponed = Some(task);
                    return Err(arrival);
                }
            },
        };
        let vlan = arrival.packet().vlan();
        arrival.consume();
        if let Some(completion) = completion {
            self.complete(qp, &completion, vlan);
        }
        Ok(())
    }

    /// The next request that was stored and whose turn has come.
    fn poll_kept(&mut self) -> Option<Arrival> {
        let Phase::Running(running) = &mut self.phase else {
            return None;
        };
        Arrival::parse(running.machine.poll_kept()?)
    }

    /// Completes receive work requests with an error, if it has come to that.
    fn flush(&mut self, qp: &Qp, budget: u32) -> Progress {
        let Phase::Flushing(running) = &mut self.phase else {
            return Progress::Idle;
        };
        let held = running
            .as_mut()
            .and_then(|running| running.machine.poll_flush());
        let mut room = match held {
            Some(completion) => {
                let wc = work_completion(qp, &self.queue, &completion);
                self.flush.post(&self.cq, wc)
            }
            None => self.flush.settle(&self.cq),
        };
        for _ in 0..budget {
            // User space neither tells of receives that it posts nor of completions that it polls,
            // so one has to look for them.
            if room.is_err() {
                qp.wake_receive_in(self.flush.delay());
                return Progress::Idle;
            }
            match self.queue.take_leftover() {
                Leftover::Request(wr_id) => {
                    let wc = Wc::new(wr_id, WcOpcode::Receive, WcStatus::WrFlush, qp.qpn());
                    room = self.flush.post(&self.cq, wc);
                }
                Leftover::NoneYet => {
                    qp.wake_receive_in(self.flush.delay());
                    return Progress::Idle;
                }
                Leftover::Never => {
                    self.end_flush(qp);
                    return Progress::Idle;
                }
            }
        }
        Progress::Busy
    }

    /// Tells that no request of the shared queue completes here any more.
    fn end_flush(&mut self, qp: &Qp) {
        self.phase = match core::mem::replace(&mut self.phase, Phase::Idle) {
            Phase::Flushing(running) => Phase::Flushed(running),
            other => other,
        };
        qp.raise(QpEvent::LastWqeReached);
    }

    fn complete(&self, qp: &Qp, completion: &ReceiveCompletion, vlan: Option<u16>) {
        let wc = work_completion(qp, &self.queue, completion).by_vlan(vlan);
        if completion.status == WcStatus::Success {
            qp.count(Counter::Receives);
        }
        if self.cq.post(wc).is_err() {
            qp.lose_completion();
        }
    }
}

impl Phase {
    /// What there is to answer the peer with.
    fn running(&mut self) -> Option<&mut Running> {
        match self {
            Self::Idle => None,
            Self::Running(running) => Some(running),
            Self::Flushing(running) | Self::Flushed(running) => running.as_mut(),
        }
    }
}

impl Running {
    /// Whether a packet comes from where packets may come from.
    fn expects(&self, arrival: &Arrival) -> bool {
        self.peer
            .as_ref()
            .is_none_or(|peer| peer.is_source_of(arrival))
    }

    /// Sends what is owed to the peer.
    fn transmit(&mut self, qp: &Qp, budget: u32) -> Progress {
        let (ReceiveMachine::Rc(answering), Some(peer)) = (&mut self.machine, &mut self.peer)
        else {
            return Progress::Idle;
        };
        let Answering {
            responder, saved, ..
        } = &mut **answering;
        let mut left = budget;
        while left != 0 {
            let burst = left.min(qp.throttle().burst());
            let Some(plan) = responder.poll_transmit(burst, saved) else {
                return Progress::Idle;
            };
            if let (ResponsePlan::Read(_), Err(later)) = (&plan, qp.may_send()) {
                responder.unsent(&plan, plan.psn(), saved);
                qp.wake_receive_at(later);
                return Progress::Idle;
            }
            left = left.saturating_sub(plan.count());
            match transmit::response(qp, peer, &plan) {
                Ok(()) => {
                    if let ResponsePlan::Ack { aeth, .. } = &plan {
                        if let Some(counter) = Counter::of_sent(aeth.syndrome()) {
                            qp.count(counter);
                        }
                    }
                }
                Err(transmit::Failure::Local(_)) => {
                    if let ResponsePlan::Read(read) = &plan {
                        responder.fail_read(read, saved);
                    }
                }
                Err(transmit::Failure::Unsent(psn)) => {
                    responder.unsent(&plan, psn, saved);
                    qp.wake_receive_in(UNSENT_DELAY);
                    return Progress::Idle;
                }
                Err(transmit::Failure::Missing(psn)) => {
                    responder.unsent(&plan, psn, saved);
                    return Progress::Idle;
                }
            }
        }
        Progress::Busy
    }
}

/// Some memory is missing, and has been asked for.
struct Postponed;

/// Does to memory what `task` says, unless it has to wait for some of that.
fn execute(
    qp: &Qp,
    queue: &ReceiveQueue,
    task: &Task,
    arrival: &Arrival,
) -> Result<Result<Done, ExecError>, Postponed> {
    let memory = match task.kind() {
        TaskKind::PlaceReceive { .. } | TaskKind::PlaceDatagram { .. } => queue.memory(qp),
        _ => qp.memory(),
    };
    let outcome = touch(qp, &memory, queue, task, arrival);
    match memory
        .take_missing()
        .map(|page| qp.page_in_for_receive(page))
    {
        Some(Ok(())) => Err(Postponed),
        Some(Err(Lost)) | None => Ok(outcome),
    }
}

/// Does to `memory` what `task` says.
fn touch(
    qp: &Qp,
    memory: &Memory<'_>,
    queue: &ReceiveQueue,
    task: &Task,
    arrival: &Arrival,
) -> Result<Done, ExecError> {
    let mut done = Done::default();
    match task.kind() {
        TaskKind::Nothing => (),
        TaskKind::PlaceReceive { offset, len } => memory
            .scatter(queue.sges(), offset, arrival.payload(len))
            .map_err(|_| ExecError::LocalProtection)?,
        TaskKind::PlaceDatagram { len } => memory
            .scatter_bytes(queue.sges(), &arrival.grh())
            .and_then(|()| memory.scatter(queue.sges(), GRH_LEN, arrival.payload(len)))
            .map_err(|_| ExecError::LocalProtection)?,
        TaskKind::Write {
            rkey,
            va,
            len,
            remaining,
        } => memory.write(rkey, va, remaining, arrival.payload(len))?,
        TaskKind::Read { rkey, va, len } => memory.check(rkey, Access::REMOTE_READ, va, len)?,
        TaskKind::Atomic { rkey, va, op } => done.original = memory.atomic(rkey, va, op)?,
        TaskKind::Flush(flush) => memory.flush(&flush)?,
        TaskKind::AtomicWrite { rkey, va } => {
            let payload = arrival.payload(size_of::<u64>() as u32);
            memory.atomic_write(rkey, va, payload)?;
        }
    }
    if let Some(key) = task.invalidate() {
        qp.memory()
            .invalidate(key)
            .map_err(|LocalFailed| ExecError::Invalidate)?;
    }
    Ok(done)
}

fn work_completion(qp: &Qp, queue: &ReceiveQueue, completion: &ReceiveCompletion) -> Wc {
    let extra = match (completion.imm, completion.invalidated) {
        (Some(imm), _) => Some(WcExtra::Imm(imm)),
        (None, Some(key)) => Some(WcExtra::Invalidated(key)),
        (None, None) => None,
    };
    Wc {
        byte_len: completion.byte_len,
        extra,
        solicited: completion.solicited,
        datagram: completion.source.map(|src_qp| Datagram {
            src_qp,
            pkey_index: 0,
            sl: 0,
            vlan: None,
        }),
        ..Wc::new(
            queue.wr_id(),
            completion.opcode,
            completion.status,
            qp.qpn(),
        )
    }
}

/// Passes on what the machine has to tell.
fn tell(qp: &Qp, event: Event) {
    match event {
        Event::CommunicationEstablished => return qp.tell_established(),
        Event::Failed(Failure::InvalidRequest) => qp.raise(QpEvent::RequestError),
        Event::Failed(Failure::Access) => qp.raise(QpEvent::AccessError),
        Event::Failed(Failure::Fatal) => qp.raise(QpEvent::Fatal),
        Event::Failed(Failure::Receive) => (),
    }
    qp.fail();
}
