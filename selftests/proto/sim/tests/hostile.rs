// SPDX-License-Identifier: GPL-2.0

//! Peers that send what they like: requests into a responder, responses into a requester. Nothing
//! panics, nothing that is not so is reported as done, and the machine stays one that makes sense.

use std::collections::HashSet;

use rrxe_proto::{
    mtu::PathMtu,
    psn::{
        Msn,
        Psn, //
    },
    rc::{
        Action,
        Completion,
        Done,
        Event,
        ExecError,
        Placement,
        ReceiveConfig,
        ReceiveSource,
        Requester,
        Responder,
        Response,
        ResponsePlan,
        Saved,
        Take,
        TaskKind, //
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
        AtomicEth,
        Credits,
        Feth,
        HeaderBuf,
        HeaderSpec,
        Headers,
        Kind,
        ParseError,
        Placement as FlushPlacement,
        RcRequest,
        RcResponse,
        ReadResponsePart,
        Reth,
        Selectivity,
        SendEnd,
        SendPart,
        Syndrome,
        WritePart, //
    },
    Access,
    Imm,
    Key,
    Qpn, //
};
use rrxe_sim::{
    end,
    program::{
        Op,
        Settings,
        Work, //
    },
    queue::SendRing,
    rng::Rng, //
};

const MTU: PathMtu = PathMtu::Mtu256;

/// A packet with the given headers and payload length, as it is read back after some of its bits
/// have been turned, once in a while. The ICRC is not part of this.
fn as_received(rng: &mut Rng, spec: &HeaderSpec, payload_len: u32) -> Result<Headers, ParseError> {
    let buf = HeaderBuf::new(spec, payload_len);
    let mut bytes = buf.as_bytes().to_vec();
    if rng.chance(150) {
        for _ in 0..rng.range(1, 3) {
            let at = rng.below(bytes.len() as u64) as usize;
            // What is turned in the PSN makes most packets fall outside the window.
            if !(9..12).contains(&at) {
                bytes[at] ^= 1 << rng.below(8);
            }
        }
    }
    let mut total = buf.packet_len();
    if rng.chance(50) {
        total = rng.below(total as u64 + 300) as usize;
    }
    Headers::parse(&bytes, total)
}

fn length(rng: &mut Rng) -> u32 {
    match rng.below(8) {
        0 => 0,
        1 => rng.below(256) as u32,
        2 => 257 + rng.below(4000) as u32,
        _ => 256,
    }
}

fn reth(rng: &mut Rng) -> Reth {
    let va = rng.pick(&[0, 0x1000, u64::MAX, u64::MAX - 300, 0x7fff_ffff_ffff_fff0]);
    let len = match rng.below(6) {
        0 => rng.bits() as u32,
        1 => 1 << 31,
        2 => (1 << 31) + 1,
        3 => 0,
        _ => rng.below(2000) as u32,
    };
    Reth::new(va, Key(rng.below(3) as u32), len)
}

fn send_end(rng: &mut Rng) -> SendEnd {
    match rng.below(3) {
        0 => SendEnd::Plain,
        1 => SendEnd::Imm(Imm([1, 2, 3, 4])),
        _ => SendEnd::Invalidate(Key(7)),
    }
}

fn any_request(rng: &mut Rng) -> RcRequest {
    let imm = rng.chance(500).then_some(Imm([4, 3, 2, 1]));
    let va = 0x1000 + rng.below(64);
    let key = Key(rng.below(3) as u32);
    match rng.below(14) {
        0 | 1 => RcRequest::Send(SendPart::First),
        2 | 3 => RcRequest::Send(SendPart::Middle),
        4 => RcRequest::Send(SendPart::Last(send_end(rng))),
        5 => RcRequest::Send(SendPart::Only(send_end(rng))),
        6 => RcRequest::Write(WritePart::First(reth(rng))),
        7 => RcRequest::Write(WritePart::Middle),
        8 => RcRequest::Write(WritePart::Last(imm)),
        9 => RcRequest::Write(WritePart::Only(reth(rng), imm)),
        10 => RcRequest::Read(reth(rng)),
        11 => RcRequest::CompareSwap(AtomicEth::compare_swap(va, key, rng.bits(), 1)),
        12 => RcRequest::FetchAdd(AtomicEth::fetch_add(va & !7, key, rng.bits())),
        _ if rng.chance(500) => RcRequest::AtomicWrite(reth(rng)),
        _ => RcRequest::Flush(
            Feth::new(FlushPlacement::GLOBAL, Selectivity::Range),
            reth(rng),
        ),
    }
}

