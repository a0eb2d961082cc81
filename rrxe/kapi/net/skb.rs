// SPDX-License-Identifier: GPL-2.0

//! Socket buffers: memory of packets.
//!
//! C header: [`include/linux/skbuff.h`](srctree/include/linux/skbuff.h)

use crate::kapi::{
    bindings as b,
    gfp, //
};
use core::{
    mem::{
        ManuallyDrop,
        MaybeUninit, //
    },
    ptr::{
        self,
        NonNull, //
    },
    slice,
};
use kernel::{
    alloc::Flags,
    error::to_result,
    prelude::*, //
};

/// A socket buffer of our own. Dropping it counts as losing the packet.
///
/// Its bytes begin with the *head*, which is in one piece; there may be more, in fragments that
/// others, the sender say, can still write to.
///
/// # Invariants
///
/// `skb` is a valid socket buffer with one user, this object, and on no list. All bytes of the head
/// are initialised, and nobody writes to them.
pub(crate) struct Skb {
    skb: NonNull<b::sk_buff>,
}

// SAFETY: A socket buffer with one user may be handed to another thread.
unsafe impl Send for Skb {}

impl Skb {
    /// Takes over the socket buffer at `skb`.
    ///
    /// # Safety
    ///
    /// The buffer must be valid, on no list, and its only user must be the caller, who gives it up.
    /// The bytes of its head must be initialised and not be written to.
    #[inline]
    pub(super) unsafe fn from_raw(skb: NonNull<b::sk_buff>) -> Self {
        // INVARIANT: As the caller promises.
        Self { skb }
    }

    /// Gives up the socket buffer.
    #[inline]
    pub(super) fn into_raw(self) -> NonNull<b::sk_buff> {
        ManuallyDrop::new(self).skb
    }

    /// An empty buffer for `size` bytes, `headroom` of which are to be put in front.
    ///
    /// `EINVAL` if that is too much or makes no sense, `ENOMEM` when out of memory. Sleeps if `flags`
    /// allow it.
    pub(super) fn alloc(size: usize, headroom: usize, flags: Flags) -> Result<Self> {
        let size = u32::try_from(size).map_err(|_| EINVAL)?;
        let headroom = i32::try_from(headroom).map_err(|_| EINVAL)?;
        if headroom.unsigned_abs() > size {
            return Err(EINVAL);
        }
        // SAFETY: Any size may be asked for.
        let skb = unsafe { b::helpers::alloc_skb(size, gfp::raw(flags)) };
        // SAFETY: The buffer was just made, for us. It has no bytes.
        let skb = unsafe { Self::from_raw(NonNull::new(skb).ok_or(ENOMEM)?) };
        // SAFETY: The buffer is empty, and at least as large.
        unsafe { b::helpers::skb_reserve(skb.as_ptr(), headroom) };
        Ok(skb)
    }

    /// Another buffer with the same bytes, control block included. `ENOMEM` when out of memory. Any
    /// context.
    ///
    /// # Safety
    ///
    /// From now on nothing must be appended or put in front of either.
    pub(super) unsafe fn share(&self) -> Result<Self> {
        // SAFETY: By the type invariant the buffer is valid.
        let skb = unsafe { b::skb_clone(self.as_ptr(), b::RRXE_GFP_ATOMIC) };
        let skb = NonNull::new(skb).ok_or(ENOMEM)?;
        // SAFETY: The buffer was just made, for us. As the caller promises, nobody writes to the bytes.
        Ok(unsafe { Self::from_raw(skb) })
    }

    /// The C object.
    #[inline]
    pub(super) fn as_ptr(&self) -> *mut b::sk_buff {
        self.skb.as_ptr()
    }

    /// The C object, to be looked at.
    #[inline]
    pub(super) fn raw(&self) -> &b::sk_buff {
        // SAFETY: By the type invariant the buffer is valid and nobody else changes it.
        unsafe { self.skb.as_ref() }
    }

    /// Length of all there is, in bytes.
    #[inline]
    pub(super) fn len(&self) -> usize {
        self.raw().len as usize
    }

    /// Memory that the buffer takes, in bytes: with its overhead, and the unused rest of it.
    #[inline]
    pub(super) fn truesize(&self) -> usize {
        self.raw().truesize as usize
    }

    /// The bytes of the head.
    #[inline]
    pub(super) fn head(&self) -> &[u8] {
        let raw = self.raw();
        let len = raw.len.saturating_sub(raw.data_len) as usize;
        // SAFETY: There are that many bytes at `data`; by the type invariant they are initialised,
        // and stay as they are for as long as `self` is borrowed.
        unsafe { slice::from_raw_parts(raw.data, len) }
    }

    /// What whoever has the buffer wants to remember.
    #[inline]
    pub(super) fn control(&self) -> &[u8; 48] {
        &self.raw().cb
    }

    /// The same, to be changed.
    #[inline]
    pub(super) fn control_mut(&mut self) -> &mut [u8; 48] {
        // SAFETY: By the type invariant the buffer is valid and ours alone.
        unsafe { &mut (*self.skb.as_ptr()).cb }
    }

    /// Makes the head at least `len` bytes long. `false` if there are not as many, or out of memory.
    #[inline]
    pub(super) fn pull(&mut self, len: usize) -> bool {
        let Ok(len) = u32::try_from(len) else {
            return false;
        };
        // SAFETY: By the type invariant the buffer is ours.
        unsafe { b::helpers::pskb_may_pull(self.as_ptr(), len) }
    }

