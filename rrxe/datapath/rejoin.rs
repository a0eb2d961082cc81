// SPDX-License-Identifier: GPL-2.0

//! Becoming a member of multicast groups again.

use super::node::Node;
use crate::kapi::work::Run;
use kernel::sync::Arc;

/// Has the network device of a node be a member of all groups again that it has lost.
pub(crate) struct Rejoin(Arc<Node>);

impl Rejoin {
    /// Does so for `node`.
    pub(crate) fn new(node: Arc<Node>) -> Self {
        Self(node)
    }
}

impl Run for Rejoin {
    fn run(&self) {
        self.0.groups().renew(self.0.netdev());
    }
}
