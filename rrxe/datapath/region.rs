// SPDX-License-Identifier: GPL-2.0

//! Memory that work requests and peers may use.

use crate::kapi::{
    dma_buf::BufferPart,
    errand::{
        Errand,
        Go, //
    },
    mem::Rights,
    rdma::{
        Chunks,
        Demand,
        DirectMap,
        ImplicitUmem,
        MissingPage,
        PagedUmem,
        Umem, //
    },
};
use kernel::{
    prelude::*,
    sync::{
        atomic::{
            Atomic,
            Relaxed, //
        },
        rcu,
        Arc, //
    },
};
use rrxe_proto::{
    mw::{
        self,
        Bonds, //
    },
    rc::LocalFailed,
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
///
/// It does not change: a region that is registered anew is another one, in the same place of the
/// table.
pub(crate) struct Mr {
    key: Key,
    pd: PdId,
    access: Access,
    /// What the consumer and its peers call the first byte.
    iova: u64,
    memory: Arc<Memory>,
    bonds: Arc<Windows>,
}

/// What stands behind a region.
pub(crate) enum Memory {
    /// Pages of a user process that stay.
    Pinned(Umem),
    /// Pages of a user process that come and go.
    Paged(PagedUmem),
    /// All that a user process has, each byte called by its address; its pages come and go.
    Implicit(ImplicitUmem),
    /// A part of a buffer that some driver has made.
    Buffer(BufferPart),
    /// All of the kernel's, each byte called by its address.
    Direct(DirectMap),
}

/// What keeps a region registered: a window that is bound to it.
pub(super) struct Bond(Arc<Windows>);

impl Drop for Bond {
    fn drop(&mut self) {
        let _ = self.0.change(|bonds| Some(bonds.released()));
    }
}

/// The windows that are bound to a region: [`Bonds`].
struct Windows(Atomic<u32>);

impl Windows {
    /// Makes what `change` says of them, and tells whether it said something. Any context.
    fn change(&self, change: impl Fn(Bonds) -> Option<Bonds>) -> bool {
        let mut bonds = self.0.load(Relaxed);
        loop {
            let Some(changed) = change(Bonds::from_bits(bonds)) else {
                return false;
            };
            match self.0.cmpxchg(bonds, changed.bits(), Relaxed) {
                Ok(_) => return true,
                Err(now) => bonds = now,
            }
        }
    }
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
    /// Memory of protection domain `pd`, whose first byte is called `iova`. May sleep.
    pub(crate) fn new(
        key: Key,
        pd: PdId,
        access: Access,
        iova: u64,
        memory: Arc<Memory>,
    ) -> Result<Self> {
        Ok(Self {
            key,
            pd,
            access,
            iova,
            memory,
            bonds: Arc::new(Windows(Atomic::new(Bonds::NONE.bits())), GFP_KERNEL)?,
        })
    }

    /// Whether it is the one that an object of the protection domain `pd` names by `key`.
    pub(super) fn is_named(&self, key: Key, pd: PdId) -> bool {
        self.key == key && self.pd == pd
    }

    /// What stands behind it.
    pub(crate) fn memory(&self) -> &Arc<Memory> {
        &self.memory
    }

    /// What a window has to know of it.
    pub(crate) fn bounds(&self) -> mw::Region {
        mw::Region {
            access: self.access,
            va: self.iova,
            len: self.memory.len(),
        }
    }

    /// Binds a window to it, unless it is [retired](Self::retire). Any context.
    pub(super) fn bond(&self) -> Result<Bond, LocalFailed> {
        match self.bonds.change(Bonds::bound) {
            true => Ok(Bond(self.bonds.clone())),
            false => Err(LocalFailed),
        }
    }

    /// Has no window be bound to it any more. `EBUSY` if there are such.
    pub(crate) fn retire(&self) -> Result {
        match self.bonds.change(Bonds::retired) {
            true => Ok(()),
            false => Err(EBUSY),
        }
    }

    /// How many windows are bound to it.
    pub(crate) fn windows(&self) -> u32 {
        Bonds::from_bits(self.bonds.0.load(Relaxed)).count()
    }

    /// Whether what is written to it is to outlive a loss of power.
    pub(super) fn is_persistent(&self) -> bool {
        self.access.contains(Access::FLUSH_PERSISTENT)
    }

    /// Checks that an object of the protection domain `pd` that shows `key` may use it in the way
    /// that `access` says.
    pub(super) fn admit(&self, key: Key, pd: PdId, access: Access) -> Result<(), Fault> {
        if self.key != key {
            return Err(Fault::Key);
        }
        if self.pd != pd {
            return Err(Fault::Domain);
        }
        if !self.access.contains(access) {
            return Err(Fault::Rights);
        }
        Ok(())
    }

    /// Returns the range of `length` bytes at `iova`, to be used by an object of the protection
    /// domain `pd` that shows `key`, in the way that `access` says. Any context.
    ///
    /// To write into it, `access` has to have a right to do so in it: memory without may be
    /// shared with whoever the process has it from, and has no range that can be written to.
    pub(crate) fn range<'a, R: Rights>(
        &'a self,
        key: Key,
        pd: PdId,
        access: Access,
        iova: u64,
        length: u32,
        guard: &'a rcu::Guard,
    ) -> Result<Chunks<'a, R>, Fault> {
        self.admit(key, pd, access)?;
        iova.checked_sub(self.iova)
            .and_then(|offset| self.memory.chunks(offset, length as usize, guard))
            .ok_or(Fault::Range)
    }
}

