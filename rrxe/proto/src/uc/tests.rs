// SPDX-License-Identifier: GPL-2.0

//! Tests of both sides, each named for the rule it checks.

use proptest::prelude::*;

use super::{Receiver, Sender};
use crate::{
    access::Access,
    key::{Imm, Key, Pkey},
    mtu::PathMtu,
    opcode::Position,
    rc::{
        tests::{headers, packet, psn, Queue, Receives, QPN},
        Action,
        Discard,
        Done,
        Event,
        ExecError,
        Failure,
        Local,
        Operation,
        ReceiveCompletion,
        Request,
        RequestFlags,
        RequestPacket,
        Take,
        TaskKind,
        WqeSeq, //
    },
    status::{WcOpcode, WcStatus},
    time::Instant,
    wire::{HeaderSpec, Headers, Kind, RcRequest, Reth, SendEnd, SendPart, UcRequest, WritePart},
};

use Position::{First, Last, Middle, Only};

const FIRST: u32 = 0xff_fffe;
const KEY: Key = Key(0x4321);
const VA: u64 = 0x7000;
const MTU: u32 = 256;
const IMM: Imm = Imm([1, 2, 3, 4]);
const WRITE: Operation = Operation::Write { va: VA, rkey: KEY };
const WRITE_IMM: Operation = Operation::WriteImm {
    va: VA,
    rkey: KEY,
    imm: IMM,
};
const OK: WcStatus = WcStatus::Success;
const FLUSHED: WcStatus = WcStatus::WrFlush;

struct Sending {
    now: Instant,
    side: Sender,
    queue: Queue,
}

impl Sending {
    fn new() -> Self {
        Self {
            now: Instant::from_nanos(1),
            side: Sender::new(PathMtu::Mtu256, psn(FIRST)),
            queue: Queue(Vec::new()),
        }
    }

    fn post(&mut self, operation: Operation, len: u32) -> WqeSeq {
        let flags = RequestFlags {
            signaled: true,
            solicited: true,
            fence: true,
        };
        let wqe = self.side.tail();
        self.queue
            .0
            .push(Request::new(operation, len, flags).unwrap());
        self.side.post();
        wqe
    }

    /// Sends one plan.
    fn plan(&mut self, max_packets: u32) -> Vec<RequestPacket> {
        let plan = self.side.poll_transmit(self.now, max_packets, &self.queue);
        plan.iter().flat_map(|plan| plan.packets()).collect()
    }

    /// Sends all.
    fn send(&mut self) -> Vec<RequestPacket> {
        let mut packets = Vec::new();
        loop {
            let plan = self.plan(16);
            if plan.is_empty() {
                return packets;
            }
            packets.extend(plan);
        }
    }

    fn statuses(&mut self) -> Vec<WcStatus> {
        core::iter::from_fn(|| self.side.poll_completion(&self.queue))
            .map(|done| done.status)
            .collect()
    }
}

/// PSNs by their distance from the first.
fn psns(packets: &[RequestPacket]) -> Vec<u32> {
    packets
        .iter()
        .map(|packet| packet.psn.offset_from(psn(FIRST)))
        .collect()
}

// ---- sending ----

#[test]
fn messages_are_cut_at_the_mtu_and_ask_for_no_acknowledgement() {
    let mut rig = Sending::new();
    rig.post(Operation::SendImm(IMM), 600);
    rig.post(WRITE_IMM, 0);
    rig.post(WRITE, 257);
    let packets = rig.send();
    let names: Vec<_> = packets
        .iter()
        .map(|packet| format!("{:?}", packet.kind.opcode()))
        .collect();
    assert_eq!(
        names,
        [
            "UC_SEND_FIRST",
            "UC_SEND_MIDDLE",
            "UC_SEND_LAST_WITH_IMM",
            "UC_WRITE_ONLY_WITH_IMM",
            "UC_WRITE_FIRST",
            "UC_WRITE_LAST"
        ]
    );
    assert_eq!(psns(&packets), [0, 1, 2, 3, 4, 5]);
    assert!(packets.iter().all(|packet| !packet.ack_request));
    let solicited: Vec<_> = packets.iter().map(|packet| packet.solicited).collect();
    assert_eq!(solicited, [false, false, true, true, false, false]);
    assert_eq!(rig.side.next_deadline(), None);
}

