// SPDX-License-Identifier: GPL-2.0

//! Whole packets from the IPv4 header to the ICRC, as bytes on a cable.

use rrxe_proto::{
    congestion::Ecn,
    icrc::{
        finish,
        MaskedHeaders, //
    },
    wire::{
        HeaderBuf,
        HeaderSpec, //
    }, //
};

/// A packet on a cable.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Frame {
    /// IPv4 header, UDP header, BTH and so on to the ICRC.
    pub bytes: Vec<u8>,
    /// The flow it belongs to: the end whose requester sent it, or is answered by it.
    pub flow: usize,
}

impl Frame {
    /// Where the BTH starts.
    pub const TRANSPORT_OFFSET: usize = 28;

    /// The packet that host `side` sends.
    pub fn new(side: usize, flow: usize, spec: &HeaderSpec, payload: &[u8]) -> Self {
        let headers = HeaderBuf::new(spec, payload.len() as u32);
        let mut bytes = Vec::with_capacity(Self::TRANSPORT_OFFSET + headers.packet_len());
        bytes.extend_from_slice(&outer_headers(side, headers.packet_len()));
        bytes.extend_from_slice(headers.as_bytes());
        bytes.extend_from_slice(payload);
        bytes.resize(bytes.len() + headers.pad(), 0);
        let icrc = icrc(&bytes);
        bytes.extend_from_slice(&icrc);
        Self { bytes, flow }
    }

    /// The same, of a sender that reacts to marks.
    pub fn capable(mut self) -> Self {
        self.bytes[1] = Ecn::Capable0.put(self.bytes[1]);
        self
    }

    /// Tells that the frame has met congestion, if its sender reacts to that.
    pub fn mark(&mut self) {
        if Ecn::of(self.bytes[1]) != Ecn::NotCapable {
            self.bytes[1] = Ecn::Experienced.put(self.bytes[1]);
        }
    }

    /// Whether it has met congestion.
    pub fn is_marked(&self) -> bool {
        Ecn::of(self.bytes[1]) == Ecn::Experienced
    }

    /// What the UDP datagram carries: BTH to ICRC.
    pub fn transport(&self) -> &[u8] {
        &self.bytes[Self::TRANSPORT_OFFSET..]
    }

    /// Whether the ICRC is that of the rest.
    pub fn is_intact(&self) -> bool {
        let (rest, found) = self.bytes.split_at(self.bytes.len() - 4);
        icrc(rest) == found
    }
}

fn outer_headers(side: usize, transport_len: usize) -> [u8; Frame::TRANSPORT_OFFSET] {
    let mut bytes = [0; Frame::TRANSPORT_OFFSET];
    let udp_len = (8 + transport_len) as u16;
    let (source, destination) = ([10, 0, 0, 1 + side as u8], [10, 0, 0, 2 - side as u8]);
    bytes[0] = 0x45;
    bytes[2..4].copy_from_slice(&(20 + udp_len).to_be_bytes());
    bytes[6] = 0x40;
    bytes[8] = 64;
    bytes[9] = 17;
    bytes[12..16].copy_from_slice(&source);
    bytes[16..20].copy_from_slice(&destination);
    bytes[20..22].copy_from_slice(&0xd00d_u16.to_be_bytes());
    bytes[22..24].copy_from_slice(&4791_u16.to_be_bytes());
    bytes[24..26].copy_from_slice(&udp_len.to_be_bytes());
    bytes
}

/// The ICRC of a frame without it, as the wire layer has it computed.
fn icrc(bytes: &[u8]) -> [u8; 4] {
    let (ip, rest) = bytes.split_at(20);
    let (udp, rest) = rest.split_first_chunk().expect("a UDP header");
    let (bth, rest) = rest.split_first_chunk().expect("a BTH");
    let masked = MaskedHeaders::ipv4(ip, udp, bth).expect("an IPv4 header");
    finish(crc32_le(masked.crc(crc32_le), rest))
}

/// Goes on from a state of the CRC without inverting it, before or after.
fn crc32_le(state: u32, bytes: &[u8]) -> u32 {
    let mut hasher = crc32fast::Hasher::new_with_initial(!state);
    hasher.update(bytes);
    !hasher.finalize()
}
