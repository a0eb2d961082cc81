// SPDX-License-Identifier: GPL-2.0

//! The send queue, and what its elements say.

use std::{
    sync::{
        atomic::{AtomicBool, Ordering},
        Arc,
    },
    thread,
};

use proptest::prelude::*;
use rrxe_proto::{
    opcode::Transport,
    rc::{Binding, Flush, Local, Operation, Request, SendQueue, WqeSeq},
    status::{WcOpcode, WcStatus},
    ud::Destination,
    wire::{Placement, Selectivity},
    Access, Imm, Key, Qkey, Qpn,
};
use zerocopy::IntoBytes;

use crate::{
    ring::{
        abi::{send_flags, wr_opcode, DatagramOperands, SendWqe as RawWqe, Sge},
        element::Element,
        send_wqe::{Addressee, SendRules, SendWqe},
        InvalidWqe, LocalData, Poster, SendCaps, SendRing, Signalling,
    },
    shmem::Udata,
    user::{send_head, sge, with_inline, with_sges, Mapping},
};

const CAPS: SendCaps = SendCaps {
    max_wr: 7,
    max_sge: 4,
    max_inline: 100,
};

const RULES: SendRules = SendRules {
    transport: Transport::Rc,
    poster: Poster::User,
    signalling: Signalling::Requested,
    max_sge: 7,
    max_inline: 112,
};

const UD_RULES: SendRules = SendRules {
    transport: Transport::Ud,
    ..RULES
};

fn make(caps: SendCaps) -> (SendRing, Mapping) {
    let ring = SendRing::new(caps, Transport::Rc, Poster::User, Signalling::Requested).unwrap();
    let mut udata = Udata::default();
    ring.share(&mut udata).unwrap();
    (ring, Mapping::latest(&udata))
}

/// An element in private memory.
struct Bytes<'a>(&'a [u8]);

impl Element for Bytes<'_> {
    fn word(&self, index: usize) -> u64 {
        self.0
            .chunks_exact(8)
            .nth(index)
            .map_or(0, |word| u64::from_ne_bytes(word.try_into().unwrap()))
    }
}

/// An element that changes between any two reads, and complains if a word is read twice.
struct Racing<'a>(&'a [u8], std::cell::RefCell<Vec<usize>>);

impl Element for Racing<'_> {
    fn word(&self, index: usize) -> u64 {
        let mut read = self.1.borrow_mut();
        assert!(!read.contains(&index), "word {index} is read twice");
        read.push(index);
        Bytes(self.0).word(index)
    }
}

fn parse(element: &[u8], rules: &SendRules) -> (SendWqe, Vec<Sge>, Result<(), InvalidWqe>) {
    let mut cells = vec![Sge::default(); 7];
    let racing = Racing(element, Default::default());
    let (wqe, validity) = SendWqe::load(&racing, rules, &mut cells);
    (wqe, cells, validity)
}

fn valid(element: &[u8]) -> Request {
    let (wqe, _, validity) = parse(element, &RULES);
    assert_eq!(validity, Ok(()));
    *wqe.request()
}

fn invalid(element: &[u8]) -> InvalidWqe {
    let (wqe, cells, validity) = parse(element, &RULES);
    // Whatever is wrong, the completion can say with which request.
    assert_eq!(wqe.wr_id(), 7);
    assert!(matches!(wqe.local(&cells), LocalData::Sges([])));
    validity.unwrap_err()
}

#[test]
fn the_sizes_are_those_that_the_user_library_relies_on() {
    let (ring, mapping) = make(CAPS);
    assert_eq!(
        ring.caps(),
        SendCaps {
            max_wr: 7,
            max_sge: 7,
            max_inline: 112,
        }
    );
    assert_eq!(mapping.mask(), 7);
    assert_eq!(mapping.log2_slot(), 9);
    assert_eq!(ring.share(&mut Udata::default()).unwrap().size, 8192);

    let (ring, mapping) = make(SendCaps {
        max_wr: 1,
        max_sge: 1,
        max_inline: 0,
    });
    assert_eq!(
        ring.caps(),
        SendCaps {
            max_wr: 1,
            max_sge: 1,
            max_inline: 16,
        }
    );
    assert_eq!(mapping.log2_slot(), 8);
}

