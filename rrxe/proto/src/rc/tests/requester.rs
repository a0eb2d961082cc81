// SPDX-License-Identifier: GPL-2.0

#![allow(unused_must_use, reason = "not every placement is of interest")]

use core::time::Duration;
use std::collections::VecDeque;

use super::{psn, Queue};
use crate::{
    key::{Imm, Key},
    mtu::PathMtu,
    opcode::Position,
    psn::Msn,
    rc::{
        heard::Heard,
        requester::{Pause, Phase},
        Completion,
        DropReason,
        Local,
        Operation,
        Placement,
        Request,
        RequestFlags,
        RequestPacket,
        Requester,
        Response,
        RetryLimit,
        SendConfig,
        Window,
        WqeSeq, //
    },
    status::{NakCode, WcStatus},
    time::Instant,
    timers::{AckTimeout, RnrTimer},
    wire::{Aeth, Kind, RcRequest, Reth, SendEnd, SendPart, Syndrome, WritePart}, //
};

pub(super) const FIRST: u32 = 100;
const KEY: Key = Key(0x1234);
const VA: u64 = 0x10_0000;
const MTU: u32 = 256;
const TIMEOUT: Duration = Duration::from_nanos(4096 << 14);

pub(super) struct Rig {
    pub(super) side: Requester,
    pub(super) queue: Queue,
    pub(super) now: Instant,
}

pub(super) const READ: Operation = Operation::Read { va: VA, rkey: KEY };
pub(super) const WRITE: Operation = Operation::Write { va: VA, rkey: KEY };
const ATOMIC: Operation = Operation::FetchAdd {
    va: VA,
    rkey: KEY,
    add: 1,
};

pub(super) fn config() -> SendConfig {
    SendConfig {
        timeout: AckTimeout::new(14).unwrap(),
        retry: RetryLimit::from_retry_cnt(7),
        rnr_retry: RetryLimit::from_rnr_retry(3),
        max_rd_atomic: 2,
        window: Window {
            bytes: 1 << 20,
            packets: 64,
        },
    }
}

impl Rig {
    pub(super) fn with(config: SendConfig) -> Self {
        Self::starting_at(FIRST, config)
    }

    fn starting_at(first: u32, config: SendConfig) -> Self {
        Self {
            side: Requester::new(PathMtu::Mtu256, psn(first), config),
            queue: Queue(Vec::new()),
            now: Instant::from_nanos(1_000),
        }
    }

    pub(super) fn new() -> Self {
        Self::with(config())
    }

    pub(super) fn post(&mut self, operation: Operation, len: u32) -> WqeSeq {
        let flags = RequestFlags {
            signaled: true,
            ..RequestFlags::default()
        };
        self.post_with(operation, len, flags)
    }

    pub(super) fn post_with(
        &mut self,
        operation: Operation,
        len: u32,
        flags: RequestFlags,
    ) -> WqeSeq {
        let wqe = self.side.tail();
        self.queue
            .0
            .push(Request::new(operation, len, flags).unwrap());
        self.side.post();
        wqe
    }

    /// Sends all that may be sent.
    pub(super) fn send(&mut self) -> Vec<RequestPacket> {
        let mut packets = Vec::new();
        while let Some(plan) = self.side.poll_transmit(self.now, 16, &self.queue) {
            assert!(plan.count() >= 1 && plan.count() <= 16);
            packets.extend(plan.packets());
            self.check_deadline();
        }
        packets
    }

    pub(super) fn send_psns(&mut self) -> Vec<u32> {
        self.send().iter().map(|packet| packet.psn.get()).collect()
    }

    /// Whatever awaits an answer has a deadline.
    fn check_deadline(&self) {
        let waits = self.side.phase == Phase::Running && self.side.is_waiting();
        if waits && self.side.config.timeout != AckTimeout::NEVER {
            assert!(self.side.next_deadline().is_some());
        }
    }

    pub(super) fn respond(&mut self, response: Response) -> Placement {
        let placement = self.side.on_response(self.now, &response, &self.queue);
        self.check_deadline();
        placement
    }

    fn say(&mut self, at: u32, syndrome: Syndrome) -> Placement {
        self.respond(Response::Ack {
            psn: psn(at),
            aeth: Aeth::new(syndrome, Msn::ZERO),
        })
    }

    pub(super) fn ack(&mut self, at: u32) -> Placement {
        self.say(at, Syndrome::ACK)
    }

    pub(super) fn nak(&mut self, at: u32, code: NakCode) -> Placement {
        self.say(at, Syndrome::Nak(code))
    }

    pub(super) fn rnr(&mut self, at: u32, timer: u8) -> Placement {
        self.say(at, Syndrome::RnrNak(RnrTimer::new(timer).unwrap()))
    }

    pub(super) fn read(&mut self, at: u32, position: Position, len: u32) -> Placement {
        self.respond(Response::Read {
            psn: psn(at),
            position,
            aeth: (position != Position::Middle).then(|| Aeth::new(Syndrome::ACK, Msn::ZERO)),
            len,
        })
    }

    pub(super) fn atomic(&mut self, at: u32, original: u64) -> Placement {
        self.respond(Response::Atomic {
            psn: psn(at),
            aeth: Aeth::new(Syndrome::ACK, Msn::ZERO),
            original,
        })
    }

    fn lacks(&mut self) {
        self.nak(FIRST, NakCode::Sequence);
    }

    fn is_not_ready(&mut self) {
        self.rnr(FIRST, 1);
        self.expire();
    }

    fn wait(&mut self, time: Duration) {
        self.now = self.now.saturating_add(time);
        self.side.on_timeout(self.now);
    }

    /// Goes to the end of a wait, be there reminders before it or not, and tells how long that took.
    pub(super) fn expire(&mut self) -> Duration {
        let deadline = match self.side.pause {
            Some(Pause::Rnr(until) | Pause::Unsent(until)) => until,
            None => self.side.ack_deadline.unwrap(),
        };
        self.go_to(deadline)
    }

    /// Goes to the next reminder, and tells how long that took.
    fn be_silent(&mut self) -> Duration {
        let deadline = self.side.next_deadline().unwrap();
        assert!(self
            .side
            .ack_deadline
            .is_some_and(|timeout| deadline < timeout));
        self.go_to(deadline)
    }

    fn go_to(&mut self, deadline: Instant) -> Duration {
        let waited = deadline.saturating_since(self.now);
        self.now = deadline;
        self.side.on_timeout(self.now);
        waited
    }

    fn completions(&mut self) -> Vec<Completion> {
        core::iter::from_fn(|| self.side.poll_completion(&self.queue)).collect()
    }

    pub(super) fn statuses(&mut self) -> Vec<WcStatus> {
        self.completions().iter().map(|done| done.status).collect()
    }
}

fn opcode_names(packets: &[RequestPacket]) -> Vec<String> {
    packets
        .iter()
        .map(|packet| format!("{:?}", packet.kind.opcode()))
        .collect()
}

const OK: WcStatus = WcStatus::Success;
const FLUSHED: WcStatus = WcStatus::WrFlush;

// ---- what is sent ----

#[test]
fn a_message_is_cut_at_the_mtu() {
    let mut rig = Rig::new();
    rig.post_with(
        Operation::SendImm(Imm([1, 2, 3, 4])),
        600,
        RequestFlags {
            solicited: true,
            ..RequestFlags::default()
        },
    );
    let packets = rig.send();
    assert_eq!(
        opcode_names(&packets),
        ["RC_SEND_FIRST", "RC_SEND_MIDDLE", "RC_SEND_LAST_WITH_IMM"]
    );
    let parts: Vec<_> = packets.iter().map(|p| (p.offset, p.len)).collect();
    assert_eq!(parts, [(0, 256), (256, 256), (512, 88)]);
    // PROTOCOL rule 10: SE and AckReq on the last packet alone.
    let bits: Vec<_> = packets
        .iter()
        .map(|p| (p.solicited, p.ack_request))
        .collect();
    assert_eq!(bits, [(false, false), (false, false), (true, true)]);
}

#[test]
fn a_write_without_imm_is_never_solicited() {
    let mut rig = Rig::new();
    let flags = RequestFlags {
        solicited: true,
        ..RequestFlags::default()
    };
    rig.post_with(WRITE, 1, flags);
    assert!(!rig.send()[0].solicited);
}

// PROTOCOL rule 12.
#[test]
fn messages_without_bytes_take_one_packet() {
    let mut rig = Rig::new();
    rig.post(Operation::Send, 0);
    rig.post(WRITE, 0);
    rig.post(
        Operation::WriteImm {
            va: VA,
            rkey: KEY,
            imm: Imm([0; 4]),
        },
        0,
    );
    rig.post(READ, 0);
    let packets = rig.send();
    assert_eq!(
        opcode_names(&packets),
        [
            "RC_SEND_ONLY",
            "RC_WRITE_ONLY",
            "RC_WRITE_ONLY_WITH_IMM",
            "RC_READ_REQUEST"
        ]
    );
    assert!(packets.iter().all(|packet| packet.len == 0));
    assert_eq!(
        rig.read(FIRST + 3, Position::Only, 0),
        Placement::Read {
            wqe: WqeSeq::ZERO.next().next().next(),
            offset: 0,
            len: 0
        }
    );
    assert_eq!(rig.statuses(), [OK; 4]);
}

