// SPDX-License-Identifier: GPL-2.0

//! Packets of the captures in `selftests/golden`.

use std::{
    fs,
    path::Path, //
};

/// A RoCEv2 packet as captured.
pub struct Captured {
    /// Its number among the RoCEv2 packets of its file, from 1.
    pub number: usize,
    /// The IP header, options included.
    pub ip: Vec<u8>,
    /// The UDP header.
    pub udp: [u8; 8],
    /// From BTH to ICRC.
    pub packet: Vec<u8>,
}

/// The RoCEv2 packets of a pcap file of Ethernet frames, little-endian.
///
/// # Panics
///
/// If the file cannot be read or is no such file.
pub fn read(name: &str) -> Vec<Captured> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../golden")
        .join(name);
    let file = fs::read(path).unwrap();
    assert_eq!(file[..4], [0xd4, 0xc3, 0xb2, 0xa1]);
    let mut records = &file[24..];
    let mut captured = Vec::new();
    while !records.is_empty() {
        let len = u32::from_le_bytes(records[8..12].try_into().unwrap()) as usize;
        let (frame, rest) = records[16..].split_at(len);
        records = rest;
        captured.extend(roce(frame, captured.len() + 1));
    }
    captured
}

fn roce(frame: &[u8], number: usize) -> Option<Captured> {
    const ROCE: [u8; 2] = 4791u16.to_be_bytes();

    let field = |at: usize| usize::from(u16::from_be_bytes([frame[at], frame[at + 1]]));
    let (header, total) = match field(12) {
        0x0800 => (usize::from(frame[14] & 0x0f) * 4, field(16)),
        0x86dd => (40, 40 + field(18)),
        _ => return None,
    };
    // A short frame is filled up by the link.
    let (ip, udp) = frame[14..14 + total].split_at(header);
    if udp[2..4] != ROCE {
        return None;
    }
    let (udp, packet) = udp.split_first_chunk().unwrap();
    Some(Captured {
        number,
        ip: ip.to_vec(),
        udp: *udp,
        packet: packet.to_vec(),
    })
}
