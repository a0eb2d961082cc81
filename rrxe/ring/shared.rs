// SPDX-License-Identifier: GPL-2.0

//! Memory of a ring: a header with the indices, and the slots.

use kernel::{
    prelude::*,
    sync::{
        atomic::{
            Acquire,
            Relaxed,
            Release, //
        },
        Arc, //
    }, //
};

use crate::kapi::{
    rdma::Udata,
    shmem::{
        SharedMem,
        SharedWord, //
    }, //
};

use super::{
    abi::{
        queue_header,
        MmInfo, //
    },
    element::Element,
    index::Geometry, //
};

/// A ring in memory that user space can map.
///
/// Says nothing about who produces and who consumes. Indices that are read are masked.
///
/// # Invariants
///
/// `memory` has room for `geometry`.
#[derive(Clone)]
pub(super) struct SharedRing {
    geometry: Geometry,
    memory: Arc<SharedMem>,
}

impl SharedRing {
    /// Makes an empty ring. May sleep.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub(super) fn new(geometry: Geometry) -> Result<Self> {
        let memory = SharedMem::new(geometry.bytes())?;
        memory
            .atomic::<{ queue_header::LOG2_ELEM_SIZE }>()
            .store(geometry.log2_slot(), Relaxed);
        memory
            .atomic::<{ queue_header::INDEX_MASK }>()
            .store(geometry.mask(), Relaxed);
        // INVARIANT: It was allocated with the size of `geometry`.
        Ok(Self { geometry, memory })
    }

    /// The ring's sizes.
    pub(super) fn geometry(&self) -> Geometry {
        self.geometry
    }

    /// Lets the calling process map the ring, and gives what its library needs to do so. May sleep.
    ///
    /// # Errors
    ///
    /// Those of [`Udata::share`].
    pub(super) fn share(&self, udata: &mut Udata<'_>) -> Result<MmInfo> {
        let shared = udata.share(self.memory.clone())?;
        Ok(MmInfo {
            offset: shared.offset,
            size: u32::try_from(shared.size)?,
            pad: 0,
        })
    }

    /// Index of the next element to produce. What was produced before it can be read then.
    pub(super) fn producer(&self) -> u32 {
        let index = self.memory.atomic::<{ queue_header::PRODUCER_INDEX }>();
        self.geometry.masked(index.load(Acquire))
    }

    /// Index of the next element to consume. What was consumed before it can be overwritten then.
    pub(super) fn consumer(&self) -> u32 {
        let index = self.memory.atomic::<{ queue_header::CONSUMER_INDEX }>();
        self.geometry.masked(index.load(Acquire))
    }

    /// Tells user space that the elements before `index` have been produced.
    pub(super) fn publish_producer(&self, index: u32) {
        self.memory
            .atomic::<{ queue_header::PRODUCER_INDEX }>()
            .store(self.geometry.masked(index), Release);
    }

    /// Tells user space that the elements before `index` have been consumed.
    pub(super) fn publish_consumer(&self, index: u32) {
        self.memory
            .atomic::<{ queue_header::CONSUMER_INDEX }>()
            .store(self.geometry.masked(index), Release);
    }

    /// The slot that any `index` stands for.
    pub(super) fn slot(&self, index: u32) -> Slot<'_> {
        let start = self.geometry.offset(index) / size_of::<SharedWord>();
        let end = start.wrapping_add(self.geometry.slot_bytes() / size_of::<SharedWord>());
        // By the type invariants the slot is there.
        Slot(self.memory.words().get(start..end).unwrap_or_default())
    }
}

/// One slot.
pub(super) struct Slot<'a>(&'a [SharedWord]);

impl Slot<'_> {
    /// Writes words of the slot, from `first` on; what goes beyond its end is left out.
    pub(super) fn write(&self, first: usize, words: &[u64]) {
        for (shared, word) in self.0.iter().skip(first).zip(words) {
            shared.write(*word);
        }
    }

    /// Becomes a copy of `other`, as far as there is room.
    pub(super) fn copy_from(&self, other: &Slot<'_>) {
        for (to, from) in self.0.iter().zip(other.0) {
            to.write(from.read());
        }
    }
}

impl Element for Slot<'_> {
    fn word(&self, index: usize) -> u64 {
        self.0.get(index).map_or(0, SharedWord::read)
    }
}
