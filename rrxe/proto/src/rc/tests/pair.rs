// SPDX-License-Identifier: GPL-2.0

//! Both sides over a link that loses, copies and reorders, with the bytes that they move.

use core::time::Duration;

use proptest::prelude::*;

use super::{headers, psn, Queue, QPN};
use crate::{
    access::Access,
    key::{Imm, Key, Pkey},
    mtu::PathMtu,
    rc::{
        Action,
        AtomicOp,
        Done,
        Flush,
        Local,
        Operation,
        Placement,
        ReceiveConfig,
        ReceiveSource,
        Request,
        RequestFlags,
        Requester,
        Responder,
        Response,
        ResponsePlan,
        RetryLimit,
        Saved,
        SendConfig,
        Take,
        TaskKind,
        Window,
        WqeSeq, //
    },
    status::WcStatus,
    time::Instant,
    timers::{AckTimeout, RnrTimer},
    wire::{self, HeaderSpec, Headers, Selectivity}, //
};

const KEY: Key = Key(7);
const DEPTH: u8 = 3;
const MEMORY: usize = 1 << 14;

/// What the link does to one packet in 256, or so many.
#[derive(Clone, Copy, Debug)]
struct Faults {
    lose: u8,
    copy: u8,
    delay: u8,
    /// Of the sender: a packet could not be sent.
    unsent: u8,
    /// Of the receiver: no receive is posted.
    unready: u8,
    /// Of the receiver: there is no room to keep a packet.
    unkept: u8,
}

#[derive(Clone, Copy, Debug)]
enum Verb {
    Send,
    SendImm,
    Write,
    WriteImm,
    Read,
    FetchAdd,
    AtomicWrite,
    Flush,
    Local,
}

#[derive(Clone, Copy, Debug)]
struct Work {
    verb: Verb,
    len: u32,
    fence: bool,
}

struct Rng(u64);

impl Rng {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 >> 11
    }

    fn happens(&mut self, odds: u8) -> bool {
        (self.next() & 0xff) < odds.into()
    }
}

struct Packet {
    headers: Headers,
    payload: Vec<u8>,
}

struct Receives {
    unready: bool,
    taken: usize,
}

impl ReceiveSource for Receives {
    fn take(&mut self) -> Take {
        if self.unready {
            return Take::Empty;
        }
        self.taken += 1;
        Take::Taken {
            capacity: MEMORY as u64,
        }
    }
}

/// A link in one direction: packets in the order of their arrival.
#[derive(Default)]
struct Link(Vec<Packet>);

impl Link {
    fn carry(&mut self, packet: &Packet, faults: Faults, rng: &mut Rng) {
        let copies = match (rng.happens(faults.lose), rng.happens(faults.copy)) {
            (true, _) => 0,
            (false, copied) => 1 + usize::from(copied),
        };
        for _ in 0..copies {
            let packet = Packet {
                headers: packet.headers,
                payload: packet.payload.clone(),
            };
            if rng.happens(faults.delay) && !self.0.is_empty() {
                let at = rng.next() as usize % self.0.len();
                self.0.insert(at, packet);
            } else {
                self.0.push(packet);
            }
        }
    }
}

struct World {
    now: Instant,
    rng: Rng,
    faults: Faults,
    requester: Requester,
    queue: Queue,
    /// Local memory by work request.
    local: Vec<Vec<u8>>,
    responder: Responder,
    saved: Vec<Saved>,
    receives: Receives,
    kept: Vec<Option<Packet>>,
    /// Memory that the requester writes and reads.
    remote: Vec<u8>,
    /// What fills the receive in use, and those that are complete.
    filling: Vec<u8>,
    received: Vec<(Vec<u8>, Option<Imm>)>,
    atomics: u64,
    flushed: Vec<u64>,
    /// Local operations that were carried out.
    locals: Vec<WqeSeq>,
    there: Link,
    back: Link,
    done: Vec<WcStatus>,
}

fn pattern(seed: usize, len: u32) -> Vec<u8> {
    (0..len as usize)
        .map(|i| (seed.wrapping_mul(31) ^ i ^ (i >> 8)) as u8)
        .collect()
}

