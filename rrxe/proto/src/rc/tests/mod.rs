// SPDX-License-Identifier: GPL-2.0

//! Tests of both sides, each named for the rule it checks.

mod hostile;
mod pair;
mod requester;
mod responder;

use crate::{
    opcode::MAX_HEADER_LEN,
    psn::Psn,
    qpn::Qpn,
    wire::{HeaderBuf, HeaderSpec, Headers, Kind}, //
};

const QPN: Qpn = Qpn::GSI;

fn psn(value: u32) -> Psn {
    Psn::truncate(value)
}

/// The headers of a packet as its receiver reads them.
fn headers(spec: &HeaderSpec, payload_len: u32) -> Headers {
    let buf = HeaderBuf::new(spec, payload_len);
    let mut head = [0; MAX_HEADER_LEN];
    head[..buf.len()].copy_from_slice(buf.as_bytes());
    Headers::parse(&head[..buf.len()], buf.packet_len()).unwrap()
}

fn packet(kind: Kind, psn: Psn, payload_len: u32) -> Headers {
    headers(&HeaderSpec::new(kind, QPN, psn), payload_len)
}
