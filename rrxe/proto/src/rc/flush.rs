// SPDX-License-Identifier: GPL-2.0

//! What a FLUSH is about.

use crate::{
    key::Key,
    mtu::MAX_MESSAGE_LEN,
    wire::{Feth, Placement, Reth, Selectivity}, //
};

/// What a FLUSH is about: the writes before it to some of the responder's memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Flush {
    /// Key of the memory.
    pub rkey: Key,
    /// Address of the first byte. Means nothing for a whole region.
    pub va: u64,
    /// Bytes. Means nothing for a whole region.
    pub len: u32,
    /// How far the writes are to get.
    pub placement: Placement,
    /// Whether only the bytes named count, or the whole region.
    pub selectivity: Selectivity,
}

impl Flush {
    /// Reads what a packet asks for, or gives `None` if that makes no sense.
    pub(super) fn read(feth: &Feth, reth: &Reth) -> Option<Self> {
        let flush = Self {
            rkey: reth.rkey(),
            va: reth.va(),
            len: reth.dma_len(),
            placement: feth.placement(),
            selectivity: feth.selectivity()?,
        };
        (flush.placement.is_valid() && flush.len <= MAX_MESSAGE_LEN).then_some(flush)
    }

    /// What a packet says that asks for it.
    pub(super) fn headers(&self) -> (Feth, Reth) {
        (
            Feth::new(self.placement, self.selectivity),
            Reth::new(self.va, self.rkey, self.len),
        )
    }
}
