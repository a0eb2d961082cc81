// SPDX-License-Identifier: GPL-2.0

use super::{headers, packet, psn, Receives, QPN};
use crate::{
    access::Access,
    key::{Imm, Key, Pkey},
    mtu::PathMtu,
    opcode::{Opcode, Position},
    rc::{
        Action,
        AtomicOp,
        Discard,
        Done,
        Event,
        ExecError,
        Failure,
        ReceiveCompletion,
        ReceiveConfig,
        Responder,
        ResponsePacket,
        ResponsePlan,
        Saved,
        Take,
        TaskKind, //
    },
    status::{NakCode, WcOpcode, WcStatus},
    timers::RnrTimer,
    wire::{
        AtomicEth,
        HeaderSpec,
        Headers,
        Kind,
        ParseError,
        RcRequest,
        RcResponse,
        Reth,
        SendEnd,
        SendPart,
        Syndrome,
        WritePart, //
    },
};

pub(super) const FIRST: u32 = 0xff_fff0;
const KEY: Key = Key(0x4321);
const VA: u64 = 0x7000;
const MTU: u32 = 256;

pub(super) struct Rig {
    pub(super) side: Responder,
    receives: Receives,
    saved: Vec<Saved>,
    kept: Vec<Option<Headers>>,
    /// What tasks come to.
    pub(super) outcome: Result<Done, ExecError>,
    pub(super) tasks: Vec<TaskKind>,
    completions: Vec<ReceiveCompletion>,
}

/// What a response says.
#[derive(Debug, PartialEq)]
pub(super) enum Said {
    Ack(u32),
    Nak(u32, NakCode),
    Rnr(u32, u8),
    Atomic(u32, u64),
    Read(u32, Position, u32),
}

const ALL: Access = Access::REMOTE;

pub(super) fn config() -> ReceiveConfig {
    ReceiveConfig {
        max_dest_rd_atomic: 2,
        min_rnr_timer: RnrTimer::truncate(12),
        access: ALL,
    }
}

fn send(position: Position) -> RcRequest {
    RcRequest::Send(SendPart::new(position, SendEnd::Plain))
}

pub(super) fn write(position: Position, len: u32) -> RcRequest {
    RcRequest::Write(WritePart::new(position, Reth::new(VA, KEY, len), None))
}

fn write_imm(position: Position, len: u32) -> RcRequest {
    let imm = Some(Imm([1, 2, 3, 4]));
    RcRequest::Write(WritePart::new(position, Reth::new(VA, KEY, len), imm))
}

pub(super) fn read(va: u64, len: u32) -> RcRequest {
    RcRequest::Read(Reth::new(va, KEY, len))
}

fn fetch_add(va: u64) -> RcRequest {
    RcRequest::FetchAdd(AtomicEth::fetch_add(va, KEY, 5))
}

use Position::{First, Last, Middle, Only};

impl Rig {
    pub(super) fn new() -> Self {
        Self::with(config())
    }

    pub(super) fn with(config: ReceiveConfig) -> Self {
        Self {
            side: Responder::new(PathMtu::Mtu256, psn(FIRST), config),
            receives: Receives(Vec::new()),
            saved: vec![Saved::EMPTY; config.max_dest_rd_atomic.into()],
            kept: vec![None; Responder::PLACES],
            outcome: Ok(Done { original: 77 }),
            tasks: Vec::new(),
            completions: Vec::new(),
        }
    }

    fn post(&mut self, capacity: u64) {
        self.receives.0.push(Take::Taken { capacity });
    }

    fn take_in(&mut self, headers: &Headers) -> Option<Discard> {
        let discard = self.take_in_one(headers);
        while let Some(place) = self.side.poll_kept() {
            let kept = self.kept[place].take().unwrap();
            self.take_in_one(&kept);
        }
        discard
    }

    fn take_in_one(&mut self, headers: &Headers) -> Option<Discard> {
        match self
            .side
            .on_request(headers, &mut self.receives, &mut self.saved)
        {
            Action::None | Action::Repeated => None,
            Action::Dropped(discard) => Some(discard),
            Action::Keep(keep) => {
                assert!(self.kept[keep.place()].replace(*headers).is_none());
                self.side.keep(keep);
                None
            }
            Action::Execute(task) => {
                self.tasks.push(task.kind());
                let done = self.side.commit(task, self.outcome, &mut self.saved);
                self.completions.extend(done);
                None
            }
        }
    }

    /// A packet `at` packets after the first, with AckReq.
    pub(super) fn get(&mut self, at: u32, request: RcRequest, len: u32) -> Option<Discard> {
        self.take_in(&headers(
            &HeaderSpec {
                ack_request: true,
                ..HeaderSpec::new(Kind::RcRequest(request), QPN, psn(FIRST.wrapping_add(at)))
            },
            len,
        ))
    }

    /// The same without AckReq.
    fn get_quiet(&mut self, at: u32, request: RcRequest, len: u32) -> Option<Discard> {
        self.take_in(&packet(
            Kind::RcRequest(request),
            psn(FIRST.wrapping_add(at)),
            len,
        ))
    }

    fn packets(&mut self) -> Vec<ResponsePacket> {
        let mut packets = Vec::new();
        while let Some(plan) = self.side.poll_transmit(3, &mut self.saved) {
            assert!(plan.count() <= 3);
            packets.extend(plan.packets());
        }
        packets
    }

    /// What is answered, by distance from the first PSN.
    pub(super) fn said(&mut self) -> Vec<Said> {
        self.packets().iter().map(said).collect()
    }

    pub(super) fn msns(&mut self) -> Vec<Option<u32>> {
        self.packets()
            .iter()
            .map(|packet| packet.kind.aeth().map(|aeth| aeth.msn().get()))
            .collect()
    }

    fn events(&mut self) -> Vec<Event> {
        core::iter::from_fn(|| self.side.poll_event()).collect()
    }

    /// That the peer was refused, and that this side is dead.
    pub(super) fn assert_refused(&mut self, at: u32, code: NakCode, failure: Failure) {
        assert_eq!(self.said(), [Said::Nak(at, code)]);
        assert!(self.events().contains(&Event::Failed(failure)));
        self.post(1 << 20);
        assert_eq!(self.get(at, send(Only), 1), Some(Discard::Closed));
        assert_eq!(self.said(), []);
    }

