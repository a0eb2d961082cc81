// SPDX-License-Identifier: GPL-2.0

//! The network stack: devices, routes, and UDP packets that the kernel itself sends and receives.

pub(crate) mod address;
pub(crate) mod headers;
mod membership;
pub(crate) mod netdev;
pub(crate) mod netns;
pub(crate) mod notifier;
pub(crate) mod pernet;
pub(crate) mod queue;
pub(crate) mod route;
pub(crate) mod rx;
mod skb;
pub(crate) mod socket;
pub(crate) mod tunnel;
pub(crate) mod tx;

pub(crate) use address::Addresses;
pub(crate) use headers::Headers;
pub(crate) use membership::Membership;
pub(crate) use netdev::NetDevice;
pub(crate) use notifier::{
    NetDeviceEvents,
    Notifier, //
};
pub(crate) use pernet::{
    PernetId,
    Registration, //
};
pub(crate) use queue::SkbQueue;
pub(crate) use route::{
    Flow,
    Route,
    RouteCache, //
};
pub(crate) use rx::RxPacket;
pub(crate) use tunnel::{
    Listener,
    Namespace,
    Receiver, //
};
pub(crate) use tx::{
    SendError,
    TxPacket,
    TxSkb, //
};