impl Mr {
    /// Has the pages of `length` bytes at `iova` come in, for the owner of the protection domain `pd`
    /// who shows `key`, and expects them to be used as `R` says. Process context, sleeps.
    ///
    /// `EFAULT` if there is no such range, or the process has no memory there; `EPERM` if it may not
    /// be used so; `EINVAL` if its pages do not come and go.
    pub(crate) fn prefetch<R: Rights>(
        &self,
        key: Key,
        pd: PdId,
        iova: u64,
        length: u32,
        demand: Demand,
    ) -> Result {
        if self.key != key {
            return Err(EFAULT);
        }
        if self.pd != pd || R::WRITE && !self.access.contains(Access::LOCAL_WRITE) {
            return Err(EPERM);
        }
        let offset = iova
            .checked_sub(self.iova)
            .and_then(|offset| usize::try_from(offset).ok())
            .ok_or(EFAULT)?;
        match &*self.memory {
            Memory::Paged(umem) => umem.page_in_all::<R>(offset, length as usize, demand),
            Memory::Implicit(umem) => umem.page_in_all::<R>(offset, length as usize, demand),
            Memory::Pinned(_) | Memory::Buffer(_) | Memory::Direct(_) => Err(EINVAL),
        }
    }

    /// Goes on `errand`, which is to [supply](Self::supply) pages; tells whether they come and go here.
    /// Any context.
    pub(super) fn page_in_by<T: Go>(&self, errand: &Arc<Errand<T>>) -> bool {
        match &*self.memory {
            Memory::Paged(umem) => umem.send(errand),
            Memory::Implicit(umem) => umem.send(errand),
            Memory::Pinned(_) | Memory::Buffer(_) | Memory::Direct(_) => return false,
        }
        true
    }

    /// Has a page come in that somebody who showed `key` did not find. Process context, sleeps.
    ///
    /// Fails if there is no such page. If this is another region nothing is done.
    pub(super) fn supply(&self, key: Key, page: MissingPage) -> Result {
        match &*self.memory {
            Memory::Paged(umem) if self.key == key => umem.supply(page),
            Memory::Implicit(umem) if self.key == key => umem.supply(page),
            _ => Ok(()),
        }
    }
}

impl Memory {
    /// Whether its pages come and go.
    pub(crate) fn is_paged(&self) -> bool {
        match self {
            Self::Paged(_) | Self::Implicit(_) => true,
            Self::Pinned(_) | Self::Buffer(_) | Self::Direct(_) => false,
        }
    }

    /// Whether it may be written to, by whoever has the right.
    pub(crate) fn is_writable(&self) -> bool {
        match self {
            Self::Pinned(umem) => umem.is_writable(),
            Self::Paged(umem) => umem.is_writable(),
            Self::Implicit(umem) => umem.is_writable(),
            Self::Buffer(part) => part.is_writable(),
            Self::Direct(_) => true,
        }
    }

    /// Whether it outlives a loss of power. Of pages that come and go nobody knows.
    pub(crate) fn is_persistent(&self) -> bool {
        match self {
            Self::Pinned(umem) => umem.is_persistent(),
            Self::Paged(_) | Self::Implicit(_) | Self::Buffer(_) | Self::Direct(_) => false,
        }
    }

    /// Bytes.
    fn len(&self) -> u64 {
        match self {
            Self::Pinned(umem) => umem.len() as u64,
            Self::Paged(umem) => umem.len() as u64,
            Self::Buffer(part) => part.len() as u64,
            Self::Implicit(_) | Self::Direct(_) => u64::MAX,
        }
    }

    fn chunks<'a, R: Rights>(
        &'a self,
        offset: u64,
        length: usize,
        guard: &'a rcu::Guard,
    ) -> Option<Chunks<'a, R>> {
        match self {
            Self::Pinned(umem) => umem
                .chunks(usize::try_from(offset).ok()?, length)
                .map(Chunks::Pinned),
            Self::Paged(umem) => umem
                .chunks(usize::try_from(offset).ok()?, length, guard)
                .map(Chunks::Paged),
            Self::Implicit(umem) => umem
                .chunks(usize::try_from(offset).ok()?, length, guard)
                .map(Chunks::Implicit),
            Self::Buffer(part) => part
                .chunk(usize::try_from(offset).ok()?, length)
                .map(Some)
                .map(Chunks::Whole),
            Self::Direct(map) => map.chunk(offset, length).map(Some).map(Chunks::Whole),
        }
    }
}
