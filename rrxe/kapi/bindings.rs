// SPDX-License-Identifier: GPL-2.0

//! Raw C bindings: the kernel's own crate, and on top what bindgen makes of
//! `include/rrxe/bindings_helper.h` and of the inline helpers.
//!
//! Named nowhere outside `kapi`.

#![expect(
    clippy::all,
    non_camel_case_types,
    non_snake_case,
    non_upper_case_globals
)]
#![allow(
    clippy::borrow_as_ptr,
    clippy::cast_lossless,
    clippy::ptr_as_ptr,
    clippy::ref_as_ptr,
    clippy::undocumented_unsafe_blocks,
    dead_code,
    improper_ctypes,
    unnecessary_transmutes,
    unreachable_pub,
    unsafe_op_in_unsafe_fn,
    unused_imports,
    reason = "machine-made: what it needs differs with the kernel's configuration"
)]

mod raw {
    use kernel::ffi;
    use pin_init::{MaybeZeroable, Zeroable};

    pub use kernel::bindings::*;

    // `rust/bindgen_parameters` blocklists these.
    type __kernel_size_t = usize;
    type __kernel_ssize_t = isize;
    type __kernel_ptrdiff_t = isize;

    // SAFETY: A member of a union that is not generated as one is nothing but its type.
    unsafe impl<T> Zeroable for __BindgenUnionField<T> {}

    // SAFETY: The unit is nothing but its storage.
    unsafe impl<Storage> Zeroable for __BindgenBitfieldUnit<Storage> where Storage: Zeroable {}

    include!(concat!(env!("RRXE_OBJ"), "/rdma_bindings.rs"));
}
pub use raw::*;

/// Inline functions and macros of C headers, see `rrxe/helpers.c`.
pub mod helpers {
    use super::raw::*;
    use kernel::ffi;

    include!(concat!(env!("RRXE_OBJ"), "/rdma_helpers.rs"));
}
