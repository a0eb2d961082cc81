// SPDX-License-Identifier: GPL-2.0

//! Nodes that lose frames.

use super::{
    Node,
    Parcel,
    Patience, //
};
use crate::{
    agenda::Nanos,
    rng::Rng, //
};

/// Loses each frame with the same probability.
pub struct Loss {
    per_mille: u32,
    rng: Rng,
}

impl Loss {
    /// Loses `per_mille` of a thousand frames.
    pub fn new(per_mille: u32, rng: Rng) -> Self {
        Self { per_mille, rng }
    }
}

impl Node for Loss {
    fn pass(&mut self, parcel: Parcel, patience: &mut Patience, out: &mut Vec<Parcel>) {
        let lost = self.rng.chance(self.per_mille) && patience.charge(parcel.frame.flow);
        if !lost {
            out.push(parcel);
        }
    }
}

/// Loses runs of consecutive frames.
pub struct BurstLoss {
    per_mille: u32,
    longest: u64,
    left: u64,
    rng: Rng,
}

impl BurstLoss {
    /// Begins a burst of 1 to `longest` frames with a probability of `per_mille` a frame.
    pub fn new(per_mille: u32, longest: u64, rng: Rng) -> Self {
        Self {
            per_mille,
            longest,
            left: 0,
            rng,
        }
    }
}

impl Node for BurstLoss {
    fn pass(&mut self, parcel: Parcel, patience: &mut Patience, out: &mut Vec<Parcel>) {
        if self.left == 0 && self.rng.chance(self.per_mille) {
            self.left = self.rng.range(1, self.longest);
        }
        if self.left > 0 {
            self.left -= 1;
            if patience.charge(parcel.frame.flow) {
                return;
            }
        }
        out.push(parcel);
    }
}

/// Loses exactly the n-th frame (the first is 0) that enters it.
pub struct DropNth {
    left: u64,
    spent: bool,
}

impl DropNth {
    /// Loses frame number `n`.
    pub fn new(n: u64) -> Self {
        Self {
            left: n,
            spent: false,
        }
    }
}

impl Node for DropNth {
    fn pass(&mut self, parcel: Parcel, patience: &mut Patience, out: &mut Vec<Parcel>) {
        if !self.spent && self.left == 0 {
            self.spent = true;
            patience.charge(parcel.frame.flow);
            return;
        }
        self.left = self.left.saturating_sub(1);
        out.push(parcel);
    }
}

/// Loses everything from a moment on: the cable is cut.
pub struct Cut {
    from: Nanos,
}

impl Cut {
    /// Loses every frame that would pass at `from` or later.
    pub fn new(from: Nanos) -> Self {
        Self { from }
    }
}

impl Node for Cut {
    fn pass(&mut self, parcel: Parcel, _: &mut Patience, out: &mut Vec<Parcel>) {
        if parcel.at < self.from {
            out.push(parcel);
        }
    }
}
