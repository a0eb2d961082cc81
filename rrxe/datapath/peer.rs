// SPDX-License-Identifier: GPL-2.0

//! Who a queue pair is connected to, and how packets get there.

use super::arrival::Arrival;
use crate::kapi::{
    net::{
        Addresses,
        Flow,
        Headers,
        NetDevice,
        Route,
        RouteCache, //
    },
    random,
    time::now, //
};
use core::time::Duration;
use kernel::prelude::*;
use rrxe_proto::{
    time::Instant,
    Qpn, //
};

/// The UDP port that RoCEv2 packets are sent to.
pub(crate) const ROCE_PORT: u16 = 4791;

/// Source ports are those that the standard leaves for it: from this one on.
const FIRST_SOURCE_PORT: u16 = 0xc000;

/// How long there may be no room for a packet before packets count as lost.
const PATIENCE: Duration = Duration::from_millis(100);

/// The network path to a peer.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Path {
    /// Here and there.
    pub(crate) addresses: Addresses,
    /// Number of the network device that has our address.
    pub(crate) ifindex: u32,
    /// Traffic class (type of service in IPv4).
    pub(crate) traffic_class: u8,
    /// Hop limit (time to live in IPv4).
    pub(crate) hop_limit: u8,
    /// Flow label, 20 bits; in IPv6 only.
    pub(crate) flow_label: u32,
}

/// The queue pair at the other end, as one side of ours knows it.
pub(crate) struct Peer {
    qpn: Qpn,
    /// Of the next packet.
    headers: Headers,
    route: RouteCache,
    /// Since when there has been no room for any packet.
    blocked: Option<Instant>,
}

impl Peer {
    /// The peer `remote` of our `local`, at the end of `path`.
    pub(crate) fn new(local: Qpn, remote: Qpn, path: &Path) -> Self {
        let source_port = source_port(local, remote);
        Self {
            qpn: remote,
            headers: Headers {
                addresses: path.addresses,
                traffic_class: path.traffic_class,
                hop_limit: path.hop_limit,
                flow_label: path.flow_label,
                id: u16::from_ne_bytes(random::bytes()),
                source_port,
                destination_port: ROCE_PORT,
            },
            route: RouteCache::new(Flow {
                addresses: path.addresses,
                ifindex: path.ifindex,
                traffic_class: path.traffic_class,
                flow_label: path.flow_label,
                source_port,
                destination_port: ROCE_PORT,
            }),
            blocked: None,
        }
    }

    /// Its number.
    pub(super) fn qpn(&self) -> Qpn {
        self.qpn
    }

    /// Whether a packet comes from there, and is meant for the address that the peer knows.
    pub(super) fn is_source_of(&self, arrival: &Arrival) -> bool {
        arrival.packet().addresses() == Some(self.headers.addresses.reversed())
    }

    /// The IP and UDP headers of one packet to it.
    ///
    /// Identifications of IPv4 count up though nothing is ever fragmented: hosts that merge packets
    /// of one flow and split them again number them that way, and the ICRC covers the number.
    pub(super) fn next_headers(&mut self) -> Headers {
        let headers = self.headers;
        self.headers.id = headers.id.wrapping_add(1);
        headers
    }

    /// Takes note that there was room for a packet.
    pub(super) fn has_room(&mut self) {
        self.blocked = None;
    }

    /// Takes note that there was no room for a packet, and says whether it counts as lost.
    ///
    /// It does not if the queue is full for a moment. But there are queues that drop all there is,
    /// and one has to come to the end of the retries.
    pub(super) fn has_no_room(&mut self) -> bool {
        let now = now();
        let since = *self.blocked.get_or_insert(now);
        now.saturating_since(since) >= PATIENCE
    }

    /// Has the route looked up anew.
    pub(super) fn forget_route(&mut self) {
        self.route.clear();
    }

    /// The route there. Errors as [`Route::lookup`].
    pub(super) fn route(&mut self, netdev: &NetDevice) -> Result<&Route> {
        self.route.get(netdev)
    }
}

/// A port that differs between the connections of two hosts, so that routers can spread them.
fn source_port(local: Qpn, remote: Qpn) -> u16 {
    let mixed = local.get().wrapping_mul(31) ^ remote.get();
    // What is left of the number is below 2^14.
    FIRST_SOURCE_PORT | ((mixed ^ (mixed >> 14)) & 0x3fff) as u16
}
