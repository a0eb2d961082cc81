// SPDX-License-Identifier: GPL-2.0

//! Memory that users inside the kernel name by its address.
//!
//! The device does no DMA of its own: a DMA address is an address of the kernel's, in the part of the
//! address space where all memory is mapped.

use crate::kapi::{
    bindings as b,
    mem::{
        Chunk,
        Rights, //
    },
};
use core::ptr::{
    self,
    NonNull, //
};

/// The right to use any memory that the kernel maps directly.
///
/// Only users inside the kernel are given regions of it. They, and peers to whom they give the key,
/// answer for the addresses.
pub(crate) struct DirectMap(());

impl DirectMap {
    /// # Safety
    ///
    /// Who uses this must pass on no addresses but those of users inside the kernel, or of peers that
    /// these have given the key of such a region.
    pub(super) unsafe fn new() -> Self {
        Self(())
    }

    /// The memory at `addr`, or `None` if that is not all directly mapped. Any context.
    pub(crate) fn chunk<R: Rights>(&self, addr: u64, length: usize) -> Option<Chunk<'_, R>> {
        let addr = usize::try_from(addr).ok()?;
        // SAFETY: Only looks at the numbers.
        if !unsafe { b::helpers::is_direct_mapped(addr, length) } {
            return None;
        }
        let start = NonNull::new(ptr::with_exposed_provenance_mut(addr))?;
        // SAFETY: It is mapped. Who named it has given it to the device, by the requirements of
        // `new`: until the request completes, or for as long as peers have the key.
        Some(unsafe { Chunk::from_raw_parts(start, length) })
    }
}
