// SPDX-License-Identifier: GPL-2.0

//! How much may be on its way at a time.

use crate::{
    mtu::PathMtu,
    rc::cursor::Load, //
};

/// Limits of SENDs and WRITEs that are sent and not acknowledged. Responses do not count.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Window {
    /// Payload bytes.
    pub bytes: u32,
    /// Packets.
    pub packets: u32,
}

impl Window {
    /// Packets that may be sent of a message of which `packets_left`, `bytes_left` are to be sent,
    /// when `in_flight` is on its way.
    ///
    /// An empty window takes a packet however small it is, or nothing would ever be sent.
    pub(super) fn room(
        self,
        in_flight: Load,
        packets_left: u32,
        bytes_left: u32,
        mtu: PathMtu,
    ) -> u32 {
        let bytes = self.bytes.saturating_sub(in_flight.bytes);
        let by_bytes = if bytes_left <= bytes {
            packets_left
        } else {
            bytes >> mtu.shift()
        };
        let room = self.packets.saturating_sub(in_flight.packets).min(by_bytes);
        if in_flight.packets == 0 {
            return room.max(1);
        }
        room
    }

    /// Packets after which to ask for an acknowledgement within a message, so that the window is
    /// open again before it is full.
    pub(super) fn quarter(self, mtu: PathMtu) -> u32 {
        (self.packets.min(self.bytes >> mtu.shift()) >> 2).max(1)
    }
}
