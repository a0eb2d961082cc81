// SPDX-License-Identifier: GPL-2.0

//! How packets get to the end of a path.

use crate::kapi::{
    net::{
        Addresses,
        Flow,
        Headers,
        NetDevice,
        Route,
        RouteCache, //
    },
    random, //
};
use kernel::prelude::*;

/// The UDP port that RoCEv2 packets are sent to.
pub(crate) const ROCE_PORT: u16 = 4791;

/// Source ports are those that the standard leaves for it: from this one on.
const FIRST_SOURCE_PORT: u16 = 0xc000;

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

/// The headers and the route of the packets of one flow.
pub(super) struct Way {
    /// Of the next packet.
    headers: Headers,
    route: RouteCache,
}

impl Way {
    /// The way along `path` of a flow, of which `entropy` makes the source port: routers can tell it
    /// from others by that.
    pub(super) fn new(path: &Path, entropy: u32) -> Self {
        let source_port = source_port(entropy);
        Self {
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
        }
    }

    /// Where packets come from and where they go.
    pub(super) fn addresses(&self) -> Addresses {
        self.headers.addresses
    }

    /// The IP and UDP headers of one packet, and its route. Errors as [`Route::lookup`].
    ///
    /// Identifications of IPv4 count up though nothing is ever fragmented: hosts that merge packets
    /// of one flow and split them again number them that way, and the ICRC covers the number.
    pub(super) fn next(&mut self, netdev: &NetDevice) -> Result<(Headers, &Route)> {
        let headers = self.headers;
        self.headers.id = headers.id.wrapping_add(1);
        Ok((headers, self.route.get(netdev)?))
    }

    /// Has the route looked up anew.
    pub(super) fn forget_route(&mut self) {
        self.route.clear();
    }
}

/// The source port of a flow.
fn source_port(entropy: u32) -> u16 {
    // What is left of the number is below 2^14.
    FIRST_SOURCE_PORT | ((entropy ^ (entropy >> 14)) & 0x3fff) as u16
}
