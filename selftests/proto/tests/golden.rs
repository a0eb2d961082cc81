// SPDX-License-Identifier: GPL-2.0

//! Every packet of the captures, against reader, writer and ICRC.

use std::collections::BTreeMap;

use rrxe_proto::{
    icrc::{
        finish,
        MaskedHeaders, //
    },
    opcode::{
        self,
        Opcode, //
    },
    wire::{
        HeaderBuf,
        HeaderSpec,
        Kind,
        Packet, //
    },
    PathMtu,
    Psn,
    Qpn, //
};
use rrxe_proto_tests::capture::{
    self,
    Captured, //
};

const FILES: [(&str, usize); 3] = [
    ("rxe-7.2.12-v4.pcap", 300),
    ("rxe-7.2.12-v6.pcap", 298),
    ("rxe-7.2.12-loss.pcap", 1077),
];

fn for_each(mut check: impl FnMut(&str, &Captured)) {
    for (name, count) in FILES {
        let captured = capture::read(name);
        assert_eq!(captured.len(), count, "{name}");
        captured.iter().for_each(|packet| check(name, packet));
    }
}

/// The kernel's `crc32_le`, which does not invert.
fn crc32_le(crc: u32, bytes: &[u8]) -> u32 {
    let mut hasher = crc32fast::Hasher::new_with_initial(!crc);
    hasher.update(bytes);
    !hasher.finalize()
}

fn masked(captured: &Captured) -> MaskedHeaders {
    let bth = captured.packet.first_chunk().unwrap();
    match captured.ip[0] >> 4 {
        4 => MaskedHeaders::ipv4(&captured.ip, &captured.udp, bth),
        _ => MaskedHeaders::ipv6(captured.ip[..].try_into().unwrap(), &captured.udp, bth),
    }
    .unwrap()
}

/// Between BTH and ICRC.
fn middle(captured: &Captured) -> &[u8] {
    &captured.packet[12..captured.packet.len() - 4]
}

// PROTOCOL rule 14.
#[test]
fn the_icrc_is_right_in_every_packet_but_flushes() {
    let mut wrong = BTreeMap::<&str, Vec<Opcode>>::new();
    for_each(|name, captured| {
        let packet = Packet::parse(&captured.packet).unwrap();
        let crc = crc32_le(masked(captured).crc(crc32_le), middle(captured));
        if finish(crc) != packet.icrc() {
            let name = FILES.iter().find(|file| file.0 == name).unwrap().0;
            let opcode = packet.headers().bth().opcode();
            wrong.entry(name).or_default().push(opcode);
        }
    });
    assert_eq!(
        wrong,
        BTreeMap::from([
            ("rxe-7.2.12-v4.pcap", vec![Opcode::RC_FLUSH]),
            ("rxe-7.2.12-v6.pcap", vec![Opcode::RC_FLUSH]),
        ])
    );
}

// PROTOCOL requirement 20.
#[test]
fn the_icrc_of_captured_flushes_covers_their_headers_twice() {
    let mut flushes = 0;
    for_each(|_, captured| {
        let packet = Packet::parse(&captured.packet).unwrap();
        if packet.headers().bth().opcode() != Opcode::RC_FLUSH {
            return;
        }
        flushes += 1;
        let crc = crc32_le(masked(captured).crc(crc32_le), middle(captured));
        let all = &captured.packet[..captured.packet.len() - 4];
        assert_eq!(all.len(), packet.headers().payload_offset());
        assert_eq!(finish(crc32_le(crc, all)), packet.icrc());
        assert_ne!(finish(crc), packet.icrc());
    });
    assert_eq!(flushes, 2);
}

