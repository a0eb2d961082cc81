// SPDX-License-Identifier: GPL-2.0

//! What may be done to memory, and through a queue pair.

use core::ops::{
    BitAnd,
    BitOr, //
};

/// Set of access rights. The bits are those of the verbs' `ib_access_flags`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Access(u32);

impl Access {
    /// Nothing but local reads.
    pub const NONE: Self = Self(0);
    /// Written by its owner's receives and reads.
    pub const LOCAL_WRITE: Self = Self(1 << 0);
    /// Written by a peer.
    pub const REMOTE_WRITE: Self = Self(1 << 1);
    /// Read by a peer.
    pub const REMOTE_READ: Self = Self(1 << 2);
    /// Target of a peer's atomics.
    pub const REMOTE_ATOMIC: Self = Self(1 << 3);
    /// Memory windows may be bound to it.
    pub const MW_BIND: Self = Self(1 << 4);
    /// Addressed from 0, not from its virtual address.
    pub const ZERO_BASED: Self = Self(1 << 5);
    /// Paged in when it is used.
    pub const ON_DEMAND: Self = Self(1 << 6);
    /// Made of huge pages.
    pub const HUGETLB: Self = Self(1 << 7);
    /// A peer may make writes to it visible.
    pub const FLUSH_GLOBAL: Self = Self(1 << 8);
    /// A peer may make writes to it persistent.
    pub const FLUSH_PERSISTENT: Self = Self(1 << 9);
    /// May be accessed out of order; may be ignored.
    pub const RELAXED_ORDERING: Self = Self(1 << 20);

    /// All rights a peer may have.
    pub const REMOTE: Self = Self(
        Self::REMOTE_WRITE.0
            | Self::REMOTE_READ.0
            | Self::REMOTE_ATOMIC.0
            | Self::FLUSH_GLOBAL.0
            | Self::FLUSH_PERSISTENT.0,
    );

    /// Bits that a provider which does not know them ignores.
    pub const OPTIONAL: Self = Self(0x3ff0_0000);

    /// All bits that have a name here.
    pub const KNOWN: Self = Self(0x3ff | Self::RELAXED_ORDERING.0);

    /// Takes the bits as they are, named or not.
    pub const fn from_bits(bits: u32) -> Self {
        Self(bits)
    }

    /// The bits.
    pub const fn bits(self) -> u32 {
        self.0
    }

    /// Whether all rights in `other` are in `self`.
    pub const fn contains(self, other: Self) -> bool {
        self.0 & other.0 == other.0
    }

    /// Whether any right in `other` is in `self`.
    pub const fn intersects(self, other: Self) -> bool {
        self.0 & other.0 != 0
    }

    /// The rights in `self` that are not in `other`.
    pub const fn without(self, other: Self) -> Self {
        Self(self.0 & !other.0)
    }

    /// Whether every bit has a name here or may be ignored.
    pub const fn is_known(self) -> bool {
        self.0 & !(Self::KNOWN.0 | Self::OPTIONAL.0) == 0
    }

    /// Whether memory may be registered with these rights: who lets a peer write must be able to
    /// write.
    pub const fn is_consistent(self) -> bool {
        !self.intersects(Self(Self::REMOTE_WRITE.0 | Self::REMOTE_ATOMIC.0))
            || self.contains(Self::LOCAL_WRITE)
    }
}

impl BitOr for Access {
    type Output = Self;

    fn bitor(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }
}

impl BitAnd for Access {
    type Output = Self;

    fn bitand(self, other: Self) -> Self {
        Self(self.0 & other.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_peer_may_not_write_what_its_owner_may_not() {
        assert!(!Access::REMOTE_WRITE.is_consistent());
        assert!(!Access::REMOTE_ATOMIC.is_consistent());
        assert!(Access::REMOTE_READ.is_consistent());
        assert!((Access::REMOTE_WRITE | Access::LOCAL_WRITE).is_consistent());
    }

    #[test]
    fn rights_have_the_bits_of_the_verbs() {
        let rights = [
            Access::LOCAL_WRITE,
            Access::REMOTE_WRITE,
            Access::REMOTE_READ,
            Access::REMOTE_ATOMIC,
            Access::MW_BIND,
            Access::ZERO_BASED,
            Access::ON_DEMAND,
            Access::HUGETLB,
            Access::FLUSH_GLOBAL,
            Access::FLUSH_PERSISTENT,
        ];
        for (bit, right) in rights.into_iter().enumerate() {
            assert_eq!(right.bits(), 1 << bit);
        }
        assert_eq!(Access::RELAXED_ORDERING.bits(), 0x10_0000);
        assert_eq!(Access::REMOTE.bits(), 0x30e);
    }

    #[test]
    fn bits_with_a_name_and_optional_ones_are_known() {
        for bit in 0..32 {
            let is_known = bit < 10 || (20..30).contains(&bit);
            assert_eq!(Access::from_bits(1 << bit).is_known(), is_known, "{bit}");
        }
    }

    #[test]
    fn sets() {
        let rw = Access::REMOTE_READ | Access::REMOTE_WRITE;
        assert!(rw.contains(Access::REMOTE_READ));
        assert!(!Access::REMOTE_READ.contains(rw));
        assert!(Access::REMOTE_READ.intersects(rw));
        assert_eq!(rw.without(Access::REMOTE_READ), Access::REMOTE_WRITE);
        assert_eq!(rw | Access::REMOTE_READ, rw);
        assert_eq!(rw & Access::REMOTE, rw);
    }
}
