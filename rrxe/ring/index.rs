// SPDX-License-Identifier: GPL-2.0

//! Sizes of a ring, and arithmetic on indices in it.

use super::abi::queue_header;

/// Logarithm of the smallest slot: a cache line.
const MIN_LOG2_SLOT: u32 = 6;

/// Logarithm of the largest slot, larger than any element.
const MAX_LOG2_SLOT: u32 = 12;

/// Logarithm of the largest number of slots.
const MAX_LOG2_SLOTS: u32 = 20;

/// Shape of a ring: a power of two of slots, each a power of two of bytes.
///
/// One slot always stays empty, so that a full ring differs from an empty one.
///
/// # Invariants
///
/// - `mask` is a power of two less one, below 2^[`MAX_LOG2_SLOTS`].
/// - `log2_slot` is in [`MIN_LOG2_SLOT`]..=[`MAX_LOG2_SLOT`].
///
/// No offset in a ring therefore overflows, not even 32 bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Geometry {
    log2_slot: u32,
    mask: u32,
}

const _: () = assert!(
    (1u64 << (MAX_LOG2_SLOT + MAX_LOG2_SLOTS)) <= u32::MAX as u64 + 1,
    "index arithmetic is in 32 bits"
);

impl Geometry {
    /// The smallest ring that holds `entries` elements of `element` bytes at once, or `None` if
    /// that is too large.
    pub(crate) fn new(entries: u32, element: usize) -> Option<Self> {
        let slots = entries.checked_add(1)?.checked_next_power_of_two()?;
        let slot = element.checked_next_power_of_two()?;
        let log2_slot = slot.trailing_zeros().max(MIN_LOG2_SLOT);
        if slots.trailing_zeros() > MAX_LOG2_SLOTS || log2_slot > MAX_LOG2_SLOT {
            return None;
        }
        let geometry = Self {
            log2_slot,
            mask: slots.wrapping_sub(1),
        };
        // A mapping's size must fit the 32 bits in which user space learns it.
        u32::try_from(geometry.bytes()).ok()?;
        Some(geometry)
    }

    /// Logarithm of a slot's size in bytes.
    pub(crate) const fn log2_slot(self) -> u32 {
        self.log2_slot
    }

    /// Bytes of a slot.
    pub(crate) const fn slot_bytes(self) -> usize {
        1 << self.log2_slot
    }

    /// Number of slots, less one: also what masks an index.
    pub(crate) const fn mask(self) -> u32 {
        self.mask
    }

    /// How many elements the ring holds at once.
    pub(crate) const fn capacity(self) -> u32 {
        self.mask
    }

    /// Number of slots.
    pub(crate) const fn slots(self) -> usize {
        (self.mask as usize).wrapping_add(1)
    }

    /// Bytes of the ring and its header.
    pub(crate) const fn bytes(self) -> usize {
        queue_header::DATA.wrapping_add(self.slots() << self.log2_slot)
    }

    /// Offset of a slot in the shared memory, bytes. Any `index` will do, it is masked.
    pub(crate) const fn offset(self, index: u32) -> usize {
        queue_header::DATA.wrapping_add((self.masked(index) as usize) << self.log2_slot)
    }

    /// The slot that any `index` stands for.
    pub(crate) const fn masked(self, index: u32) -> u32 {
        index & self.mask
    }

    /// How many slots lie from `start` on and before `end`: at most [`capacity`](Self::capacity),
    /// whatever the arguments are.
    pub(crate) const fn distance(self, start: u32, end: u32) -> u32 {
        self.masked(end.wrapping_sub(start))
    }

    /// Whether a ring with these indices has no free slot.
    pub(crate) const fn is_full(self, producer: u32, consumer: u32) -> bool {
        self.distance(consumer, producer) == self.capacity()
    }
}
