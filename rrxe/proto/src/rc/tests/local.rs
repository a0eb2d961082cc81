// SPDX-License-Identifier: GPL-2.0

//! Local operations: in their turn, once, and without a PSN.

#![allow(unused_must_use, reason = "not every placement is of interest")]

use super::requester::{Rig, FIRST, READ, WRITE};
use crate::{
    access::Access,
    key::Key,
    opcode::Position,
    rc::{Binding, Local, LocalFailed, Operation, Registration, RequestFlags, WqeSeq},
    status::{NakCode, WcStatus}, //
};

const INVALIDATE: Operation = Operation::Local(Local::Invalidate(Key(0x55)));
const BIND: Operation = Operation::Local(Local::Bind(Binding {
    window: Key(0x8000_0001),
    tag: 2,
    region: Key(0x55),
    va: 0,
    len: 1,
    access: Access::REMOTE_READ,
}));

const REGISTER: Operation = Operation::Local(Local::Register(Registration {
    key: Key(0x55),
    va: 0,
    access: Access::REMOTE_WRITE,
}));

impl Rig {
    /// Carries out the local operation that is next, if one is.
    fn do_local(&mut self, outcome: Result<(), LocalFailed>) -> Option<WqeSeq> {
        let task = self.side.poll_local(&self.queue)?;
        let wqe = task.wqe();
        assert_eq!(
            self.queue.0[wqe.get() as usize].operation(),
            Operation::Local(*task.local())
        );
        self.side.commit_local(task, outcome, &self.queue);
        Some(wqe)
    }

    fn post_fenced(&mut self, operation: Operation, len: u32) -> WqeSeq {
        let flags = RequestFlags {
            signaled: true,
            fence: true,
            ..RequestFlags::default()
        };
        self.post_with(operation, len, flags)
    }
}

#[test]
fn they_take_no_psn_and_hold_back_what_is_behind() {
    let mut rig = Rig::new();
    rig.post(WRITE, 1);
    let bind = rig.post(BIND, 0);
    rig.post(WRITE, 1);
    assert_eq!(rig.send_psns(), [FIRST]);
    assert_eq!(rig.do_local(Ok(())), Some(bind));
    assert_eq!(rig.do_local(Ok(())), None);
    assert_eq!(rig.send_psns(), [FIRST + 1]);
    assert_eq!(rig.statuses(), []);
    rig.ack(FIRST);
    assert_eq!(rig.statuses(), [WcStatus::Success; 2]);
    rig.ack(FIRST + 1);
    assert_eq!(rig.statuses(), [WcStatus::Success]);
}

#[test]
fn alone_in_the_queue() {
    let mut rig = Rig::new();
    for operation in [REGISTER, INVALIDATE, BIND] {
        rig.post(operation, 0);
    }
    for _ in 0..3 {
        assert!(rig.do_local(Ok(())).is_some());
    }
    assert_eq!(rig.statuses(), [WcStatus::Success; 3]);
    assert_eq!(rig.side.next_deadline(), None);
}

// PROTOCOL rule 9.
#[test]
fn an_invalidation_waits_for_all_before_it() {
    let mut rig = Rig::new();
    rig.post(WRITE, 1);
    rig.post(READ, 1);
    let invalidate = rig.post(INVALIDATE, 0);
    assert_eq!(rig.send_psns(), [FIRST, FIRST + 1]);
    assert_eq!(rig.do_local(Ok(())), None);
    rig.ack(FIRST);
    assert_eq!(rig.do_local(Ok(())), None);
    rig.read(FIRST + 1, Position::Only, 1);
    assert_eq!(rig.do_local(Ok(())), Some(invalidate));
    assert_eq!(rig.statuses(), [WcStatus::Success; 3]);
}

#[test]
fn a_binding_waits_only_if_it_is_fenced() {
    let mut rig = Rig::new();
    rig.post(READ, 1);
    let plain = rig.post(BIND, 0);
    rig.post_fenced(BIND, 0);
    assert_eq!(rig.send_psns(), [FIRST]);
    assert_eq!(rig.do_local(Ok(())), Some(plain));
    assert_eq!(rig.do_local(Ok(())), None);
    rig.read(FIRST, Position::Only, 1);
    assert!(rig.do_local(Ok(())).is_some());
}

#[test]
fn a_registration_that_cannot_be_done_is_an_error() {
    let mut rig = Rig::new();
    rig.post(WRITE, 1);
    let register = rig.post(REGISTER, 0);
    rig.post(WRITE, 1);
    assert_eq!(rig.send_psns(), [FIRST]);
    assert_eq!(rig.do_local(Err(LocalFailed)), Some(register));
    rig.ack(FIRST);
    assert_eq!(
        rig.statuses(),
        [
            WcStatus::Success,
            WcStatus::LocalQpOperation,
            WcStatus::WrFlush
        ]
    );
}

#[test]
fn what_is_sent_again_does_not_repeat_them() {
    let mut rig = Rig::new();
    rig.post(WRITE, 1);
    rig.post(BIND, 0);
    rig.post(BIND, 0);
    rig.post(WRITE, 1);
    rig.send_psns();
    rig.do_local(Ok(()));
    rig.do_local(Ok(()));
    rig.send_psns();
    rig.expire();
    assert_eq!(rig.do_local(Ok(())), None);
    assert_eq!(rig.send_psns(), [FIRST, FIRST + 1]);
    assert_eq!(rig.do_local(Ok(())), None);
    rig.nak(FIRST + 1, NakCode::Sequence);
    assert_eq!(rig.do_local(Ok(())), None);
    assert_eq!(rig.send_psns(), [FIRST + 1]);
    rig.ack(FIRST + 1);
    assert_eq!(rig.statuses(), [WcStatus::Success; 4]);
}