#[test]
fn a_plan_tells_where_in_its_message_it_begins() {
    let mut rig = Sending::new();
    rig.post(WRITE, 5 * MTU);
    for first in [0, 2, 4] {
        let plan = rig.side.poll_transmit(rig.now, 2, &rig.queue).unwrap();
        assert_eq!((plan.first(), plan.offset()), (first, first * MTU));
    }
}

#[test]
fn what_was_handed_over_after_one_that_fails_is_flushed() {
    let mut rig = Sending::new();
    let bad = rig.post(WRITE, 1);
    rig.post(WRITE, 1);
    assert_eq!(rig.send().len(), 2);
    rig.side.fail(bad, WcStatus::LocalProtection);
    assert_eq!(rig.statuses(), [WcStatus::LocalProtection, FLUSHED]);
}

#[test]
fn a_local_operation_is_done_in_its_turn() {
    let mut rig = Sending::new();
    rig.post(WRITE, 1);
    let local = rig.post(Operation::Local(Local::Invalidate(KEY)), 0);
    assert!(rig.side.poll_local(&rig.queue).is_none());
    assert_eq!(rig.send().len(), 1);
    let task = rig.side.poll_local(&rig.queue).unwrap();
    assert_eq!(task.wqe(), local);
    rig.side.commit_local(task, Ok(()), &rig.queue);
    assert_eq!(rig.statuses(), [OK, OK]);
}

#[test]
fn a_request_is_done_when_its_last_packet_is_handed_over() {
    let mut rig = Sending::new();
    rig.post(Operation::Send, 3 * MTU);
    assert_eq!(rig.plan(2).len(), 2);
    assert_eq!(rig.statuses(), []);
    assert_eq!(rig.plan(2).len(), 1);
    assert_eq!(rig.statuses(), [OK]);
    assert_eq!(rig.side.head(), rig.side.tail());
}

// PROTOCOL requirement 7.
#[test]
fn what_was_not_sent_is_offered_again() {
    let mut rig = Sending::new();
    rig.post(Operation::Send, 3 * MTU);
    for sent in [0, 1] {
        let from = rig.plan(16)[sent].psn;
        rig.side.unsent(rig.now, from, &rig.queue);
        assert_eq!(rig.statuses(), [], "it is not done");
        assert_eq!(rig.plan(16), [], "not at once");
        rig.now = rig.side.next_deadline().unwrap();
        rig.side.on_timeout(rig.now);
    }
    assert_eq!(psns(&rig.send()), [1, 2]);
    assert_eq!(rig.statuses(), [OK]);
}

// PROTOCOL requirement 27.
#[test]
fn what_an_unreliable_connection_does_not_do_fails() {
    for operation in [
        Operation::SendInv(KEY),
        Operation::Read { va: VA, rkey: KEY },
        Operation::FetchAdd {
            va: VA,
            rkey: KEY,
            add: 1,
        },
    ] {
        let mut rig = Sending::new();
        rig.post(Operation::Send, 1);
        rig.post(operation, 8);
        rig.post(Operation::Send, 1);
        assert_eq!(psns(&rig.send()), [0]);
        assert_eq!(rig.statuses(), [OK, WcStatus::LocalQpOperation, FLUSHED]);
    }
}

