// SPDX-License-Identifier: GPL-2.0

//! Locks and sections that keep softirqs ("bottom halves") off this CPU.
//!
//! C headers: [`include/linux/spinlock.h`](srctree/include/linux/spinlock.h),
//! [`include/linux/bottom_half.h`](srctree/include/linux/bottom_half.h)

use crate::kapi::bindings as b;
use kernel::{
    sync::lock::{
        Backend,
        Lock, //
    },
    types::NotThreadSafe,
};

/// A spin lock that disables softirqs on this CPU while it is held.
///
/// For data shared between process context and softirqs. Taken in process or softirq context, never
/// in a hard interrupt. Create one with [`new_spinlock_bh!`].
pub(crate) type SpinLockBh<T> = Lock<T, SpinLockBhBackend>;

/// Creates an initialiser of a [`SpinLockBh`], with the name given or one made of the source line.
macro_rules! new_spinlock_bh {
    ($inner:expr $(, $name:literal)? $(,)?) => {
        $crate::kapi::sync::bh::SpinLockBh::new(
            $inner,
            ::kernel::optional_name!($($name)?),
            ::kernel::static_lock_class!(),
        )
    };
}
pub(crate) use new_spinlock_bh;

/// A kernel `spinlock_t` that is taken with softirqs disabled.
pub(crate) struct SpinLockBhBackend;

// SAFETY: `spinlock_t` gives mutual exclusion, and softirqs stay disabled from `lock` to `unlock`,
// so that no softirq on the owner's CPU can get in between either. The default `relock` calls `lock`.
unsafe impl Backend for SpinLockBhBackend {
    type State = kernel::bindings::spinlock_t;
    type GuardState = ();

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
        unsafe { b::helpers::spin_lock_bh(ptr) }
    }

    /// # Safety
    ///
    /// As [`Backend::unlock`] says.
    #[inline]
    unsafe fn unlock(ptr: *mut Self::State, _guard_state: &Self::GuardState) {
        // SAFETY: The caller owns the lock, which it took with `spin_lock_bh` or
        // `spin_trylock_bh`.
        unsafe { b::helpers::spin_unlock_bh(ptr) }
    }

    /// # Safety
    ///
    /// As [`Backend::try_lock`] says.
    #[inline]
    unsafe fn try_lock(ptr: *mut Self::State) -> Option<Self::GuardState> {
        // SAFETY: The caller promises that the lock is initialised.
        let taken = unsafe { b::helpers::spin_trylock_bh(ptr) };
        (taken != 0).then_some(())
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

/// Evidence that softirqs are disabled on this CPU.
///
/// Nests. Pending softirqs run when the outermost guard is dropped; dropping it must not happen with
/// hard interrupts disabled.
///
/// # Invariants
///
/// Softirqs are disabled on the current CPU while the guard exists.
#[must_use = "softirqs are enabled again as soon as the guard is dropped"]
pub(crate) struct BhGuard(NotThreadSafe);

impl BhGuard {
    /// Disables softirqs on this CPU; process or softirq context.
    #[inline]
    pub(crate) fn new() -> Self {
        // SAFETY: Any task or softirq may disable softirqs.
        unsafe { b::helpers::local_bh_disable() };
        // INVARIANT: Softirqs were just disabled, and only the guard's drop undoes that.
        Self(NotThreadSafe)
    }
}

impl Drop for BhGuard {
    #[inline]
    fn drop(&mut self) {
        // SAFETY: By the type invariant this undoes the matching `local_bh_disable`, on the same
        // thread since the guard is not `Send`.
        unsafe { b::helpers::local_bh_enable() };
    }
}