#[test]
fn psns_wrap() {
    let mut rig = Rig::starting_at(0xff_fffe, config());
    rig.post(Operation::Send, 4 * MTU);
    assert_eq!(rig.send_psns(), [0xff_fffe, 0xff_ffff, 0, 1]);
    rig.ack(0xff_ffff);
    rig.nak(0, NakCode::Sequence);
    assert_eq!(rig.send_psns(), [0]);
    rig.ack(0);
    assert_eq!(rig.send_psns(), [1]);
    rig.ack(1);
    assert_eq!(rig.statuses(), [OK]);
}

#[test]
fn a_read_takes_as_many_psns_as_its_response_has_packets() {
    let mut rig = Rig::new();
    rig.post(READ, 3 * MTU);
    rig.post(Operation::Send, 1);
    assert_eq!(rig.send_psns(), [FIRST, FIRST + 3]);
}

#[test]
fn only_signaled_success_is_reported() {
    let mut rig = Rig::new();
    rig.post_with(Operation::Send, 1, RequestFlags::default());
    rig.post(Operation::Send, 1);
    rig.send();
    rig.ack(FIRST + 1);
    let reported: Vec<_> = rig.completions().iter().map(|done| done.reported).collect();
    assert_eq!(reported, [false, true]);
}

#[test]
fn lengths_that_cannot_be_are_refused() {
    let flags = RequestFlags::default();
    assert!(Request::new(Operation::Send, (1 << 31) + 1, flags).is_none());
    assert!(Request::new(ATOMIC, 4, flags).is_none());
    let local = Operation::Local(Local::Invalidate(KEY));
    assert!(Request::new(local, 1, flags).is_none());
    for (len, is_empty) in [(0, true), (1, false)] {
        let request = Request::new(Operation::Send, len, flags).unwrap();
        assert_eq!(request.is_empty(), is_empty);
    }
}

// ---- window ----

#[test]
fn a_full_window_stops_a_message_and_asks_for_an_ack() {
    let mut rig = Rig::with(SendConfig {
        window: Window {
            bytes: 1 << 20,
            packets: 8,
        },
        ..config()
    });
    rig.post(Operation::Send, 20 * MTU);
    let packets = rig.send();
    assert_eq!(packets.len(), 8);
    // A quarter of the window at a time.
    let asked: Vec<_> = packets.iter().map(|p| p.ack_request).collect();
    assert_eq!(asked, [false, true, false, true, false, true, false, true]);
    rig.ack(FIRST + 1);
    assert_eq!(rig.send_psns(), [FIRST + 8, FIRST + 9]);
}

#[test]
fn the_window_counts_bytes() {
    let mut rig = Rig::with(SendConfig {
        window: Window {
            bytes: 1000,
            packets: 64,
        },
        ..config()
    });
    for _ in 0..6 {
        rig.post(WRITE, 200);
    }
    assert_eq!(rig.send().len(), 5);
    rig.ack(FIRST);
    assert_eq!(rig.send_psns(), [FIRST + 5]);
}

#[test]
fn a_window_smaller_than_a_packet_takes_one() {
    let mut rig = Rig::with(SendConfig {
        window: Window {
            bytes: 1,
            packets: 0,
        },
        ..config()
    });
    rig.post(Operation::Send, 2 * MTU);
    for at in [FIRST, FIRST + 1] {
        let packets = rig.send();
        assert_eq!(packets.len(), 1);
        assert!(packets[0].ack_request);
        rig.ack(at);
    }
    assert_eq!(rig.statuses(), [OK]);
}

// PROTOCOL requirement 8.
#[test]
fn a_read_larger_than_the_window_does_not_stall_what_is_behind_it() {
    let mut rig = Rig::with(SendConfig {
        window: Window {
            bytes: 1024,
            packets: 4,
        },
        ..config()
    });
    rig.post(READ, 1 << 20);
    rig.post(Operation::Send, MTU);
    assert_eq!(rig.send_psns(), [FIRST, FIRST + 4096]);
}

#[test]
fn going_back_leaves_the_window_exact() {
    let mut rig = Rig::with(SendConfig {
        window: Window {
            bytes: 1 << 20,
            packets: 4,
        },
        ..config()
    });
    for _ in 0..8 {
        rig.post(Operation::Send, 1);
    }
    for _ in 0..3 {
        assert_eq!(rig.send().len(), 4);
        rig.expire();
    }
    // An ACK for packets that are about to be sent again.
    rig.ack(FIRST + 2);
    assert_eq!(
        rig.send_psns(),
        [FIRST + 3, FIRST + 4, FIRST + 5, FIRST + 6]
    );
    assert_eq!(rig.statuses(), [OK; 3]);
}

#[test]
fn no_more_than_half_the_psns_are_on_their_way() {
    let mut rig = Rig::new();
    rig.post(Operation::Send, 1);
    rig.post(READ, 1 << 31);
    rig.post(Operation::Send, 1);
    assert_eq!(rig.send_psns(), [FIRST], "the READ needs all 2^23 PSNs");
    rig.ack(FIRST);
    assert_eq!(rig.send_psns(), [FIRST + 1]);
    // Each response makes room for a PSN.
    let _ = rig.read(FIRST + 1, Position::First, MTU);
    assert_eq!(rig.send_psns(), [FIRST + 1 + (1 << 23)]);
}

#[test]
fn a_message_of_2_gib_is_sent_to_its_end() {
    let mut rig = Rig::with(SendConfig {
        window: Window {
            bytes: 1 << 24,
            packets: 1 << 16,
        },
        ..config()
    });
    rig.post(WRITE, 1 << 31);
    let mut last = None;
    let mut count = 0u32;
    while let Some(plan) = rig.side.poll_transmit(rig.now, u32::MAX, &rig.queue) {
        count += plan.count();
        last = plan.packet(plan.count() - 1);
        assert!(plan.packet(plan.count()).is_none());
        rig.ack(last.unwrap().psn.get());
    }
    let last = last.unwrap();
    assert_eq!(count, 1 << 23);
    assert_eq!((last.offset, last.len), ((1 << 31) - MTU, MTU));
    assert_eq!(
        last.kind,
        Kind::RcRequest(RcRequest::Write(WritePart::Last(None)))
    );
    assert_eq!(rig.statuses(), [OK]);
}

// ---- acknowledgement ----

#[test]
fn one_ack_completes_several_messages() {
    let mut rig = Rig::new();
    for _ in 0..3 {
        rig.post(Operation::Send, 2 * MTU);
    }
    rig.send();
    rig.ack(FIRST + 4);
    assert_eq!(rig.statuses(), [OK, OK]);
    rig.ack(FIRST + 5);
    assert_eq!(rig.statuses(), [OK]);
    assert_eq!(rig.side.next_deadline(), None);
}

#[test]
fn acks_of_what_was_never_sent_are_ignored() {
    let mut rig = Rig::new();
    rig.post(Operation::Send, 1);
    assert_eq!(rig.ack(FIRST), Placement::Dropped(DropReason::Stale));
    rig.send();
    for at in [FIRST + 1, FIRST - 1, FIRST + (1 << 23), 0xff_ffff, 0] {
        for code in [Syndrome::ACK, Syndrome::Nak(NakCode::RemoteAccess)] {
            assert_eq!(rig.say(at, code), Placement::Dropped(DropReason::Stale));
        }
    }
    assert_eq!(rig.statuses(), []);
    rig.ack(FIRST);
    assert_eq!(rig.ack(FIRST), Placement::Dropped(DropReason::Stale));
    assert_eq!(rig.statuses(), [OK]);
}

// PROTOCOL rule 8.
#[test]
fn a_read_response_acknowledges_what_is_before_it() {
    let mut rig = Rig::new();
    rig.post(Operation::Send, 1);
    rig.post(WRITE, 1);
    rig.post(READ, 2 * MTU);
    rig.send();
    let _ = rig.read(FIRST + 2, Position::First, MTU);
    assert_eq!(rig.statuses(), [OK, OK]);
    let _ = rig.read(FIRST + 3, Position::Last, MTU);
    assert_eq!(rig.statuses(), [OK]);
}

// PROTOCOL rule 8 and requirement 3.
#[test]
fn an_ack_that_passes_a_read_without_response_is_an_implied_nak() {
    let mut rig = Rig::new();
    rig.post(Operation::Send, 1);
    rig.post(READ, 2 * MTU);
    rig.post(Operation::Send, 1);
    rig.send();
    assert_eq!(rig.ack(FIRST + 3), Placement::Dropped(DropReason::Gap));
    assert_eq!(rig.statuses(), [OK]);
    // The SEND has been executed: it is not sent again, nor acknowledged again.
    assert_eq!(rig.send_psns(), [FIRST + 1]);
    assert_eq!(rig.ack(FIRST + 3), Placement::Dropped(DropReason::Gap));
    assert_eq!(rig.send_psns(), [], "nothing new");
    let _ = rig.read(FIRST + 1, Position::First, MTU);
    let _ = rig.read(FIRST + 2, Position::Last, MTU);
    assert_eq!(rig.statuses(), [OK, OK]);
}

#[test]
fn an_ack_never_completes_a_read_or_atomic() {
    for operation in [READ, ATOMIC] {
        let mut rig = Rig::new();
        rig.post(operation, 8);
        rig.send();
        assert_eq!(rig.ack(FIRST), Placement::Dropped(DropReason::Gap));
        assert_eq!(rig.statuses(), []);
        assert_eq!(rig.send_psns(), [FIRST]);
    }
}