// PROTOCOL rule 17.
#[test]
fn an_error_stops_the_queue_until_it_is_restarted() {
    let mut rig = Sending::new();
    rig.post(Operation::Send, 1);
    let bad = rig.post(Operation::Send, 3 * MTU);
    rig.post(Operation::Send, 1);
    rig.plan(16);
    rig.plan(2);
    rig.side.fail(bad, WcStatus::LocalProtection);
    assert_eq!(rig.send(), []);
    assert_eq!(rig.statuses(), [OK, WcStatus::LocalProtection, FLUSHED]);
    rig.post(Operation::Send, 1);
    assert_eq!(rig.send(), []);
    assert_eq!(rig.statuses(), [FLUSHED]);

    rig.post(Operation::Send, 1);
    rig.side.restart();
    rig.post(WRITE, 1);
    rig.post(WRITE, MTU + 1);
    assert_eq!(psns(&rig.send()), [3, 4, 5]);
    assert_eq!(rig.statuses(), [FLUSHED, OK, OK]);
    let again = rig.post(WRITE, 1);
    rig.side.fail(again, WcStatus::LocalQpOperation);
    assert_eq!(rig.statuses(), [WcStatus::LocalQpOperation]);
}

#[test]
fn a_request_may_fail_with_its_last_packet() {
    let mut rig = Sending::new();
    let bad = rig.post(Operation::Send, MTU);
    rig.post(Operation::Send, MTU);
    assert_eq!(rig.plan(16).len(), 1);
    rig.side.fail(bad, WcStatus::LocalProtection);
    assert_eq!(rig.statuses(), [WcStatus::LocalProtection, FLUSHED]);
}

#[test]
fn a_request_that_is_wrong_waits_for_its_turn() {
    let mut rig = Sending::new();
    rig.post(Operation::Send, 1);
    let bad = rig.post(Operation::Send, 0);
    rig.side.fail(bad, WcStatus::LocalLength);
    assert_eq!(rig.statuses(), []);
    assert_eq!(psns(&rig.send()), [0]);
    assert_eq!(rig.statuses(), [OK, WcStatus::LocalLength]);
}

#[test]
fn the_error_state_flushes_what_was_not_handed_over() {
    let mut rig = Sending::new();
    rig.post(Operation::Send, 1);
    rig.post(Operation::Send, 2 * MTU);
    rig.post(Operation::Send, 1);
    rig.plan(16);
    rig.plan(1);
    rig.side.enter_error();
    assert_eq!(rig.send(), []);
    assert_eq!(rig.statuses(), [OK, FLUSHED, FLUSHED]);
}

// PROTOCOL rule 18.
#[test]
fn a_drained_queue_finishes_what_it_has_started() {
    let mut rig = Sending::new();
    rig.post(Operation::Send, 2 * MTU);
    rig.post(Operation::Send, 1);
    rig.plan(1);
    rig.side.drain();
    assert!(!rig.side.is_drained());
    assert_eq!(psns(&rig.send()), [1]);
    assert!(rig.side.is_drained());
    assert_eq!(rig.statuses(), [OK]);
    rig.side.resume();
    assert_eq!(psns(&rig.send()), [2]);
    assert_eq!(rig.statuses(), [OK]);
}

// ---- receiving ----

struct Receiving {
    side: Receiver,
    receives: Receives,
    /// What tasks come to.
    outcome: Result<Done, ExecError>,
    tasks: Vec<TaskKind>,
    completions: Vec<ReceiveCompletion>,
}

impl Receiving {
    fn new() -> Self {
        Self {
            side: Receiver::new(PathMtu::Mtu256, psn(FIRST), Access::REMOTE),
            receives: Receives(Vec::new()),
            outcome: Ok(Done::default()),
            tasks: Vec::new(),
            completions: Vec::new(),
        }
    }

    fn post(&mut self, capacity: u64) {
        self.receives.0.push(Take::Taken { capacity });
    }

