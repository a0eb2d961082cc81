// SPDX-License-Identifier: GPL-2.0

//! Unreliable connections over links that lose and damage packets: of the messages those arrive
//! that came through whole, each once, in order and as they were sent.

use std::collections::VecDeque;

use rrxe_proto::{
    access::Access,
    mtu::PathMtu,
    psn::Psn,
    rc::{
        Action,
        Done,
        Event,
        ExecError,
        Task,
        TaskKind, //
    },
    status::{
        WcOpcode,
        WcStatus, //
    },
    time::Instant,
    uc::{
        Receiver,
        Sender, //
    },
    wire::Packet,
    Key,
    Pkey,
    Qpn, //
};
use rrxe_sim::{
    end,
    frame::Frame,
    link::{
        BurstLoss,
        Corrupt,
        Link,
        Loss,
        Patience, //
    },
    memory::{
        Memory,
        Rights, //
    },
    program::{
        Op,
        Receive,
        Work, //
    },
    queue::{
        ReceiveRing,
        SendRing, //
    },
    rng::Rng, //
};

const SCENARIOS: u64 = 5_000;
const MTU: PathMtu = PathMtu::Mtu256;
const QPN: Qpn = Qpn::GSI;
const RKEY: u32 = 0x100;
const BASE: u64 = 0x10_0000;
/// Longer messages do not fit into a receive.
const CAPACITY: u32 = 1024;
const LONGEST: u32 = 1500;
/// What is in memory that nothing was written to.
const FILL: u8 = 0xa5;

/// What the receiver's program sees of a message.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Message {
    by_write: bool,
    imm: Option<[u8; 4]>,
    len: u32,
    /// What is in the receive's memory; nothing after a WRITE.
    data: Vec<u8>,
}

/// A work, and what has become of it.
struct Plan {
    work: Work,
    /// The message can be executed if it comes through.
    permitted: bool,
    /// Packets that have not arrived.
    missing: u32,
}

struct World {
    rng: Rng,
    now: Instant,
    link: Link,
    plans: Vec<Plan>,
    sender: Sender,
    ring: SendRing,
    next_psn: Psn,
    statuses: Vec<WcStatus>,
    receiver: Receiver,
    receives: ReceiveRing,
    /// The memory of the receive in use.
    filling: Vec<u8>,
    memory: Memory,
    received: Vec<Message>,
    /// What has come through and must be received, in order.
    due: VecDeque<Message>,
}

impl World {
    fn new(seed: u64) -> Self {
        let mut rng = Rng::new(seed);
        let link = Link::new()
            .through(Loss::new(rng.pick(&[0, 20, 200]), rng.fork()))
            .through(BurstLoss::new(rng.pick(&[0, 0, 20]), 12, rng.fork()))
            .through(Corrupt::new(rng.pick(&[0, 0, 50]), rng.fork()));
        let plans: Vec<_> = (0..rng.range(1, 40))
            .map(|index| Plan::random(index, &mut rng))
            .collect();
        let psn = Psn::truncate(rng.bits() as u32);
        let mut memory = Memory::default();
        let bytes = vec![FILL; plans.len() * LONGEST as usize];
        memory.register(RKEY, BASE, bytes, Rights::ALL);
        let mut receives = ReceiveRing::default();
        let enough = plans.len() as u64;
        let posted = rng.pick(&[enough, enough, enough / 2]);
        for _ in 0..posted {
            receives.post(Receive {
                at: 0,
                capacity: CAPACITY,
                local_fault: false,
            });
        }
        Self {
            rng,
            now: Instant::from_nanos(1),
            link,
            ring: SendRing::new(plans.len() as u32),
            plans,
            sender: Sender::new(MTU, psn),
            next_psn: psn,
            statuses: Vec::new(),
            receiver: Receiver::new(MTU, psn, Access::REMOTE),
            receives,
            filling: vec![0; CAPACITY as usize],
            memory,
            received: Vec::new(),
            due: VecDeque::new(),
        }
    }

