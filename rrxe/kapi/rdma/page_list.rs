// SPDX-License-Identifier: GPL-2.0

//! Memory that users inside the kernel list page by page, to be registered by a work request.

use crate::kapi::{
    bindings as b,
    mem::{
        Chunk,
        Rights, //
    },
};
use core::{
    marker::PhantomData,
    ptr::{
        self,
        NonNull, //
    }, //
};
use kernel::{
    error::to_result,
    prelude::*, //
};

/// A list of pages of any one size, contiguous to who uses them.
///
/// # Invariants
///
/// The first `count` entries of `pages` are addresses of pages of `page_size` bytes, a power of two,
/// which the user inside the kernel has given to the device.
pub(crate) struct PageList {
    pages: KVVec<u64>,
    count: usize,
    page_size: u64,
    /// Bytes of the first page that are left out.
    skip: u64,
    /// Bytes.
    length: u64,
}

impl PageList {
    /// An empty list with room for `max` pages. May sleep; `ENOMEM` when out of memory.
    pub(crate) fn new(max: u32) -> Result<Self> {
        // INVARIANT: No entry.
        Ok(Self {
            pages: KVVec::from_elem(0, max as usize, GFP_KERNEL)?,
            count: 0,
            page_size: b::PAGE_SIZE as u64,
            skip: 0,
            length: 0,
        })
    }

    /// Returns `length` bytes from `offset` on, or `None` if there are not as many. Any context.
    pub(crate) fn chunks<R: Rights>(
        &self,
        offset: u64,
        length: usize,
    ) -> Option<PageChunks<'_, R>> {
        if offset.checked_add(length as u64)? > self.length {
            return None;
        }
        let at = self.skip.checked_add(offset)?;
        let first = usize::try_from(at.checked_div(self.page_size)?).ok()?;
        let pages = self.pages.get(first..self.count)?;
        let skip = usize::try_from(at & self.page_size.wrapping_sub(1)).ok()?;
        let page_size = usize::try_from(self.page_size).ok()?;
        // INVARIANT: The range lies in pages of the list, which the bytes skipped in front of it
        // belong to.
        Some(PageChunks {
            pages,
            page_size,
            skip,
            left: length,
            rights: PhantomData,
        })
    }
}

/// Iterator over a range of listed pages, in [`Chunk`]s.
///
/// # Invariants
///
/// `pages` are entries of a [`PageList`], of `page_size` bytes each; `skip` is less than that.
pub(crate) struct PageChunks<'a, R> {
    pages: &'a [u64],
    page_size: usize,
    /// Bytes of the first page to leave out.
    skip: usize,
    /// Bytes to come.
    left: usize,
    rights: PhantomData<R>,
}

impl<'a, R> Iterator for PageChunks<'a, R> {
    type Item = Chunk<'a, R>;

    fn next(&mut self) -> Option<Chunk<'a, R>> {
        if self.left == 0 {
            return None;
        }
        let (page, rest) = self.pages.split_first()?;
        let length = self.page_size.checked_sub(self.skip)?.min(self.left);
        let start = usize::try_from(*page).ok()?.checked_add(self.skip)?;
        let start = NonNull::new(ptr::with_exposed_provenance_mut(start))?;
        self.pages = rest;
        self.skip = 0;
        self.left = self.left.checked_sub(length)?;
        // SAFETY: The bytes lie in a page that has been given to the device, by the type invariants.
        Some(unsafe { Chunk::from_raw_parts(start, length) })
    }
}

/// A scatter list that a user inside the kernel wants to have as the pages of a region.
///
/// # Invariants
///
/// `mr` is a live region; `list` has `entries` entries that are mapped for DMA to its device, which
/// the user gives to the device from the registration of the region to its invalidation. `offset` is
/// null or valid.
pub(crate) struct SgList<'a> {
    mr: *mut b::ib_mr,
    list: *mut b::scatterlist,
    entries: c_int,
    offset: *mut c_uint,
    call: PhantomData<&'a ()>,
}

impl SgList<'_> {
    /// # Safety
    ///
    /// The arguments must be what the core passes to `map_mr_sg`, and stay valid for as long as the
    /// result exists.
    pub(super) unsafe fn new(
        mr: *mut b::ib_mr,
        list: *mut b::scatterlist,
        entries: c_int,
        offset: *mut c_uint,
    ) -> Self {
        // INVARIANT: By the requirements.
        Self {
            mr,
            list,
            entries,
            offset,
            call: PhantomData,
        }
    }

    /// Makes `pages` the pages of the list, as far as they form a contiguous region of whole pages
    /// and there is room. Returns the number of entries that have been used up. Any context.
    ///
    /// # Errors
    ///
    /// `EINVAL` for a page size that is less than a page or no power of two.
    pub(crate) fn list(&self, pages: &mut PageList) -> Result<c_int> {
        // SAFETY: By the type invariant.
        let page_size = u64::from(unsafe { (*self.mr).page_size });
        if !page_size.is_power_of_two() || page_size < b::PAGE_SIZE as u64 {
            return Err(EINVAL);
        }
        let mut count = 0;
        // INVARIANT: Nothing is listed in case of a failure.
        pages.count = 0;
        pages.length = 0;
        // SAFETY: By the type invariant. There is room for as many pages.
        let used = unsafe {
            b::helpers::ib_sg_to_page_list(
                self.mr,
                self.list,
                self.entries,
                self.offset,
                pages.pages.as_mut_ptr(),
                u32::try_from(pages.pages.len())?,
                &mut count,
            )
        };
        to_result(used)?;
        // SAFETY: By the type invariant; the call has set them.
        let (iova, length) = unsafe { ((*self.mr).iova, (*self.mr).length) };
        // INVARIANT: They have just been listed.
        pages.count = count as usize;
        pages.page_size = page_size;
        pages.skip = iova & page_size.wrapping_sub(1);
        pages.length = length;
        Ok(used)
    }
}
