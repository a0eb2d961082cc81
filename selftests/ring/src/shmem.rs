// SPDX-License-Identifier: GPL-2.0

//! Stands in for `kapi::shmem`: memory that both sides of a test can reach.

use std::sync::{
    atomic::{AtomicU64, Ordering},
    Arc, Mutex,
};

use kernel::{prelude::*, sync::atomic::Atomic};

const PAGE: usize = 4096;

pub struct SharedWord(AtomicU64);

impl SharedWord {
    pub fn read(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }

    pub fn write(&self, value: u64) {
        self.0.store(value, Ordering::Relaxed);
    }
}

/// The header's fields are kept apart from the words, so that no access has two sizes.
pub struct SharedMem {
    words: Vec<SharedWord>,
    header: Vec<Atomic<u32>>,
}

impl SharedMem {
    pub fn new(bytes: usize) -> Result<Arc<Self>> {
        let bytes = bytes.next_multiple_of(PAGE);
        Ok(Arc::new(Self {
            words: (0..bytes / 8)
                .map(|_| SharedWord(AtomicU64::new(0)))
                .collect(),
            header: (0..PAGE / 4).map(|_| Atomic::new(0)).collect(),
        }))
    }

    pub fn bytes(&self) -> usize {
        self.words.len() * 8
    }

    pub fn words(&self) -> &[SharedWord] {
        &self.words
    }

    pub fn atomic<const OFFSET: usize>(&self) -> &Atomic<u32> {
        &self.header[OFFSET / 4]
    }
}

/// What has been offered, oldest first: what user space would map.
#[derive(Default)]
pub struct MmapTable(Mutex<Vec<Arc<SharedMem>>>);

impl MmapTable {
    pub fn latest(&self) -> Arc<SharedMem> {
        self.0.lock().unwrap().last().unwrap().clone()
    }
}

pub struct Offer(u64);

impl Offer {
    pub fn new(table: &Arc<MmapTable>, memory: Arc<SharedMem>) -> Result<Self> {
        let mut offers = table.0.lock().unwrap();
        offers.push(memory);
        Ok(Self(offers.len() as u64 * PAGE as u64))
    }

    pub fn offset(&self) -> u64 {
        self.0
    }
}
