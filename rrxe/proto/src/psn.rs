// SPDX-License-Identifier: GPL-2.0

//! The two 24-bit sequence numbers of a reliable connection.

use core::fmt;

/// Number of bits in a sequence number.
const BITS: u32 = 24;

/// All ones in a sequence number.
const MASK: u32 = 0x00ff_ffff;

/// Packet sequence number: counts packets modulo 2^24.
///
/// There is no order on a circle, hence no `Ord`: ask [`since`](Self::since) or
/// [`against`](Self::against).
///
/// # Invariants
///
/// The value is below 2^24.
#[derive(Clone, Copy, Default, PartialEq, Eq, Hash)]
pub struct Psn(u32);

/// Where a packet's PSN stands relative to the one a receiver expects.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Arrival {
    /// The PSN that is due.
    Expected,
    /// One of the 2^23 PSNs before it: seen already.
    Duplicate,
    /// Past it: something in between has not arrived.
    Ahead,
}

impl Psn {
    /// The PSN 0.
    pub const ZERO: Self = Self(0);

    /// Takes `value`, or `None` if it needs more than 24 bits.
    pub const fn new(value: u32) -> Option<Self> {
        if value > MASK {
            return None;
        }
        Some(Self(value))
    }

    /// Takes the low 24 bits of `value`.
    pub const fn truncate(value: u32) -> Self {
        Self(value & MASK)
    }

    /// The value, below 2^24.
    pub const fn get(self) -> u32 {
        self.0
    }

    /// The PSN `packets` later.
    pub const fn wrapping_add(self, packets: u32) -> Self {
        Self::truncate(self.0.wrapping_add(packets))
    }

    /// The PSN `packets` earlier.
    pub const fn wrapping_sub(self, packets: u32) -> Self {
        Self::truncate(self.0.wrapping_sub(packets))
    }

    /// The PSN that follows.
    pub const fn next(self) -> Self {
        self.wrapping_add(1)
    }

    /// The PSN that precedes.
    pub const fn prev(self) -> Self {
        self.wrapping_sub(1)
    }

    /// Signed distance from `other` to `self` in packets, in -2^23 ..= 2^23 - 1.
    pub const fn since(self, other: Self) -> i32 {
        distance(self.0, other.0)
    }

    /// Distance from `start` to `self` going forward only, in packets, in 0 ..= 2^24 - 1.
    pub const fn offset_from(self, start: Self) -> u32 {
        self.0.wrapping_sub(start.0) & MASK
    }

    /// Whether `self` comes before `other`.
    pub const fn is_before(self, other: Self) -> bool {
        self.since(other) < 0
    }

    /// Whether `self` comes after `other`.
    pub const fn is_after(self, other: Self) -> bool {
        self.since(other) > 0
    }

    /// Whether `self` is one of the `count` PSNs that begin with `start`.
    pub const fn is_within(self, start: Self, count: u32) -> bool {
        self.offset_from(start) < count
    }

    /// The one of `self` and `other` that is further from `start`, going forward only.
    #[must_use]
    pub const fn max_from(self, start: Self, other: Self) -> Self {
        if other.offset_from(start) > self.offset_from(start) {
            return other;
        }
        self
    }

    /// Sorts an arriving PSN by the one that is `expected`.
    pub const fn against(self, expected: Self) -> Arrival {
        match self.since(expected) {
            0 => Arrival::Expected,
            i32::MIN..=-1 => Arrival::Duplicate,
            1.. => Arrival::Ahead,
        }
    }
}

impl fmt::Debug for Psn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Psn({:#08x})", self.0)
    }
}

/// Message sequence number: counts messages a responder has completed, modulo 2^24.
///
/// # Invariants
///
/// The value is below 2^24.
#[derive(Clone, Copy, Default, PartialEq, Eq, Hash)]
pub struct Msn(u32);

impl Msn {
    /// The MSN 0.
    pub const ZERO: Self = Self(0);