impl World {
    fn new(work: &[Work], first: u32, faults: Faults, seed: u64) -> Self {
        let mtu = PathMtu::Mtu256;
        let config = SendConfig {
            timeout: AckTimeout::new(4).unwrap(),
            retry: RetryLimit::Infinite,
            rnr_retry: RetryLimit::from_rnr_retry(7),
            max_rd_atomic: DEPTH,
            window: Window {
                bytes: 4096,
                packets: 13,
            },
        };
        let mut world = Self {
            now: Instant::from_nanos(1),
            rng: Rng(seed | 1),
            faults,
            requester: Requester::new(mtu, psn(first), config),
            queue: Queue(Vec::new()),
            local: Vec::new(),
            responder: Responder::new(
                mtu,
                psn(first),
                ReceiveConfig {
                    max_dest_rd_atomic: DEPTH,
                    min_rnr_timer: RnrTimer::truncate(1),
                    access: Access::REMOTE,
                },
            ),
            saved: vec![Saved::EMPTY; DEPTH.into()],
            receives: Receives {
                unready: false,
                taken: 0,
            },
            kept: (0..Responder::PLACES).map(|_| None).collect(),
            remote: pattern(1, MEMORY as u32),
            filling: Vec::new(),
            received: Vec::new(),
            atomics: 0,
            flushed: Vec::new(),
            locals: Vec::new(),
            there: Link::default(),
            back: Link::default(),
            done: Vec::new(),
        };
        for (seq, work) in work.iter().enumerate() {
            world.post(seq, *work);
        }
        world
    }

    /// Each request has a place of its own in remote memory if there is room.
    fn va(seq: usize, len: u32) -> u64 {
        (seq * 997 % (MEMORY - len as usize)) as u64
    }

    fn aligned_va(seq: usize) -> u64 {
        Self::va(seq, 8) & !7
    }

    fn post(&mut self, seq: usize, work: Work) {
        let len = match work.verb {
            Verb::FetchAdd | Verb::AtomicWrite => 8,
            Verb::Flush | Verb::Local => 0,
            _ => work.len,
        };
        let (va, rkey) = (Self::va(seq, work.len), KEY);
        let imm = Imm((seq as u32).to_be_bytes());
        let operation = match work.verb {
            Verb::Send => Operation::Send,
            Verb::SendImm => Operation::SendImm(imm),
            Verb::Write => Operation::Write { va, rkey },
            Verb::WriteImm => Operation::WriteImm { va, rkey, imm },
            Verb::Read => Operation::Read { va, rkey },
            Verb::FetchAdd => Operation::FetchAdd {
                va: 0,
                rkey,
                add: 1,
            },
            Verb::AtomicWrite => Operation::AtomicWrite {
                va: Self::aligned_va(seq),
                rkey,
            },
            Verb::Flush => Operation::Flush(Flush {
                rkey,
                va: seq as u64,
                len: work.len,
                placement: wire::Placement::GLOBAL,
                selectivity: Selectivity::Range,
            }),
            Verb::Local => Operation::Local(Local::Invalidate(rkey)),
        };
        self.local.push(match work.verb {
            Verb::Read | Verb::FetchAdd => vec![0; len as usize],
            _ => pattern(seq, len),
        });
        let flags = RequestFlags {
            signaled: true,
            solicited: false,
            fence: work.fence,
        };
        self.queue
            .0
            .push(Request::new(operation, len, flags).unwrap());
        self.requester.post();
    }

    fn transmit_requests(&mut self) -> bool {
        if let Some(task) = self.requester.poll_local(&self.queue) {
            // It waits for all before it.
            self.poll_completions();
            assert_eq!(task.wqe().get() as usize, self.done.len());
            self.locals.push(task.wqe());
            self.requester.commit_local(task, Ok(()), &self.queue);
            return true;
        }
        let max = 1 + (self.rng.next() % 8) as u32;
        let Some(plan) = self.requester.poll_transmit(self.now, max, &self.queue) else {
            return false;
        };
        for packet in plan.packets() {
            if self.rng.happens(self.faults.unsent) {
                self.requester.unsent(self.now, packet.psn, &self.queue);
                break;
            }
            let memory = &self.local[plan.wqe().get() as usize];
            let start = packet.offset as usize;
            let payload = match packet.len {
                0 => Vec::new(),
                len => memory[start..start + len as usize].to_vec(),
            };
            let spec = packet.header(QPN, Pkey::DEFAULT);
            self.emit(&spec, payload, Direction::There);
        }
        true
    }

    fn transmit_responses(&mut self) -> bool {
        let max = 1 + (self.rng.next() % 8) as u32;
        let Some(plan) = self.responder.poll_transmit(max, &mut self.saved) else {
            return false;
        };
        for packet in plan.packets() {
            if self.rng.happens(self.faults.unsent) {
                self.responder.unsent(&plan, packet.psn, &mut self.saved);
                break;
            }
            let payload = match &plan {
                ResponsePlan::Read(reply) => {
                    let start = reply.va() as usize + packet.offset as usize;
                    self.remote[start..start + packet.len as usize].to_vec()
                }
                _ => Vec::new(),
            };
            let spec = packet.header(QPN, Pkey::DEFAULT);
            self.emit(&spec, payload, Direction::Back);
        }
        true
    }

