// SPDX-License-Identifier: GPL-2.0

//! A node in which some frames are overtaken by later ones.

use super::{
    Node,
    Parcel,
    Patience, //
};
use crate::{
    agenda::Nanos,
    rng::Rng, //
};

/// Holds some frames back.
pub struct Reorder {
    per_mille: u32,
    longest: Nanos,
    rng: Rng,
}

impl Reorder {
    /// Holds `per_mille` of a thousand frames back for up to `longest`.
    pub fn new(per_mille: u32, longest: Nanos, rng: Rng) -> Self {
        Self {
            per_mille,
            longest,
            rng,
        }
    }
}

impl Node for Reorder {
    fn pass(&mut self, mut parcel: Parcel, patience: &mut Patience, out: &mut Vec<Parcel>) {
        if self.rng.chance(self.per_mille) && patience.charge(parcel.frame.flow) {
            parcel.at += self.rng.range(1, self.longest);
        }
        out.push(parcel);
    }
}
