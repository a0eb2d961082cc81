// SPDX-License-Identifier: GPL-2.0

//! What happens when memory that is paged on demand is not there.
//!
//! Whoever finds that stops where it is: the packet goes back to the head of the backlog, the plan
//! is taken back. A thread, which may sleep, has the page come in, and works on the side of the queue
//! pair again, which it tells if there is no such page. Others go on meanwhile; a page that takes long
//! holds up those who asked for it only.

use super::{
    node::Node,
    qp::Qp,
    want::Order, //
};
use crate::kapi::{
    rdma::MissingPage,
    work::Run, //
};
use kernel::{
    prelude::*,
    sync::{
        rcu,
        Arc, //
    },
};
use rrxe_proto::{
    Key,
    Qpn, //
};

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
    /// Has the page come in, if its region is still there. Process context, sleeps.
    ///
    /// Fails if there is no such page.
    fn page_in(self, node: &Node) -> Result {
        let region = {
            let guard = rcu::read_lock();
            node.mrs().get(self.key.index(), &guard).map(Arc::from)
        };
        match region {
            Some(region) => region.supply(self.key, self.page),
            // Who looks for it again finds that.
            None => Ok(()),
        }
    }
}

/// Has pages come in for one side of a queue pair, and the side go on.
///
/// A way to the queue pair that does not keep it alive, as [`Wake`](super::wake::Wake) is one, but in
/// two steps, between which it sleeps.
pub(super) struct PageIn {
    node: Arc<Node>,
    qpn: Qpn,
    order: fn(&Qp) -> Option<Order>,
    settle: fn(&Qp, Order, Result),
}

impl PageIn {
    /// Has what `order` gives come in for the queue pair `qpn` of `node`, and has `settle` told of it.
    pub(super) fn new(
        node: Arc<Node>,
        qpn: Qpn,
        order: fn(&Qp) -> Option<Order>,
        settle: fn(&Qp, Order, Result),
    ) -> Self {
        Self {
            node,
            qpn,
            order,
            settle,
        }
    }

    /// Does something with the queue pair, if it is still there.
    fn with_qp<T>(&self, action: impl FnOnce(&Qp) -> T) -> Option<T> {
        let guard = rcu::read_lock();
        let qp = self.node.qps().get(self.qpn.get(), &guard)?;
        Some(action(&qp))
    }
}

impl Run for PageIn {
    fn run(&self) {
        if let Some(order) = self.with_qp(self.order).flatten() {
            let outcome = order.page().page_in(&self.node);
            self.with_qp(|qp| (self.settle)(qp, order, outcome));
        }
    }
}
