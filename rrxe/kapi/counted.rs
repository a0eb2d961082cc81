// SPDX-License-Identifier: GPL-2.0

//! C structures with a reference count, as transparent Rust types.

/// Makes `$type`, a transparent wrapper of `Opaque<$raw>`, one that is kept in an
/// [`ARef`](kernel::sync::aref::ARef), given the functions that take and put a reference.
///
/// The invariant of the type must be that the structure is referenced while a Rust reference to it
/// exists. Its methods, as far as they are safe, must be such that any threads may call them at once,
/// and the last reference may be put by any thread.
macro_rules! counted {
    ($type:ident($raw:ident), $get:path, $put:path) => {
        // SAFETY: References may be put by any thread.
        unsafe impl Send for $type {}

        // SAFETY: All methods may be called by several threads at once.
        unsafe impl Sync for $type {}

        // SAFETY: The structure is not freed before its last reference has been put.
        unsafe impl ::kernel::sync::aref::AlwaysRefCounted for $type {
            fn inc_ref(&self) {
                // SAFETY: By the type invariant the structure is referenced.
                unsafe { $get(self.as_ptr()) };
            }

            unsafe fn dec_ref(obj: ::core::ptr::NonNull<Self>) {
                // SAFETY: The caller gives up a reference.
                unsafe { $put(obj.as_ptr().cast()) };
            }
        }

        impl $type {
            /// The C structure.
            #[inline]
            pub(in crate::kapi) fn as_ptr(&self) -> *mut $crate::kapi::bindings::$raw {
                self.0.get()
            }
        }
    };
}
pub(in crate::kapi) use counted;
