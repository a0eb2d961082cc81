// SPDX-License-Identifier: GPL-2.0

//! Modules that must not be loaded beside this one, and this one when it must not go.
//!
//! C headers: [`include/linux/module.h`](srctree/include/linux/module.h),
//! [`include/linux/kobject.h`](srctree/include/linux/kobject.h)

use crate::kapi::{
    bindings as b,
    callback::{
        notifier_block,
        Callback, //
    },
};
use kernel::{
    error::to_result,
    prelude::*,
    str::CStr, //
};

/// Keeps another module out: while this exists, that module cannot be loaded.
///
/// # Invariants
///
/// `block` has a registered block, with [`Exclusion::call`], and the name of the other module.
#[pin_data(PinnedDrop)]
pub(crate) struct Exclusion {
    #[pin]
    block: Callback<b::notifier_block, &'static CStr>,
}

impl Exclusion {
    /// Keeps the module `other` out. Fails with `EBUSY` if it is loaded.
    ///
    /// A module that is just being loaded while this is called may slip through; see
    /// [`is_loaded`].
    pub(crate) fn new(
        other: &'static CStr,
        module: &'static ThisModule,
    ) -> impl PinInit<Self, Error> {
        let block = notifier_block(Self::call, |block| {
            // SAFETY: The block is initialized, pinned, and unregistered before its drop.
            to_result(unsafe { b::register_module_notifier(block) })
        });
        // INVARIANT: The block is registered when this has succeeded.
        try_pin_init!(Self {
            block <- Callback::new(other, block),
        })
        // From here on it does not get in, so it is enough to look once.
        .pin_chain(move |_| {
            if is_loaded(other, module) {
                Err(EBUSY)
            } else {
                Ok(())
            }
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
        // SAFETY: By the type invariant the C block is that of a `Callback` of this type.
        // Unregistering waits for this call.
        let other = *unsafe { Callback::<_, &'static CStr>::target(block) };
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
        unsafe { b::unregister_module_notifier(self.block.raw()) };
    }
}

/// Keeps this module loaded: unloading it fails with `EBUSY` meanwhile.
///
/// For threads that may be held up for long. The module must wait for their last steps all the same.
pub(crate) struct Hold(());

impl Hold {
    /// `None` if the module is going already. Any context.
    pub(crate) fn new() -> Option<Self> {
        // SAFETY: This module is loaded.
        unsafe { b::try_module_get(crate::THIS_MODULE.as_ptr()) }.then_some(Self(()))
    }
}

impl Drop for Hold {
    fn drop(&mut self) {
        // SAFETY: `new` took it.
        unsafe { b::module_put(crate::THIS_MODULE.as_ptr()) };
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
