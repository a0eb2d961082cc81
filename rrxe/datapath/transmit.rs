// SPDX-License-Identifier: GPL-2.0

//! From a plan to packets on the wire.

use super::{
    congestion,
    counters::Counter,
    memory::Memory,
    paging::Missing,
    patience::Patience,
    peer::Peer,
    qp::Qp,
    want::Lost, //
};
use crate::{
    kapi::{
        crc::crc32_le,
        net::{
            Headers,
            Route,
            SendError,
            TxPacket,
            TxSkb, //
        },
    },
    ring::{
        Addressee,
        LocalData, //
    },
};
use kernel::{
    prelude::*,
    sync::rcu, //
};
use rrxe_proto::{
    access::Access,
    congestion::Ecn,
    icrc::{
        self,
        MaskedHeaders, //
    },
    psn::Psn,
    rc::{
        RequestPacket,
        RequestPlan,
        ResponsePlan, //
    },
    status::WcStatus,
    wire::{
        HeaderBuf,
        HeaderSpec,
        Kind,
        ICRC_LEN, //
    },
    Pkey, //
};

/// Bytes of Ethernet, IPv4 and UDP headers, as far as rates are concerned.
const OUTER_LEN: usize = 14 + 20 + 8;

/// Why packets of a plan were not sent.
pub(super) enum Failure {
    /// Their data may not be read.
    Local(WcStatus),
    /// From this PSN on there was no room for them; there will be.
    Unsent(Psn),
    /// From this PSN on they were not sent because data is missing; it has been asked for.
    Missing(Psn),
}

/// Sends the packets of `plan`, whose data is `local`.
pub(super) fn request(
    qp: &Qp,
    peer: &mut Peer,
    plan: &RequestPlan,
    local: LocalData<'_>,
) -> Result<(), Failure> {
    let memory = qp.memory();
    let ask = |page| qp.page_in_for_send(page);
    let ecn = qp.node().congestion().data_ecn();
    for packet in plan.packets() {
        let spec = packet.header(peer.qpn(), Pkey::DEFAULT);
        let header = HeaderBuf::new(&spec, packet.len);
        send(qp, peer, ecn, &header, |skb| {
            append_local(skb, &memory, local, &packet)
        })
        .map_err(|obstacle| obstacle.at(packet.psn, &memory, ask))?;
    }
    Ok(())
}

/// Sends the packets of `plan`, whose data is `local`, to `addressee`.
///
/// Without one that the queue pair may send to it is a [`Local`](Failure::Local) failure.
pub(super) fn datagram(
    qp: &Qp,
    patience: &mut Patience,
    plan: &RequestPlan,
    addressee: Option<Addressee>,
    local: LocalData<'_>,
) -> Result<(), Failure> {
    let memory = qp.memory();
    let ask = |page| qp.page_in_for_send(page);
    let guard = rcu::read_lock();
    let (to, handle) = addressee
        .and_then(|to| Some((to, qp.node().handles().get(to.handle, &guard)?)))
        .filter(|(_, handle)| handle.pd() == qp.pd())
        .ok_or(Failure::Local(WcStatus::LocalQpOperation))?;
    for packet in plan.packets() {
        let spec = packet.header(to.destination.qpn, Pkey::DEFAULT);
        let header = HeaderBuf::new(&spec, packet.len);
        let Ok((headers, route)) = handle.next(qp.node().netdev()) else {
            continue;
        };
        send_by(qp, &route, &headers, patience, &header, |skb| {
            append_local(skb, &memory, local, &packet)
        })
        .map_err(|obstacle| obstacle.at(packet.psn, &memory, ask))?;
    }
    Ok(())
}

/// Appends the payload of `packet`, a part of `local`.
fn append_local(
    skb: &mut TxSkb,
    memory: &Memory<'_>,
    local: LocalData<'_>,
    packet: &RequestPacket,
) -> Result<(), WcStatus> {
    match local {
        LocalData::Inline(bytes) => {
            let start = packet.offset as usize;
            bytes
                .get(start..)
                .and_then(|rest| rest.get(..packet.len as usize))
                .and_then(|part| skb.append(part).ok())
                .ok_or(WcStatus::LocalLength)
        }
        LocalData::Sges(sges) => {
            memory.gather(sges, Access::NONE, packet.offset, packet.len, |_, chunk| {
                skb.append_chunk(chunk)
            })
        }
    }
}

/// Sends the packets of `plan`.
pub(super) fn response(qp: &Qp, peer: &mut Peer, plan: &ResponsePlan) -> Result<(), Failure> {
    let memory = qp.memory();
    let ask = |page| qp.page_in_for_receive(page);
    let ecn = match plan {
        ResponsePlan::Read(_) => qp.node().congestion().data_ecn(),
        _ => Ecn::NotCapable,
    };
    for packet in plan.packets() {
        let spec = packet.header(peer.qpn(), Pkey::DEFAULT);
        let header = HeaderBuf::new(&spec, packet.len);
        send(qp, peer, ecn, &header, |skb| match plan {
            ResponsePlan::Read(read) if packet.len != 0 => {
                let va = read.va().wrapping_add(packet.offset.into());
                memory
                    .visit(
                        read.rkey(),
                        Access::REMOTE_READ,
                        va,
                        packet.len,
                        |_, chunk| skb.append_chunk(chunk),
                    )
                    .map_err(WcStatus::from)
            }
            _ => Ok(()),
        })
        .map_err(|obstacle| obstacle.at(packet.psn, &memory, ask))?;
    }
    Ok(())
}

