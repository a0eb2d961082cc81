// SPDX-License-Identifier: GPL-2.0

//! Packets to be sent.
//!
//! A packet is made in three steps, each with a type of its own, as the transport's CRC covers the
//! IP header: a [`TxSkb`] takes the content, [`TxSkb::address`] puts the IP and UDP headers in front,
//! and the [`TxPacket`] that it gives takes the CRC and is sent.

use super::{
    headers::{
        Headers,
        UDP_LEN, //
    },
    route::{
        Route,
        Version, //
    },
    skb::Skb,
};
use crate::kapi::{
    bindings as b,
    mem::Chunk, //
};
use core::ptr;
use kernel::{
    alloc::Flags,
    prelude::*,
    sync::rcu, //
};

/// The content of a packet, as it grows. All of it is in the head of the buffer.
pub(crate) struct TxSkb {
    skb: Skb,
}

impl TxSkb {
    /// An empty packet with room for `capacity` bytes of content, to be sent by `route`.
    ///
    /// `EINVAL` if that is too much, `ENOMEM` when out of memory. Sleeps if `flags` allow it.
    pub(crate) fn new(route: &Route, capacity: usize, flags: Flags) -> Result<Self> {
        let headroom = route.headroom();
        let size = capacity
            .checked_add(headroom)
            .and_then(|size| size.checked_add(route.tailroom()))
            .ok_or(EINVAL)?;
        Ok(Self {
            skb: Skb::alloc(size, headroom, flags)?,
        })
    }

    /// Appends `bytes`. `ENOSPC` if there is no room.
    #[inline]
    pub(crate) fn append(&mut self, bytes: &[u8]) -> Result {
        self.skb.append(bytes)
    }

    /// Appends `len` zeroes. `ENOSPC` if there is no room.
    #[inline]
    pub(crate) fn append_zeroed(&mut self, len: usize) -> Result {
        self.skb.append_zeroed(len)
    }

    /// Appends what `chunk` contains. `ENOSPC` if there is no room.
    #[inline]
    pub(crate) fn append_chunk(&mut self, chunk: Chunk<'_>) -> Result {
        // SAFETY: The chunk is readable for its length.
        unsafe { self.skb.put(chunk.as_void(), chunk.len()) }
    }

    /// Puts IP and UDP headers in front of the content, which is to grow by `trailer` bytes yet.
    ///
    /// `EMSGSIZE` if the packet is too long for IP, `ENOSPC` if there is no room.
    pub(crate) fn address(self, headers: &Headers, trailer: usize) -> Result<TxPacket> {
        let Self { mut skb } = self;
        let content = skb.len().checked_add(trailer).ok_or(EMSGSIZE)?;
        let header = headers.bytes(content).ok_or(EMSGSIZE)?;
        let (ip, udp) = header
            .as_slice()
            .split_at_checked(header.ip_len())
            .ok_or(EINVAL)?;

        skb.prepend(udp)?;
        // SAFETY: The buffer is ours and begins with the UDP header.
        unsafe { b::helpers::skb_reset_transport_header(skb.as_ptr()) };
        skb.prepend(ip)?;
        // SAFETY: The buffer is ours and begins with the IP header.
        unsafe { b::helpers::skb_reset_network_header(skb.as_ptr()) };

        let version = match headers.addresses {
            super::Addresses::V4 { .. } => Version::V4,
            super::Addresses::V6 { .. } => Version::V6,
        };
        // INVARIANT: The headers are there and give that length.
        Ok(TxPacket {
            skb,
            version,
            ip_len: ip.len(),
            trailer,
        })
    }
}

/// A packet with its IP and UDP headers, to which at most the trailer is missing.
///
/// # Invariants
///
/// All of `skb` is in its head. It begins with an IP header of `version` and of `ip_len` bytes, and a
/// UDP header, whose lengths are those of the packet when `trailer` bytes more have been appended.
pub(crate) struct TxPacket {
    skb: Skb,
    version: Version,
    ip_len: usize,
    trailer: usize,
}

/// Why a packet was not sent. Nothing but time helps: the transport sends it again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SendError {
    /// A queue was full, and the packet was dropped.
    Dropped,
    /// A queue is nearly full; this packet, or another one of the flow, was dropped or marked.
    Congested,
    /// The packet was refused, by the network stack or because it is not complete.
    Refused(Error),
}

impl TxPacket {
    /// The IP header as it is sent, but for its checksum, which is zero.
    #[inline]
    pub(crate) fn ip_header(&self) -> &[u8] {
        self.skb.head().get(..self.ip_len).unwrap_or_default()
    }

    /// The UDP header as it is sent.
    #[inline]
    pub(crate) fn udp_header(&self) -> Option<&[u8; UDP_LEN]> {
        self.skb.head().get(self.ip_len..)?.first_chunk()
    }

    /// What follows the UDP header so far.
    #[inline]
    pub(crate) fn content(&self) -> &[u8] {
        let header = self.ip_len.saturating_add(UDP_LEN);
        self.skb.head().get(header..).unwrap_or_default()
    }

    /// Appends `bytes` of the trailer. `EINVAL` if the headers do not count on as many, `ENOSPC` if
    /// there is no room.
    #[inline]
    pub(crate) fn append(&mut self, bytes: &[u8]) -> Result {
        let trailer = self.trailer.checked_sub(bytes.len()).ok_or(EINVAL)?;
        self.skb.append(bytes)?;
        self.trailer = trailer;
        Ok(())
    }

    /// Sends the packet by `route`. Process or softirq context, with no lock held that receiving a
    /// packet takes: the packet may be for this host.
    ///
    /// The packet is gone in any case.
    pub(crate) fn send(self, route: &Route) -> Result<(), SendError> {
        if self.trailer != 0 || self.version != route.version() {
            return Err(SendError::Refused(EINVAL));
        }
        let _guard = rcu::read_lock();
        let dst = route.as_ptr();
        // SAFETY: The route is valid, and the RCU read lock is held.
        let net = unsafe { b::helpers::dst_dev_net_rcu(dst) };
        let skb = self.skb.into_raw().as_ptr();
        // SAFETY: The buffer has no route yet. The route stays valid for the read section; whoever
        // keeps the buffer for longer takes a reference.
        unsafe { b::helpers::skb_dst_set_noref(skb, dst) };
        let output: unsafe extern "C" fn(_, _, _) -> _ = match self.version {
            Version::V4 => b::ip_local_out,
            Version::V6 => b::ip6_local_out,
        };
        // SAFETY: The namespace is alive in this read section. The buffer is ours, and given up
        // here: a packet of that version with its route and headers.
        match unsafe { output(net, ptr::null_mut(), skb) } {
            0 => Ok(()),
            1 => Err(SendError::Dropped),
            2 => Err(SendError::Congested),
            error if error < 0 => Err(SendError::Refused(Error::from_errno(error))),
            _ => Err(SendError::Refused(EIO)),
        }
    }
}
