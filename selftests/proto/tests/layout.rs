// SPDX-License-Identifier: GPL-2.0

//! Where each field lies, by packets whose bytes are written down.

use rrxe_proto::{
    key::{
        Imm,
        Key,
        Pkey,
        Qkey, //
    },
    psn::{
        Msn,
        Psn, //
    },
    qpn::Qpn,
    status::NakCode,
    timers::RnrTimer,
    wire::{
        Aeth,
        AtomicAckEth,
        AtomicEth,
        Deth,
        Feth,
        HeaderBuf,
        HeaderSpec,
        Headers,
        Kind,
        Placement,
        RcRequest,
        RcResponse,
        Reth,
        Selectivity,
        SendEnd,
        SendPart,
        Syndrome,
        WritePart, //
    },
};

/// What follows the opcode in a BTH to queue pair 0x123456 with PSN 0xabcdef.
const BTH: &str = "40 8123 00 123456 00 abcdef";

#[track_caller]
fn check(kind: Kind, opcode: &str, extensions: &str) {
    let hex: String = [opcode, BTH, extensions].concat().replace(' ', "");
    let bytes: Vec<u8> = (0..hex.len())
        .step_by(2)
        .map(|at| u8::from_str_radix(&hex[at..at + 2], 16).unwrap())
        .collect();
    let spec = HeaderSpec {
        pkey: Pkey(0x8123),
        ..HeaderSpec::new(kind, Qpn::truncate(0x12_3456), Psn::truncate(0xab_cdef))
    };
    let built = HeaderBuf::new(&spec, 0);
    assert_eq!(built.as_bytes(), bytes);
    let headers = Headers::parse(&bytes, built.packet_len()).unwrap();
    assert_eq!(*headers.kind(), kind);
    assert_eq!(headers.dest_qp(), spec.dest_qp);
    assert_eq!(headers.psn(), spec.psn);
    assert_eq!(headers.bth().pkey(), spec.pkey);
}

fn request(opcode: &str, request: RcRequest, extensions: &str) {
    check(Kind::RcRequest(request), opcode, extensions);
}

fn ack(syndrome: Syndrome) -> Aeth {
    Aeth::new(syndrome, Msn::truncate(0x01_0203))
}

const RETH: Reth = Reth::new(0x1122_3344_5566_7788, Key(0x99aa_bbcc), 0xddee_ff00);

#[test]
fn bth_alone() {
    request("00", RcRequest::Send(SendPart::First), "");
}

#[test]
fn reth() {
    request(
        "0c",
        RcRequest::Read(RETH),
        "1122334455667788 99aabbcc ddeeff00",
    );
}

#[test]
fn reth_and_immediate() {
    request(
        "0b",
        RcRequest::Write(WritePart::Only(RETH, Some(Imm([1, 2, 3, 4])))),
        "1122334455667788 99aabbcc ddeeff00 01020304",
    );
}

#[test]
fn ieth() {
    request(
        "17",
        RcRequest::Send(SendPart::Only(SendEnd::Invalidate(Key(0x0102_0304)))),
        "01020304",
    );
}

#[test]
fn compare_swap() {
    let atomic = AtomicEth::compare_swap(0x1122_3344_5566_7788, Key(0x99aa_bbcc), 1, 2);
    request(
        "13",
        RcRequest::CompareSwap(atomic),
        "1122334455667788 99aabbcc 0000000000000002 0000000000000001",
    );
    assert_eq!((atomic.compare(), atomic.swap_or_add()), (1, 2));
}

#[test]
fn fetch_add() {
    let atomic = AtomicEth::fetch_add(0x1122_3344_5566_7788, Key(0x99aa_bbcc), 3);
    request(
        "14",
        RcRequest::FetchAdd(atomic),
        "1122334455667788 99aabbcc 0000000000000003 0000000000000000",
    );
}

#[test]
fn feth_comes_before_reth() {
    let feth = Feth::new(Placement::GLOBAL, Selectivity::Region);
    request(
        "1c",
        RcRequest::Flush(feth, RETH),
        "00000011 1122334455667788 99aabbcc ddeeff00",
    );
}

#[test]
fn aeth() {
    for (syndrome, bytes) in [
        (Syndrome::ACK, "1f 010203"),
        (Syndrome::RnrNak(RnrTimer::truncate(22)), "36 010203"),
        (Syndrome::Nak(NakCode::InvalidRequest), "61 010203"),
    ] {
        let response = RcResponse::Acknowledge(ack(syndrome));
        check(Kind::RcResponse(response), "11", bytes);
    }
}

#[test]
fn atomic_acknowledge() {
    let original = AtomicAckEth::new(0x1122_3344_5566_7788);
    check(
        Kind::RcResponse(RcResponse::AtomicAcknowledge(ack(Syndrome::ACK), original)),
        "12",
        "1f 010203 1122334455667788",
    );
}

#[test]
fn deth_and_immediate() {
    let deth = Deth::new(Qkey(0x1122_3344), Qpn::truncate(0x55_6677));
    check(
        Kind::Ud(deth, Some(Imm([1, 2, 3, 4]))),
        "65",
        "11223344 00 556677 01020304",
    );
}
