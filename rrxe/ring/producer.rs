// SPDX-License-Identifier: GPL-2.0

//! The producing end of a send or receive queue, for consumers inside the kernel.
//!
//! User space writes the same elements to the memory that it has mapped. So what takes them off the
//! ring need not know where they come from.

use zerocopy::transmute;

use super::{
    abi::{
        ReceiveWqe,
        SendWqe,
        Sge, //
    },
    completion::Full,
    shared::SharedRing, //
};

/// Writes the elements of a ring.
pub(crate) struct Producer {
    ring: SharedRing,
    /// Index of the next element to write.
    next: u32,
}

impl Producer {
    /// The producing end of `ring`, which is empty.
    pub(super) fn new(ring: SharedRing) -> Self {
        let next = ring.producer();
        Self { ring, next }
    }

    /// Posts a send request, whose elements or inline data `cells` holds: as many as the queue admits.
    ///
    /// # Errors
    ///
    /// [`Full`] if no earlier request has been completed.
    pub(crate) fn post_send(&mut self, head: &SendWqe, cells: &[Sge]) -> Result<(), Full> {
        let words: [u64; size_of::<SendWqe>() / size_of::<u64>()] = transmute!(*head);
        self.post(&words, cells)
    }

    /// Posts a receive request with as many elements as the queue admits.
    ///
    /// # Errors
    ///
    /// [`Full`] if no earlier request has been taken.
    pub(crate) fn post_receive(&mut self, head: &ReceiveWqe, sges: &[Sge]) -> Result<(), Full> {
        let words: [u64; size_of::<ReceiveWqe>() / size_of::<u64>()] = transmute!(*head);
        self.post(&words, sges)
    }

    fn post(&mut self, head: &[u64], cells: &[Sge]) -> Result<(), Full> {
        let geometry = self.ring.geometry();
        if geometry.is_full(self.next, self.ring.consumer()) {
            return Err(Full);
        }
        let slot = self.ring.slot(self.next);
        slot.write(0, head);
        let mut at = head.len();
        for cell in cells {
            let words: [u64; size_of::<Sge>() / size_of::<u64>()] = transmute!(*cell);
            slot.write(at, &words);
            at = at.wrapping_add(words.len());
        }
        self.next = geometry.masked(self.next.wrapping_add(1));
        self.ring.publish_producer(self.next);
        Ok(())
    }
}