#[test]
fn an_acknowledgement_on_the_way_back_goes_past_them() {
    let mut rig = Rig::new();
    rig.post(WRITE, 1);
    rig.post(BIND, 0);
    rig.send_psns();
    rig.do_local(Ok(()));
    // Sending has gone back to the WRITE when it turns out to have arrived.
    rig.expire();
    rig.ack(FIRST);
    assert_eq!(rig.statuses(), [WcStatus::Success; 2]);
    rig.post(WRITE, 1);
    assert_eq!(rig.send_psns(), [FIRST + 1]);
}

#[test]
fn a_response_right_behind_them_is_that_of_the_request_behind() {
    let mut rig = Rig::new();
    rig.post(WRITE, 1);
    rig.post(BIND, 0);
    rig.post(READ, 1);
    rig.send_psns();
    rig.do_local(Ok(()));
    rig.send_psns();
    rig.read(FIRST + 1, Position::Only, 1);
    assert_eq!(rig.statuses(), [WcStatus::Success; 3]);
}

#[test]
fn one_that_fails_ends_the_queue_in_its_turn() {
    for (operation, status) in [
        (BIND, WcStatus::MwBind),
        (INVALIDATE, WcStatus::LocalQpOperation),
    ] {
        let mut rig = Rig::new();
        rig.post(operation, 0);
        rig.post(WRITE, 1);
        rig.do_local(Err(LocalFailed));
        assert_eq!(rig.do_local(Ok(())), None);
        assert_eq!(rig.send_psns(), []);
        assert_eq!(rig.statuses(), [status, WcStatus::WrFlush]);
    }
}

#[test]
fn what_was_begun_before_one_that_fails_is_finished() {
    let mut rig = Rig::new();
    rig.post(WRITE, 1);
    rig.post(BIND, 0);
    rig.send_psns();
    rig.do_local(Err(LocalFailed));
    assert_eq!(rig.statuses(), []);
    rig.expire();
    assert_eq!(rig.send_psns(), [FIRST]);
    rig.ack(FIRST);
    assert_eq!(rig.statuses(), [WcStatus::Success, WcStatus::MwBind]);
}

#[test]
fn none_begins_while_the_queue_drains_or_is_flushed() {
    let mut rig = Rig::new();
    rig.post(BIND, 0);
    rig.side.drain();
    assert_eq!(rig.do_local(Ok(())), None);
    assert!(rig.side.is_drained());
    rig.side.resume();
    assert!(rig.do_local(Ok(())).is_some());
    rig.post(BIND, 0);
    rig.side.enter_error();
    assert_eq!(rig.do_local(Ok(())), None);
    assert_eq!(rig.statuses(), [WcStatus::Success, WcStatus::WrFlush]);
}

#[test]
fn one_that_is_flushed_while_it_is_carried_out() {
    let mut rig = Rig::new();
    rig.post(BIND, 0);
    let task = rig.side.poll_local(&rig.queue).unwrap();
    rig.side.enter_error();
    assert_eq!(rig.statuses(), [WcStatus::WrFlush]);
    rig.side.commit_local(task, Ok(()), &rig.queue);
    assert_eq!(rig.statuses(), []);

    rig = Rig::new();
    rig.post(BIND, 0);
    let task = rig.side.poll_local(&rig.queue).unwrap();
    rig.side.enter_error();
    rig.side.commit_local(task, Ok(()), &rig.queue);
    assert_eq!(rig.statuses(), [WcStatus::WrFlush]);
}

#[test]
fn what_was_not_sent_is_sent_past_them() {
    let mut rig = Rig::new();
    rig.post(BIND, 0);
    rig.post(WRITE, 600);
    rig.do_local(Ok(()));
    let plan = rig.side.poll_transmit(rig.now, 16, &rig.queue).unwrap();
    rig.side.unsent(rig.now, plan.psn(), &rig.queue);
    assert_eq!(rig.do_local(Ok(())), None);
    rig.expire();
    assert_eq!(rig.send_psns(), [FIRST, FIRST + 1, FIRST + 2]);
    rig.ack(FIRST + 2);
    assert_eq!(rig.statuses(), [WcStatus::Success; 2]);
}

#[test]
fn what_was_not_sent_again_is_sent_again_past_them() {
    let mut rig = Rig::new();
    rig.post(WRITE, 1);
    rig.post(BIND, 0);
    rig.post(WRITE, 600);
    rig.post(WRITE, 1);
    rig.send_psns();
    rig.do_local(Ok(()));
    rig.send_psns();
    rig.ack(FIRST);
    rig.nak(FIRST + 1, NakCode::Sequence);
    let plan = rig.side.poll_transmit(rig.now, 16, &rig.queue).unwrap();
    rig.side.unsent(rig.now, plan.psn(), &rig.queue);
    rig.expire();
    assert_eq!(rig.send_psns(), [FIRST + 1]);
}