// PROTOCOL rule 14: whatever a router does, the ICRC stays; whatever else changes, it does not.
#[test]
fn every_other_bit_of_a_packet_is_covered() {
    let captured = capture::read("rxe-7.2.12-v4.pcap");
    let captured = captured
        .iter()
        .find(|captured| captured.packet[0] == Opcode::RC_WRITE_ONLY_WITH_IMM.0)
        .unwrap();
    let sent = [&captured.ip[..], &captured.udp, &captured.packet].concat();
    let free = [1, 8, 10, 11, 26, 27, 32];
    let fixed = [0]; // Version and length decide how the packet is read.
    let icrc_at = sent.len() - 4;
    for bit in 0..icrc_at * 8 {
        let at = bit / 8;
        if fixed.contains(&at) {
            continue;
        }
        let mut changed = sent.clone();
        changed[at] ^= 1 << (bit % 8);
        let (ip, rest) = changed.split_at(20);
        let (udp, rest) = rest.split_first_chunk().unwrap();
        let bth = rest.first_chunk().unwrap();
        let masked = MaskedHeaders::ipv4(ip, udp, bth).unwrap();
        let crc = crc32_le(masked.crc(crc32_le), &rest[12..rest.len() - 4]);
        let same = finish(crc) == sent[icrc_at..];
        assert_eq!(same, free.contains(&at), "byte {at}");
    }
}

#[test]
fn every_header_is_written_as_it_was_captured() {
    for_each(|name, captured| {
        let packet = Packet::parse(&captured.packet).unwrap();
        let headers = packet.headers();
        let spec = HeaderSpec {
            kind: *headers.kind(),
            dest_qp: headers.dest_qp(),
            psn: headers.psn(),
            pkey: headers.bth().pkey(),
            solicited: headers.solicited(),
            ack_request: headers.ack_request(),
            migrated: headers.bth().migrated(),
        };
        let built = HeaderBuf::new(&spec, headers.payload_len());
        let context = format!("{name} {}: {headers:?}", captured.number);
        assert_eq!(
            built.as_bytes(),
            &captured.packet[..headers.payload_offset()],
            "{context}"
        );
        assert_eq!(built.packet_len(), captured.packet.len(), "{context}");
        assert_eq!(built.payload_len(), packet.payload().len(), "{context}");
    });
}

// PROTOCOL rule 11.
#[test]
fn every_payload_obeys_its_opcode() {
    for_each(|name, captured| {
        let packet = Packet::parse(&captured.packet).unwrap();
        assert!(
            packet.headers().obeys(PathMtu::Mtu1024),
            "{name} {}: {:?}",
            captured.number,
            packet.headers()
        );
    });
}

#[test]
fn every_opcode_but_the_notification_of_congestion_is_captured() {
    let mut seen = [false; 256];
    for_each(|_, captured| seen[usize::from(captured.packet[0])] = true);
    for row in opcode::TABLE {
        assert_eq!(
            seen[usize::from(row.opcode.0)],
            row.opcode != Opcode::CNP,
            "{}",
            row.name
        );
    }
}

/// A notification as a ConnectX-4 Lx sends it, published with the tests of scapy.
#[test]
fn a_notification_of_congestion_is_that_of_an_adapter() {
    const IP: [u8; 20] = [
        0x45, 0xc2, 0x00, 0x3c, 0x71, 0x8c, 0x40, 0x00, 0x40, 0x11, 0x91, 0x61, 0x0a, 0x00, 0x11,
        0x01, 0x0a, 0x00, 0x12, 0x01,
    ];
    const UDP: [u8; 8] = [0x00, 0x00, 0x12, 0xb7, 0x00, 0x28, 0x00, 0x00];
    const BTH: [u8; 12] = [0x81, 0x00, 0xff, 0xff, 0x40, 0x00, 0x01, 0x18, 0, 0, 0, 0];
    const ICRC: [u8; 4] = [0x82, 0xfd, 0x00, 0x2a];

    let spec = HeaderSpec {
        migrated: false,
        ..HeaderSpec::new(Kind::Cnp, Qpn::truncate(0x118), Psn::truncate(0))
    };
    let built = HeaderBuf::new(&spec, 0);
    let (bth, rest) = built.as_bytes().split_first_chunk().unwrap();
    assert_eq!((bth, rest), (&BTH, &[0; 16][..]));
    let masked = MaskedHeaders::ipv4(&IP, &UDP, bth).unwrap();
    assert_eq!(finish(crc32_le(masked.crc(crc32_le), rest)), ICRC);
}
