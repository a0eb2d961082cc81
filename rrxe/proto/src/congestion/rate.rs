// SPDX-License-Identifier: GPL-2.0

//! Rates.

use core::time::Duration;

/// Bytes a time. One unit is a byte in 2^20 ns, about 7.6 kbit/s, so that no division is needed to
/// get from a time to bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Rate(u64);

impl Rate {
    /// No bytes at all.
    pub const ZERO: Self = Self(0);

    /// The highest rate: 8 Tbit/s, whose bytes in an hour still fit.
    pub const MAX: Self = Self(1 << 30);

    /// The times that are told apart: longer ones count as this, half an hour.
    const LONGEST_NANOS: u64 = 1 << 41;

    const TICK_SHIFT: u32 = 20;

    /// The rate of `mbps` million bits a second, at most [`MAX`](Self::MAX).
    pub const fn from_mbps(mbps: u32) -> Self {
        // 10^6 / 8 bytes in 10^9 ns are 131.072 in 2^20.
        Self((mbps as u64).saturating_mul(131_072) / 1000).at_most(Self::MAX)
    }

    /// Millions of bits a second, to the nearest.
    pub const fn mbps(self) -> u32 {
        (self.0.saturating_mul(1000).saturating_add(65_536) / 131_072) as u32
    }

    /// The rate of `bytes` in `time`, at most [`MAX`](Self::MAX).
    pub fn of(bytes: u64, time: Duration) -> Self {
        let volume = Volume::of(bytes);
        let units = volume.0.checked_div(nanos(time)).unwrap_or(u64::MAX);
        Self(units).min(Self::MAX)
    }

    /// Bytes in `time`, rounded down.
    pub fn bytes_in(self, time: Duration) -> u64 {
        self.volume_in(time).0 >> Self::TICK_SHIFT
    }

    /// What is sent in `time`.
    pub(super) fn volume_in(self, time: Duration) -> Volume {
        Volume(self.0.saturating_mul(nanos(time)))
    }

    /// The time that `volume` takes, rounded up.
    pub(super) fn time_for(self, volume: Volume) -> Duration {
        let nanos = volume
            .0
            .saturating_add(self.0.saturating_sub(1))
            .checked_div(self.0)
            .unwrap_or(u64::MAX);
        Duration::from_nanos(nanos)
    }

    /// The sum, at most [`MAX`](Self::MAX).
    pub(super) fn plus(self, other: Self) -> Self {
        Self(self.0.saturating_add(other.0)).min(Self::MAX)
    }

    /// What lies in the middle, rounded up: halving the way to a rate again and again gets there.
    pub(super) fn middle(self, other: Self) -> Self {
        Self(self.0.saturating_add(other.0).div_ceil(2))
    }

    /// What is left when a part of `parts` / 2^`shift` is taken away.
    pub(super) fn less(self, parts: u32, shift: u32) -> Self {
        let part = self.0.saturating_mul(parts.into()).checked_shr(shift);
        Self(self.0.saturating_sub(part.unwrap_or(0)))
    }

    const fn at_most(self, most: Self) -> Self {
        if self.0 > most.0 {
            most
        } else {
            self
        }
    }
}

/// An amount of bytes, exact enough to be added up from the shortest times: in parts of 2^20 of a byte.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Volume(u64);

impl Volume {
    /// `bytes`, at most 16 TiB.
    pub(super) fn of(bytes: u64) -> Self {
        Self(bytes.min(u64::MAX >> Rate::TICK_SHIFT) << Rate::TICK_SHIFT)
    }

    /// Both together.
    pub(super) fn plus(self, other: Self) -> Self {
        Self(self.0.saturating_add(other.0))
    }

    /// What of this is more than `other`.
    pub(super) fn beyond(self, other: Self) -> Self {
        Self(self.0.saturating_sub(other.0))
    }
}

/// The nanoseconds of `time`, as far as times are told apart.
pub(super) fn nanos(time: Duration) -> u64 {
    u64::try_from(time.as_nanos())
        .unwrap_or(u64::MAX)
        .min(Rate::LONGEST_NANOS)
}
