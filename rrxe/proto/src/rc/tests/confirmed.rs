// SPDX-License-Identifier: GPL-2.0

//! FLUSH and ATOMIC WRITE: what is answered by a READ response without data.

#![allow(unused_must_use, reason = "not every placement is of interest")]

use super::{
    requester::{self, Rig as Asking, FIRST, READ, WRITE},
    responder::{self, Rig as Answering, Said}, //
};
use crate::{
    access::Access,
    key::Key,
    opcode::{Opcode, Position},
    psn::Msn,
    rc::{
        Discard,
        DropReason,
        ExecError,
        Failure,
        Flush,
        Operation,
        Placement,
        ReceiveConfig,
        Response,
        SendConfig,
        TaskKind, //
    },
    status::{NakCode, WcStatus},
    wire::{self, Aeth, Feth, RcRequest, Reth, Selectivity, Syndrome}, //
};

const KEY: Key = Key(0x4321);
const VA: u64 = 0x7000;
const LEN: u32 = 100_000;

const ATOMIC_WRITE: Operation = Operation::AtomicWrite { va: VA, rkey: KEY };

fn flush(selectivity: Selectivity) -> Flush {
    Flush {
        rkey: KEY,
        va: VA,
        len: LEN,
        placement: wire::Placement::BOTH,
        selectivity,
    }
}

fn flush_request() -> RcRequest {
    RcRequest::Flush(
        Feth::new(wire::Placement::BOTH, Selectivity::Range),
        Reth::new(VA, KEY, LEN),
    )
}

fn atomic_write_request(va: u64) -> RcRequest {
    RcRequest::AtomicWrite(Reth::new(va, KEY, 8))
}

/// Each of the two with the bytes of its message.
fn both() -> [(Operation, u32); 2] {
    [
        (Operation::Flush(flush(Selectivity::Range)), 0),
        (ATOMIC_WRITE, 8),
    ]
}

/// The same as packets.
fn both_requests() -> [(RcRequest, u32); 2] {
    [(flush_request(), 0), (atomic_write_request(VA), 8)]
}

// ---- the side that asks ----

#[test]
fn each_is_one_packet_that_asks_for_an_answer() {
    let mut rig = Asking::new();
    for (operation, len) in both() {
        rig.post(operation, len);
    }
    let packets = rig.send();
    let opcodes: Vec<Opcode> = packets.iter().map(|packet| packet.kind.opcode()).collect();
    assert_eq!(opcodes, [Opcode::RC_FLUSH, Opcode::RC_ATOMIC_WRITE]);
    let sizes: Vec<_> = packets.iter().map(|p| (p.len, p.ack_request)).collect();
    assert_eq!(sizes, [(0, true), (8, true)]);
    assert_eq!(packets[0].kind, wire::Kind::RcRequest(flush_request()));
    assert_eq!(
        packets[1].kind,
        wire::Kind::RcRequest(atomic_write_request(VA))
    );
}

// PROTOCOL requirement 1.
#[test]
fn what_is_sent_again_is_the_same() {
    for (operation, len) in both() {
        let mut rig = Asking::new();
        rig.post(operation, len);
        let first = rig.send();
        rig.expire();
        assert_eq!(rig.send(), first);
    }
}

// PROTOCOL requirement 3.
#[test]
fn each_takes_a_credit_and_gives_it_back() {
    for (operation, len) in both() {
        let mut rig = Asking::with(SendConfig {
            max_rd_atomic: 1,
            ..requester::config()
        });
        rig.post(operation, len);
        rig.post(READ, 1);
        assert_eq!(rig.send_psns(), [FIRST]);
        assert_eq!(rig.read(FIRST, Position::Only, 0), Placement::None);
        assert_eq!(rig.statuses(), [WcStatus::Success]);
        assert_eq!(rig.send_psns(), [FIRST + 1]);
    }
}

