// SPDX-License-Identifier: GPL-2.0

//! Reader and writer of headers, against each other and against arbitrary bytes.

use proptest::{
    collection::vec,
    option,
    prelude::*, //
};
use rrxe_proto::{
    access::Access,
    key::{
        Imm,
        Key,
        Pkey,
        Qkey, //
    },
    opcode::{
        Opcode,
        PayloadRule,
        Position,
        MAX_HEADER_LEN,
        TABLE, //
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
        Bth,
        Credits,
        Deth,
        Feth,
        HeaderBuf,
        HeaderSpec,
        Headers,
        Kind,
        Packet,
        ParseError,
        Placement,
        RcRequest,
        RcResponse,
        ReadResponsePart,
        Reth,
        Selectivity,
        SendEnd,
        SendPart,
        Syndrome,
        UcRequest,
        WritePart,
        ICRC_LEN, //
    }, //
};

fn imm() -> impl Strategy<Value = Imm> {
    any::<[u8; 4]>().prop_map(Imm)
}

fn reth() -> impl Strategy<Value = Reth> {
    any::<(u64, u32, u32)>().prop_map(|(va, rkey, len)| Reth::new(va, Key(rkey), len))
}

fn atomic() -> impl Strategy<Value = AtomicEth> {
    any::<(u64, u32, u64, u64)>()
        .prop_map(|(va, rkey, compare, swap)| AtomicEth::compare_swap(va, Key(rkey), compare, swap))
}

fn aeth() -> impl Strategy<Value = Aeth> {
    let syndrome = prop_oneof![
        Just(Syndrome::ACK),
        any::<u32>().prop_map(|count| Syndrome::Ack(Credits::at_most(count))),
        any::<u8>().prop_map(|code| Syndrome::RnrNak(RnrTimer::truncate(code))),
        (0..5u8).prop_map(|code| Syndrome::Nak(NakCode::new(code).unwrap())),
    ];
    (syndrome, any::<u32>()).prop_map(|(syndrome, msn)| Aeth::new(syndrome, Msn::truncate(msn)))
}

fn position() -> impl Strategy<Value = Position> {
    prop_oneof![
        Just(Position::First),
        Just(Position::Middle),
        Just(Position::Last),
        Just(Position::Only),
    ]
}

fn send<E: Copy + std::fmt::Debug>(
    end: impl Strategy<Value = E>,
) -> impl Strategy<Value = SendPart<E>> {
    (position(), end).prop_map(|(position, end)| SendPart::new(position, end))
}

fn write() -> impl Strategy<Value = WritePart> {
    (position(), reth(), option::of(imm()))
        .prop_map(|(position, reth, imm)| WritePart::new(position, reth, imm))
}

fn feth() -> impl Strategy<Value = Feth> {
    (1..4u32, any::<bool>()).prop_map(|(placement, region)| {
        let selectivity = if region {
            Selectivity::Region
        } else {
            Selectivity::Range
        };
        Feth::new(Placement::from_bits(placement).unwrap(), selectivity)
    })
}

fn kind() -> impl Strategy<Value = Kind> {
    let end = prop_oneof![
        Just(SendEnd::Plain),
        imm().prop_map(SendEnd::Imm),
        any::<u32>().prop_map(|key| SendEnd::Invalidate(Key(key))),
    ];
    let request = prop_oneof![
        send(end).prop_map(RcRequest::Send),
        write().prop_map(RcRequest::Write),
        reth().prop_map(RcRequest::Read),
        atomic().prop_map(RcRequest::CompareSwap),
        atomic().prop_map(RcRequest::FetchAdd),
        (feth(), reth()).prop_map(|(feth, reth)| RcRequest::Flush(feth, reth)),
        reth().prop_map(RcRequest::AtomicWrite),
    ];
    let response = prop_oneof![
        (position(), aeth())
            .prop_map(|(position, aeth)| RcResponse::Read(ReadResponsePart::new(position, aeth))),
        aeth().prop_map(RcResponse::Acknowledge),
        (aeth(), any::<u64>()).prop_map(|(aeth, original)| {
            RcResponse::AtomicAcknowledge(aeth, AtomicAckEth::new(original))
        }),
    ];
    let uc = prop_oneof![
        send(option::of(imm())).prop_map(UcRequest::Send),
        write().prop_map(UcRequest::Write),
    ];
    prop_oneof![
        request.prop_map(Kind::RcRequest),
        response.prop_map(Kind::RcResponse),
        uc.prop_map(Kind::Uc),
        (any::<(u32, u32)>(), option::of(imm())).prop_map(|((qkey, qpn), imm)| {
            Kind::Ud(Deth::new(Qkey(qkey), Qpn::truncate(qpn)), imm)
        }),
        Just(Kind::Cnp),
    ]
}

