// SPDX-License-Identifier: GPL-2.0

//! The CRC-32 of Ethernet, and of RoCE's invariant CRC.
//!
//! C header: [`include/linux/crc32.h`](srctree/include/linux/crc32.h)

use crate::kapi::bindings as b;

/// The CRC, least significant bit first, of `bytes` after `seed`. Any context.
///
/// `seed` is the value so far: `!0` at the start, and the CRC proper is the complement of the last.
#[inline]
pub(crate) fn crc32_le(seed: u32, bytes: &[u8]) -> u32 {
    // SAFETY: `bytes` is readable.
    unsafe { b::crc32_le(seed, bytes.as_ptr().cast(), bytes.len()) }
}
