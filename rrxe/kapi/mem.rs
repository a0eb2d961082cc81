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

/// Some bytes of pinned memory, contiguous in the kernel's address space.
///
/// Two chunks may overlap; a copy between a chunk and anything that is being written to gives any
/// mixture of old and new bytes.
///
/// All operations may be used in any context and never fault.
///
/// # Invariants
///
/// `start` points to `len` bytes of mapped memory, readable and writable, for the lifetime `'a`, to
/// which no Rust reference exists.
#[derive(Clone, Copy)]
pub(crate) struct Chunk<'a> {
    start: NonNull<u8>,
    len: usize,
    memory: PhantomData<&'a ()>,
}

// SAFETY: All access is by copies and atomic instructions, which need no particular thread.
unsafe impl Send for Chunk<'_> {}

// SAFETY: As above; concurrent access is what the type is for.
unsafe impl Sync for Chunk<'_> {}

impl<'a> Chunk<'a> {
    /// The chunk of `len` bytes at `start`.
    ///
    /// # Safety
    ///
    /// For the lifetime `'a` the bytes must stay mapped, readable and writable by the kernel, and
    /// neither may a Rust reference to any of them exist, nor may they be memory that the kernel or
    /// Rust code relies on not to change.
    #[inline]
    pub(crate) unsafe fn from_raw_parts(start: NonNull<u8>, len: usize) -> Self {
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

    /// Whether there are no bytes.
    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The first `mid` bytes and the rest, or `None` if there are not as many.
    #[inline]
    pub(crate) fn split_at(self, mid: usize) -> Option<(Self, Self)> {
        let rest = self.len.checked_sub(mid)?;
        // SAFETY: `mid` is at most the length of the memory.
        let second = unsafe { self.start.add(mid) };
        // INVARIANT: Both are parts of the memory of `self`.
        let parts = (
            Self { len: mid, ..self },
            Self {
                start: second,
                len: rest,
                ..self
            },
        );
        Some(parts)
    }

    /// The first `len` bytes, or all if there are fewer.
    #[inline]
    pub(crate) fn truncate(self, len: usize) -> Self {
        // INVARIANT: A part of the memory of `self`.
        Self {
            len: self.len.min(len),
            ..self
        }
    }

    /// Writes `bytes` over the chunk. `EINVAL` if the lengths differ.
    #[inline]
    pub(crate) fn copy_from_slice(self, bytes: &[u8]) -> Result {
        if bytes.len() != self.len {
            return Err(EINVAL);
        }
        // SAFETY: Both are valid for `len` bytes; no reference to the chunk's memory exists, so that
        // `bytes` does not overlap it.
        unsafe { b::helpers::copy_bytes(self.as_void(), bytes.as_ptr().cast(), self.len) };
        Ok(())
    }

    /// Reads the chunk into `bytes`. `EINVAL` if the lengths differ.
    #[inline]
    pub(crate) fn copy_to_slice(self, bytes: &mut [u8]) -> Result {
        if bytes.len() != self.len {
            return Err(EINVAL);
        }
        // SAFETY: Both are valid for `len` bytes; no reference to the chunk's memory exists, so that
        // `bytes` does not overlap it.
        unsafe { b::helpers::copy_bytes(bytes.as_mut_ptr().cast(), self.as_void(), self.len) };
        Ok(())
    }

    /// Copies `source` over the chunk, right even if they overlap. `EINVAL` if the lengths differ.
    #[inline]
    pub(crate) fn copy_from_chunk(self, source: Chunk<'_>) -> Result {
        if source.len != self.len {
            return Err(EINVAL);
        }
        // SAFETY: By the type invariant both are valid for `len` bytes.
        unsafe { b::helpers::move_bytes(self.as_void(), source.as_void(), self.len) };
        Ok(())
    }

    /// Writes zeroes over the chunk.
    #[inline]
    pub(crate) fn zero(self) {
        // SAFETY: By the type invariant the memory is valid for `len` bytes.
        unsafe { b::helpers::zero_bytes(self.as_void(), self.len) };
    }

    /// The CRC of the chunk after `seed`, as [`crc32_le`](crate::kapi::crc::crc32_le).
    ///
    /// If somebody writes meanwhile it is that of no content the chunk ever had: for bytes that are
    /// sent, take the CRC of the copy.
    #[inline]
    pub(crate) fn crc32_le(self, seed: u32) -> u32 {
        // SAFETY: By the type invariant the memory is readable for `len` bytes.
        unsafe { b::crc32_le(seed, self.as_void(), self.len) }
    }

    /// The chunk as one atomic 64-bit number, in the byte order of this machine.
    ///
    /// `None` unless it has eight bytes and their natural alignment.
    #[inline]
    pub(crate) fn as_atomic(self) -> Option<AtomicWord<'a>> {
        let word = self.start.cast::<u64>();
        // INVARIANT: Eight bytes of a chunk, aligned.
        (self.len == size_of::<u64>() && word.is_aligned()).then_some(AtomicWord {
            word,
            memory: PhantomData,
        })
    }

    /// The address as C functions take it.
    #[inline]
    pub(in crate::kapi) fn as_void(&self) -> *mut kernel::ffi::c_void {
        self.start.as_ptr().cast()
    }
}

/// Eight aligned bytes that are changed by atomic instructions, which the CPU's own and other
/// devices' atomic instructions respect.
///
/// # Invariants
///
/// `word` is aligned and the memory is that of a [`Chunk`] of eight bytes.
#[derive(Clone, Copy)]
pub(crate) struct AtomicWord<'a> {
    word: NonNull<u64>,
    memory: PhantomData<&'a ()>,
}

impl AtomicWord<'_> {
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

    /// Writes `new` and returns what was there before. Fully ordered.
    #[inline]
    pub(crate) fn swap(self, new: u64) -> u64 {
        self.atomic().xchg(new, ordering::Full)
    }

    /// Reads the number at once; later accesses come after it.
    #[inline]
    pub(crate) fn load(self) -> u64 {
        self.atomic().load(ordering::Acquire)
    }

    /// Writes the number at once; earlier accesses come before it.
    #[inline]
    pub(crate) fn store(self, new: u64) {
        self.atomic().store(new, ordering::Release);
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
