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
    rdma::RocePath,
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
    #[pin]
    target: SpinLockBh<Target>,
}

/// Where a handle leads.
struct Target {
    /// As the consumer gave it.
    given: RocePath,
    /// Its packets are a flow, whoever sends them.
    way: Way,
}

impl Target {
    fn new(given: &RocePath, path: &Path) -> Self {
        Self {
            given: *given,
            way: Way::new(path, u32::from_ne_bytes(random::bytes())),
        }
    }
}

impl Handle {
    /// A handle of `pd` for `path`, which the consumer has `given`. Sleeps if `flags` allow it; `ENOMEM`
    /// when out of memory.
    pub(crate) fn new(pd: PdId, given: &RocePath, path: &Path, flags: Flags) -> Result<Arc<Self>> {
        Arc::pin_init(
            pin_init!(Self {
                pd,
                target <- new_spinlock_bh!(Target::new(given, path), "rrxe::Handle"),
            }),
            flags,
        )
    }

    /// Leads along another path from now on. Process or softirq context.
    pub(crate) fn redirect(&self, given: &RocePath, path: &Path) {
        *self.target.lock() = Target::new(given, path);
    }

    /// Where it leads, as the consumer has given it. Process or softirq context.
    pub(crate) fn given(&self) -> RocePath {
        self.target.lock().given
    }

    /// The protection domain.
    pub(super) fn pd(&self) -> PdId {
        self.pd
    }

    /// The IP and UDP headers of one packet, and its route. Errors as [`Route::lookup`].
    pub(super) fn next(&self, netdev: &NetDevice) -> Result<(Headers, Route)> {
        let mut target = self.target.lock();
        let (headers, route) = target.way.next(netdev)?;
        Ok((headers, route.clone()))
    }

    /// Has the route looked up anew. Process or softirq context.
    pub(super) fn forget_route(&self) {
        self.target.lock().way.forget_route();
    }
}
