// SPDX-License-Identifier: GPL-2.0

//! Responses that come before their turn or after it, and packets that go out late.

#![allow(unused_must_use, reason = "not every placement is of interest")]

use super::requester::{config, Rig, FIRST, READ, WRITE};
use crate::{
    opcode::Position::Only,
    rc::{DropReason, Placement, RetryLimit, SendConfig},
    status::{NakCode, WcStatus}, //
};

const OK: WcStatus = WcStatus::Success;
const GAP: Placement = Placement::Dropped(DropReason::Gap);

/// A side that has sent `reads` READs and then `writes` WRITEs, one packet each.
fn having_sent(reads: usize, writes: usize, config: SendConfig) -> Rig {
    let mut rig = Rig::with(config);
    for _ in 0..reads {
        rig.post(READ, 1);
    }
    for _ in 0..writes {
        rig.post(WRITE, 1);
    }
    assert_eq!(rig.send().len(), reads + writes);
    rig
}

fn retries(retry: u8, rnr_retry: u8) -> SendConfig {
    SendConfig {
        retry: RetryLimit::from_retry_cnt(retry),
        rnr_retry: RetryLimit::from_rnr_retry(rnr_retry),
        ..config()
    }
}

// ---- before its turn: a response to an older request is missing ----

#[test]
fn an_implied_nak_takes_a_retry() {
    let mut rig = having_sent(2, 0, retries(0, 0));
    rig.read(FIRST + 1, Only, 1);
    assert_eq!(rig.statuses(), [WcStatus::RetryExceeded, WcStatus::WrFlush]);
}

#[test]
fn a_refusal_waits_for_the_responses_before_it() {
    let mut rig = having_sent(1, 1, config());
    assert_eq!(rig.nak(FIRST + 1, NakCode::RemoteAccess), GAP);
    rig.read(FIRST, Only, 1);
    assert_eq!(rig.statuses(), [OK]);
    assert_eq!(rig.nak(FIRST + 1, NakCode::RemoteAccess), Placement::None);
    assert_eq!(rig.statuses(), [WcStatus::RemoteAccess]);
}

#[test]
fn what_makes_no_sense_past_a_gap_is_not_held_against_its_request() {
    let mut rig = having_sent(2, 0, config());
    rig.read(FIRST + 1, Only, 7);
    rig.read(FIRST, Only, 1);
    rig.read(FIRST + 1, Only, 1);
    assert_eq!(rig.statuses(), [OK, OK]);
}

#[test]
fn what_is_to_be_sent_again_waits_while_what_is_before_it_is_acknowledged() {
    let mut rig = having_sent(2, 2, config());
    rig.nak(FIRST + 2, NakCode::Sequence);
    rig.read(FIRST, Only, 1);
    assert_eq!(rig.send_psns(), [FIRST + 1, FIRST + 2]);
}

// ---- overtaken ----

#[test]
fn a_nak_of_what_is_acknowledged_since_has_nothing_sent_again() {
    let mut rig = having_sent(1, 3, config());
    rig.ack(FIRST + 1);
    assert_eq!(rig.send_psns(), [FIRST]);
    rig.nak(FIRST + 1, NakCode::Sequence);
    assert_eq!(rig.send_psns(), []);
}

#[test]
fn a_copy_of_a_nak_is_known_after_what_is_before_it_is_acknowledged() {
    let mut rig = having_sent(1, 3, config());
    rig.nak(FIRST + 1, NakCode::Sequence);
    assert_eq!(rig.send_psns(), [FIRST, FIRST + 1]);
    rig.read(FIRST, Only, 1);
    rig.nak(FIRST + 1, NakCode::Sequence);
    assert_eq!(rig.send_psns(), []);
}

#[test]
fn a_nak_between_a_timeout_and_the_packet_sent_again_takes_no_retry() {
    let mut rig = having_sent(0, 2, retries(1, 0));
    rig.expire();
    rig.nak(FIRST, NakCode::Sequence);
    assert_eq!(rig.send_psns(), [FIRST, FIRST + 1]);
    rig.ack(FIRST + 1);
    assert_eq!(rig.statuses(), [OK, OK]);
}

#[test]
fn a_copy_of_an_rnr_nak_takes_no_retry() {
    let mut rig = having_sent(0, 3, retries(0, 1));
    rig.rnr(FIRST, 1);
    rig.rnr(FIRST, 1);
    assert_eq!(rig.statuses(), []);
    rig.expire();
    assert_eq!(rig.send_psns(), [FIRST]);
    rig.rnr(FIRST, 1);
    assert_eq!(rig.statuses()[0], WcStatus::RnrRetryExceeded);
}

#[test]
fn a_peer_that_is_not_ready_for_a_read_that_it_has_begun_to_answer_is_asked_again() {
    let mut rig = Rig::new();
    rig.post(READ, 600);
    rig.send();
    rig.rnr(FIRST, 1);
    rig.rnr(FIRST + 1, 1);
    rig.expire();
    assert!(rig.send_psns().contains(&FIRST));
    assert!(rig.side.next_deadline().is_some());
}

#[test]
fn a_peer_that_is_not_ready_to_answer_a_read_once_more_is_asked_again() {
    let mut rig = Rig::new();
    rig.post(READ, 1);
    rig.post(READ, 1);
    rig.send();
    rig.read(FIRST + 1, Only, 1);
    assert_eq!(rig.send_psns(), [FIRST]);
    rig.rnr(FIRST, 1);
    rig.expire();
    assert!(rig.send_psns().contains(&FIRST));
    assert!(rig.side.next_deadline().is_some());
    rig.read(FIRST, Only, 1);
    rig.read(FIRST + 1, Only, 1);
    assert_eq!(rig.statuses(), [OK, OK]);
}

// ---- what could not be sent ----

/// Has all but the first packet that is due stay unsent.
fn send_only_one(rig: &mut Rig) {
    let plan = rig.side.poll_transmit(rig.now, 16, &rig.queue).unwrap();
    rig.side.unsent(rig.now, plan.psn().next(), &rig.queue);
}

#[test]
fn what_could_not_be_sent_is_tried_at_once_when_nothing_is_on_its_way() {
    let mut rig = Rig::new();
    rig.post(WRITE, 600);
    send_only_one(&mut rig);
    assert_eq!(rig.send_psns(), []);
    rig.ack(FIRST);
    assert_eq!(rig.send_psns(), [FIRST + 1, FIRST + 2]);
}

#[test]
fn what_could_not_be_sent_again_waits_while_more_is_on_its_way() {
    let mut rig = Rig::new();
    rig.post(WRITE, 600);
    rig.send();
    rig.expire();
    send_only_one(&mut rig);
    rig.ack(FIRST);
    assert_eq!(rig.send_psns(), []);
    rig.expire();
    assert_eq!(rig.send_psns(), [FIRST + 1, FIRST + 2]);
}

#[test]
fn of_several_packets_sent_again_by_themselves_the_rest_may_follow() {
    let mut rig = Rig::new();
    rig.post(WRITE, 10 * 256);
    rig.send();
    rig.nak(FIRST, NakCode::Sequence);
    rig.send();
    // The peer keeps what comes after a gap, and lacks more than one packet.
    rig.ack(FIRST + 3);
    assert_eq!(rig.send_psns(), [FIRST + 4]);
    rig.ack(FIRST + 4);
    send_only_one(&mut rig);
    rig.expire();
    assert_eq!(rig.send_psns(), [FIRST + 6]);
}
