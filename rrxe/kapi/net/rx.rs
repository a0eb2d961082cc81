// SPDX-License-Identifier: GPL-2.0

//! Packets that have arrived.

use super::{
    address::Addresses,
    netdev::NetDevice,
    skb::{
        Packet,
        Skb, //
    },
};
use crate::kapi::{
    bindings as b,
    crc::crc32_le,
    mem::ChunkMut, //
};
use core::{
    mem::MaybeUninit,
    net::{
        Ipv4Addr,
        Ipv6Addr, //
    },
    ptr, slice,
};
use kernel::{
    error::to_result,
    prelude::*,
    sync::rcu, //
};

/// How much of the content is contiguous at least, unless there is less of it, in bytes.
///
/// The longest headers of the transport, those of an atomic request, have 44.
const CONTIGUOUS: u32 = 64;

/// Bytes of a UDP header.
const UDP_LEN: u32 = 8;

/// The bits of the traffic class that tell congestion, and their value where it was experienced.
const ECN_CE: u8 = 0b11;

/// A UDP packet that has arrived for the transport.
///
/// Its *content* is what follows the UDP header, up to the length that UDP gives; offsets count from
/// there. The UDP checksum, if the sender gave one, has been verified by the UDP stack. All methods
/// may be used in any context but hard interrupts, and none depends on the device that the packet
/// came from, which may be gone while the packet is queued.
///
/// # Invariants
///
/// - `skb.data` is at the UDP header. The IP header, which is well-formed as the IP stack has checked,
///   ends there. IP header, UDP header and the first [`CONTIGUOUS`] bytes of the content, or all of
///   it, are in the linear part.
/// - `skb.cb` begins with an initialised [`Control`].
/// - `UDP_LEN + Control::len` is at most `skb.len`.
pub(crate) struct RxPacket {
    skb: Skb,
}

/// What is known of the packet beside its bytes, in the buffer's `cb`.
#[repr(C)]
#[derive(Clone, Copy)]
struct Control {
    /// Anything the receiver wants to remember.
    note: u64,
    /// Length of the content.
    len: u32,
    /// The device.
    ifindex: u32,
    /// The device below a VLAN, or the device again.
    lower_ifindex: u32,
}

const _: () = assert!(size_of::<Control>() <= 48 && align_of::<Control>() <= 8);

impl RxPacket {
    /// The packet in `skb`, or `None`, with the packet dropped, if it is malformed or out of memory.
    ///
    /// # Safety
    ///
    /// `skb` must come from the UDP stack, as it gives it to an encapsulation socket, in the RCU read
    /// section of that.
    pub(super) unsafe fn from_encap(skb: Skb) -> Option<Self> {
        let guard = rcu::read_lock();
        let raw = skb.as_ptr();
        // SAFETY: The buffer is valid.
        let total = unsafe { (*raw).len };
        let contiguous = total.min(UDP_LEN.saturating_add(CONTIGUOUS));
        // SAFETY: The buffer is ours alone, and has as many bytes.
        if contiguous < UDP_LEN || !unsafe { b::helpers::pskb_may_pull(raw, contiguous) } {
            return None;
        }

        // SAFETY: The buffer is valid.
        let ip = unsafe { b::helpers::skb_network_header(raw) };
        // SAFETY: The IP stack has set the header, of some bytes, and they are linear.
        let ifindex = match unsafe { ip.read() } >> 4 {
            // SAFETY: A packet of that version, fresh from the UDP stack.
            4 => unsafe { b::helpers::inet_iif(raw) },
            // SAFETY: Likewise.
            6 => unsafe { b::helpers::inet6_iif(raw) },
            _ => return None,
        }
        .unsigned_abs();
        // SAFETY: The buffer is valid and knows its device.
        let device = unsafe {
            (*raw)
                .__bindgen_anon_1
                .__bindgen_anon_1
                .__bindgen_anon_1
                .dev
        }
        .cast();
        // SAFETY: The device is alive in this read section.
        let device = unsafe { NetDevice::from_raw(device) };
        let lower_ifindex = lower(device, ifindex, &guard);

        let packet = Self { skb };
        let len = packet.udp_len().min(total).checked_sub(UDP_LEN)?;
        let control = Control {
            note: 0,
            len,
            ifindex,
            lower_ifindex,
        };
        // SAFETY: `cb` is ours to use, is large enough and aligned. INVARIANT: It is initialised now,
        // and `len` is right.
        unsafe { packet.control().write(control) };
        // The route is of no more use, and a queued packet must not depend on this read section.
        // SAFETY: The buffer is ours.
        unsafe { b::helpers::skb_dst_drop(raw) };
        Some(packet)
    }

    /// The IP header: of IPv4 with its options, of IPv6 with all extension headers.
    #[inline]
    pub(crate) fn ip_header(&self) -> &[u8] {
        let udp = self.data();
        // SAFETY: The buffer is valid.
        let ip = unsafe { b::helpers::skb_network_header(self.skb.as_ptr()) }.cast_const();
        // SAFETY: By the type invariant both are in the linear part, in this order.
        let len = unsafe { udp.offset_from(ip) }.unsigned_abs();
        // SAFETY: By the type invariant these are bytes of the linear part.
        unsafe { slice::from_raw_parts(ip, len) }
    }

