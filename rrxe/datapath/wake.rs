// SPDX-License-Identifier: GPL-2.0

//! What timers and deferred work know of a queue pair.

use super::{
    node::Node,
    qp::Qp, //
};
use crate::kapi::{
    time::Expire,
    work::Run, //
};
use kernel::sync::{
    rcu,
    Arc, //
};
use rrxe_proto::Qpn;

/// A way to a queue pair that does not keep it alive: its number, and what to do with it.
///
/// A queue pair that is being destroyed is no longer found.
pub(super) struct Wake {
    node: Arc<Node>,
    qpn: Qpn,
    then: fn(&Qp),
}

impl Wake {
    /// Leads to the queue pair `qpn` of `node`, and does `then`.
    pub(super) fn new(node: Arc<Node>, qpn: Qpn, then: fn(&Qp)) -> Self {
        Self { node, qpn, then }
    }

    fn wake(&self) {
        let guard = rcu::read_lock();
        if let Some(qp) = self.node.qps().get(self.qpn.get(), &guard) {
            (self.then)(&qp);
        }
    }
}

impl Expire for Wake {
    fn expired(&self) {
        self.wake();
    }
}

impl Run for Wake {
    fn run(&self) {
        self.wake();
    }
}
