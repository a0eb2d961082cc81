// SPDX-License-Identifier: GPL-2.0

//! Buffers that drivers make for others ("DMA-BUF"), as far as processors may use them.
//!
//! A device in software does no DMA, so it is none that could be attached to a buffer. It uses a mapping
//! in the kernel's address space: whoever made the buffer sees to it that what is mapped stays where it
//! is. The pages that a list for DMA names are nothing to be touched by a processor.
//!
//! C header: [`include/linux/dma-buf.h`](srctree/include/linux/dma-buf.h)

use super::{
    bindings as b,
    error::eopnotsupp,
    mem::{
        Chunk,
        Rights, //
    },
};
use core::ptr::NonNull;
use kernel::{
    error::{
        from_err_ptr,
        to_result, //
    },
    prelude::*,
};

/// What a buffer is used for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Purpose {
    /// To be read.
    Read,
    /// To be read and written to.
    Write,
}

impl Purpose {
    /// What the descriptor of the buffer must have been opened for: bits of `fmode_t`. Then the process
    /// could do the same by a mapping of its own.
    const fn mode(self) -> u32 {
        match self {
            Self::Read => b::RRXE_FMODE_READ,
            Self::Write => b::RRXE_FMODE_READ | b::RRXE_FMODE_WRITE,
        }
    }
}

/// A part of a buffer, which stays where it is and can be used by processors.
///
/// What devices do with the buffer meanwhile is seen where they keep the caches of the processors
/// coherent.
///
/// Dropping it may sleep.
///
/// # Invariants
///
/// - `start` points to `len` bytes of `mapping`.
/// - Use by processors has begun, and is ours to end.
pub(crate) struct BufferPart {
    start: NonNull<u8>,
    len: usize,
    purpose: Purpose,
    mapping: Mapping,
}

// SAFETY: The mapping is tied to no thread.
unsafe impl Send for BufferPart {}

// SAFETY: There is nothing that changes.
unsafe impl Sync for BufferPart {}

impl BufferPart {
    /// Maps `len` bytes from `offset` on of the buffer for which the calling process has the descriptor
    /// `fd`. Waits for devices that are using the buffer.
    ///
    /// May sleep. `EBADF` if there is no such descriptor, `EINVAL` if it is none of a buffer or if the
    /// buffer is smaller, `EACCES` if it is not open for `purpose`, `EOPNOTSUPP` if processors cannot
    /// use the buffer as they use memory.
    pub(super) fn map(fd: c_int, offset: usize, len: usize, purpose: Purpose) -> Result<Self> {
        let buffer = Buffer::get(fd)?;
        let end = offset.checked_add(len).ok_or(EINVAL)?;
        if len == 0 || end > buffer.len() {
            return Err(EINVAL);
        }
        if buffer.mode() & purpose.mode() != purpose.mode() {
            return Err(EACCES);
        }
        let mapping = Mapping::new(buffer)?;
        // SAFETY: The offset is in the buffer, which is mapped as a whole.
        let start = unsafe { mapping.start()?.add(offset) };
        // SAFETY: The buffer is referenced, and its lock not held.
        to_result(unsafe { b::dma_buf_begin_cpu_access(mapping.buffer.as_raw(), DIRECTION) })?;
        // INVARIANT: As just done.
        Ok(Self {
            start,
            len,
            purpose,
            mapping,
        })
    }

    /// Bytes.
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// Whether it is used to be written to. If not, there is no writing to it.
    pub(crate) fn is_writable(&self) -> bool {
        self.purpose == Purpose::Write
    }

    /// Returns `length` bytes from `offset` on. Any context.
    ///
    /// `None` if there are not as many, or if they are to be written to and may not be.
    pub(crate) fn chunk<R: Rights>(&self, offset: usize, length: usize) -> Option<Chunk<'_, R>> {
        let end = offset.checked_add(length)?;
        if end > self.len || R::WRITE && !self.is_writable() {
            return None;
        }
        // SAFETY: Within the part, by the type invariant.
        let start = unsafe { self.start.add(offset) };
        // SAFETY: It stays mapped as long as this is borrowed. It is memory for devices and for the
        // mappings of processes, so that there are no references to it, and nobody relies on it; if it
        // is to be written to, the process may do so.
        Some(unsafe { Chunk::from_raw_parts(start, length) })
    }
}

impl Drop for BufferPart {
    fn drop(&mut self) {
        // SAFETY: As in `map`; what has begun is to be ended, by the type invariant. There is nothing
        // to be done about a failure.
        unsafe { b::dma_buf_end_cpu_access(self.mapping.buffer.as_raw(), DIRECTION) };
    }
}

/// For what processors use a buffer, as DMA calls it.
const DIRECTION: b::dma_data_direction = b::dma_data_direction_DMA_BIDIRECTIONAL;

/// A mapping of a whole buffer.
///
/// # Invariants
///
/// `map` is a mapping of `buffer`, and ours to end.
struct Mapping {
    map: b::iosys_map,
    buffer: Buffer,
}

impl Mapping {
    fn new(buffer: Buffer) -> Result<Self> {
        if !buffer.can_be_mapped() {
            return Err(eopnotsupp());
        }
        let mut map = b::iosys_map::default();
        // SAFETY: The buffer is referenced, and its lock not held.
        to_result(unsafe { b::dma_buf_vmap_unlocked(buffer.as_raw(), &mut map) })?;
        // INVARIANT: As just done.
        Ok(Self { map, buffer })
    }

    /// The first byte. `EOPNOTSUPP` if that is on a device: it is not to be copied as memory is.
    fn start(&self) -> Result<NonNull<u8>> {
        if self.map.is_iomem {
            return Err(eopnotsupp());
        }
        // SAFETY: It is no address of a device.
        let start = unsafe { self.map.__bindgen_anon_1.vaddr };
        NonNull::new(start.cast()).ok_or(ENOMEM)
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: The mapping is ours to end. The lock of the buffer is not held.
        unsafe { b::dma_buf_vunmap_unlocked(self.buffer.as_raw(), &mut self.map) };
    }
}

/// A buffer.
///
/// # Invariants
///
/// The pointer is that of a `dma_buf`, a reference of which is ours to give back.
struct Buffer(NonNull<b::dma_buf>);

impl Buffer {
    /// The buffer for which the calling process has the descriptor `fd`.
    fn get(fd: c_int) -> Result<Self> {
        // SAFETY: Has no requirements.
        let buffer = from_err_ptr(unsafe { b::dma_buf_get(fd) })?;
        // INVARIANT: A reference was taken for us.
        NonNull::new(buffer).map(Self).ok_or(EBADF)
    }

    fn as_raw(&self) -> *mut b::dma_buf {
        self.0.as_ptr()
    }

    /// Bytes.
    fn len(&self) -> usize {
        // SAFETY: Valid by the type invariant; the size does not change.
        unsafe { (*self.as_raw()).size }
    }

    /// What its descriptors may be used for: bits of `fmode_t`.
    fn mode(&self) -> u32 {
        // SAFETY: Valid by the type invariant. The file lives as long, and its mode does not change.
        unsafe { (*(*self.as_raw()).file).f_mode }
    }

    /// Whether who made it maps it for processors.
    fn can_be_mapped(&self) -> bool {
        // SAFETY: Valid by the type invariant. The operations live as long, and do not change.
        unsafe { (*(*self.as_raw()).ops).vmap }.is_some()
    }
}

impl Drop for Buffer {
    fn drop(&mut self) {
        // SAFETY: The reference is ours by the type invariant.
        unsafe { b::dma_buf_put(self.as_raw()) };
    }
}
