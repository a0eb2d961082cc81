// SPDX-License-Identifier: GPL-2.0

//! Completion queue of a consumer inside the kernel, who is handed the completions.

use kernel::prelude::*;

use super::completion::{
    Full,
    Wc, //
};

/// Completions that have not been polled, oldest first.
///
/// # Invariants
///
/// The `count` places from `first` on, cyclically, hold them. `count` is at most the number of places,
/// and `first` below it.
pub(crate) struct CompletionList {
    places: KVVec<Wc>,
    first: usize,
    count: usize,
}

impl CompletionList {
    /// Makes a queue for `entries` completions, at least 1. May sleep.
    ///
    /// # Errors
    ///
    /// `EINVAL` if it would hold none; `ENOMEM`.
    pub(crate) fn new(entries: u32) -> Result<Self> {
        if entries == 0 {
            return Err(EINVAL);
        }
        // INVARIANT: None so far, of at least one place.
        Ok(Self {
            places: KVVec::from_elem(Wc::EMPTY, entries as usize, GFP_KERNEL)?,
            first: 0,
            count: 0,
        })
    }

    /// How many completions the queue holds.
    pub(crate) fn capacity(&self) -> u32 {
        self.places.len() as u32
    }

    /// How many completions have not been polled.
    pub(crate) fn pending(&self) -> u32 {
        self.count as u32
    }

    /// Appends a completion.
    ///
    /// # Errors
    ///
    /// [`Full`] if not enough has been polled.
    pub(crate) fn push(&mut self, wc: &Wc) -> Result<(), Full> {
        let at = self.place(self.count);
        if self.count >= self.places.len() {
            return Err(Full);
        }
        *self.places.get_mut(at).ok_or(Full)? = *wc;
        // INVARIANT: There was room.
        self.count = self.count.wrapping_add(1);
        Ok(())
    }

    /// Takes the oldest completion off the queue.
    pub(crate) fn pop(&mut self) -> Option<Wc> {
        // INVARIANT: Nothing changes if there is none.
        let left = self.count.checked_sub(1)?;
        let wc = *self.places.get(self.first)?;
        self.first = self.place(1);
        self.count = left;
        Some(wc)
    }

    /// The place that comes `distance` after the first, which is at most the number of places.
    fn place(&self, distance: usize) -> usize {
        let at = self.first.wrapping_add(distance);
        at.checked_sub(self.places.len()).unwrap_or(at)
    }
}
