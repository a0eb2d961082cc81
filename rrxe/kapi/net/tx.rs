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
    gfp,
    mem::Chunk, //
};
use core::{
    ptr::{
        self,
        NonNull, //
    },
    slice,
};
use kernel::{
    alloc::Flags,
    prelude::*,
    sync::rcu, //
};

/// The content of a packet, as it grows.
///
/// # Invariants
///
/// All of `skb` is in its linear part, and all bytes of it are initialised.
pub(crate) struct TxSkb {
    skb: Skb,
}

impl TxSkb {
    /// An empty packet with room for `capacity` bytes of content, to be sent by `route`.
    ///
    /// `ENOMEM` when out of memory. Sleeps if `flags` allow it.
    pub(crate) fn new(route: &Route, capacity: usize, flags: Flags) -> Result<Self> {
        let headroom = route.headroom();
        let size = capacity
            .checked_add(headroom)
            .and_then(|size| size.checked_add(route.tailroom()))
            .ok_or(EINVAL)?;
        let size = u32::try_from(size).map_err(|_| EINVAL)?;
        // SAFETY: Any size may be asked for.
        let skb =
            NonNull::new(unsafe { b::helpers::alloc_skb(size, gfp::raw(flags)) }).ok_or(ENOMEM)?;
        // SAFETY: The buffer was just made, for us.
        let skb = unsafe { Skb::from_raw(skb) };
        let headroom = i32::try_from(headroom).map_err(|_| EINVAL)?;
        // SAFETY: The buffer is empty, and larger than that.
        unsafe { b::helpers::skb_reserve(skb.as_ptr(), headroom) };
        // INVARIANT: There are no bytes.
        Ok(Self { skb })
    }

    /// Length of the content so far, in bytes.
    #[inline]
    pub(crate) fn len(&self) -> usize {
        len(&self.skb)
    }

    /// Whether there is no content yet.
    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Appends `bytes`. `ENOSPC` if there is no room.
    #[inline]
    pub(crate) fn append(&mut self, bytes: &[u8]) -> Result {
        append(&mut self.skb, bytes)
    }

    /// Appends `len` zeroes, and gives access to them. `ENOSPC` if there is no room.
    #[inline]
    pub(crate) fn append_zeroed(&mut self, len: usize) -> Result<&mut [u8]> {
        let tail = room(&self.skb, len)?;
        // SAFETY: The buffer has that much room at `tail`.
        unsafe { ptr::write_bytes(tail.as_ptr(), 0, len) };
        // SAFETY: The bytes were just initialised.
        unsafe { extend(&mut self.skb, len) };
        // SAFETY: The bytes are initialised, and the borrow of `self` keeps others away.
        Ok(unsafe { slice::from_raw_parts_mut(tail.as_ptr(), len) })
    }

    /// Appends what `chunk` contains. `ENOSPC` if there is no room.
    #[inline]
    pub(crate) fn append_chunk(&mut self, chunk: Chunk<'_>) -> Result {
        let tail = room(&self.skb, chunk.len())?;
        // SAFETY: The chunk is readable for its length, and the buffer has that much room.
        unsafe { b::helpers::copy_bytes(tail.as_ptr().cast(), chunk.as_void(), chunk.len()) };
        // SAFETY: The bytes were just initialised.
        unsafe { extend(&mut self.skb, chunk.len()) };
        Ok(())
    }

    /// The content so far.
    #[inline]
    pub(crate) fn content(&self) -> &[u8] {
        bytes(&self.skb)
    }

    /// The content so far, to be changed.
    #[inline]
    pub(crate) fn content_mut(&mut self) -> &mut [u8] {
        let len = self.len();
        // SAFETY: The buffer is valid.
        let data = unsafe { (*self.skb.as_ptr()).data };
        // SAFETY: By the type invariant these bytes are initialised, and ours alone.
        unsafe { slice::from_raw_parts_mut(data, len) }
    }

    /// Sets the priority by which queueing disciplines and VLANs class the packet.
    pub(crate) fn set_priority(&mut self, priority: u32) {
        // SAFETY: The buffer is ours.
        unsafe { b::helpers::skb_set_priority(self.skb.as_ptr(), priority) };
    }

    /// Puts IP and UDP headers in front of the content, which is to grow by `trailer` bytes yet.
    ///
    /// `EMSGSIZE` if the packet is too long for IP, `ENOSPC` if there is no room.
    pub(crate) fn address(self, headers: &Headers, trailer: usize) -> Result<TxPacket> {
        let Self { mut skb } = self;
        let content = len(&skb).checked_add(trailer).ok_or(EMSGSIZE)?;
        let header = headers.bytes(content).ok_or(EMSGSIZE)?;
        let (ip, udp) = header
            .as_slice()
            .split_at_checked(header.ip_len())
            .ok_or(EINVAL)?;

        prepend(&mut skb, udp)?;
        // SAFETY: The buffer is ours and begins with the UDP header.
        unsafe { b::helpers::skb_reset_transport_header(skb.as_ptr()) };
        prepend(&mut skb, ip)?;
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
/// - All of `skb` is in its linear part, and all bytes of it are initialised.
/// - `skb` begins with an IP header of `version` and of `ip_len` bytes, and a UDP header, whose
///   lengths are those of the packet when `trailer` bytes more have been appended.
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
        bytes(&self.skb).get(..self.ip_len).unwrap_or_default()
    }

