// SPDX-License-Identifier: GPL-2.0

//! Link types: how `rdma link add` makes devices.
//!
//! C header: [`include/rdma/rdma_netlink.h`](srctree/include/rdma/rdma_netlink.h)

use super::{
    registry,
    IbDevice,
    Provider, //
};
use crate::kapi::{
    bindings as b,
    net::netdev::NetDevice,
    sync, //
};
use core::ptr;
use kernel::{
    error::from_result,
    prelude::*,
    str::CStr,
    types::Opaque, //
};

/// How devices of a provider come to be.
pub(crate) trait Link<P: Provider<Link = Self>> {
    /// Makes a device called `name` on `netdev`, see [`register`](super::register).
    ///
    /// Process context, may sleep; called concurrently.
    fn add(name: &CStr, netdev: &NetDevice) -> Result;
}

/// A link type, to be put into a `static`.
pub(crate) struct LinkOps(Opaque<b::rdma_link_ops>);

// SAFETY: The core changes the list head in it under its own lock, no one else does anything.
unsafe impl Sync for LinkOps {}

// SAFETY: As above.
unsafe impl Send for LinkOps {}

impl LinkOps {
    /// Makes the link type `name` of a provider.
    pub(crate) const fn new<P: Provider>(name: &'static CStr) -> Self {
        Self(Opaque::new(b::rdma_link_ops {
            list: b::list_head {
                next: ptr::null_mut(),
                prev: ptr::null_mut(),
            },
            type_: name.to_bytes_with_nul().as_ptr(),
            newlink: Some(newlink::<P>),
            dellink: Some(dellink),
        }))
    }

    pub(super) fn as_raw(&self) -> *mut b::rdma_link_ops {
        self.0.get()
    }
}

/// The registration of all link types of the module.
///
/// Its drop unregisters all devices as well, and returns when no code of the module is called any
/// more on their behalf.
pub(crate) struct LinkRegistration(&'static [LinkOps]);

impl LinkRegistration {
    /// Registers link types, which nobody else may have registered. `EBUSY` but for the first time
    /// in the life of the module.
    pub(crate) fn new(types: &'static [LinkOps]) -> Result<Self> {
        registry::init()?;
        for ops in types {
            // SAFETY: `ops` is static, and unregistered by the drop.
            unsafe { b::rdma_link_register(ops.as_raw()) };
        }
        Ok(Self(types))
    }
}

impl Drop for LinkRegistration {
    fn drop(&mut self) {
        for ops in self.0 {
            // SAFETY: Registered in `new`. This waits for devices that are being made.
            unsafe { b::rdma_link_unregister(ops.as_raw()) };
        }
        registry::unregister_all();
        sync::wait_for_burials();
    }
}

/// The operation `newlink`.
///
/// # Safety
///
/// To be called by the RDMA core, with a name and a netdev that stay valid meanwhile.
unsafe extern "C" fn newlink<P: Provider>(
    name: *const c_char,
    netdev: *mut b::net_device,
) -> c_int {
    from_result(|| {
        // SAFETY: The core passes a string that outlives the call.
        let name = unsafe { CStr::from_char_ptr(name.cast()) };
        // SAFETY: The core holds the netdev meanwhile.
        let netdev = unsafe { NetDevice::from_raw(netdev) };
        P::Link::add(name, netdev)?;
        Ok(0)
    })
}

/// The operation `dellink`: after it the core unregisters the device itself.
///
/// # Safety
///
/// To be called by the RDMA core, with a device of the link type.
unsafe extern "C" fn dellink(ib: *mut b::ib_device) -> c_int {
    // SAFETY: The core holds the device meanwhile.
    unsafe { IbDevice::from_raw(ib) }.leave();
    0
}