    /// Appends `len` bytes that are at `from`. `ENOSPC` if there is no room.
    ///
    /// # Safety
    ///
    /// `from` must be readable for `len` bytes, which may change meanwhile.
    #[inline]
    pub(super) unsafe fn put(&mut self, from: *const c_void, len: usize) -> Result {
        let len = self.has_tailroom(len)?;
        // SAFETY: The buffer is ours and has the room; the rest the caller promises. INVARIANT: The
        // new bytes are initialised by this.
        unsafe { b::helpers::skb_put_data(self.as_ptr(), from, len) };
        Ok(())
    }

    /// Appends `bytes`. `ENOSPC` if there is no room.
    #[inline]
    pub(super) fn append(&mut self, bytes: &[u8]) -> Result {
        // SAFETY: `bytes` is readable.
        unsafe { self.put(bytes.as_ptr().cast(), bytes.len()) }
    }

    /// Appends `len` zeroes. `ENOSPC` if there is no room.
    #[inline]
    pub(super) fn append_zeroed(&mut self, len: usize) -> Result {
        let len = self.has_tailroom(len)?;
        // SAFETY: The buffer is ours and has the room. INVARIANT: The new bytes are initialised.
        unsafe { b::helpers::skb_put_zero(self.as_ptr(), len) };
        Ok(())
    }

    /// Puts `bytes` in front of what there is. `ENOSPC` if there is no room.
    #[inline]
    pub(super) fn prepend(&mut self, bytes: &[u8]) -> Result {
        // SAFETY: By the type invariant the buffer is valid.
        let room = unsafe { b::helpers::skb_headroom(self.as_ptr()) };
        let len = u32::try_from(bytes.len()).map_err(|_| ENOSPC)?;
        if len > room {
            return Err(ENOSPC);
        }
        // SAFETY: The buffer is ours and has the room, and `bytes` is readable. INVARIANT: The new
        // bytes are initialised.
        unsafe { b::helpers::skb_push_data(self.as_ptr(), bytes.as_ptr().cast(), len) };
        Ok(())
    }

    /// Copies `len` bytes from `start` on, fragments or not, to `to`. `EFAULT` if there are fewer.
    ///
    /// # Safety
    ///
    /// `to` must be writable for `len` bytes.
    #[inline]
    pub(super) unsafe fn copy_to(&self, start: usize, to: *mut c_void, len: usize) -> Result {
        let start = i32::try_from(start).map_err(|_| EFAULT)?;
        let len = i32::try_from(len).map_err(|_| EFAULT)?;
        // SAFETY: By the type invariant the buffer is valid; the rest the caller promises.
        to_result(unsafe { b::skb_copy_bits(self.as_ptr(), start, to, len) })
    }

    /// The CRC after `seed` of `len` bytes from `start` on, fragments or not. `EFAULT` if there are
    /// fewer.
    pub(super) fn crc32_le(&self, start: usize, len: usize, seed: u32) -> Result<u32> {
        let end = start.checked_add(len).ok_or(EFAULT)?;
        if end > self.len() {
            return Err(EFAULT);
        }
        let from = u32::try_from(start).map_err(|_| EFAULT)?;
        let to = u32::try_from(end).map_err(|_| EFAULT)?;
        let mut state = MaybeUninit::uninit();
        // SAFETY: The buffer is valid and has that range; the function initialises the state.
        unsafe { b::skb_prepare_seq_read(self.as_ptr(), from, to, state.as_mut_ptr()) };
        let mut crc = seed;
        let mut consumed = 0u32;
        loop {
            let mut data = ptr::null();
            // SAFETY: The state is initialised. When there is nothing left, which is when the loop
            // ends, the function releases what it has mapped.
            let block = unsafe { b::skb_seq_read(consumed, &mut data, state.as_mut_ptr()) };
            if block == 0 {
                // Memory of a device cannot be read.
                return if consumed >= to.saturating_sub(from) {
                    Ok(crc)
                } else {
                    Err(EFAULT)
                };
            }
            // Blocks end where fragments end, which may be past the range.
            let part = (block as usize).min(len.saturating_sub(consumed as usize));
            // The sender's memory may be in a fragment, so there is no reference to it.
            // SAFETY: The function has made that many bytes readable at `data`.
            crc = unsafe { b::crc32_le(crc, data.cast(), part) };
            consumed = consumed.saturating_add(block);
        }
    }

    /// Frees a packet that has reached its destination. Any context but hard interrupts.
    #[inline]
    pub(super) fn consume(self) {
        // SAFETY: By the type invariant the buffer is ours.
        unsafe { b::consume_skb(self.into_raw().as_ptr()) };
    }

    /// `len` as C takes it, if as many bytes may be appended. `ENOSPC` if not.
    #[inline]
    fn has_tailroom(&self, len: usize) -> Result<u32> {
        // SAFETY: By the type invariant the buffer is valid.
        let room = unsafe { b::helpers::skb_tailroom(self.as_ptr()) };
        u32::try_from(len)
            .ok()
            .filter(|len| *len <= room.unsigned_abs())
            .ok_or(ENOSPC)
    }
}

impl Drop for Skb {
    #[inline]
    fn drop(&mut self) {
        // SAFETY: By the type invariant the buffer is ours.
        unsafe {
            b::sk_skb_reason_drop(
                ptr::null_mut(),
                self.skb.as_ptr(),
                b::skb_drop_reason_SKB_DROP_REASON_NOT_SPECIFIED,
            )
        };
    }
}