    fn emit(&mut self, spec: &HeaderSpec, payload: Vec<u8>, direction: Direction) {
        let packet = Packet {
            headers: headers(spec, payload.len() as u32),
            payload,
        };
        let link = match direction {
            Direction::There => &mut self.there,
            Direction::Back => &mut self.back,
        };
        link.carry(&packet, self.faults, &mut self.rng);
    }

    fn receive_request(&mut self) -> bool {
        if self.there.0.is_empty() {
            return false;
        }
        let packet = self.there.0.remove(0);
        self.take_in(packet);
        while let Some(place) = self.responder.poll_kept() {
            let packet = self.kept[place].take().unwrap();
            self.take_in(packet);
        }
        true
    }

    fn take_in(&mut self, packet: Packet) {
        self.receives.unready = self.rng.happens(self.faults.unready);
        let action =
            self.responder
                .on_request(&packet.headers, &mut self.receives, &mut self.saved);
        let task = match action {
            Action::Execute(task) => task,
            // There is no room for some.
            Action::Keep(keep) if !self.rng.happens(self.faults.unkept) => {
                assert!(self.kept[keep.place()].replace(packet).is_none());
                return self.responder.keep(keep);
            }
            Action::Keep(_) | Action::None | Action::Repeated | Action::Dropped(_) => return,
        };
        let mut done = Done::default();
        match task.kind() {
            TaskKind::Nothing => (),
            TaskKind::PlaceReceive { offset, len } => {
                assert_eq!(self.filling.len(), offset as usize);
                assert_eq!(packet.payload.len(), len as usize);
                self.filling.extend(&packet.payload);
            }
            TaskKind::PlaceDatagram { .. } => panic!("a datagram on a connection"),
            TaskKind::Write { rkey, va, len, .. } => {
                assert_eq!((rkey, len as usize), (KEY, packet.payload.len()));
                self.remote[va as usize..][..len as usize].copy_from_slice(&packet.payload);
            }
            TaskKind::Read { rkey, .. } => assert_eq!(rkey, KEY),
            TaskKind::Atomic { op, .. } => {
                assert_eq!(op, AtomicOp::FetchAdd { add: 1 });
                done.original = self.atomics;
                self.atomics += 1;
            }
            TaskKind::AtomicWrite { rkey, va } => {
                assert_eq!((rkey, packet.payload.len()), (KEY, 8));
                self.remote[va as usize..][..8].copy_from_slice(&packet.payload);
            }
            TaskKind::Flush(flush) => self.flushed.push(flush.va),
        }
        if let Some(done) = self.responder.commit(task, Ok(done), &mut self.saved) {
            assert_eq!(done.status, WcStatus::Success);
            let bytes = core::mem::take(&mut self.filling);
            self.received.push((bytes, done.imm));
        }
    }

    fn receive_response(&mut self) -> bool {
        if self.back.0.is_empty() {
            return false;
        }
        let packet = self.back.0.remove(0);
        let response = Response::from_headers(&packet.headers).unwrap();
        match self.requester.on_response(self.now, &response, &self.queue) {
            Placement::Read { wqe, offset, len } => {
                assert_eq!(len as usize, packet.payload.len());
                self.local[wqe.get() as usize][offset as usize..][..len as usize]
                    .copy_from_slice(&packet.payload);
            }
            Placement::Atomic { wqe, original } => {
                self.local[wqe.get() as usize].copy_from_slice(&original.to_le_bytes());
            }
            Placement::None | Placement::Dropped(_) => (),
        }
        true
    }

    fn poll_completions(&mut self) {
        while let Some(done) = self.requester.poll_completion(&self.queue) {
            assert_eq!(done.wqe.get() as usize, self.done.len());
            self.done.push(done.status);
        }
    }

    /// Runs until all is done.
    fn run(&mut self) {
        for _ in 0..200_000 {
            if self.done.len() == self.queue.0.len() {
                return;
            }
            let busy = match self.rng.next() % 4 {
                0 => self.transmit_requests(),
                1 => self.transmit_responses(),
                2 => self.receive_request(),
                _ => self.receive_response(),
            };
            self.now = self.now.saturating_add(Duration::from_nanos(100));
            self.poll_completions();
            if self
                .requester
                .next_deadline()
                .is_some_and(|at| at <= self.now)
            {
                self.requester.on_timeout(self.now);
            }
            if !busy && self.done.len() < self.queue.0.len() && self.is_idle() {
                let at = self.requester.next_deadline();
                self.now = at.expect("work is left and nothing will happen");
            }
        }
        panic!("no end: {:?}", self.requester);
    }

