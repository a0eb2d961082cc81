// SPDX-License-Identifier: GPL-2.0

//! A packet that came in and has been read.

use crate::kapi::{
    crc::crc32_le,
    mem::ChunkMut,
    net::{
        headers::IPV4_LEN,
        RxPacket, //
    },
};
use core::net::Ipv6Addr;
use kernel::prelude::*;
use rrxe_proto::{
    icrc::{
        self,
        MaskedHeaders, //
    },
    ud::GRH_LEN,
    wire::{
        Bth,
        Headers,
        ParseError,
        ICRC_LEN, //
    },
};

/// A packet that came in, with its headers read.
pub(crate) struct Arrival {
    packet: RxPacket,
    content: Content,
}

/// What a packet says.
#[derive(Clone, Copy)]
enum Content {
    /// Something that is understood.
    Known(Headers),
    /// Something with a reserved opcode, to which there may be an answer nevertheless.
    Unknown(Bth),
}

impl Arrival {
    /// Reads the headers of `packet`. `None` if it is malformed.
    pub(super) fn parse(packet: RxPacket) -> Option<Self> {
        let content = match Headers::parse(packet.headers(), packet.len()) {
            Ok(headers) => Content::Known(headers),
            Err(ParseError::UnknownOpcode(bth)) => Content::Unknown(bth),
            Err(_) => return None,
        };
        Some(Self { packet, content })
    }

    /// The base transport header.
    pub(super) fn bth(&self) -> &Bth {
        match &self.content {
            Content::Known(headers) => headers.bth(),
            Content::Unknown(bth) => bth,
        }
    }

    /// All headers, or `None` if the opcode is reserved.
    pub(super) fn headers(&self) -> Option<&Headers> {
        match &self.content {
            Content::Known(headers) => Some(headers),
            Content::Unknown(_) => None,
        }
    }

    /// The packet as it came.
    pub(super) fn packet(&self) -> &RxPacket {
        &self.packet
    }

    /// The same packet once more, for another receiver. `None` when out of memory: then it is lost.
    pub(super) fn duplicate(&self) -> Option<Self> {
        Some(Self {
            packet: self.packet.duplicate().ok()?,
            content: self.content,
        })
    }

    /// The packet, to be read again later.
    pub(super) fn into_packet(self) -> RxPacket {
        self.packet
    }

    /// Frees the packet, which has been used.
    pub(super) fn consume(self) {
        self.packet.consume();
    }

    /// The multicast group that the packet was sent to, as a GID. `None` if it was sent to us alone.
    pub(super) fn group(&self) -> Option<Ipv6Addr> {
        let addresses = self.packet.addresses()?;
        addresses.is_to_group().then(|| addresses.destination())
    }

    /// The IP header as a receiver of datagrams finds it in front of the message: one of IPv4, without
    /// options, at the end.
    pub(super) fn grh(&self) -> [u8; GRH_LEN as usize] {
        let mut grh = [0; GRH_LEN as usize];
        let ip = self.packet.ip_header();
        let at = if is_ipv4(ip) {
            grh.len().saturating_sub(IPV4_LEN)
        } else {
            0
        };
        for (to, from) in grh.iter_mut().skip(at).zip(ip) {
            *to = *from;
        }
        grh
    }

    /// The first `len` bytes of the payload.
    pub(super) fn payload(&self, len: u32) -> Payload<'_> {
        Payload {
            packet: &self.packet,
            offset: self.headers().map_or(0, Headers::payload_offset),
            len,
        }
    }

    /// Whether the packet's ICRC is that of its content: nobody has changed it on its way.
    pub(super) fn is_intact(&self) -> bool {
        self.computed_icrc().is_some_and(|icrc| {
            let mut given = [0; ICRC_LEN];
            let at = self.packet.len().saturating_sub(ICRC_LEN);
            self.packet.copy_bits(at, &mut given).is_ok() && given == icrc
        })
    }

    fn computed_icrc(&self) -> Option<[u8; ICRC_LEN]> {
        let ip = self.packet.ip_header();
        let udp = self.packet.udp_header()?;
        let bth = self.packet.headers().first_chunk()?;
        let masked = if is_ipv4(ip) {
            MaskedHeaders::ipv4(ip, udp, bth)?
        } else {
            // ICRC does not know extension headers.
            MaskedHeaders::ipv6(ip.try_into().ok()?, udp, bth)?
        };
        let rest = self
            .packet
            .len()
            .checked_sub(icrc::BTH_LEN)?
            .checked_sub(ICRC_LEN)?;
        let crc = self
            .packet
            .crc32_le(icrc::BTH_LEN, rest, masked.crc(crc32_le))
            .ok()?;
        Some(icrc::finish(crc))
    }
}

/// Whether an IP header is one of version 4.
fn is_ipv4(ip: &[u8]) -> bool {
    ip.first().is_some_and(|first| first >> 4 == 4)
}

/// Bytes of a packet that are to be placed.
#[derive(Clone, Copy)]
pub(super) struct Payload<'a> {
    packet: &'a RxPacket,
    offset: usize,
    len: u32,
}

impl Payload<'_> {
    /// Bytes.
    pub(super) fn len(&self) -> u32 {
        self.len
    }

    /// The first eight bytes as a number in the byte order of this machine.
    pub(super) fn word(&self) -> Result<u64> {
        let mut bytes = [0; size_of::<u64>()];
        self.packet.copy_bits(self.offset, &mut bytes)?;
        Ok(u64::from_ne_bytes(bytes))
    }

    /// Copies the bytes from `at` on to `chunk`.
    pub(super) fn copy_to(&self, at: usize, chunk: ChunkMut<'_>) -> Result {
        self.packet.copy_to(self.offset.saturating_add(at), chunk)
    }
}
