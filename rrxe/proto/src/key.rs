// SPDX-License-Identifier: GPL-2.0

//! What a packet shows to be let in, and the immediate data it may carry.

use core::fmt;

/// Memory key, local or remote: index of a region or window, and a tag in the low eight bits.
#[derive(Clone, Copy, Default, PartialEq, Eq, Hash)]
pub struct Key(pub u32);

impl Key {
    /// A key of the region or window with that index, which has 24 bits.
    pub const fn new(index: u32, tag: u8) -> Self {
        Self(index << 8 | tag as u32)
    }

    /// Which region or window the key belongs to.
    pub const fn index(self) -> u32 {
        self.0 >> 8
    }

    /// The part its owner may change.
    pub const fn tag(self) -> u8 {
        self.0 as u8
    }

    /// The key of the same region or window with another tag.
    #[must_use]
    pub const fn with_tag(self, tag: u8) -> Self {
        Self(self.0 & !0xff | tag as u32)
    }
}

impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Key({:#010x})", self.0)
    }
}

/// Partition key: partition number, and in the top bit whether its holder is a full member.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Pkey(pub u16);

impl Pkey {
    /// Full member of the default partition, the only one an Ethernet port has.
    pub const DEFAULT: Self = Self(0xffff);

    const FULL_MEMBER: u16 = 0x8000;

    /// Whether holders of the two keys may talk: same partition, which is not number 0, and not
    /// both limited members of it.
    pub const fn matches(self, other: Self) -> bool {
        let partition = self.0 & !Self::FULL_MEMBER;
        partition != 0
            && partition == other.0 & !Self::FULL_MEMBER
            && (self.0 | other.0) & Self::FULL_MEMBER != 0
    }
}

impl fmt::Debug for Pkey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Pkey({:#06x})", self.0)
    }
}

/// Queue key: what a datagram must show to be received.
#[derive(Clone, Copy, Default, PartialEq, Eq, Hash)]
pub struct Qkey(pub u32);

impl Qkey {
    /// Queue key of the general services queue pair.
    pub const GSI: Self = Self(0x8001_0000);

    const CONTROLLED: u32 = 0x8000_0000;

    /// Whether only a privileged program may set it for a queue pair.
    pub const fn is_controlled(self) -> bool {
        self.0 & Self::CONTROLLED != 0
    }

    /// The key that goes out when a work request asks for `self` on a queue pair that has `own`.
    pub const fn or_own(self, own: Self) -> Self {
        if self.is_controlled() {
            return own;
        }
        self
    }
}

impl fmt::Debug for Qkey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Qkey({:#010x})", self.0)
    }
}

/// Immediate data: four bytes that travel from work request to completion as they are.
///
/// User space posts and reads them in network order, so nothing on the way may swap them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Imm(pub [u8; 4]);

#[cfg(test)]
mod tests {
    use super::*;

    // PROTOCOL rule 21.
    #[test]
    fn limited_members_of_a_partition_cannot_talk_to_each_other() {
        let (full, limited) = (Pkey(0x8005), Pkey(0x0005));
        assert!(full.matches(full));
        assert!(full.matches(limited));
        assert!(limited.matches(full));
        assert!(!limited.matches(limited));
        assert!(!full.matches(Pkey(0x8006)));
        assert!(Pkey::DEFAULT.matches(Pkey(0x7fff)));
    }

    #[test]
    fn partition_zero_matches_nothing() {
        assert!(!Pkey(0x8000).matches(Pkey(0x8000)));
        assert!(!Pkey(0).matches(Pkey(0)));
    }

    // PROTOCOL requirement 10.
    #[test]
    fn a_controlled_qkey_in_a_request_means_the_queue_pairs_own() {
        let own = Qkey(0x1111_1111);
        assert_eq!(Qkey(0x8000_0000).or_own(own), own);
        assert_eq!(Qkey(0x7fff_ffff).or_own(own), Qkey(0x7fff_ffff));
        assert!(Qkey::GSI.is_controlled());
    }

    #[test]
    fn a_key_is_an_index_and_a_tag() {
        assert_eq!(Key(0x0012_34ab).index(), 0x1234);
        assert_eq!(Key(0x0012_34ab).tag(), 0xab);
        assert_eq!(Key(0x0012_34ab).with_tag(0xcd), Key(0x0012_34cd));
    }
}
