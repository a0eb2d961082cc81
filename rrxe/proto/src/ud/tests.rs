// SPDX-License-Identifier: GPL-2.0

//! Tests of both sides, each named for the rule it checks.

use super::{DatagramQueue, Destination, Receiver, Sender, GRH_LEN};
use crate::{
    key::{Imm, Key, Pkey, Qkey},
    mtu::PathMtu,
    qpn::Qpn,
    rc::{
        tests::{headers, packet, psn, Receives},
        Action,
        Discard,
        Done,
        Event,
        ExecError,
        Failure,
        Operation,
        ReceiveCompletion,
        Request,
        RequestFlags,
        RequestPacket,
        SendQueue,
        Take,
        TaskKind,
        WqeSeq, //
    },
    status::{WcOpcode, WcStatus},
    time::Instant,
    wire::{Deth, HeaderSpec, Headers, Kind, UcRequest},
};

const FIRST: u32 = 0xff_fffe;
const OWN: Qkey = Qkey(0x1111_1111);
const QKEY: Qkey = Qkey(0x0222_2222);
const LOCAL: Qpn = Qpn::truncate(0x11);
const REMOTE: Qpn = Qpn::truncate(0x22);
const IMM: Imm = Imm([1, 2, 3, 4]);
const OK: WcStatus = WcStatus::Success;
const FLUSHED: WcStatus = WcStatus::WrFlush;
const WRITE: Operation = Operation::Write {
    va: 0,
    rkey: Key(0),
};

/// Requests with their destinations.
#[derive(Default)]
struct Queue(Vec<(Request, Option<Destination>)>);

impl SendQueue for Queue {
    fn request(&self, wqe: WqeSeq) -> &Request {
        &self.0[wqe.get() as usize].0
    }
}

impl DatagramQueue for Queue {
    fn destination(&self, wqe: WqeSeq) -> Option<Destination> {
        self.0[wqe.get() as usize].1
    }
}

struct Sending {
    now: Instant,
    port: PathMtu,
    side: Sender,
    queue: Queue,
}

impl Sending {
    fn new() -> Self {
        Self {
            now: Instant::from_nanos(1),
            port: PathMtu::Mtu1024,
            side: Sender::new(LOCAL, OWN, psn(FIRST)),
            queue: Queue::default(),
        }
    }

    fn post_to(
        &mut self,
        destination: Option<Destination>,
        operation: Operation,
        len: u32,
    ) -> WqeSeq {
        let flags = RequestFlags {
            signaled: true,
            solicited: true,
            fence: false,
        };
        let wqe = self.side.tail();
        let request = Request::new(operation, len, flags).unwrap();
        self.queue.0.push((request, destination));
        self.side.post();
        wqe
    }

    fn post(&mut self, operation: Operation, len: u32) -> WqeSeq {
        self.post_to(Some(to(QKEY)), operation, len)
    }

    /// Sends one packet.
    fn send(&mut self) -> Option<RequestPacket> {
        let plan = self.side.poll_transmit(self.now, self.port, &self.queue)?;
        assert_eq!(plan.count(), 1);
        plan.packet(0)
    }

    /// Sends all, and gives what was sent by the numbers of payload bytes.
    fn send_all(&mut self) -> Vec<u32> {
        core::iter::from_fn(|| self.send())
            .map(|packet| packet.len)
            .collect()
    }

    fn statuses(&mut self) -> Vec<WcStatus> {
        core::iter::from_fn(|| self.side.poll_completion(&self.queue))
            .map(|done| done.status)
            .collect()
    }
}

fn to(qkey: Qkey) -> Destination {
    Destination { qpn: REMOTE, qkey }
}

// ---- sending ----

#[test]
fn a_message_is_a_packet_that_shows_key_and_sender() {
    let mut rig = Sending::new();
    rig.post(Operation::Send, 0);
    rig.post(Operation::SendImm(IMM), 1024);
    let deth = Deth::new(QKEY, LOCAL);
    for (distance, len, imm) in [(0, 0, None), (1, 1024, Some(IMM))] {
        let sent = rig.send().unwrap();
        assert_eq!(sent.kind, Kind::Ud(deth, imm));
        assert_eq!(sent.psn, psn(FIRST).wrapping_add(distance));
        assert_eq!((sent.offset, sent.len), (0, len));
        assert!(sent.solicited && !sent.ack_request);
        let spec = sent.header(REMOTE, Pkey::DEFAULT);
        assert_eq!(headers(&spec, len).dest_qp(), REMOTE);
    }
    assert_eq!(rig.send(), None);
    assert_eq!(rig.statuses(), [OK, OK]);
}

