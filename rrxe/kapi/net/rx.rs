// SPDX-License-Identifier: GPL-2.0

//! Packets that have arrived.

use super::{
    address::Addresses,
    headers::UDP_LEN,
    netdev::NetDevice,
    queue::Packet,
    skb::Skb, //
};
use crate::kapi::{
    bindings as b,
    crc::crc32_le,
    mem::ChunkMut, //
};
use core::net::{
    Ipv4Addr,
    Ipv6Addr, //
};
use kernel::{
    prelude::*,
    sync::rcu, //
};
use zerocopy_derive::Immutable;

/// How much of the content is contiguous at least, unless there is less of it, in bytes.
///
/// The longest headers of the transport, those of an atomic request, have 44.
const CONTIGUOUS: usize = 64;

/// A UDP packet that has arrived for the transport.
///
/// Its *content* is what follows the UDP header, up to the length that UDP gives; offsets count from
/// there. The UDP checksum, if the sender gave one, has been verified by the UDP stack. All methods
/// may be used in any context but hard interrupts, and none depends on the device that the packet
/// came from, which may be gone while the packet is queued.
///
/// The buffer begins with the IP header, well-formed as the IP stack has checked. Its head has both
/// headers and the first [`CONTIGUOUS`] bytes of the content, or all of it. It names neither a device
/// nor a route. Its control block begins with a [`Control`].
pub(crate) struct RxPacket {
    skb: Skb,
}

/// What is known of the packet beside its bytes.
#[repr(C)]
#[derive(Clone, Copy, Default, FromBytes, IntoBytes, Immutable)]
struct Control {
    /// Length of the IP header.
    ip_len: u32,
    /// Length of the content.
    len: u32,
    /// The device.
    ifindex: u32,
    /// The device below a VLAN, or the device again.
    lower_ifindex: u32,
    /// Number of the VLAN, or [`NO_VLAN`].
    vlan: u32,
}

const NO_VLAN: u32 = u32::MAX;

impl RxPacket {
    /// The packet in `skb`, or `None`, with the packet dropped, if it is malformed or out of memory.
    ///
    /// # Safety
    ///
    /// `skb` must come from the UDP stack, as it gives it to an encapsulation socket, in the RCU read
    /// section of that.
    pub(super) unsafe fn from_encap(mut skb: Skb) -> Option<Self> {
        let guard = rcu::read_lock();
        // The buffer begins with the UDP header.
        let contiguous = skb.len().min(UDP_LEN.saturating_add(CONTIGUOUS));
        if contiguous < UDP_LEN || !skb.pull(contiguous) {
            return None;
        }
        let [_, _, _, _, high, low, ..] = *skb.head() else {
            return None;
        };
        let udp_len = usize::from(u16::from_be_bytes([high, low]));
        let len = udp_len.min(skb.len()).checked_sub(UDP_LEN)?;

        // SAFETY: The packet is fresh from the UDP stack.
        let ifindex = unsafe { b::helpers::skb_iif(skb.as_ptr()) }.unsigned_abs();
        // SAFETY: The UDP stack has left the device in this union.
        let device = unsafe {
            skb.raw()
                .__bindgen_anon_1
                .__bindgen_anon_1
                .__bindgen_anon_1
                .dev
        };
        // SAFETY: The device is alive in this read section.
        let device = unsafe { NetDevice::from_raw(device.cast()) };
        let device = arrived_by(device, ifindex, &guard);
        let lower = device.and_then(NetDevice::vlan_lower);
        let vlan = device.and_then(NetDevice::vlan_id);

        // SAFETY: The buffer is ours; the stack has left the IP header in front.
        let ip_len = unsafe { b::helpers::skb_push_network_header(skb.as_ptr()) };
        // SAFETY: The buffer is ours. It does not depend on this read section any more.
        unsafe { b::helpers::skb_detach(skb.as_ptr()) };
        let control = Control {
            ip_len,
            len: u32::try_from(len).ok()?,
            ifindex,
            lower_ifindex: lower.map_or(ifindex, NetDevice::ifindex),
            vlan: vlan.map_or(NO_VLAN, u32::from),
        };
        control.write_to_prefix(skb.control_mut()).ok()?;
        Some(Self { skb })
    }

    /// The same packet once more, for another receiver. `ENOMEM` when out of memory.
    pub(crate) fn duplicate(&self) -> Result<Self> {
        // SAFETY: A packet that has arrived is only read.
        let skb = unsafe { self.skb.share() }?;
        Ok(Self { skb })
    }

    /// The IP header: of IPv4 with its options, of IPv6 with all extension headers.
    #[inline]
    pub(crate) fn ip_header(&self) -> &[u8] {
        let head = self.skb.head();
        head.get(..self.ip_len()).unwrap_or(head)
    }

    /// The UDP header.
    #[inline]
    pub(crate) fn udp_header(&self) -> Option<&[u8; UDP_LEN]> {
        self.skb.head().get(self.ip_len()..)?.first_chunk()
    }

