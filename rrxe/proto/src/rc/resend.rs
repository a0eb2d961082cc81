// SPDX-License-Identifier: GPL-2.0

//! What is sent again before it is known whether the rest has to be.

use crate::{
    psn::Psn,
    rc::cursor::Cursor, //
};

/// A few packets that are sent again, the first of which is missing at the responder.
///
/// Whether it has kept those after them shows when they are acknowledged.
#[derive(Clone, Copy, Debug)]
pub(super) struct Resend {
    /// Where sending again goes on.
    pub(super) at: Cursor,
    /// Packets still to be sent again.
    pub(super) left: u32,
    /// Packets in all.
    burst: u32,
    /// The PSN past the last one sent before these. Where packets keep their order, all before it
    /// have arrived when these do, or never will.
    pub(super) horizon: Psn,
    pub(super) cause: Cause,
}

/// Why packets are sent again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Cause {
    /// The responder has said that the first one is missing.
    Told,
    /// The responder says nothing.
    Silence,
    /// The responder has said that one is missing, and nothing since that was sent again.
    Both,
}

impl Cause {
    /// Whether the responder has said that something is missing.
    pub(super) fn is_told(self) -> bool {
        matches!(self, Self::Told | Self::Both)
    }

    /// The cause once the responder says nothing.
    pub(super) fn and_silence(self) -> Self {
        match self {
            Self::Told | Self::Both => Self::Both,
            Self::Silence => Self::Silence,
        }
    }
}

impl Resend {
    /// The packet at `at`.
    pub(super) fn one(at: Cursor, cause: Cause) -> Self {
        Self::burst(at, cause, 1)
    }

    /// The same, from `at` on.
    pub(super) fn from(self, at: Cursor) -> Self {
        Self { at, ..self }
    }

    /// Twice as many as before, from `at` on.
    pub(super) fn twice(self, at: Cursor) -> Self {
        Self::burst(at, self.cause, self.burst.saturating_mul(2))
    }

    fn burst(at: Cursor, cause: Cause, burst: u32) -> Self {
        Self {
            at,
            left: burst,
            burst,
            horizon: at.psn,
            cause,
        }
    }
}

/// What a responder does with packets that arrive after a gap, as far as it is known. It has no way
/// to say so.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Habit {
    /// Not known.
    Unknown,
    /// It keeps them, though so many times in a row not.
    Keeps {
        /// How often it has not since it last has.
        missed: u8,
    },
    /// It drops them: all is sent again, until `gaps` more have been seen. Then it is tried again.
    Drops {
        gaps: u8,
        /// How many they were.
        of: u8,
    },
}

/// After so many gaps in a row of which a responder has kept nothing it is one that drops.
const MISSES: u8 = 3;

/// Gaps after which it is tried again, at most.
const MOST_GAPS: u8 = 64;

impl Habit {
    /// Whether to send but one packet again now that there is a gap.
    pub(super) fn try_one(&mut self) -> bool {
        match self {
            Self::Unknown | Self::Keeps { .. } => true,
            Self::Drops { gaps: 0, .. } => true,
            Self::Drops { gaps, .. } => {
                *gaps = gaps.saturating_sub(1);
                false
            }
        }
    }

    /// Whether what is new may be sent before the gap is filled.
    pub(super) fn keeps(self) -> bool {
        matches!(self, Self::Keeps { .. })
    }

    /// It has kept what came after a gap.
    pub(super) fn kept(&mut self) {
        *self = Self::Keeps { missed: 0 };
    }

    /// It has not, as it seems.
    pub(super) fn missed(&mut self) {
        *self = match *self {
            Self::Keeps { missed } if missed.saturating_add(1) < MISSES => Self::Keeps {
                missed: missed.saturating_add(1),
            },
            Self::Unknown | Self::Keeps { .. } => Self::Drops { gaps: 1, of: 1 },
            Self::Drops { of, .. } => {
                let gaps = of.saturating_mul(2).min(MOST_GAPS);
                Self::Drops { gaps, of: gaps }
            }
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_responder_that_drops_is_tried_less_and_less_often() {
        let mut habit = Habit::Unknown;
        let mut tried = Vec::new();
        for gap in 0..40 {
            if habit.try_one() {
                tried.push(gap);
                habit.missed();
            }
        }
        assert_eq!(tried, [0, 2, 5, 10, 19, 36]);
        habit.kept();
        assert!(habit.try_one() && habit.keeps());
    }

    #[test]
    fn two_gaps_in_a_row_do_not_make_a_responder_one_that_drops() {
        let mut habit = Habit::Unknown;
        habit.kept();
        habit.missed();
        habit.missed();
        assert!(habit.keeps());
        habit.missed();
        assert!(!habit.keeps());
    }
}
