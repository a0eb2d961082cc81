// SPDX-License-Identifier: GPL-2.0

//! Packets made of an input.

use core::ops::Range;

use arbitrary::{Arbitrary, Result, Unstructured};
use rrxe_proto::{
    opcode::{Opcode, MAX_HEADER_LEN},
    psn::Psn,
    wire::{Headers, ICRC_LEN},
};

/// Where the PSN is in a base transport header.
const PSN: Range<usize> = 9..12;

/// Most bytes of a packet's payload, more than the largest path MTU has.
const MAX_PAYLOAD: usize = 5000;

/// The headers of a packet with one of `opcodes` whose PSN is `due`, or near it. `None` if it makes
/// no packet.
pub fn headers(input: &mut Unstructured<'_>, opcodes: &[u8], due: Psn) -> Result<Option<Headers>> {
    let mut head = [0; MAX_HEADER_LEN];
    head[0] = *input.choose(opcodes)?;
    // SE, MigReq and pad count; the version must be that of today for anything else to count.
    head[1] = u8::arbitrary(input)? & 0xf0;
    head[2..4].copy_from_slice(&[0xff, 0xff]);
    head[8] = u8::arbitrary(input)?;
    head[PSN].copy_from_slice(&near(input, due)?.get().to_be_bytes()[1..]);
    let rest = input.arbitrary_len::<u8>()?.min(MAX_HEADER_LEN - PSN.end);
    input.fill_buffer(&mut head[PSN.end..PSN.end + rest])?;
    let payload = match u8::arbitrary(input)? {
        // Most packets are full ones.
        0..=127 => 256,
        len @ 128..=254 => usize::from(len - 128),
        255 => input.int_in_range(0..=MAX_PAYLOAD)?,
    };
    let Some(info) = Opcode(head[0]).info() else {
        return Ok(None);
    };
    let pad = payload.wrapping_neg() & 3;
    head[1] = head[1] & 0xcf | (pad as u8) << 4;
    let total = info.header_len() + payload + pad + ICRC_LEN;
    Ok(Headers::parse(&head, total).ok())
}

/// Mostly `due`, or one shortly before or after, or any.
fn near(input: &mut Unstructured<'_>, due: Psn) -> Result<Psn> {
    Ok(match u8::arbitrary(input)? {
        0..=199 => due,
        delta @ 200..=227 => due.wrapping_sub(u32::from(delta - 199)),
        delta @ 228..=247 => due.wrapping_add(u32::from(delta - 227)),
        _ => Psn::truncate(u32::arbitrary(input)?),
    })
}
