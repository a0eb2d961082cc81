// SPDX-License-Identifier: GPL-2.0

//! Memory of user processes whose pages come when they are needed ("on-demand paging").
//!
//! C headers: [`include/rdma/ib_umem_odp.h`](srctree/include/rdma/ib_umem_odp.h),
//! [`include/linux/mmu_notifier.h`](srctree/include/linux/mmu_notifier.h)

use super::{
    implicit::Idle,
    pager::PagerUse,
    IbDevice,
    UserRegion, //
};
use crate::kapi::{
    bindings as b,
    errand::{
        Errand,
        Go, //
    },
    mem::{
        Chunk,
        ReadOnly,
        ReadWrite,
        Rights, //
    },
    sync::grace_period,
};
use core::{
    marker::PhantomData,
    ops::{
        Range,
        RangeInclusive, //
    },
    ptr::{
        self,
        NonNull, //
    },
};
use kernel::{
    error::{
        from_err_ptr,
        to_result, //
    },
    mm::{
        Mm,
        MmWithUser, //
    },
    prelude::*,
    sync::{
        aref::ARef,
        atomic::{
            Acquire,
            Atomic,
            Relaxed,
            Release, //
        },
        rcu,
        Arc, //
    },
};

/// How often a page is asked for that the process loses before it has been taken over.
const ATTEMPTS: usize = 16;

/// Memory of a user process that is not pinned: the process may do with it what it likes.
///
/// Readers find its pages under RCU. A page that is not there has to be [brought
/// in](Self::page_in), which sleeps. Before the kernel takes one away it waits for the readers that
/// may have found it.
///
/// To be dropped in process context; that sleeps.
///
/// # Locking
///
/// The C object has a mutex. Pages are put into the table and taken out of it with that held; the RCU
/// grace period of their readers ends while it is.
///
/// # Invariants
///
/// - `umem` points to an `ib_umem_odp` of `device` that is ours to release, and that calls
///   [`invalidate`] with `pages`.
/// - The table of `pages` has an entry for each page of it.
/// - `len` bytes from `offset` on lie in those pages.
pub(crate) struct PagedUmem {
    umem: NonNull<b::ib_umem_odp>,
    pages: Arc<Pages>,
    /// Of the first byte, in the first page.
    offset: usize,
    len: usize,
    pager: PagerUse,
    /// The release uses it, which may come after the device has been unregistered.
    _device: ARef<IbDevice>,
}

// SAFETY: Any thread may bring pages in, and release the C object.
unsafe impl Send for PagedUmem {}

// SAFETY: The C object has a mutex, and the table is atomic.
unsafe impl Sync for PagedUmem {}

/// A page that has to be brought in before bytes of it can be had.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct MissingPage {
    /// Of a byte of it, in the memory.
    offset: usize,
    purpose: Purpose,
}

/// What a page is needed for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Purpose {
    Read,
    Write,
}

impl MissingPage {
    /// The page of the byte at `offset`, which is needed for `purpose`.
    fn new(offset: usize, purpose: Purpose) -> Self {
        Self { offset, purpose }
    }

    /// Of a byte of it, in the memory.
    pub(super) fn offset(&self) -> usize {
        self.offset
    }

    /// The same, in memory where the byte is at `offset`.
    pub(super) fn at(&self, offset: usize) -> Self {
        Self { offset, ..*self }
    }
}

impl Purpose {
    /// What somebody with the rights `R` needs it for.
    const fn of<R: Rights>() -> Self {
        if R::WRITE {
            Self::Write
        } else {
            Self::Read
        }
    }
}

/// What is done about pages that are not there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Demand {
    /// They are brought in.
    Fault,
    /// Those that the process has already are taken over.
    Peek,
}