// PROTOCOL requirement 3.
#[test]
fn depth_is_given_back_however_a_request_ends() {
    let mut rig = Rig::new();
    for _ in 0..5 {
        rig.post(READ, 1);
    }
    rig.post(ATOMIC, 8);
    assert_eq!(rig.send_psns(), [FIRST, FIRST + 1]);
    let _ = rig.read(FIRST, Position::Only, 1);
    assert_eq!(rig.send_psns(), [FIRST + 2]);
    rig.expire();
    assert_eq!(rig.send_psns(), [FIRST + 1, FIRST + 2]);
    let _ = rig.read(FIRST + 1, Position::Only, 1);
    let _ = rig.read(FIRST + 2, Position::Only, 1);
    assert_eq!(rig.send_psns(), [FIRST + 3, FIRST + 4]);
    let _ = rig.read(FIRST + 3, Position::Only, 1);
    assert_eq!(rig.send_psns(), [FIRST + 5]);
}

#[test]
fn reads_without_depth_fail_and_do_not_hang() {
    let mut rig = Rig::with(SendConfig {
        max_rd_atomic: 0,
        ..config()
    });
    rig.post(Operation::Send, 1);
    rig.post(READ, 1);
    rig.post(Operation::Send, 1);
    assert_eq!(rig.send_psns(), [FIRST]);
    assert_eq!(rig.statuses(), []);
    rig.ack(FIRST);
    assert_eq!(rig.statuses(), [OK, WcStatus::LocalQpOperation, FLUSHED]);
}

// PROTOCOL rule 9.
#[test]
fn a_fence_waits_for_reads_and_atomics() {
    let mut rig = Rig::new();
    rig.post(Operation::Send, 1);
    rig.post(ATOMIC, 8);
    rig.post(READ, 1);
    let fence = RequestFlags {
        fence: true,
        ..RequestFlags::default()
    };
    rig.post_with(Operation::Send, 1, fence);
    assert_eq!(rig.send_psns(), [FIRST, FIRST + 1, FIRST + 2]);
    let _ = rig.atomic(FIRST + 1, 7);
    assert_eq!(rig.send_psns(), []);
    let _ = rig.read(FIRST + 2, Position::Only, 1);
    assert_eq!(rig.send_psns(), [FIRST + 3]);
}

#[test]
fn a_fence_does_not_wait_for_sends() {
    let mut rig = Rig::new();
    rig.post(Operation::Send, 1);
    let fence = RequestFlags {
        fence: true,
        ..RequestFlags::default()
    };
    rig.post_with(Operation::Send, 1, fence);
    assert_eq!(rig.send_psns(), [FIRST, FIRST + 1]);
}

// ---- READ responses ----

#[test]
fn read_responses_are_placed_in_order() {
    let mut rig = Rig::new();
    let wqe = rig.post(READ, 600);
    rig.send();
    let place = |offset, len| Placement::Read { wqe, offset, len };
    assert_eq!(rig.read(FIRST, Position::First, 256), place(0, 256));
    assert_eq!(rig.read(FIRST + 1, Position::Middle, 256), place(256, 256));
    assert_eq!(rig.statuses(), []);
    assert_eq!(rig.read(FIRST + 2, Position::Last, 88), place(512, 88));
    assert_eq!(rig.statuses(), [OK]);
}

#[test]
fn a_copy_of_a_read_response_is_dropped() {
    let mut rig = Rig::new();
    rig.post(READ, 600);
    rig.send();
    let _ = rig.read(FIRST, Position::First, 256);
    assert_eq!(
        rig.read(FIRST, Position::First, 256),
        Placement::Dropped(DropReason::Stale)
    );
    let _ = rig.read(FIRST + 1, Position::Middle, 256);
    let _ = rig.read(FIRST + 2, Position::Last, 88);
    assert_eq!(
        rig.read(FIRST + 2, Position::Last, 88),
        Placement::Dropped(DropReason::Stale)
    );
    assert_eq!(rig.statuses(), [OK]);
}

#[test]
fn a_gap_in_read_responses_is_asked_for_once_and_only_the_rest() {
    let mut rig = Rig::new();
    let wqe = rig.post(READ, 8 * MTU);
    rig.send();
    let place = |at| Placement::Read {
        wqe,
        offset: at * MTU,
        len: MTU,
    };
    let ask = |at: u32, count| {
        let va = VA + u64::from(at * MTU);
        (
            FIRST + at,
            Kind::RcRequest(RcRequest::Read(Reth::new(va, KEY, count * MTU))),
        )
    };
    let asked = |rig: &mut Rig| -> Vec<_> {
        let packets = rig.send();
        packets.iter().map(|p| (p.psn.get(), p.kind)).collect()
    };
    let _ = rig.read(FIRST, Position::First, MTU);
    for at in [3, 4] {
        assert_eq!(rig.read(FIRST + at, Position::Middle, MTU), place(at));
    }
    assert_eq!(asked(&mut rig), [ask(1, 2)]);
    assert_eq!(rig.read(FIRST + 6, Position::Middle, MTU), place(6));
    assert_eq!(asked(&mut rig), [], "the first gap comes first");
    // The end of the old stream.
    assert_eq!(rig.read(FIRST + 7, Position::Last, MTU), place(7));
    assert_eq!(asked(&mut rig), []);
    // A responder may start the response anew, or go on with the old one.
    assert_eq!(rig.read(FIRST + 1, Position::First, MTU), place(1));
    assert_eq!(asked(&mut rig), []);
    assert_eq!(rig.read(FIRST + 2, Position::Last, MTU), place(2));
    assert_eq!(asked(&mut rig), [ask(5, 1)], "only the second gap");
    let stale = Placement::Dropped(DropReason::Stale);
    assert_eq!(rig.read(FIRST + 7, Position::Last, MTU), stale);
    assert_eq!(rig.statuses(), []);
    assert_eq!(rig.read(FIRST + 5, Position::Only, MTU), place(5));
    assert_eq!(rig.statuses(), [OK]);
}

#[test]
fn responses_to_later_requests_are_placed_before_those_that_are_missing() {
    let mut rig = Rig::new();
    rig.post(READ, 2 * MTU);
    let atomic = rig.post(ATOMIC, 8);
    rig.post(Operation::Send, 1);
    rig.send();
    assert_eq!(
        rig.atomic(FIRST + 2, 9),
        Placement::Atomic {
            wqe: atomic,
            original: 9
        }
    );
    rig.ack(FIRST + 3);
    assert_eq!(rig.send_psns(), [FIRST]);
    let _ = rig.read(FIRST, Position::First, MTU);
    assert_eq!(rig.statuses(), []);
    let _ = rig.read(FIRST + 1, Position::Last, MTU);
    assert_eq!(rig.statuses(), [OK; 3]);
    assert_eq!(rig.side.next_deadline(), None);
}

#[test]
fn a_response_may_end_early_only_where_a_part_was_asked_for() {
    let mut rig = Rig::new();
    rig.post(READ, 8 * MTU);
    rig.send();
    let _ = rig.read(FIRST, Position::First, MTU);
    let _ = rig.read(FIRST + 3, Position::Middle, MTU);
    rig.send();
    let _ = rig.read(FIRST + 1, Position::First, MTU);
    let _ = rig.read(FIRST + 2, Position::Last, MTU);
    assert_eq!(
        rig.read(FIRST + 4, Position::Last, MTU),
        Placement::Dropped(DropReason::Malformed)
    );
    assert_eq!(rig.statuses(), [WcStatus::BadResponse]);
}

#[test]
fn responses_too_far_past_a_gap_are_asked_for_again() {
    let mut rig = Rig::new();
    let count = Heard::REACH + 10;
    rig.post(READ, count * MTU);
    rig.send();
    for at in 1..Heard::REACH {
        let placement = rig.read(FIRST + at, Position::Middle, MTU);
        assert!(matches!(placement, Placement::Read { .. }));
    }
    assert_eq!(rig.send_psns(), [FIRST]);
    let gap = Placement::Dropped(DropReason::Gap);
    for at in Heard::REACH..count {
        let position = Position::of(at, count);
        assert_eq!(rig.read(FIRST + at, position, MTU), gap);
    }
    assert_eq!(rig.send_psns(), []);
    let _ = rig.read(FIRST, Position::Only, MTU);
    assert_eq!(rig.send_psns(), [FIRST + Heard::REACH]);
    for at in Heard::REACH..count {
        let _ = rig.read(FIRST + at, Position::of(at, count), MTU);
    }
    assert_eq!(rig.statuses(), [OK]);
}

// On a long way there is more under way than is remembered of what has come past a gap.
#[test]
fn one_response_lost_on_a_long_way_takes_few_requests() {
    const LEN: u32 = 3000;
    const READS: u32 = 4;
    const WAY: u32 = 5000;
    let mut rig = Rig::with(SendConfig {
        max_rd_atomic: READS as u8,
        ..config()
    });
    for _ in 0..READS {
        rig.post(READ, LEN * MTU);
    }
    // A response leaves at each tick, in the order in which they were asked for.
    let mut asked = VecDeque::new();
    let mut coming: VecDeque<(u32, u32)> = VecDeque::new();
    let mut requests = 0;
    let mut take = |packets: Vec<RequestPacket>, asked: &mut VecDeque<u32>| {
        for packet in packets {
            let Kind::RcRequest(RcRequest::Read(reth)) = packet.kind else {
                panic!("{packet:?}");
            };
            requests += 1;
            let first = packet.psn.get();
            asked.extend(first..first + reth.dma_len() / MTU);
        }
    };
    take(rig.send(), &mut asked);
    asked.pop_front();
    let mut tick = 0;
    while !(asked.is_empty() && coming.is_empty()) {
        coming.extend(asked.pop_front().map(|at| (tick + WAY, at)));
        if coming.front().is_some_and(|(due, _)| *due == tick) {
            let (_, at) = coming.pop_front().unwrap();
            rig.read(at, Position::of((at - FIRST) % LEN, LEN), MTU);
            take(rig.send(), &mut asked);
        }
        tick += 1;
    }
    assert_eq!(rig.statuses(), [OK; READS as usize]);
    assert!(requests <= READS + 12, "{requests} requests");
}

