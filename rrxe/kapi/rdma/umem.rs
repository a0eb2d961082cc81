// SPDX-License-Identifier: GPL-2.0

//! Pinned memory of user processes.
//!
//! C header: [`include/rdma/ib_umem.h`](srctree/include/rdma/ib_umem.h)

use super::{
    IbDevice,
    UserRegion, //
};
use crate::kapi::{
    bindings as b,
    mem::{
        Chunk,
        ReadOnly,
        Rights, //
    },
};
use core::{
    marker::PhantomData,
    ptr::{
        self,
        NonNull, //
    },
};
use kernel::{
    error::from_err_ptr,
    prelude::*,
    sync::aref::ARef, //
};

// The kernel must be able to reach all pages at any time.
const _: () = assert!(usize::BITS == 64);

/// Pages of a user process, pinned: they stay where they are whatever the process does.
///
/// Counted towards the locked memory of the process. Dropping it may sleep.
///
/// Pages that are contiguous in physical memory form an extent; finding an address takes
/// time by the logarithm of the number of extents, going on from it is a step an extent.
///
/// # Invariants
///
/// - `pages` holds the pages of all extents.
/// - The ends of the extents grow, and the last is the length of the memory.
pub(crate) struct Umem {
    extents: KVVec<Extent>,
    pages: Pages,
}

/// Contiguous memory in the kernel's address space.
#[derive(Clone, Copy)]
struct Extent {
    start: NonNull<u8>,
    /// Offset of the first byte after it, counted from the start of the whole memory.
    end: usize,
}

// SAFETY: An extent is only an address.
unsafe impl Send for Extent {}

// SAFETY: As above.
unsafe impl Sync for Extent {}

impl Umem {
    /// Pins memory of the calling process.
    ///
    /// May sleep. Fails if the range is empty or wraps (`EINVAL`), is not mapped as the
    /// access needs (`EFAULT`), or is more than the process may pin (`ENOMEM`).
    pub(super) fn pin(device: &IbDevice, region: &UserRegion) -> Result<Self> {
        let pages = Pages::pin(device, region)?;
        // The process chooses the size, so that a failure is its own.
        let flags = GFP_KERNEL_ACCOUNT | __GFP_NOWARN;
        let mut extents = KVVec::<Extent>::with_capacity(pages.count(), flags)?;
        let mut end = 0usize;
        // The address right after the last extent.
        let mut after = ptr::null_mut();
        for (start, length) in pages.entries() {
            let follows = start.as_ptr() == after;
            after = start.as_ptr().wrapping_add(length);
            end = end.checked_add(length).ok_or(EOVERFLOW)?;
            match extents.last_mut() {
                Some(last) if follows => last.end = end,
                _ => extents.push(Extent { start, end }, flags)?,
            }
        }
        if end != pages.len() {
            return Err(EFAULT);
        }
        // INVARIANT: The ends grew, and the last one has just been checked.
        Ok(Self { extents, pages })
    }

    /// Bytes.
    pub(crate) fn len(&self) -> usize {
        self.pages.len()
    }

    /// How many contiguous pieces it is of.
    pub(crate) fn extents(&self) -> usize {
        self.extents.len()
    }

    /// Whether it was pinned to be written to. If not, there is no writing to it.
    pub(crate) fn is_writable(&self) -> bool {
        self.pages.are_writable()
    }

    /// Whether all of it outlives a loss of power.
    pub(crate) fn is_persistent(&self) -> bool {
        let mut begin = 0;
        self.extents.iter().all(|extent| {
            let length = extent.end.saturating_sub(begin);
            begin = extent.end;
            // SAFETY: Only looks the address up, which is one of the linear mapping.
            unsafe { b::helpers::is_persistent(extent.start.as_ptr().cast(), length) }
        })
    }

    /// Returns `length` bytes from `offset` on. Any context.
    ///
    /// `None` if there are not as many, or if they are to be written to and were pinned without
    /// access to write locally: then they may be pages that others have as well.
    pub(crate) fn chunks<R: Rights>(
        &self,
        offset: usize,
        length: usize,
    ) -> Option<PinnedChunks<'_, R>> {
        let end = offset.checked_add(length)?;
        if end > self.len() || R::WRITE && !self.is_writable() {
            return None;
        }
        let index = self.extents.partition_point(|extent| extent.end <= offset);
        let begin = match index.checked_sub(1) {
            Some(before) => self.extents.get(before)?.end,
            None => 0,
        };
        // INVARIANT: `begin` is where `extents` starts; `offset` lies in its first extent
        // unless nothing is left. The pages are writable if they need to be.
        Some(PinnedChunks {
            extents: self.extents.get(index..)?,
            begin,
            offset,
            end,
            rights: PhantomData,
        })
    }
}

