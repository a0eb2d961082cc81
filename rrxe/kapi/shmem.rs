// SPDX-License-Identifier: GPL-2.0

//! Kernel memory that user space maps.
//!
//! # Lifetime
//!
//! What has been mapped stays valid for user space after the kernel has freed the memory, until it
//! unmaps it, and in its children too: each page table entry holds a reference to its page, and
//! `vfree()` only gives up the kernel's own. Mappings thus need no `vm_operations_struct` of this
//! module, and none keeps it from being unloaded.
//!
//! C header: [`include/linux/vmalloc.h`](srctree/include/linux/vmalloc.h)

use super::{
    bindings as b,
    rdma::Mappable, //
};
use core::{
    cell::UnsafeCell,
    ptr::NonNull,
    slice, //
};
use kernel::{
    error::to_result,
    mm::virt::VmaNew,
    page::{
        page_align,
        PAGE_SIZE, //
    },
    prelude::*,
    sync::{
        atomic::Atomic,
        Arc, //
    }, //
};

/// A word in memory shared with user space.
#[repr(transparent)]
pub(crate) struct SharedWord(UnsafeCell<u64>);

// SAFETY: All accesses are volatile ones of an aligned machine word, which the kernel's memory
// model treats as atomic.
unsafe impl Sync for SharedWord {}

impl SharedWord {
    /// Reads the word, exactly once. Unordered.
    pub(crate) fn read(&self) -> u64 {
        // SAFETY: The pointer is that of a valid word. Concurrent writes are no data race, this is
        // the kernel's `READ_ONCE()`.
        unsafe { self.0.get().read_volatile() }
    }

    /// Writes the word. Unordered.
    pub(crate) fn write(&self, value: u64) {
        // SAFETY: The pointer is that of a valid word. Concurrent accesses are no data race, this
        // is the kernel's `WRITE_ONCE()`.
        unsafe { self.0.get().write_volatile(value) };
    }
}

/// Zeroed pages that user space can map, charged to the memory control group of the process that makes
/// them.
///
/// Its user may read and write all of it at any time. Dropping it may sleep unless softirqs are
/// disabled.
///
/// # Invariants
///
/// `base` is what `vmalloc()` gave for `bytes` bytes. `bytes` is a positive multiple of
/// `PAGE_SIZE`. References to the memory are to [`SharedWord`] and [`Atomic`] only.
pub(crate) struct SharedMem {
    base: NonNull<c_void>,
    bytes: usize,
}

// SAFETY: The memory is tied to no thread.
unsafe impl Send for SharedMem {}

// SAFETY: Shared accesses are those of `SharedWord` and `Atomic`.
unsafe impl Sync for SharedMem {}

impl SharedMem {
    /// Allocates whole pages for `bytes` bytes, at least one page. May sleep.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub(crate) fn new(bytes: usize) -> Result<Arc<Self>> {
        let bytes = page_align(bytes.max(1)).ok_or(ENOMEM)?;
        let size = c_ulong::try_from(bytes)?;
        // The process chooses the size: a failure is its own, and for it alone.
        // SAFETY: May be called with any size, and these flags.
        let base = unsafe { b::__vmalloc_noprof(size, b::RRXE_GFP_USER_CHOICE) };
        let base = NonNull::new(base).ok_or(ENOMEM)?;
        // INVARIANT: It was allocated just so.
        Ok(Arc::new(Self { base, bytes }, GFP_KERNEL)?)
    }

    /// All of the memory.
    pub(crate) fn words(&self) -> &[SharedWord] {
        let len = self.bytes / size_of::<SharedWord>();
        // SAFETY: By the type invariants there are `len` initialised words at the page aligned
        // `base`, they live as long as `self`, and no other kind of reference to them exists than
        // those that allow for changes behind their back.
        unsafe { slice::from_raw_parts(self.base.as_ptr().cast::<SharedWord>(), len) }
    }

    /// The 32 bits at `OFFSET` bytes, which lie in the first page.
    pub(crate) fn atomic<const OFFSET: usize>(&self) -> &Atomic<u32> {
        const {
            assert!(OFFSET % size_of::<u32>() == 0 && OFFSET < PAGE_SIZE);
        }
        // SAFETY: By the type invariants there is at least a page.
        let ptr = unsafe { self.base.as_ptr().cast::<u32>().byte_add(OFFSET) };
        // SAFETY: `ptr` is aligned as `base` and `OFFSET` are, points to initialised memory that
        // lives as long as `self`, and all accesses to it are atomic or volatile.
        unsafe { Atomic::from_ptr(ptr) }
    }
}

impl Mappable for SharedMem {
    fn size(&self) -> usize {
        self.bytes
    }

    fn map(&self, vma: &VmaNew) -> Result {
        vma.set_dontexpand();
        vma.set_dontdump();
        for offset in (0..self.bytes).step_by(PAGE_SIZE) {
            let address = vma.start().checked_add(offset).ok_or(EINVAL)?;
            // SAFETY: The pages are those from `base` to `bytes`, by the type invariants.
            let page = unsafe { self.base.as_ptr().byte_add(offset) };
            // SAFETY: As above.
            let page = unsafe { b::vmalloc_to_page(page) };
            // SAFETY: The area is being set up by `mmap`, hence with the lock held that this needs. The
            // call checks that the address is in it, and takes a reference of the page.
            to_result(unsafe { b::vm_insert_page(vma.as_ptr(), address, page) })?;
        }
        Ok(())
    }
}

impl Drop for SharedMem {
    fn drop(&mut self) {
        // SAFETY: By the type invariants `base` came from `vmalloc()`. The kernel's last use
        // of it has ended, user mappings hold references of their own to the pages.
        unsafe { b::vfree(self.base.as_ptr()) };
    }
}