    /// The UDP header.
    #[inline]
    pub(crate) fn udp_header(&self) -> &[u8; 8] {
        // SAFETY: By the type invariant these are bytes of the linear part.
        unsafe { &*self.data().cast() }
    }

    /// Length of the content, in bytes.
    #[inline]
    pub(crate) fn len(&self) -> usize {
        // SAFETY: By the type invariant the control block is initialised.
        unsafe { (*self.control()).len as usize }
    }

    /// Whether there is no content.
    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The beginning of the content: 64 bytes at least, unless there is less of it, and maybe all.
    #[inline]
    pub(crate) fn headers(&self) -> &[u8] {
        // SAFETY: The buffer is valid.
        let linear = unsafe { b::helpers::skb_headlen(self.skb.as_ptr()) };
        let len = self.len().min(linear.saturating_sub(UDP_LEN) as usize);
        // SAFETY: By the type invariant the UDP header is in the linear part.
        let content = unsafe { self.data().add(UDP_LEN as usize) };
        // SAFETY: `len` is at most what the linear part has from there.
        unsafe { slice::from_raw_parts(content, len) }
    }

    /// Where the packet comes from and where it was sent to.
    pub(crate) fn addresses(&self) -> Option<Addresses> {
        let ip = self.ip_header();
        match ip.first()? >> 4 {
            4 => Some(Addresses::V4 {
                source: Ipv4Addr::from(*ip.get(12..)?.first_chunk::<4>()?),
                destination: Ipv4Addr::from(*ip.get(16..)?.first_chunk::<4>()?),
            }),
            6 => Some(Addresses::V6 {
                source: Ipv6Addr::from(*ip.get(8..)?.first_chunk::<16>()?),
                destination: Ipv6Addr::from(*ip.get(24..)?.first_chunk::<16>()?),
            }),
            _ => None,
        }
    }

    /// The traffic class (type of service in IPv4), congestion bits included.
    pub(crate) fn traffic_class(&self) -> u8 {
        match self.ip_header() {
            [first, second, ..] if first >> 4 == 6 => (first << 4) | (second >> 4),
            [_, second, ..] => *second,
            _ => 0,
        }
    }

    /// Whether a router has marked the packet: it saw congestion.
    pub(crate) fn ce_marked(&self) -> bool {
        self.traffic_class() & ECN_CE == ECN_CE
    }

    /// The UDP port the packet was sent from.
    pub(crate) fn source_port(&self) -> u16 {
        let [high, low, ..] = *self.udp_header();
        u16::from_be_bytes([high, low])
    }

    /// The number of the device that the packet came in by.
    ///
    /// For a packet of this host to itself, the device that has the address, not the loopback device.
    #[inline]
    pub(crate) fn ifindex(&self) -> u32 {
        // SAFETY: By the type invariant the control block is initialised.
        unsafe { (*self.control()).ifindex }
    }

    /// The number of the device below, if [`ifindex`](Self::ifindex) is a VLAN; the same otherwise.
    #[inline]
    pub(crate) fn lower_ifindex(&self) -> u32 {
        // SAFETY: By the type invariant the control block is initialised.
        unsafe { (*self.control()).lower_ifindex }
    }

    /// What [`set_note`](Self::set_note) has left, zero at first.
    #[inline]
    pub(crate) fn note(&self) -> u64 {
        // SAFETY: By the type invariant the control block is initialised.
        unsafe { (*self.control()).note }
    }

    /// Leaves a number with the packet, for whoever takes it off a queue.
    #[inline]
    pub(crate) fn set_note(&mut self, note: u64) {
        // SAFETY: By the type invariant the control block is initialised, and we have it alone.
        unsafe { (*self.control()).note = note };
    }

    /// The CRC after `seed` of `len` bytes of the content from `offset` on, fragments or not.
    ///
    /// `EINVAL` if the content is shorter.
    pub(crate) fn crc32_le(&self, offset: usize, len: usize, seed: u32) -> Result<u32> {
        let end = offset.checked_add(len).ok_or(EINVAL)?;
        if let Some(bytes) = self.headers().get(offset..end) {
            return Ok(crc32_le(seed, bytes));
        }
        let mut left = self.range(offset, len)?;
        let to = left.start.saturating_add(left.len);
        let mut state = MaybeUninit::uninit();
        // SAFETY: The buffer is valid and has that range; the function initialises the state.
        unsafe {
            b::skb_prepare_seq_read(self.skb.as_ptr(), left.start, to, state.as_mut_ptr());
        };
        let mut crc = seed;
        let mut consumed: u32 = 0;
        loop {
            let mut data = ptr::null();
            // SAFETY: The state is initialised. When there is nothing left, which is when the loop
            // ends, the function releases what it has mapped.
            let block = unsafe { b::skb_seq_read(consumed, &mut data, state.as_mut_ptr()) };
            if block == 0 {
                return Ok(crc);
            }
            // Blocks end where fragments end, which may be past the range.
            let block = block.min(left.len);
            // The sender's memory may be in a fragment, so there is no reference to it.
            // SAFETY: The function has made that many bytes readable at `data`.
            crc = unsafe { b::crc32_le(crc, data.cast(), block as usize) };
            left.len = left.len.saturating_sub(block);
            consumed = consumed.saturating_add(block);
        }
    }