    fn is_idle(&mut self) -> bool {
        !self.transmit_requests()
            && !self.transmit_responses()
            && self.there.0.is_empty()
            && self.back.0.is_empty()
    }
}

#[derive(Clone, Copy)]
enum Direction {
    There,
    Back,
}

fn any_work() -> impl Strategy<Value = Work> {
    let verb = prop_oneof![
        Just(Verb::Send),
        Just(Verb::SendImm),
        Just(Verb::Write),
        Just(Verb::WriteImm),
        Just(Verb::Read),
        Just(Verb::FetchAdd),
        Just(Verb::AtomicWrite),
        Just(Verb::Flush),
        Just(Verb::Local),
    ];
    let len = prop_oneof![0u32..4, 250u32..260, 0u32..3000, Just(512), Just(8000)];
    (verb, len, prop::bool::weighted(0.2)).prop_map(|(verb, len, fence)| Work { verb, len, fence })
}

fn any_faults() -> impl Strategy<Value = Faults> {
    (0u8..60, 0u8..40, 0u8..40, 0u8..40, 0u8..60, 0u8..100).prop_map(
        |(lose, copy, delay, unsent, unready, unkept)| Faults {
            lose,
            copy,
            delay,
            unsent,
            unready,
            unkept,
        },
    )
}

proptest! {
    #[test]
    fn all_arrives_once_and_in_order(
        work in prop::collection::vec(any_work(), 1..40),
        first in prop_oneof![Just(0xff_fff0u32), 0..=0xff_ffffu32],
        faults in any_faults(),
        seed: u64,
    ) {
        let mut world = World::new(&work, first, faults, seed);
        world.run();
        prop_assert!(world.done.iter().all(|status| *status == WcStatus::Success));

        // What should have happened, one request after the other.
        let mut remote = pattern(1, MEMORY as u32);
        let mut received = Vec::new();
        let mut atomics = 0u64;
        let (mut flushed, mut locals) = (Vec::new(), Vec::new());
        for (seq, work) in work.iter().enumerate() {
            let imm = Imm((seq as u32).to_be_bytes());
            let bytes = pattern(seq, work.len);
            let va = World::va(seq, work.len) as usize;
            let range = va..va + work.len as usize;
            match work.verb {
                Verb::Send => received.push((bytes, None)),
                Verb::SendImm => received.push((bytes, Some(imm))),
                Verb::Write => remote[range].copy_from_slice(&bytes),
                Verb::WriteImm => {
                    remote[range].copy_from_slice(&bytes);
                    received.push((Vec::new(), Some(imm)));
                }
                Verb::Read => {
                    // Later writes may be seen by a READ that is executed again.
                    if !overlaps_later_write(&world, seq) {
                        prop_assert_eq!(&world.local[seq], &remote[range]);
                    }
                }
                Verb::FetchAdd => {
                    prop_assert_eq!(&world.local[seq], &atomics.to_le_bytes());
                    atomics += 1;
                }
                Verb::AtomicWrite => {
                    let va = World::aligned_va(seq) as usize;
                    remote[va..va + 8].copy_from_slice(&pattern(seq, 8));
                }
                Verb::Flush => flushed.push(seq as u64),
                Verb::Local => locals.push(seq as u32),
            }
        }
        prop_assert_eq!(flushed, world.flushed);
        let done: Vec<u32> = world.locals.iter().map(|wqe| wqe.get()).collect();
        prop_assert_eq!(locals, done);
        prop_assert_eq!(atomics, world.atomics);
        prop_assert_eq!(received.len(), world.receives.taken);
        prop_assert_eq!(received, world.received);
        prop_assert!(remote == world.remote);
        prop_assert_eq!(world.requester.next_deadline(), None);
    }
}

/// Whether a WRITE posted after the READ `seq` touches what that reads.
fn overlaps_later_write(world: &World, seq: usize) -> bool {
    let range_of = |request: &Request| match request.operation() {
        Operation::Read { va, .. }
        | Operation::Write { va, .. }
        | Operation::WriteImm { va, .. }
        | Operation::AtomicWrite { va, .. } => Some((va, va + u64::from(request.len()))),
        _ => None,
    };
    let Some((start, end)) = range_of(&world.queue.0[seq]) else {
        return false;
    };
    world.queue.0[seq + 1..]
        .iter()
        .filter(|request| !matches!(request.operation(), Operation::Read { .. }))
        .filter_map(range_of)
        .any(|(from, to)| from < end && start < to)
}