    pub(super) fn assert_invalid(&mut self, at: u32) {
        self.assert_refused(at, NakCode::InvalidRequest, Failure::InvalidRequest);
    }
}

fn said(packet: &ResponsePacket) -> Said {
    let at = packet.psn.offset_from(psn(FIRST));
    match packet.kind {
        RcResponse::Acknowledge(aeth) => match aeth.syndrome() {
            Syndrome::Ack(_) => Said::Ack(at),
            Syndrome::RnrNak(timer) => Said::Rnr(at, timer.code()),
            Syndrome::Nak(code) => Said::Nak(at, code),
            Syndrome::Reserved(_) => panic!("{packet:?}"),
        },
        RcResponse::AtomicAcknowledge(_, original) => Said::Atomic(at, original.original()),
        RcResponse::Read(part) => Said::Read(at, part.position(), packet.len),
    }
}

// ---- SEND ----

#[test]
fn a_send_fills_a_receive() {
    let mut rig = Rig::new();
    rig.post(1000);
    rig.get_quiet(0, send(First), MTU);
    rig.get_quiet(1, send(Middle), MTU);
    assert_eq!(rig.completions, []);
    rig.get(
        2,
        RcRequest::Send(SendPart::Last(SendEnd::Imm(Imm([5; 4])))),
        7,
    );
    let place = |offset, len| TaskKind::PlaceReceive { offset, len };
    assert_eq!(rig.tasks, [place(0, 256), place(256, 256), place(512, 7)]);
    assert_eq!(
        rig.completions,
        [ReceiveCompletion {
            status: WcStatus::Success,
            opcode: WcOpcode::Receive,
            byte_len: 519,
            imm: Some(Imm([5; 4])),
            invalidated: None,
            solicited: false,
            source: None,
        }]
    );
    assert_eq!(rig.said(), [Said::Ack(2)]);
}

// PROTOCOL rule 10.
#[test]
fn what_is_taken_in_together_is_acknowledged_together() {
    let mut rig = Rig::new();
    for at in 0..5 {
        rig.post(10);
        rig.get(at, send(Only), 1);
    }
    assert_eq!(rig.said(), [Said::Ack(4)]);
    rig.post(10);
    rig.get_quiet(5, send(Only), 1);
    assert_eq!(rig.said(), [], "nobody asked");
}

// PROTOCOL rule 12.
#[test]
fn a_send_without_bytes_completes_a_receive() {
    let mut rig = Rig::new();
    rig.post(0);
    rig.get(0, send(Only), 0);
    assert_eq!(rig.tasks, [TaskKind::Nothing]);
    assert_eq!(rig.completions[0].byte_len, 0);
}

// PROTOCOL requirement 11.
#[test]
fn solicited_is_that_of_the_last_packet() {
    let mut rig = Rig::new();
    for solicited in [true, false] {
        rig.post(10);
        let at = rig.completions.len() as u32;
        let spec = HeaderSpec {
            solicited,
            ..HeaderSpec::new(
                Kind::RcRequest(send(Only)),
                QPN,
                psn(FIRST.wrapping_add(at)),
            )
        };
        rig.take_in(&headers(&spec, 1));
        assert_eq!(rig.completions[at as usize].solicited, solicited);
    }
}

// PROTOCOL requirement 12.
#[test]
fn a_send_longer_than_the_receive_is_an_error_on_both_sides() {
    let mut rig = Rig::new();
    rig.post(300);
    rig.get(0, send(First), MTU);
    rig.get(1, send(Last), 45);
    assert_eq!(rig.completions, []);
    let flushed = rig.side.poll_flush().unwrap();
    assert_eq!(flushed.status, WcStatus::LocalLength);
    assert_eq!(rig.side.poll_flush(), None);
    rig.assert_refused(1, NakCode::InvalidRequest, Failure::Receive);
}

// PROTOCOL rule 19.
#[test]
fn the_length_of_the_receive_may_be_used_up() {
    let mut rig = Rig::new();
    rig.post(300);
    rig.get(0, send(First), MTU);
    rig.get(1, send(Last), 44);
    assert_eq!(rig.completions[0].byte_len, 300);
}

// PROTOCOL requirement 17.
#[test]
fn a_failed_invalidation_is_told_to_the_peer() {
    let mut rig = Rig::new();
    rig.post(10);
    rig.outcome = Err(ExecError::Invalidate);
    rig.get(
        0,
        RcRequest::Send(SendPart::Only(SendEnd::Invalidate(KEY))),
        1,
    );
    assert_eq!(rig.completions, []);
    assert_eq!(
        rig.side.poll_flush().unwrap().status,
        WcStatus::RemoteInvalidRequest
    );
    rig.assert_refused(0, NakCode::RemoteAccess, Failure::Receive);
}

#[test]
fn an_invalidation_is_asked_for_with_the_last_packet() {
    let mut rig = Rig::new();
    rig.post(1000);
    for (at, part, len) in [
        (0, SendPart::First, MTU),
        (1, SendPart::Last(SendEnd::Invalidate(KEY)), 1),
    ] {
        let headers = packet(
            Kind::RcRequest(RcRequest::Send(part)),
            psn(FIRST.wrapping_add(at)),
            len,
        );
        let action = rig
            .side
            .on_request(&headers, &mut rig.receives, &mut rig.saved);
        let Action::Execute(task) = action else {
            panic!();
        };
        assert_eq!(task.invalidate(), (at == 1).then_some(KEY));
        let done = rig.side.commit(task, Ok(Done::default()), &mut rig.saved);
        assert_eq!(
            done.and_then(|done| done.invalidated),
            (at == 1).then_some(KEY)
        );
    }
}

// ---- receiver not ready ----

// PROTOCOL rule 13 and requirement 14.
#[test]
fn a_send_without_a_receive_is_not_ready() {
    let mut rig = Rig::new();
    rig.get(0, send(First), MTU);
    // One NAK, whatever else is on its way.
    rig.get(1, send(Last), 1);
    assert_eq!(rig.said(), [Said::Rnr(0, 12)]);
    rig.get(2, send(Only), 1);
    assert_eq!(rig.said(), []);
    rig.get(0, send(First), MTU);
    assert_eq!(rig.said(), [Said::Rnr(0, 12)], "it has come again");
    rig.post(1000);
    rig.post(1000);
    rig.get(0, send(First), MTU);
    assert_eq!(rig.said(), [Said::Ack(2)]);
    assert_eq!(rig.completions.len(), 2);
}

