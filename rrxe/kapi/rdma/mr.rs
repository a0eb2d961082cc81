// SPDX-License-Identifier: GPL-2.0

//! Memory regions.

use super::{
    object::{
        Mr,
        Pd, //
    },
    paged::PagedUmem,
    umem::Umem,
    Details,
    DirectMap,
    ImplicitUmem,
    Provider,
    SgList, //
};
use crate::kapi::{
    bindings as b,
    dma_buf::{
        BufferPart,
        Purpose, //
    },
    error::eopnotsupp,
    process, //
};
use core::{
    mem::MaybeUninit,
    ptr, //
};
use kernel::{
    error::from_result,
    prelude::*, //
};

/// A range of a user process' memory.
#[derive(Clone, Copy, Debug)]
pub(crate) struct UserRange {
    /// Where it starts in the process' address space.
    pub(crate) start: u64,
    /// Bytes.
    pub(crate) length: u64,
    /// What the device and the peer call its first byte.
    pub(crate) iova: u64,
}

/// Memory of a user process that is to be registered.
#[derive(Clone, Copy, Debug)]
pub(crate) struct UserRegion {
    /// Where it is.
    pub(crate) range: UserRange,
    /// What may be done with it: bits of `enum ib_access_flags`.
    pub(crate) access: u32,
}

impl UserRegion {
    /// Pins the pages of the region, in the calling process. May sleep.
    pub(crate) fn pin<P: Provider>(&self, pd: &Pd<P>) -> Result<Umem> {
        Umem::pin(pd.device(), self)
    }

    /// Whether it is all that the calling process has, each byte called by its address.
    pub(crate) fn is_whole(&self) -> bool {
        let UserRange {
            start,
            length,
            iova,
        } = self.range;
        (start, length, iova) == (0, u64::MAX, 0)
    }

    /// Has the pages of all that the calling process has come when they are needed. May sleep.
    pub(crate) fn page_whole<P: Provider>(&self, pd: &Pd<P>) -> Result<ImplicitUmem> {
        ImplicitUmem::new(pd.device(), self)
    }

    /// Has the pages of the region come when they are needed, from the calling process. May sleep.
    pub(crate) fn page<P: Provider>(&self, pd: &Pd<P>) -> Result<PagedUmem> {
        PagedUmem::new(pd.device(), self)
    }
}

/// A part of a buffer that some driver has made ("DMA-BUF"), which is to be registered.
#[derive(Clone, Copy, Debug)]
pub(crate) struct BufferRegion {
    /// A descriptor of the calling process for the buffer.
    pub(crate) fd: c_int,
    /// Where the part starts in the buffer.
    pub(crate) offset: u64,
    /// Bytes.
    pub(crate) length: u64,
    /// What the device and the peer call its first byte.
    pub(crate) iova: u64,
    /// What may be done with it: bits of `enum ib_access_flags`.
    pub(crate) access: u32,
}

impl BufferRegion {
    /// Maps the part. May sleep. Errors as [`BufferPart::map`].
    pub(crate) fn map(&self) -> Result<BufferPart> {
        // SAFETY: Only looks at the flags.
        let purpose = match unsafe { b::helpers::ib_access_writable(self.access as c_int) } {
            true => Purpose::Write,
            false => Purpose::Read,
        };
        let offset = usize::try_from(self.offset)?;
        BufferPart::map(self.fd, offset, usize::try_from(self.length)?, purpose)
    }
}

/// What a region is to be from now on.
pub(crate) struct Reregistration<'a, P: Provider> {
    /// The protection domain that it belongs to, which may be the one that it has belonged to.
    pub(crate) pd: &'a Pd<P>,
    /// What may be done with it, unless that stays: bits of `enum ib_access_flags`.
    pub(crate) access: Option<u32>,
    /// Its memory, of the calling process, unless that stays.
    pub(crate) range: Option<UserRange>,
}

/// A range of registered memory, as a work request names it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LocalRange {
    /// The region.
    pub(crate) lkey: u32,
    /// Where it starts, by what the region's first byte is called.
    pub(crate) start: u64,
    /// Bytes.
    pub(crate) length: u32,
}