    fn run(&mut self) {
        let mut posted = 0;
        while posted < self.plans.len() {
            let batch = 1 + self.rng.below(8) as usize;
            for plan in self.plans.iter().skip(posted).take(batch) {
                self.ring
                    .store(self.sender.tail(), end::request(&plan.work));
                self.sender.post();
            }
            let first = posted;
            posted = self.plans.len().min(posted + batch);
            while self.transmit() {}
            self.complete();
            self.check_statuses(first, posted);
        }
        self.check_memory();
        let count = self.received.len();
        let due: Vec<_> = self.due.iter().take(count).cloned().collect();
        assert_eq!(self.received, due);
        // They end only because there are no more receives.
        assert!(count == self.due.len() || self.receives_are_used_up());
        let events: Vec<_> = std::iter::from_fn(|| self.receiver.poll_event()).collect();
        assert!(events
            .iter()
            .all(|event| *event == Event::CommunicationEstablished));
    }

    /// Sends one plan, or lets time pass. False if there is nothing to send.
    fn transmit(&mut self) -> bool {
        let budget = 1 + self.rng.below(6) as u32;
        let Some(plan) = self.sender.poll_transmit(self.now, budget, &self.ring) else {
            let Some(deadline) = self.sender.next_deadline() else {
                return false;
            };
            self.now = deadline;
            self.sender.on_timeout(deadline);
            return true;
        };
        assert!((1..=budget).contains(&plan.count()));
        let index = plan.wqe().get() as usize;
        if self.plans[index].work.local_fault && self.rng.chance(500) {
            self.sender.fail(plan.wqe(), WcStatus::LocalProtection);
            // How much of the plan was sent before that does not matter.
            self.next_psn = plan.psn().wrapping_add(plan.count());
            return true;
        }
        let unsent = self.rng.chance(50);
        let count = match unsent {
            true => self.rng.below(plan.count().into()) as u32,
            false => plan.count(),
        };
        for packet in plan.packets().take(count as usize) {
            assert_eq!(packet.psn, self.next_psn);
            self.next_psn = packet.psn.next();
            let span = packet.offset as usize..(packet.offset + packet.len) as usize;
            let payload = &self.plans[index].work.payload[span];
            let frame = Frame::new(0, 0, &packet.header(QPN, Pkey::DEFAULT), payload);
            self.carry(index, frame);
        }
        if unsent {
            let from = plan.psn().wrapping_add(count);
            self.sender.unsent(self.now, from, &self.ring);
        }
        true
    }

    /// Has the link carry a frame of work `index`.
    fn carry(&mut self, index: usize, frame: Frame) {
        let parcels = self.link.carry(0, frame, &mut Patience::endless());
        for parcel in parcels.iter().filter(|parcel| parcel.frame.is_intact()) {
            let plan = &mut self.plans[index];
            plan.missing -= 1;
            let is_whole = plan.missing == 0;
            if is_whole && plan.permitted && plan.work.op.takes_receive() {
                self.due.push_back(Message::of(&plan.work));
            }
            let packet = Packet::parse(parcel.frame.transport()).expect("a packet");
            assert!(!packet.headers().bth().ack_request());
            self.take_in(&packet);
        }
    }

    fn take_in(&mut self, packet: &Packet<'_>) {
        let action = self
            .receiver
            .on_request(packet.headers(), &mut self.receives);
        let Action::Execute(task) = action else {
            return;
        };
        let outcome = self.execute(&task, packet.payload());
        let Some(done) = self.receiver.commit(task, outcome) else {
            return;
        };
        assert_eq!(done.status, WcStatus::Success);
        let by_write = done.opcode == WcOpcode::ReceiveRdmaWithImm;
        let placed = if by_write { 0 } else { done.byte_len as usize };
        self.received.push(Message {
            by_write,
            imm: done.imm.map(|imm| imm.0),
            len: done.byte_len,
            data: self.filling[..placed].to_vec(),
        });
    }

    fn execute(&mut self, task: &Task, payload: &[u8]) -> Result<Done, ExecError> {
        match task.kind() {
            TaskKind::Nothing => {}
            TaskKind::PlaceReceive { offset, len } => {
                let place = &mut self.filling[offset as usize..][..len as usize];
                place.copy_from_slice(payload);
            }
            TaskKind::Write {
                rkey: Key(rkey),
                va,
                len,
                remaining,
            } => {
                let place = self
                    .memory
                    .slice_mut(rkey, va, remaining.into(), |rights| rights.write)
                    .map_err(|_| ExecError::RemoteAccess)?;
                place[..len as usize].copy_from_slice(payload);
            }
            other => panic!("{other:?}"),
        }
        Ok(Done::default())
    }

