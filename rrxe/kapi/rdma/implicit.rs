// SPDX-License-Identifier: GPL-2.0

//! The whole address space of a user process, whose pages come when they are needed ("implicit
//! on-demand paging").
//!
//! There is a table of pages for each stretch of the address space in which some have been needed. It
//! goes when the process has unmapped all of them, and, if there get to be many, when others are
//! needed.
//!
//! # Locking
//!
//! A mutex guards which stretches there are. Under it pages are taken out of the tables of those that
//! go, and the kernel is told to call the notifiers of new ones; notifiers do not take it.
//!
//! C header: [`include/rdma/ib_umem_odp.h`](srctree/include/rdma/ib_umem_odp.h)

use super::{
    paged::{
        Demand,
        MissingPage,
        Paged,
        PagedChunks,
        PagedUmem, //
    },
    pager::PagerUse,
    IbDevice,
    UserRegion, //
};
use crate::kapi::{
    bindings as b,
    charge::Charge,
    errand::{
        Errand,
        Go, //
    },
    mem::{
        Chunk,
        Rights, //
    },
    sync::RcuTable,
    work::{
        enqueue_unbound,
        new_work,
        Run,
        Work, //
    },
};
use core::ptr::NonNull;
use kernel::{
    error::from_err_ptr,
    mm::Mm,
    new_mutex,
    prelude::*,
    sync::{
        aref::ARef,
        rcu,
        Arc,
        Mutex, //
    },
};

/// Bits of an address within a stretch of 16 MiB: with that, numbers of stretches have 32.
const SHIFT: u32 = 24;

/// Bytes of a stretch.
const STRETCH: usize = 1 << SHIFT;

/// Stretches of one region, at most.
const MAX_STRETCHES: u32 = 1024;

/// All memory of a user process, called by its addresses. Nothing of it is pinned.
///
/// To be dropped in process context; that sleeps.
pub(crate) struct ImplicitUmem {
    stretches: Arc<Stretches>,
    reaper: Arc<Work<Reaper>>,
    pager: PagerUse,
}

impl ImplicitUmem {
    /// All memory of the calling process, none of whose pages is there yet.
    ///
    /// May sleep. `EINVAL` if huge pages are asked for, `ENOMEM` when out of memory.
    pub(super) fn new(device: &IbDevice, region: &UserRegion) -> Result<Self> {
        let root = Root::new(device, region)?;
        let pager = PagerUse::of(root.mm.as_raw().addr())?;
        let stretches = Arc::pin_init(
            pin_init!(Stretches {
                root,
                present <- RcuTable::new(0),
                extent <- new_mutex!(Extent::default(), "rrxe::ImplicitUmem"),
            }),
            GFP_KERNEL_ACCOUNT,
        )?;
        let reaper = Reaper(stretches.clone());
        Ok(Self {
            stretches,
            pager,
            reaper: Arc::pin_init(
                new_work!(reaper, "rrxe::ImplicitUmem::reaper"),
                GFP_KERNEL_ACCOUNT,
            )?,
        })
    }

    /// Whether it was registered to be written to. If not, there is no writing to it.
    pub(crate) fn is_writable(&self) -> bool {
        self.stretches.root.is_writable()
    }

    /// Returns `length` bytes at the address `offset`, as far as they are there. Any context.
    ///
    /// `None` if a process cannot have as many there, or if they are to be written to and may not be.
    pub(crate) fn chunks<'a, R: Rights>(
        &'a self,
        offset: usize,
        length: usize,
        guard: &'a rcu::Guard,
    ) -> Option<PagedChunks<'a, Self, R>> {
        let end = offset.checked_add(length)?;
        if end > self.stretches.root.end() || R::WRITE && !self.is_writable() {
            return None;
        }
        Some(PagedChunks::new(self, offset..end, guard))
    }

    /// Has the pages of `length` bytes at `offset` come in. Process context, sleeps.
    ///
    /// `EFAULT` if the process has no such pages, `EINTR` if it is told to stop meanwhile.
    pub(crate) fn page_in_all<R: Rights>(
        &self,
        offset: usize,
        length: usize,
        demand: Demand,
    ) -> Result {
        let end = offset.checked_add(length).ok_or(EFAULT)?;
        let mut at = offset;
        while at < end {
            let part = end.min((at | (STRETCH - 1)).saturating_add(1)) - at;
            self.within(at, |stretch, at| stretch.page_in_all::<R>(at, part, demand))?;
            at += part;
        }
        Ok(())
    }

    /// Goes on `errand`, which is to [supply](Self::supply) pages, by a thread for this process. Any
    /// context.
    pub(crate) fn send<T: Go>(&self, errand: &Arc<Errand<T>>) {
        self.pager.send(errand);
    }

    /// Has a page come in that was found to be missing. Process context, sleeps. Errors as
    /// [`page_in_all`](Self::page_in_all).
    pub(crate) fn supply(&self, page: MissingPage) -> Result {
        self.within(page.offset(), |stretch, at| stretch.supply(page.at(at)))
    }

    /// Does something with the stretch that has the address `at`, and the place of that in it.
    fn within(&self, at: usize, action: impl FnOnce(&PagedUmem, usize) -> Result) -> Result {
        let stretch = self.stretches.need(at, &self.reaper)?;
        action(&stretch, at % STRETCH).inspect_err(|_| {
            // Peers can name any address. Those where there is nothing shall not cost memory.
            if stretch.is_empty() {
                enqueue_unbound(&self.reaper);
            }
        })
    }
}

impl Paged for ImplicitUmem {
    fn chunk<'a, R: Rights>(
        &self,
        offset: usize,
        length: usize,
        guard: &'a rcu::Guard,
    ) -> Option<Chunk<'a, R>> {
        let index = Stretches::index(offset)?;
        let stretch = self.stretches.present.get(index, guard)?;
        stretch.chunk(offset % STRETCH, length, guard)
    }
}