fn spec() -> impl Strategy<Value = HeaderSpec> {
    (kind(), any::<(u32, u32, u16, bool, bool, bool)>()).prop_map(
        |(kind, (qpn, psn, pkey, solicited, ack_request, migrated))| HeaderSpec {
            kind,
            dest_qp: Qpn::truncate(qpn),
            psn: Psn::truncate(psn),
            pkey: Pkey(pkey),
            solicited,
            ack_request,
            migrated,
        },
    )
}

/// The packet of a header, with a payload that counts, and with a recognisable ICRC.
fn packet(headers: &HeaderBuf) -> Vec<u8> {
    let mut packet = headers.as_bytes().to_vec();
    packet.extend((0..headers.payload_len()).map(|n| n as u8));
    packet.extend(vec![0; headers.pad()]);
    packet.extend(*b"ICRC");
    packet
}

fn sample(kind: Kind) -> HeaderSpec {
    HeaderSpec::new(kind, Qpn::truncate(0x11), Psn::truncate(0x22))
}

const SEND_ONLY: Kind = Kind::RcRequest(RcRequest::Send(SendPart::Only(SendEnd::Plain)));

proptest! {
    #[test]
    fn what_is_written_is_read(spec in spec(), payload_len in 0..5000u32) {
        let built = HeaderBuf::new(&spec, payload_len);
        let bytes = packet(&built);
        let packet = Packet::parse(&bytes).unwrap();
        let headers = packet.headers();
        let info = headers.info();
        prop_assert_eq!(headers.kind(), &spec.kind);
        prop_assert_eq!(headers.bth().opcode(), spec.kind.opcode());
        prop_assert_eq!(headers.dest_qp(), spec.dest_qp);
        prop_assert_eq!(headers.psn(), spec.psn);
        prop_assert_eq!(headers.bth().pkey(), spec.pkey);
        prop_assert_eq!(headers.bth().migrated(), spec.migrated);
        prop_assert_eq!(headers.bth().version(), 0);
        prop_assert_eq!(headers.bth().fecn(), false);
        prop_assert_eq!(headers.bth().becn(), spec.kind == Kind::Cnp);
        prop_assert_eq!(headers.bth().solicited(), spec.solicited && info.completes_receive());
        prop_assert_eq!(headers.bth().ack_request(), spec.ack_request && info.may_request_ack());
        prop_assert_eq!(headers.payload_offset(), built.len());
        prop_assert_eq!(headers.payload_len() as usize, built.payload_len());
        prop_assert_eq!(headers.pad(), built.pad());
        prop_assert_eq!(bytes.len(), built.packet_len());
        prop_assert_eq!(bytes.len() % 4, 0);
        prop_assert_eq!(packet.icrc(), *b"ICRC");
        prop_assert!(packet.payload().iter().enumerate().all(|(n, &byte)| byte == n as u8));
    }

    #[test]
    fn a_head_is_enough_when_it_holds_the_headers(spec in spec(), payload_len in 0..5000u32) {
        let built = HeaderBuf::new(&spec, payload_len);
        let bytes = packet(&built);
        let whole = Headers::parse(&bytes, bytes.len()).unwrap();
        for shown in 0..=bytes.len().min(MAX_HEADER_LEN + 1) {
            let headers = Headers::parse(&bytes[..shown], bytes.len());
            if shown < built.len() {
                let needed = if shown < 12 { 12 } else { built.len() };
                prop_assert_eq!(headers.unwrap_err(), ParseError::HeadTooShort { needed });
            } else {
                let headers = headers.unwrap();
                prop_assert_eq!(headers.kind(), whole.kind());
                prop_assert_eq!(headers.payload_len(), whole.payload_len());
            }
        }
    }

    #[test]
    fn a_packet_cut_short_is_not_read_past_its_end(spec in spec(), payload_len in 0..64u32) {
        let built = HeaderBuf::new(&spec, payload_len);
        let bytes = packet(&built);
        for total in 0..bytes.len() {
            // What follows the packet may lie in the same buffer.
            let shown = Headers::parse(&bytes, total);
            let alone = Packet::parse(&bytes[..total]);
            match shown {
                Ok(headers) => {
                    prop_assert_eq!(total % 4, 0);
                    prop_assert_eq!(
                        headers.payload_offset() + headers.payload_len() as usize
                            + headers.pad() + ICRC_LEN,
                        total
                    );
                    prop_assert_eq!(*alone.unwrap().headers().kind(), *headers.kind());
                }
                Err(error) => {
                    prop_assert!(
                        matches!(error, ParseError::Truncated | ParseError::BadLength),
                        "{:?}", error
                    );
                    prop_assert_eq!(alone.unwrap_err(), error);
                }
            }
        }
    }

    #[test]
    fn arbitrary_bytes_are_a_packet_or_an_error(
        bytes in vec(any::<u8>(), 0..128),
        total: usize,
        slack in 0..256usize,
    ) {
        for total in [bytes.len(), slack, total] {
            if let Ok(headers) = Headers::parse(&bytes, total) {
                let sum = headers.payload_offset() + headers.payload_len() as usize
                    + headers.pad() + ICRC_LEN;
                prop_assert_eq!(sum, total);
            }
        }
    }

    #[test]
    fn arbitrary_bytes_behind_a_good_start_are_written_back(
        row in 0..TABLE.len(),
        flags in any::<u8>(),
        mut bytes in vec(any::<u8>(), 64..65),
    ) {
        bytes[0] = TABLE[row].opcode.0;
        bytes[1] = flags & 0xf0;
        let headers = Headers::parse(&bytes, bytes.len()).unwrap();
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
        prop_assert_eq!(built.len(), headers.payload_offset());
        prop_assert_eq!(built.as_bytes()[5..8].to_vec(), bytes[5..8].to_vec());
        prop_assert_eq!(built.as_bytes()[9..12].to_vec(), bytes[9..12].to_vec());
        let again = Headers::parse(built.as_bytes(), built.packet_len()).unwrap();
        prop_assert_eq!(again.kind(), headers.kind());
    }
}