#[test]
fn a_queue_larger_than_any_may_be_is_refused() {
    for caps in [
        SendCaps {
            max_sge: 33,
            ..CAPS
        },
        SendCaps {
            max_inline: 513,
            ..CAPS
        },
        SendCaps {
            max_wr: u32::MAX,
            ..CAPS
        },
    ] {
        assert!(SendRing::new(caps, Transport::Rc, Poster::User, Signalling::All).is_err());
    }
}

#[test]
fn every_operation_takes_its_operands_from_their_places() {
    let mut head = send_head(7, wr_opcode::RDMA_WRITE_WITH_IMM, 0);
    head.wr.ex = [1, 2, 3, 4];
    head.wr.operands[0] = 0x1000;
    head.wr.operands[1] = 0xffff_ffff_0000_0042;
    let request = valid(&with_sges(head, &[sge(0, 10), sge(64, 20)]));
    assert_eq!(request.len(), 30);
    assert_eq!(
        request.operation(),
        Operation::WriteImm {
            va: 0x1000,
            rkey: Key(0x42),
            imm: Imm([1, 2, 3, 4]),
        }
    );

    head.wr.opcode = wr_opcode::RDMA_READ;
    let request = valid(&with_sges(head, &[sge(0, 10)]));
    assert_eq!(
        request.operation(),
        Operation::Read {
            va: 0x1000,
            rkey: Key(0x42),
        }
    );

    head.wr.opcode = wr_opcode::SEND_WITH_INV;
    let request = valid(&with_sges(head, &[]));
    assert_eq!(
        request.operation(),
        Operation::SendInv(Key(u32::from_ne_bytes([1, 2, 3, 4])))
    );

    head.wr.opcode = wr_opcode::ATOMIC_CMP_AND_SWP;
    head.wr.operands = core::array::from_fn(|i| i as u64 + 1);
    let request = valid(&with_sges(head, &[sge(0, 8)]));
    assert_eq!(
        request.operation(),
        Operation::CompareSwap {
            va: 1,
            rkey: Key(4),
            compare: 2,
            swap: 3,
        }
    );

    head.wr.opcode = wr_opcode::ATOMIC_FETCH_AND_ADD;
    let request = valid(&with_sges(head, &[sge(0, 8)]));
    assert_eq!(
        request.operation(),
        Operation::FetchAdd {
            va: 1,
            rkey: Key(4),
            add: 2,
        }
    );
}

#[test]
fn local_operations() {
    let mut head = send_head(7, wr_opcode::LOCAL_INV, 0);
    head.wr.ex = 0x1234_u32.to_ne_bytes();
    assert_eq!(
        valid(&with_sges(head, &[])).operation(),
        Operation::Local(Local::Invalidate(Key(0x1234)))
    );

    let mut head = send_head(7, wr_opcode::BIND_MW, 0);
    head.wr.operands[..4].copy_from_slice(&[0x1000, 1 << 40, 6 << 32 | 5, 3 << 32 | 0xab07]);
    assert_eq!(
        valid(&with_sges(head, &[])).operation(),
        Operation::Local(Local::Bind(Binding {
            window: Key(6),
            tag: 7,
            region: Key(5),
            va: 0x1000,
            len: 1 << 40,
            access: Access::from_bits(3),
        }))
    );
    assert_eq!(invalid(&with_sges(head, &[sge(0, 1)])), InvalidWqe::Length);
}

#[test]
fn a_flush_says_its_length_where_others_have_that_of_their_data() {
    let mut head = send_head(7, wr_opcode::FLUSH, 0);
    head.wr.operands[..3].copy_from_slice(&[0x1000, 6 << 32 | 0xffff, 0x0103]);
    head.dma.length = 5000;
    let request = valid(head.as_bytes());
    assert_eq!(request.len(), 0);
    assert_eq!(
        request.operation(),
        Operation::Flush(Flush {
            rkey: Key(6),
            va: 0x1000,
            len: 5000,
            placement: Placement::BOTH,
            selectivity: Selectivity::Region,
        })
    );
    head.dma.length = (1 << 31) + 1;
    assert_eq!(invalid(head.as_bytes()), InvalidWqe::Length);
    for how in [0x0000, 0x0004, 0x0201, 0xff01] {
        let mut head = head;
        head.wr.operands[2] = how;
        head.dma.length = 1;
        assert_eq!(invalid(head.as_bytes()), InvalidWqe::Unsupported);
    }
}

