// SPDX-License-Identifier: GPL-2.0

//! A node that delivers some frames twice.

use super::{
    Node,
    Parcel,
    Patience, //
};
use crate::{
    agenda::Nanos,
    rng::Rng, //
};

/// Copies some frames; the copy arrives at the same time or later.
pub struct Duplicate {
    per_mille: u32,
    longest: Nanos,
    rng: Rng,
}

impl Duplicate {
    /// Copies `per_mille` of a thousand frames, the copy being late by up to `longest`.
    pub fn new(per_mille: u32, longest: Nanos, rng: Rng) -> Self {
        Self {
            per_mille,
            longest,
            rng,
        }
    }
}

impl Node for Duplicate {
    fn pass(&mut self, parcel: Parcel, patience: &mut Patience, out: &mut Vec<Parcel>) {
        if self.rng.chance(self.per_mille) && patience.charge(parcel.frame.flow) {
            let mut copy = parcel.clone();
            copy.at += self.rng.below(self.longest + 1);
            out.push(copy);
        }
        out.push(parcel);
    }
}
