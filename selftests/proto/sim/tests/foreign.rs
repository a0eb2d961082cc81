// SPDX-License-Identifier: GPL-2.0

//! The requester against responders that are not this engine: written from the rules alone, and with
//! habits that are legal or at least common in the field.

use std::collections::{
    HashMap,
    HashSet,
    VecDeque, //
};

use rrxe_proto::{
    mtu::PathMtu,
    opcode::Position,
    psn::{
        Msn,
        Psn, //
    },
    rc::{
        Placement,
        Requester,
        Response, //
    },
    status::{
        NakCode,
        WcStatus, //
    },
    time::Instant,
    timers::RnrTimer,
    wire::{
        Aeth,
        AtomicAckEth,
        HeaderBuf,
        HeaderSpec,
        Headers,
        Kind,
        RcRequest,
        RcResponse,
        ReadResponsePart,
        Syndrome, //
    },
    Pkey,
    Qpn, //
};
use rrxe_sim::{
    agenda::{
        Nanos,
        MICROSECOND, //
    },
    end,
    program::{
        Op,
        Settings,
        Work, //
    },
    queue::SendRing,
    rng::Rng,
};

const MTU: PathMtu = PathMtu::Mtu256;
const LATENCY: Nanos = 10 * MICROSECOND;

/// What a responder is used to do.
#[derive(Clone, Copy, Debug)]
struct Habits {
    /// A sequence NAK for each packet after a gap, not only the first.
    naks_each: bool,
    /// An ACK for each packet, asked for or not.
    acks_each: bool,
    /// A READ that is asked for again from its middle goes on with a MIDDLE packet.
    resumes_reads: bool,
    /// Of a thousand new SENDs, so many find no receive.
    rnr_per_mille: u32,
}

/// A plain responder.
struct Foreign {
    habits: Habits,
    first: u32,
    /// The packet that is due, counted from the first.
    expected: u32,
    msn: u32,
    naked: bool,
    /// What atomics found, by packet.
    found: HashMap<u32, u64>,
    rng: Rng,
}

impl Foreign {
    fn psn(&self, at: u32) -> Psn {
        Psn::truncate(self.first.wrapping_add(at))
    }

    fn response(&self, at: u32, kind: RcResponse, len: u32) -> Headers {
        let spec = HeaderSpec::new(Kind::RcResponse(kind), Qpn::GSI, self.psn(at));
        received(&spec, len)
    }

    fn say(&self, at: u32, syndrome: Syndrome) -> Headers {
        let aeth = Aeth::new(syndrome, Msn::truncate(self.msn));
        self.response(at, RcResponse::Acknowledge(aeth), 0)
    }

    fn read(&self, at: u32, len: u32, resumed: bool, out: &mut Vec<Headers>) {
        let count = MTU.packets(len);
        for i in 0..count {
            let aeth = Aeth::new(Syndrome::ACK, Msn::truncate(self.msn));
            let position = match Position::of(i, count) {
                Position::First if resumed => Position::Middle,
                Position::Only if resumed => Position::Last,
                position => position,
            };
            let part = ReadResponsePart::new(position, aeth);
            let len = MTU.payload_of(i, len);
            out.push(self.response(at + i, RcResponse::Read(part), len));
        }
    }

    fn on_request(&mut self, headers: &Headers) -> Vec<Headers> {
        let Kind::RcRequest(request) = headers.kind() else {
            panic!("not a request");
        };
        let at = headers.psn().offset_from(self.psn(0));
        let mut out = Vec::new();
        let new = at == self.expected;
        if at > self.expected {
            if self.habits.naks_each || !self.naked {
                self.naked = true;
                out.push(self.say(self.expected, Syndrome::Nak(NakCode::Sequence)));
            }
            return out;
        }
        self.naked &= !new;
        match request {
            RcRequest::Read(reth) => {
                if new {
                    self.msn += 1;
                    self.expected += MTU.packets(reth.dma_len());
                }
                let resumed = !new && self.habits.resumes_reads && reth.va() != 0;
                self.read(at, reth.dma_len(), resumed, &mut out);
            }
            RcRequest::FetchAdd(_) => {
                if new {
                    self.msn += 1;
                    self.expected += 1;
                    self.found.insert(at, u64::from(at) * 3);
                }
                let aeth = Aeth::new(Syndrome::ACK, Msn::truncate(self.msn));
                let original = AtomicAckEth::new(self.found[&at]);
                out.push(self.response(at, RcResponse::AtomicAcknowledge(aeth, original), 0));
            }
            _ if new && self.rng.chance(self.habits.rnr_per_mille) => {
                out.push(self.say(at, Syndrome::RnrNak(RnrTimer::truncate(1))));
            }
            _ => {
                if new {
                    self.expected += 1;
                    self.msn += u32::from(headers.info().position.ends());
                }
                if !new || headers.ack_request() || self.habits.acks_each {
                    out.push(self.say(self.expected - 1, Syndrome::ACK));
                }
            }
        }
        out
    }
}

fn received(spec: &HeaderSpec, payload_len: u32) -> Headers {
    let buf = HeaderBuf::new(spec, payload_len);
    Headers::parse(buf.as_bytes(), buf.packet_len()).expect("a packet")
}