/// Receives without end, of any size; sometimes none, sometimes a bad one.
struct AnyReceives {
    rng: Rng,
    capacity: u64,
    taken: u32,
}

impl ReceiveSource for AnyReceives {
    fn take(&mut self) -> Take {
        if self.rng.chance(100) {
            return Take::Empty;
        }
        self.taken += 1;
        if self.rng.chance(20) {
            return Take::Invalid(WcStatus::LocalProtection);
        }
        self.capacity = self.rng.pick(&[0, 100, 256, 1000, 1 << 20, u64::MAX]);
        Take::Taken {
            capacity: self.capacity,
        }
    }
}

/// What a responder must have done so far.
#[derive(Default)]
struct Account {
    expected: u32,
    msn: u32,
    received: u64,
    written: u64,
    completed: u32,
    failed: bool,
    /// A READ spans so many PSNs that those before it are no longer told from those after it.
    wrapped: bool,
}

fn torment_responder(seed: u64) {
    let mut rng = Rng::new(seed);
    let psn = rng.pick(&[0, 0xff_fff0, 0x7f_fff8, 0x12_3456]);
    let depth = rng.below(5) as u8;
    let config = ReceiveConfig {
        max_dest_rd_atomic: depth,
        min_rnr_timer: RnrTimer::truncate(3),
        access: Access::REMOTE.without(rng.pick(&[Access::NONE, Access::REMOTE_WRITE])),
    };
    let mut responder = Responder::new(MTU, Psn::truncate(psn), config);
    let mut saved = vec![Saved::EMPTY; depth.into()];
    let mut receives = AnyReceives {
        rng: rng.fork(),
        capacity: 0,
        taken: 0,
    };
    let mut account = Account {
        expected: psn,
        ..Account::default()
    };
    let mut kept = vec![None; Responder::PLACES];
    for _ in 0..rng.range(10, 200) {
        let kind = Kind::RcRequest(any_request(&mut rng));
        let at = match rng.below(10) {
            0 => account.expected.wrapping_sub(rng.range(1, 300) as u32),
            1 => account.expected.wrapping_add(rng.range(1, 300) as u32),
            2 => rng.bits() as u32,
            _ => account.expected,
        };
        let mut spec = HeaderSpec::new(kind, Qpn::truncate(5), Psn::truncate(at));
        spec.ack_request = rng.chance(500);
        let len = length(&mut rng);
        match as_received(&mut rng, &spec, len) {
            Ok(headers) => {
                let mut next = Some(headers);
                while let Some(headers) = next {
                    let action = responder.on_request(&headers, &mut receives, &mut saved);
                    if let Action::Keep(keep) = action {
                        assert!(kept[keep.place()].replace(headers).is_none());
                        responder.keep(keep);
                    } else {
                        obey(
                            &mut rng,
                            &mut responder,
                            &mut saved,
                            &receives,
                            &mut account,
                            &headers,
                            action,
                        );
                    }
                    next = responder
                        .poll_kept()
                        .map(|place| kept[place].take().expect("a packet is kept there"));
                }
            }
            Err(ParseError::UnknownOpcode(bth)) => {
                let action = responder.on_unknown_opcode(&bth);
                assert!(
                    !matches!(action, Action::Execute(_)),
                    "an unknown opcode is executed"
                );
            }
            Err(_) => {}
        }
        while let Some(event) = responder.poll_event() {
            account.failed |= matches!(event, Event::Failed(_));
        }
        if rng.chance(300) {
            drain_responses(&mut rng, &mut responder, &mut saved, &account);
        }
        if account.failed && rng.chance(300) {
            break;
        }
    }
    responder.enter_error();
    drain_responses(&mut rng, &mut responder, &mut saved, &account);
    let mut flushed = 0;
    while let Some(done) = responder.poll_flush() {
        assert_ne!(done.status, WcStatus::Success);
        flushed += 1;
    }
    assert_eq!(
        receives.taken,
        account.completed + flushed,
        "every receive taken is reported once"
    );
    assert!(flushed <= 1);
}