#[test]
fn an_rnr_nak_that_is_overtaken_is_not_sent() {
    let mut rig = Rig::new();
    rig.get(0, send(Only), 1);
    rig.post(10);
    rig.get(0, send(Only), 1);
    assert_eq!(rig.said(), [Said::Ack(0)]);
}

// PROTOCOL rule 13 and requirement 14.
#[test]
fn a_write_with_imm_needs_a_receive_at_its_end_only() {
    let mut rig = Rig::new();
    rig.get(0, write(First, 600), MTU);
    rig.get(1, write(Middle, 600), MTU);
    rig.get(2, write_imm(Last, 600), 88);
    assert_eq!(rig.tasks.len(), 2);
    assert_eq!(rig.said(), [Said::Rnr(2, 12)]);
    rig.post(0);
    rig.post(0);
    rig.get(2, write_imm(Last, 600), 88);
    assert_eq!(
        rig.completions,
        [ReceiveCompletion {
            status: WcStatus::Success,
            opcode: WcOpcode::ReceiveRdmaWithImm,
            byte_len: 600,
            imm: Some(Imm([1, 2, 3, 4])),
            invalidated: None,
            solicited: false,
            source: None,
        }]
    );
    // Its copy takes no other.
    rig.get(2, write_imm(Last, 600), 88);
    assert_eq!(rig.receives.0.len(), 1);
    assert_eq!(rig.said(), [Said::Ack(2)]);
}

#[test]
fn a_receive_that_is_taken_is_kept_for_a_packet_that_comes_again() {
    let mut rig = Rig::new();
    rig.post(10);
    let headers = packet(Kind::RcRequest(send(Only)), psn(FIRST), 1);
    // The caller could not even try.
    drop(
        rig.side
            .on_request(&headers, &mut rig.receives, &mut rig.saved),
    );
    rig.get(0, send(Only), 1);
    assert_eq!(rig.completions.len(), 1);
}

#[test]
fn a_receive_that_cannot_be_used_ends_the_connection() {
    let mut rig = Rig::new();
    rig.receives
        .0
        .push(Take::Invalid(WcStatus::LocalProtection));
    rig.get(0, send(Only), 1);
    assert_eq!(
        rig.side.poll_flush().unwrap().status,
        WcStatus::LocalProtection
    );
    rig.assert_refused(0, NakCode::RemoteOperational, Failure::Receive);
}

// ---- WRITE ----

// PROTOCOL requirement 15.
#[test]
fn a_write_names_the_rest_of_its_range_with_each_packet() {
    let mut rig = Rig::new();
    rig.get(0, write(First, 600), MTU);
    rig.get(1, write(Middle, 600), MTU);
    rig.get(2, write(Last, 600), 88);
    let task = |va, len, remaining| TaskKind::Write {
        rkey: KEY,
        va,
        len,
        remaining,
    };
    assert_eq!(
        rig.tasks,
        [
            task(VA, 256, 600),
            task(VA + 256, 256, 344),
            task(VA + 512, 88, 88)
        ]
    );
    assert_eq!(rig.msns(), [Some(1)]);
}

// PROTOCOL rule 12.
#[test]
fn a_write_without_bytes_checks_no_key() {
    let mut rig = Rig::new();
    rig.get(0, write(Only, 0), 0);
    assert_eq!(rig.tasks, [TaskKind::Nothing]);
    assert_eq!(rig.said(), [Said::Ack(0)]);
    rig.post(0);
    rig.get(1, write_imm(Only, 0), 0);
    assert_eq!(rig.completions[0].byte_len, 0);
}

// PROTOCOL rule 11.
#[test]
fn lengths_that_do_not_add_up_are_invalid() {
    let cases: &[&[(RcRequest, u32)]] = &[
        &[(write(Only, 10), 9)],
        &[(write(Only, 10), 11)],
        &[(write(Only, MTU + 1), MTU + 1)],
        &[(write(First, MTU), MTU)],
        &[(write(First, 10), MTU)],
        &[(write(First, 600), MTU - 4)],
        &[(write(First, 600), MTU + 4)],
        &[(write(First, (1 << 31) + 1), MTU)],
        &[(write(First, 600), MTU), (write(Last, 600), 88)],
        &[(write(First, 512), MTU), (write(Middle, 512), MTU)],
        &[(write(First, 300), MTU), (write(Last, 300), 0)],
        &[(write(First, 300), MTU), (write(Last, 300), 45)],
        &[(send(First), MTU), (send(Last), 0)],
        &[(send(First), MTU), (send(Middle), 4)],
        &[(send(First), 4)],
        &[(send(Only), MTU + 1)],
    ];
    for packets in cases {
        let mut rig = Rig::new();
        rig.post(1 << 20);
        let end = packets.len() as u32 - 1;
        for (at, (request, len)) in packets.iter().enumerate() {
            rig.get_quiet(at as u32, *request, *len);
        }
        assert_eq!(rig.tasks.len() as u32, end, "{packets:?}");
        rig.assert_invalid(end);
    }
}

#[test]
fn addresses_at_the_end_of_the_world_do_not_overflow() {
    let mut rig = Rig::new();
    let reth = Reth::new(u64::MAX - 10, KEY, 600);
    rig.get(0, RcRequest::Write(WritePart::First(reth)), MTU);
    rig.get(1, RcRequest::Write(WritePart::Middle), MTU);
    rig.get(2, read(u64::MAX, 600), 0);
    assert_eq!(rig.tasks.len(), 2);
}

