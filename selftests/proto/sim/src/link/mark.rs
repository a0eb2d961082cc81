// SPDX-License-Identifier: GPL-2.0

//! A node that marks frames as if they had met congestion.

use super::{
    Node,
    Parcel,
    Patience, //
};
use crate::rng::Rng;

/// Marks some of the frames whose sender reacts to that.
pub struct Mark {
    per_mille: u32,
    rng: Rng,
}

impl Mark {
    /// Marks `per_mille` of a thousand frames.
    pub fn new(per_mille: u32, rng: Rng) -> Self {
        Self { per_mille, rng }
    }
}

impl Node for Mark {
    fn pass(&mut self, mut parcel: Parcel, _: &mut Patience, out: &mut Vec<Parcel>) {
        if self.rng.chance(self.per_mille) {
            parcel.frame.mark();
        }
        out.push(parcel);
    }
}