    /// Takes a packet in; whether it was executed.
    fn take_in(&mut self, headers: &Headers) -> Result<(), Discard> {
        match self.side.on_request(headers, &mut self.receives) {
            Action::None | Action::Keep(_) | Action::Repeated => {
                panic!("there is nothing to come")
            }
            Action::Dropped(discard) => Err(discard),
            Action::Execute(task) => {
                self.tasks.push(task.kind());
                let done = self.side.commit(task, self.outcome);
                self.completions.extend(done);
                Ok(())
            }
        }
    }

    /// A packet `at` packets after the first.
    fn get(&mut self, at: u32, request: UcRequest, len: u32) -> Result<(), Discard> {
        self.take_in(&packet(Kind::Uc(request), psn(FIRST.wrapping_add(at)), len))
    }

    /// The lengths of what has been received.
    fn lengths(&self) -> Vec<u32> {
        self.completions.iter().map(|done| done.byte_len).collect()
    }

    fn events(&mut self) -> Vec<Event> {
        core::iter::from_fn(|| self.side.poll_event()).collect()
    }

    /// That nothing has come of the peer's fault, and a whole message goes to the first receive.
    fn assert_unharmed(&mut self, at: u32) {
        assert_eq!(self.events(), [Event::CommunicationEstablished]);
        assert_eq!(self.completions, []);
        self.outcome = Ok(Done::default());
        self.post(1);
        assert_eq!(self.get(at, send(Only), 1), Ok(()));
        assert_eq!(self.lengths(), [1]);
    }
}

fn send(position: Position) -> UcRequest {
    UcRequest::Send(SendPart::new(position, None))
}

fn write(position: Position, len: u32) -> UcRequest {
    UcRequest::Write(WritePart::new(position, Reth::new(VA, KEY, len), None))
}

fn write_imm(position: Position, len: u32) -> UcRequest {
    UcRequest::Write(WritePart::new(position, Reth::new(VA, KEY, len), Some(IMM)))
}

#[test]
fn a_packet_is_the_same_on_either_kind_of_connection() {
    for position in [First, Middle, Last, Only] {
        for imm in [None, Some(IMM)] {
            let part = UcRequest::Send(SendPart::new(position, imm));
            assert_eq!(UcRequest::from_rc(&part.to_rc()), Some(part));
        }
        for part in [write(position, 9), write_imm(position, 9)] {
            assert_eq!(UcRequest::from_rc(&part.to_rc()), Some(part));
        }
    }
    let invalidate = RcRequest::Send(SendPart::Only(SendEnd::Invalidate(KEY)));
    assert_eq!(UcRequest::from_rc(&invalidate), None);
}

#[test]
fn a_send_fills_a_receive() {
    let mut rig = Receiving::new();
    rig.post(1000);
    assert_eq!(rig.get(0, send(First), MTU), Ok(()));
    assert_eq!(rig.get(1, send(Middle), MTU), Ok(()));
    let last = UcRequest::Send(SendPart::Last(Some(IMM)));
    let spec = HeaderSpec {
        solicited: true,
        ..HeaderSpec::new(Kind::Uc(last), QPN, psn(FIRST.wrapping_add(2)))
    };
    assert_eq!(rig.take_in(&headers(&spec, 7)), Ok(()));
    let place = |offset, len| TaskKind::PlaceReceive { offset, len };
    assert_eq!(rig.tasks, [place(0, 256), place(256, 256), place(512, 7)]);
    assert_eq!(
        rig.completions,
        [ReceiveCompletion {
            status: OK,
            opcode: WcOpcode::Receive,
            byte_len: 519,
            imm: Some(IMM),
            invalidated: None,
            solicited: true,
            source: None,
        }]
    );
}

