// SPDX-License-Identifier: GPL-2.0

//! Path MTUs, and how they cut messages into packets.

/// Payload bytes that a packet of a connection carries unless it is the last of its message.
///
/// The numbers are those of the verbs' `ib_mtu`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum PathMtu {
    /// 256 bytes.
    Mtu256 = 1,
    /// 512 bytes.
    Mtu512 = 2,
    /// 1024 bytes.
    Mtu1024 = 3,
    /// 2048 bytes.
    Mtu2048 = 4,
    /// 4096 bytes.
    Mtu4096 = 5,
}

impl PathMtu {
    /// All of them, ascending.
    pub const ALL: [Self; 5] = [
        Self::Mtu256,
        Self::Mtu512,
        Self::Mtu1024,
        Self::Mtu2048,
        Self::Mtu4096,
    ];

    /// Takes an `ib_mtu`, or `None` if it is none.
    pub const fn from_ib(code: u32) -> Option<Self> {
        Some(match code {
            1 => Self::Mtu256,
            2 => Self::Mtu512,
            3 => Self::Mtu1024,
            4 => Self::Mtu2048,
            5 => Self::Mtu4096,
            _ => return None,
        })
    }

    /// The `ib_mtu`.
    pub const fn to_ib(self) -> u32 {
        self as u32
    }

    /// The largest path MTU whose packets have at most `bytes` of payload.
    pub fn fitting(bytes: u32) -> Option<Self> {
        Self::ALL.into_iter().rev().find(|mtu| mtu.bytes() <= bytes)
    }

    /// Bytes.
    pub const fn bytes(self) -> u32 {
        1 << self.shift()
    }

    /// Binary logarithm of the bytes.
    pub const fn shift(self) -> u32 {
        (self as u32).saturating_add(7)
    }

    /// Packets that a message of `len` bytes takes: at least one.
    pub const fn packets(self, len: u32) -> u32 {
        if len == 0 {
            return 1;
        }
        (len.saturating_sub(1) >> self.shift()).saturating_add(1)
    }

    /// Payload bytes of packet `index` of a message of `len` bytes, 0 past its end.
    pub const fn payload_of(self, index: u32, len: u32) -> u32 {
        let start = (index as u64) << self.shift();
        let left = (len as u64).saturating_sub(start);
        if left < self.bytes() as u64 {
            return left as u32;
        }
        self.bytes()
    }
}

/// Bytes of the longest message: 2 GiB.
pub const MAX_MESSAGE_LEN: u32 = 1 << 31;

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn sizes_are_powers_of_two_from_256() {
        let bytes: Vec<u32> = PathMtu::ALL.iter().map(|mtu| mtu.bytes()).collect();
        assert_eq!(bytes, [256, 512, 1024, 2048, 4096]);
        for mtu in PathMtu::ALL {
            assert_eq!(PathMtu::from_ib(mtu.to_ib()), Some(mtu));
        }
        assert_eq!(PathMtu::from_ib(0), None);
        assert_eq!(PathMtu::from_ib(6), None);
    }

    #[test]
    fn the_largest_mtu_that_fits_is_chosen() {
        assert_eq!(PathMtu::fitting(255), None);
        assert_eq!(PathMtu::fitting(1420), Some(PathMtu::Mtu1024));
        assert_eq!(PathMtu::fitting(4096), Some(PathMtu::Mtu4096));
        assert_eq!(PathMtu::fitting(u32::MAX), Some(PathMtu::Mtu4096));
    }

    // PROTOCOL rule 12.
    #[test]
    fn an_empty_message_is_one_packet() {
        for mtu in PathMtu::ALL {
            assert_eq!(mtu.packets(0), 1);
            assert_eq!(mtu.payload_of(0, 0), 0);
        }
    }

    #[test]
    fn the_longest_message_fills_half_the_psn_circle() {
        assert_eq!(PathMtu::Mtu256.packets(MAX_MESSAGE_LEN), 1 << 23);
        assert_eq!(PathMtu::Mtu256.packets(u32::MAX), 1 << 24);
    }

    proptest! {
        #[test]
        fn packets_are_the_length_rounded_up(len: u32, which in 0..5usize) {
            let mtu = PathMtu::ALL[which];
            prop_assert_eq!(mtu.packets(len), len.div_ceil(mtu.bytes()).max(1));
        }

        #[test]
        fn payloads_add_up_to_the_message(len in 0..100_000u32, which in 0..5usize) {
            let mtu = PathMtu::ALL[which];
            let count = mtu.packets(len);
            let sum: u32 = (0..count).map(|k| mtu.payload_of(k, len)).sum();
            prop_assert_eq!(sum, len);
            prop_assert!((0..count - 1).all(|k| mtu.payload_of(k, len) == mtu.bytes()));
            prop_assert_eq!(mtu.payload_of(count, len), 0);
        }
    }
}
