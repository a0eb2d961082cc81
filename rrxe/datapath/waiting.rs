// SPDX-License-Identifier: GPL-2.0

//! Packets that arrived past a gap, until their turn comes.

use super::{
    allowance::Fit,
    node::Node, //
};
use crate::kapi::net::RxPacket;
use kernel::{
    prelude::*,
    sync::Arc, //
};

/// The packets that wait at one queue pair, by the number of the place that each was given.
pub(super) struct Waiting {
    node: Arc<Node>,
    places: KVec<Option<RxPacket>>,
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
        })
    }

    /// Stores `packet` in `place`. Gives it back if there is no such place, or no memory for more.
    pub(super) fn store(&mut self, place: usize, packet: RxPacket) -> Result<(), RxPacket> {
        let Some(vacant @ None) = self.places.get_mut(place) else {
            return Err(packet);
        };
        let footprint = packet.footprint();
        if self.node.past_gaps().charge(footprint) == Fit::Exceeds {
            self.node.past_gaps().give_back(footprint);
            return Err(packet);
        }
        *vacant = Some(packet);
        Ok(())
    }

    /// Takes the packet out of `place`.
    pub(super) fn take(&mut self, place: usize) -> Option<RxPacket> {
        let packet = self.places.get_mut(place)?.take()?;
        self.node.past_gaps().give_back(packet.footprint());
        Some(packet)
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