    /// Length of the content, in bytes.
    #[inline]
    pub(crate) fn len(&self) -> usize {
        self.control().len as usize
    }

    /// Memory that the packet takes, in bytes. It does not change.
    #[inline]
    pub(crate) fn footprint(&self) -> usize {
        self.skb.truesize()
    }

    /// The beginning of the content: 64 bytes at least, unless there is less of it, and maybe all.
    #[inline]
    pub(crate) fn headers(&self) -> &[u8] {
        let linear = self.skb.head().get(self.start()..).unwrap_or_default();
        linear.get(..self.len()).unwrap_or(linear)
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

    /// Its traffic class (type of service in IPv4), congestion bits included.
    pub(crate) fn traffic_class(&self) -> Option<u8> {
        let [first, second, ..] = *self.ip_header() else {
            return None;
        };
        match first >> 4 {
            4 => Some(second),
            6 => Some(first << 4 | second >> 4),
            _ => None,
        }
    }

    /// The number of the device that the packet came in by.
    ///
    /// For a packet of this host to itself, the device that has the address, not the loopback device.
    #[inline]
    pub(crate) fn ifindex(&self) -> u32 {
        self.control().ifindex
    }

    /// The number of the device below, if [`ifindex`](Self::ifindex) is a VLAN; the same otherwise.
    #[inline]
    pub(crate) fn lower_ifindex(&self) -> u32 {
        self.control().lower_ifindex
    }

    /// Number of the VLAN that it came by, if it came by one.
    #[inline]
    pub(crate) fn vlan(&self) -> Option<u16> {
        // What is no number of a VLAN does not fit.
        u16::try_from(self.control().vlan).ok()
    }

    /// The CRC after `seed` of `len` bytes of the content from `offset` on, fragments or not.
    ///
    /// `EINVAL` if the content is shorter, `EFAULT` if it cannot be read.
    pub(crate) fn crc32_le(&self, offset: usize, len: usize, seed: u32) -> Result<u32> {
        let end = offset.checked_add(len).ok_or(EINVAL)?;
        if let Some(bytes) = self.headers().get(offset..end) {
            return Ok(crc32_le(seed, bytes));
        }
        self.skb.crc32_le(self.place(offset, len)?, len, seed)
    }

    /// Copies the content from `offset` on to `bytes`. `EINVAL` if it is shorter, `EFAULT` if it
    /// cannot be read.
    pub(crate) fn copy_bits(&self, offset: usize, bytes: &mut [u8]) -> Result {
        let place = self.place(offset, bytes.len())?;
        // SAFETY: `bytes` is writable for that length.
        unsafe {
            self.skb
                .copy_to(place, bytes.as_mut_ptr().cast(), bytes.len())
        }
    }

    /// Copies the content from `offset` on to `chunk`. `EINVAL` if it is shorter, `EFAULT` if it
    /// cannot be read.
    pub(crate) fn copy_to(&self, offset: usize, chunk: ChunkMut<'_>) -> Result {
        let place = self.place(offset, chunk.len())?;
        // SAFETY: The chunk is writable for that length.
        unsafe { self.skb.copy_to(place, chunk.as_void(), chunk.len()) }
    }

    /// Frees the packet, which has been used.
    #[inline]
    pub(crate) fn consume(self) {
        self.skb.consume();
    }

    /// Where `len` bytes of the content from `offset` on are in the buffer.
    fn place(&self, offset: usize, len: usize) -> Result<usize> {
        let end = offset.checked_add(len).ok_or(EINVAL)?;
        if end > self.len() {
            return Err(EINVAL);
        }
        self.start().checked_add(offset).ok_or(EINVAL)
    }

    /// Where the content begins in the buffer.
    #[inline]
    fn start(&self) -> usize {
        self.ip_len().saturating_add(UDP_LEN)
    }

    /// Length of the IP header.
    #[inline]
    fn ip_len(&self) -> usize {
        self.control().ip_len as usize
    }

    /// The control block. It always has one.
    #[inline]
    fn control(&self) -> Control {
        Control::read_from_prefix(self.skb.control())
            .map_or(Control::default(), |(control, _)| control)
    }
}

// SAFETY: All there is of an `RxPacket` is its buffer, and a list does not touch `cb`.
unsafe impl Packet for RxPacket {
    #[inline]
    fn into_skb(self) -> Skb {
        self.skb
    }

    #[inline]
    unsafe fn from_skb(skb: Skb) -> Self {
        Self { skb }
    }
}

/// The device `ifindex`.
///
/// `device` is the one that handed the packet to the IP stack: the same one, or the loopback device.
fn arrived_by<'g>(
    device: &'g NetDevice,
    ifindex: u32,
    guard: &'g rcu::Guard,
) -> Option<&'g NetDevice> {
    if device.ifindex() == ifindex {
        Some(device)
    } else {
        device.sibling(ifindex, guard)
    }
}
