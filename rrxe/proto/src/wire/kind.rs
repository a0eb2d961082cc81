// SPDX-License-Identifier: GPL-2.0

//! What a packet is, with exactly the extension headers that such a packet has.

use zerocopy::{
    FromBytes,
    Immutable,
    IntoBytes,
    KnownLayout, //
};

use crate::{
    access::Access,
    key::{
        Imm,
        Key, //
    },
    opcode::{
        Opcode,
        OpcodeInfo,
        Operation,
        Position,
        Suffix,
        Transport, //
    },
    wire::{
        Aeth,
        AtomicAckEth,
        AtomicEth,
        CnpReserved,
        Deth,
        Feth,
        Ieth,
        ImmDt,
        Reth, //
    }, //
};

/// A packet but for its BTH and payload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// From requester to responder of a reliable connection.
    RcRequest(RcRequest),
    /// From responder to requester of a reliable connection.
    RcResponse(RcResponse),
    /// Of an unreliable connection.
    Uc(UcRequest),
    /// A datagram.
    Ud(Deth, Option<Imm>),
    /// Notification of congestion.
    Cnp,
}

/// A packet of a request on a reliable connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RcRequest {
    /// Part of a send.
    Send(SendPart<SendEnd>),
    /// Part of a write.
    Write(WritePart),
    /// A read.
    Read(Reth),
    /// A compare and swap.
    CompareSwap(AtomicEth),
    /// A fetch and add.
    FetchAdd(AtomicEth),
    /// A flush.
    Flush(Feth, Reth),
    /// An atomic write.
    AtomicWrite(Reth),
}

/// A packet of a response on a reliable connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RcResponse {
    /// Part of what was read.
    Read(ReadResponsePart),
    /// An acknowledgement, positive or negative.
    Acknowledge(Aeth),
    /// The answer to an atomic.
    AtomicAcknowledge(Aeth, AtomicAckEth),
}

/// A packet on an unreliable connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UcRequest {
    /// Part of a send.
    Send(SendPart<Option<Imm>>),
    /// Part of a write.
    Write(WritePart),
}

/// Part of a send, which ends with an `E`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SendPart<E> {
    /// First of several.
    First,
    /// Neither first nor last.
    Middle,
    /// Last of several.
    Last(E),
    /// All of it.
    Only(E),
}

/// What the end of a send carries on a reliable connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SendEnd {
    /// Nothing.
    Plain,
    /// Immediate data.
    Imm(Imm),
    /// A key that the receiver invalidates.
    Invalidate(Key),
}

/// Part of a write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WritePart {
    /// First of several.
    First(Reth),
    /// Neither first nor last.
    Middle,
    /// Last of several.
    Last(Option<Imm>),
    /// All of it.
    Only(Reth, Option<Imm>),
}

/// Part of what was read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReadResponsePart {
    /// First of several.
    First(Aeth),
    /// Neither first nor last. The only response without AETH.
    Middle,
    /// Last of several.
    Last(Aeth),
    /// All of it.
    Only(Aeth),
}

impl Kind {
    /// The opcode.
    pub const fn opcode(&self) -> Opcode {
        match self {
            Self::RcRequest(request) => request.opcode(),
            Self::RcResponse(response) => response.opcode(),
            Self::Uc(request) => request.opcode(),
            Self::Ud(_, None) => Opcode::UD_SEND_ONLY,
            Self::Ud(_, Some(_)) => Opcode::UD_SEND_ONLY_WITH_IMM,
            Self::Cnp => Opcode::CNP,
        }
    }

    /// Reads the extension headers of a packet that `info` describes from the start of `bytes`, or
    /// returns `None` if that is too short or `info` not a row of the table.
    pub(super) fn read(info: &OpcodeInfo, bytes: &[u8]) -> Option<Self> {
        let mut reader = Reader(bytes);
        let r = &mut reader;
        Some(match info.transport {
            Transport::Rc if info.is_response() => Self::RcResponse(RcResponse::read(info, r)?),
            Transport::Rc => Self::RcRequest(RcRequest::read(info, r)?),
            Transport::Uc => Self::Uc(UcRequest::read(info, r)?),
            Transport::Ud => Self::Ud(r.take()?, r.imm(info)?),
            Transport::Cnp => {
                r.take::<CnpReserved>()?;
                Self::Cnp
            }
        })
    }

    /// Hands the extension headers to `out` in the order of the wire.
    pub(super) fn write(&self, out: &mut impl Sink) {
        match self {
            Self::RcRequest(request) => request.write(out),
            Self::RcResponse(response) => response.write(out),
            Self::Uc(UcRequest::Send(part)) => {
                if let SendPart::Last(imm) | SendPart::Only(imm) = part {
                    write_imm(*imm, out);
                }
            }
            Self::Uc(UcRequest::Write(part)) => part.write(out),
            Self::Ud(deth, imm) => {
                out.put(deth);
                write_imm(*imm, out);
            }
            Self::Cnp => out.put(&CnpReserved::default()),
        }
    }
}

