// SPDX-License-Identifier: GPL-2.0

//! A response as the requester gets it, and what to do with it.

use crate::{
    opcode::Position,
    psn::Psn,
    rc::request::WqeSeq,
    wire::{Aeth, Headers, Kind, RcResponse, Syndrome}, //
};

/// A response as the requester gets it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Response {
    /// Acknowledgement, positive or negative.
    Ack {
        /// The PSN it is about.
        psn: Psn,
        /// What the responder says.
        aeth: Aeth,
    },
    /// Part of what was to be read.
    Read {
        /// The PSN of the part.
        psn: Psn,
        /// Which part of the response it is.
        position: Position,
        /// What the responder says, unless it is in the middle.
        aeth: Option<Aeth>,
        /// Bytes of payload.
        len: u32,
    },
    /// What an atomic operation found.
    Atomic {
        /// The PSN of the operation.
        psn: Psn,
        /// What the responder says.
        aeth: Aeth,
        /// What was there before the operation.
        original: u64,
    },
}

impl Response {
    /// The response that a packet with `headers` is, or `None` if it is none.
    pub fn from_headers(headers: &Headers) -> Option<Self> {
        let Kind::RcResponse(response) = headers.kind() else {
            return None;
        };
        let psn = headers.psn();
        Some(match response {
            RcResponse::Acknowledge(aeth) => Self::Ack { psn, aeth: *aeth },
            RcResponse::AtomicAcknowledge(aeth, original) => Self::Atomic {
                psn,
                aeth: *aeth,
                original: original.original(),
            },
            RcResponse::Read(part) => Self::Read {
                psn,
                position: part.position(),
                aeth: response.aeth(),
                len: headers.payload_len(),
            },
        })
    }

    /// What the responder says, unless it is in the middle of what was to be read.
    pub fn syndrome(&self) -> Option<Syndrome> {
        match self {
            Self::Ack { aeth, .. } | Self::Atomic { aeth, .. } => Some(aeth.syndrome()),
            Self::Read { aeth, .. } => aeth.map(|aeth| aeth.syndrome()),
        }
    }

    /// The PSN it is about.
    pub fn psn(&self) -> Psn {
        match *self {
            Self::Ack { psn, .. } | Self::Read { psn, .. } | Self::Atomic { psn, .. } => psn,
        }
    }
}

/// What to do with the payload of a response.
///
/// The data must have reached the work request's memory before
/// [`poll_completion`](super::Requester::poll_completion) is called next. If it cannot, the caller
/// tells so with [`fail`](super::Requester::fail) before that call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub enum Placement {
    /// There is none to place.
    None,
    /// Nothing: the response is of no use.
    Dropped(DropReason),
    /// Copy the payload to the local memory of `wqe`.
    Read {
        /// The request.
        wqe: WqeSeq,
        /// Where in its local memory, in bytes.
        offset: u32,
        /// Bytes.
        len: u32,
    },
    /// Store what the atomic operation found in the local memory of `wqe`.
    Atomic {
        /// The request.
        wqe: WqeSeq,
        /// What was there before the operation.
        original: u64,
    },
}

/// Why a response is of no use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DropReason {
    /// It is about a packet that is acknowledged already, or was never sent.
    Stale,
    /// A response to an older READ or atomic is missing.
    Gap,
    /// It cannot be the response to what was sent.
    Malformed,
    /// The queue is in the error state.
    Flushing,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::psn::Msn;

    #[test]
    fn all_but_the_middle_of_what_is_read_tells_a_syndrome() {
        let psn = Psn::ZERO;
        let aeth = Aeth::new(Syndrome::ACK, Msn::ZERO);
        let read = |position, aeth| Response::Read {
            psn,
            position,
            aeth,
            len: 256,
        };
        let original = 0;
        for (response, syndrome) in [
            (Response::Ack { psn, aeth }, Some(Syndrome::ACK)),
            (
                Response::Atomic {
                    psn,
                    aeth,
                    original,
                },
                Some(Syndrome::ACK),
            ),
            (read(Position::Last, Some(aeth)), Some(Syndrome::ACK)),
            (read(Position::Middle, None), None),
        ] {
            assert_eq!(response.syndrome(), syndrome, "{response:?}");
        }
    }
}
