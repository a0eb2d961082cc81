// SPDX-License-Identifier: GPL-2.0

//! Address handles, as datagrams see them.
//!
//! # Locking
//!
//! The lock is a leaf, taken in process and softirq context. No packet is sent with it held.

use super::{
    region::PdId,
    way::{
        Path,
        Way, //
    },
};
use crate::kapi::{
    net::{
        Headers,
        NetDevice,
        Route, //
    },
    random,
    sync::{
        new_spinlock_bh,
        SpinLockBh, //
    },
};
use kernel::{
    alloc::Flags,
    prelude::*,
    sync::Arc, //
};

/// Where datagrams go that name an address handle. Queue pairs of its protection domain may.
#[pin_data]
pub(crate) struct Handle {
    pd: PdId,
    /// Its packets are a flow, whoever sends them.
    #[pin]
    way: SpinLockBh<Way>,
}

impl Handle {
    /// A handle of `pd` for `path`. Sleeps if `flags` allow it; `ENOMEM` when out of memory.
    pub(crate) fn new(pd: PdId, path: &Path, flags: Flags) -> Result<Arc<Self>> {
        let entropy = u32::from_ne_bytes(random::bytes());
        Arc::pin_init(
            pin_init!(Self {
                pd,
                way <- new_spinlock_bh!(Way::new(path, entropy), "rrxe::Handle"),
            }),
            flags,
        )
    }

    /// The protection domain.
    pub(super) fn pd(&self) -> PdId {
        self.pd
    }

    /// The IP and UDP headers of one packet, and its route. Errors as [`Route::lookup`].
    pub(super) fn next(&self, netdev: &NetDevice) -> Result<(Headers, Route)> {
        let mut way = self.way.lock();
        let (headers, route) = way.next(netdev)?;
        Ok((headers, route.clone()))
    }

    /// Has the route looked up anew. Process or softirq context.
    pub(super) fn forget_route(&self) {
        self.way.lock().forget_route();
    }
}
