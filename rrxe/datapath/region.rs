// SPDX-License-Identifier: GPL-2.0

//! Memory that work requests and peers may use.

use crate::kapi::{
    mem::Rights,
    rdma::{
        Chunks,
        DirectMap,
        Umem, //
    },
};
use rrxe_proto::{
    Access,
    Key, //
};

/// Number of a protection domain, never used again on its device: objects whose numbers are
/// equal may be used with one another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct PdId(u64);

impl PdId {
    /// The protection domain with that number.
    pub(crate) const fn new(number: u64) -> Self {
        Self(number)
    }
}

/// Memory that work requests and peers may use.
pub(crate) struct Mr {
    key: Key,
    pd: PdId,
    access: Access,
    /// What the consumer and its peers call the first byte.
    iova: u64,
    memory: Memory,
}

/// What stands behind a region.
pub(crate) enum Memory {
    /// Pages of a user process.
    Pinned(Umem),
    /// All of the kernel's, each byte called by its address.
    Direct(DirectMap),
}

/// Why memory may not be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fault {
    /// The key is another one.
    Key,
    /// The memory and its user are of different protection domains.
    Domain,
    /// The memory may not be used in this way.
    Rights,
    /// The range is not within the memory.
    Range,
}

impl Mr {
    /// Memory of protection domain `pd`, whose first byte is called `iova`.
    pub(crate) fn new(key: Key, pd: PdId, access: Access, iova: u64, memory: Memory) -> Self {
        Self {
            key,
            pd,
            access,
            iova,
            memory,
        }
    }

    /// Returns the range of `length` bytes at `iova`, to be used by an object of the protection
    /// domain `pd` that shows `key`, in the way that `access` says. Any context.
    ///
    /// To write into it, `access` has to have a right to do so in it: memory without may be
    /// shared with whoever the process has it from, and has no range that can be written to.
    pub(crate) fn range<R: Rights>(
        &self,
        key: Key,
        pd: PdId,
        access: Access,
        iova: u64,
        length: u32,
    ) -> Result<Chunks<'_, R>, Fault> {
        if self.key != key {
            return Err(Fault::Key);
        }
        if self.pd != pd {
            return Err(Fault::Domain);
        }
        if !self.access.contains(access) {
            return Err(Fault::Rights);
        }
        iova.checked_sub(self.iova)
            .and_then(|offset| self.memory.chunks(offset, length as usize))
            .ok_or(Fault::Range)
    }
}

impl Memory {
    fn chunks<R: Rights>(&self, offset: u64, length: usize) -> Option<Chunks<'_, R>> {
        match self {
            Self::Pinned(umem) => umem
                .chunks(usize::try_from(offset).ok()?, length)
                .map(Chunks::Pinned),
            Self::Direct(map) => map.chunk(offset, length).map(Some).map(Chunks::Direct),
        }
    }
}
