// SPDX-License-Identifier: GPL-2.0

//! Validated work requests of a reliable connection's send queue.

use crate::{
    key::{Imm, Key},
    mtu::{PathMtu, MAX_MESSAGE_LEN},
    rc::{flush::Flush, local::Local}, //
};

/// What a work request asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operation {
    /// Message into a receive work request.
    Send,
    /// [`Send`](Self::Send) with immediate data for the receiver's completion.
    SendImm(Imm),
    /// [`Send`](Self::Send) that has the receiver invalidate its key.
    SendInv(Key),
    /// Message into the responder's memory.
    Write {
        /// Address of the first byte.
        va: u64,
        /// Key of the memory.
        rkey: Key,
    },
    /// [`Write`](Self::Write) that uses up a receive work request as well.
    WriteImm {
        /// Address of the first byte.
        va: u64,
        /// Key of the memory.
        rkey: Key,
        /// Immediate data for the receiver's completion.
        imm: Imm,
    },
    /// Fetches from the responder's memory.
    Read {
        /// Address of the first byte.
        va: u64,
        /// Key of the memory.
        rkey: Key,
    },
    /// Puts `swap` where `compare` was found.
    CompareSwap {
        /// Address of the eight bytes.
        va: u64,
        /// Key of the memory.
        rkey: Key,
        /// What must be there.
        compare: u64,
        /// What to put there.
        swap: u64,
    },
    /// Adds to what is there.
    FetchAdd {
        /// Address of the eight bytes.
        va: u64,
        /// Key of the memory.
        rkey: Key,
        /// What to add.
        add: u64,
    },
    /// Has writes before it get as far as they are to get.
    Flush(Flush),
    /// Eight bytes into the responder's memory, which nobody sees in part.
    AtomicWrite {
        /// Address of the eight bytes.
        va: u64,
        /// Key of the memory.
        rkey: Key,
    },
    /// Something that concerns this end only.
    Local(Local),
}

/// What a request waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Answer {
    /// Nothing: nothing is sent.
    None,
    /// An acknowledgement, which may be that of a later request.
    Acknowledge,
    /// A response of its own, without which it is not done. Only so many of them may be on their
    /// way at a time.
    Response,
}

impl Operation {
    pub(super) const fn answer(&self) -> Answer {
        match self {
            Self::Send
            | Self::SendImm(_)
            | Self::SendInv(_)
            | Self::Write { .. }
            | Self::WriteImm { .. } => Answer::Acknowledge,
            Self::Read { .. }
            | Self::CompareSwap { .. }
            | Self::FetchAdd { .. }
            | Self::Flush(_)
            | Self::AtomicWrite { .. } => Answer::Response,
            Self::Local(_) => Answer::None,
        }
    }

    /// Whether a message of `len` bytes is one for it.
    const fn admits(&self, len: u32) -> bool {
        match self {
            Self::CompareSwap { .. } | Self::FetchAdd { .. } | Self::AtomicWrite { .. } => {
                len == Request::ATOMIC_LEN
            }
            Self::Flush(_) | Self::Local(_) => len == 0,
            _ => len <= MAX_MESSAGE_LEN,
        }
    }
}

/// How a work request is to be handled.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RequestFlags {
    /// Success is reported, too.
    pub signaled: bool,
    /// The receiver is to be woken when the message completes.
    pub solicited: bool,
    /// Not begun before the READs and atomics ahead of it are done.
    pub fence: bool,
}

/// A work request that has been validated as a whole.
///
/// # Invariants
///
/// `len` is at most [`MAX_MESSAGE_LEN`], [`ATOMIC_LEN`](Self::ATOMIC_LEN) if the operation is
/// atomic, and 0 if it moves no data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Request {
    operation: Operation,
    len: u32,
    flags: RequestFlags,
}

impl Request {
    /// Bytes an atomic operation works on.
    pub const ATOMIC_LEN: u32 = 8;

    /// A request for `operation` on `len` bytes, or `None` if the length is not one for it.
    pub const fn new(operation: Operation, len: u32, flags: RequestFlags) -> Option<Self> {
        if !operation.admits(len) {
            return None;
        }
        Some(Self {
            operation,
            len,
            flags,
        })
    }

    /// What it asks for.
    pub const fn operation(&self) -> Operation {
        self.operation
    }

    /// Bytes of the message.
    pub const fn len(&self) -> u32 {
        self.len
    }

    /// Whether the message has no bytes.
    pub const fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// How it is to be handled.
    pub const fn flags(&self) -> RequestFlags {
        self.flags
    }

    /// Bytes that a response in the form of a READ's brings, or `None` if it is not answered so.
    pub(super) const fn fetches(&self) -> Option<u32> {
        match self.operation {
            Operation::Read { .. } => Some(self.len),
            Operation::Flush(_) | Operation::AtomicWrite { .. } => Some(0),
            _ => None,
        }
    }

    /// PSNs that it takes.
    pub(super) const fn packets(&self, mtu: PathMtu) -> u32 {
        match self.operation {
            Operation::Local(_) => 0,
            _ => mtu.packets(self.len),
        }
    }
}

/// Names a work request by the number of those posted before it, modulo 2^32.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct WqeSeq(u32);

impl WqeSeq {
    /// The first work request of a queue.
    pub const ZERO: Self = Self(0);

    /// The number. Storage with a power of two of places masks it.
    pub const fn get(self) -> u32 {
        self.0
    }

    /// The one posted next.
    #[must_use]
    pub const fn next(self) -> Self {
        Self(self.0.wrapping_add(1))
    }

    /// Signed distance from `other` to `self` in work requests.
    pub const fn since(self, other: Self) -> i32 {
        self.0.wrapping_sub(other.0) as i32
    }

    /// Whether `self` was posted before `other`.
    pub const fn is_before(self, other: Self) -> bool {
        self.since(other) < 0
    }
}

/// Storage of the work requests that are posted and not yet completed.
///
/// It belongs to the caller; the engine keeps all progress to itself.
pub trait SendQueue {
    /// The request stored as `wqe`, which lies between
    /// [`head`](super::Requester::head) and [`tail`](super::Requester::tail).
    fn request(&self, wqe: WqeSeq) -> &Request;
}