impl RcRequest {
    /// The opcode.
    pub const fn opcode(&self) -> Opcode {
        match self {
            Self::Send(SendPart::First) => Opcode::RC_SEND_FIRST,
            Self::Send(SendPart::Middle) => Opcode::RC_SEND_MIDDLE,
            Self::Send(SendPart::Last(SendEnd::Plain)) => Opcode::RC_SEND_LAST,
            Self::Send(SendPart::Last(SendEnd::Imm(_))) => Opcode::RC_SEND_LAST_WITH_IMM,
            Self::Send(SendPart::Last(SendEnd::Invalidate(_))) => Opcode::RC_SEND_LAST_WITH_INV,
            Self::Send(SendPart::Only(SendEnd::Plain)) => Opcode::RC_SEND_ONLY,
            Self::Send(SendPart::Only(SendEnd::Imm(_))) => Opcode::RC_SEND_ONLY_WITH_IMM,
            Self::Send(SendPart::Only(SendEnd::Invalidate(_))) => Opcode::RC_SEND_ONLY_WITH_INV,
            Self::Write(WritePart::First(_)) => Opcode::RC_WRITE_FIRST,
            Self::Write(WritePart::Middle) => Opcode::RC_WRITE_MIDDLE,
            Self::Write(WritePart::Last(None)) => Opcode::RC_WRITE_LAST,
            Self::Write(WritePart::Last(Some(_))) => Opcode::RC_WRITE_LAST_WITH_IMM,
            Self::Write(WritePart::Only(_, None)) => Opcode::RC_WRITE_ONLY,
            Self::Write(WritePart::Only(_, Some(_))) => Opcode::RC_WRITE_ONLY_WITH_IMM,
            Self::Read(_) => Opcode::RC_READ_REQUEST,
            Self::CompareSwap(_) => Opcode::RC_COMPARE_SWAP,
            Self::FetchAdd(_) => Opcode::RC_FETCH_ADD,
            Self::Flush(..) => Opcode::RC_FLUSH,
            Self::AtomicWrite(_) => Opcode::RC_ATOMIC_WRITE,
        }
    }

    /// Which packet of its message it is.
    pub const fn position(&self) -> Position {
        match self {
            Self::Send(part) => part.position(),
            Self::Write(part) => part.position(),
            _ => Position::Only,
        }
    }

    /// The right that queue pair and memory must grant, where there is memory to name.
    pub fn access(&self) -> Access {
        match self {
            Self::Send(_) => Access::NONE,
            Self::Write(_) | Self::AtomicWrite(_) => Access::REMOTE_WRITE,
            Self::Read(_) => Access::REMOTE_READ,
            Self::CompareSwap(_) | Self::FetchAdd(_) => Access::REMOTE_ATOMIC,
            Self::Flush(feth, _) => feth.placement().access(),
        }
    }

    fn read(info: &OpcodeInfo, r: &mut Reader<'_>) -> Option<Self> {
        Some(match info.operation {
            Operation::Send => Self::Send(SendPart::new(info.position, r.send_end(info)?)),
            Operation::Write => Self::Write(WritePart::read(info, r)?),
            Operation::Read => Self::Read(r.take()?),
            Operation::CompareSwap => Self::CompareSwap(r.take()?),
            Operation::FetchAdd => Self::FetchAdd(r.take()?),
            Operation::Flush => Self::Flush(r.take()?, r.take()?),
            Operation::AtomicWrite => Self::AtomicWrite(r.take()?),
            _ => return None,
        })
    }

    fn write(&self, out: &mut impl Sink) {
        match self {
            Self::Send(SendPart::Last(end) | SendPart::Only(end)) => match *end {
                SendEnd::Plain => (),
                SendEnd::Imm(imm) => out.put(&ImmDt::new(imm)),
                SendEnd::Invalidate(rkey) => out.put(&Ieth::new(rkey)),
            },
            Self::Send(SendPart::First | SendPart::Middle) => (),
            Self::Write(part) => part.write(out),
            Self::Read(reth) | Self::AtomicWrite(reth) => out.put(reth),
            Self::CompareSwap(atomic) | Self::FetchAdd(atomic) => out.put(atomic),
            Self::Flush(feth, reth) => {
                out.put(feth);
                out.put(reth);
            }
        }
    }
}