/// Notifies `peer` of congestion, by a packet of the traffic class given. If there is no room for it
/// it is lost: more will follow if the congestion lasts.
pub(super) fn notification(qp: &Qp, peer: &mut Peer, traffic_class: u8) {
    let node = qp.node();
    let spec = HeaderSpec {
        migrated: false,
        ..HeaderSpec::new(Kind::Cnp, peer.qpn(), Psn::truncate(0))
    };
    if let Ok((headers, route)) = peer.way.next(node.netdev()) {
        let headers = Headers {
            traffic_class,
            ..headers
        };
        let _ = try_send(qp, route, &headers, &HeaderBuf::new(&spec, 0), |_| Ok(()));
    }
}

/// Why a packet was not sent.
enum Obstacle {
    /// Its data may not be read.
    Local(WcStatus),
    /// There was no room for it.
    NoRoom,
}

impl Obstacle {
    /// What that means for the packets of a plan from `psn` on, whose data is in `memory`: what is
    /// missing of that is asked for by `ask`.
    fn at(
        self,
        psn: Psn,
        memory: &Memory<'_>,
        ask: impl FnOnce(Missing) -> Result<(), Lost>,
    ) -> Failure {
        match self {
            Self::Local(status) => match memory.take_missing().map(ask) {
                Some(Ok(())) => Failure::Missing(psn),
                Some(Err(Lost)) | None => Failure::Local(status),
            },
            Self::NoRoom => Failure::Unsent(psn),
        }
    }
}

/// Sends one packet to `peer`, whose payload `fill` appends. If there is no way there it is lost.
fn send(
    qp: &Qp,
    peer: &mut Peer,
    ecn: Ecn,
    header: &HeaderBuf,
    fill: impl FnOnce(&mut TxSkb) -> Result<(), WcStatus>,
) -> Result<(), Obstacle> {
    let node = qp.node();
    let Peer { way, patience, .. } = peer;
    let Ok((headers, route)) = way.next(node.netdev()) else {
        return Ok(());
    };
    let headers = congestion::marked(headers, ecn);
    send_by(qp, route, &headers, patience, header, fill)?;
    qp.throttle()
        .sent(header.packet_len().saturating_add(OUTER_LEN));
    Ok(())
}

/// Sends one packet by `route`, whose payload `fill` appends.
///
/// A packet that the network does not take for a reason other than a lack of room counts as sent:
/// it is lost like any other. So does one for which there has been no room for long.
fn send_by(
    qp: &Qp,
    route: &Route,
    headers: &Headers,
    patience: &mut Patience,
    header: &HeaderBuf,
    fill: impl FnOnce(&mut TxSkb) -> Result<(), WcStatus>,
) -> Result<(), Obstacle> {
    let sent = try_send(qp, route, headers, header, fill);
    match sent {
        Ok(()) => patience.has_room(),
        Err(Obstacle::NoRoom) => {
            qp.count(Counter::SendFailures);
            if patience.has_no_room() {
                return Ok(());
            }
        }
        Err(Obstacle::Local(_)) => (),
    }
    sent
}

/// Sends one packet, if there is room for it.
fn try_send(
    qp: &Qp,
    route: &Route,
    headers: &Headers,
    header: &HeaderBuf,
    fill: impl FnOnce(&mut TxSkb) -> Result<(), WcStatus>,
) -> Result<(), Obstacle> {
    let mut skb =
        TxSkb::new(route, header.packet_len(), GFP_ATOMIC).map_err(|_| Obstacle::NoRoom)?;
    let full = |_| Obstacle::Local(WcStatus::LocalLength);
    skb.append(header.as_bytes()).map_err(full)?;
    fill(&mut skb).map_err(Obstacle::Local)?;
    skb.append_zeroed(header.pad()).map_err(full)?;

    let Ok(mut packet) = skb.address(headers, ICRC_LEN) else {
        return Ok(());
    };
    let icrc = icrc_of(&packet).ok_or(Obstacle::Local(WcStatus::LocalQpOperation))?;
    packet.append(&icrc).map_err(full)?;
    match packet.send(route) {
        Err(SendError::Dropped) => Err(Obstacle::NoRoom),
        Err(SendError::Refused(_)) => Ok(()),
        Ok(()) | Err(SendError::Congested) => {
            qp.count(Counter::SentPackets);
            qp.add(Counter::SentBytes, header.packet_len() as u64);
            Ok(())
        }
    }
}

/// The ICRC of a packet that lacks nothing else.
fn icrc_of(packet: &TxPacket) -> Option<[u8; ICRC_LEN]> {
    let ip = packet.ip_header();
    let udp = packet.udp_header()?;
    let (bth, rest) = packet.content().split_first_chunk()?;
    let masked = match ip.first()? >> 4 {
        4 => MaskedHeaders::ipv4(ip, udp, bth)?,
        _ => MaskedHeaders::ipv6(ip.try_into().ok()?, udp, bth)?,
    };
    Some(icrc::finish(crc32_le(masked.crc(crc32_le), rest)))
}
