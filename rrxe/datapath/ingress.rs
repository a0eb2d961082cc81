// SPDX-License-Identifier: GPL-2.0

//! From the UDP port to the queue pair that a packet is for.

use super::{
    arrival::Arrival,
    counters::Counter,
    node::Node,
    qp::Qp,
    way::ROCE_PORT, //
};
use crate::kapi::{
    net::{
        Namespace,
        PernetId,
        Receiver,
        RxPacket, //
    },
    sync::RcuTable,
};
use kernel::{
    prelude::*,
    sync::{
        rcu,
        ArcBorrow, //
    },
};
use rrxe_proto::{
    opcode::Transport,
    wire::{
        Headers,
        Kind, //
    },
    Pkey,
    Qpn, //
};

/// Where the packets of a network namespace go.
#[pin_data]
pub(crate) struct Ingress {
    /// Devices by the number of their network devices.
    #[pin]
    nodes: RcuTable<Node>,
}

impl Ingress {
    /// Devices by the number of their network devices.
    pub(crate) fn nodes(&self) -> &RcuTable<Node> {
        &self.nodes
    }
}

impl Receiver for Ingress {
    const PORT: u16 = ROCE_PORT;

    fn pernet_id() -> &'static PernetId<Namespace<Self>> {
        static ID: PernetId<Namespace<Ingress>> = PernetId::new();
        &ID
    }

    fn new() -> impl PinInit<Self, Error> {
        try_pin_init!(Self {
            nodes <- RcuTable::new(1),
        }? Error)
    }

    fn namespace_ends(&self) {
        self.nodes.for_each(|node| node.forget_routes());
    }

    fn receive(&self, packet: RxPacket) {
        let guard = rcu::read_lock();
        // A VLAN's packets are for the device below it.
        let node = self
            .nodes
            .get(packet.ifindex(), &guard)
            .or_else(|| self.nodes.get(packet.lower_ifindex(), &guard));
        let Some(node) = node else {
            return;
        };
        match Arrival::parse(packet) {
            Some(arrival) => dispatch(&node, arrival, &guard),
            None => node.counters().count(Counter::Malformed),
        }
    }
}

/// Hands a packet to the side of the queue pair that it is for, or to those of all that are attached to
/// its group.
fn dispatch(node: &Node, arrival: Arrival, guard: &rcu::Guard) {
    let bth = arrival.bth();
    if bth.dest_qp() == Qpn::MULTICAST {
        return spread(node, arrival, guard);
    }
    let Some(qp) = node.qps().get(bth.dest_qp().get(), guard) else {
        return node.counters().count(Counter::NoQueuePair);
    };
    if !admit(node, &arrival) {
        return;
    }
    qp.count_arrival(arrival.packet().len());
    match arrival.headers().map(|headers| headers.kind()) {
        Some(Kind::Ud(..)) if arrival.group().is_some() => {
            node.counters().count(Counter::NoQueuePair);
        }
        // The receive side knows the peer of a notification from the first packet on.
        Some(Kind::RcRequest(_) | Kind::Uc(_) | Kind::Ud(..) | Kind::Cnp) => {
            qp.deliver_request(arrival);
        }
        Some(Kind::RcResponse(_)) => qp.deliver_response(arrival),
        None if bth.opcode().transport() == Some(Transport::Rc) => qp.deliver_request(arrival),
        None => (),
    }
}

/// Hands a datagram to all queue pairs that are attached to its group, a copy to each.
fn spread(node: &Node, arrival: Arrival, guard: &rcu::Guard) {
    let deliver = |members: &mut dyn Iterator<Item = ArcBorrow<'_, Qp>>| {
        let is_datagram = matches!(arrival.headers().map(Headers::kind), Some(Kind::Ud(..)));
        if is_datagram && admit(node, &arrival) {
            for (copy, qp) in members.filter_map(|qp| Some((arrival.duplicate()?, qp))) {
                qp.deliver_request(copy);
            }
        }
    };
    let visited = arrival
        .group()
        .and_then(|group| node.groups().visit(group, guard, deliver));
    match visited {
        Some(()) => arrival.consume(),
        None => node.counters().count(Counter::NoQueuePair),
    }
}

/// Whether a packet may talk to the device, and has come unchanged.
fn admit(node: &Node, arrival: &Arrival) -> bool {
    let counters = node.counters();
    if !arrival.bth().pkey().matches(Pkey::DEFAULT) {
        counters.count(Counter::BadPkey);
        return false;
    }
    if !arrival.is_intact() {
        counters.count(Counter::BadIcrc);
        return false;
    }
    counters.count(Counter::ReceivedPackets);
    counters.add(Counter::ReceivedBytes, arrival.packet().len() as u64);
    true
}
