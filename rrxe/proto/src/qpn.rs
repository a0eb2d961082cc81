// SPDX-License-Identifier: GPL-2.0

//! Queue pair numbers.

use core::fmt;

/// Number of a queue pair on its device: 24 bits.
///
/// # Invariants
///
/// The value is below 2^24.
#[derive(Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Qpn(u32);

impl Qpn {
    /// Subnet management: never used on Ethernet.
    pub const SMI: Self = Self(0);
    /// General services: where the connection manager listens.
    pub const GSI: Self = Self(1);
    /// Addresses the members of the multicast group the packet was sent to.
    pub const MULTICAST: Self = Self(0x00ff_ffff);

    /// Takes `value`, or `None` if it needs more than 24 bits.
    pub const fn new(value: u32) -> Option<Self> {
        if value > Self::MULTICAST.0 {
            return None;
        }
        Some(Self(value))
    }

    /// Takes the low 24 bits of `value`.
    pub const fn truncate(value: u32) -> Self {
        Self(value & Self::MULTICAST.0)
    }

    /// The value, below 2^24.
    pub const fn get(self) -> u32 {
        self.0
    }
}

impl fmt::Debug for Qpn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Qpn({:#x})", self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_qpn_has_24_bits() {
        assert_eq!(Qpn::new(0xff_ffff), Some(Qpn::MULTICAST));
        assert_eq!(Qpn::new(0x100_0000), None);
        assert_eq!(Qpn::truncate(0x1200_0011).get(), 0x11);
    }
}