#[test]
fn an_atomic_write_has_eight_bytes_of_inline_data() {
    let mut head = send_head(7, wr_opcode::ATOMIC_WRITE, 0);
    head.wr.operands[..2].copy_from_slice(&[0x1000, 6]);
    let (wqe, cells, validity) = parse(&with_inline(head, b"12345678"), &RULES);
    assert_eq!(validity, Ok(()));
    assert!(matches!(wqe.local(&cells), LocalData::Inline(b"12345678")));
    assert_eq!(
        wqe.request().operation(),
        Operation::AtomicWrite {
            va: 0x1000,
            rkey: Key(6),
        }
    );
    for data in [&b""[..], b"1234", b"1234567812345678"] {
        assert_eq!(invalid(&with_inline(head, data)), InvalidWqe::Length);
    }
}

#[test]
fn flags_are_taken_and_unknown_ones_refused() {
    let all = send_flags::ALL & !send_flags::INLINE;
    let flags = valid(&with_sges(send_head(7, wr_opcode::SEND, all), &[])).flags();
    assert!(flags.signaled && flags.solicited && flags.fence);

    let flags = valid(&with_sges(send_head(7, wr_opcode::SEND, 0), &[])).flags();
    assert!(!flags.signaled && !flags.solicited && !flags.fence);

    let signal_all = SendRules {
        signalling: Signalling::All,
        ..RULES
    };
    let element = with_sges(send_head(7, wr_opcode::SEND, 0), &[]);
    assert!(parse(&element, &signal_all).0.request().flags().signaled);

    for bit in 5..32 {
        let element = with_sges(send_head(7, wr_opcode::SEND, 1 << bit), &[]);
        assert_eq!(invalid(&element), InvalidWqe::UnknownFlags);
    }
}

#[test]
fn operations_of_the_kernel_and_of_other_services_are_refused() {
    for opcode in (10..=13).chain(16..300).chain([u32::MAX, 0xf0]) {
        let element = with_sges(send_head(7, opcode, 0), &[]);
        assert_eq!(invalid(&element), InvalidWqe::Unsupported);
        assert_eq!(InvalidWqe::Unsupported.status(), WcStatus::LocalQpOperation);
    }
    let uc = SendRules {
        transport: Transport::Uc,
        ..RULES
    };
    for opcode in 0..20 {
        let element = with_sges(send_head(7, opcode, 0), &[]);
        assert_eq!(
            parse(&element, &uc).2.is_ok(),
            matches!(opcode, 0..=3 | 7..=8)
        );
    }
    for opcode in 0..20 {
        let element = with_sges(datagram_head(opcode, 1, 2, 3), &[]);
        let expected = match opcode {
            wr_opcode::SEND | wr_opcode::SEND_WITH_IMM => Ok(()),
            _ => Err(InvalidWqe::Unsupported),
        };
        assert_eq!(parse(&element, &UD_RULES).2, expected);
    }
}

/// The element's head for a datagram.
fn datagram_head(opcode: u32, qpn: u32, qkey: u32, handle: u32) -> RawWqe {
    let mut head = send_head(7, opcode, 0);
    let operands = DatagramOperands {
        remote_qpn: qpn,
        remote_qkey: qkey,
        pkey_index: 0x5a5a,
        reserved: 0x5a5a,
        ah_num: handle,
        pad: [u64::MAX; 2],
        av: [u64::MAX; 11],
    };
    head.wr.operands = zerocopy::transmute!(operands);
    head
}

#[test]
fn a_datagram_has_an_addressee_and_nothing_else_has() {
    let element = with_sges(
        datagram_head(wr_opcode::SEND, 0xff_ffff, 0x8765_4321, 9),
        &[sge(1, 20)],
    );
    let (wqe, _, validity) = parse(&element, &UD_RULES);
    assert_eq!(validity, Ok(()));
    assert_eq!(wqe.request().len(), 20);
    assert_eq!(
        wqe.addressee(),
        Some(Addressee {
            handle: 9,
            destination: Destination {
                qpn: Qpn::MULTICAST,
                qkey: Qkey(0x8765_4321),
            },
        })
    );
    assert_eq!(parse(&element, &RULES).0.addressee(), None);
}

