// SPDX-License-Identifier: GPL-2.0

//! One direction of a cable: a chain of nodes, each of which may lose, copy, delay, mark or
//! damage what passes through it.

mod bottleneck;
mod corrupt;
mod delay;
mod duplicate;
mod loss;
mod mark;
mod reorder;

pub use bottleneck::{Bottleneck, Port};
pub use corrupt::Corrupt;
pub use delay::Delay;
pub use duplicate::Duplicate;
pub use loss::{BurstLoss, Cut, DropNth, Loss};
pub use mark::Mark;
pub use reorder::Reorder;

use crate::{
    agenda::Nanos,
    frame::Frame, //
};

/// A frame on its way, and when it arrives at the next node.
#[derive(Clone, Debug)]
pub struct Parcel {
    /// Time of arrival.
    pub at: Nanos,
    /// What arrives.
    pub frame: Frame,
}

/// An element of a link.
pub trait Node {
    /// Takes one parcel and puts what becomes of it into `out`.
    fn pass(&mut self, parcel: Parcel, patience: &mut Patience, out: &mut Vec<Parcel>);
}

/// How many more faults each requester has to suffer before it is given a chance to make progress.
///
/// A scenario that must succeed needs a bound on bad luck: no more than a few faults between two
/// steps forward, fewer than `retry_cnt`. Faults are charged to the requester whose request or
/// response they hit.
#[derive(Clone, Debug)]
pub struct Patience {
    limit: Option<u32>,
    spent: Vec<u32>,
    total: u64,
}

impl Patience {
    /// No bound on bad luck.
    pub fn endless() -> Self {
        Self {
            limit: None,
            spent: Vec::new(),
            total: 0,
        }
    }

    /// At most `limit` faults for a requester between two steps forward.
    pub fn limited(limit: u32) -> Self {
        Self {
            limit: Some(limit),
            spent: Vec::new(),
            total: 0,
        }
    }

    /// May the requester `flow` suffer one more fault? Charges it if so.
    pub fn charge(&mut self, flow: usize) -> bool {
        if let Some(limit) = self.limit {
            if self.spent.len() <= flow {
                self.spent.resize(flow + 1, 0);
            }
            if self.spent[flow] >= limit {
                return false;
            }
            self.spent[flow] += 1;
        }
        self.total += 1;
        true
    }

    /// The requester `flow` has made progress.
    pub fn renew(&mut self, flow: usize) {
        if let Some(spent) = self.spent.get_mut(flow) {
            *spent = 0;
        }
    }

    /// Faults suffered so far by all.
    pub fn total(&self) -> u64 {
        self.total
    }
}

/// A chain of nodes.
#[derive(Default)]
pub struct Link {
    nodes: Vec<Box<dyn Node>>,
}

impl Link {
    /// A perfect link, in no time.
    pub fn new() -> Self {
        Self::default()
    }

    /// The same link with one more node at its far end.
    pub fn through(mut self, node: impl Node + 'static) -> Self {
        self.nodes.push(Box::new(node));
        self
    }

    /// What comes out at the far end of a frame put in `now`.
    pub fn carry(&mut self, now: Nanos, frame: Frame, patience: &mut Patience) -> Vec<Parcel> {
        let mut parcels = vec![Parcel { at: now, frame }];
        for node in &mut self.nodes {
            let mut out = Vec::with_capacity(parcels.len());
            for parcel in parcels {
                node.pass(parcel, patience, &mut out);
            }
            parcels = out;
        }
        parcels
    }
}
