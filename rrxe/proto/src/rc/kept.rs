// SPDX-License-Identifier: GPL-2.0

//! Requests that arrived past a gap, and wait for their turn.

use crate::psn::Psn;

/// Which requests wait. The packets themselves are with the caller, each in a place of its own.
#[derive(Debug)]
pub(super) struct Kept {
    /// The first `len` are in use, in the order of their PSNs.
    entries: [Entry; PLACES],
    len: usize,
    /// Places in use, a bit for each.
    used: u128,
}

/// Packets that a responder keeps at most: what a sender may have under way after a lost one.
const PLACES: usize = 128;

/// How many PSNs past the expected one a packet may have. READs ahead of it take many of them.
///
/// Without a limit, whoever forges a packet would not have to guess what PSN is due.
const REACH: u32 = 2048;

#[derive(Clone, Copy, Debug)]
struct Entry {
    psn: Psn,
    place: u8,
}

/// The right to keep a request until its turn comes.
///
/// Give it to [`Responder::keep`](super::Responder::keep) if the packet could be stored. Otherwise
/// the packet counts as lost, and the peer will send it again.
#[derive(Debug)]
#[must_use]
pub struct Keep {
    psn: Psn,
    place: u8,
}

impl Keep {
    /// The number of the place to store the packet in, which is free.
    pub fn place(&self) -> usize {
        self.place.into()
    }
}

impl Kept {
    /// Places there are.
    pub(super) const PLACES: usize = PLACES;

    /// Nothing.
    pub(super) const fn new() -> Self {
        let unused = Entry {
            psn: Psn::ZERO,
            place: 0,
        };
        Self {
            entries: [unused; PLACES],
            len: 0,
            used: 0,
        }
    }

    /// A place for the packet `psn`, which is past `expected`. `None` if the packet is too far off
    /// or waits already, or if there is no place.
    pub(super) fn offer(&self, psn: Psn, expected: Psn) -> Option<Keep> {
        let place = self.used.trailing_ones();
        let may_wait = psn.is_within(expected, REACH)
            && place < u128::BITS
            && !self.waiting().iter().rev().any(|entry| entry.psn == psn);
        may_wait.then_some(Keep {
            psn,
            place: place as u8,
        })
    }

    /// Takes note that the packet of `keep` is stored.
    pub(super) fn add(&mut self, keep: Keep) {
        let Keep { psn, place } = keep;
        let at = self
            .waiting()
            .iter()
            .rposition(|entry| entry.psn.is_before(psn))
            .map_or(0, |before| before.saturating_add(1));
        if let Some(rest @ [_, ..]) = self.entries.get_mut(at..=self.len) {
            rest.rotate_right(1);
            if let Some(first) = rest.first_mut() {
                *first = Entry { psn, place };
            }
            self.len = self.len.saturating_add(1);
            self.used |= 1 << place;
        }
    }

    /// Takes out the first packet if it is not past `expected`. Its place is free.
    pub(super) fn take_due(&mut self, expected: Psn) -> Option<usize> {
        let first = *self.waiting().first()?;
        if first.psn.is_after(expected) {
            return None;
        }
        if let Some(waiting) = self.entries.get_mut(..self.len) {
            waiting.rotate_left(1);
        }
        self.len = self.len.saturating_sub(1);
        self.used &= !(1 << first.place);
        Some(first.place.into())
    }

    /// Forgets all packets. All places are free.
    pub(super) fn clear(&mut self) {
        self.len = 0;
        self.used = 0;
    }

    /// Packets that wait.
    pub(super) const fn len(&self) -> usize {
        self.len
    }

    fn waiting(&self) -> &[Entry] {
        self.entries.get(..self.len).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn psn(value: u32) -> Psn {
        Psn::truncate(value)
    }

    fn add(kept: &mut Kept, value: u32) -> usize {
        let keep = kept.offer(psn(value), psn(value).prev()).unwrap();
        let place = keep.place();
        kept.add(keep);
        place
    }

    #[test]
    fn packets_come_out_in_the_order_of_their_psns() {
        let mut kept = Kept::new();
        let last = add(&mut kept, 1);
        let first = add(&mut kept, 0xff_fffe);
        let middle = add(&mut kept, 0xff_ffff);
        assert_eq!(kept.take_due(psn(0xff_fffd)), None);
        assert_eq!(kept.take_due(psn(0xff_ffff)), Some(first));
        assert_eq!(kept.take_due(psn(0xff_ffff)), Some(middle));
        assert_eq!(kept.take_due(psn(0)), None);
        assert_eq!(kept.take_due(psn(1)), Some(last));
        assert_eq!(kept.len, 0);
    }

    #[test]
    fn what_waits_is_not_kept_twice() {
        let mut kept = Kept::new();
        add(&mut kept, 7);
        assert!(kept.offer(psn(7), psn(5)).is_none());
        kept.take_due(psn(7));
        assert!(kept.offer(psn(7), psn(5)).is_some());
    }

    #[test]
    fn what_is_far_off_is_not_kept() {
        let kept = Kept::new();
        let expected = psn(0xff_ffff);
        assert!(kept
            .offer(expected.wrapping_add(REACH - 1), expected)
            .is_some());
        assert!(kept.offer(expected.wrapping_add(REACH), expected).is_none());
    }

    #[test]
    fn places_are_used_again() {
        let mut kept = Kept::new();
        let places: std::collections::HashSet<_> =
            (0..PLACES as u32).map(|at| add(&mut kept, at)).collect();
        assert_eq!(places, (0..PLACES).collect());
        assert!(kept.offer(psn(1000), psn(0)).is_none());
        for at in 0..PLACES as u32 {
            let free = kept.take_due(psn(at)).unwrap();
            assert_eq!(add(&mut kept, 1000 + at), free);
        }
    }
}