impl PagedUmem {
    /// Memory of the calling process, none of whose pages is there yet.
    ///
    /// May sleep. `EOVERFLOW` or `EINVAL` if there is no such range, `ENOMEM` when out of memory.
    pub(super) fn new(device: &IbDevice, region: &UserRegion) -> Result<Self> {
        let (start, len) = (
            usize::try_from(region.range.start)?,
            usize::try_from(region.range.length)?,
        );
        // SAFETY: The device is alive; the core checks the range. The operations are static.
        let umem = unsafe {
            b::ib_umem_odp_get(
                device.as_raw(),
                start,
                len,
                region.access as c_int,
                &raw const OPS,
            )
        };
        let umem = NonNull::new(from_err_ptr(umem)?).ok_or(ENOMEM)?;
        Self::adopt(device, umem, start, len, None)
    }

    /// `len` bytes from `start` on of the memory that the implicit C object `root` of `device` stands
    /// for, both at the boundaries of pages. `idle` is told when the process has unmapped all of them.
    ///
    /// May sleep. `ENOMEM` when out of memory, `EFAULT` if the process has ended.
    ///
    /// # Safety
    ///
    /// `root` must be valid, and so must be the memory it stands for.
    pub(super) unsafe fn of_root(
        device: &IbDevice,
        root: NonNull<b::ib_umem_odp>,
        start: usize,
        len: usize,
        idle: Idle,
    ) -> Result<Self> {
        // SAFETY: The caller promises that the object is valid. The operations are static.
        let umem = unsafe { b::ib_umem_odp_alloc_child(root.as_ptr(), start, len, &raw const OPS) };
        let umem = NonNull::new(from_err_ptr(umem)?).ok_or(ENOMEM)?;
        Self::adopt(device, umem, start, len, Some(idle))
    }

    /// What `umem` stands for, which was just made for the caller.
    fn adopt(
        device: &IbDevice,
        umem: NonNull<b::ib_umem_odp>,
        start: usize,
        len: usize,
        idle: Option<Idle>,
    ) -> Result<Self> {
        Self::with_table(device, umem, start, len, idle).inspect_err(|_| {
            // SAFETY: It was just made for us, and nobody has it.
            unsafe { b::ib_umem_odp_release(umem.as_ptr()) };
        })
    }

    /// What `umem` stands for, which is the caller's to release if this fails.
    fn with_table(
        device: &IbDevice,
        umem: NonNull<b::ib_umem_odp>,
        start: usize,
        len: usize,
        idle: Option<Idle>,
    ) -> Result<Self> {
        // SAFETY: `umem` is valid; the bounds never change.
        let (first, end) = unsafe {
            (
                b::helpers::ib_umem_start(umem.as_ptr()),
                b::helpers::ib_umem_end(umem.as_ptr()),
            )
        };
        let count = end.checked_sub(first).ok_or(EINVAL)? / b::PAGE_SIZE;
        let offset = start.checked_sub(first).ok_or(EINVAL)?;
        // SAFETY: As above.
        let pager = PagerUse::of(unsafe { umem.as_ref() }.umem.owning_mm.addr())?;
        let table = Table::new(count)?;
        let pages = Arc::new(Pages { table, idle }, GFP_KERNEL_ACCOUNT)?;
        // From here on nothing fails: the notifier knows the pages.
        {
            // SAFETY: `umem` is valid.
            let umem = unsafe { Locked::new(umem) };
            // SAFETY: The lock is held. The pages are there until the C object has been released.
            unsafe { (*umem.get()).private = Arc::as_ptr(&pages).cast_mut().cast() };
        }
        // INVARIANT: As just made.
        Ok(Self {
            umem,
            pages,
            pager,
            offset,
            len,
            _device: device.into(),
        })
    }

    /// Bytes.
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// Whether no page is there.
    pub(super) fn is_empty(&self) -> bool {
        self.pages.table.is_empty()
    }

    /// Whether it was registered to be written to. If not, there is no writing to it.
    pub(crate) fn is_writable(&self) -> bool {
        // SAFETY: Valid by the type invariant, and never changed.
        unsafe { self.umem.as_ref() }.umem.writable() != 0
    }

