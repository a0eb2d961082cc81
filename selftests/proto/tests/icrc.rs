// SPDX-License-Identifier: GPL-2.0

//! The ICRC of arbitrary packets, against one computed over the packet as a whole.

use proptest::{
    array,
    collection::vec,
    prelude::*, //
};
use rrxe_proto::icrc::{
    finish,
    MaskedHeaders, //
};

/// The kernel's `crc32_le`, which does not invert.
fn crc32_le(crc: u32, bytes: &[u8]) -> u32 {
    let mut hasher = crc32fast::Hasher::new_with_initial(!crc);
    hasher.update(bytes);
    !hasher.finalize()
}

/// Sets bytes of the packet to ones by their offset, and hashes it behind eight ones.
fn reference(ip: &[u8], rest: &[u8]) -> [u8; 4] {
    let mut bytes = [&[0xff; 8], ip, rest].concat();
    let masked = match ip[0] >> 4 {
        4 => vec![1, 8, 10, 11],
        _ => vec![1, 2, 3, 7],
    };
    if ip[0] >> 4 == 6 {
        bytes[8] |= 0x0f;
    }
    masked.iter().for_each(|at| bytes[8 + at] = 0xff);
    [6, 7, 12]
        .iter()
        .for_each(|at| bytes[8 + ip.len() + at] = 0xff);
    crc32fast::hash(&bytes).to_le_bytes()
}

proptest! {
    #[test]
    fn of_ipv4(
        mut ip in vec(any::<u8>(), 60),
        options in 0..=10usize,
        udp: [u8; 8],
        bth in array::uniform12(any::<u8>()),
        rest in vec(any::<u8>(), 0..300),
    ) {
        ip.truncate(20 + 4 * options);
        ip[0] = 0x45 + options as u8;
        let masked = MaskedHeaders::ipv4(&ip, &udp, &bth).unwrap();
        let icrc = finish(crc32_le(masked.crc(crc32_le), &rest));
        prop_assert_eq!(icrc, reference(&ip, &[&udp[..], &bth, &rest].concat()));
    }

    #[test]
    fn of_ipv6(
        mut ip in vec(any::<u8>(), 40),
        udp: [u8; 8],
        bth in array::uniform12(any::<u8>()),
        rest in vec(any::<u8>(), 0..300),
    ) {
        ip[0] = 0x60 | ip[0] >> 4;
        let masked = MaskedHeaders::ipv6(ip[..].try_into().unwrap(), &udp, &bth).unwrap();
        let icrc = finish(crc32_le(masked.crc(crc32_le), &rest));
        prop_assert_eq!(icrc, reference(&ip, &[&udp[..], &bth, &rest].concat()));
    }
}
