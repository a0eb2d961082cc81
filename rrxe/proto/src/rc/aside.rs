// SPDX-License-Identifier: GPL-2.0

//! Parts of responses that are given again in between.

use crate::rc::saved::Part;

/// Parts of READ responses that a peer lacks. They are sent before what is in turn, which goes on
/// where it was.
#[derive(Debug)]
pub(super) struct Asides {
    /// The first `len` are to be sent, in this order.
    entries: [Aside; MOST],
    len: usize,
}

/// Parts that wait at most. What does not fit is asked for again.
const MOST: usize = 32;

/// A part of the response of a number.
#[derive(Clone, Copy, Debug)]
pub(super) struct Aside {
    pub(super) slot: u64,
    pub(super) part: Part,
}

impl Asides {
    /// None.
    pub(super) const fn new() -> Self {
        let unused = Aside {
            slot: 0,
            part: Part {
                start: 0,
                len: 0,
                sent: 0,
            },
        };
        Self {
            entries: [unused; MOST],
            len: 0,
        }
    }

    /// Takes out the next part.
    pub(super) fn take(&mut self) -> Option<Aside> {
        let waiting = self.entries.get_mut(..self.len)?;
        let first = *waiting.first()?;
        waiting.rotate_left(1);
        self.len = self.len.saturating_sub(1);
        Some(first)
    }

    /// Adds a part to be sent after the others, if there is room.
    pub(super) fn add(&mut self, aside: Aside) {
        if let Some(free) = self.entries.get_mut(self.len) {
            *free = aside;
            self.len = self.len.saturating_add(1);
        }
    }

    /// Puts a part before the others, if there is room.
    pub(super) fn put_back(&mut self, aside: Aside) {
        if let Some(waiting) = self.entries.get_mut(..=self.len) {
            waiting.rotate_right(1);
            if let Some(first) = waiting.first_mut() {
                *first = aside;
            }
            self.len = self.len.saturating_add(1);
        }
    }

    /// Takes all parts out.
    pub(super) fn clear(&mut self) {
        self.len = 0;
    }
}
