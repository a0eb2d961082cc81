// SPDX-License-Identifier: GPL-2.0

//! Addresses of a packet.

use core::net::{
    Ipv4Addr,
    Ipv6Addr, //
};

/// Source and destination of a packet, both of one version of IP.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Addresses {
    /// The packet goes by IPv4.
    V4 {
        /// Where it comes from.
        source: Ipv4Addr,
        /// Where it goes to.
        destination: Ipv4Addr,
    },
    /// The packet goes by IPv6.
    V6 {
        /// Where it comes from.
        source: Ipv6Addr,
        /// Where it goes to.
        destination: Ipv6Addr,
    },
}

impl Addresses {
    /// The addresses that two GIDs stand for.
    ///
    /// An IPv4 address is a GID as an IPv4-mapped IPv6 address. `None` if one is that and the other
    /// is not.
    pub(crate) fn from_gids(source: [u8; 16], destination: [u8; 16]) -> Option<Self> {
        let source = Ipv6Addr::from(source);
        let destination = Ipv6Addr::from(destination);
        match (source.to_ipv4_mapped(), destination.to_ipv4_mapped()) {
            (Some(source), Some(destination)) => Some(Self::V4 {
                source,
                destination,
            }),
            (None, None) => Some(Self::V6 {
                source,
                destination,
            }),
            _ => None,
        }
    }

    /// Where it goes, as a GID.
    pub(crate) fn destination(&self) -> Ipv6Addr {
        match self {
            Self::V4 { destination, .. } => destination.to_ipv6_mapped(),
            Self::V6 { destination, .. } => *destination,
        }
    }

    /// Whether it goes to a multicast group.
    pub(crate) fn is_to_group(&self) -> bool {
        match self {
            Self::V4 { destination, .. } => destination.is_multicast(),
            Self::V6 { destination, .. } => destination.is_multicast(),
        }
    }

    /// The addresses of a packet in the other direction.
    pub(crate) fn reversed(self) -> Self {
        match self {
            Self::V4 {
                source,
                destination,
            } => Self::V4 {
                source: destination,
                destination: source,
            },
            Self::V6 {
                source,
                destination,
            } => Self::V6 {
                source: destination,
                destination: source,
            },
        }
    }
}