impl RcResponse {
    /// The opcode.
    pub const fn opcode(&self) -> Opcode {
        match self {
            Self::Read(ReadResponsePart::First(_)) => Opcode::RC_READ_RESPONSE_FIRST,
            Self::Read(ReadResponsePart::Middle) => Opcode::RC_READ_RESPONSE_MIDDLE,
            Self::Read(ReadResponsePart::Last(_)) => Opcode::RC_READ_RESPONSE_LAST,
            Self::Read(ReadResponsePart::Only(_)) => Opcode::RC_READ_RESPONSE_ONLY,
            Self::Acknowledge(_) => Opcode::RC_ACKNOWLEDGE,
            Self::AtomicAcknowledge(..) => Opcode::RC_ATOMIC_ACKNOWLEDGE,
        }
    }

    /// The AETH, which all but the middle of a read response have.
    pub const fn aeth(&self) -> Option<Aeth> {
        match *self {
            Self::Read(ReadResponsePart::Middle) => None,
            Self::Read(
                ReadResponsePart::First(aeth)
                | ReadResponsePart::Last(aeth)
                | ReadResponsePart::Only(aeth),
            )
            | Self::Acknowledge(aeth)
            | Self::AtomicAcknowledge(aeth, _) => Some(aeth),
        }
    }

    fn read(info: &OpcodeInfo, r: &mut Reader<'_>) -> Option<Self> {
        Some(match (info.operation, info.position) {
            (Operation::ReadResponse, position) => Self::Read(match position {
                Position::First => ReadResponsePart::First(r.take()?),
                Position::Middle => ReadResponsePart::Middle,
                Position::Last => ReadResponsePart::Last(r.take()?),
                Position::Only => ReadResponsePart::Only(r.take()?),
            }),
            (Operation::Acknowledge, _) => Self::Acknowledge(r.take()?),
            (Operation::AtomicAcknowledge, _) => Self::AtomicAcknowledge(r.take()?, r.take()?),
            _ => return None,
        })
    }

    fn write(&self, out: &mut impl Sink) {
        if let Some(aeth) = self.aeth() {
            out.put(&aeth);
        }
        if let Self::AtomicAcknowledge(_, original) = self {
            out.put(original);
        }
    }
}

impl ReadResponsePart {
    /// The part at `position`, which tells `aeth` if it has room for it.
    pub const fn new(position: Position, aeth: Aeth) -> Self {
        match position {
            Position::First => Self::First(aeth),
            Position::Middle => Self::Middle,
            Position::Last => Self::Last(aeth),
            Position::Only => Self::Only(aeth),
        }
    }

    /// Which packet of its message it is.
    pub const fn position(&self) -> Position {
        match self {
            Self::First(_) => Position::First,
            Self::Middle => Position::Middle,
            Self::Last(_) => Position::Last,
            Self::Only(_) => Position::Only,
        }
    }
}

impl UcRequest {
    /// What does the same as `request` does on a reliable connection, or `None` if nothing does.
    pub const fn from_rc(request: &RcRequest) -> Option<Self> {
        Some(match *request {
            RcRequest::Send(SendPart::First) => Self::Send(SendPart::First),
            RcRequest::Send(SendPart::Middle) => Self::Send(SendPart::Middle),
            RcRequest::Send(SendPart::Last(SendEnd::Plain)) => Self::Send(SendPart::Last(None)),
            RcRequest::Send(SendPart::Last(SendEnd::Imm(imm))) => {
                Self::Send(SendPart::Last(Some(imm)))
            }
            RcRequest::Send(SendPart::Only(SendEnd::Plain)) => Self::Send(SendPart::Only(None)),
            RcRequest::Send(SendPart::Only(SendEnd::Imm(imm))) => {
                Self::Send(SendPart::Only(Some(imm)))
            }
            RcRequest::Write(part) => Self::Write(part),
            _ => return None,
        })
    }

    /// What does the same on a reliable connection.
    pub const fn to_rc(self) -> RcRequest {
        const fn end(imm: Option<Imm>) -> SendEnd {
            match imm {
                Some(imm) => SendEnd::Imm(imm),
                None => SendEnd::Plain,
            }
        }
        match self {
            Self::Send(SendPart::First) => RcRequest::Send(SendPart::First),
            Self::Send(SendPart::Middle) => RcRequest::Send(SendPart::Middle),
            Self::Send(SendPart::Last(imm)) => RcRequest::Send(SendPart::Last(end(imm))),
            Self::Send(SendPart::Only(imm)) => RcRequest::Send(SendPart::Only(end(imm))),
            Self::Write(part) => RcRequest::Write(part),
        }
    }

