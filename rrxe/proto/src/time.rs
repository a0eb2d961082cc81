// SPDX-License-Identifier: GPL-2.0

//! Points in time, as the caller's monotonic clock tells them.

use core::time::Duration;

/// Nanoseconds since an origin that only the caller knows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Instant(u64);

impl Instant {
    /// The last instant: 584 years after the origin.
    pub const MAX: Self = Self(u64::MAX);

    /// The instant `nanos` nanoseconds after the origin.
    pub const fn from_nanos(nanos: u64) -> Self {
        Self(nanos)
    }

    /// Nanoseconds since the origin.
    pub const fn as_nanos(self) -> u64 {
        self.0
    }

    /// The instant `delay` later, or `None` past [`MAX`](Self::MAX).
    pub fn checked_add(self, delay: Duration) -> Option<Self> {
        let nanos = u64::try_from(delay.as_nanos()).ok()?;
        self.0.checked_add(nanos).map(Self)
    }

    /// The instant `delay` later, at most [`MAX`](Self::MAX).
    pub fn saturating_add(self, delay: Duration) -> Self {
        self.checked_add(delay).unwrap_or(Self::MAX)
    }

    /// Time from `earlier` to `self`, zero if `earlier` is later.
    pub const fn saturating_since(self, earlier: Self) -> Duration {
        Duration::from_nanos(self.0.saturating_sub(earlier.0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addition_stops_at_the_last_instant() {
        let start = Instant::from_nanos(u64::MAX - 1);
        assert_eq!(
            start.checked_add(Duration::from_nanos(1)),
            Some(Instant::MAX)
        );
        assert_eq!(start.checked_add(Duration::from_nanos(2)), None);
        assert_eq!(start.checked_add(Duration::MAX), None);
        assert_eq!(start.saturating_add(Duration::MAX), Instant::MAX);
    }

    #[test]
    fn a_later_instant_is_no_time_ago() {
        let (a, b) = (Instant::from_nanos(5), Instant::from_nanos(8));
        assert_eq!(b.saturating_since(a), Duration::from_nanos(3));
        assert_eq!(a.saturating_since(b), Duration::ZERO);
    }
}