    /// Returns `length` bytes from `offset` on, as far as they are there. Any context.
    ///
    /// `None` if there are not as many, or if they are to be written to and may not be.
    pub(crate) fn chunks<'a, R: Rights>(
        &'a self,
        offset: usize,
        length: usize,
        guard: &'a rcu::Guard,
    ) -> Option<PagedChunks<'a, Self, R>> {
        let end = offset.checked_add(length)?;
        if end > self.len || R::WRITE && !self.is_writable() {
            return None;
        }
        Some(PagedChunks::new(self, offset..end, guard))
    }

    /// Has the page of the byte at `offset` come in, such that it may be written to if `R` says so.
    ///
    /// Process context, sleeps. `EFAULT` and others if the process has no such page, or one that the
    /// kernel does not see.
    pub(crate) fn page_in<R: Rights>(&self, offset: usize, demand: Demand) -> Result {
        let index = self.index(offset).ok_or(EINVAL)?;
        if self.pages.table.has::<R>(index) {
            return Ok(());
        }
        match demand {
            Demand::Fault => self.fetch::<R>(index),
            Demand::Peek => self.take_over(index),
        }
    }

    /// Has the pages of `length` bytes from `offset` on come in, as [`page_in`](Self::page_in) does.
    ///
    /// `EFAULT` if there are not as many, `EINTR` if the process is told to stop meanwhile.
    pub(crate) fn page_in_all<R: Rights>(
        &self,
        offset: usize,
        length: usize,
        demand: Demand,
    ) -> Result {
        let end = offset
            .checked_add(length)
            .filter(|end| *end <= self.len)
            .ok_or(EFAULT)?;
        let mut at = offset;
        while at < end {
            if kernel::current!().signal_pending() {
                return Err(EINTR);
            }
            self.page_in::<R>(at, demand)?;
            let skip = self.offset.wrapping_add(at) % b::PAGE_SIZE;
            at = at.saturating_add(b::PAGE_SIZE - skip);
        }
        Ok(())
    }

    /// Goes on `errand`, which is to [supply](Self::supply) pages, by a thread for this process. Any
    /// context.
    pub(crate) fn send<T: Go>(&self, errand: &Arc<Errand<T>>) {
        self.pager.send(errand);
    }

    /// Has a page come in that was found to be missing. Process context, sleeps. Errors as
    /// [`page_in`](Self::page_in).
    pub(crate) fn supply(&self, page: MissingPage) -> Result {
        match page.purpose {
            Purpose::Read => self.page_in::<ReadOnly>(page.offset, Demand::Fault),
            Purpose::Write => self.page_in::<ReadWrite>(page.offset, Demand::Fault),
        }
    }

    /// Number of the page that has the byte at `offset`.
    fn index(&self, offset: usize) -> Option<usize> {
        Some(self.offset.checked_add(offset)? / b::PAGE_SIZE)
    }

    /// Has the process have the page `index`, and takes it over.
    ///
    /// Not in one: that would be with the address space locked, and whoever provides the page may take
    /// long.
    fn fetch<R: Rights>(&self, index: usize) -> Result {
        for _ in 0..ATTEMPTS {
            self.fault::<R>(index)?;
            self.take_over(index)?;
            if self.pages.table.has::<R>(index) {
                return Ok(());
            }
        }
        Err(EFAULT)
    }

    /// Has the process have the page `index`, as if it used it itself. Meanwhile its address space may
    /// change.
    fn fault<R: Rights>(&self, index: usize) -> Result {
        let va = self.first().checked_add(self.at(index)?).ok_or(EINVAL)?;
        // SAFETY: Valid by the type invariant, and never changed.
        let mm = unsafe { self.umem.as_ref() }.umem.owning_mm;
        // SAFETY: The C object holds a reference.
        let mm = unsafe { Mm::from_raw(mm.cast()) };
        let mm = mm.mmget_not_zero().ok_or(EFAULT)?;
        // The last one to use the address space would otherwise take it down here.
        let mm = MmWithUser::into_mmput_async(mm);
        let purpose = if R::WRITE {
            b::fault_flag_FAULT_FLAG_WRITE
        } else {
            0
        };
        let flags = b::fault_flag_FAULT_FLAG_REMOTE | purpose;
        let mut was_unlocked = false;
        let _lock = mm.mmap_read_lock();
        // SAFETY: The memory is in use and locked, and is locked on return.
        let status =
            unsafe { b::fixup_user_fault(mm.as_raw().cast(), va, flags, &mut was_unlocked) };
        to_result(status)
    }

    /// The address of the first page.
    fn first(&self) -> usize {
        // SAFETY: Valid by the type invariant; the bounds never change.
        unsafe { b::helpers::ib_umem_start(self.umem.as_ptr()) }
    }

    /// Where the page `index` is, from the first one on.
    fn at(&self, index: usize) -> Result<usize> {
        index.checked_mul(b::PAGE_SIZE).ok_or(EINVAL)
    }

    /// Takes over the page `index` if the process has it, and those that come with it.
    fn take_over(&self, index: usize) -> Result {
        // SAFETY: Valid by the type invariant; the size of pages never changes.
        let page_size = 1usize << unsafe { self.umem.as_ref() }.page_shift;
        let at = self.at(index)?;
        let va = self.first().checked_add(at).ok_or(EINVAL)?;
        // SAFETY: The C object is ours, by the type invariant, and the core checks the range. On
        // success the mutex is held.
        let pages = unsafe {
            b::ib_umem_odp_map_dma_and_lock(
                self.umem.as_ptr(),
                va as u64,
                b::PAGE_SIZE as u64,
                0,
                false,
            )
        };
        to_result(pages.min(0))?;
        // SAFETY: The mutex is held.
        let umem = unsafe { Locked::assume(self.umem) };
        let base = (at & !(page_size - 1)) / b::PAGE_SIZE;
        for index in base..base.saturating_add(page_size / b::PAGE_SIZE) {
            // SAFETY: The list has an entry for each page, and is not changed while the lock is held.
            let pfn = unsafe { *(*umem.get()).map.pfn_list.add(index) };
            if pfn & b::hmm_pfn_flags_HMM_PFN_VALID as c_ulong != 0 {
                // SAFETY: The number of a page that is there, until `invalidate` says otherwise.
                let page = unsafe { b::helpers::hmm_pfn_address(pfn) };
                if page.is_null() {
                    return Err(EFAULT);
                }
                let writable = pfn & b::hmm_pfn_flags_HMM_PFN_WRITE as c_ulong != 0;
                self.pages.table.put(index, page as usize, writable);
            }
        }
        Ok(())
    }
}

