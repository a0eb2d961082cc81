// SPDX-License-Identifier: GPL-2.0

//! Ranges of registered memory, of whatever kind.

use super::{
    implicit::ImplicitUmem,
    page_list::PageChunks,
    paged::{
        MissingPage,
        PagedChunks,
        PagedUmem, //
    },
    umem::PinnedChunks, //
};
use crate::kapi::mem::{
    Chunk,
    ReadOnly,
    Rights, //
};

/// Iterator over a range of registered memory, in [`Chunk`]s.
pub(crate) enum Chunks<'a, R = ReadOnly> {
    /// Of a user process, pinned.
    Pinned(PinnedChunks<'a, R>),
    /// Of a user process, as far as its pages are there.
    Paged(PagedChunks<'a, PagedUmem, R>),
    /// Of all that a user process has, as far as its pages are there.
    Implicit(PagedChunks<'a, ImplicitUmem, R>),
    /// In one piece.
    Whole(Option<Chunk<'a, R>>),
    /// Of the kernel, page by page.
    Listed(PageChunks<'a, R>),
}

impl<'a, R: Rights> Iterator for Chunks<'a, R> {
    type Item = Result<Chunk<'a, R>, MissingPage>;

    fn next(&mut self) -> Option<Self::Item> {
        match self {
            Self::Pinned(chunks) => chunks.next().map(Ok),
            Self::Paged(chunks) => chunks.next(),
            Self::Implicit(chunks) => chunks.next(),
            Self::Whole(chunk) => chunk.take().map(Ok),
            Self::Listed(chunks) => chunks.next().map(Ok),
        }
    }
}