fn any_work(rng: &mut Rng) -> Work {
    let (va, rkey) = (0, 1);
    let op = match rng.below(4) {
        0 => Op::Send,
        1 => Op::Write { va, rkey },
        2 => Op::FetchAdd { va, rkey, add: 1 },
        _ => Op::Read { va, rkey },
    };
    let len = rng.pick(&[0, 1, 256, 257, 700, 3000]);
    Work {
        fence: rng.chance(100),
        ..Work::new(op, len)
    }
}

/// Runs works against a responder over a link that loses some packets of each direction.
fn meet(seed: u64, habits: Habits, loss_per_mille: u32) {
    let mut rng = Rng::new(seed);
    let settings = Settings {
        psn: 0x100_0000 - rng.below(60) as u32 - 1,
        window_packets: rng.pick(&[2, 8, 64]),
        max_rd_atomic: rng.pick(&[1, 4, 16]),
        ..Settings::PLAIN
    };
    let first = Psn::truncate(settings.psn);
    let mut requester = Requester::new(MTU, first, end::config(&settings));
    let works: Vec<Work> = (0..12).map(|_| any_work(&mut rng)).collect();
    let mut ring = SendRing::new(works.len() as u32);
    let mut ends = Vec::new();
    let mut packets = 0;
    for work in &works {
        ring.store(requester.tail(), end::request(work));
        requester.post();
        packets += if work.op.is_atomic() {
            1
        } else {
            MTU.packets(work.len)
        };
        ends.push(packets);
    }
    let mut foreign = Foreign {
        habits,
        first: settings.psn,
        expected: 0,
        msn: 0,
        naked: false,
        found: HashMap::new(),
        rng: rng.fork(),
    };
    let mut placed = vec![0u64; works.len()];
    let mut offsets = HashSet::new();
    let mut completed = 0;
    let mut now = 0;
    let (mut there, mut back) = (VecDeque::new(), VecDeque::new());
    for _ in 0..200_000 {
        let time = Instant::from_nanos(now);
        if requester.next_deadline().is_some_and(|due| due <= time) {
            requester.on_timeout(time);
        }
        while let Some(plan) = requester.poll_transmit(time, 4, &ring) {
            for packet in plan.packets() {
                if !rng.chance(loss_per_mille) {
                    let spec = packet.header(Qpn::GSI, Pkey::DEFAULT);
                    there.push_back((now + LATENCY, received(&spec, packet.len)));
                }
            }
        }
        while there.front().is_some_and(|(at, _)| *at <= now) {
            let (_, headers) = there.pop_front().expect("a packet");
            for response in foreign.on_request(&headers) {
                if !rng.chance(loss_per_mille) {
                    back.push_back((now + LATENCY, response));
                }
            }
        }
        while back
            .front()
            .is_some_and(|(at, _): &(Nanos, Headers)| *at <= now)
        {
            let (_, headers) = back.pop_front().expect("a packet");
            let response = Response::from_headers(&headers).expect("a response");
            match requester.on_response(time, &response, &ring) {
                Placement::Read { wqe, offset, len } => {
                    let placed = &mut placed[wqe.get() as usize];
                    assert!(offsets.insert((wqe, offset)), "seed {seed}: placed twice");
                    *placed += u64::from(len);
                }
                Placement::Atomic { wqe, original } => {
                    let at = ends[wqe.get() as usize] - 1;
                    assert_eq!(original, u64::from(at) * 3, "seed {seed}");
                    placed[wqe.get() as usize] = 8;
                }
                Placement::None | Placement::Dropped(_) => {}
            }
        }
        while let Some(done) = requester.poll_completion(&ring) {
            assert_eq!(
                done.status,
                WcStatus::Success,
                "seed {seed}, {habits:?}, work {completed}"
            );
            assert_eq!(done.wqe.get() as usize, completed);
            assert!(
                foreign.expected >= ends[completed],
                "seed {seed}: too early"
            );
            if works[completed].op.takes_credit() {
                assert_eq!(
                    placed[completed],
                    u64::from(works[completed].len),
                    "seed {seed}"
                );
            }
            completed += 1;
        }
        if completed == works.len() {
            return;
        }
        now += 2 * MICROSECOND;
    }
    panic!(
        "seed {seed}, {habits:?}: {completed} of {} works done",
        works.len()
    );
}

fn all_habits() -> impl Iterator<Item = Habits> {
    (0..16).map(|bits| Habits {
        naks_each: bits & 1 != 0,
        acks_each: bits & 2 != 0,
        resumes_reads: bits & 4 != 0,
        rnr_per_mille: if bits & 8 != 0 { 200 } else { 0 },
    })
}

#[test]
fn every_habit_over_a_perfect_link() {
    for habits in all_habits() {
        for seed in 0..50 {
            meet(seed, habits, 0);
        }
    }
}

#[test]
fn every_habit_over_a_link_with_loss() {
    for habits in all_habits() {
        for seed in 0..50 {
            meet(seed, habits, 50);
        }
    }
}
