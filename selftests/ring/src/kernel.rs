// SPDX-License-Identifier: GPL-2.0

//! Queues of consumers inside the kernel.

use rrxe_proto::{
    opcode::Transport,
    rc::{Local, Operation, Registration, SendQueue},
    status::{WcOpcode, WcStatus},
    Access, Key, Qpn,
};

use crate::{
    ring::{
        abi::{send_flags, wr_opcode, ReceiveWqe as RawReceiveWqe},
        CompletionList, Full, InvalidWqe, LocalData, Poster, ReceiveCaps, ReceiveRing, ReceiveWqe,
        SendCaps, SendRing, Signalling, Take, Wc,
    },
    user::{send_head, sge},
};

fn send_ring(max_wr: u32) -> SendRing {
    let caps = SendCaps {
        max_wr,
        max_sge: 2,
        max_inline: 32,
    };
    SendRing::new(caps, Transport::Rc, Poster::Kernel, Signalling::Requested).unwrap()
}

#[test]
fn what_is_posted_is_fetched_as_if_user_space_had_written_it() {
    let mut ring = send_ring(3);
    let mut producer = ring.producer();
    let mut head = send_head(7, wr_opcode::SEND, send_flags::SIGNALED);
    head.dma.num_sge = 2;
    head.dma.length = 100;
    let sges = [sge(0x1000, 60), sge(0x2000, 40)];
    producer.post_send(&head, &sges).unwrap();

    let fetched = ring.fetch().unwrap();
    assert_eq!(fetched.validity, Ok(()));
    assert_eq!(ring.wqe(fetched.seq).wr_id(), 7);
    assert_eq!(ring.request(fetched.seq).operation(), Operation::Send);
    assert!(matches!(ring.local(fetched.seq), LocalData::Sges(found) if found == sges));
    assert!(ring.fetch().is_none());
}

#[test]
fn a_send_queue_takes_as_much_as_it_has_room_for() {
    let mut ring = send_ring(3);
    let mut producer = ring.producer();
    // More than once around.
    for round in 0..5 {
        for i in 0..3 {
            let head = send_head(round * 3 + i, wr_opcode::SEND, 0);
            producer.post_send(&head, &[]).unwrap();
        }
        let head = send_head(99, wr_opcode::SEND, 0);
        assert_eq!(producer.post_send(&head, &[]), Err(Full));
        for i in 0..3 {
            let fetched = ring.fetch().unwrap();
            assert_eq!(ring.wqe(fetched.seq).wr_id(), round * 3 + i);
            ring.retire();
        }
    }
}

#[test]
fn a_queue_that_was_cleared_goes_on() {
    let mut ring = send_ring(3);
    let mut producer = ring.producer();
    producer
        .post_send(&send_head(1, wr_opcode::SEND, 0), &[])
        .unwrap();
    ring.clear();
    producer
        .post_send(&send_head(2, wr_opcode::SEND, 0), &[])
        .unwrap();
    let fetched = ring.fetch().unwrap();
    assert_eq!(ring.wqe(fetched.seq).wr_id(), 2);
}

#[test]
fn only_the_kernel_registers_listed_memory() {
    for (poster, validity) in [
        (Poster::Kernel, Ok(())),
        (Poster::User, Err(InvalidWqe::Unsupported)),
    ] {
        let caps = SendCaps {
            max_wr: 1,
            max_sge: 1,
            max_inline: 0,
        };
        let mut ring = SendRing::new(caps, Transport::Rc, poster, Signalling::Requested).unwrap();
        let mut head = send_head(7, wr_opcode::REG_MR, 0);
        head.wr.operands[..2].copy_from_slice(&[0x1000, 3 << 32 | 0x507]);
        ring.producer().post_send(&head, &[]).unwrap();

        let fetched = ring.fetch().unwrap();
        assert_eq!(fetched.validity, validity);
        assert_eq!(ring.wqe(fetched.seq).opcode(), WcOpcode::RegisterMr);
        if validity.is_ok() {
            assert_eq!(
                ring.request(fetched.seq).operation(),
                Operation::Local(Local::Register(Registration {
                    key: Key(0x507),
                    va: 0x1000,
                    access: Access::from_bits(3),
                }))
            );
        }
    }
}

#[test]
fn a_receive_is_taken_as_it_was_posted() {
    let mut ring = ReceiveRing::new(ReceiveCaps {
        max_wr: 1,
        max_sge: 2,
    })
    .unwrap();
    let mut producer = ring.producer();
    let head = RawReceiveWqe {
        wr_id: 5,
        reserved: 0,
        dma: crate::user::dma(1),
    };
    producer.post_receive(&head, &[sge(0x1000, 60)]).unwrap();
    assert_eq!(producer.post_receive(&head, &[]), Err(Full));

    let mut wqe = ReceiveWqe::new();
    assert_eq!(ring.take(&mut wqe), Take::Taken);
    assert_eq!((wqe.wr_id(), wqe.capacity()), (5, 60));
    assert_eq!(wqe.sges(), [sge(0x1000, 60)]);
    assert_eq!(ring.take(&mut wqe), Take::Empty);
    producer.post_receive(&head, &[]).unwrap();
}

fn wc(wr_id: u64) -> Wc {
    let qpn = Qpn::truncate(9);
    Wc::new(wr_id, WcOpcode::LocalInvalidate, WcStatus::Success, qpn)
}

#[test]
fn completions_are_polled_in_the_order_in_which_they_came() {
    let mut list = CompletionList::new(3).unwrap();
    assert_eq!(list.capacity(), 3);
    let (mut pushed, mut popped) = (0, 0);
    // Each number of completions in the queue, at each place.
    for count in [1, 3, 2, 3, 1, 2, 3, 3] {
        for _ in 0..count {
            list.push(&wc(pushed)).unwrap();
            pushed += 1;
        }
        assert_eq!(list.pending(), count);
        for _ in 0..count {
            assert_eq!(list.pop().unwrap().wr_id, popped);
            popped += 1;
        }
        assert!(list.pop().is_none());
    }
}

#[test]
fn a_full_list_takes_no_more_and_loses_nothing() {
    let mut list = CompletionList::new(2).unwrap();
    list.push(&wc(1)).unwrap();
    list.push(&wc(2)).unwrap();
    assert_eq!(list.push(&wc(3)), Err(Full));
    assert_eq!(list.pop().unwrap().wr_id, 1);
    list.push(&wc(4)).unwrap();
    assert_eq!(list.pop().unwrap().wr_id, 2);
    assert_eq!(list.pop().unwrap().wr_id, 4);
    assert_eq!(list.pending(), 0);
}

#[test]
fn a_list_has_room_for_something() {
    assert!(CompletionList::new(0).is_err());
}