// PROTOCOL rule 2.
#[test]
fn packets_out_of_sequence_are_invalid() {
    let cases: &[&[RcRequest]] = &[
        &[send(Middle)],
        &[send(Last)],
        &[write(Middle, 0)],
        &[write(Last, 0)],
        &[write_imm(Last, 0)],
        &[send(First), send(First)],
        &[send(First), send(Only)],
        &[send(First), write(Middle, 0)],
        &[send(First), write(Last, 0)],
        &[send(First), read(VA, 1)],
        &[send(First), fetch_add(VA)],
        &[write(First, 1000), send(Middle)],
        &[write(First, 1000), write(First, 1000)],
        &[write(First, 1000), write(Only, 100)],
        &[write(First, 1000), read(VA, 1)],
    ];
    for packets in cases {
        let mut rig = Rig::new();
        rig.post(1 << 20);
        let end = packets.len() as u32 - 1;
        for (at, request) in packets.iter().enumerate() {
            rig.get_quiet(at as u32, *request, MTU);
        }
        rig.assert_invalid(end);
    }
}

#[test]
fn each_side_needs_its_right() {
    let cases = [
        (write(Only, 1), Access::REMOTE_WRITE, 1),
        (read(VA, 1), Access::REMOTE_READ, 0),
        (fetch_add(VA), Access::REMOTE_ATOMIC, 0),
    ];
    for (request, right, len) in cases {
        let mut rig = Rig::with(ReceiveConfig {
            access: ALL.without(right),
            ..config()
        });
        rig.get(0, request, len);
        rig.assert_invalid(0);
        let mut rig = Rig::with(ReceiveConfig {
            access: right,
            ..config()
        });
        rig.get(0, request, len);
        assert_eq!(rig.tasks.len(), 1);
    }
}

// PROTOCOL requirement 13.
#[test]
fn a_reserved_opcode_is_invalid_where_it_is_due() {
    let unknown = |at: u32| {
        let spec = HeaderSpec::new(
            Kind::RcRequest(send(Only)),
            QPN,
            psn(FIRST.wrapping_add(at)),
        );
        let buf = crate::wire::HeaderBuf::new(&spec, 0);
        let mut bytes = [0; 16];
        bytes[..12].copy_from_slice(buf.as_bytes());
        bytes[0] = 0x1f;
        match Headers::parse(&bytes, 16) {
            Err(ParseError::UnknownOpcode(bth)) => bth,
            other => panic!("{other:?}"),
        }
    };
    let mut rig = Rig::new();
    assert!(matches!(
        rig.side.on_unknown_opcode(&unknown(1)),
        Action::Dropped(Discard::OutOfOrder)
    ));
    assert!(matches!(
        rig.side.on_unknown_opcode(&unknown(u32::MAX)),
        Action::Dropped(Discard::UnknownDuplicate)
    ));
    assert_eq!(rig.said(), [Said::Nak(0, NakCode::Sequence)]);
    let _ = rig.side.on_unknown_opcode(&unknown(0));
    rig.assert_invalid(0);
}

#[test]
fn a_response_is_no_request() {
    let mut rig = Rig::new();
    let aeth = crate::wire::Aeth::new(Syndrome::ACK, crate::psn::Msn::ZERO);
    let kind = Kind::RcResponse(RcResponse::Acknowledge(aeth));
    assert_eq!(
        rig.take_in(&packet(kind, psn(FIRST), 0)),
        Some(Discard::NotRequest)
    );
}

// ---- order and copies ----

// PROTOCOL rule 3 and requirement 16.
#[test]
fn one_nak_per_gap() {
    let mut rig = Rig::new();
    for _ in 0..6 {
        rig.post(10);
    }
    rig.get(0, send(Only), 1);
    rig.get(2, send(Only), 1);
    rig.get(4, send(Only), 1);
    assert_eq!(rig.said(), [Said::Nak(1, NakCode::Sequence)]);
    assert_eq!(rig.get(2, send(Only), 1), Some(Discard::OutOfOrder));
    assert_eq!(rig.said(), []);
    rig.get(1, send(Only), 1);
    assert_eq!(
        rig.said(),
        [Said::Ack(2)],
        "the next gap may be filled already"
    );
    rig.get(5, send(Only), 1);
    assert_eq!(rig.said(), [Said::Nak(3, NakCode::Sequence)]);
    rig.get(3, send(Only), 1);
    assert_eq!(rig.said(), [Said::Ack(5)]);
    assert_eq!(rig.completions.len(), 6);
}

#[test]
fn a_peer_that_sends_all_again_finds_copies() {
    let mut rig = Rig::new();
    for at in [0, 2, 3] {
        rig.post(10);
        rig.get(at, send(Only), 1);
    }
    rig.post(10);
    assert_eq!(rig.said(), [Said::Nak(1, NakCode::Sequence)]);
    for at in 1..4 {
        rig.get(at, send(Only), 1);
        assert_eq!(rig.said(), [Said::Ack(3)]);
    }
    assert_eq!(rig.completions.len(), 4);
    assert_eq!(rig.tasks.len(), 4);
}

#[test]
fn what_is_kept_is_executed_in_its_turn() {
    let mut rig = Rig::new();
    rig.get(1, fetch_add(VA), 0);
    rig.get(4, write(Last, 0), 1);
    rig.get(3, write(First, MTU + 1), MTU);
    rig.get(2, read(VA, 1), 0);
    assert_eq!(rig.tasks, []);
    rig.said();
    rig.get_quiet(0, write(Only, 1), 1);
    let write = |va, len, remaining| TaskKind::Write {
        rkey: KEY,
        va,
        len,
        remaining,
    };
    let (rkey, va, len) = (KEY, VA, 1);
    let op = AtomicOp::FetchAdd { add: 5 };
    assert_eq!(
        rig.tasks,
        [
            write(VA, 1, 1),
            TaskKind::Atomic { rkey, va, op },
            TaskKind::Read { rkey, va, len },
            write(VA, MTU, MTU + 1),
            write(VA + 256, 1, 1),
        ]
    );
    assert_eq!(
        rig.said(),
        [Said::Atomic(1, 77), Said::Read(2, Only, 1), Said::Ack(4)]
    );
}

#[test]
fn what_is_no_longer_kept_is_lost() {
    let mut rig = Rig::new();
    rig.get(1, write(Only, 1), 1);
    rig.said();
    rig.side.drop_kept();
    rig.get(0, write(Only, 1), 1);
    assert_eq!(rig.said(), [Said::Ack(0)]);
    assert_eq!(rig.tasks.len(), 1);
    rig.get(1, write(Only, 1), 1);
    assert_eq!(rig.said(), [Said::Ack(1)]);
    assert_eq!(rig.tasks.len(), 2);
}

