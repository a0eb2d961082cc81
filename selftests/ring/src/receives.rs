// SPDX-License-Identifier: GPL-2.0

//! The receive queue.

use proptest::prelude::*;
use rrxe_proto::status::WcStatus;
use zerocopy::IntoBytes;

use crate::{
    ring::{
        abi::{DmaInfo, ReceiveWqe as RawWqe, Sge},
        receive_wqe::MAX_RECEIVE_SGE,
        InvalidWqe, ReceiveCaps, ReceiveRing, ReceiveWqe, Take,
    },
    shmem::Udata,
    user::{sge, Mapping},
};

const CAPS: ReceiveCaps = ReceiveCaps {
    max_wr: 3,
    max_sge: 3,
};

fn make(caps: ReceiveCaps) -> (ReceiveRing, Mapping) {
    let ring = ReceiveRing::new(caps).unwrap();
    let mut udata = Udata::default();
    ring.share(&mut udata).unwrap();
    (ring, Mapping::latest(&udata))
}

fn element(wr_id: u64, num_sge: u32, sges: &[Sge]) -> Vec<u8> {
    let head = RawWqe {
        wr_id,
        reserved: 0,
        dma: DmaInfo {
            // An int that overflowed.
            length: 0xdead_beef,
            resid: 0xdead_beef,
            cur_sge: 0xdead_beef,
            num_sge,
            sge_offset: 0xdead_beef,
            reserved: 0,
        },
    };
    [head.as_bytes(), sges.as_bytes()].concat()
}

#[test]
fn the_sizes_are_those_that_the_user_library_relies_on() {
    let (ring, mapping) = make(ReceiveCaps {
        max_wr: 4,
        max_sge: 6,
    });
    assert_eq!(
        ring.caps(),
        ReceiveCaps {
            max_wr: 7,
            max_sge: 6,
        }
    );
    assert_eq!((mapping.mask(), mapping.log2_slot()), (7, 8));

    let too_many = ReceiveCaps {
        max_wr: 1,
        max_sge: MAX_RECEIVE_SGE as u32 + 1,
    };
    assert!(ReceiveRing::new(too_many).is_err());
}

#[test]
fn requests_are_taken_in_order_and_their_slots_given_back_at_once() {
    let (mut ring, user) = make(CAPS);
    let mut wqe = ReceiveWqe::new();
    assert_eq!(ring.take(&mut wqe), Take::Empty);
    for wr_id in 0..50 {
        assert!(user.produce(&element(wr_id, 2, &[sge(16, wr_id as u32 + 1), sge(32, 5)])));
        assert_eq!(ring.posted(), 1);
        assert_eq!(ring.take(&mut wqe), Take::Taken);
        assert_eq!(wqe.wr_id(), wr_id);
        assert_eq!(wqe.capacity(), wr_id + 6);
        assert_eq!(wqe.sges(), [sge(16, wr_id as u32 + 1), sge(32, 5)]);
        assert_eq!(user.consumer(), user.producer());
    }
    assert_eq!(ring.take(&mut wqe), Take::Empty);
    assert_eq!(wqe.wr_id(), 49, "an empty queue leaves the request alone");
}

#[test]
fn a_buffer_may_be_larger_than_four_gigabytes_or_empty() {
    let (mut ring, user) = make(CAPS);
    let mut wqe = ReceiveWqe::new();
    user.produce(&element(1, 3, &[sge(0, u32::MAX); 3]));
    user.produce(&element(2, 2, &[sge(0, 0), sge(0, 0)]));
    assert_eq!(ring.take(&mut wqe), Take::Taken);
    assert_eq!(wqe.capacity(), 3 * u64::from(u32::MAX));
    assert_eq!(ring.take(&mut wqe), Take::Taken);
    assert_eq!((wqe.capacity(), wqe.sges()), (0, &[][..]));
}

#[test]
fn too_many_scatter_elements_are_an_error_with_a_name() {
    let (mut ring, user) = make(CAPS);
    let mut wqe = ReceiveWqe::new();
    for num_sge in [4, 32, 33, u32::MAX] {
        user.produce(&element(u64::from(num_sge), num_sge, &[sge(0, 1); 3]));
        let Take::Invalid(why) = ring.take(&mut wqe) else {
            panic!("taken");
        };
        assert_eq!(why, InvalidWqe::TooManySges);
        assert_eq!(why.status(), WcStatus::LocalQpOperation);
        assert_eq!((wqe.wr_id(), wqe.capacity()), (num_sge.into(), 0));
        assert!(wqe.sges().is_empty());
    }
}

