// SPDX-License-Identifier: GPL-2.0

//! Identifications of IPv4 packets.

use crate::kapi::bindings as b;
use kernel::sync::atomic::{
    ordering,
    Atomic, //
};

/// A counter of IPv4 identifications, to be kept by each sender.
///
/// Identifications of successive packets increment even though none is ever fragmented: hosts that
/// merge packets of one flow and split them again renumber them that way, and RoCE's invariant CRC
/// covers the number.
pub(crate) struct IpId {
    next: Atomic<u32>,
}

impl IpId {
    /// A counter that starts at random.
    pub(crate) fn new() -> Self {
        // SAFETY: Random numbers may be asked for at any time.
        let start = unsafe { b::get_random_u32() };
        Self {
            next: Atomic::new(start),
        }
    }

    /// Takes `n` successive identifications and returns the first; the next after 65535 is 0. Any
    /// context.
    #[inline]
    pub(crate) fn reserve(&self, n: u16) -> u16 {
        let first = self.next.fetch_add(u32::from(n), ordering::Relaxed);
        // The counter is wider; its lower half counts on its own.
        (first & 0xffff) as u16
    }
}