    /// The UDP header as it is sent.
    #[inline]
    pub(crate) fn udp_header(&self) -> Option<&[u8; UDP_LEN]> {
        bytes(&self.skb).get(self.ip_len..)?.first_chunk()
    }

    /// What follows the UDP header so far.
    #[inline]
    pub(crate) fn content(&self) -> &[u8] {
        let header = self.ip_len.saturating_add(UDP_LEN);
        bytes(&self.skb).get(header..).unwrap_or_default()
    }

    /// Appends `bytes` of the trailer. `EINVAL` if the headers do not count on as many, `ENOSPC` if
    /// there is no room.
    #[inline]
    pub(crate) fn append(&mut self, bytes: &[u8]) -> Result {
        let trailer = self.trailer.checked_sub(bytes.len()).ok_or(EINVAL)?;
        append(&mut self.skb, bytes)?;
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
        let sent = match self.version {
            // SAFETY: The namespace is alive in this read section. The buffer is ours, and given up
            // here: a packet of that version with its route and headers.
            Version::V4 => unsafe { b::ip_local_out(net, ptr::null_mut(), skb) },
            // SAFETY: Likewise.
            Version::V6 => unsafe { b::ip6_local_out(net, ptr::null_mut(), skb) },
        };
        match sent {
            0 => Ok(()),
            1 => Err(SendError::Dropped),
            2 => Err(SendError::Congested),
            error if error < 0 => Err(SendError::Refused(Error::from_errno(error))),
            _ => Err(SendError::Refused(EIO)),
        }
    }
}

/// Length of `skb`.
#[inline]
fn len(skb: &Skb) -> usize {
    // SAFETY: The buffer is valid.
    unsafe { (*skb.as_ptr()).len as usize }
}

/// The bytes of `skb`, one of this file, all of which are linear and initialised.
#[inline]
fn bytes(skb: &Skb) -> &[u8] {
    // SAFETY: The buffer is valid.
    let data = unsafe { (*skb.as_ptr()).data };
    // SAFETY: All bytes of a buffer of this file are linear and initialised, and stay as they are for
    // as long as it is borrowed.
    unsafe { slice::from_raw_parts(data, len(skb)) }
}

/// Where `len` more bytes of `skb` would go. `ENOSPC` if there is no room.
#[inline]
fn room(skb: &Skb, more: usize) -> Result<NonNull<u8>> {
    // SAFETY: The buffer is valid.
    let room = unsafe { b::helpers::skb_tailroom(skb.as_ptr()) };
    if usize::try_from(room).map_or(true, |room| more > room) {
        return Err(ENOSPC);
    }
    // SAFETY: The buffer is valid.
    NonNull::new(unsafe { b::helpers::skb_tail_pointer(skb.as_ptr()) }).ok_or(EINVAL)
}

/// Makes `skb` longer by `more` bytes.
///
/// # Safety
///
/// [`room`] must have said that they have room, and they must be initialised.
#[inline]
unsafe fn extend(skb: &mut Skb, more: usize) {
    // It fits in the room, which is an `i32`.
    let more = more as u32;
    // SAFETY: The buffer is ours, and the caller promises that there is room.
    unsafe { b::skb_put(skb.as_ptr(), more) };
}

/// Appends `bytes` to `skb`. `ENOSPC` if there is no room.
#[inline]
fn append(skb: &mut Skb, bytes: &[u8]) -> Result {
    let tail = room(skb, bytes.len())?;
    // SAFETY: The buffer has that much room at `tail`, to which there are no references.
    unsafe { ptr::copy_nonoverlapping(bytes.as_ptr(), tail.as_ptr(), bytes.len()) };
    // SAFETY: There is room, and the bytes were just written.
    unsafe { extend(skb, bytes.len()) };
    Ok(())
}

/// Puts `bytes` in front of what `skb` has. `ENOSPC` if there is no room.
#[inline]
fn prepend(skb: &mut Skb, bytes: &[u8]) -> Result {
    // SAFETY: The buffer is valid.
    let room = unsafe { b::helpers::skb_headroom(skb.as_ptr()) };
    let more = u32::try_from(bytes.len()).map_err(|_| ENOSPC)?;
    if more > room {
        return Err(ENOSPC);
    }
    // SAFETY: The buffer is ours and has the room.
    let data: *mut u8 = unsafe { b::skb_push(skb.as_ptr(), more) }.cast();
    // SAFETY: As many bytes were just made part of the buffer, and there are no references to them.
    unsafe { ptr::copy_nonoverlapping(bytes.as_ptr(), data, bytes.len()) };
    Ok(())
}
