// SPDX-License-Identifier: GPL-2.0

//! Who a queue pair is connected to, and how packets get there.

use super::{
    arrival::Arrival,
    patience::Patience,
    way::{
        Path,
        Way, //
    },
};
use rrxe_proto::Qpn;

/// The queue pair at the other end, as one side of ours knows it.
pub(crate) struct Peer {
    qpn: Qpn,
    pub(super) way: Way,
    pub(super) patience: Patience,
}

impl Peer {
    /// The peer `remote` of our `local`, at the end of `path`.
    pub(crate) fn new(local: Qpn, remote: Qpn, path: &Path) -> Self {
        let entropy = local.get().wrapping_mul(31) ^ remote.get();
        Self {
            qpn: remote,
            way: Way::new(path, entropy),
            patience: Patience::default(),
        }
    }

    /// Its number.
    pub(super) fn qpn(&self) -> Qpn {
        self.qpn
    }

    /// Whether a packet comes from there, and is meant for the address that the peer knows.
    pub(super) fn is_source_of(&self, arrival: &Arrival) -> bool {
        arrival.packet().addresses() == Some(self.way.addresses().reversed())
    }

    /// Has the route looked up anew.
    pub(super) fn forget_route(&mut self) {
        self.way.forget_route();
    }
}