#[test]
fn receives_that_run_out_among_what_is_kept_are_told_of_where_they_do() {
    let mut rig = Rig::new();
    rig.post(10);
    rig.post(10);
    for at in 1..5 {
        rig.get(at, send(Only), 1);
    }
    rig.said();
    rig.get(0, send(Only), 1);
    assert_eq!(rig.said(), [Said::Rnr(2, 12)]);
    for _ in 0..3 {
        rig.post(10);
    }
    // What was not ready comes again, and those after it are there.
    rig.get(2, send(Only), 1);
    assert_eq!(rig.said(), [Said::Ack(4)]);
    assert_eq!(rig.completions.len(), 5);
}

#[test]
fn what_is_kept_past_an_error_is_dropped() {
    let mut rig = Rig::new();
    rig.get(1, write(Middle, 1), MTU);
    rig.get(2, write(Only, 1), 1);
    rig.said();
    rig.get(0, write(Only, 1), 1);
    assert_eq!(rig.tasks.len(), 1);
    assert_eq!(rig.side.poll_kept(), None);
    rig.assert_invalid(1);
}

#[test]
fn what_is_kept_inside_a_read_is_no_request() {
    let mut rig = Rig::new();
    rig.get(2, read(VA, 1), 0);
    rig.said();
    rig.get(0, read(VA, 4 * MTU), 0);
    assert_eq!(rig.tasks.len(), 1);
    assert!(rig.kept.iter().all(Option::is_none));
}

#[test]
fn a_gap_that_closes_before_it_was_told_is_not_told() {
    let mut rig = Rig::new();
    rig.post(10);
    rig.post(10);
    rig.get(1, send(Only), 1);
    rig.get_quiet(0, send(Only), 1);
    assert_eq!(rig.said(), [Said::Ack(1)]);
}

// PROTOCOL rule 4.
#[test]
fn copies_of_sends_and_writes_are_acknowledged_and_not_executed() {
    let mut rig = Rig::new();
    rig.post(10);
    rig.post(10);
    rig.get(0, send(Only), 1);
    rig.get(1, write(Only, 1), 1);
    rig.get(2, send(Only), 1);
    rig.said();
    rig.tasks.clear();
    rig.get_quiet(0, send(Only), 1);
    rig.get_quiet(1, write(Only, 1), 1);
    assert_eq!(rig.tasks, []);
    assert_eq!(rig.completions.len(), 2);
    assert_eq!(rig.said(), [Said::Ack(2)]);
}

// PROTOCOL rule 1.
#[test]
fn half_of_all_psns_are_copies_and_the_rest_is_ahead() {
    let mut rig = Rig::new();
    let half = 1 << 23;
    assert_eq!(rig.get(half, send(Only), 1), None);
    assert_eq!(rig.said(), [Said::Ack(0xff_ffff)]);
    assert_eq!(rig.get(half - 1, send(Only), 1), Some(Discard::OutOfOrder));
}

// ---- READ ----

#[test]
fn a_read_is_answered_in_packets() {
    let mut rig = Rig::new();
    rig.get(0, read(VA, 4 * MTU + 3), 0);
    let plans: Vec<_> = core::iter::from_fn(|| rig.side.poll_transmit(3, &mut rig.saved)).collect();
    let shapes: Vec<_> = plans
        .iter()
        .map(|plan| match plan {
            ResponsePlan::Read(reply) => (reply.rkey(), reply.va(), reply.len(), plan.count()),
            _ => panic!("{plan:?}"),
        })
        .collect();
    assert_eq!(shapes, [(KEY, VA, 3 * MTU, 3), (KEY, VA + 768, MTU + 3, 2)]);
    let packets: Vec<_> = plans.iter().flat_map(|plan| plan.packets()).collect();
    let offsets: Vec<_> = packets.iter().map(|packet| packet.offset).collect();
    assert_eq!(offsets, [0, 256, 512, 0, 256]);
    assert_eq!(
        packets.iter().map(said).collect::<Vec<_>>(),
        [
            Said::Read(0, First, 256),
            Said::Read(1, Middle, 256),
            Said::Read(2, Middle, 256),
            Said::Read(3, Middle, 256),
            Said::Read(4, Last, 3),
        ]
    );
    rig.get(5, write(Only, 1), 1);
    assert_eq!(rig.said(), [Said::Ack(5)]);
}

// PROTOCOL rule 12 and requirement 2.
#[test]
fn a_read_without_bytes_is_answered_and_can_be_again() {
    let mut rig = Rig::new();
    for _ in 0..2 {
        rig.get(0, read(VA, 0), 0);
        assert_eq!(rig.said(), [Said::Read(0, Only, 0)]);
    }
    assert_eq!(rig.tasks, [TaskKind::Nothing]);
}

// PROTOCOL rule 5.
#[test]
fn the_msn_counts_messages() {
    let mut rig = Rig::new();
    for _ in 0..2 {
        rig.post(1000);
    }
    rig.get(0, send(First), MTU);
    assert_eq!(rig.msns(), [Some(0)]);
    rig.get(1, send(Last), 1);
    assert_eq!(rig.msns(), [Some(1)]);
    // A READ counts when it is executed; its responses tell the count of then.
    rig.get(2, read(VA, 3 * MTU), 0);
    rig.get(5, fetch_add(VA), 0);
    rig.get(6, send(Only), 1);
    assert_eq!(rig.msns(), [Some(2), None, Some(2), Some(3), Some(4)]);
    // A copy does not count, nor does a NAK.
    rig.get(6, send(Only), 1);
    assert_eq!(rig.msns(), [Some(4)]);
    rig.get(9, send(Only), 1);
    assert_eq!(rig.msns(), [Some(4)]);
}

#[test]
fn an_ack_waits_for_the_read_before_it() {
    let mut rig = Rig::new();
    rig.post(10);
    rig.get(0, send(Only), 1);
    rig.get(1, read(VA, 2 * MTU), 0);
    rig.get(3, write(Only, 1), 1);
    // The first response acknowledges what is before the READ.
    assert_eq!(
        rig.said(),
        [
            Said::Read(1, First, MTU),
            Said::Read(2, Last, MTU),
            Said::Ack(3)
        ]
    );
}

