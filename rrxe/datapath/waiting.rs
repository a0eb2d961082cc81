// SPDX-License-Identifier: GPL-2.0

//! Packets that arrived past a gap, until their turn comes.

use super::node::Node;
use crate::kapi::net::RxPacket;
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

/// Memory that such packets may take on one device, in bytes.
const ALLOWED: usize = 16 << 20;

/// How much more memory the packets that wait on a device may take.
pub(super) struct Allowance {
    /// Bytes in use.
    used: Atomic<usize>,
}

impl Allowance {
    /// All of it is there.
    pub(super) fn new() -> Self {
        Self {
            used: Atomic::new(0),
        }
    }

    /// Takes `bytes`, if there are as many.
    fn take(&self, bytes: usize) -> bool {
        let fits = self.used.fetch_add(bytes, Relaxed).saturating_add(bytes) <= ALLOWED;
        if !fits {
            self.give_back(bytes);
        }
        fits
    }

    /// Gives back `bytes` that were taken.
    fn give_back(&self, bytes: usize) {
        self.used.fetch_sub(bytes, Relaxed);
    }
}

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
        if !self.node.allowance().take(packet.footprint()) {
            return Err(packet);
        }
        *vacant = Some(packet);
        Ok(())
    }

    /// Takes the packet out of `place`.
    pub(super) fn take(&mut self, place: usize) -> Option<RxPacket> {
        let packet = self.places.get_mut(place)?.take()?;
        self.node.allowance().give_back(packet.footprint());
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
