// SPDX-License-Identifier: GPL-2.0

//! Memory that others write to while we use it: the pages of memory regions.
//!
//! User space, and other packets, may change such memory at any moment. There is never a Rust
//! reference to it; all access goes through [`Chunk`], as whole copies made by C functions, or as
//! atomic instructions.

use crate::kapi::bindings as b;
use core::{
    marker::PhantomData,
    ptr::NonNull, //
};
use kernel::{
    prelude::*,
    sync::atomic::{
        ordering,
        Atomic, //
    },
};

/// What may be done with a [`Chunk`]: [`ReadOnly`] or [`ReadWrite`].
pub(crate) trait Rights {
    /// Whether the memory may be written to.
    const WRITE: bool;
}

/// The memory may be read.
pub(crate) struct ReadOnly;

/// The memory may be read and written to.
pub(crate) struct ReadWrite;

impl Rights for ReadOnly {
    const WRITE: bool = false;
}

impl Rights for ReadWrite {
    const WRITE: bool = true;
}

/// Some bytes of pinned memory, contiguous in the kernel's address space.
///
/// Two chunks may overlap; a copy between a chunk and anything that is being written to gives any
/// mixture of old and new bytes.
///
/// All operations may be used in any context and never fault.
///
/// # Invariants
///
/// For the lifetime `'a`, `start` points to `len` bytes of mapped memory to which no Rust reference
/// exists. They are readable. If `R` is [`ReadWrite`] they are writable as well, and nobody relies on
/// them not to change.
pub(crate) struct Chunk<'a, R = ReadOnly> {
    start: NonNull<u8>,
    len: usize,
    memory: PhantomData<(&'a (), R)>,
}

/// A [`Chunk`] that may be written to.
pub(crate) type ChunkMut<'a> = Chunk<'a, ReadWrite>;

impl<R> Chunk<'_, R> {
    /// The chunk of `len` bytes at `start`.
    ///
    /// # Safety
    ///
    /// For the lifetime `'a` the bytes must stay mapped and readable by the kernel, and no Rust
    /// reference to any of them may exist. If `R` is [`ReadWrite`] they must be writable as well, and
    /// nothing in the kernel may rely on them not to change: not the page cache of a file, say.
    #[inline]
    pub(in crate::kapi) unsafe fn from_raw_parts(start: NonNull<u8>, len: usize) -> Self {
        // INVARIANT: As the caller promises.
        Self {
            start,
            len,
            memory: PhantomData,
        }
    }

    /// Length in bytes.
    #[inline]
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// The address as C functions take it.
    #[inline]
    pub(in crate::kapi) fn as_void(&self) -> *mut kernel::ffi::c_void {
        self.start.as_ptr().cast()
    }
}

/// Has what was written to persistent memory outlive a loss of power.
pub(crate) fn write_back<'a>(chunks: impl Iterator<Item = Chunk<'a>>) {
    for chunk in chunks {
        // SAFETY: The chunk is mapped, and its content is not changed.
        unsafe { b::helpers::arch_wb_cache_pmem(chunk.as_void(), chunk.len) };
    }
    // SAFETY: Has no requirements.
    unsafe { b::helpers::wmb() };
}

impl<'a> ChunkMut<'a> {
    /// Writes `bytes` over the chunk. `EINVAL` if the lengths differ.
    #[inline]
    pub(crate) fn copy_from_slice(self, bytes: &[u8]) -> Result {
        if bytes.len() != self.len {
            return Err(EINVAL);
        }
        // SAFETY: The chunk is writable for `len` bytes, and `bytes` readable; no reference to the
        // chunk's memory exists, so that `bytes` does not overlap it.
        unsafe { b::helpers::copy_bytes(self.as_void(), bytes.as_ptr().cast(), self.len) };
        Ok(())
    }

    /// The chunk as one atomic 64-bit number, in the byte order of this machine.
    ///
    /// `None` unless it has eight bytes and their natural alignment.
    #[inline]
    pub(crate) fn into_atomic(self) -> Option<AtomicWord<'a>> {
        let word = self.start.cast::<u64>();
        // INVARIANT: Eight bytes of a chunk, aligned.
        (self.len == size_of::<u64>() && word.is_aligned()).then_some(AtomicWord {
            word,
            memory: PhantomData,
        })
    }
}

/// Eight aligned bytes that are changed by atomic instructions, which the CPU's own and other
/// devices' atomic instructions respect.
///
/// # Invariants
///
/// `word` is aligned and the memory is that of a [`ChunkMut`] of eight bytes.
pub(crate) struct AtomicWord<'a> {
    word: NonNull<u64>,
    memory: PhantomData<&'a ()>,
}

impl AtomicWord<'_> {
    /// Writes `new`, after all that was written before.
    #[inline]
    pub(crate) fn store(self, new: u64) {
        self.atomic().store(new, ordering::Release);
    }

    /// Adds `n`, wrapping, and returns what was there before. Fully ordered.
    #[inline]
    pub(crate) fn fetch_add(self, n: u64) -> u64 {
        self.atomic().fetch_add(n, ordering::Full)
    }

    /// Writes `new` if `old` is there, and returns what was there before. Fully ordered.
    #[inline]
    pub(crate) fn compare_swap(self, old: u64, new: u64) -> u64 {
        self.atomic()
            .cmpxchg(old, new, ordering::Full)
            .unwrap_or_else(|found| found)
    }

    /// The memory as the kernel's atomic type.
    #[inline]
    fn atomic(&self) -> &Atomic<u64> {
        // SAFETY: By the type invariant the memory is valid and aligned for as long as `self` is.
        // `Atomic` is the one Rust type that expects others to change its memory; other code touches
        // it by C functions and user instructions only, which are atomic as far as the kernel's
        // memory model is concerned.
        unsafe { Atomic::from_ptr(self.word.as_ptr()) }
    }
}