// PROTOCOL rule 13.
#[test]
fn a_write_with_imm_takes_a_receive_at_its_end() {
    let mut rig = Receiving::new();
    assert_eq!(rig.get(0, write_imm(First, MTU + 5), MTU), Ok(()));
    rig.post(0);
    assert_eq!(rig.get(1, write_imm(Last, 0), 5), Ok(()));
    assert_eq!(rig.completions[0].opcode, WcOpcode::ReceiveRdmaWithImm);
    assert_eq!(rig.completions[0].imm, Some(IMM));
    assert_eq!(rig.lengths(), [MTU + 5]);
    assert_eq!(rig.get(2, write(Only, 5), 5), Ok(()));
    assert_eq!(rig.lengths().len(), 1, "a plain write completes nothing");
}

// PROTOCOL requirement 14.
#[test]
fn without_a_receive_the_message_is_dropped() {
    let mut rig = Receiving::new();
    assert_eq!(rig.get(0, send(First), MTU), Err(Discard::NotReady));
    rig.post(1000);
    assert_eq!(rig.get(1, send(Last), 1), Err(Discard::OutOfOrder));
    assert_eq!(rig.get(2, send(Only), 2), Ok(()));
    assert_eq!(rig.get(3, write_imm(Only, 1), 1), Err(Discard::NotReady));
    assert_eq!(rig.lengths(), [2]);
    assert_eq!(rig.events(), [Event::CommunicationEstablished]);
}

#[test]
fn a_message_with_a_gap_is_dropped_and_its_receive_serves_the_next() {
    let mut rig = Receiving::new();
    rig.post(1000);
    assert_eq!(rig.get(0, send(First), MTU), Ok(()));
    for at in [2, 3] {
        assert_eq!(rig.get(at, send(Middle), MTU), Err(Discard::OutOfOrder));
    }
    assert_eq!(rig.get(4, send(Last), 1), Err(Discard::OutOfOrder));
    assert_eq!(rig.completions, []);
    // The only receive there is.
    assert_eq!(rig.get(5, write_imm(Only, 3), 3), Ok(()));
    assert_eq!(rig.lengths(), [3]);
    assert_eq!(rig.completions[0].opcode, WcOpcode::ReceiveRdmaWithImm);
}

#[test]
fn a_message_that_starts_ends_the_one_before() {
    for start in [send(First), write(First, 2 * MTU), send(Only)] {
        let mut rig = Receiving::new();
        rig.post(1000);
        assert_eq!(rig.get(0, send(First), MTU), Ok(()));
        let len = if start == send(Only) { 9 } else { MTU };
        assert_eq!(rig.get(1, start, len), Ok(()));
        let last = match start {
            UcRequest::Write(_) => rig.get(2, write_imm(Last, 0), MTU),
            UcRequest::Send(_) => rig.get(2, send(Last), 1),
        };
        assert_eq!(last.is_ok(), start != send(Only));
        assert_eq!(rig.lengths().len(), 1);
        assert_ne!(rig.lengths(), [2 * MTU + 1]);
    }
}

#[test]
fn a_message_that_changes_its_kind_is_dropped() {
    let mut rig = Receiving::new();
    rig.post(1000);
    assert_eq!(rig.get(0, send(First), MTU), Ok(()));
    assert_eq!(rig.get(1, write(Middle, 0), MTU), Err(Discard::OutOfOrder));
    assert_eq!(rig.get(2, send(Last), 1), Err(Discard::OutOfOrder));
    rig.assert_unharmed(3);
}

#[test]
fn a_message_starts_at_any_psn() {
    let mut rig = Receiving::new();
    for at in [7, 1 << 22, 1 << 23, (1 << 23) + 1, 3] {
        rig.post(10);
        assert_eq!(rig.get(at, send(Only), 1), Ok(()));
    }
    assert_eq!(rig.lengths().len(), 5);
}

#[test]
fn what_is_too_long_is_dropped_and_its_receive_stays() {
    let mut rig = Receiving::new();
    rig.post(300);
    assert_eq!(rig.get(0, send(First), MTU), Ok(()));
    assert_eq!(rig.get(1, send(Last), 45), Err(Discard::Refused));
    rig.assert_unharmed(2);
}