// PROTOCOL requirement 3.
#[test]
fn an_acknowledgement_of_what_is_behind_does_not_complete_them() {
    for (operation, len) in both() {
        let mut rig = Asking::new();
        rig.post(operation, len);
        rig.post(WRITE, 1);
        rig.send();
        assert_eq!(
            rig.ack(FIRST + 1),
            Placement::Dropped(DropReason::Gap),
            "its response is missing"
        );
        assert_eq!(rig.statuses(), []);
        assert_eq!(rig.send_psns(), [FIRST]);
        rig.read(FIRST, Position::Only, 0);
        assert_eq!(rig.statuses(), [WcStatus::Success; 2]);
    }
}

#[test]
fn their_answer_acknowledges_what_is_before_them() {
    for (operation, len) in both() {
        let mut rig = Asking::new();
        rig.post(WRITE, 1);
        rig.post(operation, len);
        rig.send();
        rig.read(FIRST + 1, Position::Only, 0);
        assert_eq!(rig.statuses(), [WcStatus::Success; 2]);
    }
}

// PROTOCOL requirement 6.
#[test]
fn what_cannot_be_their_answer_is_a_bad_response() {
    let aeth = Aeth::new(Syndrome::ACK, Msn::ZERO);
    let wrong: [fn(&mut Asking) -> Placement; 4] = [
        |rig| rig.read(FIRST, Position::Only, 8),
        |rig| rig.read(FIRST, Position::First, 256),
        |rig| rig.read(FIRST, Position::Last, 0),
        |rig| rig.atomic(FIRST, 0),
    ];
    for (operation, len) in both() {
        for answer in wrong {
            let mut rig = Asking::new();
            rig.post(operation, len);
            rig.send();
            answer(&mut rig);
            assert_eq!(rig.statuses(), [WcStatus::BadResponse]);
        }
        // Nor is theirs that of another.
        let mut rig = Asking::new();
        rig.post(READ, 1);
        rig.send();
        rig.respond(Response::Read {
            psn: super::psn(FIRST),
            position: Position::Only,
            aeth: Some(aeth),
            len: 0,
        });
        assert_eq!(rig.statuses(), [WcStatus::BadResponse]);
    }
}

#[test]
fn a_refusal_ends_them() {
    for (operation, len) in both() {
        let mut rig = Asking::new();
        rig.post(operation, len);
        rig.send();
        rig.nak(FIRST, NakCode::RemoteAccess);
        assert_eq!(rig.statuses(), [WcStatus::RemoteAccess]);
    }
}

// ---- the side that answers ----

#[test]
fn each_is_done_and_answered_without_data() {
    let mut rig = Answering::new();
    for (at, (request, len)) in both_requests().into_iter().enumerate() {
        rig.get(at as u32, request, len);
    }
    assert_eq!(
        rig.tasks,
        [
            TaskKind::Flush(flush(Selectivity::Range)),
            TaskKind::AtomicWrite { rkey: KEY, va: VA },
        ]
    );
    assert_eq!(
        rig.said(),
        [
            Said::Read(0, Position::Only, 0),
            Said::Read(1, Position::Only, 0),
        ]
    );
}

#[test]
fn each_counts_as_a_message() {
    let mut rig = Answering::new();
    for (at, (request, len)) in both_requests().into_iter().enumerate() {
        rig.get(at as u32, request, len);
    }
    assert_eq!(rig.msns(), [Some(1), Some(2)]);
}

// PROTOCOL requirement 2.
#[test]
fn a_copy_is_answered_again_and_not_executed() {
    for (request, len) in both_requests() {
        let mut rig = Answering::new();
        rig.get(0, request, len);
        rig.said();
        rig.get(0, request, len);
        assert_eq!(rig.tasks.len(), 1);
        assert_eq!(rig.said(), [Said::Read(0, Position::Only, 0)]);
    }
}