    /// The opcode.
    pub const fn opcode(&self) -> Opcode {
        match self {
            Self::Send(SendPart::First) => Opcode::UC_SEND_FIRST,
            Self::Send(SendPart::Middle) => Opcode::UC_SEND_MIDDLE,
            Self::Send(SendPart::Last(None)) => Opcode::UC_SEND_LAST,
            Self::Send(SendPart::Last(Some(_))) => Opcode::UC_SEND_LAST_WITH_IMM,
            Self::Send(SendPart::Only(None)) => Opcode::UC_SEND_ONLY,
            Self::Send(SendPart::Only(Some(_))) => Opcode::UC_SEND_ONLY_WITH_IMM,
            Self::Write(WritePart::First(_)) => Opcode::UC_WRITE_FIRST,
            Self::Write(WritePart::Middle) => Opcode::UC_WRITE_MIDDLE,
            Self::Write(WritePart::Last(None)) => Opcode::UC_WRITE_LAST,
            Self::Write(WritePart::Last(Some(_))) => Opcode::UC_WRITE_LAST_WITH_IMM,
            Self::Write(WritePart::Only(_, None)) => Opcode::UC_WRITE_ONLY,
            Self::Write(WritePart::Only(_, Some(_))) => Opcode::UC_WRITE_ONLY_WITH_IMM,
        }
    }

    /// Which packet of its message it is.
    pub const fn position(&self) -> Position {
        match self {
            Self::Send(part) => part.position(),
            Self::Write(part) => part.position(),
        }
    }

    fn read(info: &OpcodeInfo, r: &mut Reader<'_>) -> Option<Self> {
        Some(match info.operation {
            Operation::Send => Self::Send(SendPart::new(info.position, r.imm(info)?)),
            Operation::Write => Self::Write(WritePart::read(info, r)?),
            _ => return None,
        })
    }
}

impl<E: Copy> SendPart<E> {
    /// The part at `position` of a send that ends with `end`.
    pub const fn new(position: Position, end: E) -> Self {
        match position {
            Position::First => Self::First,
            Position::Middle => Self::Middle,
            Position::Last => Self::Last(end),
            Position::Only => Self::Only(end),
        }
    }

    /// Which packet of its message it is.
    pub const fn position(&self) -> Position {
        match self {
            Self::First => Position::First,
            Self::Middle => Position::Middle,
            Self::Last(_) => Position::Last,
            Self::Only(_) => Position::Only,
        }
    }
}

impl WritePart {
    /// The part at `position` of a write to `reth` that ends with `imm`.
    pub const fn new(position: Position, reth: Reth, imm: Option<Imm>) -> Self {
        match position {
            Position::First => Self::First(reth),
            Position::Middle => Self::Middle,
            Position::Last => Self::Last(imm),
            Position::Only => Self::Only(reth, imm),
        }
    }

    /// Which packet of its message it is.
    pub const fn position(&self) -> Position {
        match self {
            Self::First(_) => Position::First,
            Self::Middle => Position::Middle,
            Self::Last(_) => Position::Last,
            Self::Only(..) => Position::Only,
        }
    }

    fn read(info: &OpcodeInfo, r: &mut Reader<'_>) -> Option<Self> {
        Some(match info.position {
            Position::First => Self::First(r.take()?),
            Position::Middle => Self::Middle,
            Position::Last => Self::Last(r.imm(info)?),
            Position::Only => Self::Only(r.take()?, r.imm(info)?),
        })
    }

    fn write(&self, out: &mut impl Sink) {
        match self {
            Self::First(reth) => out.put(reth),
            Self::Middle => (),
            Self::Last(imm) => write_imm(*imm, out),
            Self::Only(reth, imm) => {
                out.put(reth);
                write_imm(*imm, out);
            }
        }
    }
}

/// Takes headers one after another.
pub(super) trait Sink {
    /// Takes the next header.
    fn put<T: IntoBytes + Immutable>(&mut self, header: &T);
}

fn write_imm(imm: Option<Imm>, out: &mut impl Sink) {
    if let Some(imm) = imm {
        out.put(&ImmDt::new(imm));
    }
}

/// Gives headers one after another.
struct Reader<'a>(&'a [u8]);

impl Reader<'_> {
    fn take<T: FromBytes + KnownLayout + Immutable>(&mut self) -> Option<T> {
        let (header, rest) = T::read_from_prefix(self.0).ok()?;
        self.0 = rest;
        Some(header)
    }

    fn imm(&mut self, info: &OpcodeInfo) -> Option<Option<Imm>> {
        Some(match info.suffix() {
            Suffix::Immediate => Some(self.take::<ImmDt>()?.imm()),
            Suffix::Plain | Suffix::Invalidate => None,
        })
    }

    fn send_end(&mut self, info: &OpcodeInfo) -> Option<SendEnd> {
        Some(match info.suffix() {
            Suffix::Plain => SendEnd::Plain,
            Suffix::Immediate => SendEnd::Imm(self.take::<ImmDt>()?.imm()),
            Suffix::Invalidate => SendEnd::Invalidate(self.take::<Ieth>()?.rkey()),
        })
    }
}