#[test]
fn a_datagram_without_handle_or_to_no_queue_pair_is_invalid() {
    for (qpn, handle) in [(1, 0), (0x100_0000, 1), (u32::MAX, 1)] {
        let element = with_sges(datagram_head(wr_opcode::SEND, qpn, 1, handle), &[]);
        let (wqe, _, validity) = parse(&element, &UD_RULES);
        assert_eq!(validity, Err(InvalidWqe::Destination));
        assert_eq!((wqe.wr_id(), wqe.addressee()), (7, None));
    }
    assert_eq!(InvalidWqe::Destination.status(), WcStatus::LocalQpOperation);
}

#[test]
fn an_error_completion_knows_what_was_asked_for() {
    for (opcode, of) in [
        (wr_opcode::BIND_MW, WcOpcode::BindMw),
        (wr_opcode::LOCAL_INV, WcOpcode::LocalInvalidate),
        (wr_opcode::FLUSH, WcOpcode::Flush),
        (wr_opcode::ATOMIC_WRITE, WcOpcode::AtomicWrite),
        (77, WcOpcode::Send),
    ] {
        let (wqe, _, validity) = parse(&with_sges(send_head(7, opcode, 1 << 31), &[]), &RULES);
        assert!(validity.is_err());
        assert_eq!((wqe.wr_id(), wqe.opcode()), (7, of));
    }
}

#[test]
fn inline_data_may_come_with_a_flag_or_without() {
    let data: Vec<u8> = (0..101).collect();
    for flags in [send_flags::INLINE, 0] {
        let element = with_inline(send_head(7, wr_opcode::SEND, flags), &data);
        let (wqe, cells, validity) = parse(&element, &RULES);
        assert_eq!(validity, Ok(()));
        assert_eq!(wqe.request().len(), 101);
        assert!(matches!(wqe.local(&cells), LocalData::Inline(bytes) if bytes == data));
    }

    // `ibv_post_send()` leaves the number of pieces in `num_sge`.
    let mut head = send_head(7, wr_opcode::SEND, send_flags::INLINE);
    head.dma.num_sge = 1000;
    let (wqe, cells, _) = parse(&with_inline(head, &data), &RULES);
    assert!(matches!(wqe.local(&cells), LocalData::Inline(bytes) if bytes == data));
}

#[test]
fn inline_data_is_for_operations_that_send_and_has_a_limit() {
    let head = send_head(7, wr_opcode::RDMA_WRITE, send_flags::INLINE);
    assert_eq!(valid(&with_inline(head, &[1; 112])).len(), 112);
    assert_eq!(
        invalid(&with_inline(head, &[1; 113])),
        InvalidWqe::InlineLength
    );
    for opcode in [
        wr_opcode::RDMA_READ,
        wr_opcode::ATOMIC_CMP_AND_SWP,
        wr_opcode::ATOMIC_FETCH_AND_ADD,
    ] {
        let head = send_head(7, opcode, send_flags::INLINE);
        assert_eq!(invalid(&with_inline(head, &[1; 8])), InvalidWqe::Inline);
    }
    assert_eq!(InvalidWqe::InlineLength.status(), WcStatus::LocalLength);
}

#[test]
fn gather_elements_are_counted_and_added_up() {
    let head = send_head(7, wr_opcode::SEND, 0);
    assert_eq!(valid(&with_sges(head, &[sge(0, 1); 7])).len(), 7);
    assert_eq!(
        invalid(&with_sges(head, &[sge(0, 1); 8])),
        InvalidWqe::TooManySges
    );

    let half = sge(0, 1 << 30);
    assert_eq!(valid(&with_sges(head, &[half, half])).len(), 1 << 31);
    assert_eq!(
        invalid(&with_sges(head, &[half, half, sge(0, 1)])),
        InvalidWqe::Length
    );

    // A sum of 2^32, which the user library takes for zero.
    let mut wrapped = head;
    wrapped.dma.num_sge = 4;
    let bytes = [wrapped.as_bytes(), [half; 4].as_bytes()].concat();
    assert_eq!(invalid(&bytes), InvalidWqe::Length);

    let mut lying = head;
    lying.dma.num_sge = 1;
    lying.dma.length = 100;
    let bytes = [lying.as_bytes(), [sge(0, 99)].as_bytes()].concat();
    assert_eq!(invalid(&bytes), InvalidWqe::LengthMismatch);
}

