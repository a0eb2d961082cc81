// SPDX-License-Identifier: GPL-2.0

//! Invariant CRC: covers all of a packet that no router changes.
//!
//! It is a CRC-32 (the one of Ethernet) over eight bytes of ones in place of a local route header,
//! the IP, UDP and base transport headers with all variable fields set to ones, and the rest of the
//! packet as sent, pad included. The computation itself is the caller's: it starts with
//! [`MaskedHeaders::crc`], goes on over what follows the BTH, and ends with [`finish`].
//!
//! ```
//! # use rrxe_proto::icrc::{finish, MaskedHeaders};
//! # fn crc32_le(crc: u32, bytes: &[u8]) -> u32 {
//! #     bytes.iter().fold(crc, |crc, byte| crc ^ u32::from(*byte)) // Not a CRC.
//! # }
//! # let (ip, udp, bth) = ([0x45; 20], [0; 8], [0; 12]);
//! # let (extensions, payload) = ([0; 4], [0; 8]);
//! let masked = MaskedHeaders::ipv4(&ip, &udp, &bth).unwrap();
//! let crc = masked.crc(crc32_le);
//! let crc = crc32_le(crc, &extensions);
//! let crc = crc32_le(crc, &payload);
//! let icrc: [u8; 4] = finish(crc);
//! ```

use core::mem::size_of;

use crate::wire::{
    Bth,
    ICRC_LEN, //
};

/// What stands for the local route header, which Ethernet does not have.
pub const MASKED_LRH: [u8; 8] = [0xff; 8];

/// The state of the CRC after [`MASKED_LRH`]: start with this and leave those bytes out.
pub const SEED: u32 = 0xdebb_20e3;

/// Bytes of an IPv6 header. One with extension headers carries no packet.
pub const IPV6_LEN: usize = 40;

/// Bytes of an IPv4 header without options.
pub const IPV4_MIN_LEN: usize = 20;

/// Bytes of an IPv4 header with all the options it has room for.
pub const IPV4_MAX_LEN: usize = 60;

/// Bytes of a UDP header.
pub const UDP_LEN: usize = 8;

/// Bytes of a BTH.
pub const BTH_LEN: usize = size_of::<Bth>();

/// IP header, UDP header and BTH with the variable fields set to ones.
#[derive(Clone, Copy, Debug)]
pub struct MaskedHeaders {
    bytes: [u8; MAX_LEN],
    len: u8,
}

impl MaskedHeaders {
    /// Masks the headers of a packet in IPv4. `ip` is the whole header, options included.
    ///
    /// Type of service, time to live and both checksums are masked; the identification is not:
    /// whoever changes it has to compute the ICRC anew. Returns `None` if `ip` is of another version
    /// or has not the length that it says it has.
    pub fn ipv4(ip: &[u8], udp: &[u8; UDP_LEN], bth: &[u8; BTH_LEN]) -> Option<Self> {
        let mut masked = ip.first_chunk::<IPV4_MIN_LEN>().copied()?;
        let [version_ihl, tos, _, _, _, _, _, _, ttl, _, check_high, check_low, ..] = &mut masked;
        let len = usize::from(*version_ihl & 0x0f).checked_mul(4)?;
        if *version_ihl >> 4 != 4 || len != ip.len() {
            return None;
        }
        *tos = 0xff;
        *ttl = 0xff;
        *check_high = 0xff;
        *check_low = 0xff;
        let options = ip.get(IPV4_MIN_LEN..)?;
        Self::concat(&[&masked, options, &masked_udp(udp), &masked_bth(bth)])
    }

    /// Masks the headers of a packet in IPv6.
    ///
    /// Traffic class, flow label, hop limit and the UDP checksum are masked. Returns `None` if
    /// `ip` is of another version.
    pub fn ipv6(ip: &[u8; IPV6_LEN], udp: &[u8; UDP_LEN], bth: &[u8; BTH_LEN]) -> Option<Self> {
        let mut masked = *ip;
        let [version, flow_high, flow_mid, flow_low, _, _, _, hop_limit, ..] = &mut masked;
        if *version >> 4 != 6 {
            return None;
        }
        *version |= 0x0f;
        *flow_high = 0xff;
        *flow_mid = 0xff;
        *flow_low = 0xff;
        *hop_limit = 0xff;
        Self::concat(&[&masked, &masked_udp(udp), &masked_bth(bth)])
    }

    /// The masked bytes, without [`MASKED_LRH`].
    pub fn as_bytes(&self) -> &[u8] {
        self.bytes.get(..usize::from(self.len)).unwrap_or(&[])
    }

    /// The state of the CRC after the headers.
    ///
    /// `crc32_le` goes on from a state over bytes. It inverts neither before nor after, as the
    /// kernel's function of that name.
    pub fn crc(&self, crc32_le: impl FnOnce(u32, &[u8]) -> u32) -> u32 {
        crc32_le(SEED, self.as_bytes())
    }

    fn concat(parts: &[&[u8]]) -> Option<Self> {
        let mut bytes = [0; MAX_LEN];
        let mut room = bytes.as_mut_slice();
        let mut len: u8 = 0;
        for part in parts {
            let (head, tail) = room.split_at_mut_checked(part.len())?;
            head.copy_from_slice(part);
            room = tail;
            len = len.checked_add(u8::try_from(part.len()).ok()?)?;
        }
        Some(Self { bytes, len })
    }
}

