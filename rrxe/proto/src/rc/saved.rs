// SPDX-License-Identifier: GPL-2.0

//! Responses that a responder keeps, so that it can give them again.

use crate::{
    key::Key,
    mtu::PathMtu,
    psn::{Msn, Psn},
    rc::{flush::Flush, task::AtomicOp},
    wire::{RcRequest, Reth}, //
};

/// Storage for what one READ or atomic leaves behind.
#[derive(Clone, Copy, Debug, Default)]
pub struct Saved(pub(super) Option<Entry>);

impl Saved {
    /// Storage that is not in use.
    pub const EMPTY: Self = Self(None);
}

/// What one READ or atomic leaves behind.
#[derive(Clone, Copy, Debug)]
pub(super) struct Entry {
    /// The PSN of the request, and of the first response.
    pub(super) psn: Psn,
    /// Messages completed with the request.
    pub(super) msn: Msn,
    pub(super) asked: Asked,
    /// What an atomic found.
    pub(super) original: u64,
    pub(super) due: Due,
}

/// What was asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Asked {
    Read { rkey: Key, va: u64, len: u32 },
    Atomic { rkey: Key, va: u64, op: AtomicOp },
    Flush(Flush),
    AtomicWrite { rkey: Key, va: u64 },
}

/// Whether a response is to be sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Due {
    /// No.
    No,
    /// For the first time. The peer cannot have it, so this counts against its depth.
    First(Part),
    /// Again. The peer may have it, and if so does not count it.
    Again(Part),
}

/// The part of a response that is to be sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Part {
    /// The index of its first packet in the whole response.
    pub(super) start: u32,
    /// Bytes.
    pub(super) len: u32,
    /// Packets of it that have been sent.
    pub(super) sent: u32,
}

impl Due {
    /// What is due when `count` more packets have been sent, of several.
    pub(super) fn after(self, count: u32) -> Self {
        match self {
            Self::No => Self::No,
            Self::First(part) => Self::First(part.after(count)),
            Self::Again(part) => Self::Again(part.after(count)),
        }
    }
}

impl Part {
    pub(super) fn after(self, count: u32) -> Self {
        Self {
            sent: self.sent.saturating_add(count),
            ..self
        }
    }
}

impl Asked {
    /// What `request` asks for, or `None` if it is not answered for itself.
    fn of(request: &RcRequest) -> Option<Self> {
        Some(match request {
            RcRequest::Send(_) | RcRequest::Write(_) => return None,
            RcRequest::Read(reth) => Self::Read {
                rkey: reth.rkey(),
                va: reth.va(),
                len: reth.dma_len(),
            },
            RcRequest::CompareSwap(atomic) => Self::Atomic {
                rkey: atomic.rkey(),
                va: atomic.va(),
                op: AtomicOp::compare_swap(atomic),
            },
            RcRequest::FetchAdd(atomic) => Self::Atomic {
                rkey: atomic.rkey(),
                va: atomic.va(),
                op: AtomicOp::fetch_add(atomic),
            },
            RcRequest::Flush(feth, reth) => Self::Flush(Flush::read(feth, reth)?),
            RcRequest::AtomicWrite(reth) => Self::AtomicWrite {
                rkey: reth.rkey(),
                va: reth.va(),
            },
        })
    }

    /// Bytes that the responses bring.
    fn len(&self) -> u32 {
        match self {
            Self::Read { len, .. } => *len,
            Self::Atomic { .. } | Self::Flush(_) | Self::AtomicWrite { .. } => 0,
        }
    }

    /// PSNs that the responses take.
    pub(super) fn packets(&self, mtu: PathMtu) -> u32 {
        mtu.packets(self.len())
    }

    /// The whole response.
    pub(super) fn whole(&self) -> Part {
        Part {
            start: 0,
            len: self.len(),
            sent: 0,
        }
    }
}

impl Entry {
    /// The part of the response that `reth` at `psn` asks for again, or `None` if it is no part.
    pub(super) fn part(&self, psn: Psn, reth: &Reth, mtu: PathMtu) -> Option<Part> {
        let Asked::Read { rkey, va, len } = self.asked else {
            return None;
        };
        let start = psn.offset_from(self.psn);
        let offset = start.saturating_mul(mtu.bytes());
        let left = len.checked_sub(offset)?;
        let is_part = reth.rkey() == rkey
            && reth.va() == va.wrapping_add(u64::from(offset))
            && reth.dma_len() <= left
            && (reth.dma_len() != 0 || len == 0);
        is_part.then_some(Part {
            start,
            len: reth.dma_len(),
            sent: 0,
        })
    }

    /// Whether `request` at `psn` is what was executed.
    pub(super) fn is_of(&self, psn: Psn, request: &RcRequest) -> bool {
        psn == self.psn && Asked::of(request) == Some(self.asked)
    }

    /// Whether `part` goes to the end of the response.
    pub(super) fn is_ended_by(&self, part: Part, mtu: PathMtu) -> bool {
        let end = part.start.saturating_add(mtu.packets(part.len));
        end == self.asked.packets(mtu)
    }

    /// Has `part` sent.
    pub(super) fn repeat(&mut self, part: Part) {
        self.due = match self.due {
            Due::First(_) => Due::First(part),
            Due::Again(_) | Due::No => Due::Again(part),
        };
    }
}