#[test]
fn empty_gather_elements_are_dropped() {
    let head = send_head(7, wr_opcode::SEND, 0);
    let element = with_sges(head, &[sge(1, 0), sge(2, 5), sge(3, 0), sge(4, 6)]);
    let (wqe, cells, _) = parse(&element, &RULES);
    assert_eq!(wqe.request().len(), 11);
    assert!(matches!(wqe.local(&cells), LocalData::Sges(sges) if sges == [sge(2, 5), sge(4, 6)]));
}

#[test]
fn an_atomic_is_on_eight_bytes() {
    for opcode in [
        wr_opcode::ATOMIC_CMP_AND_SWP,
        wr_opcode::ATOMIC_FETCH_AND_ADD,
    ] {
        let head = send_head(7, opcode, 0);
        assert_eq!(valid(&with_sges(head, &[sge(0, 8)])).len(), 8);
        assert_eq!(valid(&with_sges(head, &[sge(0, 4), sge(8, 4)])).len(), 8);
        assert_eq!(invalid(&with_sges(head, &[sge(0, 7)])), InvalidWqe::Length);
        assert_eq!(invalid(&with_sges(head, &[sge(0, 9)])), InvalidWqe::Length);
        assert_eq!(invalid(&with_sges(head, &[])), InvalidWqe::Length);
    }
}

#[test]
fn requests_are_fetched_in_order_and_their_slots_given_back_when_retired() {
    let (mut ring, user) = make(CAPS);
    let mut posted = 0u64;
    let mut done = 0u64;
    for round in 0..40 {
        while user.produce(&with_sges(send_head(posted, wr_opcode::SEND, 0), &[])) {
            posted += 1;
        }
        assert_eq!(posted - done, 7);
        let mut seqs = Vec::new();
        while let Some(fetched) = ring.fetch() {
            assert_eq!(fetched.validity, Ok(()));
            seqs.push(fetched.seq);
        }
        assert!(user.is_full());
        for seq in seqs.into_iter().take(round % 7 + 1) {
            assert_eq!(ring.wqe(seq).wr_id(), seq.get().into());
        }
        for _ in 0..round % 7 + 1 {
            ring.retire();
            done += 1;
        }
    }
}

#[test]
fn a_fetched_request_is_private() {
    let (mut ring, user) = make(CAPS);
    user.produce(&with_inline(
        send_head(1, wr_opcode::SEND, send_flags::INLINE),
        b"as it was",
    ));
    let seq = ring.fetch().unwrap().seq;
    user.write(0, &[0xff; 512]);
    assert_eq!(ring.wqe(seq).wr_id(), 1);
    assert_eq!(ring.request(seq).operation(), Operation::Send);
    assert!(matches!(ring.local(seq), LocalData::Inline(b"as it was")));
}

#[test]
fn a_jump_of_the_index_shows_no_more_than_the_ring() {
    let (mut ring, user) = make(CAPS);
    for jump in [3, 8, 0xffff_fff7, u32::MAX, 12, 6] {
        user.set_producer(jump);
        let mut fetched = 0;
        while ring.fetch().is_some() {
            fetched += 1;
            // Nothing is retired, so moving on does not show more.
            user.set_producer(user.producer().wrapping_add(5));
            assert!(fetched <= 7);
        }
        for _ in 0..fetched + 10 {
            ring.retire();
        }
    }
}

#[test]
fn a_cleared_queue_counts_anew_where_user_space_stands() {
    let (mut ring, user) = make(CAPS);
    for wr_id in 0..5 {
        user.produce(&with_sges(send_head(wr_id, wr_opcode::SEND, 0), &[]));
    }
    ring.fetch().unwrap();
    ring.fetch().unwrap();
    ring.retire();
    ring.clear();
    assert!(ring.fetch().is_none());
    assert_eq!(user.consumer(), 5);

    user.produce(&with_sges(send_head(99, wr_opcode::SEND, 0), &[]));
    let fetched = ring.fetch().unwrap();
    assert_eq!(fetched.seq, WqeSeq::ZERO);
    assert_eq!(ring.wqe(fetched.seq).wr_id(), 99);
    ring.retire();
    assert_eq!(user.consumer(), 6);
}

