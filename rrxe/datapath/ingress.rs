// SPDX-License-Identifier: GPL-2.0

//! From the UDP port to the queue pair that a packet is for.

use super::{
    arrival::Arrival,
    counters::Counter,
    node::Node,
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
    sync::rcu, //
};
use rrxe_proto::{
    opcode::Transport,
    wire::Kind,
    Pkey, //
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

/// Hands a packet to the side of the queue pair that it is for.
fn dispatch(node: &Node, arrival: Arrival, guard: &rcu::Guard) {
    let counters = node.counters();
    let bth = arrival.bth();
    let Some(qp) = node.qps().get(bth.dest_qp().get(), guard) else {
        return counters.count(Counter::NoQueuePair);
    };
    if !bth.pkey().matches(Pkey::DEFAULT) {
        return counters.count(Counter::BadPkey);
    }
    if !arrival.is_intact() {
        return counters.count(Counter::BadIcrc);
    }
    counters.count(Counter::ReceivedPackets);
    counters.add(Counter::ReceivedBytes, arrival.packet().len() as u64);
    match arrival.headers().map(|headers| headers.kind()) {
        Some(Kind::RcRequest(_) | Kind::Uc(_) | Kind::Ud(..)) => qp.deliver_request(arrival),
        Some(Kind::RcResponse(_)) => qp.deliver_response(arrival),
        None if bth.opcode().transport() == Some(Transport::Rc) => qp.deliver_request(arrival),
        None | Some(Kind::Cnp) => (),
    }
}
