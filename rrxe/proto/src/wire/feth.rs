// SPDX-License-Identifier: GPL-2.0

//! Flush extended transport header: what to flush, and how far.

use core::fmt;

use zerocopy::byteorder::{
    BigEndian,
    U32, //
};
use zerocopy_derive::{
    FromBytes,
    Immutable,
    IntoBytes,
    KnownLayout,
    Unaligned, //
};

use crate::access::Access;

/// Flush extended transport header, 4 bytes.
#[derive(Clone, Copy, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub struct Feth {
    bits: U32<BigEndian>,
}

impl Feth {
    /// Flushes what `selectivity` says as far as `placement` says.
    pub const fn new(placement: Placement, selectivity: Selectivity) -> Self {
        Self {
            bits: U32::new(placement.0 as u32 | (selectivity as u32) << SELECTIVITY_SHIFT),
        }
    }

    /// How far the writes are to get.
    pub const fn placement(&self) -> Placement {
        Placement((self.bits.get() & PLACEMENT) as u8)
    }

    /// Which writes, or `None` if the value is reserved.
    pub const fn selectivity(&self) -> Option<Selectivity> {
        Selectivity::new(((self.bits.get() & SELECTIVITY) >> SELECTIVITY_SHIFT) as u8)
    }
}

impl fmt::Debug for Feth {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Feth")
            .field("placement", &self.placement())
            .field("selectivity", &self.selectivity())
            .finish()
    }
}

/// How far flushed writes are to get: a set of `ib_placement_type`, 4 bits.
///
/// # Invariants
///
/// The value is below 16.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Placement(u8);

impl Placement {
    /// Visible to all.
    pub const GLOBAL: Self = Self(1 << 0);
    /// Safe from a loss of power.
    pub const PERSISTENT: Self = Self(1 << 1);
    /// Both.
    pub const BOTH: Self = Self(Self::GLOBAL.0 | Self::PERSISTENT.0);

    /// Takes `bits`, or `None` if they ask for nothing or for what has no name.
    pub const fn from_bits(bits: u32) -> Option<Self> {
        match bits {
            1 => Some(Self::GLOBAL),
            2 => Some(Self::PERSISTENT),
            3 => Some(Self::BOTH),
            _ => None,
        }
    }

    /// Whether it asks for something, and for nothing that has no name.
    pub const fn is_valid(self) -> bool {
        Self::from_bits(self.0 as u32).is_some()
    }

    /// Whether it asks for all that `other` does.
    pub const fn contains(self, other: Self) -> bool {
        self.0 & other.0 == other.0
    }

    /// The rights the memory must grant for it.
    pub fn access(self) -> Access {
        let mut access = Access::NONE;
        if self.contains(Self::GLOBAL) {
            access = access | Access::FLUSH_GLOBAL;
        }
        if self.contains(Self::PERSISTENT) {
            access = access | Access::FLUSH_PERSISTENT;
        }
        access
    }
}

/// Which writes a flush is about. The numbers are those of the verbs' `ib_selectivity_level`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Selectivity {
    /// Those to the range in the RETH.
    Range = 0,
    /// Those to the whole memory region.
    Region = 1,
}

impl Selectivity {
    /// Takes an `ib_selectivity_level`, or `None` if it is none.
    pub const fn new(level: u8) -> Option<Self> {
        match level {
            0 => Some(Self::Range),
            1 => Some(Self::Region),
            _ => None,
        }
    }
}

const PLACEMENT: u32 = 0x0f;
const SELECTIVITY: u32 = 0x30;
const SELECTIVITY_SHIFT: u32 = 4;

#[cfg(test)]
mod tests {
    use super::*;
    use zerocopy::IntoBytes;

    #[test]
    fn fields_share_the_last_byte() {
        let feth = Feth::new(Placement::BOTH, Selectivity::Region);
        assert_eq!(feth.as_bytes(), [0, 0, 0, 0x13]);
        assert_eq!(feth.placement(), Placement::BOTH);
        assert_eq!(feth.selectivity(), Some(Selectivity::Region));
    }

    #[test]
    fn reserved_values_are_recognised() {
        let feth = Feth {
            bits: U32::new(0x24),
        };
        assert_eq!(feth.selectivity(), None);
        assert!(!feth.placement().is_valid());
        assert_eq!(Placement::from_bits(0), None);
    }

    #[test]
    fn a_flush_needs_the_right_of_each_placement() {
        assert_eq!(Placement::GLOBAL.access(), Access::FLUSH_GLOBAL);
        assert_eq!(
            Placement::BOTH.access(),
            Access::FLUSH_GLOBAL | Access::FLUSH_PERSISTENT
        );
    }
}
