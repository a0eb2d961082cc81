// SPDX-License-Identifier: GPL-2.0

//! Any bytes as a packet.

use rrxe_proto::wire::{HeaderBuf, HeaderSpec, Headers, Packet, ICRC_LEN};

/// Reads `data` as a packet, and writes what was read.
pub fn run(data: &[u8]) {
    let Ok(packet) = Packet::parse(data) else {
        return;
    };
    let headers = packet.headers();
    let all = headers.payload_offset() + packet.payload().len() + headers.pad() + ICRC_LEN;
    assert_eq!(all, data.len());
    assert_eq!(packet.payload().len(), headers.payload_len() as usize);

    let written = HeaderBuf::new(&spec(headers), headers.payload_len());
    let Ok(again) = Headers::parse(written.as_bytes(), written.packet_len()) else {
        panic!("{headers:?} is written as {written:?}, which is no packet");
    };
    assert_eq!(spec(&again), spec(headers));
    if headers.payload_len() == written.payload_len() as u32 {
        assert_eq!(written.packet_len(), data.len());
    }
}

/// All that `headers` tell.
fn spec(headers: &Headers) -> HeaderSpec {
    let bth = headers.bth();
    HeaderSpec {
        pkey: bth.pkey(),
        solicited: headers.solicited(),
        ack_request: headers.ack_request(),
        migrated: bth.migrated(),
        ..HeaderSpec::new(*headers.kind(), headers.dest_qp(), headers.psn())
    }
}