impl Paged for PagedUmem {
    fn chunk<'a, R: Rights>(
        &self,
        offset: usize,
        length: usize,
        _guard: &'a rcu::Guard,
    ) -> Option<Chunk<'a, R>> {
        let at = self.offset.checked_add(offset)?;
        let skip = at % b::PAGE_SIZE;
        let length = length.min(b::PAGE_SIZE - skip);
        let page = self.pages.table.get::<R>(at / b::PAGE_SIZE)?;
        // SAFETY: The page is there, and writable if it has to be, until the RCU read section has
        // ended that the guard stands for, even if this object is dropped. User space maps it, so
        // that there are no references to it.
        Some(unsafe { Chunk::from_raw_parts(page.add(skip), length) })
    }
}

impl Drop for PagedUmem {
    fn drop(&mut self) {
        if let Some(last) = self.pages.table.entries.len().checked_sub(1) {
            // SAFETY: Valid by the type invariant.
            let _umem = unsafe { Locked::new(self.umem) };
            self.pages.table.clear(0..=last);
        }
        // SAFETY: Ours to release by the type invariant. Waits for calls of `invalidate`.
        unsafe { b::ib_umem_odp_release(self.umem.as_ptr()) };
    }
}

/// Memory of which a part may not be there.
pub(crate) trait Paged {
    /// Returns up to `length` bytes at `offset`, if they are there. Any context.
    ///
    /// Nothing may be written to memory that the process does not let be written to.
    fn chunk<'a, R: Rights>(
        &self,
        offset: usize,
        length: usize,
        guard: &'a rcu::Guard,
    ) -> Option<Chunk<'a, R>>;
}