#[test]
fn a_nak_waits_for_the_read_before_it() {
    let mut rig = Rig::new();
    rig.get(0, read(VA, 1), 0);
    rig.get(2, send(Only), 1);
    assert_eq!(
        rig.said(),
        [Said::Read(0, Only, 1), Said::Nak(1, NakCode::Sequence)]
    );
    rig.get(1, read(VA, 1), 0);
    rig.outcome = Err(ExecError::RemoteAccess);
    rig.get(2, write(Only, 1), 1);
    rig.side.enter_error();
    assert_eq!(
        rig.said(),
        [Said::Read(1, Only, 1), Said::Nak(2, NakCode::RemoteAccess)]
    );
}

// PROTOCOL rule 4.
#[test]
fn a_read_is_executed_again_from_the_psn_asked_for() {
    let mut rig = Rig::new();
    rig.get(0, read(VA, 600), 0);
    rig.said();
    rig.get(1, read(VA + 256, 344), 0);
    let plan = rig.side.poll_transmit(9, &mut rig.saved).unwrap();
    let ResponsePlan::Read(reply) = plan else {
        panic!();
    };
    assert_eq!((reply.va(), reply.len()), (VA + 256, 344));
    let again: Vec<_> = plan.packets().map(|packet| said(&packet)).collect();
    assert_eq!(again, [Said::Read(1, First, 256), Said::Read(2, Last, 88)]);
    // A part in the middle, too.
    rig.get(1, read(VA + 256, 256), 0);
    assert_eq!(rig.said(), [Said::Read(1, Only, 256)]);
    assert_eq!(rig.tasks.len(), 1);
}

#[test]
fn a_read_that_is_being_answered_can_be_asked_for_again() {
    let mut rig = Rig::new();
    rig.get(0, read(VA, 4 * MTU), 0);
    let _ = rig.side.poll_transmit(3, &mut rig.saved);
    rig.get(1, read(VA + 256, 3 * MTU), 0);
    assert_eq!(
        rig.said(),
        [
            Said::Read(1, First, MTU),
            Said::Read(2, Middle, MTU),
            Said::Read(3, Last, MTU)
        ]
    );
}

// PROTOCOL rule 4 and requirement 2.
#[test]
fn copies_that_are_no_copies_are_dropped() {
    let mut rig = Rig::new();
    rig.get(0, read(VA, 600), 0);
    rig.get(3, fetch_add(VA), 0);
    rig.said();
    let other_key = RcRequest::Read(Reth::new(VA, Key(1), 600));
    let swap = RcRequest::CompareSwap(AtomicEth::compare_swap(VA, KEY, 0, 5));
    let other_add = RcRequest::FetchAdd(AtomicEth::fetch_add(VA, KEY, 6));
    for (at, request) in [
        (0, other_key),
        (0, read(VA + 1, 599)),
        (0, read(VA, 601)),
        (0, read(VA, 0)),
        (1, read(VA, 344)),
        (1, read(VA + 256, 345)),
        (2, read(VA + 512, 1 << 31)),
        (2, read(VA + 512, u32::MAX)),
        (3, read(VA, 8)),
        (0, fetch_add(VA)),
        (3, fetch_add(VA + 8)),
        (3, other_add),
        (3, swap),
        (0xff_fff0, read(VA, 1)),
    ] {
        assert_eq!(
            rig.get(at, request, 0),
            Some(Discard::UnknownDuplicate),
            "{at} {request:?}"
        );
    }
    assert_eq!(rig.said(), []);
}

// PROTOCOL rule 4 and requirement 14.
#[test]
fn an_atomic_is_executed_once_and_answered_again() {
    let mut rig = Rig::new();
    rig.get(0, fetch_add(VA), 0);
    assert_eq!(
        rig.tasks,
        [TaskKind::Atomic {
            rkey: KEY,
            va: VA,
            op: AtomicOp::FetchAdd { add: 5 }
        }]
    );
    assert_eq!(rig.said(), [Said::Atomic(0, 77)]);
    rig.outcome = Ok(Done { original: 99 });
    rig.get(0, fetch_add(VA), 0);
    assert_eq!(rig.said(), [Said::Atomic(0, 77)]);
    assert_eq!(rig.tasks.len(), 1);
}

// PROTOCOL requirement 18.
#[test]
fn a_misaligned_atomic_is_invalid() {
    let mut rig = Rig::new();
    rig.get(0, fetch_add(VA + 4), 0);
    assert_eq!(rig.tasks, []);
    rig.assert_invalid(0);
}

#[test]
fn a_read_longer_than_any_message_is_invalid() {
    let mut rig = Rig::new();
    rig.get(0, read(VA, (1 << 31) + 1), 0);
    rig.assert_invalid(0);
}

#[test]
fn a_read_of_2_gib_can_be_asked_for_again() {
    let mut rig = Rig::new();
    rig.get(0, read(VA, 1 << 31), 0);
    let _ = rig.side.poll_transmit(2, &mut rig.saved);
    rig.get(0, read(VA, 1 << 31), 0);
    let plan = rig.side.poll_transmit(1, &mut rig.saved).unwrap();
    assert_eq!(said(&plan.packet(0).unwrap()), Said::Read(0, First, MTU));
    // The last packet of it.
    rig.get((1 << 23) - 1, read(VA + (1 << 31) - 256, MTU), 0);
    assert_eq!(rig.said(), [Said::Read((1 << 23) - 1, Only, MTU)]);
    // And what follows.
    rig.get(1 << 23, write(Only, 1), 1);
    assert_eq!(rig.said(), [Said::Ack(1 << 23)]);
}

// PROTOCOL requirement 13.
#[test]
fn more_reads_than_allowed_are_invalid() {
    let mut rig = Rig::new();
    rig.get(0, read(VA, 1), 0);
    rig.get(1, fetch_add(VA), 0);
    rig.get(2, read(VA, 1), 0);
    assert_eq!(
        rig.said(),
        [
            Said::Read(0, Only, 1),
            Said::Atomic(1, 77),
            Said::Nak(2, NakCode::InvalidRequest)
        ]
    );
}

