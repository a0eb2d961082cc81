// SPDX-License-Identifier: GPL-2.0

//! The memory a host lets its peer touch: regions named by rkeys.

use std::collections::HashMap;

/// What a key permits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rights {
    /// WRITE.
    pub write: bool,
    /// READ.
    pub read: bool,
    /// Compare-and-swap, fetch-and-add.
    pub atomic: bool,
    /// FLUSH.
    pub flush: bool,
}

impl Rights {
    /// Everything.
    pub const ALL: Self = Self {
        write: true,
        read: true,
        atomic: true,
        flush: true,
    };
    /// Nothing.
    pub const NONE: Self = Self {
        write: false,
        read: false,
        atomic: false,
        flush: false,
    };
}

/// A registered region.
#[derive(Clone, Debug)]
pub struct Region {
    /// First virtual address.
    pub base: u64,
    /// What it holds.
    pub bytes: Vec<u8>,
    /// What the peer may do.
    pub rights: Rights,
    /// Cleared by an invalidation.
    pub valid: bool,
}

/// The regions of a host, by rkey.
#[derive(Clone, Debug, Default)]
pub struct Memory {
    regions: HashMap<u32, Region>,
}

/// An access that the memory refuses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Refused;

impl Memory {
    /// Registers a region.
    pub fn register(&mut self, rkey: u32, base: u64, bytes: Vec<u8>, rights: Rights) {
        self.regions.insert(
            rkey,
            Region {
                base,
                bytes,
                rights,
                valid: true,
            },
        );
    }

    /// The region named `rkey`, valid or not.
    pub fn region(&self, rkey: u32) -> Option<&Region> {
        self.regions.get(&rkey)
    }

    /// Whether `rkey` names a region whose rights `allowed` says yes to.
    pub fn admits(&self, rkey: u32, allowed: impl Fn(&Rights) -> bool) -> Result<(), Refused> {
        let region = self.regions.get(&rkey).ok_or(Refused)?;
        if region.valid && allowed(&region.rights) {
            return Ok(());
        }
        Err(Refused)
    }

    /// Makes `rkey` name nothing any more; `false` if it did not name anything.
    pub fn invalidate(&mut self, rkey: u32) -> bool {
        match self.regions.get_mut(&rkey) {
            Some(region) if region.valid => {
                region.valid = false;
                true
            }
            _ => false,
        }
    }

    /// The bytes `va..va + len` of a region if `allowed` says yes to its rights.
    pub fn slice(
        &self,
        rkey: u32,
        va: u64,
        len: u64,
        allowed: impl Fn(&Rights) -> bool,
    ) -> Result<&[u8], Refused> {
        let region = self
            .regions
            .get(&rkey)
            .filter(|r| r.valid && allowed(&r.rights));
        let region = region.ok_or(Refused)?;
        let range = range_of(region, va, len)?;
        Ok(&region.bytes[range])
    }

    /// The same, to be changed.
    pub fn slice_mut(
        &mut self,
        rkey: u32,
        va: u64,
        len: u64,
        allowed: impl Fn(&Rights) -> bool,
    ) -> Result<&mut [u8], Refused> {
        let region = self
            .regions
            .get_mut(&rkey)
            .filter(|r| r.valid && allowed(&r.rights));
        let region = region.ok_or(Refused)?;
        let range = range_of(region, va, len)?;
        Ok(&mut region.bytes[range])
    }
}

fn range_of(region: &Region, va: u64, len: u64) -> Result<std::ops::Range<usize>, Refused> {
    let start = va.checked_sub(region.base).ok_or(Refused)?;
    let end = start.checked_add(len).ok_or(Refused)?;
    if end > region.bytes.len() as u64 {
        return Err(Refused);
    }
    Ok(start as usize..end as usize)
}