#[test]
fn a_cleared_queue_is_empty() {
    let (mut ring, user) = make(CAPS);
    user.produce(&element(1, 0, &[]));
    user.produce(&element(2, 0, &[]));
    ring.clear();
    assert_eq!(ring.posted(), 0);
    assert_eq!(user.consumer(), 2);
    user.produce(&element(3, 0, &[]));
    let mut wqe = ReceiveWqe::new();
    assert_eq!(ring.take(&mut wqe), Take::Taken);
    assert_eq!(wqe.wr_id(), 3);
}

/// The names of all requests that are posted, in order.
fn take_all(ring: &mut ReceiveRing) -> Vec<u64> {
    let mut wqe = ReceiveWqe::new();
    let mut names = Vec::new();
    while ring.take(&mut wqe) != Take::Empty {
        names.push(wqe.wr_id());
    }
    names
}

#[test]
fn a_larger_or_smaller_queue_gets_what_is_posted() {
    for (taken_before, posted, taken_meanwhile, max_wr) in [
        (0, 3, 0, 3),
        (2, 3, 1, 3),
        (3, 3, 3, 3),
        (6, 2, 1, 30),
        (5, 1, 0, 1),
        (1, 0, 0, 1),
    ] {
        let (mut old, user) = make(CAPS);
        let mut wqe = ReceiveWqe::new();
        for wr_id in 0..taken_before {
            user.produce(&element(wr_id, 0, &[]));
            old.take(&mut wqe);
        }
        for wr_id in 0..posted {
            assert!(user.produce(&element(100 + wr_id, 1, &[sge(8, wr_id as u32 + 1)])));
        }
        let snapshot = old.snapshot();
        let (mut new, new_user) = make(ReceiveCaps { max_wr, ..CAPS });
        new.append_from(&snapshot).unwrap();
        assert_eq!(new.posted(), posted as u32);
        for _ in 0..taken_meanwhile {
            old.take(&mut wqe);
        }
        new.skip(old.taken_since(&snapshot));
        assert!(new_user.produce(&element(500, 0, &[])) || posted == u64::from(max_wr));
        let mut names = take_all(&mut new);
        names.retain(|name| *name != 500);
        let left: Vec<u64> = (100 + taken_meanwhile..100 + posted).collect();
        assert_eq!(names, left);
        assert_eq!(new_user.consumer(), new_user.producer());
    }
}

#[test]
fn a_queue_that_is_too_small_is_refused() {
    let (old, user) = make(CAPS);
    for wr_id in 0..2 {
        user.produce(&element(wr_id, 0, &[]));
    }
    let (mut new, _) = make(ReceiveCaps { max_wr: 1, ..CAPS });
    assert!(new.append_from(&old.snapshot()).is_err());
}

#[test]
fn no_more_is_skipped_than_is_posted() {
    let (mut ring, user) = make(CAPS);
    user.produce(&element(1, 0, &[]));
    ring.skip(u32::MAX);
    assert_eq!((ring.posted(), user.consumer()), (0, 1));
    user.produce(&element(2, 0, &[]));
    assert_eq!(take_all(&mut ring), [2]);
}

proptest! {
    #[test]
    fn any_bytes_and_indices_make_a_sound_request_or_an_error(
        slots in proptest::collection::vec(proptest::collection::vec(any::<u8>(), 128), 4),
        producers in proptest::collection::vec(any::<u32>(), 1..20),
    ) {
        let (mut ring, user) = make(CAPS);
        for (index, bytes) in slots.iter().enumerate() {
            user.write(index as u32, bytes);
        }
        let mut wqe = ReceiveWqe::new();
        for producer in producers {
            user.set_producer(producer);
            prop_assert!(ring.posted() <= 3);
            for _ in 0..ring.posted() {
                prop_assert!(ring.take(&mut wqe) != Take::Empty);
                prop_assert!(wqe.sges().len() <= 3);
                prop_assert_eq!(
                    wqe.capacity(),
                    wqe.sges().iter().map(|sge| u64::from(sge.length)).sum::<u64>()
                );
            }
            prop_assert_eq!(ring.take(&mut wqe), Take::Empty);
        }
    }
}
