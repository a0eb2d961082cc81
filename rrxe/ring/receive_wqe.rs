// SPDX-License-Identifier: GPL-2.0

//! What an element of a receive queue says.

use zerocopy::transmute;

use super::{
    abi::{
        self,
        Sge, //
    },
    element::{
        copy_sges,
        total,
        Element, //
    },
    InvalidWqe, //
};

/// Most elements of a receive request, of any queue.
pub(crate) const MAX_RECEIVE_SGE: usize = 32;

/// Words before the scatter elements.
const HEAD_WORDS: usize = size_of::<abi::ReceiveWqe>() / size_of::<u64>();

/// A receive request in private memory.
///
/// # Invariants
///
/// - `count` is at most [`MAX_RECEIVE_SGE`].
/// - `capacity` is the sum of the lengths of the first `count` elements, of which none is empty.
#[derive(Clone, Debug)]
pub(crate) struct ReceiveWqe {
    wr_id: u64,
    count: usize,
    capacity: u64,
    sges: [Sge; MAX_RECEIVE_SGE],
}

impl ReceiveWqe {
    /// A request without a name and without any room.
    pub(crate) const fn new() -> Self {
        const NOTHING: Sge = Sge {
            addr: 0,
            length: 0,
            lkey: 0,
        };
        // INVARIANT: No element, no capacity.
        Self {
            wr_id: 0,
            count: 0,
            capacity: 0,
            sges: [NOTHING; MAX_RECEIVE_SGE],
        }
    }

    /// The user's name for the request.
    pub(crate) const fn wr_id(&self) -> u64 {
        self.wr_id
    }

    /// Where the message goes. No element is empty.
    pub(crate) fn sges(&self) -> &[Sge] {
        self.sges.get(..self.count).unwrap_or_default()
    }

    /// Bytes there is room for.
    pub(crate) const fn capacity(&self) -> u64 {
        self.capacity
    }

    /// Becomes the request that `element` holds, of a ring that admits `max_sge` scatter elements.
    ///
    /// The length that the user library computes is not looked at: it is an `int`, too narrow for
    /// a sum of lengths.
    ///
    /// # Errors
    ///
    /// [`TooManySges`](InvalidWqe::TooManySges); the request then has its name and no room.
    pub(crate) fn load(&mut self, element: &impl Element, max_sge: u32) -> Result<(), InvalidWqe> {
        let head: abi::ReceiveWqe = transmute!(element.words::<HEAD_WORDS>(0));
        // INVARIANT: No element, no capacity.
        self.wr_id = head.wr_id;
        self.count = 0;
        self.capacity = 0;

        let given = head.dma.num_sge;
        if given > max_sge || given as usize > MAX_RECEIVE_SGE {
            return Err(InvalidWqe::TooManySges);
        }
        let count = copy_sges(element, HEAD_WORDS, given, &mut self.sges);
        // INVARIANT: `copy_sges` keeps at most as many elements as there are places for, and none
        // that is empty.
        self.count = count;
        self.capacity = total(self.sges());
        Ok(())
    }
}