/// Iterator over a range of [`Paged`] memory.
pub(crate) struct PagedChunks<'a, M, R = ReadOnly> {
    memory: &'a M,
    range: Range<usize>,
    guard: &'a rcu::Guard,
    rights: PhantomData<R>,
}

impl<'a, M: Paged, R: Rights> PagedChunks<'a, M, R> {
    /// What is at `range` of `memory`, which has that.
    pub(super) fn new(memory: &'a M, range: Range<usize>, guard: &'a rcu::Guard) -> Self {
        Self {
            memory,
            range,
            guard,
            rights: PhantomData,
        }
    }
}

impl<'a, M: Paged, R: Rights> Iterator for PagedChunks<'a, M, R> {
    type Item = Result<Chunk<'a, R>, MissingPage>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.range.is_empty() {
            return None;
        }
        let at = self.range.start;
        Some(match self.memory.chunk(at, self.range.len(), self.guard) {
            Some(chunk) => {
                self.range.start = at.wrapping_add(chunk.len());
                Ok(chunk)
            }
            None => Err(MissingPage::new(at, Purpose::of::<R>())),
        })
    }
}

/// What the notifier has to know.
struct Pages {
    table: Table,
    /// Told when the process has unmapped all.
    idle: Option<Idle>,
}

/// The pages that are there: the address of each in the kernel, and what is known of it.
///
/// # Invariants
///
/// An entry with [`PRESENT`](Self::PRESENT) is the address of a page that stays where it is, and may
/// be written to if it has [`WRITABLE`](Self::WRITABLE), until an RCU grace period has passed since
/// that was taken away.
struct Table {
    entries: KVVec<Atomic<usize>>,
    /// How many pages are there.
    present: Atomic<usize>,
}

impl Table {
    const PRESENT: usize = 1 << 0;
    const WRITABLE: usize = 1 << 1;
    const FLAGS: usize = b::PAGE_SIZE - 1;

    fn new(pages: usize) -> Result<Self> {
        // The process chooses the size, so that a failure is its own.
        let flags = GFP_KERNEL_ACCOUNT | __GFP_NOWARN;
        let mut entries = KVVec::with_capacity(pages, flags)?;
        for _ in 0..pages {
            entries.push(Atomic::new(0), flags)?;
        }
        Ok(Self {
            entries,
            present: Atomic::new(0),
        })
    }

    /// Whether there are none.
    fn is_empty(&self) -> bool {
        self.present.load(Relaxed) == 0
    }

    /// Finds a page, if it is there. Any context, under RCU.
    fn get<R: Rights>(&self, index: usize) -> Option<NonNull<u8>> {
        let value = self.entries.get(index)?.load(Acquire);
        if value & Self::asks::<R>() != Self::asks::<R>() {
            return None;
        }
        NonNull::new(ptr::with_exposed_provenance_mut(value & !Self::FLAGS))
    }

    /// Whether a page is there.
    fn has<R: Rights>(&self, index: usize) -> bool {
        let entry = self.entries.get(index);
        let value = entry.map_or(0, |entry| entry.load(Relaxed));
        value & Self::asks::<R>() == Self::asks::<R>()
    }

    /// The flags that a user needs.
    const fn asks<R: Rights>() -> usize {
        if R::WRITE {
            Self::PRESENT | Self::WRITABLE
        } else {
            Self::PRESENT
        }
    }

    /// Puts a page in. The mutex is held, and the page stays until it is taken out.
    fn put(&self, index: usize, page: usize, writable: bool) {
        if let Some(entry) = self.entries.get(index) {
            if entry.load(Relaxed) & Self::PRESENT == 0 {
                self.present.fetch_add(1, Relaxed);
            }
            let writable = if writable { Self::WRITABLE } else { 0 };
            entry.store(page | Self::PRESENT | writable, Release);
        }
    }

