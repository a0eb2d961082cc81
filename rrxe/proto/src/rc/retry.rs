// SPDX-License-Identifier: GPL-2.0

//! How often a requester tries again.

use core::time::Duration;

/// A number of retries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RetryLimit {
    /// So many, then the request fails.
    Finite(u8),
    /// No end.
    Infinite,
}

impl RetryLimit {
    /// The meaning of the attribute `retry_cnt`, in which seven means seven.
    pub const fn from_retry_cnt(count: u8) -> Self {
        Self::Finite(count)
    }

    /// The meaning of the attribute `rnr_retry`, in which seven means no end.
    pub const fn from_rnr_retry(count: u8) -> Self {
        match count {
            0..=6 => Self::Finite(count),
            7.. => Self::Infinite,
        }
    }
}

/// Retries that are left.
#[derive(Clone, Copy, Debug)]
pub(super) struct Retries {
    used: u8,
}

/// No retry is left.
pub(super) struct Exhausted;

impl Retries {
    /// As many as there can be.
    pub(super) const FULL: Self = Self { used: 0 };

    /// How long to wait for an answer. The timeout of the consumer is the least: who tries again
    /// waits for twice as long as before, up to four times, as the specification allows. A peer that
    /// is slow is not kept busy with copies, and has time to answer.
    pub(super) fn stretch(self, timeout: Duration) -> Duration {
        timeout.saturating_mul(1 << self.used.min(2))
    }

    /// How many were taken of a limit.
    pub(super) const fn used(self) -> u8 {
        self.used
    }

    /// Takes one of `limit`.
    pub(super) fn take(&mut self, limit: RetryLimit) -> Result<(), Exhausted> {
        match limit {
            RetryLimit::Infinite => Ok(()),
            RetryLimit::Finite(limit) if self.used < limit => {
                self.used = self.used.saturating_add(1);
                Ok(())
            }
            RetryLimit::Finite(_) => Err(Exhausted),
        }
    }
}
