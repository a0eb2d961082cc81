// SPDX-License-Identifier: GPL-2.0

//! Allocation flags for C functions that the `kernel` crate does not wrap.

use crate::kapi::bindings as b;
use kernel::alloc::{
    flags::GFP_KERNEL,
    Flags, //
};

/// What C takes for `flags`: the kernel crate keeps the number to itself.
///
/// Flags that let the caller sleep become `GFP_KERNEL`, all others `GFP_ATOMIC`.
pub(in crate::kapi) fn raw(flags: Flags) -> b::gfp_t {
    if flags.contains(GFP_KERNEL) {
        b::RRXE_GFP_KERNEL
    } else {
        b::RRXE_GFP_ATOMIC
    }
}
