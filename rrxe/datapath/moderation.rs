// SPDX-License-Identifier: GPL-2.0

//! Telling the consumer of a completion queue less often: of several completions at once, or when a
//! while has passed since the first of them.

use core::{
    mem,
    time::Duration, //
};

/// How much is held back before the consumer is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Limits {
    /// So many completions, more than one.
    pub(crate) count: u16,
    /// Or the first one for so long, more than no time.
    pub(crate) period: Duration,
}

/// Completions that the consumer waits for and has not been told of.
#[derive(Debug, Default)]
pub(super) struct Moderation {
    /// `None` while it is told of each at once.
    limits: Option<Limits>,
    held: u16,
}

/// What to do about a completion.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    /// Tell the consumer, now.
    Tell,
    /// Tell it when so much time has passed.
    TellAfter(Duration),
    /// Nothing more than before.
    Hold,
}

impl Moderation {
    /// The limits, unless there are none.
    pub(super) fn limits(&self) -> Option<Limits> {
        self.limits
    }

    /// Goes on with other limits, or none. Returns whether to tell the consumer of what was held back.
    pub(super) fn set(&mut self, limits: Option<Limits>) -> bool {
        self.limits = limits;
        self.release()
    }

    /// Whether something is held back.
    pub(super) fn is_holding(&self) -> bool {
        self.held != 0
    }

    /// Takes note of a completion that the consumer waits for, or of one behind such a one.
    pub(super) fn add(&mut self) -> Verdict {
        let Some(Limits { count, period }) = self.limits else {
            return Verdict::Tell;
        };
        self.held = self.held.saturating_add(1);
        if self.held >= count {
            self.held = 0;
            Verdict::Tell
        } else if self.held == 1 {
            Verdict::TellAfter(period)
        } else {
            Verdict::Hold
        }
    }

    /// Holds nothing back any more. Returns whether to tell the consumer.
    pub(super) fn release(&mut self) -> bool {
        mem::take(&mut self.held) != 0
    }
}