#[test]
fn a_read_is_asked_for_again_from_its_last_packet() {
    let mut rig = Rig::new();
    let wqe = rig.post(READ, 600);
    rig.send();
    let _ = rig.read(FIRST, Position::First, MTU);
    let _ = rig.read(FIRST + 1, Position::Middle, MTU);
    rig.expire();
    assert_eq!(
        rig.send()[0].kind,
        Kind::RcRequest(RcRequest::Read(Reth::new(VA + 512, KEY, 88)))
    );
    assert_eq!(
        rig.read(FIRST + 2, Position::Only, 88),
        Placement::Read {
            wqe,
            offset: 512,
            len: 88
        }
    );
    assert_eq!(rig.statuses(), [OK]);
}

#[test]
fn responses_that_arrive_before_they_are_asked_for_again_count() {
    let mut rig = Rig::new();
    rig.post(READ, 2 * MTU);
    rig.post(Operation::Send, 1);
    rig.send();
    rig.expire();
    let _ = rig.read(FIRST, Position::First, MTU);
    let _ = rig.read(FIRST + 1, Position::Last, MTU);
    assert_eq!(rig.send_psns(), [FIRST + 2]);
}

// PROTOCOL requirement 6.
#[test]
fn impossible_read_responses_are_bad_responses() {
    let cases = [
        (0, Position::First, MTU - 1),
        (0, Position::First, MTU + 4),
        (0, Position::Middle, MTU),
        (0, Position::Only, MTU),
        (0, Position::Last, MTU),
    ];
    for (at, position, len) in cases {
        let mut rig = Rig::new();
        rig.post(READ, 600);
        rig.post(Operation::Send, 1);
        rig.send();
        assert_eq!(
            rig.read(FIRST + at, position, len),
            Placement::Dropped(DropReason::Malformed)
        );
        assert_eq!(rig.statuses(), [WcStatus::BadResponse, FLUSHED]);
    }
}

#[test]
fn a_read_response_longer_or_shorter_than_asked_is_bad() {
    for (position, len) in [
        (Position::Last, 87),
        (Position::Last, 89),
        (Position::Middle, 256),
        (Position::First, 256),
    ] {
        let mut rig = Rig::new();
        rig.post(READ, 600);
        rig.send();
        let _ = rig.read(FIRST, Position::First, MTU);
        let _ = rig.read(FIRST + 1, Position::Middle, MTU);
        let _ = rig.read(FIRST + 2, position, len);
        assert_eq!(rig.statuses(), [WcStatus::BadResponse]);
    }
}

// PROTOCOL requirement 6.
#[test]
fn data_with_a_nak_acknowledges_nothing_before_a_gap() {
    let mut rig = Rig::new();
    rig.post(Operation::Send, 1);
    rig.post(READ, 1);
    rig.post(READ, 1);
    rig.send();
    let placement = rig.respond(Response::Read {
        psn: psn(FIRST + 2),
        position: Position::Only,
        aeth: Some(Aeth::new(Syndrome::Nak(NakCode::RemoteAccess), Msn::ZERO)),
        len: 1,
    });
    assert_eq!(placement, Placement::Dropped(DropReason::Malformed));
    assert_eq!(rig.statuses(), []);
}

// PROTOCOL requirement 6.
#[test]
fn a_response_of_the_wrong_kind_is_bad_and_acknowledges_nothing() {
    let mut rig = Rig::new();
    rig.post(Operation::Send, 1);
    rig.post(Operation::Send, 1);
    rig.send();
    let _ = rig.read(FIRST + 1, Position::Only, 1);
    assert_eq!(rig.statuses(), []);
    rig.ack(FIRST);
    assert_eq!(rig.statuses(), [OK, WcStatus::BadResponse]);

    let mut rig = Rig::new();
    rig.post(READ, 8);
    rig.send();
    let _ = rig.atomic(FIRST, 1);
    assert_eq!(rig.statuses(), [WcStatus::BadResponse]);

    let mut rig = Rig::new();
    rig.post(ATOMIC, 8);
    rig.send();
    let _ = rig.read(FIRST, Position::Only, 8);
    assert_eq!(rig.statuses(), [WcStatus::BadResponse]);
}

#[test]
fn data_with_a_nak_is_a_bad_response() {
    let nak = Aeth::new(Syndrome::Nak(NakCode::RemoteAccess), Msn::ZERO);
    let mut rig = Rig::new();
    rig.post(READ, 8);
    rig.send();
    let _ = rig.respond(Response::Read {
        psn: psn(FIRST),
        position: Position::Only,
        aeth: Some(nak),
        len: 8,
    });
    assert_eq!(rig.statuses(), [WcStatus::BadResponse]);

    let mut rig = Rig::new();
    rig.post(ATOMIC, 8);
    rig.send();
    let _ = rig.respond(Response::Atomic {
        psn: psn(FIRST),
        aeth: nak,
        original: 1,
    });
    assert_eq!(rig.statuses(), [WcStatus::BadResponse]);
}

// PROTOCOL requirement 6.
#[test]
fn a_nak_for_reliable_datagrams_is_a_bad_response() {
    let mut rig = Rig::new();
    rig.post(Operation::Send, 1);
    rig.send();
    let _ = rig.nak(FIRST, NakCode::InvalidRdRequest);
    assert_eq!(rig.statuses(), [WcStatus::BadResponse]);
}

// ---- atomics ----

#[test]
fn a_lost_atomic_response_is_asked_for_again() {
    let mut rig = Rig::new();
    let wqe = rig.post(ATOMIC, 8);
    let first = rig.send();
    rig.expire();
    assert_eq!(rig.send(), first);
    assert_eq!(
        rig.atomic(FIRST, 42),
        Placement::Atomic { wqe, original: 42 }
    );
    assert_eq!(rig.atomic(FIRST, 43), Placement::Dropped(DropReason::Stale));
    assert_eq!(rig.statuses(), [OK]);
}

// ---- retry ----

#[test]
fn a_sequence_nak_sends_again_from_its_psn() {
    let mut rig = Rig::new();
    rig.post(WRITE, 6 * MTU);
    let first = rig.send();
    rig.nak(FIRST + 2, NakCode::Sequence);
    let mut again = rig.send();
    assert_eq!(again.len(), 1);
    assert!(again[0].ack_request);
    // The peer has dropped the rest.
    rig.ack(FIRST + 2);
    again.extend(rig.send());
    // The same packets in the middle of the message, but for AckReq.
    assert_eq!(again.len(), 4);
    for (old, new) in first[2..].iter().zip(&again) {
        assert_eq!((old.kind, old.psn), (new.kind, new.psn));
        assert_eq!((old.offset, old.len), (new.offset, new.len));
    }
    assert_eq!(
        again[0].kind,
        Kind::RcRequest(RcRequest::Write(WritePart::Middle))
    );
    rig.ack(FIRST + 5);
    assert_eq!(rig.statuses(), [OK]);
}

#[test]
fn a_copy_of_a_nak_is_old_news() {
    let mut rig = Rig::new();
    rig.post(WRITE, 6 * MTU);
    rig.send();
    rig.nak(FIRST + 2, NakCode::Sequence);
    rig.nak(FIRST + 2, NakCode::Sequence);
    assert_eq!(rig.send().len(), 1);
    rig.nak(FIRST + 2, NakCode::Sequence);
    assert_eq!(rig.send().len(), 0);
}

#[test]
fn a_plan_tells_how_much_of_it_is_sent_again() {
    let mut rig = Rig::new();
    rig.post(WRITE, 3 * MTU);
    let first = rig.side.poll_transmit(rig.now, 2, &rig.queue).unwrap();
    assert_eq!((first.count(), first.repeated()), (2, 0));
    rig.expire();
    let again = rig.side.poll_transmit(rig.now, 16, &rig.queue).unwrap();
    assert_eq!((again.count(), again.repeated()), (2, 2));
    let rest = rig.side.poll_transmit(rig.now, 16, &rig.queue).unwrap();
    assert_eq!((rest.count(), rest.repeated()), (1, 0));
}

#[test]
fn what_is_sent_again_ends_with_a_request_for_an_ack() {
    let mut rig = Rig::new();
    rig.post(Operation::Send, 40 * MTU);
    let plan = rig.side.poll_transmit(rig.now, 5, &rig.queue).unwrap();
    assert!(!plan.packet(4).unwrap().ack_request);
    rig.expire();
    let plan = rig.side.poll_transmit(rig.now, 16, &rig.queue).unwrap();
    assert_eq!(plan.count(), 5);
    assert!(plan.packet(4).unwrap().ack_request);
}

#[test]
fn a_peer_that_keeps_what_comes_after_a_gap_is_sent_only_what_it_lacks() {
    let mut rig = Rig::new();
    rig.post(WRITE, 10 * MTU);
    rig.send();
    rig.nak(FIRST + 2, NakCode::Sequence);
    assert_eq!(rig.send_psns(), [FIRST + 2]);
    rig.post(WRITE, 1);
    assert_eq!(rig.send_psns(), [], "it is not known yet whether it keeps");
    // What has not arrived before what was sent again never will.
    rig.ack(FIRST + 5);
    assert_eq!(rig.send_psns(), [FIRST + 6, FIRST + 10]);
    rig.nak(FIRST + 6, NakCode::Sequence);
    assert_eq!(rig.send_psns(), [], "that is known");
    rig.ack(FIRST + 10);
    assert_eq!(rig.statuses(), [OK, OK]);
}