    /// Takes completions, and brings the send queue back from state SQE.
    fn complete(&mut self) {
        let mut stalled = false;
        while let Some(done) = self.sender.poll_completion(&self.ring) {
            assert_eq!(done.wqe.get() as usize, self.statuses.len());
            self.ring.release(done.wqe);
            stalled |= done.status == WcStatus::LocalProtection;
            self.statuses.push(done.status);
        }
        if stalled {
            self.sender.restart();
        }
    }

    /// Works `first..end`, which were posted together, succeed up to one that fails.
    fn check_statuses(&self, first: usize, end: usize) {
        assert_eq!(self.statuses.len(), end);
        let statuses = &self.statuses[first..];
        let good = statuses
            .iter()
            .take_while(|status| **status == WcStatus::Success)
            .count();
        if let Some((status, flushed)) = statuses[good..].split_first() {
            assert!(self.plans[first + good].work.local_fault);
            assert_eq!(*status, WcStatus::LocalProtection);
            assert!(flushed.iter().all(|status| *status == WcStatus::WrFlush));
        }
    }

    /// What is written is right, and of a message that came through it is all there.
    fn check_memory(&self) {
        let region = self.memory.region(RKEY).expect("the region");
        for (plan, place) in self.plans.iter().zip(region.bytes.chunks(LONGEST as usize)) {
            let (inside, outside) = place.split_at(plan.work.len as usize);
            assert!(outside.iter().all(|byte| *byte == FILL));
            let written = plan.permitted && plan.work.op.is_write();
            for (byte, sent) in inside.iter().zip(&plan.work.payload) {
                assert!(*byte == FILL || (written && byte == sent));
            }
            // Without a receive the last packet of a WRITE with immediate is not executed.
            if written && plan.missing == 0 && !plan.work.op.takes_receive() {
                assert_eq!(inside, plan.work.payload);
            }
        }
    }

    fn receives_are_used_up(&mut self) -> bool {
        use rrxe_proto::rc::{ReceiveSource, Take};
        self.receives.take() == Take::Empty
    }
}

impl Plan {
    fn random(index: u64, rng: &mut Rng) -> Self {
        let refused = rng.chance(50);
        let (va, rkey) = (BASE + index * u64::from(LONGEST), RKEY + u32::from(refused));
        let imm = rng.bytes(4).try_into().expect("four bytes");
        let op = rng.pick(&[
            Op::Send,
            Op::SendImm(imm),
            Op::Write { va, rkey },
            Op::WriteImm { va, rkey, imm },
        ]);
        let any = rng.below(u64::from(LONGEST) + 1) as u32;
        let len = rng.pick(&[0, 1, 255, 256, 257, 512, 1024, any, any, any]);
        let work = Work {
            local_fault: rng.chance(50),
            payload: rng.bytes(len as usize),
            ..Work::new(op, len)
        };
        Self {
            permitted: match op.is_send() {
                true => len <= CAPACITY,
                // Without bytes there is no access.
                false => !refused || len == 0,
            },
            missing: MTU.packets(len),
            work,
        }
    }
}

impl Message {
    fn of(work: &Work) -> Self {
        let (by_write, imm) = match work.op {
            Op::SendImm(imm) => (false, Some(imm)),
            Op::WriteImm { imm, .. } => (true, Some(imm)),
            _ => (false, None),
        };
        Self {
            by_write,
            imm,
            len: work.len,
            data: if by_write {
                Vec::new()
            } else {
                work.payload.clone()
            },
        }
    }
}

// PROTOCOL rules 11, 13 and 17, requirements 7, 11, 14 and 15.
#[test]
fn what_comes_through_whole_arrives_once_and_in_order() {
    let (mut sent, mut received, mut failed) = (0, 0, 0);
    for seed in 1..=SCENARIOS {
        let mut world = World::new(seed);
        println!("seed {seed}");
        world.run();
        sent += world.plans.len();
        received += world.received.len();
        failed += world
            .statuses
            .iter()
            .filter(|status| **status == WcStatus::LocalProtection)
            .count();
    }
    assert!(
        received > sent / 8 && failed > 0,
        "{sent} sent, {received} received, {failed} failed"
    );
}
