// SPDX-License-Identifier: GPL-2.0

//! Pinned memory of user processes.
//!
//! C header: [`include/rdma/ib_umem.h`](srctree/include/rdma/ib_umem.h)

use super::{
    IbDevice,
    UserRegion, //
};
use crate::kapi::bindings as b;
use core::{
    ffi::c_int,
    ptr::NonNull, //
};
use kernel::{
    error::from_err_ptr,
    prelude::*, //
};

/// Pages of a user process, pinned: they stay where they are whatever the process does.
///
/// Counted towards the locked memory of the process. Dropping it may sleep.
///
/// # Invariants
///
/// Points to an `ib_umem` that is ours to release.
pub(crate) struct Umem(NonNull<b::ib_umem>);

// SAFETY: Pages may be released by any thread.
unsafe impl Send for Umem {}

// SAFETY: Only immutable members are read.
unsafe impl Sync for Umem {}

/// Contiguous memory of the kernel's address space.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Extent {
    /// Where it starts.
    pub(crate) start: NonNull<u8>,
    /// Bytes, not 0.
    pub(crate) length: usize,
}

// The kernel must be able to reach all pages at any time.
const _: () = assert!(usize::BITS == 64);

impl Umem {
    /// Pins memory of the calling process.
    ///
    /// May sleep. Fails if the range is empty or wraps (`EINVAL`), is not mapped as the
    /// access needs (`EFAULT`), or is more than the process may pin (`ENOMEM`).
    pub(super) fn pin(device: &IbDevice, region: &UserRegion) -> Result<Self> {
        // SAFETY: The device is alive; the core checks the range.
        let umem = unsafe {
            b::helpers::ib_umem_get_va(
                device.as_raw(),
                region.start,
                usize::try_from(region.length)?,
                region.access as c_int,
            )
        };
        // INVARIANT: Not an error, so ours to release.
        Ok(Self(NonNull::new(from_err_ptr(umem)?).ok_or(ENOMEM)?))
    }

    /// Bytes.
    pub(crate) fn len(&self) -> usize {
        // SAFETY: Valid by the type invariant.
        unsafe { self.0.as_ref() }.length
    }

    /// Returns the memory in order, as few extents as there can be.
    ///
    /// The lengths add up to [`Self::len`]. The extents may be used until the memory is
    /// released, by raw accesses only: the process reads and writes it as well.
    pub(crate) fn extents(&self) -> Extents<'_> {
        // SAFETY: Valid by the type invariant.
        let umem = unsafe { self.0.as_ref() };
        let offset = umem.address & (b::PAGE_SIZE - 1);
        Extents {
            entry: NonNull::new(umem.sgt_append.sgt.sgl),
            skip: offset,
            left: umem.length,
            _umem: self,
        }
    }
}

impl Drop for Umem {
    fn drop(&mut self) {
        // SAFETY: Ours to release by the type invariant.
        unsafe { b::ib_umem_release(self.0.as_ptr()) };
    }
}

/// Iterator over the [`Extent`]s of pinned memory.
pub(crate) struct Extents<'a> {
    /// The next entry of the scatter list.
    entry: Option<NonNull<b::scatterlist>>,
    /// Bytes to leave out at its start.
    skip: usize,
    /// Bytes still to return.
    left: usize,
    _umem: &'a Umem,
}

impl Extents<'_> {
    /// Returns the memory of the next entry of the list.
    fn next_entry(&mut self) -> Option<Extent> {
        let entry = self.entry?;
        let skip = core::mem::take(&mut self.skip);
        // SAFETY: The entry belongs to the list of the memory.
        let start = unsafe { b::helpers::sg_virt(entry.as_ptr()) };
        // SAFETY: As above.
        let length = unsafe { entry.as_ref() }.length as usize;
        // SAFETY: As above.
        self.entry = NonNull::new(unsafe { b::sg_next(entry.as_ptr()) });

        let length = length.checked_sub(skip)?.min(self.left);
        self.left = self.left.wrapping_sub(length);
        let start = NonNull::new(start.cast::<u8>().wrapping_add(skip))?;
        (length != 0).then_some(Extent { start, length })
    }
}

impl Iterator for Extents<'_> {
    type Item = Extent;

    fn next(&mut self) -> Option<Extent> {
        let mut extent = self.next_entry()?;
        // Entries end at the pages pinned in one go, and may well go on in the next one.
        while self.left != 0 && self.follows(&extent) {
            let more = self.next_entry()?;
            extent.length = extent.length.checked_add(more.length)?;
        }
        Some(extent)
    }
}

impl Extents<'_> {
    /// Whether the next entry starts where `extent` ends.
    fn follows(&self, extent: &Extent) -> bool {
        self.entry.is_some_and(|entry| {
            // SAFETY: The entry belongs to the list of the memory.
            let start = unsafe { b::helpers::sg_virt(entry.as_ptr()) };
            start.cast::<u8>() == extent.start.as_ptr().wrapping_add(extent.length)
        })
    }
}