#[test]
fn a_peer_that_keeps_is_sent_what_is_new_meanwhile() {
    let mut rig = Rig::new();
    rig.post(WRITE, 4 * MTU);
    rig.send();
    rig.nak(FIRST, NakCode::Sequence);
    rig.send();
    rig.ack(FIRST + 3);
    rig.post(WRITE, 4 * MTU);
    rig.send();
    rig.nak(FIRST + 4, NakCode::Sequence);
    rig.post(WRITE, 2 * MTU);
    assert_eq!(rig.send_psns(), [FIRST + 4, FIRST + 8, FIRST + 9]);
    // What was new may still be on its way.
    rig.ack(FIRST + 7);
    assert_eq!(rig.send_psns(), []);
    rig.ack(FIRST + 9);
    assert_eq!(rig.statuses(), [OK; 3]);
}

#[test]
fn a_wide_gap_takes_few_turns() {
    let mut rig = Rig::new();
    rig.post(WRITE, 4 * MTU);
    rig.send();
    rig.nak(FIRST, NakCode::Sequence);
    rig.send();
    rig.ack(FIRST + 3);
    rig.post(WRITE, 20 * MTU);
    rig.send();
    rig.nak(FIRST + 4, NakCode::Sequence);
    assert_eq!(rig.send_psns(), [FIRST + 4]);
    rig.ack(FIRST + 4);
    assert_eq!(rig.send_psns(), [FIRST + 5, FIRST + 6]);
    rig.ack(FIRST + 6);
    let again = rig.send();
    assert_eq!(again.len(), 4);
    let asked: Vec<_> = again.iter().map(|p| p.ack_request).collect();
    assert_eq!(asked, [false, false, false, true]);
    rig.ack(FIRST + 23);
    assert_eq!(rig.statuses(), [OK; 2]);
}

#[test]
fn a_peer_that_drops_is_sent_all_again_and_is_seldom_tried() {
    let mut rig = Rig::new();
    let mut first = FIRST;
    for is_tried in [true, false, true, false, false, true] {
        rig.post(WRITE, 4 * MTU);
        rig.send();
        rig.nak(first, NakCode::Sequence);
        let again: Vec<_> = (first..first + 4).collect();
        if is_tried {
            assert_eq!(rig.send_psns(), again[..1]);
            rig.ack(first);
            assert_eq!(rig.send_psns(), again[1..]);
        } else {
            assert_eq!(rig.send_psns(), again);
        }
        rig.ack(first + 3);
        first += 4;
    }
    assert_eq!(rig.statuses(), [OK; 6]);
}

#[test]
fn what_arrives_late_is_followed_by_what_was_dropped() {
    let mut rig = Rig::new();
    rig.post(WRITE, 4 * MTU);
    rig.send();
    rig.nak(FIRST, NakCode::Sequence);
    rig.ack(FIRST);
    assert_eq!(rig.send_psns(), [FIRST + 1]);
    rig.ack(FIRST + 1);
    assert_eq!(rig.send_psns(), [FIRST + 2, FIRST + 3]);
}

#[test]
fn what_is_executed_before_it_is_sent_again_is_not_sent_again() {
    let mut rig = Rig::new();
    rig.post(WRITE, 1);
    rig.post(READ, 2 * MTU);
    rig.post(WRITE, 1);
    rig.post(WRITE, 1);
    rig.send();
    rig.nak(FIRST, NakCode::Sequence);
    // It has only been late. The response to the READ is lost, and so is the last WRITE.
    rig.ack(FIRST + 3);
    assert_eq!(rig.send_psns(), [FIRST + 1, FIRST + 4]);
    let _ = rig.read(FIRST + 1, Position::First, MTU);
    let _ = rig.read(FIRST + 2, Position::Last, MTU);
    rig.ack(FIRST + 4);
    assert_eq!(rig.statuses(), [OK; 4]);
}

#[test]
fn what_is_about_to_be_sent_again_is_not_asked_for_besides() {
    let mut rig = Rig::new();
    rig.post(READ, 2 * MTU);
    rig.post(ATOMIC, 8);
    rig.send();
    rig.expire();
    // A response to what was sent first.
    let _ = rig.atomic(FIRST + 2, 9);
    assert_eq!(rig.send_psns(), [FIRST, FIRST + 2]);
}

#[test]
fn a_request_and_a_response_before_it_may_both_be_missing() {
    let mut rig = Rig::new();
    rig.post(READ, 2 * MTU);
    rig.post(WRITE, 1);
    rig.post(WRITE, 1);
    rig.send();
    rig.nak(FIRST + 2, NakCode::Sequence);
    assert_eq!(rig.send_psns(), [FIRST, FIRST + 2]);
    rig.nak(FIRST + 2, NakCode::Sequence);
    assert_eq!(rig.send_psns(), []);
    rig.ack(FIRST + 3);
    let _ = rig.read(FIRST, Position::First, MTU);
    let _ = rig.read(FIRST + 1, Position::Last, MTU);
    assert_eq!(rig.statuses(), [OK; 3]);
}

// ---- reminders ----

#[test]
fn a_silent_peer_is_reminded_of_the_oldest_packet() {
    let mut rig = Rig::with(SendConfig {
        retry: RetryLimit::from_retry_cnt(1),
        ..config()
    });
    rig.post(WRITE, 4 * MTU);
    rig.send();
    let mut waited = Duration::ZERO;
    for _ in 0..3 {
        waited += rig.be_silent();
        let again = rig.send();
        assert_eq!(again.len(), 1);
        assert_eq!((again[0].psn.get(), again[0].ack_request), (FIRST, true));
    }
    // They are no retries, and put nothing off.
    assert_eq!(waited + rig.expire(), TIMEOUT);
    assert_eq!(rig.send().len(), 4);
    rig.expire();
    assert_eq!(rig.statuses(), [WcStatus::RetryExceeded]);
}

#[test]
fn a_lost_nak_costs_a_reminder() {
    let mut rig = Rig::new();
    rig.post(WRITE, 10 * MTU);
    rig.send();
    rig.be_silent();
    assert_eq!(rig.send_psns(), [FIRST]);
    // A peer that drops has lost them all, and may be slow to acknowledge them.
    rig.ack(FIRST);
    assert_eq!(rig.send_psns(), [FIRST + 1, FIRST + 2]);
    rig.ack(FIRST + 2);
    assert_eq!(rig.send().len(), 4);
    // This one was only slow.
    rig.ack(FIRST + 8);
    assert_eq!(rig.send_psns(), []);
    rig.ack(FIRST + 9);
    assert_eq!(rig.statuses(), [OK]);
}

#[test]
fn a_reminder_sends_nothing_new_past_a_gap_that_the_peer_has_told_of() {
    let mut rig = Rig::new();
    rig.post(WRITE, 4 * MTU);
    rig.send();
    rig.nak(FIRST, NakCode::Sequence);
    assert_eq!(rig.send_psns(), [FIRST]);
    rig.post(WRITE, 1);
    let mut waited = Duration::ZERO;
    for _ in 0..3 {
        waited += rig.be_silent();
        assert_eq!(rig.send_psns(), [FIRST], "the peer may drop what is new");
    }
    // The NAK was the first retry.
    assert_eq!(waited + rig.expire(), 2 * TIMEOUT, "that puts nothing off");
    assert_eq!(
        rig.send_psns(),
        [FIRST, FIRST + 1, FIRST + 2, FIRST + 3, FIRST + 4]
    );
}

#[test]
fn a_response_that_is_lost_again_is_asked_for_again() {
    let mut rig = Rig::new();
    rig.post(READ, 5 * MTU);
    rig.send();
    for at in [1, 3] {
        let _ = rig.read(FIRST + at, Position::Middle, MTU);
    }
    let _ = rig.read(FIRST + 4, Position::Last, MTU);
    assert_eq!(rig.send_psns(), [FIRST]);
    rig.be_silent();
    assert_eq!(rig.send_psns(), [FIRST]);
    let _ = rig.read(FIRST, Position::Only, MTU);
    assert_eq!(rig.send_psns(), [FIRST + 2]);
    let _ = rig.read(FIRST + 2, Position::Only, MTU);
    assert_eq!(rig.statuses(), [OK]);
}

#[test]
fn without_retries_or_a_timeout_there_are_no_reminders() {
    for (retry, timeout) in [(0, config().timeout), (7, AckTimeout::NEVER)] {
        let mut rig = Rig::with(SendConfig {
            retry: RetryLimit::from_retry_cnt(retry),
            timeout,
            ..config()
        });
        rig.post(Operation::Send, 1);
        rig.send();
        assert_eq!(rig.side.next_deadline(), rig.side.ack_deadline);
    }
}

// PROTOCOL requirement 4.
#[test]
fn retry_count_of_n_means_n_retries() {
    for count in 0..=7 {
        let mut rig = Rig::with(SendConfig {
            retry: RetryLimit::from_retry_cnt(count),
            ..config()
        });
        rig.post(Operation::Send, 1);
        rig.post(Operation::Send, 1);
        for retry in 0..count {
            assert_eq!(rig.send_psns(), [FIRST, FIRST + 1]);
            assert_eq!(rig.expire(), TIMEOUT * (1 << retry.min(2)));
            assert_eq!(rig.statuses(), []);
        }
        assert_eq!(rig.send_psns(), [FIRST, FIRST + 1]);
        rig.expire();
        assert_eq!(rig.statuses(), [WcStatus::RetryExceeded, FLUSHED]);
        assert_eq!(rig.side.next_deadline(), None);
    }
}