// PROTOCOL requirement 2.
#[test]
fn a_copy_is_only_of_what_it_is_a_copy_of() {
    let others = [
        responder::read(VA, 8),
        flush_request(),
        atomic_write_request(VA),
        atomic_write_request(VA + 8),
        RcRequest::Flush(
            Feth::new(wire::Placement::GLOBAL, Selectivity::Range),
            Reth::new(VA, KEY, LEN),
        ),
        RcRequest::Flush(
            Feth::new(wire::Placement::BOTH, Selectivity::Region),
            Reth::new(VA, KEY, LEN),
        ),
    ];
    for (request, len) in both_requests() {
        for other in others.iter().filter(|other| **other != request) {
            let mut rig = Answering::new();
            rig.get(0, request, len);
            rig.said();
            assert_eq!(rig.get(0, *other, 8), Some(Discard::UnknownDuplicate));
            assert_eq!(rig.said(), []);
        }
    }
}

// PROTOCOL requirement 3.
#[test]
fn each_counts_against_the_depth() {
    for (request, len) in both_requests() {
        let mut rig = Answering::with(ReceiveConfig {
            max_dest_rd_atomic: 1,
            ..responder::config()
        });
        rig.get(0, request, len);
        rig.get(1, request, len);
        assert_eq!(
            rig.said(),
            [
                Said::Read(0, Position::Only, 0),
                Said::Nak(1, NakCode::InvalidRequest),
            ]
        );
    }
}

#[test]
fn the_queue_pair_must_give_the_rights() {
    for (access, request, len) in [
        (Access::REMOTE_WRITE, atomic_write_request(VA), 8),
        (Access::FLUSH_GLOBAL, flush_request(), 0),
        (Access::FLUSH_PERSISTENT, flush_request(), 0),
    ] {
        let mut rig = Answering::with(ReceiveConfig {
            access: Access::REMOTE.without(access),
            ..responder::config()
        });
        rig.get(0, request, len);
        rig.assert_invalid(0);
    }
}

#[test]
fn memory_that_refuses_is_a_remote_access_error() {
    for (request, len) in both_requests() {
        let mut rig = Answering::new();
        rig.outcome = Err(ExecError::RemoteAccess);
        rig.get(0, request, len);
        rig.assert_refused(0, NakCode::RemoteAccess, Failure::Access);
    }
}

#[test]
fn an_atomic_write_is_of_eight_aligned_bytes() {
    let other_len = RcRequest::AtomicWrite(Reth::new(VA, KEY, 16));
    for (request, len) in [
        (atomic_write_request(VA + 4), 8),
        (atomic_write_request(VA + 1), 8),
        (other_len, 8),
    ] {
        let mut rig = Answering::new();
        rig.get(0, request, len);
        rig.assert_invalid(0);
    }
}

#[test]
fn a_flush_of_a_whole_region_has_no_range() {
    let mut rig = Answering::new();
    rig.get(
        0,
        RcRequest::Flush(
            Feth::new(wire::Placement::GLOBAL, Selectivity::Region),
            Reth::new(0, KEY, 0),
        ),
        0,
    );
    assert_eq!(
        rig.tasks,
        [TaskKind::Flush(Flush {
            rkey: KEY,
            va: 0,
            len: 0,
            placement: wire::Placement::GLOBAL,
            selectivity: Selectivity::Region,
        })]
    );
}

#[test]
fn a_flush_that_asks_for_nothing_or_too_much_is_invalid() {
    use zerocopy::FromBytes;
    let feth = |bits: u32| *Feth::ref_from_bytes(&bits.to_be_bytes()).unwrap();
    for (bits, len) in [(0x00, 1), (0x04, 1), (0x21, 1), (0x01, (1 << 31) + 1)] {
        let mut rig = Answering::new();
        rig.get(0, RcRequest::Flush(feth(bits), Reth::new(VA, KEY, len)), 0);
        rig.assert_invalid(0);
    }
}