/// Checks what must hold of any element that passes.
fn assert_sound(wqe: &SendWqe, cells: &[Sge], validity: Result<(), InvalidWqe>) {
    let local = match wqe.local(cells) {
        LocalData::Inline(bytes) => {
            assert!(bytes.len() <= RULES.max_inline as usize);
            bytes.len() as u64
        }
        LocalData::Sges(sges) => {
            assert!(sges.len() <= RULES.max_sge as usize);
            assert!(sges.iter().all(|sge| sge.length != 0));
            sges.iter().map(|sge| u64::from(sge.length)).sum()
        }
    };
    let len = u64::from(wqe.request().len());
    assert!(len <= 1 << 31);
    match wqe.request().operation() {
        Operation::CompareSwap { .. } | Operation::FetchAdd { .. } => {
            assert!(validity.is_ok() && len == 8 && local == 8);
        }
        _ => assert_eq!(len, local),
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(4096))]

    #[test]
    fn any_bytes_make_a_sound_request_or_an_error(
        element in proptest::collection::vec(any::<u8>(), 320),
    ) {
        let (wqe, cells, validity) = parse(&element, &RULES);
        assert_sound(&wqe, &cells, validity);
    }

    #[test]
    fn any_plausible_element_makes_a_sound_request_or_an_error(
        opcode in 0u32..17,
        flags in 0u32..33,
        num_sge in 0u32..9,
        length in prop_oneof![0u32..130, Just(1 << 31), any::<u32>()],
        honest: bool,
        operands: [u64; 15],
        lengths in proptest::collection::vec(
            prop_oneof![Just(0u32), 0u32..16, Just(1 << 30), any::<u32>()], 7),
    ) {
        let mut head: RawWqe = send_head(1, opcode, flags);
        head.wr.operands = operands;
        head.dma.num_sge = num_sge;
        head.dma.length = length;
        if honest {
            head.dma.length = lengths
                .iter()
                .take(num_sge as usize)
                .fold(0, |sum: u32, length| sum.wrapping_add(*length));
        }
        let sges: Vec<Sge> = lengths.iter().map(|length| sge(0x1000, *length)).collect();
        let element = [head.as_bytes(), sges.as_bytes()].concat();
        let (wqe, cells, validity) = parse(&element, &RULES);
        assert_sound(&wqe, &cells, validity);
    }
}

#[test]
fn a_user_that_scribbles_all_the_time_gets_only_errors_and_his_own_bytes() {
    let (mut ring, user) = make(CAPS);
    let stop = Arc::new(AtomicBool::new(false));
    let scribbler = {
        let stop = stop.clone();
        thread::spawn(move || {
            let mut x = 0x9e37_79b9_7f4a_7c15u64;
            while !stop.load(Ordering::Relaxed) {
                x ^= x << 13;
                x ^= x >> 7;
                x ^= x << 17;
                let mut head = send_head(x, (x % 7) as u32, (x >> 8) as u32 & 0x1f);
                head.dma.num_sge = (x >> 16) as u32 % 9;
                head.dma.length = (x >> 24) as u32 % 120;
                let sges: [Sge; 7] = core::array::from_fn(|i| sge(x, (x >> (i * 8)) as u32 % 20));
                user.write(x as u32 & 7, &[head.as_bytes(), sges.as_bytes()].concat());
                user.set_producer((x >> 32) as u32);
            }
        })
    };
    let mut fetched = 0;
    while fetched < 20_000 {
        if let Some(one) = ring.fetch() {
            fetched += 1;
            let wqe = *ring.wqe(one.seq);
            let local = match ring.local(one.seq) {
                LocalData::Inline(bytes) => bytes.len() as u64,
                LocalData::Sges(sges) => sges.iter().map(|sge| u64::from(sge.length)).sum(),
            };
            let len = u64::from(wqe.request().len());
            assert!(len == local && local <= 140);
        } else {
            ring.retire();
        }
    }
    stop.store(true, Ordering::Relaxed);
    scribbler.join().unwrap();
}
