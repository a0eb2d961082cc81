// SPDX-License-Identifier: GPL-2.0

//! Responses that came past one that is missing.

use crate::psn::Psn;

/// Which responses have come past the oldest one that is missing. Their data has been placed: until
/// the request is complete nobody may count on an order.
#[derive(Debug)]
pub(super) struct Heard {
    /// A bit for each PSN, modulo [`REACH`](Self::REACH).
    bits: [u64; WORDS],
}

const WORDS: usize = 32;

impl Heard {
    /// How many PSNs from the oldest that is missing on are remembered.
    pub(super) const REACH: u32 = 2048;

    /// None.
    pub(super) const fn new() -> Self {
        Self { bits: [0; WORDS] }
    }

    /// Whether the response `psn`, within reach, has come.
    pub(super) fn contains(&self, psn: Psn) -> bool {
        let (word, bit) = place(psn);
        self.bits.get(word).is_some_and(|word| word & bit != 0)
    }

    /// Takes note that the response `psn`, within reach, has come.
    pub(super) fn insert(&mut self, psn: Psn) {
        let (word, bit) = place(psn);
        if let Some(word) = self.bits.get_mut(word) {
            *word |= bit;
        }
    }

    /// Forgets the responses from `from` on that have come without a gap, at most `most`. Tells how
    /// many.
    pub(super) fn take_run(&mut self, from: Psn, most: u32) -> u32 {
        let mut count = 0;
        while count < most.min(Self::REACH) {
            let (word, bit) = place(from.wrapping_add(count));
            match self.bits.get_mut(word) {
                Some(word) if *word & bit != 0 => *word &= !bit,
                _ => break,
            }
            count = count.saturating_add(1);
        }
        count
    }
}

/// The word and the bit of a PSN.
fn place(psn: Psn) -> (usize, u64) {
    let index = psn.get() & Heard::REACH.saturating_sub(1);
    ((index >> 6) as usize, 1 << (index & 63))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runs_end_at_the_first_gap_and_wrap() {
        let first = Psn::truncate(0xff_fffe);
        let at = |n| first.wrapping_add(n);
        let mut heard = Heard::new();
        for n in [0, 1, 2, 4] {
            heard.insert(at(n));
        }
        assert!(heard.contains(at(4)) && !heard.contains(at(3)));
        assert_eq!(heard.take_run(first, 2), 2);
        assert_eq!(heard.take_run(at(2), 9), 1);
        assert_eq!(heard.take_run(at(3), 9), 0);
        assert!(!heard.contains(at(0)));
    }

    #[test]
    fn all_within_reach_fit() {
        let mut heard = Heard::new();
        for n in 0..Heard::REACH {
            heard.insert(Psn::truncate(n + 77));
        }
        assert_eq!(heard.take_run(Psn::truncate(77), u32::MAX), Heard::REACH);
    }
}
