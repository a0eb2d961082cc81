// SPDX-License-Identifier: GPL-2.0

//! A second opinion on packets: a decoder that shares no line with the wire layer under test.
//!
//! What the observer of a link believes about a packet comes from here, so a mistake that encoder
//! and decoder of the wire layer have in common does not go unnoticed.

use crate::frame::Frame;

/// Reliable connection opcodes by their number.
#[allow(missing_docs)]
pub mod opcode {
    pub const SEND_FIRST: u8 = 0x00;
    pub const SEND_MIDDLE: u8 = 0x01;
    pub const SEND_LAST: u8 = 0x02;
    pub const SEND_LAST_IMM: u8 = 0x03;
    pub const SEND_ONLY: u8 = 0x04;
    pub const SEND_ONLY_IMM: u8 = 0x05;
    pub const WRITE_FIRST: u8 = 0x06;
    pub const WRITE_MIDDLE: u8 = 0x07;
    pub const WRITE_LAST: u8 = 0x08;
    pub const WRITE_LAST_IMM: u8 = 0x09;
    pub const WRITE_ONLY: u8 = 0x0a;
    pub const WRITE_ONLY_IMM: u8 = 0x0b;
    pub const READ_REQUEST: u8 = 0x0c;
    pub const READ_FIRST: u8 = 0x0d;
    pub const READ_MIDDLE: u8 = 0x0e;
    pub const READ_LAST: u8 = 0x0f;
    pub const READ_ONLY: u8 = 0x10;
    pub const ACK: u8 = 0x11;
    pub const ATOMIC_ACK: u8 = 0x12;
    pub const COMPARE_SWAP: u8 = 0x13;
    pub const FETCH_ADD: u8 = 0x14;
    pub const SEND_LAST_INV: u8 = 0x16;
    pub const SEND_ONLY_INV: u8 = 0x17;
    pub const FLUSH: u8 = 0x1c;
    pub const ATOMIC_WRITE: u8 = 0x1d;
    pub const CNP: u8 = 0x81;
}

use opcode::*;

/// RDMA extended header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reth {
    /// Remote address.
    pub va: u64,
    /// Remote key.
    pub rkey: u32,
    /// Bytes of the whole transfer.
    pub len: u32,
}

/// Acknowledgement extended header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Aeth {
    /// Type and value.
    pub syndrome: u8,
    /// Messages completed.
    pub msn: u32,
}

/// What the syndrome of an AETH says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Positive acknowledgement.
    Ack,
    /// Receiver not ready; timer code.
    RnrNak(u8),
    /// Negative acknowledgement; code.
    Nak(u8),
    /// Nothing that exists.
    Reserved,
}

impl Aeth {
    /// Decodes the syndrome.
    pub fn verdict(self) -> Verdict {
        match self.syndrome >> 5 {
            0 => Verdict::Ack,
            1 => Verdict::RnrNak(self.syndrome & 0x1f),
            3 => Verdict::Nak(self.syndrome & 0x1f),
            _ => Verdict::Reserved,
        }
    }
}

/// Atomic extended header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AtomicEth {
    /// Remote address.
    pub va: u64,
    /// Remote key.
    pub rkey: u32,
    /// What to swap in, or to add.
    pub swap_add: u64,
    /// What to compare with.
    pub compare: u64,
}

/// A decoded packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Packet<'a> {
    /// Operation.
    pub opcode: u8,
    /// Solicited event.
    pub solicited: bool,
    /// Path migration state.
    pub migrated: bool,
    /// Bytes of padding.
    pub pad: u8,
    /// Partition.
    pub pkey: u16,
    /// Who it is for.
    pub dest: u32,
    /// Acknowledgement wanted.
    pub ack_req: bool,
    /// Packet sequence number.
    pub psn: u32,
    /// Where to write or read.
    pub reth: Option<Reth>,
    /// Acknowledgement.
    pub aeth: Option<Aeth>,
    /// What to do atomically.
    pub atomic: Option<AtomicEth>,
    /// How far a FLUSH goes, and which writes it is about.
    pub feth: Option<(u8, u8)>,
    /// What an atomic found.
    pub original: Option<u64>,
    /// Immediate data.
    pub imm: Option<[u8; 4]>,
    /// Key to invalidate.
    pub invalidate: Option<u32>,
    /// Payload without padding.
    pub payload: &'a [u8],
}

