// SPDX-License-Identifier: GPL-2.0

//! BTH opcodes, and the one table that every length and rule about them is derived from.

use core::{
    fmt,
    mem::size_of, //
};

use crate::{
    mtu::PathMtu,
    wire, //
};

/// Opcode byte of a base transport header. Any value may arrive; [`info`](Self::info) tells which
/// ones mean something.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Opcode(pub u8);

impl Opcode {
    /// What the table says of the opcode, or `None` if it is reserved or of a transport that is
    /// not spoken here.
    pub fn info(self) -> Option<&'static OpcodeInfo> {
        BY_CODE.get(usize::from(self.0)).copied().flatten()
    }

    /// The class in the top three bits, which is there in reserved opcodes as well.
    pub const fn transport(self) -> Option<Transport> {
        match self.0 >> 5 {
            0 => Some(Transport::Rc),
            1 => Some(Transport::Uc),
            3 => Some(Transport::Ud),
            4 => Some(Transport::Cnp),
            _ => None,
        }
    }
}

impl fmt::Debug for Opcode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.info() {
            Some(info) => f.write_str(info.name),
            None => write!(f, "Opcode({:#04x})", self.0),
        }
    }
}

/// The transport class of an opcode.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Transport {
    /// Reliable connection.
    Rc,
    /// Unreliable connection.
    Uc,
    /// Unreliable datagram.
    Ud,
    /// Congestion notification.
    Cnp,
}

/// What a packet is a part of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Operation {
    /// Message into a receive work request.
    Send,
    /// Message into the responder's memory.
    Write,
    /// Request for the responder's memory.
    Read,
    /// Answer to [`Read`](Self::Read).
    ReadResponse,
    /// Acknowledgement, positive or negative.
    Acknowledge,
    /// Answer to [`CompareSwap`](Self::CompareSwap) and [`FetchAdd`](Self::FetchAdd).
    AtomicAcknowledge,
    /// Atomic compare and swap.
    CompareSwap,
    /// Atomic fetch and add.
    FetchAdd,
    /// Makes earlier writes visible or persistent.
    Flush,
    /// Write of eight bytes that are never seen in part.
    AtomicWrite,
    /// Tells a sender that its packets met congestion.
    Congestion,
}

impl Operation {
    /// Whether the packet travels from responder to requester.
    pub const fn is_response(self) -> bool {
        matches!(
            self,
            Self::ReadResponse | Self::Acknowledge | Self::AtomicAcknowledge
        )
    }
}

/// Which packet of its message a packet is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Position {
    /// First of several.
    First,
    /// Neither first nor last.
    Middle,
    /// Last of several.
    Last,
    /// First and last.
    Only,
}

impl Position {
    /// The position of packet `index` of `count`.
    pub const fn of(index: u32, count: u32) -> Self {
        match (index == 0, index.saturating_add(1) >= count) {
            (true, true) => Self::Only,
            (true, false) => Self::First,
            (false, true) => Self::Last,
            (false, false) => Self::Middle,
        }
    }

    /// Whether a message starts here.
    pub const fn starts(self) -> bool {
        matches!(self, Self::First | Self::Only)
    }

    /// Whether a message ends here.
    pub const fn ends(self) -> bool {
        matches!(self, Self::Last | Self::Only)
    }
}

/// What the last packet of a message may carry for the receiver's completion.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Suffix {
    /// Nothing.
    Plain,
    /// Immediate data.
    Immediate,
    /// A key to invalidate.
    Invalidate,
}

/// A header between BTH and payload.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Extension {
    /// Datagram extended transport header.
    Deth,
    /// RDMA extended transport header.
    Reth,
    /// Flush extended transport header.
    Feth,
    /// Atomic extended transport header.
    AtomicEth,
    /// Acknowledge extended transport header.
    Aeth,
    /// Atomic acknowledge extended transport header.
    AtomicAckEth,
    /// Immediate data.
    ImmDt,
    /// Invalidate extended transport header.
    Ieth,
    /// The reserved bytes of a congestion notification.
    CnpReserved,
}

impl Extension {
    /// Bytes it takes.
    pub const fn size(self) -> usize {
        match self {
            Self::Deth => size_of::<wire::Deth>(),
            Self::Reth => size_of::<wire::Reth>(),
            Self::Feth => size_of::<wire::Feth>(),
            Self::AtomicEth => size_of::<wire::AtomicEth>(),
            Self::Aeth => size_of::<wire::Aeth>(),
            Self::AtomicAckEth => size_of::<wire::AtomicAckEth>(),
            Self::ImmDt => size_of::<wire::ImmDt>(),
            Self::Ieth => size_of::<wire::Ieth>(),
            Self::CnpReserved => size_of::<wire::CnpReserved>(),
        }
    }
}

