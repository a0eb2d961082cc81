// SPDX-License-Identifier: GPL-2.0

//! From a plan to packets on the wire.

use super::{
    counters::Counter,
    node::Node,
    peer::Peer,
    qp::Qp, //
};
use crate::{
    kapi::{
        crc::crc32_le,
        net::{
            SendError,
            TxPacket,
            TxSkb, //
        },
    },
    ring::LocalData,
};
use kernel::prelude::*;
use rrxe_proto::{
    access::Access,
    icrc::{
        self,
        MaskedHeaders, //
    },
    psn::Psn,
    rc::{
        RequestPlan,
        ResponsePlan, //
    },
    status::WcStatus,
    wire::{
        HeaderBuf,
        ICRC_LEN, //
    },
    Pkey, //
};

/// Why packets of a plan were not sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Failure {
    /// Their data may not be read.
    Local(WcStatus),
    /// From this PSN on there was no room for them; there will be.
    Unsent(Psn),
}

/// Sends the packets of `plan`, whose data is `local`.
pub(super) fn request(
    qp: &Qp,
    peer: &mut Peer,
    plan: &RequestPlan,
    local: LocalData<'_>,
) -> Result<(), Failure> {
    let memory = qp.memory();
    for packet in plan.packets() {
        let spec = packet.header(peer.qpn(), Pkey::DEFAULT);
        let header = HeaderBuf::new(&spec, packet.len);
        send(qp.node(), peer, &header, |skb| match local {
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
        })
        .map_err(|error| error.at(packet.psn))?;
    }
    Ok(())
}

/// Sends the packets of `plan`.
pub(super) fn response(qp: &Qp, peer: &mut Peer, plan: &ResponsePlan) -> Result<(), Failure> {
    let memory = qp.memory();
    for packet in plan.packets() {
        let spec = packet.header(peer.qpn(), Pkey::DEFAULT);
        let header = HeaderBuf::new(&spec, packet.len);
        send(qp.node(), peer, &header, |skb| match plan {
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
        .map_err(|error| error.at(packet.psn))?;
    }
    Ok(())
}

/// Why a packet was not sent.
enum Obstacle {
    /// Its data may not be read.
    Local(WcStatus),
    /// There was no room for it.
    NoRoom,
}

impl Obstacle {
    /// What that means for the packets of a plan from `psn` on.
    fn at(self, psn: Psn) -> Failure {
        match self {
            Self::Local(status) => Failure::Local(status),
            Self::NoRoom => Failure::Unsent(psn),
        }
    }
}

/// Sends one packet, whose payload `fill` appends.
///
/// A packet that the network does not take for a reason other than a lack of room counts as sent:
/// it is lost like any other. So does one for which there has been no room for long.
fn send(
    node: &Node,
    peer: &mut Peer,
    header: &HeaderBuf,
    fill: impl FnOnce(&mut TxSkb) -> Result<(), WcStatus>,
) -> Result<(), Obstacle> {
    let sent = try_send(node, peer, header, fill);
    match sent {
        Ok(()) => peer.has_room(),
        Err(Obstacle::NoRoom) => {
            node.counters().count(Counter::SendFailures);
            if peer.has_no_room() {
                return Ok(());
            }
        }
        Err(Obstacle::Local(_)) => (),
    }
    sent
}

/// Sends one packet, if there is room for it.
fn try_send(
    node: &Node,
    peer: &mut Peer,
    header: &HeaderBuf,
    fill: impl FnOnce(&mut TxSkb) -> Result<(), WcStatus>,
) -> Result<(), Obstacle> {
    let headers = peer.next_headers();
    let Ok(route) = peer.route(node.netdev()) else {
        return Ok(());
    };
    let mut skb =
        TxSkb::new(route, header.packet_len(), GFP_ATOMIC).map_err(|_| Obstacle::NoRoom)?;
    let full = |_| Obstacle::Local(WcStatus::LocalLength);
    skb.append(header.as_bytes()).map_err(full)?;
    fill(&mut skb).map_err(Obstacle::Local)?;
    skb.append_zeroed(header.pad()).map_err(full)?;

    let Ok(mut packet) = skb.address(&headers, ICRC_LEN) else {
        return Ok(());
    };
    let icrc = icrc_of(&packet).ok_or(Obstacle::Local(WcStatus::LocalQpOperation))?;
    packet.append(&icrc).map_err(full)?;
    match packet.send(route) {
        Err(SendError::Dropped) => Err(Obstacle::NoRoom),
        Err(SendError::Refused(_)) => Ok(()),
        Ok(()) | Err(SendError::Congested) => {
            let counters = node.counters();
            counters.count(Counter::SentPackets);
            counters.add(Counter::SentBytes, header.packet_len() as u64);
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
