// SPDX-License-Identifier: GPL-2.0

//! Reading of a ring's element into private memory.

use zerocopy::transmute;

use super::abi::Sge;

/// Words of a gather or scatter element.
const SGE_WORDS: usize = size_of::<Sge>() / size_of::<u64>();

/// One element of a ring. Its words may change at any time, so none is to be read twice.
pub(crate) trait Element {
    /// The word at `index`, or zero if the element has none there.
    fn word(&self, index: usize) -> u64;

    /// The words from `first` on.
    fn words<const N: usize>(&self, first: usize) -> [u64; N] {
        core::array::from_fn(|i| self.word(first.wrapping_add(i)))
    }

    /// The sixteen bytes `index` times sixteen bytes after the word `first`.
    fn sge(&self, first: usize, index: usize) -> Sge {
        let words = self.words::<SGE_WORDS>(first.wrapping_add(index.wrapping_mul(SGE_WORDS)));
        transmute!(words)
    }
}

/// Copies `count` gather or scatter elements that begin at the word `first`, without those that
/// have no length. Gives how many `into` then holds, at most its length.
pub(super) fn copy_sges(
    element: &impl Element,
    first: usize,
    count: u32,
    into: &mut [Sge],
) -> usize {
    let mut places = into.iter_mut();
    let mut kept: usize = 0;
    for index in 0..count as usize {
        let sge = element.sge(first, index);
        if sge.length == 0 {
            continue;
        }
        let Some(place) = places.next() else {
            break;
        };
        *place = sge;
        kept = kept.wrapping_add(1);
    }
    kept
}

/// Bytes that elements name together. Exact, as no ring has room for 2^32 elements.
pub(super) fn total(sges: &[Sge]) -> u64 {
    sges.iter()
        .fold(0, |sum: u64, sge| sum.saturating_add(sge.length.into()))
}