#[test]
fn reads_where_none_are_allowed_are_invalid() {
    for request in [read(VA, 1), read(VA, 0), fetch_add(VA)] {
        let mut rig = Rig::with(ReceiveConfig {
            max_dest_rd_atomic: 0,
            ..config()
        });
        rig.get(0, request, 0);
        rig.assert_invalid(0);
    }
}

// PROTOCOL requirement 13.
#[test]
fn a_copy_does_not_count_against_the_depth() {
    let mut rig = Rig::with(ReceiveConfig {
        max_dest_rd_atomic: 1,
        ..config()
    });
    rig.get(0, read(VA, 1), 0);
    rig.said();
    // A late copy, and then the next READ of a peer that has had its answer.
    rig.get(0, read(VA, 1), 0);
    rig.get(1, read(VA, 2), 0);
    assert_eq!(rig.said(), [Said::Read(1, Only, 2)]);
    // What was forgotten is not answered.
    assert_eq!(rig.get(0, read(VA, 1), 0), Some(Discard::UnknownDuplicate));
}

#[test]
fn copies_are_answered_in_the_order_of_psns() {
    let mut rig = Rig::new();
    rig.get(0, read(VA, 1), 0);
    rig.get(1, fetch_add(VA), 0);
    rig.said();
    rig.get(1, fetch_add(VA), 0);
    rig.get(0, read(VA, 1), 0);
    assert_eq!(rig.said(), [Said::Read(0, Only, 1), Said::Atomic(1, 77)]);
}

#[test]
fn a_read_of_memory_that_has_gone_is_refused_at_its_psn() {
    let mut rig = Rig::new();
    rig.get(0, read(VA, 4 * MTU), 0);
    rig.get(4, read(VA, 1), 0);
    let _ = rig.side.poll_transmit(2, &mut rig.saved);
    let Some(ResponsePlan::Read(reply)) = rig.side.poll_transmit(2, &mut rig.saved) else {
        panic!();
    };
    rig.side.fail_read(&reply, &mut rig.saved);
    rig.assert_refused(2, NakCode::RemoteAccess, Failure::Access);
}

// ---- errors ----

// PROTOCOL requirement 15.
#[test]
fn failed_tasks_are_told_to_both_sides() {
    let cases = [
        (
            ExecError::RemoteAccess,
            NakCode::RemoteAccess,
            WcStatus::WrFlush,
            Failure::Access,
        ),
        (
            ExecError::RemoteOperation,
            NakCode::RemoteOperational,
            WcStatus::WrFlush,
            Failure::Fatal,
        ),
        (
            ExecError::LocalProtection,
            NakCode::RemoteOperational,
            WcStatus::LocalProtection,
            Failure::Receive,
        ),
        (
            ExecError::LocalLength,
            NakCode::InvalidRequest,
            WcStatus::LocalLength,
            Failure::Receive,
        ),
    ];
    for (error, nak, status, failure) in cases {
        let mut rig = Rig::new();
        rig.post(10);
        rig.outcome = Err(error);
        rig.get(0, send(Only), 1);
        assert_eq!(rig.side.poll_flush().unwrap().status, status);
        rig.assert_refused(0, nak, failure);
    }
}

// PROTOCOL rule 17.
#[test]
fn the_error_state_flushes_the_receive_in_use_once() {
    let mut rig = Rig::new();
    rig.post(1000);
    rig.get(0, send(First), MTU);
    assert_eq!(rig.side.poll_flush(), None);
    rig.side.enter_error();
    let flushed = rig.side.poll_flush().unwrap();
    assert_eq!(flushed.status, WcStatus::WrFlush);
    assert_eq!(flushed.opcode, WcOpcode::Receive);
    assert_eq!(rig.side.poll_flush(), None);
    // It answers nothing, not even what is owed.
    assert_eq!(rig.get(1, send(Last), 1), Some(Discard::Closed));
    assert_eq!(rig.said(), []);
}

// PROTOCOL requirement 24.
#[test]
fn the_first_request_establishes_communication_once() {
    let mut rig = Rig::new();
    assert_eq!(rig.events(), []);
    rig.get(5, send(Only), 1);
    assert_eq!(rig.events(), []);
    rig.get(0, write(Only, 1), 1);
    assert_eq!(rig.events(), [Event::CommunicationEstablished]);
    rig.get(1, write(Only, 1), 1);
    assert_eq!(rig.events(), []);
}

// ---- responses that could not be sent ----

#[test]
fn an_ack_that_was_not_sent_is_offered_again_and_is_up_to_date() {
    let mut rig = Rig::new();
    rig.get(0, write(Only, 1), 1);
    let plan = rig.side.poll_transmit(9, &mut rig.saved).unwrap();
    rig.get_quiet(1, write(Only, 1), 1);
    rig.side.unsent(&plan, plan.psn(), &mut rig.saved);
    assert_eq!(rig.said(), [Said::Ack(1)]);
}

#[test]
fn naks_that_were_not_sent_are_offered_again() {
    let mut rig = Rig::new();
    rig.get(1, write(Only, 1), 1);
    let plan = rig.side.poll_transmit(9, &mut rig.saved).unwrap();
    rig.side.unsent(&plan, plan.psn(), &mut rig.saved);
    assert_eq!(rig.said(), [Said::Nak(0, NakCode::Sequence)]);
    // Unless it has become wrong.
    rig.get(0, write(Only, 1), 1);
    rig.said();
    rig.side.unsent(&plan, plan.psn(), &mut rig.saved);
    assert_eq!(rig.said(), []);
    // The last NAK of all stays right.
    rig.get(2, send(Middle), MTU);
    let plan = rig.side.poll_transmit(9, &mut rig.saved).unwrap();
    rig.side.unsent(&plan, plan.psn(), &mut rig.saved);
    rig.side.enter_error();
    assert_eq!(rig.said(), [Said::Nak(2, NakCode::InvalidRequest)]);
}

