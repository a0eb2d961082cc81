// SPDX-License-Identifier: GPL-2.0

//! Memory windows.

use super::{
    object::{
        Mw,
        Pd, //
    },
    Provider,
    Udata, //
};
use crate::kapi::bindings as b;
use kernel::prelude::*;

/// What kind of memory window ([`enum ib_mw_type`]).
///
/// [`enum ib_mw_type`]: srctree/include/rdma/ib_verbs.h
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum MwType {
    /// Belongs to a protection domain.
    One,
    /// Belongs to a queue pair while it is bound.
    Two,
}

impl MwType {
    fn from_raw(raw: b::ib_mw_type) -> Result<Self> {
        match raw {
            b::ib_mw_type_IB_MW_TYPE_1 => Ok(Self::One),
            b::ib_mw_type_IB_MW_TYPE_2 => Ok(Self::Two),
            _ => Err(EINVAL),
        }
    }
}

/// The driver's part of a memory window.
pub(crate) trait MemoryWindow<P: Provider<Mw = Self>>: Sized + Send + Sync {
    /// Makes a window on `pd` that shows nothing.
    ///
    /// Process context, may sleep.
    fn create(pd: &Pd<P>, mw_type: MwType) -> Result<Self>;

    /// Its key before it is bound for the first time.
    fn rkey(&self) -> u32;
}

/// The operation `alloc_mw`.
///
/// # Safety
///
/// To be called by the RDMA core, as [`ops`](super::ops) says.
pub(super) unsafe extern "C" fn alloc<P: Provider>(
    mw: *mut b::ib_mw,
    udata: *mut b::ib_udata,
) -> c_int {
    let make = |pd: &Pd<P>, _: Option<Udata<'_>>| {
        // SAFETY: The core has set it before the call.
        let mw_type = MwType::from_raw(unsafe { (*mw).type_ })?;
        let data = P::Mw::create(pd, mw_type)?;
        // SAFETY: The object is no one else's before this returns.
        unsafe { (*mw).rkey = data.rkey() };
        Ok((data, ()))
    };
    // SAFETY: This is the create operation.
    unsafe { Mw::<P>::create(mw, udata, make) }
}

/// The operation `dealloc_mw`.
///
/// # Safety
///
/// To be called by the RDMA core, as [`ops`](super::ops) says.
pub(super) unsafe extern "C" fn dealloc<P: Provider>(mw: *mut b::ib_mw) -> c_int {
    // SAFETY: This is the destroy operation.
    unsafe { Mw::<P>::destroy(mw, drop) };
    0
}
