// SPDX-License-Identifier: GPL-2.0

//! What is told to those who look on.

#![allow(unused_must_use, reason = "not every placement is of interest")]

use super::{psn, requester, responder};
use crate::{
    opcode::Position,
    psn::Msn,
    rc::{
        snapshot::{Activity, ReceiveSnapshot},
        Operation, //
    },
    status::NakCode, //
};

const FIRST: u32 = requester::FIRST;

#[test]
fn a_send_side_tells_what_is_on_its_way() {
    let mut rig = requester::Rig::new();
    assert_eq!(rig.side.snapshot().activity, Activity::Idle);
    rig.post(Operation::Send, 700);
    assert_eq!(rig.side.snapshot().activity, Activity::Sending);
    rig.send();
    let snapshot = rig.side.snapshot();
    assert_eq!(
        (snapshot.acked, snapshot.sent),
        (psn(FIRST), psn(FIRST + 3))
    );
    rig.ack(FIRST + 1);
    assert_eq!(rig.side.snapshot().acked, psn(FIRST + 2));
    rig.ack(FIRST + 2);
    rig.statuses();
    let snapshot = rig.side.snapshot();
    assert_eq!(snapshot.activity, Activity::Idle);
    assert_eq!(
        (snapshot.acked, snapshot.sent),
        (psn(FIRST + 3), psn(FIRST + 3))
    );
}

#[test]
fn a_send_side_tells_how_often_it_has_tried() {
    let mut rig = requester::Rig::new();
    rig.post(Operation::Send, 1);
    rig.post(Operation::Send, 1);
    rig.send();
    rig.rnr(FIRST, 1);
    let snapshot = rig.side.snapshot();
    assert_eq!(
        (snapshot.activity, snapshot.rnr_retries),
        (Activity::NotReady, 1)
    );
    rig.ack(FIRST);
    assert_eq!(rig.side.snapshot().rnr_retries, 0);
    rig.send();
    rig.nak(FIRST + 1, NakCode::Sequence);
    assert_eq!(rig.side.snapshot().retries, 1);
    rig.ack(FIRST + 1);
    assert_eq!(rig.side.snapshot().retries, 0);
}

#[test]
fn a_send_side_tells_that_it_drains_or_flushes() {
    let mut rig = requester::Rig::new();
    rig.side.drain();
    assert_eq!(rig.side.snapshot().activity, Activity::Draining);
    rig.side.enter_error();
    assert_eq!(rig.side.snapshot().activity, Activity::Flushing);
}

#[test]
fn a_receive_side_tells_what_is_due_and_what_came_early() {
    let mut rig = responder::Rig::new();
    let message = responder::write(Position::Only, 1);
    let told = |expected, messages, kept| ReceiveSnapshot {
        expected: psn(responder::FIRST.wrapping_add(expected)),
        msn: Msn::truncate(messages),
        kept,
    };
    rig.get(0, message, 1);
    assert_eq!(rig.side.snapshot(), told(1, 1, 0));
    rig.get(2, message, 1);
    assert_eq!(rig.side.snapshot(), told(1, 1, 1));
    rig.get(1, message, 1);
    assert_eq!(rig.side.snapshot(), told(3, 3, 0));
}