#[test]
fn read_responses_that_were_not_sent_are_offered_again() {
    let mut rig = Rig::new();
    rig.get(0, read(VA, 4 * MTU), 0);
    let plan = rig.side.poll_transmit(4, &mut rig.saved).unwrap();
    rig.side
        .unsent(&plan, plan.psn().wrapping_add(3), &mut rig.saved);
    assert_eq!(rig.said(), [Said::Read(3, Last, MTU)]);
    rig.get(4, fetch_add(VA), 0);
    let plan = rig.side.poll_transmit(4, &mut rig.saved).unwrap();
    rig.side.unsent(&plan, plan.psn(), &mut rig.saved);
    assert_eq!(rig.said(), [Said::Atomic(4, 77)]);
    // All of it was sent.
    rig.side
        .unsent(&plan, plan.psn().wrapping_add(1), &mut rig.saved);
    assert_eq!(rig.said(), []);
}

#[test]
fn a_part_in_between_goes_before_what_is_in_turn() {
    let mut rig = Rig::new();
    rig.get(0, read(VA, 6 * MTU), 0);
    assert!(rig.side.poll_transmit(3, &mut rig.saved).is_some());
    rig.get(1, read(VA + u64::from(MTU), MTU), 0);
    assert_eq!(
        rig.said(),
        [
            Said::Read(1, Only, MTU),
            Said::Read(3, Middle, MTU),
            Said::Read(4, Middle, MTU),
            Said::Read(5, Last, MTU),
        ]
    );
}

#[test]
fn a_part_in_between_goes_out_to_its_end_whatever_was_not_sent() {
    let mut rig = Rig::new();
    rig.get(0, read(VA, 6 * MTU), 0);
    rig.said();
    rig.get(0, read(VA, 5 * MTU), 0);
    let plan = rig.side.poll_transmit(3, &mut rig.saved).unwrap();
    rig.side
        .unsent(&plan, plan.psn().wrapping_add(1), &mut rig.saved);
    assert_eq!(
        rig.said(),
        [
            Said::Read(1, Middle, MTU),
            Said::Read(2, Middle, MTU),
            Said::Read(3, Middle, MTU),
            Said::Read(4, Last, MTU),
        ]
    );
}

#[test]
fn no_part_in_between_follows_a_refusal() {
    let mut rig = Rig::new();
    rig.get(0, read(VA, 3 * MTU), 0);
    rig.said();
    rig.get(0, read(VA, MTU), 0);
    rig.get(1, read(VA + u64::from(MTU), MTU), 0);
    let Some(ResponsePlan::Read(part)) = rig.side.poll_transmit(3, &mut rig.saved) else {
        panic!("it was not answered");
    };
    rig.side.fail_read(&part, &mut rig.saved);
    assert_eq!(rig.said(), [Said::Nak(0, NakCode::RemoteAccess)]);
}

#[test]
fn what_is_no_longer_kept_is_not_given_in_place_of_what_is() {
    let mut rig = Rig::new();
    rig.get(0, read(VA, 3 * MTU), 0);
    let plan = rig.side.poll_transmit(3, &mut rig.saved).unwrap();
    rig.get(0, read(VA, MTU), 0);
    rig.get(3, read(VA, 2), 0);
    rig.get(4, read(VA, 2), 0);
    assert_eq!(rig.said(), [Said::Read(3, Only, 2), Said::Read(4, Only, 2)]);
    rig.side.unsent(&plan, plan.psn(), &mut rig.saved);
    assert_eq!(rig.said(), []);
}

#[test]
fn a_larger_ring_takes_over_what_is_kept() {
    let mut rig = Rig::new();
    for at in 0..3 {
        rig.get(at, read(VA, 1), 0);
        assert_eq!(rig.said(), [Said::Read(at, Only, 1)]);
    }
    let old = core::mem::replace(&mut rig.saved, vec![Saved::EMPTY; 5]);
    rig.side.move_saved(&old, &mut rig.saved);
    assert_eq!(rig.get(0, read(VA, 1), 0), Some(Discard::UnknownDuplicate));
    for at in 1..3 {
        assert_eq!(rig.get(at, read(VA, 1), 0), None);
    }
    assert_eq!(rig.said(), [Said::Read(1, Only, 1), Said::Read(2, Only, 1)]);
}

#[test]
fn an_ack_that_was_not_sent_gives_way_to_a_nak() {
    let mut rig = Rig::new();
    rig.post(1);
    rig.get(0, send(Only), 1);
    let plan = rig.side.poll_transmit(1, &mut rig.saved).unwrap();
    rig.get(2, send(Only), 1);
    rig.side.unsent(&plan, plan.psn(), &mut rig.saved);
    assert_eq!(rig.said(), [Said::Nak(1, NakCode::Sequence)]);
}

#[test]
fn a_read_tells_whether_there_is_memory_to_check() {
    let mut rig = Rig::new();
    for (at, len) in [(0, 0), (1, 1)] {
        rig.get(at, read(VA, len), 0);
        let Some(ResponsePlan::Read(reply)) = rig.side.poll_transmit(1, &mut rig.saved) else {
            panic!("it was not answered");
        };
        assert_eq!(reply.is_empty(), len == 0);
    }
}

#[test]
fn attributes_that_change_count_from_then_on() {
    let mut rig = Rig::new();
    rig.get(0, write(Only, 1), 1);
    assert_eq!(rig.said(), [Said::Ack(0)]);
    rig.side.set_config(ReceiveConfig {
        access: Access::REMOTE_READ,
        ..config()
    });
    rig.get(1, write(Only, 1), 1);
    rig.assert_invalid(1);
}

#[test]
fn response_headers_have_the_opcodes_of_their_positions() {
    let mut rig = Rig::new();
    rig.get(0, read(VA, 600), 0);
    let specs: Vec<_> = rig
        .packets()
        .iter()
        .map(|packet| packet.header(QPN, Pkey(0x8001)))
        .collect();
    assert!(specs.iter().all(|spec| spec.pkey == Pkey(0x8001)));
    let opcodes: Vec<_> = specs.iter().map(|spec| spec.kind.opcode()).collect();
    assert_eq!(
        opcodes,
        [
            Opcode::RC_READ_RESPONSE_FIRST,
            Opcode::RC_READ_RESPONSE_MIDDLE,
            Opcode::RC_READ_RESPONSE_LAST
        ]
    );
}
