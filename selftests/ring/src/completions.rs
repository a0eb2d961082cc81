// SPDX-License-Identifier: GPL-2.0

//! The completion queue.

use proptest::prelude::*;
use rrxe_proto::{
    status::{WcOpcode, WcStatus},
    Imm, Key, Qpn,
};

use crate::{
    ring::{abi::wc_flags, completion::Datagram, CompletionRing, Wc, WcExtra},
    shmem::Udata,
    user::Mapping,
};

fn make(entries: u32) -> (CompletionRing, Mapping) {
    let ring = CompletionRing::new(entries).unwrap();
    let mut udata = Udata::default();
    ring.share(&mut udata).unwrap();
    (ring, Mapping::latest(&udata))
}

fn wc(wr_id: u64) -> Wc {
    Wc::new(
        wr_id,
        WcOpcode::Send,
        WcStatus::Success,
        Qpn::truncate(0x123456),
    )
}

#[test]
fn the_sizes_are_those_that_the_user_library_relies_on() {
    let (ring, user) = make(100);
    assert_eq!(ring.capacity(), 127);
    assert_eq!((user.mask(), user.log2_slot()), (127, 6));
}

#[test]
fn a_completion_reads_as_it_was_written() {
    let (mut ring, user) = make(3);
    let mut imm = wc(5);
    imm.opcode = WcOpcode::ReceiveRdmaWithImm;
    imm.byte_len = 77;
    imm.extra = Some(WcExtra::Imm(Imm([1, 2, 3, 4])));
    let mut invalidated = wc(6);
    invalidated.status = WcStatus::RemoteAccess;
    invalidated.extra = Some(WcExtra::Invalidated(Key(0x11223344)));
    let mut datagram = wc(7);
    datagram.datagram = Some(Datagram {
        src_qp: Qpn::truncate(9),
        pkey_index: 3,
        sl: 2,
        vlan: None,
    });
    for one in [imm, invalidated, datagram] {
        ring.push(&one).unwrap();
    }

    let one = user.poll().unwrap();
    assert_eq!((one.wr_id, one.status, one.opcode), (5, 0, 129));
    assert_eq!((one.byte_len, one.qp_num, one.src_qp), (77, 0x123456, 0));
    assert_eq!((one.wc_flags, one.ex), (wc_flags::WITH_IMM, [1, 2, 3, 4]));
    assert_eq!(one.port_num, 1);

    let one = user.poll().unwrap();
    assert_eq!((one.wr_id, one.status, one.opcode), (6, 10, 0));
    assert_eq!(one.wc_flags, wc_flags::WITH_INVALIDATE);
    assert_eq!(u32::from_ne_bytes(one.ex), 0x11223344);

    let one = user.poll().unwrap();
    assert_eq!((one.src_qp, one.pkey_index, one.sl), (9, 3, 2));
    assert_eq!(one.wc_flags, wc_flags::GRH);
    assert!(user.poll().is_none());
}

#[test]
fn a_queue_is_full_at_its_capacity_and_goes_on_when_polled() {
    let (mut ring, user) = make(3);
    for round in 0..20 {
        for n in 0..3 {
            assert_eq!(ring.pending(), n);
            ring.push(&wc(round * 3 + u64::from(n))).unwrap();
        }
        assert!(ring.push(&wc(0)).is_err());
        for n in 0..3 {
            assert_eq!(user.poll().unwrap().wr_id, round * 3 + n);
        }
        assert!(user.poll().is_none());
    }
}

#[test]
fn what_user_space_writes_over_the_producers_index_goes_unnoticed() {
    let (mut ring, user) = make(7);
    ring.push(&wc(0)).unwrap();
    user.set_producer(5);
    ring.push(&wc(1)).unwrap();
    assert_eq!(user.producer(), 2);
    assert_eq!(user.poll().unwrap().wr_id, 0);
    assert_eq!(user.poll().unwrap().wr_id, 1);
    assert!(user.poll().is_none());
}

#[test]
fn a_larger_queue_takes_over_what_is_pending() {
    let (mut old, old_user) = make(3);
    for n in 0..5 {
        old.push(&wc(n)).unwrap();
        if n < 3 {
            assert_eq!(old_user.poll().unwrap().wr_id, n);
        }
    }
    let (mut new, new_user) = make(10);
    // The second half arrives while the first one is being copied.
    let copied = new.append_from(&old.snapshot(), old.first_pending());
    old.push(&wc(5)).unwrap();
    new.append_from(&old, copied.unwrap()).unwrap();
    new.push(&wc(6)).unwrap();
    for n in 3..7 {
        assert_eq!(new_user.poll().unwrap().wr_id, n);
    }
    assert!(new_user.poll().is_none());
}

#[test]
fn a_queue_too_small_for_what_is_pending_takes_nothing_over() {
    let (mut old, _user) = make(7);
    for n in 0..4 {
        old.push(&wc(n)).unwrap();
    }
    let (mut small, _) = make(3);
    assert!(small.append_from(&old, old.first_pending()).is_err());
    let (mut enough, _) = make(4);
    assert!(enough.append_from(&old, old.first_pending()).is_ok());
    assert_eq!(enough.pending(), 4);
}

proptest! {
    #[test]
    fn no_index_of_user_space_harms_the_queue(
        consumers in proptest::collection::vec(any::<u32>(), 1..50),
    ) {
        let (mut ring, user) = make(7);
        for consumer in consumers {
            user.set_consumer(consumer);
            user.set_producer(!consumer);
            prop_assert!(ring.pending() <= 7);
            let room = 7 - ring.pending();
            for _ in 0..room {
                prop_assert!(ring.push(&wc(1)).is_ok());
            }
            prop_assert!(ring.push(&wc(1)).is_err());
            let (mut larger, _) = make(100);
            prop_assert!(larger.append_from(&ring, ring.first_pending()).is_ok());
            prop_assert_eq!(larger.pending(), 7);
        }
    }
}
