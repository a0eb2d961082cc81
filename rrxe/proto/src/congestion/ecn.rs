// SPDX-License-Identifier: GPL-2.0

//! What an IP header says about congestion.

/// The two low bits of a traffic class (type of service in IPv4).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Ecn {
    /// The sender does not react to marks: a congested queue drops the packet.
    NotCapable = 0,
    /// ECT(1): the sender reacts to marks.
    Capable1 = 1,
    /// ECT(0): the sender reacts to marks.
    Capable0 = 2,
    /// CE: the packet met a congested queue.
    Experienced = 3,
}

impl Ecn {
    /// The bits of a traffic class that it takes.
    pub const MASK: u8 = 3;

    /// What `traffic_class` says.
    pub const fn of(traffic_class: u8) -> Self {
        match traffic_class & Self::MASK {
            0 => Self::NotCapable,
            1 => Self::Capable1,
            2 => Self::Capable0,
            _ => Self::Experienced,
        }
    }

    /// `traffic_class` with this in place of what it says.
    pub const fn put(self, traffic_class: u8) -> u8 {
        traffic_class & !Self::MASK | self as u8
    }
}
