// SPDX-License-Identifier: GPL-2.0

//! What user space does to a mapped ring, in the manner of `librxe`.

use std::sync::Arc;

use kernel::sync::atomic::{Acquire, Release};
use zerocopy::IntoBytes;

use crate::{
    ring::abi::{queue_header, DmaInfo, SendWqe, SendWr, Sge, UverbsWc},
    shmem::{SharedMem, Udata},
};

/// A mapping of a ring.
pub struct Mapping(Arc<SharedMem>);

impl Mapping {
    /// Maps what was shared last.
    pub fn latest(udata: &Udata<'_>) -> Self {
        Self(udata.latest())
    }

    pub fn log2_slot(&self) -> u32 {
        self.0
            .atomic::<{ queue_header::LOG2_ELEM_SIZE }>()
            .load(Acquire)
    }

    pub fn mask(&self) -> u32 {
        self.0
            .atomic::<{ queue_header::INDEX_MASK }>()
            .load(Acquire)
    }

    pub fn producer(&self) -> u32 {
        self.0
            .atomic::<{ queue_header::PRODUCER_INDEX }>()
            .load(Acquire)
    }

    pub fn consumer(&self) -> u32 {
        self.0
            .atomic::<{ queue_header::CONSUMER_INDEX }>()
            .load(Acquire)
    }

    pub fn set_producer(&self, index: u32) {
        self.0
            .atomic::<{ queue_header::PRODUCER_INDEX }>()
            .store(index, Release);
    }

    pub fn set_consumer(&self, index: u32) {
        self.0
            .atomic::<{ queue_header::CONSUMER_INDEX }>()
            .store(index, Release);
    }

    pub fn is_full(&self) -> bool {
        (self.producer() + 1) & self.mask() == self.consumer()
    }

    fn first_word(&self, index: u32) -> usize {
        (queue_header::DATA + ((index as usize) << self.log2_slot())) / 8
    }

    /// Writes the slot at `index`: a multiple of eight bytes.
    pub fn write(&self, index: u32, bytes: &[u8]) {
        assert!(bytes.len() <= 1 << self.log2_slot());
        for (i, word) in bytes.chunks_exact(8).enumerate() {
            self.0.words()[self.first_word(index) + i]
                .write(u64::from_ne_bytes(word.try_into().unwrap()));
        }
    }

    /// Writes the next slot and passes it on, unless the ring is full.
    pub fn produce(&self, bytes: &[u8]) -> bool {
        if self.is_full() {
            return false;
        }
        self.write(self.producer(), bytes);
        self.set_producer((self.producer() + 1) & self.mask());
        true
    }

    /// Polls a completion.
    pub fn poll(&self) -> Option<UverbsWc> {
        let index = self.consumer();
        if index == self.producer() {
            return None;
        }
        let words: [u64; 6] =
            core::array::from_fn(|i| self.0.words()[self.first_word(index) + i].read());
        self.set_consumer((index + 1) & self.mask());
        Some(zerocopy::transmute!(words))
    }
}

pub const fn sge(addr: u64, length: u32) -> Sge {
    Sge {
        addr,
        length,
        lkey: 0x1234,
    }
}

/// The element's head for a request, without data. What is stale is garbage.
pub fn send_head(wr_id: u64, opcode: u32, send_flags: u32) -> SendWqe {
    SendWqe {
        wr: SendWr {
            wr_id,
            reserved: 0,
            opcode,
            send_flags,
            ex: [0; 4],
            operands: [0; 15],
        },
        stale: [0xdead_beef_dead_beef; 5],
        dma: dma(0),
    }
}

/// What is said of so many elements, whose length is left out. What is stale is garbage.
pub const fn dma(num_sge: u32) -> DmaInfo {
    DmaInfo {
        length: 0,
        resid: 0xdead_beef,
        cur_sge: 0xdead_beef,
        num_sge,
        sge_offset: 0xdead_beef,
        reserved: 0,
    }
}

/// The element of a request with gather elements.
pub fn with_sges(mut head: SendWqe, sges: &[Sge]) -> Vec<u8> {
    head.dma.num_sge = sges.len() as u32;
    head.dma.length = sges.iter().map(|sge| sge.length).sum();
    [head.as_bytes(), sges.as_bytes()].concat()
}

/// The element of a request with inline data.
pub fn with_inline(mut head: SendWqe, data: &[u8]) -> Vec<u8> {
    head.dma.length = data.len() as u32;
    let mut bytes = [head.as_bytes(), data].concat();
    bytes.resize(bytes.len().next_multiple_of(8), 0x5a);
    bytes
}
