// SPDX-License-Identifier: GPL-2.0

//! A place in the sequence of a send queue's packets.

use crate::{
    mtu::PathMtu,
    psn::Psn,
    rc::request::{Answer, Request, WqeSeq}, //
};

/// A place between two packets of a send queue.
///
/// All progress of a requester is two of these: what has been acknowledged, and what has been
/// sent. To send again is to set the second back to the first, so nothing has to be undone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Cursor {
    /// The request that the next packet belongs to.
    pub(super) wqe: WqeSeq,
    /// The index of that packet in its message. Of a READ: of the response.
    pub(super) packet: u32,
    /// The PSN of that packet.
    pub(super) psn: Psn,
    /// All that lies behind.
    pub(super) load: Load,
}

/// What packets weigh, counted from an arbitrary origin modulo 2^32.
///
/// Only the difference of two loads means something, and that is computed where it is needed: a
/// count of packets in flight that is kept by adding and subtracting can go wrong, this cannot.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Load {
    /// Packets of requests that await an acknowledgement.
    pub(super) packets: u32,
    /// Payload bytes of those packets.
    pub(super) bytes: u32,
    /// Requests that await a response of their own.
    pub(super) responses: u32,
}

impl Cursor {
    /// The place before the first packet.
    pub(super) fn start(psn: Psn) -> Self {
        Self {
            wqe: WqeSeq::ZERO,
            packet: 0,
            psn,
            load: Load::default(),
        }
    }

    /// Whether this place comes before `other`. Local operations lie between two places with the
    /// same PSN.
    pub(super) fn is_before(&self, other: &Self) -> bool {
        self.wqe.is_before(other.wqe) || self.wqe == other.wqe && self.packet < other.packet
    }

    /// Packets from here to the end of the message, which is that of `request`.
    pub(super) fn packets_left(&self, request: &Request, mtu: PathMtu) -> u32 {
        request.packets(mtu).saturating_sub(self.packet)
    }

    /// Bytes from here to the end of the message.
    pub(super) fn bytes_left(&self, request: &Request, mtu: PathMtu) -> u32 {
        request.len().saturating_sub(byte_offset(self.packet, mtu))
    }

    /// Moves on by `count` packets, at most to the end of the message.
    pub(super) fn advance(&mut self, request: &Request, mtu: PathMtu, count: u32) {
        let left = self.packets_left(request, mtu);
        let count = count.min(left);
        let before = self.bytes_left(request, mtu);
        self.packet = self.packet.saturating_add(count);
        self.psn = self.psn.wrapping_add(count);
        let done = count == left;
        match request.operation().answer() {
            Answer::Acknowledge => {
                let bytes = before.saturating_sub(self.bytes_left(request, mtu));
                self.load.packets = self.load.packets.wrapping_add(count);
                self.load.bytes = self.load.bytes.wrapping_add(bytes);
            }
            Answer::Response if done => {
                self.load.responses = self.load.responses.wrapping_add(1);
            }
            Answer::Response | Answer::None => (),
        }
        if done {
            self.wqe = self.wqe.next();
            self.packet = 0;
        }
    }
}

impl Load {
    /// What lies between the place with the load `earlier` and the one with this.
    pub(super) fn since(self, earlier: Self) -> Self {
        Self {
            packets: self.packets.wrapping_sub(earlier.packets),
            bytes: self.bytes.wrapping_sub(earlier.bytes),
            responses: self.responses.wrapping_sub(earlier.responses),
        }
    }
}

/// Where in its message packet `index` starts, in bytes. At most the greatest `u32`.
pub(super) fn byte_offset(index: u32, mtu: PathMtu) -> u32 {
    index.saturating_mul(mtu.bytes())
}
