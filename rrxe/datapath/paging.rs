// SPDX-License-Identifier: GPL-2.0

//! What happens when memory that is paged on demand is not there.
//!
//! Whoever finds that stops where it is: the packet goes back to the head of the backlog, the plan
//! is taken back. A thread, which may sleep, has the page come in, and works on the side of the queue
//! pair again, which it tells if there is no such page. Others go on meanwhile; a page that takes long
//! holds up those who asked for it only, and not their end: the thread has a reference of the memory,
//! and none of anything else.

use super::{
    node::Node,
    qp::Qp,
    region::Mr,
    want::Order, //
};
use crate::kapi::{
    errand::{
        Errand,
        Go, //
    },
    module::Hold,
    rdma::MissingPage,
    sync::{
        new_spinlock_bh,
        SpinLockBh, //
    },
};
use kernel::{
    prelude::*,
    sync::{
        rcu,
        Arc, //
    },
    time::{
        delay::fsleep,
        Delta, //
    },
};
use rrxe_proto::{
    Key,
    Qpn, //
};

/// How soon to look again for a page for which the kernel has no memory, or no time, in milliseconds.
const AGAIN_MS: i64 = 10;

/// A page that somebody waits for.
///
/// It names its region and does not hold it: softirqs have it, in which no region may end.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct Missing {
    /// Of the region.
    pub(super) key: Key,
    pub(super) page: MissingPage,
}

impl Missing {
    /// The region, if it is still there.
    fn region(self, node: &Node) -> Option<Arc<Mr>> {
        let guard = rcu::read_lock();
        node.mrs().get(self.key.index(), &guard).map(Arc::from)
    }
}

/// Has pages come in for one side of a queue pair, and the side go on.
///
/// # Locking
///
/// A lock guards the way to the queue pair. It is taken with softirqs disabled, for a few
/// instructions, and no other lock is taken under it.
#[pin_data]
pub(super) struct Fetch {
    /// `None` when the side is gone.
    #[pin]
    way: SpinLockBh<Option<Way>>,
    order: fn(&Qp) -> Option<Order>,
    settle: fn(&Qp, Order, Result),
}

/// A way to a queue pair that does not keep it alive.
#[derive(Clone)]
struct Way {
    node: Arc<Node>,
    qpn: Qpn,
}

impl Fetch {
    /// An errand for whom `way` leads to. May sleep.
    fn errand(
        way: Option<Way>,
        order: fn(&Qp) -> Option<Order>,
        settle: fn(&Qp, Order, Result),
    ) -> Result<Arc<Errand<Self>>> {
        Errand::new(pin_init!(Self {
            way <- new_spinlock_bh!(way, "rrxe::Fetch::way"),
            order,
            settle,
        }))
    }

    /// Does something with the queue pair, if it is still there.
    fn with_qp<T>(&self, action: impl FnOnce(&Qp) -> T) -> Option<T> {
        let way = self.way.lock().clone()?;
        let guard = rcu::read_lock();
        let qp = way.node.qps().get(way.qpn.get(), &guard)?;
        Some(action(&qp))
    }
}

impl Go for Fetch {
    fn go(&self) {
        // The page may take as long as it likes, and the region is not to end after the hold on the
        // module does: what comes first here goes last.
        let Some(_hold) = Hold::new() else {
            return;
        };
        let wanted = self.with_qp(|qp| {
            let order = (self.order)(qp)?;
            Some((order, order.page().region(qp.node())))
        });
        let Some((order, region)) = wanted.flatten() else {
            return;
        };
        let Missing { key, page } = order.page();
        let outcome = match region {
            Some(region) => region.supply(key, page),
            // Who looks for it again finds that.
            None => Ok(()),
        };
        let outcome = outcome.or_else(|error| match error {
            ENOMEM | EAGAIN | EBUSY | EINTR => {
                fsleep(Delta::from_millis(AGAIN_MS));
                Ok(())
            }
            error => Err(error),
        });
        self.with_qp(|qp| (self.settle)(qp, order, outcome));
    }
}

/// A side's end of its [`Fetch`], which does not know the way to it any more when this has gone.
///
/// # Locking
///
/// A lock guards which errand it is. It is taken with softirqs disabled, while an errand sets out, and
/// the locks of workqueues are taken under it.
#[pin_data(PinnedDrop)]
pub(super) struct Fetcher {
    #[pin]
    errand: SpinLockBh<Arc<Errand<Fetch>>>,
}

impl Fetcher {
    /// Has what `order` gives come in for the queue pair `qpn` of `node`, and has `settle` told of it.
    /// May sleep.
    pub(super) fn new(
        node: Arc<Node>,
        qpn: Qpn,
        order: fn(&Qp) -> Option<Order>,
        settle: fn(&Qp, Order, Result),
    ) -> Result<impl PinInit<Self>> {
        let errand = Fetch::errand(Some(Way { node, qpn }), order, settle)?;
        Ok(pin_init!(Self {
            errand <- new_spinlock_bh!(errand, "rrxe::Fetcher::errand"),
        }))
    }

    /// Has `missing`, which is of a region of `node`, come in. Tells whether there is such a region. Any
    /// context.
    pub(super) fn start(&self, node: &Node, missing: Missing) -> bool {
        let guard = rcu::read_lock();
        node.mrs()
            .get(missing.key.index(), &guard)
            .is_some_and(|region| region.page_in_by(&self.errand.lock()))
    }

    /// Waits for what is coming in no more: what is asked for next does not come after it. May sleep.
    ///
    /// When out of memory it does.
    pub(super) fn start_over(&self) {
        let old = self.errand.lock().clone();
        let Fetch { order, settle, .. } = *old.target();
        let way = old.target().way.lock().clone();
        if let Ok(new) = Fetch::errand(way, order, settle) {
            *self.errand.lock() = new;
            dismiss(&old);
        }
    }
}

#[pinned_drop]
impl PinnedDrop for Fetcher {
    fn drop(self: Pin<&mut Self>) {
        let errand = self.errand.lock().clone();
        dismiss(&errand);
    }
}

/// Has `errand` never lead to a queue pair any more, and not wait for its turn.
fn dismiss(errand: &Arc<Errand<Fetch>>) {
    // Not under the lock: this may be the last that is left of the node.
    let way = errand.target().way.lock().take();
    drop(way);
    Errand::recall(errand);
}