/// What is to be expected for a range of memory whose pages come when they are needed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Advice {
    /// It will be read.
    Read,
    /// It will be written to.
    Write,
    /// It will be read, but only the pages that the process has already are to be looked for.
    ReadPresent,
}

impl Advice {
    fn from_raw(advice: b::ib_uverbs_advise_mr_advice) -> Result<Self> {
        Ok(match advice {
            b::ib_uverbs_advise_mr_advice_IB_UVERBS_ADVISE_MR_ADVICE_PREFETCH => Self::Read,
            b::ib_uverbs_advise_mr_advice_IB_UVERBS_ADVISE_MR_ADVICE_PREFETCH_WRITE => Self::Write,
            b::ib_uverbs_advise_mr_advice_IB_UVERBS_ADVISE_MR_ADVICE_PREFETCH_NO_FAULT => {
                Self::ReadPresent
            }
            _ => return Err(eopnotsupp()),
        })
    }
}

/// The driver's part of a memory region.
pub(crate) trait MemoryRegion<P: Provider<Mr = Self>>: Sized + Send + Sync {
    /// Registers memory of the calling user process.
    ///
    /// Process context, may sleep. The core has checked that the access flags are known
    /// ones, and that remote write or atomic access comes with local write access.
    fn register(pd: &Pd<P>, region: &UserRegion) -> Result<Self>;

    /// Registers a part of a buffer that some driver has made.
    ///
    /// Process context, may sleep. The core has checked the access flags as for
    /// [`register`](Self::register), and that they are none but local write, remote access and
    /// relaxed ordering.
    fn register_buffer(pd: &Pd<P>, region: &BufferRegion) -> Result<Self>;

    /// Makes all memory that the kernel maps directly a region, whose first byte has the address
    /// zero. `access` is bits of `enum ib_access_flags`.
    ///
    /// Process context, may sleep. For users inside the kernel only.
    fn direct(pd: &Pd<P>, map: DirectMap, access: u32) -> Result<Self>;

    /// Has the pages of a range come in, since its owner expects them to be used.
    ///
    /// Process context, sleeps.
    fn advise(pd: &Pd<P>, advice: Advice, range: LocalRange) -> Result;

    /// Makes a region for up to `max_pages` pages that are to be [listed](Self::list).
    ///
    /// Process context, may sleep. For users inside the kernel only.
    fn fast(pd: &Pd<P>, max_pages: u32) -> Result<Self>;

