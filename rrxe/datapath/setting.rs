// SPDX-License-Identifier: GPL-2.0

//! Numbers that the administrator sets.

use core::{
    fmt,
    ops::RangeInclusive, //
};
use kernel::{
    debugfs::Reader,
    prelude::*,
    sync::atomic::{
        Atomic,
        Relaxed, //
    },
    uaccess::UserSliceReader, //
};

/// A number in a range, which a file in debugfs shows and sets. Any context.
pub(crate) struct Setting {
    value: Atomic<u32>,
    range: RangeInclusive<u32>,
}

impl Setting {
    /// A number that is `value` at first.
    pub(crate) const fn new(value: u32, range: RangeInclusive<u32>) -> Self {
        Self {
            value: Atomic::new(value),
            range,
        }
    }

    /// The number.
    #[inline]
    pub(crate) fn get(&self) -> u32 {
        self.value.load(Relaxed)
    }
}

impl fmt::Debug for Setting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.get(), f)
    }
}

impl Reader for Setting {
    /// `EINVAL` if what is written is no number, or out of range.
    fn read_from_slice(&self, reader: &mut UserSliceReader) -> Result {
        let given = Atomic::new(0);
        given.read_from_slice(reader)?;
        let value: u32 = given.load(Relaxed);
        if !self.range.contains(&value) {
            return Err(EINVAL);
        }
        self.value.store(value, Relaxed);
        Ok(())
    }
}