/// Iterator over a range of pinned memory, in [`Chunk`]s.
///
/// # Invariants
///
/// - `extents` are those that follow the offset `begin` of the pinned memory, which is
///   borrowed for `'a`.
/// - If `offset` is below `end` it lies in the first of them, and `end` in one of them.
/// - If `R` has the right to write, the memory was pinned to be written to.
pub(crate) struct PinnedChunks<'a, R = ReadOnly> {
    extents: &'a [Extent],
    begin: usize,
    offset: usize,
    end: usize,
    rights: PhantomData<R>,
}

impl<'a, R> Iterator for PinnedChunks<'a, R> {
    type Item = Chunk<'a, R>;

    fn next(&mut self) -> Option<Chunk<'a, R>> {
        if self.offset >= self.end {
            return None;
        }
        let (first, rest) = self.extents.split_first()?;
        let stop = first.end.min(self.end);
        let length = stop.checked_sub(self.offset)?;
        let skip = self.offset.checked_sub(self.begin)?;
        // SAFETY: `skip` is below the length of the extent, by the type invariant.
        let start = unsafe { first.start.add(skip) };
        // INVARIANT: What has been returned ends with the extent or the range.
        self.offset = stop;
        self.begin = first.end;
        self.extents = rest;
        // SAFETY: The pages are pinned for `'a`, by the type invariants, and there are no
        // references to what user space maps. If they are to be written to, they were made the
        // process' own, or are shared memory that it may write to.
        Some(unsafe { Chunk::from_raw_parts(start, length) })
    }
}

/// The pages themselves ([`struct ib_umem`]).
///
/// # Invariants
///
/// `umem` points to an `ib_umem` of `device` that is ours to release.
///
/// [`struct ib_umem`]: srctree/include/rdma/ib_umem.h
struct Pages {
    umem: NonNull<b::ib_umem>,
    /// The release uses it, which may come after the device has been unregistered.
    _device: ARef<IbDevice>,
}

// SAFETY: Pages may be released by any thread.
unsafe impl Send for Pages {}

// SAFETY: Only immutable members are read.
unsafe impl Sync for Pages {}

impl Pages {
    fn pin(device: &IbDevice, region: &UserRegion) -> Result<Self> {
        // SAFETY: The device is alive; the core checks the range.
        let umem = unsafe {
            b::helpers::ib_umem_get_va(
                device.as_raw(),
                usize::try_from(region.range.start)?,
                usize::try_from(region.range.length)?,
                region.access as c_int,
            )
        };
        // INVARIANT: Not an error, so ours to release.
        Ok(Self {
            umem: NonNull::new(from_err_ptr(umem)?).ok_or(ENOMEM)?,
            _device: device.into(),
        })
    }

    /// The C object.
    fn umem(&self) -> &b::ib_umem {
        // SAFETY: Valid by the type invariant, and not changed before the release.
        unsafe { self.umem.as_ref() }
    }

    /// Bytes.
    fn len(&self) -> usize {
        self.umem().length
    }

    /// Whether they were pinned to be written to.
    fn are_writable(&self) -> bool {
        self.umem().writable() != 0
    }

    /// Entries of the scatter list.
    fn count(&self) -> usize {
        self.umem().sgt_append.sgt.orig_nents as usize
    }

    /// Returns the memory, in order: pages as the scatter list has them.
    fn entries(&self) -> impl Iterator<Item = (NonNull<u8>, usize)> + '_ {
        let umem = self.umem();
        let mut entry = NonNull::new(umem.sgt_append.sgt.sgl);
        // Whole pages were pinned.
        let mut skip = umem.address & (b::PAGE_SIZE - 1);
        let mut left = umem.length;
        core::iter::from_fn(move || {
            let sg = entry.filter(|_| left != 0)?;
            // SAFETY: The entry belongs to the list, whose pages are all mapped.
            let start = unsafe { b::helpers::sg_virt(sg.as_ptr()) };
            // SAFETY: As above.
            let length = unsafe { sg.as_ref() }.length as usize;
            // SAFETY: As above.
            entry = NonNull::new(unsafe { b::sg_next(sg.as_ptr()) });

            let skip = core::mem::take(&mut skip);
            let length = length.checked_sub(skip)?.min(left);
            left = left.checked_sub(length)?;
            Some((NonNull::new(start.cast::<u8>().wrapping_add(skip))?, length))
        })
    }
}

impl Drop for Pages {
    fn drop(&mut self) {
        // SAFETY: Ours to release by the type invariant.
        unsafe { b::ib_umem_release(self.umem.as_ptr()) };
    }
}