// PROTOCOL rule 11.
#[test]
fn lengths_that_do_not_add_up_are_dropped() {
    let too_long = (1 << 31) + 1;
    for (packets, len) in [
        (&[send(First)][..], MTU - 1),
        (&[send(Only)], MTU + 4),
        (&[write(First, MTU)], MTU),
        (&[write(First, too_long)], MTU),
        (&[write(First, 2 * MTU), write(Last, 0)], MTU - 4),
        (&[write(Only, 7)], 8),
    ] {
        let mut rig = Receiving::new();
        let (last, before) = packets.split_last().unwrap();
        for (at, &packet) in before.iter().enumerate() {
            rig.post(1000);
            assert_eq!(rig.get(at as u32, packet, MTU), Ok(()));
        }
        let at = before.len() as u32;
        rig.receives.0.clear();
        rig.post(1000);
        assert_eq!(
            rig.get(at, *last, len),
            Err(Discard::Refused),
            "{packets:?}"
        );
        rig.assert_unharmed(at + 1);
    }
}

// PROTOCOL requirement 15.
#[test]
fn forbidden_access_is_dropped() {
    let mut rig = Receiving::new();
    rig.outcome = Err(ExecError::RemoteAccess);
    assert_eq!(rig.get(0, write(First, 2 * MTU), MTU), Ok(()));
    let last = rig.get(1, write_imm(Last, 0), MTU);
    assert_eq!(last, Err(Discard::OutOfOrder), "the rest goes with it");
    rig.post(1);
    assert_eq!(rig.get(2, write_imm(Only, 1), 1), Ok(()), "not its memory");
    rig.assert_unharmed(3);

    let mut rig = Receiving::new();
    rig.side.set_access(Access::REMOTE_READ);
    assert_eq!(rig.get(0, write(Only, 0), 0), Err(Discard::Refused));
    rig.assert_unharmed(1);
}

// PROTOCOL rule 12.
#[test]
fn a_write_without_bytes_checks_no_key() {
    let mut rig = Receiving::new();
    assert_eq!(rig.get(0, write(Only, 0), 0), Ok(()));
    assert_eq!(rig.tasks, [TaskKind::Nothing]);
}

#[test]
fn a_receive_that_is_at_fault_ends_the_connection() {
    let mut rig = Receiving::new();
    rig.post(1000);
    rig.outcome = Err(ExecError::LocalProtection);
    assert_eq!(rig.get(0, send(Only), 1), Ok(()));
    let established = Event::CommunicationEstablished;
    let failed = Event::Failed(Failure::Receive);
    assert_eq!(rig.events(), [established, failed]);
    assert_eq!(rig.get(1, send(Only), 1), Err(Discard::Closed));
    let flushed = rig.side.poll_flush().unwrap();
    assert_eq!(flushed.status, WcStatus::LocalProtection);
    assert_eq!(rig.side.poll_flush(), None);

    let mut rig = Receiving::new();
    rig.receives
        .0
        .push(Take::Invalid(WcStatus::LocalQpOperation));
    assert_eq!(rig.get(0, write_imm(Only, 1), 1), Err(Discard::Refused));
    let flushed = rig.side.poll_flush().unwrap();
    assert_eq!(flushed.status, WcStatus::LocalQpOperation);
    assert_eq!(rig.events(), [established, failed]);
}

#[test]
fn the_error_state_flushes_the_receive_in_use_once() {
    let mut rig = Receiving::new();
    rig.post(1000);
    assert_eq!(rig.get(0, send(First), MTU), Ok(()));
    assert_eq!(rig.side.poll_flush(), None);
    rig.side.enter_error();
    assert_eq!(rig.side.poll_flush().unwrap().status, FLUSHED);
    assert_eq!(rig.side.poll_flush(), None);
    assert_eq!(rig.get(1, send(Last), 1), Err(Discard::Closed));
}