// PROTOCOL rule 7.
#[test]
fn a_peer_that_takes_long_is_given_more_time_with_each_retry() {
    // It answers each request after 20 timeouts, and more than eight times it is not asked.
    let mut rig = Rig::new();
    for _ in 0..3 {
        rig.post(Operation::Send, 1);
        let first = rig.send_psns();
        let answer = rig.now.saturating_add(20 * TIMEOUT);
        while rig.side.next_deadline().is_some_and(|due| due < answer) {
            rig.go_to(rig.side.next_deadline().unwrap());
            rig.send();
        }
        rig.now = answer;
        rig.ack(first[0]);
        assert_eq!(rig.statuses(), [OK]);
    }
    rig.post(Operation::Send, 1);
    rig.send();
    assert_eq!(rig.expire(), TIMEOUT, "progress ends that");
}

// PROTOCOL rule 7.
#[test]
fn progress_gives_all_retries_back() {
    let mut rig = Rig::with(SendConfig {
        retry: RetryLimit::from_retry_cnt(1),
        ..config()
    });
    rig.post(Operation::Send, 4 * MTU);
    for at in 0..3 {
        rig.send();
        rig.expire();
        assert!(!rig.send().is_empty());
        rig.ack(FIRST + at);
    }
    rig.expire();
    rig.send();
    rig.expire();
    assert_eq!(rig.statuses(), [WcStatus::RetryExceeded]);
}

#[test]
fn naks_use_retries_up_as_timeouts_do() {
    let mut rig = Rig::with(SendConfig {
        retry: RetryLimit::from_retry_cnt(1),
        ..config()
    });
    rig.post(Operation::Send, 3 * MTU);
    rig.send();
    rig.nak(FIRST, NakCode::Sequence);
    rig.send();
    rig.expire();
    assert_eq!(rig.statuses(), [WcStatus::RetryExceeded]);
}

#[test]
fn the_timer_runs_from_the_last_progress() {
    let mut rig = Rig::new();
    rig.post(Operation::Send, 1);
    rig.send();
    rig.wait(TIMEOUT / 2);
    rig.post(Operation::Send, 1);
    rig.send();
    // Sending does not put it off, progress does.
    rig.ack(FIRST);
    assert_eq!(rig.expire(), TIMEOUT);
    assert_eq!(rig.send_psns(), [FIRST + 1]);
}

#[test]
fn sending_does_not_put_the_timer_off() {
    let mut rig = Rig::new();
    rig.post(Operation::Send, 1);
    rig.send();
    rig.wait(TIMEOUT / 2);
    rig.post(Operation::Send, 1);
    rig.send();
    assert_eq!(rig.expire(), TIMEOUT / 2);
}

#[test]
fn attributes_that_change_count_from_then_on() {
    let mut rig = Rig::new();
    rig.side.set_config(SendConfig {
        timeout: AckTimeout::NEVER,
        ..config()
    });
    rig.post(WRITE, 1);
    rig.send();
    assert_eq!(rig.side.next_deadline(), None);
}

#[test]
fn a_timeout_of_zero_is_never() {
    let mut rig = Rig::with(SendConfig {
        timeout: AckTimeout::NEVER,
        ..config()
    });
    rig.post(Operation::Send, 1);
    rig.send();
    assert_eq!(rig.side.next_deadline(), None);
}

// ---- receiver not ready ----

// PROTOCOL requirement 5.
#[test]
fn an_rnr_nak_waits_and_sends_again_from_its_psn() {
    let mut rig = Rig::new();
    for _ in 0..4 {
        rig.post(Operation::Send, 1);
    }
    rig.send();
    rig.rnr(FIRST + 2, 25);
    // All before it is acknowledged.
    assert_eq!(rig.statuses(), [OK, OK]);
    assert_eq!(rig.send_psns(), []);
    rig.post(Operation::Send, 1);
    assert_eq!(rig.send_psns(), [], "posting does not end the wait");
    rig.wait(Duration::from_nanos(61_440_000 - 1));
    assert_eq!(rig.send_psns(), []);
    assert_eq!(rig.expire(), Duration::from_nanos(1));
    assert_eq!(rig.send_psns(), [FIRST + 2]);
    rig.ack(FIRST + 2);
    assert_eq!(rig.send_psns(), [FIRST + 3, FIRST + 4]);
}

#[test]
fn an_rnr_nak_is_heeded_between_a_timeout_and_the_packet_sent_again() {
    let mut rig = Rig::new();
    rig.post(Operation::Send, 1);
    rig.send();
    assert_eq!(rig.expire(), TIMEOUT);
    rig.rnr(FIRST, 25);
    assert_eq!(rig.send_psns(), []);
    rig.rnr(FIRST, 25);
    assert_eq!(rig.expire(), Duration::from_nanos(61_440_000));
    assert_eq!(rig.send_psns(), [FIRST]);
}

#[test]
fn an_rnr_nak_is_heeded_between_a_sequence_nak_and_the_packet_sent_again() {
    let mut rig = Rig::new();
    rig.post(Operation::Send, 1);
    rig.post(Operation::Send, 1);
    rig.send();
    rig.nak(FIRST, NakCode::Sequence);
    rig.rnr(FIRST, 25);
    assert_eq!(rig.send_psns(), []);
    assert_eq!(rig.expire(), Duration::from_nanos(61_440_000));
}

// A receiver that stays without receives for long, on a link that loses packets now and then.
#[test]
fn an_rnr_nak_shows_that_the_peer_lives_and_renews_the_retries() {
    let mut rig = Rig::with(SendConfig {
        retry: RetryLimit::from_retry_cnt(1),
        rnr_retry: RetryLimit::from_rnr_retry(7),
        ..config()
    });
    rig.post(Operation::Send, 1);
    rig.send();
    for _ in 0..5 {
        assert_eq!(rig.expire(), TIMEOUT);
        rig.send();
        rig.rnr(FIRST, 1);
        rig.expire();
        rig.send();
    }
    assert_eq!(rig.statuses(), []);
    rig.expire();
    rig.send();
    rig.expire();
    assert_eq!(rig.statuses(), [WcStatus::RetryExceeded]);
}

// PROTOCOL requirement 5.
#[test]
fn sequence_naks_after_an_rnr_nak_use_no_retry_up() {
    let mut rig = Rig::with(SendConfig {
        retry: RetryLimit::from_retry_cnt(0),
        rnr_retry: RetryLimit::from_rnr_retry(7),
        ..config()
    });
    for _ in 0..4 {
        rig.post(Operation::Send, 1);
    }
    rig.send();
    for _ in 0..20 {
        rig.rnr(FIRST, 1);
        rig.nak(FIRST, NakCode::Sequence);
        rig.expire();
        assert_eq!(rig.send_psns(), [FIRST]);
        // One that was slow.
        rig.nak(FIRST, NakCode::Sequence);
    }
    rig.ack(FIRST + 3);
    assert_eq!(rig.statuses(), [OK; 4]);
}

#[test]
fn rnr_retry_of_n_means_n_retries_and_7_no_end() {
    for count in 0..=7 {
        let mut rig = Rig::with(SendConfig {
            rnr_retry: RetryLimit::from_rnr_retry(count),
            ..config()
        });
        rig.post(Operation::Send, 1);
        rig.send();
        let cycles = if count == 7 { 1000 } else { count.into() };
        for _ in 0..cycles {
            rig.rnr(FIRST, 1);
            rig.rnr(FIRST, 1);
            rig.expire();
            assert_eq!(rig.send_psns(), [FIRST]);
        }
        rig.rnr(FIRST, 1);
        if count < 7 {
            assert_eq!(rig.statuses(), [WcStatus::RnrRetryExceeded]);
        } else {
            assert_eq!(rig.statuses(), []);
        }
    }
}

#[test]
fn progress_ends_an_rnr_wait() {
    let mut rig = Rig::new();
    rig.post(Operation::Send, 1);
    rig.post(Operation::Send, 1);
    rig.send();
    rig.rnr(FIRST, 1);
    rig.ack(FIRST);
    assert_eq!(rig.send_psns(), [FIRST + 1]);
}

#[test]
fn an_rnr_nak_that_passes_a_read_without_response_is_an_implied_nak() {
    let mut rig = Rig::new();
    rig.post(READ, 1);
    rig.post(Operation::Send, 1);
    rig.send();
    rig.rnr(FIRST + 1, 31);
    assert_eq!(rig.send_psns(), [FIRST, FIRST + 1]);
}

// PROTOCOL rule 13.
#[test]
fn an_rnr_nak_in_the_middle_of_a_write_sends_only_the_rest_again() {
    let mut rig = Rig::new();
    let imm = Imm([9, 8, 7, 6]);
    rig.post(
        Operation::WriteImm {
            va: VA,
            rkey: KEY,
            imm,
        },
        3 * MTU,
    );
    rig.send();
    rig.rnr(FIRST + 2, 1);
    rig.expire();
    let again = rig.send();
    assert_eq!(again.len(), 1);
    assert_eq!(
        again[0].kind,
        Kind::RcRequest(RcRequest::Write(WritePart::Last(Some(imm))))
    );
    assert_eq!(again[0].offset, 512);
}

// ---- errors ----