#[test]
fn every_opcode_can_be_written_and_read() {
    for row in TABLE {
        let mut bytes = [0; MAX_HEADER_LEN + 8 + ICRC_LEN];
        bytes[0] = row.opcode.0;
        let headers = Headers::parse(&bytes, bytes.len()).unwrap();
        assert_eq!(headers.kind().opcode(), row.opcode, "{}", row.name);
        let built = HeaderBuf::new(&sample(*headers.kind()), 0);
        assert_eq!(built.len(), row.header_len(), "{}", row.name);
    }
}

// PROTOCOL rule 11.
#[test]
fn pad_fills_the_last_word() {
    for (len, pad) in [(0, 0), (1, 3), (2, 2), (3, 1), (4, 0), (1021, 3)] {
        let built = HeaderBuf::new(&sample(SEND_ONLY), len);
        assert_eq!(built.pad(), pad);
        assert_eq!(built.as_bytes()[1], 0x40 | (pad as u8) << 4);
    }
}

#[test]
fn a_packet_without_payload_cannot_be_given_any() {
    for row in TABLE {
        let mut bytes = [0; 64];
        bytes[0] = row.opcode.0;
        let kind = *Headers::parse(&bytes, 64).unwrap().kind();
        let built = HeaderBuf::new(&sample(kind), 100);
        let expected = match row.payload {
            PayloadRule::Empty => 0,
            PayloadRule::Exactly(len) => usize::from(len),
            _ => 100,
        };
        assert_eq!(built.payload_len(), expected, "{}", row.name);
    }
}

#[test]
fn a_packet_of_another_transport_version_is_refused() {
    let mut bytes = packet(&HeaderBuf::new(&sample(SEND_ONLY), 4));
    bytes[1] |= 1;
    assert_eq!(Packet::parse(&bytes).unwrap_err(), ParseError::Version(1));
}

#[test]
fn a_packet_of_no_whole_number_of_words_is_refused() {
    let bytes = packet(&HeaderBuf::new(&sample(SEND_ONLY), 4));
    for len in bytes.len() - 3..bytes.len() {
        assert_eq!(
            Packet::parse(&bytes[..len]).unwrap_err(),
            ParseError::BadLength
        );
    }
}

#[test]
fn pad_longer_than_what_follows_the_headers_is_refused() {
    let mut bytes = packet(&HeaderBuf::new(&sample(SEND_ONLY), 0));
    bytes[1] |= 0x10;
    assert_eq!(Packet::parse(&bytes).unwrap_err(), ParseError::Truncated);
}

// PROTOCOL requirement 13.
#[test]
fn an_unknown_opcode_comes_with_the_header_that_a_nak_needs() {
    let mut bytes = packet(&HeaderBuf::new(&sample(SEND_ONLY), 4));
    bytes[0] = 0x15;
    let Err(ParseError::UnknownOpcode(bth)) = Packet::parse(&bytes) else {
        panic!("it was accepted");
    };
    assert_eq!(bth.opcode(), Opcode(0x15));
    assert_eq!(bth.dest_qp(), Qpn::truncate(0x11));
    assert_eq!(bth.psn(), Psn::truncate(0x22));
}

