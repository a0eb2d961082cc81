// SPDX-License-Identifier: GPL-2.0

//! Memory regions.

use super::{
    object::{
        Mr,
        Pd, //
    },
    umem::Umem,
    Provider, //
};
use crate::kapi::{
    bindings as b,
    error::eopnotsupp, //
};
use core::ffi::c_int;
use kernel::{
    error::from_result,
    prelude::*, //
};

/// What may be done with memory ([`enum ib_access_flags`]).
///
/// [`enum ib_access_flags`]: srctree/include/rdma/ib_verbs.h
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct AccessFlags(u32);

macro_rules! access_flags {
    ($($(#[$doc:meta])* $name:ident = $raw:ident;)*) => {
        impl AccessFlags {
            $(
                $(#[$doc])*
                pub(crate) const $name: Self = Self(b::$raw);
            )*
        }
    };
}

access_flags! {
    /// The device may write for its own user: receives, READ responses.
    LOCAL_WRITE = ib_access_flags_IB_ACCESS_LOCAL_WRITE;
    /// The peer may write.
    REMOTE_WRITE = ib_access_flags_IB_ACCESS_REMOTE_WRITE;
    /// The peer may read.
    REMOTE_READ = ib_access_flags_IB_ACCESS_REMOTE_READ;
    /// The peer may do atomic operations.
    REMOTE_ATOMIC = ib_access_flags_IB_ACCESS_REMOTE_ATOMIC;
    /// Windows may be bound to it.
    MW_BIND = ib_access_flags_IB_ACCESS_MW_BIND;
    /// Addresses count from 0.
    ZERO_BASED = ib_access_flags_IB_ZERO_BASED;
    /// Pages come and go as they are used.
    ON_DEMAND = ib_access_flags_IB_ACCESS_ON_DEMAND;
    /// The peer may ask for its writes to be visible to all.
    FLUSH_GLOBAL = ib_access_flags_IB_ACCESS_FLUSH_GLOBAL;
    /// The peer may ask for its writes to survive a power failure.
    FLUSH_PERSISTENT = ib_access_flags_IB_ACCESS_FLUSH_PERSISTENT;
    /// Flags a driver may ignore.
    OPTIONAL = ib_access_flags_IB_ACCESS_OPTIONAL;
}

impl AccessFlags {
    pub(super) fn from_raw(flags: c_int) -> Self {
        Self(flags as u32)
    }

    pub(super) fn into_raw(self) -> c_int {
        self.0 as c_int
    }

    /// The bits, as in C.
    pub(crate) const fn bits(self) -> u32 {
        self.0
    }

    /// Takes the bits, as in C.
    pub(crate) const fn from_bits(bits: u32) -> Self {
        Self(bits)
    }

    /// Whether all of `other` is allowed.
    pub(crate) const fn contains(self, other: Self) -> bool {
        self.0 & other.0 == other.0
    }

    /// What either allows.
    pub(crate) const fn union(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// What is allowed and not in `other`.
    pub(crate) const fn without(self, other: Self) -> Self {
        Self(self.0 & !other.0)
    }

    /// Whether nothing is allowed.
    pub(crate) const fn is_empty(self) -> bool {
        self.0 == 0
    }
}

/// A range of a user process' memory that is to be registered.
#[derive(Clone, Copy, Debug)]
pub(crate) struct UserRegion {
    /// Where it starts in the process' address space.
    pub(crate) start: u64,
    /// Bytes.
    pub(crate) length: u64,
    /// What the device and the peer call its first byte.
    pub(crate) iova: u64,
    /// What may be done with it.
    pub(crate) access: AccessFlags,
}

impl UserRegion {
    /// Pins the pages of the region, in the calling process. May sleep.
    pub(crate) fn pin<P: Provider>(&self, pd: &Pd<P>) -> Result<Umem> {
        Umem::pin(pd.device().ib(), self.start, self.length, self.access)
    }
}

/// The driver's part of a memory region.
pub(crate) trait MemoryRegion<P: Provider<Mr = Self>>: Sized + Send + Sync {
    /// Registers memory of the calling user process.
    ///
    /// Process context, may sleep. The core has checked that the access flags are known
    /// ones, and that remote write or atomic access comes with local write access.
    fn register(pd: &Pd<P>, region: &UserRegion) -> Result<Self>;

    /// The key for work requests of the region's owner.
    fn lkey(&self) -> u32;

    /// The key to give to the peer.
    fn rkey(&self) -> u32;

    /// Ends the registration. On return nothing uses the memory any more. May sleep.
    fn deregister(self) {}
}

pub(super) unsafe extern "C" fn reg_user<P: Provider>(
    pd: *mut b::ib_pd,
    start: u64,
    length: u64,
    iova: u64,
    access: c_int,
    dmah: *mut b::ib_dmah,
    _udata: *mut b::ib_udata,
) -> *mut b::ib_mr {
    let register = || {
        if !dmah.is_null() {
            return Err(eopnotsupp());
        }
        // SAFETY: The core passes a live protection domain.
        let pd = unsafe { Pd::<P>::from_raw(pd) };
        let region = UserRegion {
            start,
            length,
            iova,
            access: AccessFlags::from_raw(access),
        };

        let memory = KBox::<Mr<P>>::new_uninit(GFP_KERNEL | __GFP_ZERO)?;
        let data = P::Mr::register(pd, &region)?;
        let mr = KBox::into_raw(memory).cast::<b::ib_mr>();
        // SAFETY: `mr` is ours, and zeroes are a valid `ib_mr`.
        let raw = unsafe { &mut *mr };
        raw.device = pd.device().ib().as_raw();
        raw.lkey = data.lkey();
        raw.rkey = data.rkey();
        // SAFETY: The memory is that of a `Mr<P>`, and this is the create operation.
        unsafe { Mr::<P>::init(mr, data, ()) };
        Ok(mr)
    };
    register().unwrap_or_else(|error: Error| error.to_ptr())
}

pub(super) unsafe extern "C" fn dereg<P: Provider>(
    mr: *mut b::ib_mr,
    _udata: *mut b::ib_udata,
) -> c_int {
    from_result(|| {
        // SAFETY: This is the destroy operation.
        let body = unsafe { Mr::<P>::take(mr) };
        body.data.deregister();
        // SAFETY: The memory comes from `reg_user`, and its content has been taken.
        drop(unsafe { KBox::from_raw(mr.cast::<core::mem::MaybeUninit<Mr<P>>>()) });
        Ok(0)
    })
}