/// How many payload bytes a packet may carry.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum PayloadRule {
    /// None.
    Empty,
    /// As many as the path MTU: more packets follow.
    Full,
    /// At least one, at most the path MTU: packets went before.
    Rest,
    /// At most the path MTU.
    Any,
    /// Exactly so many.
    Exactly(u8),
}

impl PayloadRule {
    /// Whether a packet with `len` payload bytes obeys the rule where the path MTU is `mtu`.
    pub const fn admits(self, len: usize, mtu: PathMtu) -> bool {
        let mtu = mtu.bytes() as usize;
        match self {
            Self::Empty => len == 0,
            Self::Full => len == mtu,
            Self::Rest => len >= 1 && len <= mtu,
            Self::Any => len <= mtu,
            Self::Exactly(n) => len == n as usize,
        }
    }
}

/// A row of the opcode table.
#[derive(Debug)]
pub struct OpcodeInfo {
    /// The opcode.
    pub opcode: Opcode,
    /// The name to print.
    pub name: &'static str,
    /// The transport class.
    pub transport: Transport,
    /// What the packet is a part of.
    pub operation: Operation,
    /// Which part.
    pub position: Position,
    /// The headers that follow the BTH, in order.
    pub extensions: &'static [Extension],
    /// How much payload follows them.
    pub payload: PayloadRule,
    header_len: usize,
}

impl OpcodeInfo {
    const fn row(
        opcode: Opcode,
        name: &'static str,
        class: (Transport, Operation, Position),
        extensions: &'static [Extension],
        payload: PayloadRule,
    ) -> Self {
        let (transport, operation, position) = class;
        Self {
            opcode,
            name,
            transport,
            operation,
            position,
            extensions,
            payload,
            header_len: len_with(extensions),
        }
    }

    /// Bytes from the start of the BTH to the end of the last extension header, which is where the
    /// payload starts.
    pub const fn header_len(&self) -> usize {
        self.header_len
    }

    /// Whether the packet has the extension header.
    pub fn has(&self, extension: Extension) -> bool {
        self.extensions.contains(&extension)
    }

    /// What the packet carries for the receiver's completion.
    pub fn suffix(&self) -> Suffix {
        if self.has(Extension::ImmDt) {
            Suffix::Immediate
        } else if self.has(Extension::Ieth) {
            Suffix::Invalidate
        } else {
            Suffix::Plain
        }
    }

    /// Whether the packet travels from responder to requester.
    pub const fn is_response(&self) -> bool {
        self.operation.is_response()
    }

    /// Whether the packet completes a receive work request, and so may carry SE.
    pub fn completes_receive(&self) -> bool {
        match self.operation {
            Operation::Send => self.position.ends(),
            Operation::Write => self.has(Extension::ImmDt),
            _ => false,
        }
    }

    /// Whether AckReq means anything in the packet.
    pub const fn may_request_ack(&self) -> bool {
        matches!(self.transport, Transport::Rc) && !self.is_response()
    }
}

macro_rules! opcodes {
    ($(
        $name:ident = $code:literal:
            $transport:ident $operation:ident $position:ident
            [$($extension:ident),*] $payload:expr;
    )*) => {
        #[allow(missing_docs, reason = "the names are the specification's")]
        impl Opcode {
            $(pub const $name: Self = Self($code);)*
        }

        /// All opcodes spoken here, in the order of their codes.
        pub static TABLE: &[OpcodeInfo] = &[
            $(OpcodeInfo::row(
                Opcode::$name,
                stringify!($name),
                (Transport::$transport, Operation::$operation, Position::$position),
                &[$(Extension::$extension),*],
                $payload,
            ),)*
        ];
    };
}

use PayloadRule::{
    Any,
    Empty,
    Exactly,
    Full,
    Rest, //
};

