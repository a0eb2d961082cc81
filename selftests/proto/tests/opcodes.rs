// SPDX-License-Identifier: GPL-2.0

//! The opcode table, against lengths and rules written down by hand.

use rrxe_proto::{
    opcode::{
        Extension,
        Opcode,
        OpcodeInfo,
        Position,
        Suffix,
        Transport,
        MAX_HEADER_LEN,
        TABLE, //
    },
    PathMtu, //
};

/// Opcode, and bytes of BTH and extension headers: the sums of 12 for the BTH, 16 RETH, 4 AETH,
/// 8 DETH, 28 AtomicETH, 8 AtomicAckETH, 4 ImmDt, 4 IETH, 4 FETH, 16 reserved in a CNP.
#[rustfmt::skip]
const LENGTHS: &[(u8, usize)] = &[
    (0x00, 12), (0x01, 12), (0x02, 12), (0x03, 16), (0x04, 12), (0x05, 16),
    (0x06, 28), (0x07, 12), (0x08, 12), (0x09, 16), (0x0a, 28), (0x0b, 32),
    (0x0c, 28), (0x0d, 16), (0x0e, 12), (0x0f, 16), (0x10, 16), (0x11, 16),
    (0x12, 24), (0x13, 40), (0x14, 40), (0x16, 16), (0x17, 16), (0x1c, 32),
    (0x1d, 28),
    (0x20, 12), (0x21, 12), (0x22, 12), (0x23, 16), (0x24, 12), (0x25, 16),
    (0x26, 28), (0x27, 12), (0x28, 12), (0x29, 16), (0x2a, 28), (0x2b, 32),
    (0x64, 20), (0x65, 24),
    (0x81, 28),
];

fn info(opcode: Opcode) -> &'static OpcodeInfo {
    opcode.info().unwrap()
}

fn names(filter: impl Fn(&OpcodeInfo) -> bool) -> Vec<&'static str> {
    TABLE
        .iter()
        .filter(|row| filter(row))
        .map(|row| row.name)
        .collect()
}

#[test]
fn lengths_follow_from_the_extension_headers() {
    for code in 0..=255 {
        let expected = LENGTHS.iter().find(|row| row.0 == code).map(|row| row.1);
        let derived = Opcode(code).info().map(OpcodeInfo::header_len);
        assert_eq!(derived, expected, "{code:#04x}");
    }
    assert_eq!(
        MAX_HEADER_LEN,
        LENGTHS.iter().map(|row| row.1).max().unwrap()
    );
}

#[test]
fn extension_headers_are_listed_in_the_order_of_the_wire() {
    use Extension::{
        Aeth,
        AtomicAckEth,
        Deth,
        Feth,
        ImmDt,
        Reth, //
    };

    let several: Vec<_> = TABLE
        .iter()
        .filter(|row| row.extensions.len() > 1)
        .map(|row| (row.opcode, row.extensions))
        .collect();
    assert_eq!(
        several,
        [
            (Opcode::RC_WRITE_ONLY_WITH_IMM, &[Reth, ImmDt][..]),
            (Opcode::RC_ATOMIC_ACKNOWLEDGE, &[Aeth, AtomicAckEth]),
            (Opcode::RC_FLUSH, &[Feth, Reth]),
            (Opcode::UC_WRITE_ONLY_WITH_IMM, &[Reth, ImmDt]),
            (Opcode::UD_SEND_ONLY_WITH_IMM, &[Deth, ImmDt]),
        ]
    );
}

#[test]
fn the_top_bits_of_an_opcode_are_its_transport() {
    for row in TABLE {
        assert_eq!(row.opcode.transport(), Some(row.transport));
    }
}

// PROTOCOL requirement 27.
#[test]
fn an_unreliable_connection_invalidates_nothing() {
    assert!(
        names(|row| row.transport != Transport::Rc && row.suffix() == Suffix::Invalidate)
            .is_empty()
    );
}

// PROTOCOL requirement 13.
#[test]
fn reserved_opcodes_have_a_transport_but_no_row() {
    for code in [0x15, 0x18, 0x1b, 0x1e, 0x1f] {
        assert!(Opcode(code).info().is_none());
        assert_eq!(Opcode(code).transport(), Some(Transport::Rc));
    }
    assert!(Opcode(0x2c).info().is_none());
    // Reliable datagram and extended reliable connection.
    assert_eq!(Opcode(0x44).transport(), None);
    assert_eq!(Opcode(0xa4).transport(), None);
}

// PROTOCOL rule 11.
#[test]
fn payload_rules() {
    let mtu = PathMtu::Mtu1024;
    let admitted = |opcode| {
        (0..=mtu.bytes() as usize + 1)
            .filter(|&len| info(opcode).payload.admits(len, mtu))
            .collect::<Vec<_>>()
    };
    for row in TABLE {
        let expected = match (row.opcode, row.position) {
            (Opcode::RC_ATOMIC_WRITE, _) => vec![8],
            (
                Opcode::RC_READ_REQUEST
                | Opcode::RC_ACKNOWLEDGE
                | Opcode::RC_ATOMIC_ACKNOWLEDGE
                | Opcode::RC_COMPARE_SWAP
                | Opcode::RC_FETCH_ADD
                | Opcode::RC_FLUSH
                | Opcode::CNP,
                _,
            ) => vec![0],
            (_, Position::First | Position::Middle) => vec![1024],
            (_, Position::Last) => (1..=1024).collect(),
            (_, Position::Only) => (0..=1024).collect(),
        };
        assert_eq!(admitted(row.opcode), expected, "{}", row.name);
    }
}

// PROTOCOL rule 10.
#[test]
fn se_means_something_where_a_receive_completes() {
    assert_eq!(
        names(OpcodeInfo::completes_receive),
        [
            "RC_SEND_LAST",
            "RC_SEND_LAST_WITH_IMM",
            "RC_SEND_ONLY",
            "RC_SEND_ONLY_WITH_IMM",
            "RC_WRITE_LAST_WITH_IMM",
            "RC_WRITE_ONLY_WITH_IMM",
            "RC_SEND_LAST_WITH_INV",
            "RC_SEND_ONLY_WITH_INV",
            "UC_SEND_LAST",
            "UC_SEND_LAST_WITH_IMM",
            "UC_SEND_ONLY",
            "UC_SEND_ONLY_WITH_IMM",
            "UC_WRITE_LAST_WITH_IMM",
            "UC_WRITE_ONLY_WITH_IMM",
            "UD_SEND_ONLY",
            "UD_SEND_ONLY_WITH_IMM",
        ]
    );
}

#[test]
fn responses() {
    assert_eq!(
        names(OpcodeInfo::is_response),
        [
            "RC_READ_RESPONSE_FIRST",
            "RC_READ_RESPONSE_MIDDLE",
            "RC_READ_RESPONSE_LAST",
            "RC_READ_RESPONSE_ONLY",
            "RC_ACKNOWLEDGE",
            "RC_ATOMIC_ACKNOWLEDGE",
        ]
    );
}

#[test]
fn a_position_is_found_by_index_and_count() {
    assert_eq!(Position::of(0, 1), Position::Only);
    assert_eq!(Position::of(0, 2), Position::First);
    assert_eq!(Position::of(1, 2), Position::Last);
    assert_eq!(Position::of(1, 3), Position::Middle);
    assert_eq!(Position::of(u32::MAX, u32::MAX), Position::Last);
}
