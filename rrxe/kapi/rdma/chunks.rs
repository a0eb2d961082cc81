// SPDX-License-Identifier: GPL-2.0

//! Ranges of registered memory, of whatever kind.

use super::{
    page_list::PageChunks,
    umem::PinnedChunks, //
};
use crate::kapi::mem::{
    Chunk,
    ReadOnly, //
};

/// Iterator over a range of registered memory, in [`Chunk`]s.
pub(crate) enum Chunks<'a, R = ReadOnly> {
    /// Of a user process.
    Pinned(PinnedChunks<'a, R>),
    /// Of the kernel, in one piece.
    Direct(Option<Chunk<'a, R>>),
    /// Of the kernel, page by page.
    Listed(PageChunks<'a, R>),
}

impl<'a, R> Iterator for Chunks<'a, R> {
    type Item = Chunk<'a, R>;

    fn next(&mut self) -> Option<Chunk<'a, R>> {
        match self {
            Self::Pinned(chunks) => chunks.next(),
            Self::Direct(chunk) => chunk.take(),
            Self::Listed(chunks) => chunks.next(),
        }
    }
}