fn obey(
    rng: &mut Rng,
    responder: &mut Responder,
    saved: &mut [Saved],
    receives: &AnyReceives,
    account: &mut Account,
    headers: &Headers,
    action: Action,
) {
    let Action::Execute(task) = action else {
        return;
    };
    assert!(!account.failed, "executed after a failure");
    assert_eq!(
        headers.psn().get(),
        account.expected & 0xff_ffff,
        "executed out of order"
    );
    let len = headers.payload_len();
    let mut span = 1;
    match task.kind() {
        TaskKind::Nothing => {}
        TaskKind::PlaceReceive { offset, len: place } => {
            assert_eq!((u64::from(offset), place), (account.received, len));
            assert!(
                account.received + u64::from(place) <= receives.capacity,
                "past the buffer"
            );
        }
        TaskKind::PlaceDatagram { .. } => panic!("a datagram on a connection"),
        TaskKind::Write {
            len: place,
            remaining,
            ..
        } => {
            assert_eq!(place, len);
            assert!(remaining >= place && remaining <= 1 << 31);
        }
        TaskKind::Read { len, .. } => assert!(len > 0 && len <= 1 << 31),
        TaskKind::Atomic { va, .. } => assert_eq!(va % 8, 0, "misaligned"),
        TaskKind::AtomicWrite { va, .. } => assert_eq!((va % 8, len), (0, 8)),
        TaskKind::Flush(flush) => {
            assert!(flush.placement.is_valid() && flush.len <= 1 << 31);
            assert_eq!(len, 0);
        }
    }
    assert!(
        len <= MTU.bytes(),
        "a packet longer than the path MTU is executed"
    );
    let (is_send, is_write) = match headers.kind() {
        Kind::RcRequest(RcRequest::Send(_)) => (true, false),
        Kind::RcRequest(RcRequest::Write(_)) => (false, true),
        Kind::RcRequest(RcRequest::Read(reth)) => {
            span = MTU.packets(reth.dma_len());
            (false, false)
        }
        Kind::RcRequest(_) => (false, false),
        _ => panic!("executed what is no request"),
    };
    if headers.info().position.starts() {
        assert_eq!(
            account.received + account.written,
            0,
            "a message within a message"
        );
    }
    let outcome = match rng.below(30) {
        0 => Err(rng.pick(&[
            ExecError::RemoteAccess,
            ExecError::RemoteOperation,
            ExecError::LocalProtection,
            ExecError::LocalLength,
            ExecError::Invalidate,
        ])),
        _ => Ok(Done {
            original: rng.bits(),
        }),
    };
    let completion = responder.commit(task, outcome, saved);
    if outcome.is_err() {
        assert_eq!(completion, None);
        return;
    }
    account.expected = account.expected.wrapping_add(span);
    account.wrapped |= span > 1 << 18;
    account.received += if is_send { u64::from(len) } else { 0 };
    account.written += if is_write { u64::from(len) } else { 0 };
    if headers.info().position.ends() {
        account.msn += 1;
    }
    if let Some(done) = completion {
        assert!(headers.info().completes_receive());
        assert_eq!(done.status, WcStatus::Success);
        assert_eq!(u64::from(done.byte_len), account.received + account.written);
        account.completed += 1;
    } else {
        assert!(
            !headers.info().completes_receive(),
            "a message ends without a completion"
        );
    }
    if headers.info().position.ends() {
        account.received = 0;
        account.written = 0;
    }
}

fn drain_responses(
    rng: &mut Rng,
    responder: &mut Responder,
    saved: &mut [Saved],
    account: &Account,
) {
    let mut rounds = 0;
    while let Some(plan) = responder.poll_transmit(rng.pick(&[1, 7, 1 << 20]), saved) {
        rounds += 1;
        assert!(plan.count() > 0);
        let ahead = plan.psn().since(Psn::truncate(account.expected));
        match &plan {
            ResponsePlan::Ack { aeth, .. } => {
                assert_eq!(aeth.msn(), Msn::truncate(account.msn));
                match aeth.syndrome() {
                    Syndrome::Ack(_) => assert_eq!(ahead, -1, "acknowledges what is due"),
                    Syndrome::Nak(NakCode::Sequence) | Syndrome::RnrNak(_) => assert_eq!(ahead, 0),
                    _ => assert!((ahead <= 0 || account.wrapped) && account.failed),
                }
            }
            ResponsePlan::Atomic(_) | ResponsePlan::Confirm(_) => {
                assert!(ahead < 0 || account.wrapped);
            }
            ResponsePlan::Read(read) => {
                assert!(ahead < 0 || account.wrapped);
                if rng.chance(50) && !read.is_empty() {
                    responder.fail_read(read, saved);
                    return;
                }
                if rounds > 50 {
                    return;
                }
            }
        }
        if rng.chance(100) {
            let count = rng.below(u64::from(plan.count())) as u32;
            responder.unsent(&plan, plan.psn().wrapping_add(count), saved);
            return;
        }
    }
}

