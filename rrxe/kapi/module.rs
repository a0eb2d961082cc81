// SPDX-License-Identifier: GPL-2.0

//! Modules that must not be loaded beside this one.
//!
//! C headers: [`include/linux/module.h`](srctree/include/linux/module.h),
//! [`include/linux/kobject.h`](srctree/include/linux/kobject.h)

use crate::kapi::bindings as b;
use core::{
    marker::PhantomPinned,
    ptr, //
};
use kernel::{
    error::to_result,
    prelude::*,
    str::CStr,
    types::Opaque, //
};

/// Keeps another module out: while this exists, that module cannot be loaded.
///
/// # Invariants
///
/// `block` is registered, in the middle of a pinned `Exclusion`.
#[pin_data(PinnedDrop)]
pub(crate) struct Exclusion {
    other: &'static CStr,
    #[pin]
    block: Opaque<b::notifier_block>,
    #[pin]
    _pin: PhantomPinned,
}

// SAFETY: Notifiers may be unregistered by any thread.
unsafe impl Send for Exclusion {}

// SAFETY: There is nothing to be done with a shared reference but to read the name.
unsafe impl Sync for Exclusion {}

impl Exclusion {
    /// Keeps the module `other` out. Fails with `EBUSY` if it is loaded.
    ///
    /// A module that is just being loaded while this is called may slip through; see
    /// [`is_loaded`].
    pub(crate) fn new(
        other: &'static CStr,
        module: &'static ThisModule,
    ) -> impl PinInit<Self, Error> {
        try_pin_init!(Self {
            other,
            // INVARIANT: Registered when this succeeds.
            block <- Opaque::try_ffi_init(|slot: *mut b::notifier_block| {
                let block = b::notifier_block {
                    notifier_call: Some(Self::call),
                    next: ptr::null_mut(),
                    priority: 0,
                };
                // SAFETY: `slot` is valid for writes.
                unsafe { slot.write(block) };
                // SAFETY: The block is initialized, pinned, and unregistered before its drop.
                to_result(unsafe { b::register_module_notifier(slot) })?;
                // From here on it does not get in, so it is enough to look once.
                if is_loaded(other, module) {
                    // SAFETY: Just registered.
                    unsafe { b::unregister_module_notifier(slot) };
                    return Err(EBUSY);
                }
                Ok(())
            }),
            _pin: PhantomPinned,
        })
    }

    /// # Safety
    ///
    /// To be called for the C block of an [`Exclusion`], with a module.
    unsafe extern "C" fn call(
        block: *mut b::notifier_block,
        state: c_ulong,
        module: *mut c_void,
    ) -> c_int {
        let opaque = Opaque::cast_from(block).cast_mut();
        // SAFETY: By the type invariant the C block is this field of an `Exclusion`.
        let this = unsafe { kernel::container_of!(opaque, Self, block) };
        // SAFETY: Unregistering waits for this call.
        let other = unsafe { (*this).other };
        // SAFETY: The argument of a module notifier is the module.
        let name = unsafe { &raw const (*module.cast::<b::module>()).name };
        // SAFETY: The name of a module is terminated and does not change.
        let name = unsafe { CStr::from_char_ptr(name.cast()) };

        if state == b::module_state_MODULE_STATE_COMING as c_ulong && name == other {
            pr_err!("{} must not be loaded beside this module\n", other);
            // SAFETY: The function has no requirements.
            return unsafe { b::helpers::notifier_from_errno(EBUSY.to_errno()) };
        }
        b::NOTIFY_DONE as c_int
    }
}

#[pinned_drop]
impl PinnedDrop for Exclusion {
    fn drop(self: Pin<&mut Self>) {
        // SAFETY: Registered by the type invariant.
        unsafe { b::unregister_module_notifier(self.block.get()) };
    }
}

/// Whether the module `name` is loaded. Process context.
///
/// Looks for `/sys/module/<name>`, which is there from before a module's initialization to
/// after its end; all modules are in the same directory as `module`.
pub(crate) fn is_loaded(name: &CStr, module: &'static ThisModule) -> bool {
    let module = module.as_ptr().cast::<b::module>();
    // SAFETY: This module is loaded, so that its directory is set up.
    let modules = unsafe { (*module).mkobj.kobj.kset };
    // SAFETY: The set exists as long as the kernel.
    let found = unsafe { b::kset_find_obj(modules, name.as_char_ptr()) };
    // SAFETY: Null, or a reference that the search gave us.
    unsafe { b::kobject_put(found) };
    !found.is_null()
}
