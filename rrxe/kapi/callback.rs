// SPDX-License-Identifier: GPL-2.0

//! C structures that are registered or started somewhere, and call back.

use crate::kapi::bindings as b;
use core::{
    marker::PhantomPinned,
    ptr, //
};
use kernel::{
    prelude::*,
    types::Opaque, //
};

/// A C structure whose address is given to the function that it stands for.
///
/// # Safety
///
/// Any thread may use it and end its use.
pub(in crate::kapi) unsafe trait CallsBack {}

/// A C structure and what the function that it stands for works on.
///
/// Whoever has one must make sure that the function is not called any more when this is dropped.
///
/// # Invariants
///
/// While `raw` is initialised so is `target`.
#[pin_data]
#[repr(C)]
pub(in crate::kapi) struct Callback<C: CallsBack, T> {
    // The first, so that its address is that of the whole.
    #[pin]
    raw: Opaque<C>,
    target: T,
    #[pin]
    _pin: PhantomPinned,
}

// SAFETY: The C structure is not bound to a thread, and `T` is `Send`.
unsafe impl<C: CallsBack, T: Send> Send for Callback<C, T> {}

// SAFETY: Any threads may use the C structure, and `T` is `Sync`.
unsafe impl<C: CallsBack, T: Sync> Sync for Callback<C, T> {}

impl<C: CallsBack, T> Callback<C, T> {
    /// An initialiser; `raw` may have the function called before it returns.
    pub(in crate::kapi) fn new<E>(
        target: T,
        raw: impl PinInit<Opaque<C>, E>,
    ) -> impl PinInit<Self, E> {
        // INVARIANT: In this order.
        try_pin_init!(Self {
            target,
            raw <- raw,
            _pin: PhantomPinned,
        }? E)
    }

    /// The C structure.
    #[inline]
    pub(in crate::kapi) fn raw(&self) -> *mut C {
        self.raw.get()
    }

    /// What the function works on that was called with `raw`.
    ///
    /// # Safety
    ///
    /// `raw` must be the C structure of a `Callback` of this type, which is not dropped in `'a`.
    #[inline]
    pub(in crate::kapi) unsafe fn target<'a>(raw: *mut C) -> &'a T {
        let this = raw.cast::<Self>();
        // SAFETY: The C structure is the first member of a `Self`, whose target is initialised.
        unsafe { &(*this).target }
    }
}

/// The function of a notifier: called with its block, a number and whatever that stands for.
pub(in crate::kapi) type Notify =
    unsafe extern "C" fn(*mut b::notifier_block, c_ulong, *mut c_void) -> c_int;

// SAFETY: A chain of notifiers has a lock, and blocks are not changed by those who are called.
unsafe impl CallsBack for b::notifier_block {}

/// An initialiser of a block that has `call` called, and that `register` registers.
pub(in crate::kapi) fn notifier_block(
    call: Notify,
    register: impl FnOnce(*mut b::notifier_block) -> Result,
) -> impl PinInit<Opaque<b::notifier_block>, Error> {
    Opaque::try_ffi_init(move |slot: *mut b::notifier_block| {
        let block = b::notifier_block {
            notifier_call: Some(call),
            next: ptr::null_mut(),
            priority: 0,
        };
        // SAFETY: `slot` is valid for writes.
        unsafe { slot.write(block) };
        register(slot)
    })
}
