// SPDX-License-Identifier: GPL-2.0

//! Packets that arrived past a gap, until their turn comes.

use super::node::Node;
use crate::kapi::{
    net::RxPacket,
    time::now, //
};
use core::time::Duration;
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
use rrxe_proto::{
    rc::share,
    time::Instant, //
};

/// Memory that such packets may take on one device, in bytes.
const ALLOWED: usize = 16 << 20;

/// How long packets wait without one of them being taken out. Whoever sends what is missing has done
/// so by then, and whoever has not is gone, or hostile.
const PATIENCE: Duration = Duration::from_secs(10);

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

    /// Takes `bytes` for a queue pair that holds `held`, if there are as many for it.
    fn take(&self, held: usize, bytes: usize) -> bool {
        let used = self.used.fetch_add(bytes, Relaxed);
        let fits = share::may_take(ALLOWED, used, held, bytes);
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
        if !self.node.allowance().take(self.held, bytes) {
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
        self.node.allowance().give_back(packet.footprint());
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