// PROTOCOL rule 17.
#[test]
fn naks_end_requests_and_flush_the_rest() {
    for (code, status) in [
        (NakCode::InvalidRequest, WcStatus::RemoteInvalidRequest),
        (NakCode::RemoteAccess, WcStatus::RemoteAccess),
        (NakCode::RemoteOperational, WcStatus::RemoteOperation),
    ] {
        let mut rig = Rig::new();
        rig.post(Operation::Send, 1);
        rig.post_with(WRITE, 3 * MTU, RequestFlags::default());
        rig.post_with(Operation::Send, 1, RequestFlags::default());
        rig.send();
        rig.nak(FIRST + 2, code);
        rig.post_with(Operation::Send, 1, RequestFlags::default());
        let done = rig.completions();
        let statuses: Vec<_> = done.iter().map(|done| done.status).collect();
        assert_eq!(statuses, [OK, status, FLUSHED, FLUSHED]);
        assert!(done.iter().all(|done| done.reported));
        // What is posted from now on is flushed as well.
        rig.post(Operation::Send, 1);
        assert_eq!(rig.send_psns(), []);
        assert_eq!(rig.statuses(), [FLUSHED]);
        assert_eq!(rig.side.next_deadline(), None);
    }
}

#[test]
fn a_read_that_fails_in_the_middle_ends() {
    let mut rig = Rig::new();
    rig.post(READ, 4 * MTU);
    rig.send();
    let _ = rig.read(FIRST, Position::First, MTU);
    rig.nak(FIRST + 2, NakCode::RemoteAccess);
    assert_eq!(rig.statuses(), [WcStatus::RemoteAccess]);
}

#[test]
fn a_local_error_waits_for_its_turn() {
    let mut rig = Rig::new();
    rig.post(Operation::Send, 1);
    let bad = rig.post(Operation::Send, 1);
    rig.post(Operation::Send, 1);
    rig.send();
    rig.side.fail(bad, WcStatus::LocalProtection);
    assert_eq!(rig.statuses(), []);
    rig.expire();
    assert_eq!(rig.send_psns(), [FIRST], "nothing from the bad one on");
    rig.ack(FIRST);
    assert_eq!(rig.statuses(), [OK, WcStatus::LocalProtection, FLUSHED]);
}

#[test]
fn a_request_that_was_refused_waits_for_nothing() {
    let mut rig = Rig::new();
    rig.post(WRITE, 1);
    rig.send();
    rig.nak(FIRST, NakCode::RemoteAccess);
    assert_eq!(rig.side.next_deadline(), None);
}

#[test]
fn read_data_that_cannot_be_placed_fails_its_request() {
    let mut rig = Rig::new();
    let wqe = rig.post(READ, 1);
    rig.post(Operation::Send, 1);
    rig.send();
    let _ = rig.read(FIRST, Position::Only, 1);
    rig.side.fail(wqe, WcStatus::LocalProtection);
    let _ = rig.ack(FIRST + 1);
    assert_eq!(rig.statuses(), [WcStatus::LocalProtection, FLUSHED]);
}

#[test]
fn the_first_of_two_failures_counts() {
    let mut rig = Rig::new();
    let first = rig.post(Operation::Send, 1);
    let second = rig.post(Operation::Send, 1);
    rig.side.fail(second, WcStatus::LocalLength);
    rig.side.fail(first, WcStatus::LocalProtection);
    rig.side.fail(second, WcStatus::LocalLength);
    assert_eq!(rig.statuses(), [WcStatus::LocalProtection, FLUSHED]);
}

#[test]
fn failing_what_is_not_posted_does_nothing() {
    let mut rig = Rig::new();
    let tail = rig.side.tail();
    rig.side.fail(tail, WcStatus::LocalLength);
    rig.post(Operation::Send, 1);
    assert_eq!(rig.send_psns(), [FIRST]);
}

#[test]
fn the_error_state_flushes_what_is_not_acknowledged() {
    let mut rig = Rig::new();
    for _ in 0..3 {
        rig.post(Operation::Send, 1);
    }
    rig.send();
    rig.ack(FIRST);
    rig.side.enter_error();
    assert_eq!(rig.ack(FIRST + 2), Placement::Dropped(DropReason::Flushing));
    assert_eq!(rig.statuses(), [OK, FLUSHED, FLUSHED]);
}

#[test]
fn the_error_state_flushes_what_was_to_fail_later() {
    let mut rig = Rig::new();
    rig.post(Operation::Send, 1);
    rig.send();
    let bad = rig.post(Operation::Send, 1);
    rig.side.fail(bad, WcStatus::LocalProtection);
    rig.side.enter_error();
    assert_eq!(rig.statuses(), [FLUSHED, FLUSHED]);
}

// ---- drain ----

// PROTOCOL rule 18 and requirement 9.
#[test]
fn a_drained_queue_finishes_what_it_has_started() {
    let mut rig = Rig::new();
    rig.post(Operation::Send, 4 * MTU);
    rig.post(Operation::Send, 1);
    let _ = rig.side.poll_transmit(rig.now, 1, &rig.queue);
    rig.side.drain();
    assert!(!rig.side.is_drained());
    assert_eq!(rig.send_psns(), [FIRST + 1, FIRST + 2, FIRST + 3]);
    rig.expire();
    assert_eq!(rig.send().len(), 4);
    rig.ack(FIRST + 3);
    assert!(rig.side.is_drained());
    assert_eq!(rig.statuses(), [OK]);
    assert_eq!(rig.send_psns(), []);
    rig.side.resume();
    assert_eq!(rig.send_psns(), [FIRST + 4]);
}

#[test]
fn a_drained_queue_begins_nothing_before_a_request_that_fails() {
    let mut rig = Rig::new();
    rig.post(WRITE, 1);
    let bad = rig.post(WRITE, 1);
    rig.side.drain();
    rig.side.fail(bad, WcStatus::LocalProtection);
    assert_eq!(rig.send_psns(), []);
    rig.side.resume();
    assert_eq!(rig.send_psns(), [FIRST]);
}

#[test]
fn an_idle_queue_is_drained_at_once() {
    let mut rig = Rig::new();
    rig.side.drain();
    assert!(rig.side.is_drained());
}

// ---- packets that could not be sent ----

// PROTOCOL requirement 7.
#[test]
fn what_was_not_sent_is_offered_again_and_is_no_retry() {
    let mut rig = Rig::with(SendConfig {
        retry: RetryLimit::from_retry_cnt(0),
        ..config()
    });
    rig.post(Operation::Send, 6 * MTU);
    for _ in 0..20 {
        let plan = rig.side.poll_transmit(rig.now, 4, &rig.queue).unwrap();
        assert_eq!(plan.psn(), psn(FIRST));
        rig.side.unsent(rig.now, plan.psn(), &rig.queue);
        assert_eq!(rig.send_psns(), []);
        assert!(rig.expire() <= Duration::from_millis(1));
    }
    let _ = rig.side.poll_transmit(rig.now, 4, &rig.queue).unwrap();
    rig.side.unsent(rig.now, psn(FIRST + 3), &rig.queue);
    // What was never sent is not acknowledged.
    assert_eq!(rig.ack(FIRST + 3), Placement::Dropped(DropReason::Stale));
    rig.expire();
    assert_eq!(rig.send_psns(), [FIRST + 3, FIRST + 4, FIRST + 5]);
    rig.ack(FIRST + 5);
    assert_eq!(rig.statuses(), [OK]);
}

// PROTOCOL requirement 7.
#[test]
fn a_queue_that_is_full_for_long_is_no_lost_packet() {
    let mut rig = Rig::with(SendConfig {
        retry: RetryLimit::from_retry_cnt(0),
        ..config()
    });
    rig.post(Operation::Send, 4 * MTU);
    rig.side.poll_transmit(rig.now, 4, &rig.queue);
    rig.side.unsent(rig.now, psn(FIRST + 2), &rig.queue);
    let start = rig.now;
    while rig.now.saturating_since(start) < 3 * TIMEOUT {
        rig.expire();
        let plan = rig.side.poll_transmit(rig.now, 4, &rig.queue).unwrap();
        assert_eq!(plan.psn(), psn(FIRST + 2));
        rig.side.unsent(rig.now, plan.psn(), &rig.queue);
    }
    rig.expire();
    assert_eq!(rig.send_psns(), [FIRST + 2, FIRST + 3]);
    rig.ack(FIRST + 3);
    assert_eq!(rig.statuses(), [OK]);
}

#[test]
fn what_waits_for_its_data_puts_off_no_answer_to_the_rest() {
    let mut rig = Rig::new();
    rig.post(Operation::Send, 6 * MTU);
    rig.side.poll_transmit(rig.now, 4, &rig.queue).unwrap();
    rig.side.withheld(psn(FIRST + 2), &rig.queue);
    let deadline = rig.side.ack_deadline;
    assert_eq!(deadline, Some(rig.now.saturating_add(TIMEOUT)));
    for _ in 0..4 {
        rig.now = rig.now.saturating_add(TIMEOUT / 8);
        let plan = rig.side.poll_transmit(rig.now, 4, &rig.queue).unwrap();
        assert_eq!(plan.psn(), psn(FIRST + 2));
        rig.side.withheld(plan.psn(), &rig.queue);
        assert_eq!(rig.side.ack_deadline, deadline);
    }
    rig.ack(FIRST + 1);
    assert_eq!(
        rig.send_psns(),
        [FIRST + 2, FIRST + 3, FIRST + 4, FIRST + 5]
    );
    rig.ack(FIRST + 5);
    assert_eq!(rig.statuses(), [OK]);
}