    /// Takes pages out. The mutex is held; sleeps.
    fn clear(&self, range: RangeInclusive<usize>) {
        let entries = || {
            let count = range.end().wrapping_sub(*range.start()).wrapping_add(1);
            self.entries.iter().skip(*range.start()).take(count)
        };
        let mut found = 0;
        for entry in entries() {
            // What is left of it is the address, for below.
            let value = entry.load(Relaxed);
            if value & Self::PRESENT != 0 {
                found += 1;
                entry.store(value & !Self::PRESENT, Relaxed);
            }
        }
        if found == 0 {
            return;
        }
        self.present.fetch_sub(found, Relaxed);
        grace_period();
        for entry in entries() {
            let value = entry.load(Relaxed);
            entry.store(0, Relaxed);
            if value & Self::WRITABLE != 0 {
                let page = ptr::with_exposed_provenance_mut(value & !Self::FLAGS);
                // SAFETY: The page is there until `invalidate` returns.
                unsafe { b::helpers::dirty_page(page) };
            }
        }
    }
}

/// The C object with its mutex held.
///
/// # Invariants
///
/// This thread has the mutex, and nobody but this object gives it back.
struct Locked(NonNull<b::ib_umem_odp>);

impl Locked {
    /// Takes the mutex. Sleeps.
    ///
    /// # Safety
    ///
    /// `umem` must be valid for as long as this object exists.
    unsafe fn new(umem: NonNull<b::ib_umem_odp>) -> Self {
        // SAFETY: The caller promises that it is valid.
        unsafe { kernel::bindings::mutex_lock(&raw mut (*umem.as_ptr()).umem_mutex) };
        // INVARIANT: Just taken.
        Self(umem)
    }

    /// Takes over the mutex.
    ///
    /// # Safety
    ///
    /// As for [`new`](Self::new); this thread must have the mutex, and leave it to this object.
    unsafe fn assume(umem: NonNull<b::ib_umem_odp>) -> Self {
        // INVARIANT: As the caller promises.
        Self(umem)
    }

    /// The C object.
    fn get(&self) -> *mut b::ib_umem_odp {
        self.0.as_ptr()
    }
}

impl Drop for Locked {
    fn drop(&mut self) {
        // SAFETY: Valid and ours to unlock, by the type invariant.
        unsafe { kernel::bindings::mutex_unlock(&raw mut (*self.0.as_ptr()).umem_mutex) };
    }
}

static OPS: b::mmu_interval_notifier_ops = b::mmu_interval_notifier_ops {
    invalidate: Some(invalidate),
    invalidate_start: None,
    invalidate_finish: None,
};

/// The kernel takes pages away.
///
/// # Safety
///
/// To be called by the notifier of a [`PagedUmem`].
unsafe extern "C" fn invalidate(
    notifier: *mut b::mmu_interval_notifier,
    range: *const b::mmu_notifier_range,
    sequence: c_ulong,
) -> bool {
    // SAFETY: The range is valid during the call.
    if !unsafe { b::helpers::mmu_notifier_range_blockable(range) } {
        return false;
    }
    // SAFETY: The notifier is that of an `ib_umem_odp`, whose release waits for this call.
    let umem = unsafe {
        let umem = kernel::container_of!(notifier, b::ib_umem_odp, notifier);
        Locked::new(NonNull::new_unchecked(umem))
    };
    // SAFETY: The lock excludes those who bring pages in.
    unsafe { b::helpers::mmu_interval_set_seq(notifier, sequence) };
    // SAFETY: What is there are the pages, until the C object has been released. It is set with the
    // lock held; before that there are none.
    let Some(pages) = (unsafe { (*umem.get()).private.cast::<Pages>().as_ref() }) else {
        return true;
    };
    // SAFETY: As above.
    let (first, end) = unsafe {
        (
            b::helpers::ib_umem_start(umem.get()),
            b::helpers::ib_umem_end(umem.get()),
        )
    };
    // SAFETY: As above.
    let (start, stop) = unsafe { ((*range).start.max(first), (*range).end.min(end)) };
    if start < stop {
        pages
            .table
            .clear((start - first) / b::PAGE_SIZE..=(stop - 1 - first) / b::PAGE_SIZE);
    }
    // SAFETY: The range is valid during the call.
    if pages.table.is_empty() && unsafe { b::helpers::mmu_notifier_range_unmaps(range) } {
        if let Some(idle) = &pages.idle {
            idle.tell();
        }
    }
    true
}
