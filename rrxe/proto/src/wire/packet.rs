// SPDX-License-Identifier: GPL-2.0

//! Reading a packet.

use core::mem::size_of;

use zerocopy::FromBytes;

use crate::{
    mtu::PathMtu,
    opcode::OpcodeInfo,
    psn::Psn,
    qpn::Qpn,
    wire::{
        Bth,
        Kind, //
    }, //
};

/// Bytes of the invariant CRC that ends every packet.
pub const ICRC_LEN: usize = 4;

/// The headers of a packet whose length has been checked.
#[derive(Clone, Copy, Debug)]
pub struct Headers {
    bth: Bth,
    kind: Kind,
    info: &'static OpcodeInfo,
    payload_len: u32,
}

/// Why bytes are not a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ParseError {
    /// The packet is shorter than its headers, pad and ICRC.
    Truncated,
    /// The packet is not a whole number of 4-byte words, or longer than any can be.
    BadLength,
    /// The transport version is none that is spoken here.
    Version(u8),
    /// The opcode is reserved, or of a transport that is not spoken here. A reliable connection
    /// answers with an invalid request NAK, for which the header is enclosed.
    UnknownOpcode(Bth),
    /// Fewer bytes of the headers were shown than the packet has.
    HeadTooShort {
        /// Bytes to show.
        needed: usize,
    },
}

impl Headers {
    /// Reads the headers of a packet of `total_len` bytes, from BTH to ICRC, that starts with
    /// `head`.
    ///
    /// The first [`MAX_HEADER_LEN`](crate::opcode::MAX_HEADER_LEN) bytes are enough of a head,
    /// fewer if the packet has no more. What the payload holds, and whether there is as much of it
    /// as the opcode wants (see [`obeys`](Self::obeys)), is not looked at.
    ///
    /// # Errors
    ///
    /// What is found first, in this order: no whole BTH, version, opcode, length, no whole headers.
    pub fn parse(head: &[u8], total_len: usize) -> Result<Self, ParseError> {
        let needs = |needed: usize| match total_len.checked_sub(ICRC_LEN) {
            Some(len) if len >= needed => ParseError::HeadTooShort { needed },
            _ => ParseError::Truncated,
        };
        // What is past the end of the packet is not of the packet.
        let head = head.get(..total_len).unwrap_or(head);
        let (bth, extensions) = Bth::read_from_prefix(head).map_err(|_| needs(size_of::<Bth>()))?;
        if bth.version() != Bth::VERSION {
            return Err(ParseError::Version(bth.version()));
        }
        let info = bth.opcode().info().ok_or(ParseError::UnknownOpcode(bth))?;
        if total_len & 3 != 0 {
            return Err(ParseError::BadLength);
        }
        let payload_len = info
            .header_len()
            .checked_add(usize::from(bth.pad()))
            .and_then(|len| len.checked_add(ICRC_LEN))
            .and_then(|len| total_len.checked_sub(len))
            .ok_or(ParseError::Truncated)?;
        Ok(Self {
            bth,
            kind: Kind::read(info, extensions).ok_or(needs(info.header_len()))?,
            info,
            payload_len: u32::try_from(payload_len).map_err(|_| ParseError::BadLength)?,
        })
    }

    /// The base transport header.
    pub const fn bth(&self) -> &Bth {
        &self.bth
    }

    /// What the packet is, with its extension headers.
    pub const fn kind(&self) -> &Kind {
        &self.kind
    }

    /// The row of the opcode table.
    pub const fn info(&self) -> &'static OpcodeInfo {
        self.info
    }

    /// The packet sequence number.
    pub const fn psn(&self) -> Psn {
        self.bth.psn()
    }

    /// The queue pair it is for.
    pub const fn dest_qp(&self) -> Qpn {
        self.bth.dest_qp()
    }

    /// Whether a responder must answer.
    pub const fn ack_request(&self) -> bool {
        self.bth.ack_request() && self.info.may_request_ack()
    }

    /// Whether the completion that the packet causes is a solicited one.
    pub fn solicited(&self) -> bool {
        self.bth.solicited() && self.info.completes_receive()
    }

    /// Where in the packet the payload starts.
    pub const fn payload_offset(&self) -> usize {
        self.info.header_len()
    }

    /// Bytes of payload.
    pub const fn payload_len(&self) -> u32 {
        self.payload_len
    }

    /// Bytes between payload and ICRC, 0 ..= 3.
    pub const fn pad(&self) -> usize {
        self.bth.pad() as usize
    }

    /// Whether the packet has as much payload as its opcode wants where the path MTU is `mtu`.
    pub const fn obeys(&self, mtu: PathMtu) -> bool {
        self.info.payload.admits(self.payload_len as usize, mtu)
    }
}

/// A packet that lies in one piece.
#[derive(Clone, Copy, Debug)]
pub struct Packet<'a> {
    headers: Headers,
    payload: &'a [u8],
    icrc: [u8; ICRC_LEN],
}

impl<'a> Packet<'a> {
    /// Reads a packet, from BTH to ICRC. The ICRC is not checked.
    ///
    /// # Errors
    ///
    /// Those of [`Headers::parse`].
    pub fn parse(bytes: &'a [u8]) -> Result<Self, ParseError> {
        let headers = Headers::parse(bytes, bytes.len())?;
        let payload = bytes
            .get(headers.payload_offset()..)
            .and_then(|rest| rest.get(..headers.payload_len() as usize))
            .ok_or(ParseError::Truncated)?;
        let icrc = *bytes.last_chunk().ok_or(ParseError::Truncated)?;
        Ok(Self {
            headers,
            payload,
            icrc,
        })
    }

    /// The headers.
    pub const fn headers(&self) -> &Headers {
        &self.headers
    }

    /// The payload, without pad.
    pub const fn payload(&self) -> &'a [u8] {
        self.payload
    }

    /// The ICRC as it is in the packet.
    pub const fn icrc(&self) -> [u8; ICRC_LEN] {
        self.icrc
    }
}