// PROTOCOL rule 10.
#[test]
fn se_and_ackreq_are_dropped_where_they_mean_nothing() {
    let spec = |kind| HeaderSpec {
        solicited: true,
        ack_request: true,
        ..sample(kind)
    };
    let bits = |kind| {
        let built = HeaderBuf::new(&spec(kind), 0);
        (
            built.as_bytes()[1] & 0x80 != 0,
            built.as_bytes()[8] & 0x80 != 0,
        )
    };
    let request = |part| Kind::RcRequest(RcRequest::Send(part));
    let ack = Aeth::new(Syndrome::ACK, Msn::ZERO);
    assert_eq!(bits(request(SendPart::First)), (false, true));
    assert_eq!(bits(request(SendPart::Last(SendEnd::Plain))), (true, true));
    assert_eq!(
        bits(Kind::Uc(UcRequest::Send(SendPart::Only(None)))),
        (true, false)
    );
    assert_eq!(
        bits(Kind::RcResponse(RcResponse::Acknowledge(ack))),
        (false, false)
    );
}

#[test]
fn se_and_ackreq_are_not_believed_where_they_mean_nothing() {
    let said = |code: Opcode| {
        let mut bytes = [0; 64];
        bytes[0] = code.0;
        bytes[1] = 0x80;
        bytes[8] = 0x80;
        let headers = Headers::parse(&bytes, bytes.len()).unwrap();
        (headers.solicited(), headers.ack_request())
    };
    assert_eq!(said(Opcode::RC_SEND_ONLY), (true, true));
    assert_eq!(said(Opcode::RC_WRITE_ONLY), (false, true));
    assert_eq!(said(Opcode::RC_ACKNOWLEDGE), (false, false));
    assert_eq!(said(Opcode::UC_SEND_ONLY), (true, false));
    assert_eq!(said(Opcode::UD_SEND_ONLY), (true, false));
}

// PROTOCOL requirement 15.
#[test]
fn each_request_needs_its_right() {
    let reth = Reth::new(0, Key(0), 0);
    let atomic = AtomicEth::fetch_add(0, Key(0), 0);
    let feth = Feth::new(Placement::PERSISTENT, Selectivity::Range);
    for (request, access) in [
        (RcRequest::Send(SendPart::First), Access::NONE),
        (
            RcRequest::Write(WritePart::First(reth)),
            Access::REMOTE_WRITE,
        ),
        (RcRequest::AtomicWrite(reth), Access::REMOTE_WRITE),
        (RcRequest::Read(reth), Access::REMOTE_READ),
        (RcRequest::CompareSwap(atomic), Access::REMOTE_ATOMIC),
        (RcRequest::FetchAdd(atomic), Access::REMOTE_ATOMIC),
        (RcRequest::Flush(feth, reth), Access::FLUSH_PERSISTENT),
    ] {
        assert_eq!(request.access(), access, "{request:?}");
    }
}

// PROTOCOL rule 21.
#[test]
fn migreq_is_set_where_there_is_no_path_to_migrate_to() {
    let built = HeaderBuf::new(&sample(SEND_ONLY), 0);
    assert!(Headers::parse(built.as_bytes(), 16)
        .unwrap()
        .bth()
        .migrated());
}

#[test]
fn fecn_and_becn_are_bits_of_their_own() {
    let mut bytes = packet(&HeaderBuf::new(&sample(SEND_ONLY), 0));
    for (byte, fecn, becn) in [
        (0x3f, false, false),
        (0x40, false, true),
        (0x80, true, false),
    ] {
        bytes[4] = byte;
        let headers = Headers::parse(&bytes, bytes.len()).unwrap();
        let bth = headers.bth();
        assert_eq!((bth.fecn(), bth.becn()), (fecn, becn), "{byte:#x}");
    }
}

// PROTOCOL rule 15.
#[test]
fn a_notification_of_congestion_has_becn_and_sixteen_zeros() {
    let built = HeaderBuf::new(&sample(Kind::Cnp), 0);
    let mut expected = [0; 28];
    expected[..12].copy_from_slice(&[0x81, 0x40, 0xff, 0xff, 0x40, 0, 0, 0x11, 0, 0, 0, 0x22]);
    assert_eq!(built.as_bytes(), expected);
    assert_eq!(built.packet_len(), 32);
}

// PROTOCOL requirement 11.
#[test]
fn immediate_data_travels_as_posted() {
    let end = SendEnd::Imm(Imm([1, 2, 3, 4]));
    let kind = Kind::RcRequest(RcRequest::Send(SendPart::Only(end)));
    assert_eq!(
        HeaderBuf::new(&sample(kind), 0).as_bytes()[12..],
        [1, 2, 3, 4]
    );
}

#[test]
fn parsed_headers_fit_a_cache_line() {
    assert!(size_of::<Headers>() <= 64);
    assert_eq!(size_of::<Bth>(), 12);
}
