// SPDX-License-Identifier: GPL-2.0

//! A node that takes time, and keeps the order of frames.

use super::{
    Node,
    Parcel,
    Patience, //
};
use crate::{
    agenda::Nanos,
    rng::Rng, //
};

/// Adds a latency and a jitter; frames do not overtake each other.
pub struct Delay {
    latency: Nanos,
    jitter: Nanos,
    last: Nanos,
    rng: Rng,
}

impl Delay {
    /// Delays by `latency` and up to `jitter` more.
    pub fn new(latency: Nanos, jitter: Nanos, rng: Rng) -> Self {
        Self {
            latency,
            jitter,
            last: 0,
            rng,
        }
    }
}

impl Node for Delay {
    fn pass(&mut self, mut parcel: Parcel, _: &mut Patience, out: &mut Vec<Parcel>) {
        parcel.at += self.latency + self.rng.below(self.jitter + 1);
        parcel.at = parcel.at.max(self.last);
        self.last = parcel.at;
        out.push(parcel);
    }
}
