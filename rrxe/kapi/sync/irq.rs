// SPDX-License-Identifier: GPL-2.0

//! Locks that keep all interrupts off this CPU.
//!
//! C header: [`include/linux/spinlock.h`](srctree/include/linux/spinlock.h)

use crate::kapi::bindings as b;
use kernel::sync::lock::{
    Backend,
    Lock, //
};

/// A spin lock that disables interrupts on this CPU while it is held.
///
/// For data that consumers inside the kernel reach from any context. Create one with
/// [`new_spinlock_irq!`].
pub(crate) type SpinLockIrq<T> = Lock<T, SpinLockIrqBackend>;

/// Creates an initialiser of a [`SpinLockIrq`], with the name given or one made of the source line.
macro_rules! new_spinlock_irq {
    ($inner:expr $(, $name:literal)? $(,)?) => {
        $crate::kapi::sync::irq::SpinLockIrq::new(
            $inner,
            ::kernel::optional_name!($($name)?),
            ::kernel::static_lock_class!(),
        )
    };
}
pub(crate) use new_spinlock_irq;

/// A kernel `spinlock_t` that is taken with interrupts disabled.
pub(crate) struct SpinLockIrqBackend;

// SAFETY: `spinlock_t` gives mutual exclusion, and interrupts stay disabled from `lock` to `unlock`.
// The default `relock` calls `lock`.
unsafe impl Backend for SpinLockIrqBackend {
    type State = kernel::bindings::spinlock_t;
    /// What interrupts were like before.
    type GuardState = kernel::ffi::c_ulong;

    /// # Safety
    ///
    /// As [`Backend::init`] says.
    #[inline]
    unsafe fn init(
        ptr: *mut Self::State,
        name: *const kernel::ffi::c_char,
        key: *mut kernel::bindings::lock_class_key,
    ) {
        // SAFETY: The caller promises that `ptr` is valid for writes, and `name` and `key` for
        // reads indefinitely.
        unsafe { kernel::bindings::__spin_lock_init(ptr, name, key) }
    }

    /// # Safety
    ///
    /// As [`Backend::lock`] says.
    #[inline]
    unsafe fn lock(ptr: *mut Self::State) -> Self::GuardState {
        // SAFETY: The caller promises that the lock is initialised.
        unsafe { b::helpers::spin_lock_irqsave(ptr) }
    }

    /// # Safety
    ///
    /// As [`Backend::unlock`] says.
    #[inline]
    unsafe fn unlock(ptr: *mut Self::State, flags: &Self::GuardState) {
        // SAFETY: The caller owns the lock, and the flags are those that taking it gave.
        unsafe { b::helpers::spin_unlock_irqrestore(ptr, *flags) }
    }

    /// # Safety
    ///
    /// As [`Backend::try_lock`] says.
    #[inline]
    unsafe fn try_lock(ptr: *mut Self::State) -> Option<Self::GuardState> {
        let mut flags = 0;
        // SAFETY: The caller promises that the lock is initialised.
        let taken = unsafe { b::helpers::spin_trylock_irqsave(ptr, &mut flags) };
        taken.then_some(flags)
    }

    /// # Safety
    ///
    /// As [`Backend::assert_is_held`] says.
    #[inline]
    unsafe fn assert_is_held(ptr: *mut Self::State) {
        // SAFETY: The caller promises that the lock is initialised.
        unsafe { kernel::bindings::spin_assert_is_held(ptr) }
    }
}

/// Whether interrupts are disabled on this CPU, as they are in a hard interrupt.
#[inline]
pub(crate) fn are_disabled() -> bool {
    // SAFETY: Has no requirements.
    unsafe { b::helpers::irqs_disabled() }
}