    /// Takes the low 24 bits of `value`.
    pub const fn truncate(value: u32) -> Self {
        Self(value & MASK)
    }

    /// The value, below 2^24.
    pub const fn get(self) -> u32 {
        self.0
    }

    /// The MSN `messages` later.
    pub const fn wrapping_add(self, messages: u32) -> Self {
        Self::truncate(self.0.wrapping_add(messages))
    }

    /// The MSN that follows.
    pub const fn next(self) -> Self {
        self.wrapping_add(1)
    }
}

impl fmt::Debug for Msn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Msn({:#08x})", self.0)
    }
}

/// Signed distance from `b` to `a` on a circle of 2^24.
const fn distance(a: u32, b: u32) -> i32 {
    // The shift puts the sign of the 24-bit difference where `i32` has its own.
    let aligned = a.wrapping_sub(b) << (u32::BITS - BITS);
    (aligned as i32) >> (u32::BITS - BITS)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const HALF: u32 = 1 << 23;

    #[test]
    fn arithmetic_wraps_at_24_bits() {
        let last = Psn::new(0xff_ffff).unwrap();
        assert_eq!(last.next(), Psn::ZERO);
        assert_eq!(Psn::ZERO.prev(), last);
        assert_eq!(last.wrapping_add(5).get(), 4);
        assert_eq!(Psn::ZERO.since(last), 1);
        assert_eq!(last.since(Psn::ZERO), -1);
        assert_eq!(Msn::truncate(0xff_ffff).next(), Msn::ZERO);
    }

    #[test]
    fn a_psn_of_25_bits_is_refused() {
        assert_eq!(Psn::new(0x100_0000), None);
        assert_eq!(Psn::new(u32::MAX), None);
        assert_eq!(Psn::truncate(0x100_0001).get(), 1);
    }

    // PROTOCOL rule 1.
    #[test]
    fn duplicates_are_the_half_circle_before_the_expected_psn() {
        let expected = Psn::truncate(7);
        let at = |n: i64| Psn::truncate((7 + n) as u32).against(expected);
        assert_eq!(at(0), Arrival::Expected);
        assert_eq!(at(-1), Arrival::Duplicate);
        assert_eq!(at(-i64::from(HALF)), Arrival::Duplicate);
        assert_eq!(at(1), Arrival::Ahead);
        assert_eq!(at(i64::from(HALF) - 1), Arrival::Ahead);
    }

    #[test]
    fn a_range_ends_before_its_count() {
        let start = Psn::truncate(0xff_fffe);
        assert!(start.is_within(start, 1));
        assert!(!start.is_within(start, 0));
        assert!(Psn::ZERO.is_within(start, 3));
        assert!(!Psn::ZERO.next().is_within(start, 3));
        assert!(!start.prev().is_within(start, 3));
    }

    proptest! {
        #[test]
        fn distance_undoes_addition(a in 0..=MASK, n in 0..HALF) {
            let psn = Psn::truncate(a);
            prop_assert_eq!(psn.wrapping_add(n).since(psn), n as i32);
            prop_assert_eq!(psn.wrapping_add(n).offset_from(psn), n);
            prop_assert_eq!(psn.wrapping_add(n).wrapping_sub(n), psn);
            prop_assert_eq!(psn.wrapping_sub(n).since(psn), -(n as i32));
        }

        #[test]
        fn distance_is_the_sign_of_the_difference_shifted_by_eight(a: u32, b: u32) {
            let (a, b) = (Psn::truncate(a), Psn::truncate(b));
            let shifted = (a.get().wrapping_sub(b.get()) << 8) as i32;
            prop_assert_eq!(a.since(b).signum(), shifted.signum());
        }

        #[test]
        fn a_range_holds_exactly_its_members(start: u32, count in 0..HALF, n in 0..=MASK) {
            let start = Psn::truncate(start);
            prop_assert_eq!(start.wrapping_add(n).is_within(start, count), n < count);
        }
    }
}
