// SPDX-License-Identifier: GPL-2.0

//! A device's place in its network namespace.

use super::{
    ingress::Ingress,
    node::Node, //
};
use crate::kapi::net::{
    Listener,
    NetDevice, //
};
use kernel::{
    prelude::*,
    sync::Arc, //
};

/// Has the packets that arrive at a network device go to a [`Node`].
///
/// Dropping it ends that, and waits until no packet is on its way to the node. The first of a
/// namespace opens the UDP port and the last one closes it.
pub(crate) struct Attachment {
    listener: Listener<Ingress>,
    ifindex: u32,
}

impl Attachment {
    /// Attaches `node` to `netdev`. Process context, may sleep.
    ///
    /// # Errors
    ///
    /// `EEXIST` if the network device has a node already, `EADDRINUSE` if somebody else has the
    /// UDP port, `ENODEV` if the namespace is being torn down.
    pub(crate) fn new(node: Arc<Node>, netdev: &NetDevice) -> Result<Self> {
        let net = netdev.net().ok_or(ENODEV)?;
        let listener = Listener::<Ingress>::new(&net)?;
        let ifindex = netdev.ifindex();
        listener
            .receiver()
            .nodes()
            .insert_at(ifindex, node, GFP_KERNEL)
            .map_err(|error| if error == EBUSY { EEXIST } else { error })?;
        Ok(Self { listener, ifindex })
    }
}

impl Drop for Attachment {
    fn drop(&mut self) {
        self.listener.receiver().nodes().remove(self.ifindex);
    }
}