    /// Lists the pages that the next registration by a work request is of, and returns how many
    /// entries of the list that used up. Process or softirq context.
    ///
    /// # Errors
    ///
    /// `EINVAL` for a region of another kind.
    fn list(&self, list: &SgList<'_>) -> Result<c_int>;

    /// The key for work requests of the region's owner.
    fn lkey(&self) -> u32;

    /// The key to give to the peer.
    fn rkey(&self) -> u32;

    /// Has it be another one under the same keys. On return nothing uses any more what it was, and
    /// the rights and the memory that it had are gone. If this fails it is what it was.
    ///
    /// Process context, sleeps. Not called beside itself, nor beside what ends the registration. As
    /// with [`register`](Self::register), the core has checked the access flags, if they are new.
    fn reregister(&self, change: &Reregistration<'_, P>) -> Result;

    /// Has nothing else depend on it any more: it is about to be deregistered. `EBUSY` if something
    /// does already.
    fn retire(&self) -> Result;

    /// Adds what there is to tell of it to whoever looks on. Process context, may sleep.
    fn describe(&self, details: &mut Details);

    /// Ends the registration. On return nothing uses the memory any more. May sleep.
    fn deregister(self);

    /// Ends the registration, as one of many maybe: its process ends, or the device. The memory may be in
    /// use for a moment longer, in which it stays pinned. May sleep.
    fn abandon(self);
}

/// The operation `reg_user_mr`.
///
/// # Safety
///
/// To be called by the RDMA core, as [`ops`](super::ops) says.
pub(super) unsafe extern "C" fn reg_user<P: Provider>(
    pd: *mut b::ib_pd,
    start: u64,
    length: u64,
    iova: u64,
    access: c_int,
    dmah: *mut b::ib_dmah,
    _udata: *mut b::ib_udata,
) -> *mut b::ib_mr {
    let register = |pd: &Pd<P>| {
        if !dmah.is_null() {
            return Err(eopnotsupp());
        }
        let region = UserRegion {
            range: UserRange {
                start,
                length,
                iova,
            },
            access: access as u32,
        };
        P::Mr::register(pd, &region)
    };
    // SAFETY: The core passes a live protection domain.
    create(unsafe { Pd::<P>::from_raw(pd) }, (iova, length), register)
}

/// The operation `reg_user_mr_dmabuf`.
///
/// # Safety
///
/// To be called by the RDMA core, as [`ops`](super::ops) says.
pub(super) unsafe extern "C" fn reg_buffer<P: Provider>(
    pd: *mut b::ib_pd,
    offset: u64,
    length: u64,
    iova: u64,
    fd: c_int,
    access: c_int,
    dmah: *mut b::ib_dmah,
    _attrs: *mut b::uverbs_attr_bundle,
) -> *mut b::ib_mr {
    let register = |pd: &Pd<P>| {
        if !dmah.is_null() {
            return Err(eopnotsupp());
        }
        let region = BufferRegion {
            fd,
            offset,
            length,
            iova,
            access: access as u32,
        };
        P::Mr::register_buffer(pd, &region)
    };
    // SAFETY: The core passes a live protection domain.
    create(unsafe { Pd::<P>::from_raw(pd) }, (iova, length), register)
}

/// The operation `rereg_user_mr`.
///
/// The region stays the same object. What the core keeps of it, the core changes.
///
/// # Safety
///
/// To be called by the RDMA core, as [`ops`](super::ops) says.
pub(super) unsafe extern "C" fn rereg_user<P: Provider>(
    mr: *mut b::ib_mr,
    flags: c_int,
    start: u64,
    length: u64,
    iova: u64,
    access: c_int,
    pd: *mut b::ib_pd,
    _udata: *mut b::ib_udata,
) -> *mut b::ib_mr {
    let has = |flag: c_uint| flags as c_uint & flag != 0;
    let change = Reregistration {
        // SAFETY: The core passes a live protection domain.
        pd: unsafe { Pd::<P>::from_raw(pd) },
        access: has(b::ib_mr_rereg_flags_IB_MR_REREG_ACCESS).then_some(access as u32),
        range: has(b::ib_mr_rereg_flags_IB_MR_REREG_TRANS).then_some(UserRange {
            start,
            length,
            iova,
        }),
    };
    // SAFETY: The core passes a live region.
    match unsafe { Mr::<P>::from_raw(mr) }.reregister(&change) {
        Ok(()) => ptr::null_mut(),
        Err(error) => error.to_ptr(),
    }
}

/// The operation `get_dma_mr`.
///
/// # Safety
///
/// To be called by the RDMA core, as [`ops`](super::ops) says.
pub(super) unsafe extern "C" fn get_dma<P: Provider>(
    pd: *mut b::ib_pd,
    access: c_int,
) -> *mut b::ib_mr {
    // SAFETY: Only users inside the kernel ask for such a region, and the region is of their
    // protection domain.
    let map = unsafe { DirectMap::new() };
    // SAFETY: The core passes a live protection domain.
    create(unsafe { Pd::<P>::from_raw(pd) }, (0, 0), |pd| {
        P::Mr::direct(pd, map, access as u32)
    })
}

/// The operation `alloc_mr`.
///
/// # Safety
///
/// To be called by the RDMA core, as [`ops`](super::ops) says.
pub(super) unsafe extern "C" fn alloc<P: Provider>(
    pd: *mut b::ib_pd,
    mr_type: b::ib_mr_type,
    max_pages: u32,
) -> *mut b::ib_mr {
    // SAFETY: The core passes a live protection domain.
    create(
        unsafe { Pd::<P>::from_raw(pd) },
        (0, 0),
        |pd| match mr_type {
            b::ib_mr_type_IB_MR_TYPE_MEM_REG => P::Mr::fast(pd, max_pages),
            _ => Err(eopnotsupp()),
        },
    )
}

/// The operation `map_mr_sg`.
///
/// # Safety
///
/// To be called by the RDMA core, as [`ops`](super::ops) says.
pub(super) unsafe extern "C" fn map_sg<P: Provider>(
    mr: *mut b::ib_mr,
    list: *mut b::scatterlist,
    entries: c_int,
    offset: *mut c_uint,
) -> c_int {
    from_result(|| {
        // SAFETY: The core passes a live region.
        let object = unsafe { Mr::<P>::from_raw(mr) };
        // SAFETY: The core passes them on from the region's owner.
        let list = unsafe { SgList::new(mr, list, entries, offset) };
        object.list(&list)
    })
}

/// Makes the object of a region: has `make` make the driver's value. If it is a process', the core tells
/// that what its first byte is called and how long it is, and sets that itself for some commands only.
fn create<P: Provider>(
    pd: &Pd<P>,
    (iova, length): (u64, u64),
    make: impl FnOnce(&Pd<P>) -> Result<P::Mr>,
) -> *mut b::ib_mr {
    let create = || {
        let memory = KBox::<Mr<P>>::new_uninit(GFP_KERNEL_ACCOUNT | __GFP_ZERO)?;
        let data = make(pd)?;
        let mr = KBox::into_raw(memory).cast::<b::ib_mr>();
        // SAFETY: `mr` is ours, and zeroes are a valid `ib_mr`.
        let raw = unsafe { &mut *mr };
        raw.device = pd.device().as_raw();
        raw.lkey = data.lkey();
        raw.rkey = data.rkey();
        raw.iova = iova;
        raw.length = length;
        // SAFETY: The memory is that of a `Mr<P>`, and this is the create operation.
        unsafe { Mr::<P>::init(mr, data, ()) };
        Ok(mr)
    };
    create().unwrap_or_else(|error: Error| error.to_ptr())
}

/// The operation `advise_mr`. The pages are there when it returns, whether that was asked for
/// (`IB_UVERBS_ADVISE_MR_FLAG_FLUSH`) or not.
///
/// # Safety
///
/// To be called by the RDMA core, as [`ops`](super::ops) says.
pub(super) unsafe extern "C" fn advise<P: Provider>(
    pd: *mut b::ib_pd,
    advice: b::ib_uverbs_advise_mr_advice,
    _flags: u32,
    ranges: *mut b::ib_sge,
    count: u32,
    _attrs: *mut b::uverbs_attr_bundle,
) -> c_int {
    from_result(|| {
        // SAFETY: The core passes a live protection domain.
        let pd = unsafe { Pd::<P>::from_raw(pd) };
        let advice = Advice::from_raw(advice)?;
        for index in 0..count as usize {
            // SAFETY: The core passes so many.
            let range = unsafe { &*ranges.add(index) };
            let range = LocalRange {
                lkey: range.lkey,
                start: range.addr,
                length: range.length,
            };
            P::Mr::advise(pd, advice, range)?;
        }
        Ok(0)
    })
}

/// The operation `dereg_mr`.
///
/// # Safety
///
/// To be called by the RDMA core, as [`ops`](super::ops) says.
pub(super) unsafe extern "C" fn dereg<P: Provider>(
    mr: *mut b::ib_mr,
    _udata: *mut b::ib_udata,
) -> c_int {
    // SAFETY: The object is there until its destroy operation has succeeded.
    if let Err(error) = unsafe { Mr::<P>::from_raw(mr) }.retire() {
        return error.to_errno();
    }
    // SAFETY: As above.
    let device = unsafe { Mr::<P>::from_raw(mr) }.device();
    let end = if device.is_leaving() || process::is_exiting() {
        P::Mr::abandon
    } else {
        P::Mr::deregister
    };
    // SAFETY: This is the destroy operation.
    unsafe { Mr::<P>::destroy(mr, end) };
    // SAFETY: The memory comes from `create`, and its content has been taken.
    drop(unsafe { KBox::from_raw(mr.cast::<MaybeUninit<Mr<P>>>()) });
    0
}
