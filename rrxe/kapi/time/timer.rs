// SPDX-License-Identifier: GPL-2.0

//! High resolution timers that expire in softirq context.
//!
//! C header: [`include/linux/hrtimer.h`](srctree/include/linux/hrtimer.h)
//!
//! `kernel::time::hrtimer` hands a reference count to each start and takes it back with a handle
//! whose drop waits. Here a timer is armed again and again, from its own callback and from several
//! CPUs, on paths that cannot pay for that: the timer owns what its callback needs instead.

use crate::kapi::{
    bindings as b,
    callback::{
        Callback,
        CallsBack, //
    },
};
use kernel::{
    prelude::*,
    types::Opaque, //
};
use rrxe_proto::time::Instant;

/// What happens when a [`Timer`] expires.
pub(crate) trait Expire: Send + Sync + 'static {
    /// Called in softirq context, for one CPU at a time, with no lock held.
    ///
    /// May arm the timer again. Must not cancel it, nor drop the last reference to what holds it:
    /// both wait for this very call.
    fn expired(&self);
}

/// A timer on the monotonic clock that calls a target of its own.
///
/// The target must not own what contains the timer. To reach the object that does, let the target
/// be its number in an [`RcuTable`](crate::kapi::sync::RcuTable) together with the table: the look-up
/// finds nothing once the object is being torn down.
///
/// Arming and cancelling may race on several CPUs; the last of them takes effect. Dropping the timer
/// cancels it and waits for a callback that runs.
///
/// # Invariants
///
/// `timer` has an initialised `hrtimer`, whose callback is [`Timer::<T>::run`].
#[pin_data(PinnedDrop)]
pub(crate) struct Timer<T: Expire> {
    #[pin]
    timer: Callback<b::hrtimer, T>,
}

// SAFETY: The operations on a `hrtimer` take its base's lock.
unsafe impl CallsBack for b::hrtimer {}

impl<T: Expire> Timer<T> {
    /// How the timer is started: at a point of the clock, expiring in a softirq.
    const MODE: b::hrtimer_mode = b::hrtimer_mode_HRTIMER_MODE_ABS_SOFT;

    /// An initialiser of a timer that is not armed.
    pub(crate) fn new(target: T) -> impl PinInit<Self> {
        let clock = b::CLOCK_MONOTONIC as b::clockid_t;
        let timer = Opaque::ffi_init(move |slot| {
            // SAFETY: `slot` is valid for writes and pinned from now on.
            unsafe { b::hrtimer_setup(slot, Some(Self::run), clock, Self::MODE) }
        });
        // INVARIANT: The timer is initialised, with that callback.
        pin_init!(Self {
            timer <- Callback::new(target, timer),
        })
    }

    /// Arms the timer to expire at `deadline`, or moves its deadline there. Process or softirq
    /// context.
    ///
    /// A deadline that has passed expires as soon as a softirq can run.
    #[inline]
    pub(crate) fn arm(&self, deadline: Instant) {
        let nanos = i64::try_from(deadline.as_nanos()).unwrap_or(i64::MAX);
        // SAFETY: By the type invariant the timer is initialised.
        unsafe { b::hrtimer_start_range_ns(self.timer.raw(), nanos, 0, Self::MODE) };
    }

    /// Cancels the timer and waits for a callback that runs.
    ///
    /// Process or softirq context, but not from the callback, and not with a lock held that the
    /// callback takes. A callback that is waited for may arm the timer again, and so may others
    /// afterwards: prevent that first.
    pub(crate) fn cancel(&self) {
        // SAFETY: By the type invariant the timer is initialised.
        unsafe { b::hrtimer_cancel(self.timer.raw()) };
    }

    /// The callback of the C timer.
    ///
    /// # Safety
    ///
    /// To be called by the C timer of a [`Timer`] of this type only.
    unsafe extern "C" fn run(timer: *mut b::hrtimer) -> b::hrtimer_restart {
        // SAFETY: By the type invariant the C timer is that of a `Callback` of this type. The drop
        // of the `Timer` waits for this call.
        let target = unsafe { Callback::<_, T>::target(timer) };
        target.expired();
        // If the callback armed the timer it is queued already, and stays so.
        b::hrtimer_restart_HRTIMER_NORESTART
    }
}

#[pinned_drop]
impl<T: Expire> PinnedDrop for Timer<T> {
    fn drop(self: Pin<&mut Self>) {
        self.cancel();
    }
}
