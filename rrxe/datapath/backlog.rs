// SPDX-License-Identifier: GPL-2.0

//! Packets that found a side of a queue pair busy.

use super::{
    allowance::Fit,
    node::Node, //
};
use crate::kapi::net::{
    RxPacket,
    SkbQueue, //
};
use kernel::{
    prelude::*,
    sync::{
        atomic::{
            Atomic,
            Relaxed, //
        },
        Arc, //
    },
};

/// Packets that may wait while a side is busy. What does not fit is lost, and sent again.
pub(super) const MAX_PACKETS: u32 = 1024;

/// Memory that they may take whatever other backlogs of the device do, in bytes. For more there has to
/// be some left of the device's allowance: those who wait for a page may wait for long.
const OWN: usize = 64 << 10;

/// A backlog. The first packet comes out first; any context may put one in.
#[pin_data(PinnedDrop)]
pub(super) struct Backlog {
    #[pin]
    packets: SkbQueue<RxPacket>,
    /// Memory that they take, in bytes. What is beyond [`OWN`] of it is taken from the allowance, at the
    /// moment that this changes.
    bytes: Atomic<usize>,
    node: Arc<Node>,
}

impl Backlog {
    /// An empty one of a device.
    pub(super) fn new(node: Arc<Node>) -> impl PinInit<Self> {
        pin_init!(Self {
            packets <- SkbQueue::new(MAX_PACKETS),
            bytes: Atomic::new(0),
            node,
        })
    }

    /// Appends `packet`, or gives it back if there is no room.
    pub(super) fn push(&self, packet: RxPacket) -> Result<(), RxPacket> {
        let footprint = packet.footprint();
        let pushed = match self.charge(footprint) {
            Fit::Fits => self.packets.push(packet),
            Fit::Exceeds => Err(packet),
        };
        pushed.inspect_err(|_| self.give_back(footprint))
    }

    /// Puts back the packet that was taken last: it is the first again, whatever room there is.
    pub(super) fn push_front(&self, packet: RxPacket) {
        let _ = self.charge(packet.footprint());
        self.packets.push_front(packet);
    }

    /// Takes the first packet.
    pub(super) fn pop(&self) -> Option<RxPacket> {
        let packet = self.packets.pop()?;
        self.give_back(packet.footprint());
        Some(packet)
    }

    /// Whether there are no packets just now.
    pub(super) fn is_empty(&self) -> bool {
        self.packets.is_empty()
    }

    /// Accounts for `footprint` bytes more, and tells whether they fit.
    fn charge(&self, footprint: usize) -> Fit {
        let before = self.bytes.fetch_add(footprint, Relaxed);
        let after = before.saturating_add(footprint);
        let more = beyond_own(after).saturating_sub(beyond_own(before));
        self.node.backlogs().charge(more)
    }

    /// Accounts for `footprint` bytes less.
    fn give_back(&self, footprint: usize) {
        let before = self.bytes.fetch_sub(footprint, Relaxed);
        let after = before.saturating_sub(footprint);
        let less = beyond_own(before).saturating_sub(beyond_own(after));
        self.node.backlogs().give_back(less);
    }
}

fn beyond_own(bytes: usize) -> usize {
    bytes.saturating_sub(OWN)
}

#[pinned_drop]
impl PinnedDrop for Backlog {
    fn drop(self: Pin<&mut Self>) {
        while self.pop().is_some() {}
    }
}
