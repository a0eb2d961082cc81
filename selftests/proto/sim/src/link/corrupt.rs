// SPDX-License-Identifier: GPL-2.0

//! A node that damages frames.

use super::{
    Node,
    Parcel,
    Patience, //
};
use crate::{
    frame::Frame,
    rng::Rng, //
};

/// Flips one to three bits anywhere between the BTH and the end of the ICRC.
///
/// CRC-32 finds every error of up to three bits in packets of these sizes, so each damaged frame must
/// be noticed (damage to the masked byte of the BTH excepted, which is harmless).
pub struct Corrupt {
    per_mille: u32,
    rng: Rng,
}

impl Corrupt {
    /// Damages `per_mille` of a thousand frames.
    pub fn new(per_mille: u32, rng: Rng) -> Self {
        Self { per_mille, rng }
    }
}

impl Node for Corrupt {
    fn pass(&mut self, mut parcel: Parcel, patience: &mut Patience, out: &mut Vec<Parcel>) {
        if self.rng.chance(self.per_mille) && patience.charge(parcel.frame.flow) {
            let bits = (parcel.frame.bytes.len() - Frame::TRANSPORT_OFFSET) as u64 * 8;
            for _ in 0..self.rng.range(1, 3) {
                let bit = self.rng.below(bits) as usize;
                parcel.frame.bytes[Frame::TRANSPORT_OFFSET + bit / 8] ^= 1 << (bit % 8);
            }
        }
        out.push(parcel);
    }
}