#[test]
fn a_peer_that_is_gone_is_found_out_while_data_is_waited_for() {
    let mut rig = Rig::with(SendConfig {
        retry: RetryLimit::from_retry_cnt(1),
        ..config()
    });
    rig.post(Operation::Send, 2 * MTU);
    rig.side.poll_transmit(rig.now, 2, &rig.queue).unwrap();
    rig.side.withheld(psn(FIRST + 1), &rig.queue);
    for _ in 0..100 {
        if let Some(deadline) = rig.side.next_deadline() {
            rig.now = deadline;
            rig.side.on_timeout(rig.now);
        }
        while let Some(plan) = rig.side.poll_transmit(rig.now, 1, &rig.queue) {
            if plan.psn() != psn(FIRST) {
                rig.side.withheld(plan.psn(), &rig.queue);
                break;
            }
        }
    }
    assert_eq!(rig.statuses(), [WcStatus::RetryExceeded]);
}

/// Sends what may be sent and has its data before the packet `end`, and tells which of it asks.
fn send_up_to(rig: &mut Rig, end: u32) -> Vec<(u32, bool)> {
    let mut sent = Vec::new();
    while let Some(plan) = rig.side.poll_transmit(rig.now, 16, &rig.queue) {
        let there = plan
            .packets()
            .take_while(|packet| packet.psn.is_before(psn(end)));
        sent.extend(there.map(|packet| (packet.psn.get(), packet.ack_request)));
        if plan.psn().wrapping_add(plan.count()).since(psn(end)) > 0 {
            rig.side.withheld(psn(end), &rig.queue);
            break;
        }
    }
    rig.check_deadline();
    sent
}

#[test]
fn who_has_not_been_asked_owes_no_answer() {
    let mut rig = Rig::with(SendConfig {
        retry: RetryLimit::from_retry_cnt(0),
        ..config()
    });
    rig.post(Operation::Send, 3 * MTU);
    let unasked = [(FIRST, false), (FIRST + 1, false)];
    assert_eq!(send_up_to(&mut rig, FIRST + 2), unasked);
    assert_eq!(rig.expire(), TIMEOUT);
    let asked = [(FIRST, false), (FIRST + 1, true)];
    assert_eq!(send_up_to(&mut rig, FIRST + 2), asked);
    rig.ack(FIRST + 1);
    // However long the rest takes, there is nothing to wait for.
    assert_eq!(rig.side.next_deadline(), None);
    assert_eq!(rig.send_psns(), [FIRST + 2]);
    rig.ack(FIRST + 2);
    assert_eq!(rig.statuses(), [OK]);
}

#[test]
fn who_has_been_asked_at_last_owes_an_answer() {
    let mut rig = Rig::with(SendConfig {
        retry: RetryLimit::from_retry_cnt(1),
        ..config()
    });
    rig.post(Operation::Send, 2 * MTU);
    for retry in [None, Some(0), Some(1)] {
        assert_eq!(send_up_to(&mut rig, FIRST + 1), [(FIRST, retry.is_some())]);
        assert_eq!(rig.statuses(), []);
        rig.expire();
    }
    assert_eq!(rig.statuses(), [WcStatus::RetryExceeded]);
}

#[test]
fn data_that_is_gone_when_it_is_sent_again_uses_up_no_retries() {
    let mut rig = Rig::with(SendConfig {
        retry: RetryLimit::from_retry_cnt(1),
        ..config()
    });
    rig.post(Operation::Send, 4 * MTU);
    assert_eq!(rig.send().len(), 4);
    rig.expire();
    for end in [3, 2, 1] {
        let sent = send_up_to(&mut rig, FIRST + end);
        assert!(sent.iter().all(|(_, asks)| !asks));
        assert_eq!(sent.len(), end as usize);
        rig.expire();
        assert_eq!(rig.statuses(), []);
    }
    assert_eq!(send_up_to(&mut rig, FIRST + 1), [(FIRST, true)]);
    rig.ack(FIRST);
    assert_eq!(rig.send_psns(), [FIRST + 1, FIRST + 2, FIRST + 3]);
    rig.ack(FIRST + 3);
    assert_eq!(rig.statuses(), [OK]);
}

#[test]
fn what_the_peer_has_said_it_lacks_may_take_long() {
    for cause in [Rig::lacks, Rig::is_not_ready] {
        let mut rig = Rig::with(SendConfig {
            retry: RetryLimit::from_retry_cnt(1),
            ..config()
        });
        rig.post(Operation::Send, 3 * MTU);
        rig.send();
        cause(&mut rig);
        for _ in 0..3 {
            assert_eq!(send_up_to(&mut rig, FIRST), []);
            if let Some(deadline) = rig.side.next_deadline() {
                rig.go_to(deadline);
            }
            assert_eq!(rig.statuses(), []);
        }
        assert_eq!(rig.side.next_deadline(), None);
        assert_eq!(rig.send_psns(), [FIRST, FIRST + 1, FIRST + 2]);
        rig.ack(FIRST + 2);
        assert_eq!(rig.statuses(), [OK]);
    }
}

#[test]
fn who_waits_for_all_of_its_data_waits_for_no_answer() {
    let mut rig = Rig::new();
    rig.post(Operation::Send, 2 * MTU);
    let plan = rig.side.poll_transmit(rig.now, 4, &rig.queue).unwrap();
    rig.side.withheld(plan.psn(), &rig.queue);
    assert_eq!(rig.side.next_deadline(), None);
    assert_eq!(rig.send_psns(), [FIRST, FIRST + 1]);
}

#[test]
fn who_is_held_waits_for_no_answer_meanwhile() {
    let mut rig = Rig::with(SendConfig {
        retry: RetryLimit::from_retry_cnt(0),
        ..config()
    });
    rig.post(Operation::Send, 3 * MTU);
    for packet in 0..2 {
        // None but the last asks for an answer.
        let plan = rig.side.poll_transmit(rig.now, 1, &rig.queue).unwrap();
        assert_eq!(plan.psn(), psn(FIRST + packet));
        let later = rig.now.saturating_add(3 * TIMEOUT);
        rig.side.hold(later, &rig.queue);
        assert_eq!(rig.side.next_deadline(), later.checked_add(TIMEOUT));
        rig.now = later;
        rig.side.on_timeout(rig.now);
        assert_eq!(rig.statuses(), []);
    }
    assert_eq!(rig.send_psns(), [FIRST + 2]);
    // Now there is something to wait for.
    rig.expire();
    assert_eq!(rig.statuses(), [WcStatus::RetryExceeded]);
}

#[test]
fn who_is_held_and_has_nothing_to_send_waits_for_an_answer() {
    let mut rig = Rig::with(SendConfig {
        window: Window {
            bytes: 1 << 20,
            packets: 2,
        },
        ..config()
    });
    rig.post(Operation::Send, 3 * MTU);
    rig.send();
    let due = rig.side.next_deadline();
    assert!(due.is_some());
    rig.side.hold(rig.now.saturating_add(TIMEOUT), &rig.queue);
    assert_eq!(rig.side.next_deadline(), due, "the window is full");
}

#[test]
fn to_be_held_renews_no_reminders() {
    let mut rig = Rig::with(SendConfig {
        retry: RetryLimit::from_retry_cnt(1),
        ..config()
    });
    rig.post(WRITE, 1);
    rig.send();
    for _ in 0..3 {
        rig.be_silent();
        let later = rig.now.saturating_add(TIMEOUT);
        rig.side.hold(later, &rig.queue);
        rig.now = later;
        assert_eq!(rig.send_psns(), [FIRST]);
    }
    assert_eq!(rig.side.next_deadline(), rig.side.ack_deadline);
}

#[test]
fn who_is_held_and_has_sent_nothing_waits_for_nothing() {
    let mut rig = Rig::new();
    rig.post(Operation::Send, 1);
    rig.side.hold(rig.now.saturating_add(TIMEOUT), &rig.queue);
    assert_eq!(rig.side.next_deadline(), None);
}

#[test]
fn a_request_that_was_not_sent_has_not_begun() {
    let mut rig = Rig::new();
    rig.post(READ, 600);
    let plan = rig.side.poll_transmit(rig.now, 4, &rig.queue).unwrap();
    rig.side.unsent(rig.now, plan.psn(), &rig.queue);
    rig.side.drain();
    assert!(rig.side.is_drained());
    rig.expire();
    assert_eq!(rig.send_psns(), []);
}

#[test]
fn a_read_is_sent_or_not_but_not_in_part() {
    let mut rig = Rig::new();
    rig.post(READ, 3 * MTU);
    rig.send();
    rig.side.unsent(rig.now, psn(FIRST + 1), &rig.queue);
    assert_eq!(rig.side.ack_deadline, Some(rig.now.saturating_add(TIMEOUT)));
    assert_eq!(rig.send_psns(), []);
}

#[test]
fn header_specs_tell_all() {
    let mut rig = Rig::new();
    rig.post_with(
        Operation::SendInv(KEY),
        3,
        RequestFlags {
            solicited: true,
            ..RequestFlags::default()
        },
    );
    let packet = rig.send()[0];
    let spec = packet.header(super::QPN, crate::key::Pkey(0x8001));
    assert_eq!(spec.pkey, crate::key::Pkey(0x8001));
    assert!(spec.migrated && spec.ack_request && spec.solicited);
    let headers = super::headers(&spec, packet.len);
    assert_eq!(
        *headers.kind(),
        Kind::RcRequest(RcRequest::Send(SendPart::Only(SendEnd::Invalidate(KEY))))
    );
    assert_eq!((headers.payload_len(), headers.pad()), (3, 1));
}
