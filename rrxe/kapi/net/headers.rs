// SPDX-License-Identifier: GPL-2.0

//! IP and UDP headers of packets that we send.

use super::address::Addresses;

/// Bytes of a UDP header.
pub(crate) const UDP_LEN: usize = 8;

/// Bytes of an IPv4 header without options.
pub(crate) const IPV4_LEN: usize = 20;

/// Bytes of an IPv6 header.
pub(crate) const IPV6_LEN: usize = 40;

/// Bytes of the longest headers, of IP and UDP together.
pub(crate) const MAX_LEN: usize = 48;

/// The number of UDP among the protocols over IP.
pub(super) const PROTOCOL_UDP: u8 = 17;

/// Version 4, and five words of header.
const IPV4_VERSION_LEN: u8 = 0x45;

/// Never to be fragmented; there is no offset.
const DONT_FRAGMENT: [u8; 2] = [0x40, 0x00];

/// What the IP and UDP headers of a packet say, its length aside.
///
/// IPv4 packets are never fragmented. There is no UDP checksum: the transport has a CRC of its own.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Headers {
    /// Where the packet comes from and where it goes.
    pub(crate) addresses: Addresses,
    /// Traffic class (type of service in IPv4), congestion bits included.
    pub(crate) traffic_class: u8,
    /// Hop limit (time to live in IPv4).
    pub(crate) hop_limit: u8,
    /// Flow label, 20 bits; in IPv6 only.
    pub(crate) flow_label: u32,
    /// Identification; in IPv4 only.
    pub(crate) id: u16,
    /// UDP source port.
    pub(crate) source_port: u16,
    /// UDP destination port.
    pub(crate) destination_port: u16,
}

/// The bytes of an IP header and a UDP header.
pub(super) struct HeaderBytes {
    bytes: [u8; MAX_LEN],
    ip_len: usize,
}

impl HeaderBytes {
    /// Both headers.
    pub(super) fn as_slice(&self) -> &[u8] {
        let len = self.ip_len.saturating_add(UDP_LEN);
        self.bytes.get(..len).unwrap_or(&self.bytes)
    }

    /// Length of the IP header.
    pub(super) fn ip_len(&self) -> usize {
        self.ip_len
    }
}

impl Headers {
    /// The headers of a packet with `len` bytes after the UDP header.
    ///
    /// The checksum of an IPv4 header is left zero. `None` if the packet is too long for IP.
    pub(super) fn bytes(&self, len: usize) -> Option<HeaderBytes> {
        let udp_len = u16::try_from(len.checked_add(UDP_LEN)?).ok()?;
        let [source_high, source_low] = self.source_port.to_be_bytes();
        let [destination_high, destination_low] = self.destination_port.to_be_bytes();
        let [udp_high, udp_low] = udp_len.to_be_bytes();
        let udp = [
            source_high,
            source_low,
            destination_high,
            destination_low,
            udp_high,
            udp_low,
            0,
            0,
        ];

        let mut bytes = [0; MAX_LEN];
        let ip_len = match self.addresses {
            Addresses::V4 {
                source,
                destination,
            } => {
                let total = udp_len.checked_add(IPV4_LEN as u16)?;
                let parts: [&[u8]; 8] = [
                    &[IPV4_VERSION_LEN, self.traffic_class],
                    &total.to_be_bytes(),
                    &self.id.to_be_bytes(),
                    &DONT_FRAGMENT,
                    &[self.hop_limit, PROTOCOL_UDP, 0, 0],
                    &source.octets(),
                    &destination.octets(),
                    &udp,
                ];
                concat(&mut bytes, &parts);
                IPV4_LEN
            }
            Addresses::V6 {
                source,
                destination,
            } => {
                let flow =
                    0x6000_0000 | u32::from(self.traffic_class) << 20 | self.flow_label & 0xf_ffff;
                let parts: [&[u8]; 6] = [
                    &flow.to_be_bytes(),
                    &udp_len.to_be_bytes(),
                    &[PROTOCOL_UDP, self.hop_limit],
                    &source.octets(),
                    &destination.octets(),
                    &udp,
                ];
                concat(&mut bytes, &parts);
                IPV6_LEN
            }
        };
        Some(HeaderBytes { bytes, ip_len })
    }
}

/// Writes `parts` one after the other to the beginning of `bytes`.
fn concat(bytes: &mut [u8], parts: &[&[u8]]) {
    let mut source = parts.iter().copied().flatten();
    for (to, from) in bytes.iter_mut().zip(&mut source) {
        *to = *from;
    }
}