impl Drop for ImplicitUmem {
    fn drop(&mut self) {
        self.reaper.disable();
        self.stretches.clear(|_| true);
    }
}

/// The stretches of an address space in which pages have been needed.
#[pin_data]
struct Stretches {
    root: Root,
    /// By the upper bits of their addresses.
    #[pin]
    present: RcuTable<PagedUmem>,
    #[pin]
    extent: Mutex<Extent>,
}

/// How much of an address space there is.
#[derive(Default)]
struct Extent {
    /// Number of stretches.
    count: u32,
    /// Where to look for one that can go.
    hand: u32,
}

impl Stretches {
    /// The number of the stretch that has the address `at`.
    fn index(at: usize) -> Option<u32> {
        u32::try_from(at >> SHIFT).ok()
    }

    /// The stretch that has the address `at`, which is made if need be. `reaper` is to run when the
    /// process has unmapped it.
    fn need(&self, at: usize, reaper: &Arc<Work<Reaper>>) -> Result<Arc<PagedUmem>> {
        let index = Self::index(at)
            .filter(|_| at < self.root.end())
            .ok_or(EFAULT)?;
        if let Some(stretch) = self.find(index) {
            return Ok(stretch);
        }
        let mut extent = self.extent.lock();
        if let Some(stretch) = self.find(index) {
            return Ok(stretch);
        }
        if extent.count >= MAX_STRETCHES {
            self.make_room(&mut extent);
        }
        let start = index as usize * STRETCH;
        // Most are made by threads of the kernel.
        let _charge = Charge::to(&self.root.mm);
        let stretch = self.root.stretch(start, reaper.clone())?;
        let stretch = Arc::new(stretch, GFP_KERNEL_ACCOUNT)?;
        self.present
            .insert_at(index, stretch.clone(), GFP_KERNEL_ACCOUNT)?;
        extent.count += 1;
        Ok(stretch)
    }

    fn find(&self, index: u32) -> Option<Arc<PagedUmem>> {
        let guard = rcu::read_lock();
        self.present.get(index, &guard).map(Arc::from)
    }

    /// Lets a stretch go, each in its turn. Its pages come in again when they are needed.
    fn make_room(&self, extent: &mut Extent) {
        let next = self.present.first_from(extent.hand);
        if let Some((index, _)) = next.or_else(|| self.present.first_from(0)) {
            extent.hand = index.wrapping_add(1);
            self.remove(index, extent);
        }
    }

    /// Lets those stretches go that are `unneeded`.
    fn clear(&self, unneeded: impl Fn(&PagedUmem) -> bool) {
        let mut from = Some(0);
        while let Some((index, stretch)) = from.and_then(|from| self.present.first_from(from)) {
            if unneeded(&stretch) {
                self.remove(index, &mut self.extent.lock());
            }
            from = index.checked_add(1);
        }
    }

    fn remove(&self, index: u32, extent: &mut Extent) {
        if self.present.remove(index).is_some() {
            extent.count -= 1;
        }
    }
}

/// Lets stretches go that the process has unmapped.
struct Reaper(Arc<Stretches>);

impl Run for Reaper {
    fn run(&self) {
        self.0.clear(PagedUmem::is_empty);
    }
}

/// What all stretches have in common.
///
/// # Invariants
///
/// `umem` points to an implicit `ib_umem_odp` of `device` that is ours to release, and that is of the
/// process whose memory is `mm`.
struct Root {
    umem: NonNull<b::ib_umem_odp>,
    /// The C object has no reference of it.
    mm: ARef<Mm>,
    device: ARef<IbDevice>,
}

// SAFETY: Any thread may use and release the C object.
unsafe impl Send for Root {}

// SAFETY: The C object does not change.
unsafe impl Sync for Root {}

impl Root {
    fn new(device: &IbDevice, region: &UserRegion) -> Result<Self> {
        let task = kernel::current!();
        let mm: &Mm = task.mm().ok_or(EINVAL)?;
        // SAFETY: The device is alive, and this is the process.
        let umem = unsafe {
            b::ib_umem_odp_alloc_implicit(device.as_raw(), region.access as c_int)
            //
        };
        // INVARIANT: Just made.
        Ok(Self {
            umem: NonNull::new(from_err_ptr(umem)?).ok_or(ENOMEM)?,
            mm: mm.into(),
            device: device.into(),
        })
    }

    /// Where addresses of the process end.
    fn end(&self) -> usize {
        // SAFETY: The memory is referenced.
        unsafe { b::helpers::mm_task_size(self.mm.as_raw().cast()) }
    }

    /// Whether it was made to be written to.
    fn is_writable(&self) -> bool {
        // SAFETY: Valid by the type invariant, and never changed.
        unsafe { self.umem.as_ref() }.umem.writable() != 0
    }

    /// The stretch at `start`.
    fn stretch(&self, start: usize, reaper: Arc<Work<Reaper>>) -> Result<PagedUmem> {
        // SAFETY: Valid by the type invariant. The memory of the process is referenced.
        unsafe { PagedUmem::of_root(&self.device, self.umem, start, STRETCH, Idle(reaper)) }
    }
}

impl Drop for Root {
    fn drop(&mut self) {
        // SAFETY: Ours to release by the type invariant.
        unsafe { b::ib_umem_odp_release(self.umem.as_ptr()) };
    }
}

/// Whom to tell that a stretch has no pages any more.
pub(super) struct Idle(Arc<Work<Reaper>>);

impl Idle {
    /// Tells. Any context.
    pub(super) fn tell(&self) {
        enqueue_unbound(&self.0);
    }
}
