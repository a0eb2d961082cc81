// SPDX-License-Identifier: GPL-2.0

//! Safe wrappers of the kernel's C interfaces, in the manner of the `kernel` crate.
//!
//! This is the only place with `unsafe` code, and the only one that names the raw [`bindings`].

mod bindings;
mod callback;
mod charge;
mod counted;
pub(crate) mod crc;
pub(crate) mod debugfs;
pub(crate) mod dma_buf;
pub(crate) mod errand;
pub(crate) mod error;
mod gfp;
pub(crate) mod mem;
pub(crate) mod module;
pub(crate) mod net;
pub(crate) mod percpu;
pub(crate) mod process;
pub(crate) mod random;
pub(crate) mod rdma;
pub(crate) mod shmem;
pub(crate) mod sync;
pub(crate) mod time;
pub(crate) mod work;
