// SPDX-License-Identifier: GPL-2.0

//! What a device tells management of its traffic: the class *performance*, the method *get*.
//!
//! Counters of management stop at their largest value. They count data in words of four bytes.

use crate::{
    datapath::counters::{
        Counter,
        Counters, //
    },
    kapi::rdma::Mad,
};

/// The class.
const PERFORMANCE: u8 = 4;

/// The method.
const GET: u8 = 1;

/// What makes a method that of a response.
const RESPONSE: u8 = 0x80;

/// Version of the class, and of datagrams.
const VERSION: u8 = 1;

/// That there are counters of 64 bits.
const EXTENDED_WIDTH: u16 = 0x0200;

/// Status: there is no such attribute.
const UNSUPPORTED: u16 = 0x000c;

/// Attributes by number.
mod attribute {
    pub(super) const CLASS_PORT_INFO: u16 = 0x01;
    pub(super) const PORT_COUNTERS: u16 = 0x12;
    pub(super) const PORT_COUNTERS_EXTENDED: u16 = 0x1d;
}

/// Where things are in a datagram, in bytes.
mod offset {
    pub(super) const CLASS: usize = 1;
    pub(super) const METHOD: usize = 3;
    pub(super) const STATUS: usize = 4;
    pub(super) const ATTRIBUTE: usize = 16;
    /// The value of an attribute of this class.
    pub(super) const VALUE: usize = 64;
}

/// The answer to `request`, if it is of this class and method.
pub(super) fn answer(request: &Mad, counters: &Counters) -> Option<Mad> {
    if request[offset::CLASS] != PERFORMANCE || request[offset::METHOD] != GET {
        return None;
    }
    let number = [request[offset::ATTRIBUTE], request[offset::ATTRIBUTE + 1]];
    // What selects the port, and what the response is to, is repeated.
    let mut answer = *request;
    answer[offset::METHOD] = GET | RESPONSE;
    match u16::from_be_bytes(number) {
        attribute::CLASS_PORT_INFO => class_port_info(&mut answer),
        attribute::PORT_COUNTERS => port_counters(&mut answer, counters),
        attribute::PORT_COUNTERS_EXTENDED => port_counters_extended(&mut answer, counters),
        _ => set(&mut answer, offset::STATUS, &UNSUPPORTED.to_be_bytes()),
    }
    Some(answer)
}

fn class_port_info(answer: &mut Mad) {
    set(answer, offset::VALUE, &[VERSION, VERSION]);
    set(answer, offset::VALUE + 2, &EXTENDED_WIDTH.to_be_bytes());
}

fn port_counters(answer: &mut Mad, counters: &Counters) {
    let downed = u8::try_from(counters.get(Counter::LinkDowned as usize)).unwrap_or(u8::MAX);
    set(answer, offset::VALUE + 7, &[downed]);
    for (at, count) in traffic(counters).into_iter().enumerate() {
        let count = u32::try_from(count).unwrap_or(u32::MAX);
        set(answer, offset::VALUE + 24 + 4 * at, &count.to_be_bytes());
    }
}

fn port_counters_extended(answer: &mut Mad, counters: &Counters) {
    for (at, count) in traffic(counters).into_iter().enumerate() {
        set(answer, offset::VALUE + 8 + 8 * at, &count.to_be_bytes());
    }
}

/// Words and packets, in the order in which both kinds of counters have them.
fn traffic(counters: &Counters) -> [u64; 4] {
    let get = |counter| counters.get(counter as usize);
    [
        get(Counter::SentBytes) / 4,
        get(Counter::ReceivedBytes) / 4,
        get(Counter::SentPackets),
        get(Counter::ReceivedPackets),
    ]
}

fn set(answer: &mut Mad, at: usize, bytes: &[u8]) {
    for (to, from) in answer.iter_mut().skip(at).zip(bytes) {
        *to = *from;
    }
}
