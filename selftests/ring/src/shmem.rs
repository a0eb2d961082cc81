// SPDX-License-Identifier: GPL-2.0

//! Stands in for `kapi::shmem` and `kapi::rdma`: memory that both sides of a test can reach.

use std::sync::{
    atomic::{AtomicU64, Ordering},
    Arc,
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

    pub fn words(&self) -> &[SharedWord] {
        &self.words
    }

    pub fn atomic<const OFFSET: usize>(&self) -> &Atomic<u32> {
        &self.header[OFFSET / 4]
    }
}

/// What is to be mapped.
pub struct Shared {
    pub offset: u64,
    pub size: usize,
}

/// What has been shared, oldest first.
#[derive(Default)]
pub struct Udata<'a>(Vec<Arc<SharedMem>>, core::marker::PhantomData<&'a ()>);

impl Udata<'_> {
    pub fn share(&mut self, memory: Arc<SharedMem>) -> Result<Shared> {
        let size = memory.words.len() * 8;
        self.0.push(memory);
        Ok(Shared {
            offset: (self.0.len() * PAGE) as u64,
            size,
        })
    }

    pub fn latest(&self) -> Arc<SharedMem> {
        self.0.last().unwrap().clone()
    }
}
