// SPDX-License-Identifier: GPL-2.0

//! The two waiting times of a reliable connection, in the codes that attributes and packets use.

use core::time::Duration;

/// Code of the least time a requester waits after an RNR NAK: 5 bits.
///
/// # Invariants
///
/// The code is below 32.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct RnrTimer(u8);

impl RnrTimer {
    /// Takes `code`, or `None` if it needs more than 5 bits.
    pub const fn new(code: u8) -> Option<Self> {
        if code > CODE_MASK {
            return None;
        }
        Some(Self(code))
    }

    /// Takes the low 5 bits of `code`.
    pub const fn truncate(code: u8) -> Self {
        Self(code & CODE_MASK)
    }

    /// The code, below 32.
    pub const fn code(self) -> u8 {
        self.0
    }

    /// How long to wait.
    pub fn duration(self) -> Duration {
        let tens = RNR_TENS_OF_MICROSECONDS
            .get(usize::from(self.0))
            .copied()
            .unwrap_or(0);
        Duration::from_micros(u64::from(tens).saturating_mul(10))
    }
}

/// Code of the time a requester waits for an acknowledgement: 5 bits.
///
/// # Invariants
///
/// The code is below 32.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct AckTimeout(u8);

impl AckTimeout {
    /// Wait for ever.
    pub const NEVER: Self = Self(0);

    /// Takes `code`, or `None` if it needs more than 5 bits.
    pub const fn new(code: u8) -> Option<Self> {
        if code > CODE_MASK {
            return None;
        }
        Some(Self(code))
    }

    /// The code, below 32.
    pub const fn code(self) -> u8 {
        self.0
    }

    /// How long to wait: 4.096 us * 2^code, or `None` if for ever.
    ///
    /// A retransmission timer may run up to four times as long.
    pub const fn duration(self) -> Option<Duration> {
        if self.0 == 0 {
            return None;
        }
        Some(Duration::from_nanos(4096u64.wrapping_shl(self.0 as u32)))
    }
}

/// All ones in a timer code.
const CODE_MASK: u8 = 0x1f;

/// RNR timer values by code, in units of 10 us. Code 0 is the longest, not the shortest.
#[rustfmt::skip]
const RNR_TENS_OF_MICROSECONDS: [u32; 32] = [
    65536, 1, 2, 3, 4, 6, 8, 12,
    16, 24, 32, 48, 64, 96, 128, 192,
    256, 384, 512, 768, 1024, 1536, 2048, 3072,
    4096, 6144, 8192, 12288, 16384, 24576, 32768, 49152,
];

#[cfg(test)]
mod tests {
    use super::*;

    // PROTOCOL rule 6, in microseconds.
    #[test]
    fn rnr_table() {
        let micros: Vec<u128> = (0..32)
            .map(|code| RnrTimer::new(code).unwrap().duration().as_micros())
            .collect();
        assert_eq!(
            micros,
            [
                655_360, 10, 20, 30, 40, 60, 80, 120, 160, 240, 320, 480, 640, 960, 1_280, 1_920,
                2_560, 3_840, 5_120, 7_680, 10_240, 15_360, 20_480, 30_720, 40_960, 61_440, 81_920,
                122_880, 163_840, 245_760, 327_680, 491_520,
            ]
        );
    }

    // PROTOCOL requirement 5.
    #[test]
    fn rnr_entry_25_is_61_44_ms() {
        assert_eq!(
            RnrTimer::truncate(25).duration(),
            Duration::from_micros(61_440)
        );
    }

    // PROTOCOL rule 7.
    #[test]
    fn ack_timeout_doubles_with_each_code_and_zero_is_never() {
        assert_eq!(AckTimeout::NEVER.duration(), None);
        assert_eq!(
            AckTimeout::new(1).unwrap().duration(),
            Some(Duration::from_nanos(8192))
        );
        assert_eq!(
            AckTimeout::new(14).unwrap().duration(),
            Some(Duration::from_nanos(67_108_864))
        );
        assert_eq!(
            AckTimeout::new(31).unwrap().duration(),
            Some(Duration::from_nanos(4096 << 31))
        );
    }

    #[test]
    fn timer_codes_have_5_bits() {
        assert_eq!(RnrTimer::new(32), None);
        assert_eq!(AckTimeout::new(32), None);
        assert_eq!(RnrTimer::truncate(0x3f).code(), 0x1f);
        assert_eq!(AckTimeout::new(31).unwrap().code(), 31);
    }
}