// PROTOCOL rule 16, requirement 10.
#[test]
fn a_controlled_key_stands_for_the_queue_pairs_own() {
    let mut rig = Sending::new();
    for (given, shown) in [
        (QKEY, QKEY),
        (Qkey(0x8000_0000), OWN),
        (Qkey(0xffff_ffff), OWN),
    ] {
        rig.post_to(Some(to(given)), Operation::Send, 8);
        let sent = rig.send().unwrap();
        assert_eq!(sent.kind, Kind::Ud(Deth::new(shown, LOCAL), None));
    }
    rig.side.set_qkey(QKEY);
    rig.post_to(Some(to(Qkey(1 << 31))), Operation::Send, 8);
    let sent = rig.send().unwrap();
    assert_eq!(sent.kind, Kind::Ud(Deth::new(QKEY, LOCAL), None));
}

// PROTOCOL rule 16 (C10-93.1.1).
#[test]
fn a_message_longer_than_the_mtu_is_done_and_not_sent() {
    let mut rig = Sending::new();
    for len in [1024, 1025, 4096, 4097, 1 << 31, 100] {
        rig.post(Operation::Send, len);
    }
    assert_eq!(rig.send_all(), [1024, 100]);
    assert_eq!(rig.statuses(), [OK; 6]);
}

#[test]
fn the_port_decides_at_the_time_of_sending() {
    let mut rig = Sending::new();
    rig.post(Operation::Send, 2000);
    assert_eq!(rig.send(), None);
    rig.port = PathMtu::Mtu2048;
    rig.post(Operation::Send, 2000);
    assert_eq!(rig.send_all(), [2000]);
}

// PROTOCOL requirement 7.
#[test]
fn what_was_not_sent_is_offered_again() {
    let mut rig = Sending::new();
    rig.post(Operation::Send, 8);
    rig.post(Operation::Send, 9);
    let sent = rig.send().unwrap();
    rig.side.unsent(rig.now, sent.psn, &rig.queue);
    assert_eq!(rig.send(), None);
    assert!(rig.statuses().is_empty());
    rig.now = rig.side.next_deadline().unwrap();
    rig.side.on_timeout(rig.now);
    assert_eq!(rig.send().unwrap().psn, sent.psn);
    assert_eq!(rig.send_all(), [9]);
    assert_eq!(rig.statuses(), [OK, OK]);
}

// PROTOCOL rule 17, requirement 7.
#[test]
fn an_error_stops_the_queue_until_it_is_restarted() {
    let mut rig = Sending::new();
    rig.post(Operation::Send, 8);
    let bad = rig.post(Operation::Send, 8);
    rig.post(Operation::Send, 8);
    rig.send();
    rig.send();
    rig.side.fail(bad, WcStatus::LocalProtection);
    assert_eq!(rig.send(), None);
    assert_eq!(rig.statuses(), [OK, WcStatus::LocalProtection, FLUSHED]);
    rig.post(Operation::Send, 8);
    assert_eq!(rig.send(), None);
    assert_eq!(rig.statuses(), [FLUSHED]);
    rig.side.restart();
    rig.post(Operation::Send, 7);
    assert_eq!(rig.send_all(), [7]);
    assert_eq!(rig.statuses(), [OK]);
}

#[test]
fn what_is_no_send_or_has_no_destination_fails() {
    let read = Operation::Read {
        va: 0,
        rkey: Key(0),
    };
    for operation in [WRITE, read, Operation::SendInv(Key(1))] {
        let mut rig = Sending::new();
        rig.post(Operation::Send, 1);
        rig.post(operation, 8);
        assert_eq!(rig.send_all(), [1]);
        assert_eq!(rig.statuses(), [OK, WcStatus::LocalQpOperation]);
    }
    let mut rig = Sending::new();
    rig.post_to(None, Operation::Send, 8);
    assert_eq!(rig.send(), None);
    assert_eq!(rig.statuses(), [WcStatus::LocalQpOperation]);
}

#[test]
fn a_drained_queue_begins_nothing() {
    let mut rig = Sending::new();
    rig.post(Operation::Send, 8);
    assert!(!rig.side.is_drained());
    rig.side.drain();
    assert_eq!(rig.send(), None);
    assert!(rig.side.is_drained());
    rig.side.resume();
    assert_eq!(rig.send_all(), [8]);
}

#[test]
fn the_error_state_flushes() {
    let mut rig = Sending::new();
    rig.post(Operation::Send, 8);
    rig.side.enter_error();
    rig.post(Operation::Send, 8);
    assert_eq!(rig.send(), None);
    assert_eq!(rig.statuses(), [FLUSHED; 2]);
    assert_eq!(rig.side.head(), rig.side.tail());
}

// ---- receiving ----

struct Receiving {
    side: Receiver,
    receives: Receives,
}

impl Receiving {
    fn new(capacities: &[u64]) -> Self {
        let take = |capacity: &u64| Take::Taken {
            capacity: *capacity,
        };
        Self {
            side: Receiver::new(OWN),
            receives: Receives(capacities.iter().map(take).collect()),
        }
    }

    /// Takes a datagram in, and executes what it leads to.
    fn take(&mut self, headers: &Headers) -> Result<Option<ReceiveCompletion>, Discard> {
        match self.side.on_request(headers, &mut self.receives) {
            Action::Execute(task) => {
                let len = headers.payload_len();
                assert_eq!(task.kind(), TaskKind::PlaceDatagram { len });
                Ok(self.side.commit(task, Ok(Done::default())))
            }
            Action::Dropped(why) => Err(why),
            Action::None | Action::Keep(_) | Action::Repeated => panic!("nothing is answered"),
        }
    }
}