#[test]
fn responder_survives_any_request() {
    for seed in 0..30_000 {
        torment_responder(seed);
    }
}

fn syndrome(rng: &mut Rng) -> Syndrome {
    match rng.below(10) {
        0 => Syndrome::RnrNak(RnrTimer::truncate(rng.bits() as u8)),
        1 => Syndrome::Nak(NakCode::Sequence),
        2 => Syndrome::Nak(NakCode::new(rng.range(1, 4) as u8).expect("a code")),
        3 => Syndrome::Ack(Credits::at_most(5)),
        _ => Syndrome::ACK,
    }
}

fn any_response(rng: &mut Rng) -> RcResponse {
    let aeth = Aeth::new(syndrome(rng), Msn::truncate(rng.below(3) as u32));
    match rng.below(8) {
        0..=2 => RcResponse::Acknowledge(aeth),
        3 => RcResponse::AtomicAcknowledge(aeth, AtomicAckEth::new(rng.bits())),
        4 => RcResponse::Read(ReadResponsePart::First(aeth)),
        5 => RcResponse::Read(ReadResponsePart::Middle),
        6 => RcResponse::Read(ReadResponsePart::Last(aeth)),
        _ => RcResponse::Read(ReadResponsePart::Only(aeth)),
    }
}

/// What a requester has been told of its works so far.
struct Told {
    works: Vec<Work>,
    /// First PSN of each work as a distance from the first, and the end.
    starts: Vec<u32>,
    /// Packets before this one may be taken for acknowledged.
    acknowledged: u32,
    /// Bytes placed for each READ, values for each atomic.
    placed: Vec<u32>,
    /// Where, by work.
    offsets: HashSet<(usize, u32)>,
    completed: usize,
    failed: bool,
}

fn torment_requester(seed: u64) {
    let mut rng = Rng::new(seed);
    let psn = rng.pick(&[0, 0xff_fff8, 0x7f_fffc, 0x65_4321]);
    let settings = Settings {
        psn,
        retry_cnt: rng.below(8) as u8,
        rnr_retry: rng.below(8) as u8,
        max_rd_atomic: rng.range(1, 4) as u8,
        window_packets: rng.pick(&[1, 4, 64]),
        window_bytes: rng.pick(&[100, 1024, 1 << 16]),
        ..Settings::PLAIN
    };
    let mut requester = Requester::new(MTU, Psn::truncate(psn), end::config(&settings));
    let works: Vec<Work> = (0..rng.range(1, 6)).map(|_| any_work(&mut rng)).collect();
    let mut ring = SendRing::new(works.len() as u32);
    let mut starts = vec![0];
    for work in &works {
        ring.store(requester.tail(), end::request(work));
        requester.post();
        let packets = if work.op.is_atomic() {
            1
        } else {
            MTU.packets(work.len)
        };
        starts.push(starts[starts.len() - 1] + packets);
    }
    let placed = vec![0; works.len()];
    let mut told = Told {
        works,
        starts,
        acknowledged: 0,
        placed,
        offsets: HashSet::new(),
        completed: 0,
        failed: false,
    };
    let mut sent = 0;
    let mut now = 0;
    for _ in 0..rng.range(5, 120) {
        now += rng.below(2_000_000);
        let time = Instant::from_nanos(now);
        match rng.below(6) {
            0 => requester.on_timeout(time),
            1 => {
                while let Some(plan) = requester.poll_transmit(time, rng.pick(&[1, 3, 64]), &ring) {
                    let index = plan.wqe().get() as usize;
                    let first = told.starts[index] + plan.first();
                    assert_eq!(plan.psn().get(), psn.wrapping_add(first) & 0xff_ffff);
                    let span = if told.works[index].op.is_read() {
                        told.starts[index + 1] - first
                    } else {
                        plan.count()
                    };
                    sent = sent.max(first + span);
                    assert_eq!(plan.packets().count(), plan.count() as usize);
                }
            }
            _ => respond(
                &mut rng,
                &mut requester,
                &ring,
                &mut told,
                (psn, sent),
                time,
            ),
        }
        while let Some(done) = requester.poll_completion(&ring) {
            told.judge(&done);
        }
    }
    requester.enter_error();
    while let Some(done) = requester.poll_completion(&ring) {
        told.failed = true;
        told.judge(&done);
    }
    assert_eq!(
        told.completed,
        told.works.len(),
        "a work is never completed"
    );
}

