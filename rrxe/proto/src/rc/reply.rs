// SPDX-License-Identifier: GPL-2.0

//! Responses to be sent in a row.

use crate::{
    key::{Key, Pkey},
    mtu::PathMtu,
    opcode::Position,
    psn::{Msn, Psn},
    qpn::Qpn,
    rc::{
        cursor::byte_offset,
        saved::{Due, Part}, //
    },
    wire::{Aeth, AtomicAckEth, HeaderSpec, Kind, RcResponse, ReadResponsePart, Syndrome}, //
};

/// Responses to be sent in a row.
#[derive(Clone, Copy, Debug)]
pub enum ResponsePlan {
    /// An acknowledgement, positive or negative.
    Ack {
        /// The PSN it is about.
        psn: Psn,
        /// What it says.
        aeth: Aeth,
    },
    /// What an atomic operation found.
    Atomic(AtomicReply),
    /// That a FLUSH or an ATOMIC WRITE is done: a READ response without data.
    Confirm(Confirmation),
    /// Some of what is to be read.
    Read(ReadReply),
}

/// That a FLUSH or an ATOMIC WRITE is done.
#[derive(Clone, Copy, Debug)]
pub struct Confirmation {
    pub(super) slot: u64,
    pub(super) due: Due,
    pub(super) psn: Psn,
    pub(super) msn: Msn,
}

/// What an atomic operation found.
#[derive(Clone, Copy, Debug)]
pub struct AtomicReply {
    pub(super) slot: u64,
    pub(super) due: Due,
    pub(super) psn: Psn,
    pub(super) msn: Msn,
    pub(super) original: u64,
}

/// Some of what is to be read.
///
/// The memory is checked and read when this is sent, each time it is sent (PROTOCOL rule 4). If it
/// cannot be, the caller says so with [`fail_read`](super::Responder::fail_read). No bytes need no
/// check.
#[derive(Clone, Copy, Debug)]
pub struct ReadReply {
    pub(super) slot: u64,
    pub(super) turn: Turn,
    pub(super) psn: Psn,
    pub(super) msn: Msn,
    pub(super) mtu: PathMtu,
    pub(super) rkey: Key,
    /// Address of the first byte of `part`.
    pub(super) va: u64,
    pub(super) part: Part,
    pub(super) count: u32,
}

/// Where a part of a response has its place among the others.
#[derive(Clone, Copy, Debug)]
pub(super) enum Turn {
    /// In the order of the PSNs. So much was due.
    Stream(Due),
    /// In between.
    Aside,
}

/// One packet of a [`ResponsePlan`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ResponsePacket {
    /// What the packet is.
    pub kind: RcResponse,
    /// Its PSN.
    pub psn: Psn,
    /// Where its payload starts in the memory of the plan, in bytes.
    pub offset: u32,
    /// Bytes of payload.
    pub len: u32,
}

impl ResponsePlan {
    /// The PSN of the first packet.
    pub fn psn(&self) -> Psn {
        match self {
            Self::Ack { psn, .. } => *psn,
            Self::Atomic(reply) => reply.psn,
            Self::Confirm(reply) => reply.psn,
            Self::Read(reply) => reply.psn,
        }
    }

    /// Packets to send, at least one.
    pub fn count(&self) -> u32 {
        match self {
            Self::Ack { .. } | Self::Atomic(_) | Self::Confirm(_) => 1,
            Self::Read(reply) => reply.count,
        }
    }

    /// Packet `index` of the plan, or `None` past its end.
    pub fn packet(&self, index: u32) -> Option<ResponsePacket> {
        if index >= self.count() {
            return None;
        }
        let (kind, offset, len) = match self {
            Self::Ack { aeth, .. } => (RcResponse::Acknowledge(*aeth), 0, 0),
            Self::Atomic(reply) => {
                let original = AtomicAckEth::new(reply.original);
                let aeth = Aeth::new(Syndrome::ACK, reply.msn);
                (RcResponse::AtomicAcknowledge(aeth, original), 0, 0)
            }
            Self::Confirm(reply) => {
                let aeth = Aeth::new(Syndrome::ACK, reply.msn);
                (RcResponse::Read(ReadResponsePart::Only(aeth)), 0, 0)
            }
            Self::Read(reply) => {
                let packet = reply.part.sent.saturating_add(index);
                let position = Position::of(packet, reply.mtu.packets(reply.part.len));
                let aeth = Aeth::new(Syndrome::ACK, reply.msn);
                (
                    RcResponse::Read(ReadResponsePart::new(position, aeth)),
                    byte_offset(index, reply.mtu),
                    reply.mtu.payload_of(packet, reply.part.len),
                )
            }
        };
        Some(ResponsePacket {
            kind,
            psn: self.psn().wrapping_add(index),
            offset,
            len,
        })
    }

    /// The packets in the order of their PSNs.
    pub fn packets(&self) -> impl Iterator<Item = ResponsePacket> + '_ {
        (0..self.count()).filter_map(|index| self.packet(index))
    }
}

impl ReadReply {
    /// Key of the memory.
    pub fn rkey(&self) -> Key {
        self.rkey
    }

    /// Address of the first byte to send.
    pub fn va(&self) -> u64 {
        let sent = byte_offset(self.part.sent, self.mtu);
        self.va.wrapping_add(u64::from(sent))
    }

    /// Bytes to send.
    pub fn len(&self) -> u32 {
        let sent = byte_offset(self.part.sent, self.mtu);
        self.part
            .len
            .saturating_sub(sent)
            .min(byte_offset(self.count, self.mtu))
    }

    /// Whether nothing of the part is left after this.
    pub(super) fn is_rest(&self) -> bool {
        self.part.sent.saturating_add(self.count) >= self.mtu.packets(self.part.len)
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

impl ResponsePacket {
    /// All that the headers tell, in a packet to `dest_qp` in the partition `pkey`.
    pub fn header(&self, dest_qp: Qpn, pkey: Pkey) -> HeaderSpec {
        HeaderSpec {
            pkey,
            ..HeaderSpec::new(Kind::RcResponse(self.kind), dest_qp, self.psn)
        }
    }
}
