// SPDX-License-Identifier: GPL-2.0

//! Network namespaces.
//!
//! C header: [`include/net/net_namespace.h`](srctree/include/net/net_namespace.h)

use crate::kapi::bindings as b;
use core::ptr::NonNull;
use kernel::{
    sync::aref::AlwaysRefCounted,
    types::Opaque, //
};

/// A network namespace that is in use.
///
/// Holding a reference keeps it from being torn down: hold one for the length of an operation, never
/// in anything that the tear-down is to remove.
///
/// # Invariants
///
/// The C object's reference count is not zero while a reference to it exists.
#[repr(transparent)]
pub(crate) struct Net(Opaque<b::net>);

// SAFETY: Reference counts may be dropped by any thread.
unsafe impl Send for Net {}

// SAFETY: All methods may be called by several threads at once.
unsafe impl Sync for Net {}

// SAFETY: The C object is reference counted, and freed when the count reaches zero.
unsafe impl AlwaysRefCounted for Net {
    fn inc_ref(&self) {
        // SAFETY: By the type invariant the count is not zero.
        unsafe { b::helpers::get_net(self.as_ptr()) };
    }

    /// # Safety
    ///
    /// As [`AlwaysRefCounted::dec_ref`] says.
    unsafe fn dec_ref(obj: NonNull<Self>) {
        // SAFETY: The caller owns a count.
        unsafe { b::helpers::put_net(obj.as_ptr().cast()) };
    }
}

impl Net {
    /// The namespace at `ptr`.
    ///
    /// # Safety
    ///
    /// `ptr` must be valid, and its reference count must stay above zero, for the lifetime `'a`.
    pub(crate) unsafe fn from_raw<'a>(ptr: *mut b::net) -> &'a Self {
        // SAFETY: The type is transparent; the rest the caller promises.
        unsafe { &*ptr.cast() }
    }

    /// The C object.
    pub(in crate::kapi) fn as_ptr(&self) -> *mut b::net {
        self.0.get()
    }
}
