// SPDX-License-Identifier: GPL-2.0

//! Memory that a driver shares with a user process.
//!
//! The driver calls [`Udata::share`](super::Udata::share) while it makes an object and tells
//! its library the offset to map. The RDMA core keeps the offsets; they are valid until the
//! object is destroyed.
//!
//! A mapping holds references of the pages themselves. So it may outlive the object, the
//! device (the process did not close its file when the device went away) and even the
//! module, none of whose code it needs: the `vm_operations_struct` is the core's.

use crate::kapi::bindings as b;
use core::ptr::NonNull;
use kernel::{
    error::{
        from_result,
        to_result, //
    },
    mm::virt::VmaNew,
    prelude::*,
    sync::Arc,
    types::Opaque, //
};

/// Memory that can be mapped into a user process.
pub(crate) trait Mappable: Send + Sync {
    /// Bytes, whole pages and not 0.
    fn size(&self) -> usize;

    /// Maps all of the memory into `vma`, which has the right size.
    ///
    /// The mapping must hold references of the pages, as `vm_insert_page()` takes them: it
    /// outlives the memory.
    fn map(&self, vma: &VmaNew) -> Result;
}

/// What the user process needs to know to map shared memory.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Shared {
    /// Where to map from, in the device file.
    pub(crate) offset: u64,
    /// Bytes to map.
    pub(crate) size: usize,
}

/// An offset of the device file and the memory to be had there.
///
/// Counted by the core, freed by [`free`].
#[repr(C)]
struct Entry {
    raw: Opaque<b::rdma_user_mmap_entry>,
    memory: Arc<dyn Mappable>,
}

impl Entry {
    /// The C structure, which is the first member.
    fn raw(entry: NonNull<Self>) -> *mut b::rdma_user_mmap_entry {
        entry.as_ptr().cast()
    }
}

/// Makes memory available to a user context; its drop ends that.
///
/// # Invariants
///
/// Points to an entry of a live user context, with the reference that the insertion gave.
pub(crate) struct Mapping(NonNull<Entry>);

// SAFETY: Entries may be removed by any thread.
unsafe impl Send for Mapping {}

// SAFETY: There is nothing to be done with a shared reference.
unsafe impl Sync for Mapping {}

impl Mapping {
    /// # Safety
    ///
    /// `context` must be valid until the result has been dropped.
    pub(super) unsafe fn new(
        context: NonNull<b::ib_ucontext>,
        memory: Arc<dyn Mappable>,
    ) -> Result<Self> {
        let size = memory.size();
        let entry = KBox::new(
            Entry {
                raw: Opaque::zeroed(),
                memory,
            },
            GFP_KERNEL_ACCOUNT,
        )?;
        // From the insertion on others use the entry: it is no box any more.
        let entry = NonNull::from(KBox::leak(entry));
        let context = context.as_ptr();
        // SAFETY: The entry is new, and stays where it is. Offset 0 is left out so that it
        // can mean "nothing to map".
        let inserted = to_result(unsafe {
            b::rdma_user_mmap_entry_insert_range(context, Entry::raw(entry), size, 1, u32::MAX)
        });
        if let Err(error) = inserted {
            // SAFETY: It was a box just now, and no one else knows it.
            drop(unsafe { KBox::from_raw(entry.as_ptr()) });
            return Err(error);
        }
        // INVARIANT: Just inserted; the context is valid by the requirements.
        Ok(Self(entry))
    }

    pub(super) fn shared(&self) -> Shared {
        // SAFETY: Valid by the type invariant.
        let entry = unsafe { self.0.as_ref() };
        // SAFETY: Set by the insertion, and unchanging since.
        let start = unsafe { (*entry.raw.get()).start_pgoff };
        Shared {
            offset: (start as u64) << b::PAGE_SHIFT,
            size: entry.memory.size(),
        }
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: Valid, and the reference is ours, by the type invariant.
        unsafe { b::rdma_user_mmap_entry_remove(Entry::raw(self.0)) };
    }
}

/// The operation `mmap`.
///
/// # Safety
///
/// To be called by the RDMA core, as [`ops`](super::ops) says.
pub(super) unsafe extern "C" fn mmap(
    context: *mut b::ib_ucontext,
    vma: *mut b::vm_area_struct,
) -> c_int {
    from_result(|| {
        // SAFETY: The core passes a live context and the area that is being set up.
        let raw = unsafe { b::rdma_user_mmap_entry_get(context, vma) };
        let entry = NonNull::new(raw).ok_or(EINVAL)?.cast::<Entry>();
        // SAFETY: As above; no one else uses the area yet.
        let vma = unsafe { VmaNew::from_raw(vma) };
        // SAFETY: All entries are the first member of an `Entry`, and we have a reference.
        let result = unsafe { entry.as_ref() }.memory.map(vma);
        // SAFETY: This is the reference from above.
        unsafe { b::rdma_user_mmap_entry_put(raw) };
        result.map(|()| 0)
    })
}

/// The operation `mmap_free`.
///
/// # Safety
///
/// To be called by the RDMA core, as [`ops`](super::ops) says.
pub(super) unsafe extern "C" fn free(entry: *mut b::rdma_user_mmap_entry) {
    // SAFETY: All entries are the first member of a boxed `Entry`, and this was the last
    // reference.
    drop(unsafe { KBox::from_raw(entry.cast::<Entry>()) });
}