/// The ICRC as it goes on the wire, from the state of the CRC after the last byte of pad.
pub const fn finish(crc: u32) -> [u8; ICRC_LEN] {
    (!crc).to_le_bytes()
}

const MAX_LEN: usize = IPV4_MAX_LEN + UDP_LEN + BTH_LEN;

fn masked_udp(udp: &[u8; UDP_LEN]) -> [u8; UDP_LEN] {
    let mut masked = *udp;
    let [.., check_high, check_low] = &mut masked;
    *check_high = 0xff;
    *check_low = 0xff;
    masked
}

/// FECN, BECN and the reserved bits beside them may change on the way.
fn masked_bth(bth: &[u8; BTH_LEN]) -> [u8; BTH_LEN] {
    let mut masked = *bth;
    let [_, _, _, _, ecn, ..] = &mut masked;
    *ecn = 0xff;
    masked
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The kernel's function, a bit at a time.
    fn crc32_le(crc: u32, bytes: &[u8]) -> u32 {
        bytes.iter().fold(crc, |crc, &byte| {
            (0..8).fold(crc ^ u32::from(byte), |crc, _| {
                (crc >> 1) ^ (0xedb8_8320 & (crc & 1).wrapping_neg())
            })
        })
    }

    fn ipv4(options: usize) -> Vec<u8> {
        let mut ip: Vec<u8> = (0..20 + options as u8).collect();
        ip[0] = 0x40 | (5 + options / 4) as u8;
        ip
    }

    const UDP: [u8; 8] = [0xc0, 0, 0x12, 0xb7, 0, 24, 0x12, 0x34];
    const BTH: [u8; 12] = [4, 0x40, 0xff, 0xff, 0, 0, 0, 0x11, 0x80, 0, 0, 7];

    // PROTOCOL rule 14.
    #[test]
    fn the_seed_stands_for_eight_bytes_of_ones() {
        assert_eq!(crc32_le(!0, &MASKED_LRH), SEED);
    }

    #[test]
    fn the_bitwise_crc_is_the_usual_one() {
        for bytes in [&b""[..], b"1", b"123456789"] {
            assert_eq!(!crc32_le(!0, bytes), crc32fast::hash(bytes));
        }
        assert_eq!(!crc32_le(!0, b"123456789"), 0xcbf4_3926);
    }

    // PROTOCOL rule 14.
    #[test]
    fn exactly_the_variable_fields_of_ipv4_are_masked() {
        let ip = ipv4(0);
        let masked = MaskedHeaders::ipv4(&ip, &UDP, &BTH).unwrap();
        let sent = [&ip[..], &UDP, &BTH].concat();
        let changed = [1, 8, 10, 11, 26, 27, 32];
        for (at, (&masked, &sent)) in masked.as_bytes().iter().zip(&sent).enumerate() {
            assert_eq!(masked, if changed.contains(&at) { 0xff } else { sent });
        }
        assert_eq!(masked.as_bytes().len(), 40);
    }

    // PROTOCOL rule 14.
    #[test]
    fn exactly_the_variable_fields_of_ipv6_are_masked() {
        let mut ip = [0x11; 40];
        ip[0] = 0x60;
        let masked = MaskedHeaders::ipv6(&ip, &UDP, &BTH).unwrap();
        let sent = [&ip[..], &UDP, &BTH].concat();
        let changed = [1, 2, 3, 7, 46, 47, 52];
        assert_eq!(masked.as_bytes()[0], 0x6f);
        for (at, (&masked, &sent)) in masked.as_bytes().iter().zip(&sent).enumerate().skip(1) {
            assert_eq!(masked, if changed.contains(&at) { 0xff } else { sent });
        }
        assert_eq!(masked.as_bytes().len(), 60);
    }

    // PROTOCOL requirement 20.
    #[test]
    fn ipv4_options_are_covered_as_sent() {
        for options in (0..=40).step_by(4) {
            let ip = ipv4(options);
            let masked = MaskedHeaders::ipv4(&ip, &UDP, &BTH).unwrap();
            assert_eq!(masked.as_bytes().len(), 20 + options + 20);
            assert_eq!(masked.as_bytes()[20..20 + options], ip[20..]);
        }
    }

    #[test]
    fn a_header_of_the_wrong_length_or_version_is_refused() {
        let mut ip = ipv4(4);
        assert!(MaskedHeaders::ipv4(&ip[..20], &UDP, &BTH).is_none());
        assert!(MaskedHeaders::ipv4(&ip[..19], &UDP, &BTH).is_none());
        ip[0] = 0x44;
        assert!(MaskedHeaders::ipv4(&ip[..16], &UDP, &BTH).is_none());
        ip[0] = 0x66;
        assert!(MaskedHeaders::ipv4(&ip, &UDP, &BTH).is_none());
        assert!(MaskedHeaders::ipv6(&[0x45; 40], &UDP, &BTH).is_none());
    }

    #[test]
    fn the_crc_is_that_of_eight_ones_and_the_masked_headers() {
        let masked = MaskedHeaders::ipv4(&ipv4(0), &UDP, &BTH).unwrap();
        let all = [&MASKED_LRH[..], masked.as_bytes()].concat();
        assert_eq!(masked.crc(crc32_le), crc32_le(!0, &all));
    }

    #[test]
    fn the_icrc_is_stored_inverted_and_little_endian() {
        assert_eq!(finish(!0x0102_0304), [4, 3, 2, 1]);
    }
}
