// SPDX-License-Identifier: GPL-2.0

//! Any bytes as elements of a user's queues.

use std::cell::RefCell;

use arbitrary::{Arbitrary, Result, Unstructured};
use rrxe_proto::{mtu::MAX_MESSAGE_LEN, opcode::Transport};

use crate::ring::{
    abi::Sge,
    element::Element,
    receive_wqe::ReceiveWqe,
    send_wqe::{LocalData, Poster, SendRules, SendWqe, Signalling},
};

/// Cells of a slot, and so most elements of a request.
const CELLS: usize = 8;

/// Reads what `data` holds as elements of a send queue and of a receive queue.
pub fn run(data: &[u8]) {
    let _ = read(&mut Unstructured::new(data));
}

fn read(input: &mut Unstructured<'_>) -> Result<()> {
    let rules = SendRules {
        transport: *input.choose(&[Transport::Rc, Transport::Uc])?,
        poster: Poster::User,
        signalling: *input.choose(&[Signalling::Requested, Signalling::All])?,
        max_sge: input.int_in_range(0..=CELLS as u32)?,
        max_inline: (CELLS * size_of::<Sge>()) as u32,
    };
    let max_receive_sge = u8::arbitrary(input)?;
    let element = input.peek_bytes(input.len()).unwrap_or_default();
    send(element, &rules);
    receive(element, max_receive_sge.into());
    Ok(())
}

/// What a valid request says of its length is what its local side has.
fn send(element: &[u8], rules: &SendRules) {
    let mut cells = [Sge::default(); CELLS];
    let (wqe, validity) = SendWqe::load(&Bytes::new(element), rules, &mut cells);
    let len = wqe.request().len();
    if validity.is_err() {
        assert_eq!(len, 0);
    }
    match wqe.local(&cells) {
        LocalData::Inline(bytes) => assert_eq!(bytes.len(), len as usize),
        LocalData::Sges(sges) => {
            assert!(sges.iter().all(|sge| sge.length != 0));
            let total: u64 = sges.iter().map(|sge| u64::from(sge.length)).sum();
            assert_eq!(total, len.into());
            assert!(sges.len() <= rules.max_sge as usize && len <= MAX_MESSAGE_LEN);
        }
    }
}

fn receive(element: &[u8], max_sge: u32) {
    let mut wqe = ReceiveWqe::new();
    let validity = wqe.load(&Bytes::new(element), max_sge);
    let total: u64 = wqe.sges().iter().map(|sge| u64::from(sge.length)).sum();
    assert_eq!(total, wqe.capacity());
    assert!(wqe.sges().len() <= max_sge as usize);
    assert!(validity.is_ok() || wqe.sges().is_empty());
}

/// An element that changes as soon as it has been read, so that no word may be read twice.
struct Bytes<'a> {
    bytes: &'a [u8],
    read: RefCell<Vec<usize>>,
}

impl<'a> Bytes<'a> {
    fn new(bytes: &'a [u8]) -> Self {
        Self {
            bytes,
            read: RefCell::default(),
        }
    }
}

impl Element for Bytes<'_> {
    fn word(&self, index: usize) -> u64 {
        let mut read = self.read.borrow_mut();
        assert!(!read.contains(&index), "word {index} is read twice");
        read.push(index);
        let mut word = [0; 8];
        let rest = self.bytes.get(index * 8..).unwrap_or_default();
        let given = rest.len().min(word.len());
        word[..given].copy_from_slice(&rest[..given]);
        u64::from_ne_bytes(word)
    }
}
