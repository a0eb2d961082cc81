// SPDX-License-Identifier: GPL-2.0

//! Kernel memory that user space maps.
//!
//! A driver allocates [`SharedMem`], offers it in the [`MmapTable`] of the user context that owns
//! the object, and tells user space the offset and the size. User space passes them to `mmap` on
//! the device file, once.
//!
//! # Lifetimes
//!
//! An offer is withdrawn when its [`Offer`] is dropped, which its owner does with the object: what
//! was never mapped leaves nothing behind.
//!
//! What was mapped stays valid for user space after the object is gone, until it unmaps it, and in
//! its children too: each page table entry holds a reference to its page, and `vfree()` only gives
//! up the kernel's own. Mappings thus need no `vm_operations_struct` of this module, and none
//! keeps it from being unloaded. (The core's own operations, which it sets before it calls the
//! driver, do nothing for a mapping without `vm_private_data`, except that they turn a fault in a
//! hole that `madvise` tore into `SIGBUS`.)
//!
//! # Locking
//!
//! The table's lock is a leaf. Memory is neither allocated nor freed under it.

use core::{
    cell::UnsafeCell,
    ptr::NonNull,
    slice, //
};

use kernel::{
    alloc::flags::GFP_KERNEL,
    error::to_result,
    mm::virt::VmaNew,
    new_spinlock,
    page::{
        page_align,
        PAGE_SHIFT,
        PAGE_SIZE, //
    },
    prelude::*,
    rbtree::{
        RBTree,
        RBTreeNodeReservation, //
    },
    sync::{
        atomic::Atomic,
        Arc,
        SpinLock, //
    }, //
};

use super::bindings as b;

/// Distance that offsets keep, bytes: so that kernel and user addresses of a page fall on the same
/// colour in a virtually indexed cache.
const OFFSET_ALIGN: u64 = 1 << 16;

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

/// Zeroed pages that user space can map.
///
/// Its user may read and write all of it at any time.
///
/// # Invariants
///
/// `base` is what `vmalloc_user()` gave for `bytes` bytes. `bytes` is a positive multiple of
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
        // SAFETY: May be called with any size.
        let base = unsafe { b::vmalloc_user_noprof(size) };
        let base = NonNull::new(base).ok_or(ENOMEM)?;
        // INVARIANT: It was allocated just so.
        Ok(Arc::new(Self { base, bytes }, GFP_KERNEL)?)
    }

    /// Size in bytes, a multiple of the page size.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes
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

impl Drop for SharedMem {
    fn drop(&mut self) {
        // SAFETY: By the type invariants `base` came from `vmalloc_user()`. The kernel's last use
        // of it has ended, user mappings hold references of their own to the pages.
        unsafe { b::vfree(self.base.as_ptr()) };
    }
}

/// What a user context may map.
#[pin_data]
pub(crate) struct MmapTable {
    #[pin]
    offers: SpinLock<Offers>,
}

struct Offers {
    /// Where the next offer goes. Never goes back, so that a stale offset means nothing.
    next: u64,
    waiting: RBTree<u64, Arc<SharedMem>>,
}

impl MmapTable {
    /// Makes an empty table.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub(crate) fn new() -> Result<Arc<Self>> {
        Arc::pin_init(
            pin_init!(Self {
                offers <- new_spinlock!(
                    Offers {
                        next: OFFSET_ALIGN,
                        waiting: RBTree::new(),
                    },
                    "rrxe::MmapTable"
                ),
            }),
            GFP_KERNEL,
        )
    }

    /// Maps, into `vma`, memory that is offered at its offset. The offer is used up.
    ///
    /// For the driver's `mmap`.
    ///
    /// # Errors
    ///
    /// `EINVAL` if there is no such offer, or if it is smaller than the area; the offer then
    /// stands. What `remap_vmalloc_range()` fails with.
    pub(crate) fn map(&self, vma: &VmaNew) -> Result {
        let vma_ptr = vma.as_ptr();
        // SAFETY: The area is being set up, nobody changes it meanwhile.
        let page = unsafe { (*vma_ptr).vm_pgoff };
        let page = u64::try_from(page)?;
        let offset = page.checked_mul(1 << PAGE_SHIFT).ok_or(EINVAL)?;
        let bytes = vma.end().checked_sub(vma.start()).ok_or(EINVAL)?;

        let node = {
            let mut offers = self.offers.lock();
            let memory = offers.waiting.get(&offset).ok_or(EINVAL)?;
            if bytes > memory.bytes() {
                return Err(EINVAL);
            }
            offers.waiting.remove_node(&offset).ok_or(EINVAL)?
        };
        let (_, memory) = node.to_key_value();

        // SAFETY: The area is being set up by `mmap`, hence with the lock held that this needs.
        // The memory came from `vmalloc_user()` and stays allocated during the call.
        to_result(unsafe { b::remap_vmalloc_range(vma_ptr, memory.base.as_ptr(), 0) })
    }
}

/// An offer to map some memory. Dropping it withdraws the offer, if it has not been used.
pub(crate) struct Offer {
    table: Arc<MmapTable>,
    offset: u64,
}

impl Offer {
    /// Offers `memory` in `table`. May sleep.
    ///
    /// # Errors
    ///
    /// `ENOMEM`; `ENOSPC` if the table has run out of offsets.
    pub(crate) fn new(table: &Arc<MmapTable>, memory: Arc<SharedMem>) -> Result<Self> {
        let bytes = u64::try_from(memory.bytes())?;
        let reservation = RBTreeNodeReservation::new(GFP_KERNEL)?;
        let mut offers = table.offers.lock();
        let offset = offers.next;
        offers.next = bytes
            .checked_next_multiple_of(OFFSET_ALIGN)
            .and_then(|room| offset.checked_add(room))
            .ok_or(ENOSPC)?;
        offers
            .waiting
            .insert(reservation.into_node(offset, memory));
        drop(offers);
        Ok(Self {
            table: table.clone(),
            offset,
        })
    }

    /// Offset to pass to `mmap`, bytes.
    pub(crate) fn offset(&self) -> u64 {
        self.offset
    }
}

impl Drop for Offer {
    fn drop(&mut self) {
        let node = self.table.offers.lock().waiting.remove_node(&self.offset);
        // The lock has been released, freeing may sleep.
        drop(node);
    }
}