opcodes! {
    RC_SEND_FIRST              = 0x00: Rc Send First []                          Full;
    RC_SEND_MIDDLE             = 0x01: Rc Send Middle []                         Full;
    RC_SEND_LAST               = 0x02: Rc Send Last []                           Rest;
    RC_SEND_LAST_WITH_IMM      = 0x03: Rc Send Last [ImmDt]                      Rest;
    RC_SEND_ONLY               = 0x04: Rc Send Only []                           Any;
    RC_SEND_ONLY_WITH_IMM      = 0x05: Rc Send Only [ImmDt]                      Any;
    RC_WRITE_FIRST             = 0x06: Rc Write First [Reth]                     Full;
    RC_WRITE_MIDDLE            = 0x07: Rc Write Middle []                        Full;
    RC_WRITE_LAST              = 0x08: Rc Write Last []                          Rest;
    RC_WRITE_LAST_WITH_IMM     = 0x09: Rc Write Last [ImmDt]                     Rest;
    RC_WRITE_ONLY              = 0x0a: Rc Write Only [Reth]                      Any;
    RC_WRITE_ONLY_WITH_IMM     = 0x0b: Rc Write Only [Reth, ImmDt]               Any;
    RC_READ_REQUEST            = 0x0c: Rc Read Only [Reth]                       Empty;
    RC_READ_RESPONSE_FIRST     = 0x0d: Rc ReadResponse First [Aeth]              Full;
    RC_READ_RESPONSE_MIDDLE    = 0x0e: Rc ReadResponse Middle []                 Full;
    RC_READ_RESPONSE_LAST      = 0x0f: Rc ReadResponse Last [Aeth]               Rest;
    RC_READ_RESPONSE_ONLY      = 0x10: Rc ReadResponse Only [Aeth]               Any;
    RC_ACKNOWLEDGE             = 0x11: Rc Acknowledge Only [Aeth]                Empty;
    RC_ATOMIC_ACKNOWLEDGE      = 0x12: Rc AtomicAcknowledge Only [Aeth, AtomicAckEth] Empty;
    RC_COMPARE_SWAP            = 0x13: Rc CompareSwap Only [AtomicEth]           Empty;
    RC_FETCH_ADD               = 0x14: Rc FetchAdd Only [AtomicEth]              Empty;
    RC_SEND_LAST_WITH_INV      = 0x16: Rc Send Last [Ieth]                       Rest;
    RC_SEND_ONLY_WITH_INV      = 0x17: Rc Send Only [Ieth]                       Any;
    RC_FLUSH                   = 0x1c: Rc Flush Only [Feth, Reth]                Empty;
    RC_ATOMIC_WRITE            = 0x1d: Rc AtomicWrite Only [Reth]                Exactly(8);
    UC_SEND_FIRST              = 0x20: Uc Send First []                          Full;
    UC_SEND_MIDDLE             = 0x21: Uc Send Middle []                         Full;
    UC_SEND_LAST               = 0x22: Uc Send Last []                           Rest;
    UC_SEND_LAST_WITH_IMM      = 0x23: Uc Send Last [ImmDt]                      Rest;
    UC_SEND_ONLY               = 0x24: Uc Send Only []                           Any;
    UC_SEND_ONLY_WITH_IMM      = 0x25: Uc Send Only [ImmDt]                      Any;
    UC_WRITE_FIRST             = 0x26: Uc Write First [Reth]                     Full;
    UC_WRITE_MIDDLE            = 0x27: Uc Write Middle []                        Full;
    UC_WRITE_LAST              = 0x28: Uc Write Last []                          Rest;
    UC_WRITE_LAST_WITH_IMM     = 0x29: Uc Write Last [ImmDt]                     Rest;
    UC_WRITE_ONLY              = 0x2a: Uc Write Only [Reth]                      Any;
    UC_WRITE_ONLY_WITH_IMM     = 0x2b: Uc Write Only [Reth, ImmDt]               Any;
    UD_SEND_ONLY               = 0x64: Ud Send Only [Deth]                       Any;
    UD_SEND_ONLY_WITH_IMM      = 0x65: Ud Send Only [Deth, ImmDt]                Any;
    CNP                        = 0x81: Cnp Congestion Only [CnpReserved]         Empty;
}

/// Bytes of the longest set of headers in the table, BTH included.
pub const MAX_HEADER_LEN: usize = size_of::<wire::Bth>() + size_of::<wire::AtomicEth>();

const fn len_with(extensions: &[Extension]) -> usize {
    match extensions {
        [] => size_of::<wire::Bth>(),
        [first, rest @ ..] => first.size().saturating_add(len_with(rest)),
    }
}

#[expect(
    clippy::indexing_slicing,
    reason = "done by the compiler, and in range of a byte"
)]
static BY_CODE: [Option<&OpcodeInfo>; 256] = {
    let mut by_code: [Option<&OpcodeInfo>; 256] = [None; 256];
    let mut rest = TABLE;
    while let [row, tail @ ..] = rest {
        assert!(by_code[row.opcode.0 as usize].is_none());
        assert!(row.header_len <= MAX_HEADER_LEN);
        by_code[row.opcode.0 as usize] = Some(row);
        rest = tail;
    }
    by_code
};