impl<'a> Packet<'a> {
    /// Decodes a frame; the error says what is wrong with it.
    pub fn decode(frame: &'a Frame) -> Result<Self, String> {
        let bytes = &frame.bytes;
        if bytes.len() < Frame::TRANSPORT_OFFSET + 12 + 4 {
            return Err(format!("{} bytes are too few", bytes.len()));
        }
        let (rest, icrc) = bytes.split_at(bytes.len() - 4);
        let due = icrc_of(rest);
        if icrc != due {
            return Err(format!("ICRC is {icrc:02x?}, should be {due:02x?}"));
        }
        let mut cursor = Cursor(&rest[Frame::TRANSPORT_OFFSET..]);
        let opcode = cursor.u8()?;
        let flags = cursor.u8()?;
        let pkey = cursor.u16()?;
        let dest = cursor.u32()?;
        let tail = cursor.u32()?;
        if flags & 0x0f != 0 {
            return Err("BTH version is not 0".into());
        }
        // The first byte of `dest` is reserved, masked in the ICRC, and may be damaged unnoticed.
        if tail >> 24 & 0x7f != 0 {
            return Err("a reserved bit of the BTH is set".into());
        }
        let mut packet = Packet {
            opcode,
            solicited: flags & 0x80 != 0,
            migrated: flags & 0x40 != 0,
            pad: flags >> 4 & 3,
            pkey,
            dest: dest & 0xff_ffff,
            ack_req: tail & 0x8000_0000 != 0,
            psn: tail & 0xff_ffff,
            reth: None,
            aeth: None,
            atomic: None,
            feth: None,
            original: None,
            imm: None,
            invalidate: None,
            payload: &[],
        };
        if opcode == FLUSH {
            let word = cursor.u32()?;
            if word >> 6 != 0 {
                return Err("a reserved bit of the FETH is set".into());
            }
            packet.feth = Some((word as u8 & 0x0f, word as u8 >> 4));
        }
        match opcode {
            WRITE_FIRST | WRITE_ONLY | WRITE_ONLY_IMM | READ_REQUEST | FLUSH | ATOMIC_WRITE => {
                packet.reth = Some(Reth {
                    va: cursor.u64()?,
                    rkey: cursor.u32()?,
                    len: cursor.u32()?,
                });
            }
            COMPARE_SWAP | FETCH_ADD => {
                packet.atomic = Some(AtomicEth {
                    va: cursor.u64()?,
                    rkey: cursor.u32()?,
                    swap_add: cursor.u64()?,
                    compare: cursor.u64()?,
                });
            }
            READ_FIRST | READ_LAST | READ_ONLY | ACK | ATOMIC_ACK => {
                let word = cursor.u32()?;
                packet.aeth = Some(Aeth {
                    syndrome: (word >> 24) as u8,
                    msn: word & 0xff_ffff,
                });
            }
            SEND_FIRST | SEND_MIDDLE | SEND_LAST | SEND_LAST_IMM | SEND_ONLY | SEND_ONLY_IMM
            | WRITE_MIDDLE | WRITE_LAST | WRITE_LAST_IMM | READ_MIDDLE | SEND_LAST_INV
            | SEND_ONLY_INV => {}
            CNP => {
                if cursor.u64()? != 0 || cursor.u64()? != 0 {
                    return Err("reserved bytes of a notification are set".into());
                }
            }
            _ => return Err(format!("unknown opcode {opcode:#04x}")),
        }
        match opcode {
            SEND_LAST_IMM | SEND_ONLY_IMM | WRITE_LAST_IMM | WRITE_ONLY_IMM => {
                packet.imm = Some(cursor.u32()?.to_be_bytes());
            }
            SEND_LAST_INV | SEND_ONLY_INV => packet.invalidate = Some(cursor.u32()?),
            ATOMIC_ACK => packet.original = Some(cursor.u64()?),
            _ => {}
        }
        let padded = cursor.0;
        let Some(len) = padded.len().checked_sub(usize::from(packet.pad)) else {
            return Err("more padding than payload".into());
        };
        if padded.len() % 4 != 0 || len.next_multiple_of(4) != padded.len() {
            return Err(format!(
                "{} bytes with {} of padding",
                padded.len(),
                packet.pad
            ));
        }
        packet.payload = &padded[..len];
        Ok(packet)
    }

    /// Whether it travels from responder to requester.
    pub fn is_response(&self) -> bool {
        matches!(self.opcode, READ_FIRST..=ATOMIC_ACK)
    }

    /// Whether it tells of congestion.
    pub fn is_notification(&self) -> bool {
        self.opcode == CNP
    }

