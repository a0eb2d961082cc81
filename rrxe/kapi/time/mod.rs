// SPDX-License-Identifier: GPL-2.0

//! The clock and its timers.

pub(crate) mod timer;

pub(crate) use timer::{
    Expire,
    Timer, //
};

use crate::kapi::bindings as b;
use rrxe_proto::time::Instant;

/// The monotonic clock: nanoseconds since some moment of the boot. Any context.
#[inline]
pub(crate) fn now() -> Instant {
    // SAFETY: The clock may be read at any time.
    let nanos = unsafe { b::ktime_get() };
    // The clock starts near zero and is never negative.
    Instant::from_nanos(nanos.cast_unsigned())
}