#[test]
fn packets_of_another_service_are_no_requests() {
    let mut rig = Receiving::new();
    rig.post(10);
    let request = Kind::RcRequest(send(Only).to_rc());
    let got = rig.take_in(&packet(request, psn(FIRST), 1));
    assert_eq!(got, Err(Discard::NotRequest));
    assert_eq!(rig.events(), []);
}

// ---- both ----

fn position() -> impl Strategy<Value = Position> {
    prop::sample::select(vec![First, Middle, Last, Only])
}

proptest! {
    /// Whatever the peer sends, each receive that is taken is completed once, and there is at most
    /// one that waits for its message.
    #[test]
    fn no_packets_confuse_the_receives(
        packets in prop::collection::vec(
            (0..3_u8, position(), 0..4_u32, 0..3 * MTU, prop::bool::weighted(0.1)),
            1..200,
        ),
    ) {
        let mut rig = Receiving::new();
        let (mut at, mut taken) = (0, 0);
        for (verb, position, skipped, len, fails) in packets {
            let request = match verb {
                0 => send(position),
                1 => write(position, len),
                _ => write_imm(position, len),
            };
            at += skipped.saturating_sub(2) + 1;
            rig.outcome = match fails {
                true => Err(ExecError::RemoteAccess),
                false => Ok(Done::default()),
            };
            let payload = if position.ends() { len % (MTU + 1) } else { MTU };
            rig.receives.0 = vec![Take::Taken { capacity: 2 * u64::from(MTU) }];
            let before = rig.completions.len();
            let _ = rig.get(at, request, payload);
            taken += 1 - rig.receives.0.len();
            let completed = rig.completions.len() - before;
            prop_assert!(completed <= 1);
            let held = taken - rig.completions.len();
            prop_assert!(held <= 1, "{} receives are held", held);
        }
        prop_assert!(rig.completions.iter().all(|done| done.status == OK));
        let events = rig.events();
        prop_assert_eq!(events, [Event::CommunicationEstablished]);
        rig.side.enter_error();
        let flushed = usize::from(rig.side.poll_flush().is_some());
        prop_assert_eq!(taken, rig.completions.len() + flushed);
    }

    /// Of messages of which packets are lost those arrive that are whole, each once and in order.
    #[test]
    fn whole_messages_arrive(
        messages in prop::collection::vec((0..2_u8, 0..5 * MTU), 1..40),
        lost in prop::collection::vec(prop::bool::weighted(0.2), 200),
        budget in 1..9_u32,
    ) {
        let mut sending = Sending::new();
        let mut receiving = Receiving::new();
        for (index, &(verb, len)) in messages.iter().enumerate() {
            let imm = Imm([index as u8; 4]);
            let operation = match verb {
                0 => Operation::SendImm(imm),
                _ => Operation::WriteImm { va: VA, rkey: KEY, imm },
            };
            sending.post(operation, len);
            receiving.post(u64::from(5 * MTU));
        }
        let mut lost = lost.into_iter();
        let (mut index, mut whole, mut due) = (0, true, Vec::new());
        loop {
            let packets = sending.plan(budget);
            if packets.is_empty() {
                break;
            }
            for packet in packets {
                if lost.next() == Some(true) {
                    whole = false;
                } else {
                    let header = packet.header(QPN, Pkey::DEFAULT);
                    let _ = receiving.take_in(&headers(&header, packet.len));
                }
                if packet.kind.opcode().info().unwrap().position.ends() {
                    if whole {
                        due.push((Some(Imm([index as u8; 4])), messages[index].1));
                    }
                    (index, whole) = (index + 1, true);
                }
            }
        }
        prop_assert_eq!(sending.statuses(), vec![OK; messages.len()]);
        let received: Vec<_> = receiving
            .completions
            .iter()
            .map(|done| (done.imm, done.byte_len))
            .collect();
        prop_assert_eq!(received, due);
    }
}