    /// Copies the content from `offset` on to `bytes`. `EINVAL` if it is shorter.
    pub(crate) fn copy_bits(&self, offset: usize, bytes: &mut [u8]) -> Result {
        let range = self.range(offset, bytes.len())?;
        // SAFETY: The buffer is valid, and `bytes` writable for that length.
        unsafe { self.copy_raw(range, bytes.as_mut_ptr().cast()) }
    }

    /// Copies the content from `offset` on to `chunk`. `EINVAL` if it is shorter.
    pub(crate) fn copy_to(&self, offset: usize, chunk: ChunkMut<'_>) -> Result {
        let range = self.range(offset, chunk.len())?;
        // SAFETY: The buffer is valid, and the chunk writable for that length.
        unsafe { self.copy_raw(range, chunk.as_void()) }
    }

    /// Frees the packet, which has been used.
    #[inline]
    pub(crate) fn consume(self) {
        self.skb.consume();
    }

    /// Copies `range` of the buffer to `to`.
    ///
    /// # Safety
    ///
    /// `to` must be writable for the length of the range.
    unsafe fn copy_raw(&self, range: Range, to: *mut kernel::ffi::c_void) -> Result {
        let start = i32::try_from(range.start).map_err(|_| EINVAL)?;
        let len = i32::try_from(range.len).map_err(|_| EINVAL)?;
        // SAFETY: The buffer is valid; the rest the caller promises.
        to_result(unsafe { b::skb_copy_bits(self.skb.as_ptr(), start, to, len) })
    }

    /// `len` bytes of the content from `offset` on, as part of the buffer.
    fn range(&self, offset: usize, len: usize) -> Result<Range> {
        let end = offset.checked_add(len).ok_or(EINVAL)?;
        if end > self.len() {
            return Err(EINVAL);
        }
        let offset = u32::try_from(offset).map_err(|_| EINVAL)?;
        Ok(Range {
            start: offset.checked_add(UDP_LEN).ok_or(EINVAL)?,
            len: u32::try_from(len).map_err(|_| EINVAL)?,
        })
    }

    /// Length that the UDP header gives.
    fn udp_len(&self) -> u32 {
        let [_, _, _, _, high, low, ..] = *self.udp_header();
        u32::from(u16::from_be_bytes([high, low]))
    }

    /// The UDP header and all that follows in the linear part.
    #[inline]
    fn data(&self) -> *const u8 {
        // SAFETY: The buffer is valid.
        unsafe { (*self.skb.as_ptr()).data }
    }

    /// The control block.
    #[inline]
    fn control(&self) -> *mut Control {
        // SAFETY: The buffer is valid.
        unsafe { (&raw mut (*self.skb.as_ptr()).cb).cast() }
    }
}

/// A part of the buffer, from the UDP header on.
struct Range {
    start: u32,
    len: u32,
}

// SAFETY: All there is of an `RxPacket` is its buffer, and a list does not touch `cb`.
unsafe impl Packet for RxPacket {
    #[inline]
    fn into_skb(self) -> Skb {
        self.skb
    }

    /// # Safety
    ///
    /// As [`Packet::from_skb`] says.
    #[inline]
    unsafe fn from_skb(skb: Skb) -> Self {
        // INVARIANT: The buffer was that of an `RxPacket`.
        Self { skb }
    }
}

/// The number of the device below device `ifindex`, if that is a VLAN; `ifindex` otherwise.
///
/// `device` is the one that handed the packet to the IP stack: the same one, or the loopback device.
fn lower(device: &NetDevice, ifindex: u32, _guard: &rcu::Guard) -> u32 {
    if device.ifindex() == ifindex {
        return device.vlan_lower().map_or(ifindex, |lower| lower.ifindex());
    }
    let Ok(index) = i32::try_from(ifindex) else {
        return ifindex;
    };
    // SAFETY: The device is alive and the RCU read lock is held.
    let net = unsafe { b::helpers::dev_net_rcu(device.as_ptr()) };
    // SAFETY: The namespace is alive, as the device is in it, and the RCU read lock is held.
    let other = unsafe { b::dev_get_by_index_rcu(net, index) };
    if other.is_null() {
        return ifindex;
    }
    // SAFETY: A device that is found under RCU is alive until the read section ends.
    unsafe { NetDevice::from_raw(other) }
        .vlan_lower()
        .map_or(ifindex, |lower| lower.ifindex())
}