fn datagram(qkey: Qkey, imm: Option<Imm>, len: u32) -> Headers {
    let kind = Kind::Ud(Deth::new(qkey, REMOTE), imm);
    let spec = HeaderSpec {
        solicited: imm.is_some(),
        ..HeaderSpec::new(kind, LOCAL, psn(0))
    };
    headers(&spec, len)
}

// PROTOCOL rule 16, requirements 19 and 30.
#[test]
fn a_datagram_fills_a_receive_behind_its_header() {
    let mut rig = Receiving::new(&[100, GRH_LEN.into()]);
    for (imm, len) in [(Some(IMM), 60), (None, 0)] {
        let done = rig.take(&datagram(OWN, imm, len));
        assert_eq!(
            done,
            Ok(Some(ReceiveCompletion {
                status: OK,
                opcode: WcOpcode::Receive,
                byte_len: len + 40,
                imm,
                invalidated: None,
                solicited: imm.is_some(),
                source: Some(REMOTE),
            }))
        );
    }
    assert_eq!(
        rig.take(&datagram(OWN, None, 0)),
        Err(Discard::NotReady),
        "no receive"
    );
    assert_eq!(rig.side.poll_event(), None);
}

// PROTOCOL requirement 19.
#[test]
fn another_key_opens_nothing() {
    let mut rig = Receiving::new(&[100]);
    for qkey in [QKEY, Qkey(0), Qkey(OWN.0 | 1 << 31), Qkey::GSI] {
        assert_eq!(rig.take(&datagram(qkey, None, 8)), Err(Discard::WrongQkey));
    }
    assert_eq!(rig.receives.0.len(), 1);
    rig.side.set_qkey(QKEY);
    assert!(rig.take(&datagram(QKEY, None, 8)).is_ok());
}

// PROTOCOL rule 16, requirement 19.
#[test]
fn what_is_too_long_is_dropped_and_its_receive_serves_the_next() {
    let mut rig = Receiving::new(&[100]);
    for len in [61, 100, 4096] {
        assert_eq!(rig.take(&datagram(OWN, None, len)), Err(Discard::Refused));
    }
    assert!(rig.receives.0.is_empty());
    let done = rig.take(&datagram(OWN, None, 60)).unwrap().unwrap();
    assert_eq!((done.status, done.byte_len), (OK, 100));
    assert_eq!(rig.side.poll_event(), None);
}

#[test]
fn a_packet_longer_than_any_is_dropped() {
    let mut rig = Receiving::new(&[10_000]);
    assert_eq!(rig.take(&datagram(OWN, None, 4097)), Err(Discard::Refused));
    assert!(rig.take(&datagram(OWN, None, 4096)).is_ok());
}

#[test]
fn packets_of_connections_are_dropped() {
    let mut rig = Receiving::new(&[100]);
    let send = crate::wire::SendPart::Only(None);
    let other = packet(Kind::Uc(UcRequest::Send(send)), psn(0), 8);
    assert_eq!(rig.take(&other), Err(Discard::NotRequest));
}

#[test]
fn a_receive_that_is_at_fault_ends_the_queue_pair() {
    let mut rig = Receiving::new(&[100]);
    let Action::Execute(task) = rig
        .side
        .on_request(&datagram(OWN, None, 8), &mut rig.receives)
    else {
        panic!("dropped");
    };
    assert_eq!(rig.side.commit(task, Err(ExecError::LocalProtection)), None);
    assert_eq!(rig.side.poll_event(), Some(Event::Failed(Failure::Receive)));
    assert_eq!(rig.take(&datagram(OWN, None, 8)), Err(Discard::Closed));
    let flushed: Vec<_> = core::iter::from_fn(|| rig.side.poll_flush())
        .map(|done| done.status)
        .collect();
    assert_eq!(flushed, [WcStatus::LocalProtection]);

    let mut rig = Receiving::new(&[]);
    rig.receives
        .0
        .push(Take::Invalid(WcStatus::LocalQpOperation));
    assert_eq!(rig.take(&datagram(OWN, None, 8)), Err(Discard::Refused));
    let flushed = rig.side.poll_flush().map(|done| done.status);
    assert_eq!(flushed, Some(WcStatus::LocalQpOperation));
}

#[test]
fn the_error_state_flushes_the_receive_in_use() {
    let mut rig = Receiving::new(&[50]);
    assert_eq!(rig.take(&datagram(OWN, None, 11)), Err(Discard::Refused));
    assert_eq!(rig.side.poll_flush(), None);
    rig.side.enter_error();
    let flushed = rig.side.poll_flush().map(|done| done.status);
    assert_eq!(flushed, Some(FLUSHED));
    assert_eq!(rig.side.poll_flush(), None);
}
