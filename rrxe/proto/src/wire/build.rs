// SPDX-License-Identifier: GPL-2.0

//! Writing the headers of a packet.

use core::mem::size_of;

use zerocopy::{
    Immutable,
    IntoBytes, //
};

use crate::{
    key::Pkey,
    opcode::{
        PayloadRule,
        MAX_HEADER_LEN, //
    },
    psn::Psn,
    qpn::Qpn,
    wire::{
        kind::{
            Kind,
            Sink, //
        },
        packet::ICRC_LEN,
        Bth, //
    }, //
};

/// All that the headers of a packet tell.
///
/// Opcode, pad count and transport version are not here: they follow from the rest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HeaderSpec {
    /// What the packet is.
    pub kind: Kind,
    /// The queue pair it is for.
    pub dest_qp: Qpn,
    /// Its place in the sequence.
    pub psn: Psn,
    /// The partition it travels in.
    pub pkey: Pkey,
    /// Wake the receiver. Left out of a packet that completes no receive.
    pub solicited: bool,
    /// Ask for an answer. Left out of a packet that is no request on a reliable connection.
    pub ack_request: bool,
    /// Migrated, or nowhere to migrate to.
    pub migrated: bool,
}

impl HeaderSpec {
    /// A packet in the default partition that asks for nothing, of a sender that cannot migrate.
    pub const fn new(kind: Kind, dest_qp: Qpn, psn: Psn) -> Self {
        Self {
            kind,
            dest_qp,
            psn,
            pkey: Pkey::DEFAULT,
            solicited: false,
            ack_request: false,
            migrated: true,
        }
    }
}

/// The headers of one packet, as on the wire.
#[derive(Clone, Copy, Debug)]
pub struct HeaderBuf {
    bytes: [u8; MAX_HEADER_LEN],
    len: u8,
    pad: u8,
    payload_len: u32,
}

impl HeaderBuf {
    /// Writes the headers of a packet with `payload_len` bytes of payload.
    ///
    /// Where the opcode fixes the number of bytes, that is the number.
    pub fn new(spec: &HeaderSpec, payload_len: u32) -> Self {
        let payload_len = match spec.kind.opcode().info().map(|info| info.payload) {
            Some(PayloadRule::Empty) => 0,
            Some(PayloadRule::Exactly(bytes)) => u32::from(bytes),
            _ => payload_len,
        };
        let pad = (payload_len.wrapping_neg() & 3) as u8;
        let mut buf = Self {
            bytes: [0; MAX_HEADER_LEN],
            len: 0,
            pad,
            payload_len,
        };
        buf.put(&Bth::new(spec, pad));
        spec.kind.write(&mut buf);
        buf
    }

    /// The bytes, from the BTH to the payload.
    pub fn as_bytes(&self) -> &[u8] {
        self.bytes.get(..self.len()).unwrap_or(&[])
    }

    /// Number of [`as_bytes`](Self::as_bytes).
    #[expect(clippy::len_without_is_empty, reason = "there is always a BTH")]
    pub const fn len(&self) -> usize {
        self.len as usize
    }

    /// Zero bytes to send between payload and ICRC, 0 ..= 3.
    pub const fn pad(&self) -> usize {
        self.pad as usize
    }

    /// Bytes of payload to send.
    pub const fn payload_len(&self) -> usize {
        self.payload_len as usize
    }

    /// Bytes of the whole packet, from BTH to ICRC: the UDP payload.
    pub const fn packet_len(&self) -> usize {
        self.len()
            .saturating_add(self.payload_len())
            .saturating_add(self.pad())
            .saturating_add(ICRC_LEN)
    }
}

impl Sink for HeaderBuf {
    fn put<T: IntoBytes + Immutable>(&mut self, header: &T) {
        let Some(room) = self.bytes.get_mut(usize::from(self.len)..) else {
            return;
        };
        if header.write_to_prefix(room).is_ok() {
            self.len = self.len.saturating_add(size_of::<T>() as u8);
        }
    }
}
