// SPDX-License-Identifier: GPL-2.0

//! Base transport header: starts every packet.

use core::fmt;

use zerocopy::byteorder::{
    BigEndian,
    U16, //
};
use zerocopy_derive::{
    FromBytes,
    Immutable,
    IntoBytes,
    KnownLayout,
    Unaligned, //
};

use crate::{
    key::Pkey,
    opcode::Opcode,
    psn::Psn,
    qpn::Qpn,
    wire::build::HeaderSpec, //
};

/// Base transport header, 12 bytes.
///
/// ```text
/// |    opcode     |S|M|Pad| TVer  |            P_Key              |
/// |F|B|   resv6   |           destination queue pair              |
/// |A|    resv7    |                     PSN                       |
/// ```
#[derive(Clone, Copy, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub struct Bth {
    opcode: u8,
    flags: u8,
    pkey: U16<BigEndian>,
    ecn: u8,
    dest_qp: [u8; 3],
    ack: u8,
    psn: [u8; 3],
}

impl Bth {
    /// The only transport version there is.
    pub const VERSION: u8 = 0;

    /// The opcode, known or not.
    pub const fn opcode(&self) -> Opcode {
        Opcode(self.opcode)
    }

    /// SE: the sender wants the receiver to be woken. See
    /// [`Headers::solicited`](crate::wire::Headers::solicited).
    pub const fn solicited(&self) -> bool {
        self.flags & SOLICITED != 0
    }

    /// MigReq: the sender has migrated to its alternate path, or has none.
    pub const fn migrated(&self) -> bool {
        self.flags & MIGRATED != 0
    }

    /// Bytes between payload and ICRC, 0 ..= 3.
    pub const fn pad(&self) -> u8 {
        (self.flags & PAD) >> PAD_SHIFT
    }

    /// TVer.
    pub const fn version(&self) -> u8 {
        self.flags & VERSION_MASK
    }

    /// The partition key.
    pub const fn pkey(&self) -> Pkey {
        Pkey(self.pkey.get())
    }

    /// FECN: the packet met congestion.
    pub const fn fecn(&self) -> bool {
        self.ecn & FECN != 0
    }

    /// BECN: the receiver's packets met congestion.
    pub const fn becn(&self) -> bool {
        self.ecn & BECN != 0
    }

    /// The destination queue pair.
    pub const fn dest_qp(&self) -> Qpn {
        Qpn::truncate(from_be24(self.dest_qp))
    }

    /// AckReq: the sender waits for an answer.
    pub const fn ack_request(&self) -> bool {
        self.ack & ACK_REQUEST != 0
    }

    /// The packet sequence number.
    pub const fn psn(&self) -> Psn {
        Psn::truncate(from_be24(self.psn))
    }

    /// The header of a packet that ends with `pad` bytes. Bits that mean nothing in a packet of
    /// this opcode are left 0.
    pub(crate) fn new(spec: &HeaderSpec, pad: u8) -> Self {
        let opcode = spec.kind.opcode();
        let info = opcode.info();
        let solicited = spec.solicited && info.is_some_and(|info| info.completes_receive());
        let ack_request = spec.ack_request && info.is_some_and(|info| info.may_request_ack());
        let becn = opcode == Opcode::CNP;
        Self {
            opcode: opcode.0,
            flags: bit(solicited, SOLICITED)
                | bit(spec.migrated, MIGRATED)
                | ((pad << PAD_SHIFT) & PAD)
                | Self::VERSION,
            pkey: U16::new(spec.pkey.0),
            ecn: bit(becn, BECN),
            dest_qp: to_be24(spec.dest_qp.get()),
            ack: bit(ack_request, ACK_REQUEST),
            psn: to_be24(spec.psn.get()),
        }
    }
}

impl fmt::Debug for Bth {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Bth")
            .field("opcode", &self.opcode())
            .field("solicited", &self.solicited())
            .field("migrated", &self.migrated())
            .field("pad", &self.pad())
            .field("version", &self.version())
            .field("pkey", &self.pkey())
            .field("fecn", &self.fecn())
            .field("becn", &self.becn())
            .field("dest_qp", &self.dest_qp())
            .field("ack_request", &self.ack_request())
            .field("psn", &self.psn())
            .finish()
    }
}

const SOLICITED: u8 = 0x80;
const MIGRATED: u8 = 0x40;
const PAD: u8 = 0x30;
const PAD_SHIFT: u32 = 4;
const VERSION_MASK: u8 = 0x0f;
const FECN: u8 = 0x80;
const BECN: u8 = 0x40;
const ACK_REQUEST: u8 = 0x80;

/// `mask` if `set`, else nothing.
const fn bit(set: bool, mask: u8) -> u8 {
    if set {
        mask
    } else {
        0
    }
}

/// Reads a 24-bit field.
pub(super) const fn from_be24(bytes: [u8; 3]) -> u32 {
    let [high, mid, low] = bytes;
    u32::from_be_bytes([0, high, mid, low])
}

/// Writes a 24-bit field, which drops the top 8 bits of `value`.
pub(super) const fn to_be24(value: u32) -> [u8; 3] {
    let [_, high, mid, low] = value.to_be_bytes();
    [high, mid, low]
}
