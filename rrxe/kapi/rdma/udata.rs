// SPDX-License-Identifier: GPL-2.0

//! The driver's part of a system call.

use super::mmap::{
    Mappable,
    Mapping,
    Shared, //
};
use crate::kapi::bindings as b;
use core::{
    marker::PhantomData,
    ptr::NonNull, //
};
use kernel::{
    error::to_result,
    prelude::*,
    sync::Arc,
    uaccess::{
        UserPtr,
        UserSlice, //
    },
};
use zerocopy::Immutable;

/// Request and response buffers that the driver's user space library passed along with a
/// command ([`struct ib_udata`]).
///
/// # Invariants
///
/// Points to the driver's data in the attribute bundle of a running system call.
///
/// [`struct ib_udata`]: srctree/include/rdma/ib_verbs.h
pub(crate) struct Udata<'a> {
    // No reference: the core goes from here to the bundle around it.
    raw: NonNull<b::ib_udata>,
    call: PhantomData<&'a mut b::ib_udata>,
    /// What the operation has shared with the process so far.
    mappings: KVec<Mapping>,
}

impl Udata<'_> {
    /// Returns `None` for null: the caller is inside the kernel.
    ///
    /// # Safety
    ///
    /// `udata` must be null or what the core passes to a create or modify operation, and
    /// stay valid during `'a`.
    pub(super) unsafe fn from_raw<'a>(udata: *mut b::ib_udata) -> Option<Udata<'a>> {
        // INVARIANT: By the requirements.
        NonNull::new(udata).map(|raw| Udata {
            raw,
            call: PhantomData,
            mappings: KVec::new(),
        })
    }

    /// Takes what has been shared, to be kept for as long as the object that needs it.
    pub(super) fn into_mappings(this: Option<Self>) -> KVec<Mapping> {
        this.map(|udata| udata.mappings).unwrap_or_default()
    }

    /// Lets the user process map `memory`, until the object that is being made is destroyed.
    ///
    /// If the operation fails in the end the memory is not to be had any more.
    pub(crate) fn share(&mut self, memory: Arc<dyn Mappable>) -> Result<Shared> {
        // SAFETY: By the type invariant.
        let context = unsafe { b::helpers::udata_ucontext(self.raw.as_ptr()) };
        // It is null while the context itself is being made.
        let context = NonNull::new(context).ok_or(EINVAL)?;
        // SAFETY: The objects of a context, with which mappings are kept, go away before it.
        let mapping = unsafe { Mapping::new(context, memory) }?;
        let shared = mapping.shared();
        self.mappings.push(mapping, GFP_KERNEL_ACCOUNT)?;
        Ok(shared)
    }

    /// Reads the request.
    ///
    /// Fails with `EINVAL` if it is too short, with `EOPNOTSUPP` if there is more than this driver
    /// knows of, and with `EFAULT`.
    pub(crate) fn request<T: FromBytes + IntoBytes>(&mut self) -> Result<T> {
        let mut request = T::new_zeroed();
        let bytes = request.as_mut_bytes();
        let (to, len) = (bytes.as_mut_ptr().cast(), bytes.len());
        // SAFETY: Valid by the type invariant; the slice is valid for writes.
        to_result(unsafe { b::_ib_copy_validate_udata_in(self.raw.as_ptr(), to, len, len) })?;
        Ok(request)
    }

    /// Writes `value` to `address`, which the request has named. Fails with `EFAULT`.
    pub(crate) fn write_at<T: IntoBytes + Immutable>(&mut self, address: u64, value: &T) -> Result {
        let address = usize::try_from(address).map_err(|_| EFAULT)?;
        let bytes = value.as_bytes();
        UserSlice::new(UserPtr::from_addr(address), bytes.len())
            .writer()
            .write_slice(bytes)
    }

    /// Fails with `EINVAL` unless a `T` fits into the response.
    ///
    /// To be checked before anything is made that the response would tell of.
    pub(crate) fn expect_response<T>(&self) -> Result {
        // SAFETY: By the type invariant.
        let room = unsafe { (*self.raw.as_ptr()).outlen };
        if room < size_of::<T>() {
            return Err(EINVAL);
        }
        Ok(())
    }

    /// Writes the response; the rest of the user's buffer is zeroed.
    ///
    /// Fails with `EINVAL` if it does not fit, and with `EFAULT`.
    pub(crate) fn respond<T: IntoBytes + Immutable>(&mut self, response: &T) -> Result {
        self.expect_response::<T>()?;
        let bytes = response.as_bytes();
        let (from, len) = (bytes.as_ptr().cast(), bytes.len());
        // SAFETY: Valid by the type invariant; the slice is valid for reads.
        to_result(unsafe { b::_ib_respond_udata(self.raw.as_ptr(), from, len) })
    }
}