fn any_work(rng: &mut Rng) -> Work {
    let (va, rkey) = (0x1000, 1);
    let op = match rng.below(8) {
        0 => Op::Send,
        1 => Op::Write { va, rkey },
        2 => Op::FetchAdd { va, rkey, add: 1 },
        3 => Op::AtomicWrite { va, rkey },
        4 => Op::Flush {
            va,
            rkey,
            len: 9,
            how: (1, 0),
        },
        _ => Op::Read { va, rkey },
    };
    Work::new(op, rng.pick(&[0, 1, 256, 300, 600]))
}

fn respond(
    rng: &mut Rng,
    requester: &mut Requester,
    ring: &SendRing,
    told: &mut Told,
    (psn, sent): (u32, u32),
    now: Instant,
) {
    let at = match rng.below(12) {
        0 => rng.bits() as u32 & 0xff_ffff,
        1 => sent + rng.below(3) as u32,
        _ => told.starts[told.completed] + rng.below(4) as u32,
    };
    let kind = any_response(rng);
    let spec = HeaderSpec::new(
        Kind::RcResponse(kind),
        Qpn::truncate(9),
        Psn::truncate(psn.wrapping_add(at)),
    );
    let len = match (rng.below(4), &kind) {
        (0, _) => length(rng),
        (_, RcResponse::Read(ReadResponsePart::First(_) | ReadResponsePart::Middle)) => 256,
        _ => rng.pick(&[0, 1, 44, 88, 256]),
    };
    let Ok(headers) = as_received(rng, &spec, len) else {
        return;
    };
    let Some(response) = Response::from_headers(&headers) else {
        return;
    };
    let at = headers.psn().get().wrapping_sub(psn) & 0xff_ffff;
    let aeth = match response {
        Response::Ack { aeth, .. } | Response::Atomic { aeth, .. } => Some(aeth),
        Response::Read { aeth, .. } => aeth,
    };
    let reach = match aeth.map(|aeth| aeth.syndrome()) {
        None | Some(Syndrome::Ack(_)) => at + 1,
        Some(Syndrome::Reserved(_)) => 0,
        Some(_) => at,
    };
    if at < sent {
        told.acknowledged = told.acknowledged.max(reach);
    }
    match requester.on_response(now, &response, ring) {
        Placement::Read { wqe, offset, len } => {
            let index = wqe.get() as usize;
            assert!(told.works[index].op.is_read());
            assert!(index >= told.completed, "placed for a work that is done");
            assert!(
                told.offsets.insert((index, offset)),
                "READ data placed twice"
            );
            assert!(offset + len <= told.works[index].len, "past the end");
            assert_eq!(len, headers.payload_len());
            told.placed[index] += len;
            assert!(
                told.placed[index] <= told.works[index].len,
                "more than was asked for"
            );
        }
        Placement::Atomic { wqe, .. } => {
            let index = wqe.get() as usize;
            assert!(told.works[index].op.is_atomic());
            assert_eq!(told.placed[index], 0, "an atomic answered twice");
            told.placed[index] = 8;
        }
        Placement::None | Placement::Dropped(_) => {}
    }
}

impl Told {
    fn judge(&mut self, done: &Completion) {
        let index = done.wqe.get() as usize;
        assert_eq!(index, self.completed, "completed out of order");
        self.completed += 1;
        match done.status {
            WcStatus::Success => {
                assert!(!self.failed, "success after an error");
                let work = &self.works[index];
                if work.op.is_read() || work.op.is_atomic() {
                    assert_eq!(self.placed[index], work.len, "success without the data");
                }
                assert!(
                    self.starts[index + 1] <= self.acknowledged,
                    "success on garbage"
                );
            }
            WcStatus::WrFlush => assert!(self.failed, "flushed for no reason"),
            _ => {
                assert!(!self.failed, "a second error");
                self.failed = true;
            }
        }
    }
}

#[test]
fn requester_survives_any_response() {
    for seed in 0..60_000 {
        torment_requester(seed);
    }
}

#[test]
fn parser_survives_any_bytes() {
    let mut rng = Rng::new(1);
    for _ in 0..300_000 {
        let len = rng.below(64) as usize;
        let bytes = rng.bytes(len);
        let total = rng.below(128) as usize;
        if let Ok(headers) = Headers::parse(&bytes, total) {
            let whole =
                headers.payload_offset() + headers.payload_len() as usize + headers.pad() + 4;
            assert_eq!(whole, total);
        }
    }
}