    /// Whether it is a response to a READ.
    pub fn is_read_response(&self) -> bool {
        matches!(self.opcode, READ_FIRST..=READ_ONLY)
    }
}

impl std::fmt::Display for Packet<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{:<14} psn {:06x}", name(self.opcode), self.psn)?;
        if !self.payload.is_empty() {
            write!(f, " {} B", self.payload.len())?;
        }
        if let Some(reth) = self.reth {
            write!(
                f,
                " va {:#x} rkey {:#x} dmalen {}",
                reth.va, reth.rkey, reth.len
            )?;
        }
        if let Some(atomic) = self.atomic {
            write!(f, " va {:#x} rkey {:#x}", atomic.va, atomic.rkey)?;
        }
        if let Some(aeth) = self.aeth {
            write!(f, " {:?} msn {}", aeth.verdict(), aeth.msn)?;
        }
        if let Some(original) = self.original {
            write!(f, " found {original:#x}")?;
        }
        if let Some(key) = self.invalidate {
            write!(f, " invalidate {key:#x}")?;
        }
        if self.solicited {
            write!(f, " SE")?;
        }
        if self.ack_req {
            write!(f, " AckReq")?;
        }
        Ok(())
    }
}

/// The name of an opcode.
pub fn name(opcode: u8) -> &'static str {
    match opcode {
        SEND_FIRST => "SEND_FIRST",
        SEND_MIDDLE => "SEND_MIDDLE",
        SEND_LAST => "SEND_LAST",
        SEND_LAST_IMM => "SEND_LAST_IMM",
        SEND_ONLY => "SEND_ONLY",
        SEND_ONLY_IMM => "SEND_ONLY_IMM",
        WRITE_FIRST => "WRITE_FIRST",
        WRITE_MIDDLE => "WRITE_MIDDLE",
        WRITE_LAST => "WRITE_LAST",
        WRITE_LAST_IMM => "WRITE_LAST_IMM",
        WRITE_ONLY => "WRITE_ONLY",
        WRITE_ONLY_IMM => "WRITE_ONLY_IMM",
        READ_REQUEST => "READ_REQUEST",
        READ_FIRST => "READ_FIRST",
        READ_MIDDLE => "READ_MIDDLE",
        READ_LAST => "READ_LAST",
        READ_ONLY => "READ_ONLY",
        ACK => "ACK",
        ATOMIC_ACK => "ATOMIC_ACK",
        COMPARE_SWAP => "COMPARE_SWAP",
        FETCH_ADD => "FETCH_ADD",
        SEND_LAST_INV => "SEND_LAST_INV",
        SEND_ONLY_INV => "SEND_ONLY_INV",
        FLUSH => "FLUSH",
        ATOMIC_WRITE => "ATOMIC_WRITE",
        CNP => "CNP",
        _ => "?",
    }
}

/// The ICRC that belongs to an IPv4 RoCEv2 packet without IP options, given all that goes before it.
pub fn icrc_of(bytes: &[u8]) -> [u8; 4] {
    let (covered, rest) = bytes.split_at(Frame::TRANSPORT_OFFSET + 12);
    let mut head = [0xff; 8 + Frame::TRANSPORT_OFFSET + 12];
    head[8..].copy_from_slice(covered);
    // TOS, TTL, header checksum; UDP checksum; the reserved byte of the BTH.
    for masked in [1, 8, 10, 11, 26, 27, 32] {
        head[8 + masked] = 0xff;
    }
    let mut hasher = crc32fast::Hasher::new();
    hasher.update(&head);
    hasher.update(rest);
    hasher.finalize().to_le_bytes()
}

struct Cursor<'a>(&'a [u8]);

impl Cursor<'_> {
    fn take<const N: usize>(&mut self) -> Result<[u8; N], String> {
        let (head, rest) = self
            .0
            .split_first_chunk::<N>()
            .ok_or("a header is cut off")?;
        self.0 = rest;
        Ok(*head)
    }

    fn u8(&mut self) -> Result<u8, String> {
        self.take().map(u8::from_be_bytes)
    }

    fn u16(&mut self) -> Result<u16, String> {
        self.take().map(u16::from_be_bytes)
    }

    fn u32(&mut self) -> Result<u32, String> {
        self.take().map(u32::from_be_bytes)
    }

    fn u64(&mut self) -> Result<u64, String> {
        self.take().map(u64::from_be_bytes)
    }
}
