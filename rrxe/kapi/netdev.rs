// SPDX-License-Identifier: GPL-2.0

//! Network devices.
//!
//! C header: [`include/linux/netdevice.h`](srctree/include/linux/netdevice.h)

use crate::kapi::bindings as b;
use core::ptr::NonNull;
use kernel::{
    prelude::*,
    str::CStr,
    sync::aref::{
        ARef,
        AlwaysRefCounted, //
    },
    types::Opaque, //
};

/// A network device ([`struct net_device`]).
///
/// A reference keeps a device that is being unregistered from going away, so whoever holds
/// one must let go when told of it.
///
/// # Invariants
///
/// The device is referenced.
///
/// [`struct net_device`]: srctree/include/linux/netdevice.h
#[repr(transparent)]
pub(crate) struct NetDevice(Opaque<b::net_device>);

// SAFETY: References may be taken and put by any thread.
unsafe impl Send for NetDevice {}

// SAFETY: All methods may be called from any thread.
unsafe impl Sync for NetDevice {}

// SAFETY: `dev_hold()` and `dev_put()` count references, and unregistering waits for them.
unsafe impl AlwaysRefCounted for NetDevice {
    fn inc_ref(&self) {
        // SAFETY: The device is referenced by the type invariant.
        unsafe { b::helpers::dev_hold(self.as_raw()) };
    }

    unsafe fn dec_ref(obj: NonNull<Self>) {
        // SAFETY: The caller gives up a reference.
        unsafe { b::helpers::dev_put(obj.as_ref().as_raw()) };
    }
}

impl NetDevice {
    /// # Safety
    ///
    /// `netdev` must be referenced during `'a`.
    pub(in crate::kapi) unsafe fn from_raw<'a>(netdev: *mut b::net_device) -> &'a Self {
        // INVARIANT: By the requirements.
        // SAFETY: As above; the type is transparent.
        unsafe { &*netdev.cast() }
    }

    /// Takes over a reference; `None` for null.
    ///
    /// # Safety
    ///
    /// `netdev` must be null or come with a reference that is the caller's to give away.
    pub(in crate::kapi) unsafe fn take(netdev: *mut b::net_device) -> Option<ARef<Self>> {
        // SAFETY: By the requirements; the type is transparent.
        NonNull::new(netdev.cast()).map(|netdev| unsafe { ARef::from_raw(netdev) })
    }

    pub(in crate::kapi) fn as_raw(&self) -> *mut b::net_device {
        self.0.get()
    }

    /// The name, which may change at any time.
    pub(crate) fn name(&self) -> &CStr {
        // SAFETY: The name is an array that ends with a NUL whatever happens, see
        // `netdev_name()`; a change may be seen half done.
        unsafe { CStr::from_char_ptr((*self.as_raw()).__bindgen_anon_1.name.as_ptr()) }
    }
}
