// SPDX-License-Identifier: GPL-2.0

//! Random numbers.
//!
//! C header: [`include/linux/random.h`](srctree/include/linux/random.h)

use crate::kapi::bindings as b;

/// Returns `N` bytes that no one can predict. Any context.
pub(crate) fn bytes<const N: usize>() -> [u8; N] {
    let mut bytes = [0; N];
    // SAFETY: The array is valid for writes of its length.
    unsafe { b::helpers::random_bytes(bytes.as_mut_ptr().cast(), bytes.len()) };
    bytes
}
