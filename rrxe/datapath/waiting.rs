// SPDX-License-Identifier: GPL-2.0

//! Packets that arrived past a gap, until their turn comes.

use super::{
    allowance::Fit,
    node::Node, //
};
use crate::kapi::{
    net::RxPacket,
    time::now, //
};
use core::time::Duration;
use kernel::{
    prelude::*,
    sync::Arc, //
};
use rrxe_proto::time::Instant;

/// How long packets wait without one of them being taken out. Whoever sends what is missing has done
/// so by then, and whoever has not is gone, or hostile.
const PATIENCE: Duration = Duration::from_secs(10);

/// The packets that wait at one queue pair, by the number of the place that each was given.
pub(super) struct Waiting {
    node: Arc<Node>,
    places: KVec<Option<RxPacket>>,
    /// Bytes that the packets take.
    held: usize,
    /// When they became stale, or will: [`PATIENCE`] after the first was stored or one taken out.
    stale_at: Instant,
}

impl Waiting {
    /// No packet, and as many places as `places`. May sleep.
    pub(super) fn new(node: Arc<Node>, places: usize) -> Result<Self> {
        let mut empty = KVec::with_capacity(places, GFP_KERNEL)?;
        for _ in 0..places {
            empty.push_within_capacity(None)?;
        }
        Ok(Self {
            node,
            places: empty,
            held: 0,
            stale_at: now(),
        })
    }

    /// Stores `packet` in `place`. Gives it back if there is no such place, or no memory for more.
    pub(super) fn store(&mut self, place: usize, packet: RxPacket) -> Result<(), RxPacket> {
        let Some(vacant @ None) = self.places.get_mut(place) else {
            return Err(packet);
        };
        let bytes = packet.footprint();
        if self.node.past_gaps().take_share(self.held, bytes) == Fit::Exceeds {
            return Err(packet);
        }
        *vacant = Some(packet);
        if self.held == 0 {
            self.stale_at = now().saturating_add(PATIENCE);
        }
        self.held = self.held.saturating_add(bytes);
        Ok(())
    }

    /// Takes the packet out of `place`.
    pub(super) fn take(&mut self, place: usize) -> Option<RxPacket> {
        let packet = self.places.get_mut(place)?.take()?;
        self.node.past_gaps().give_back(packet.footprint());
        self.held = self.held.saturating_sub(packet.footprint());
        if self.held != 0 {
            self.stale_at = now().saturating_add(PATIENCE);
        }
        Some(packet)
    }

    /// When the packets become stale, if there are any.
    pub(super) fn stale_at(&self) -> Option<Instant> {
        (self.held != 0).then_some(self.stale_at)
    }

    /// Drops all packets.
    pub(super) fn clear(&mut self) {
        for place in 0..self.places.len() {
            drop(self.take(place));
        }
    }
}

impl Drop for Waiting {
    fn drop(&mut self) {
        self.clear();
    }
}
