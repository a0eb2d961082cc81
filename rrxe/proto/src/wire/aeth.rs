// SPDX-License-Identifier: GPL-2.0

//! Acknowledge extended transport header: how far the responder is, and what it thinks of it.

use core::fmt;

use zerocopy_derive::{
    FromBytes,
    Immutable,
    IntoBytes,
    KnownLayout,
    Unaligned, //
};

use crate::{
    psn::Msn,
    status::NakCode,
    timers::RnrTimer,
    wire::bth::{
        from_be24,
        to_be24, //
    }, //
};

/// Acknowledge extended transport header, 4 bytes.
#[derive(Clone, Copy, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub struct Aeth {
    syndrome: u8,
    msn: [u8; 3],
}

impl Aeth {
    /// The header that tells `syndrome` after `msn` messages.
    pub const fn new(syndrome: Syndrome, msn: Msn) -> Self {
        Self {
            syndrome: syndrome.encode(),
            msn: to_be24(msn.get()),
        }
    }

    /// What the responder tells.
    pub const fn syndrome(&self) -> Syndrome {
        Syndrome::decode(self.syndrome)
    }

    /// Messages the responder has completed.
    pub const fn msn(&self) -> Msn {
        Msn::truncate(from_be24(self.msn))
    }
}

impl fmt::Debug for Aeth {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Aeth")
            .field("syndrome", &self.syndrome())
            .field("msn", &self.msn())
            .finish()
    }
}

/// What a responder says of the packets so far.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Syndrome {
    /// All is well.
    Ack(Credits),
    /// No receive work request is posted: try again after that time.
    RnrNak(RnrTimer),
    /// A request is refused.
    Nak(NakCode),
    /// Bits that mean nothing. Can arrive, cannot be made.
    Reserved(ReservedSyndrome),
}

impl Syndrome {
    /// An acknowledgement that says nothing of credits.
    pub const ACK: Self = Self::Ack(Credits::UNLIMITED);

    const fn decode(bits: u8) -> Self {
        match (bits & TYPE, bits & VALUE) {
            (TYPE_ACK, credits) => Self::Ack(Credits(credits)),
            (TYPE_RNR, timer) => Self::RnrNak(RnrTimer::truncate(timer)),
            (TYPE_NAK, code) => match NakCode::new(code) {
                Some(code) => Self::Nak(code),
                None => Self::Reserved(ReservedSyndrome(bits)),
            },
            _ => Self::Reserved(ReservedSyndrome(bits)),
        }
    }

    const fn encode(self) -> u8 {
        match self {
            Self::Ack(credits) => TYPE_ACK | credits.0,
            Self::RnrNak(timer) => TYPE_RNR | timer.code(),
            Self::Nak(code) => TYPE_NAK | code.code(),
            Self::Reserved(ReservedSyndrome(bits)) => bits,
        }
    }
}

/// A syndrome that means nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ReservedSyndrome(u8);

/// Code of the number of receive work requests a responder has to spare: 5 bits.
///
/// # Invariants
///
/// The code is below 32.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Credits(u8);

impl Credits {
    /// The responder does not count. It must not where receives come from a shared queue.
    pub const UNLIMITED: Self = Self(VALUE);

    /// The greatest code for at most `receives` work requests.
    pub fn at_most(receives: u32) -> Self {
        let above = CREDITS.partition_point(|&count| u32::from(count) <= receives);
        let code = u8::try_from(above).unwrap_or(0).saturating_sub(1);
        Self(code & VALUE)
    }

    /// The number of work requests, or `None` if the responder does not count.
    pub fn count(self) -> Option<u32> {
        CREDITS
            .get(usize::from(self.0))
            .map(|&count| u32::from(count))
    }
}

const TYPE: u8 = 0xe0;
const TYPE_ACK: u8 = 0x00;
const TYPE_RNR: u8 = 0x20;
const TYPE_NAK: u8 = 0x60;
const VALUE: u8 = 0x1f;

/// Credit counts by code: powers of two, and what is halfway between them.
#[rustfmt::skip]
const CREDITS: [u16; 31] = [
    0, 1, 2, 3, 4, 6, 8, 12,
    16, 24, 32, 48, 64, 96, 128, 192,
    256, 384, 512, 768, 1024, 1536, 2048, 3072,
    4096, 6144, 8192, 12288, 16384, 24576, 32768,
];

#[cfg(test)]
mod tests {
    use super::*;

    // PROTOCOL rule 5.
    #[test]
    fn syndrome_types() {
        assert_eq!(Syndrome::decode(0x1f), Syndrome::ACK);
        assert_eq!(Syndrome::decode(0x05), Syndrome::Ack(Credits(5)));
        assert_eq!(
            Syndrome::decode(0x36),
            Syndrome::RnrNak(RnrTimer::truncate(22))
        );
        assert_eq!(Syndrome::decode(0x60), Syndrome::Nak(NakCode::Sequence));
        assert_eq!(Syndrome::decode(0x62), Syndrome::Nak(NakCode::RemoteAccess));
    }

    // PROTOCOL requirement 6.
    #[test]
    fn a_syndrome_without_meaning_is_never_an_ack() {
        for bits in (0x40..=0x5f).chain(0x65..=0xff) {
            assert_eq!(
                Syndrome::decode(bits),
                Syndrome::Reserved(ReservedSyndrome(bits))
            );
        }
    }

    #[test]
    fn every_syndrome_is_written_as_it_was_read() {
        for bits in 0..=255 {
            assert_eq!(Syndrome::decode(bits).encode(), bits);
        }
    }

    #[test]
    fn credits_round_down() {
        assert_eq!(Credits::at_most(0).count(), Some(0));
        assert_eq!(Credits::at_most(5).count(), Some(4));
        assert_eq!(Credits::at_most(100).count(), Some(96));
        assert_eq!(Credits::at_most(u32::MAX).count(), Some(32768));
        assert_eq!(Credits::UNLIMITED.count(), None);
        for code in 0..31 {
            let credits = Credits(code);
            assert_eq!(Credits::at_most(credits.count().unwrap()), credits);
        }
    }
}
