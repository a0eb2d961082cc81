// SPDX-License-Identifier: GPL-2.0

//! Tests of both sides, each named for the rule it checks.

mod confirmed;
mod hostile;
mod local;
mod pair;
mod requester;
mod responder;
mod snapshot;
mod untimely;

use crate::{
    opcode::MAX_HEADER_LEN,
    psn::Psn,
    qpn::Qpn,
    rc::{ReceiveSource, Request, SendQueue, Take, WqeSeq},
    wire::{HeaderBuf, HeaderSpec, Headers, Kind}, //
};

pub(crate) const QPN: Qpn = Qpn::GSI;

/// Send work requests in the order of their numbers.
pub(crate) struct Queue(pub(crate) Vec<Request>);

impl SendQueue for Queue {
    fn request(&self, wqe: WqeSeq) -> &Request {
        &self.0[wqe.get() as usize]
    }
}

/// Receive work requests by their capacities.
pub(crate) struct Receives(pub(crate) Vec<Take>);

impl ReceiveSource for Receives {
    fn take(&mut self) -> Take {
        if self.0.is_empty() {
            return Take::Empty;
        }
        self.0.remove(0)
    }
}

pub(crate) fn psn(value: u32) -> Psn {
    Psn::truncate(value)
}

/// The headers of a packet as its receiver reads them.
pub(crate) fn headers(spec: &HeaderSpec, payload_len: u32) -> Headers {
    let buf = HeaderBuf::new(spec, payload_len);
    let mut head = [0; MAX_HEADER_LEN];
    head[..buf.len()].copy_from_slice(buf.as_bytes());
    Headers::parse(&head[..buf.len()], buf.packet_len()).unwrap()
}

pub(crate) fn packet(kind: Kind, psn: Psn, payload_len: u32) -> Headers {
    headers(&HeaderSpec::new(kind, QPN, psn), payload_len)
}
