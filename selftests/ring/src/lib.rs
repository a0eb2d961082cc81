// SPDX-License-Identifier: GPL-2.0

//! Host tests of the queues that rrxe shares with user space.
//!
//! The sources of `rrxe/ring` are compiled as they are, on a stand-in for the kernel and for shared
//! memory. The tests play user space, polite and hostile.

#![cfg(test)]

mod shmem;

mod kapi {
    pub(crate) use crate::{shmem, shmem as rdma};
}

#[path = "../../../rrxe/ring/mod.rs"]
#[allow(dead_code, unused_imports)]
mod ring;

mod completions;
mod kernel;
mod receives;
mod sends;
mod sizes;
mod user;
