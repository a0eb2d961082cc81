// SPDX-License-Identifier: GPL-2.0

//! A scenario: programs for both ends of some queue pairs, the link between them, and what must come
//! of it. All of it follows from one seed.

mod generate;

use rrxe_proto::congestion::ReactionParams;

use crate::{
    agenda::Nanos,
    link::{
        BurstLoss,
        Corrupt,
        Cut,
        Delay,
        DropNth,
        Duplicate,
        Link,
        Loss,
        Mark,
        Reorder, //
    },
    program::Flow,
    rng::Rng, //
};

/// What kind of trouble a scenario brings, hence what may come of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Family {
    /// A perfect link: everything succeeds, and nothing is sent twice.
    Clean,
    /// Loss, copies, damage, delay, late receives, senders that cannot send, but never more bad luck
    /// than the retries allow: everything succeeds.
    Rough,
    /// One work is wrong in some way, or loses the right to what it does, and fails as it should.
    Refusal,
    /// The link is cut, or one end goes to the error state: retries end after exactly `retry_cnt`.
    Death,
    /// A receive is never posted: RNR retries end after exactly `rnr_retry`.
    Starved,
    /// A bad link without mercy, any settings: works may fail, but only in the ways they may.
    Lossy,
}

/// What becomes of the works of one flow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    /// All of them succeed.
    Succeeds,
    /// Those before `work` succeed, it fails with one of the statuses, those after it are flushed.
    Fails {
        /// Index of the work.
        work: usize,
        /// Statuses by their `ib_wc_status` number.
        statuses: &'static [u32],
    },
    /// Some succeed, one may fail for lack of answers or with one of the statuses, the rest is
    /// flushed.
    May {
        /// Statuses by their `ib_wc_status` number.
        statuses: &'static [u32],
    },
}

/// A node of a link, before it is built.
#[derive(Clone, Copy, Debug)]
#[allow(missing_docs)]
pub enum NodePlan {
    Delay { latency: Nanos, jitter: Nanos },
    Loss { per_mille: u32 },
    BurstLoss { per_mille: u32, longest: u64 },
    Duplicate { per_mille: u32, longest: Nanos },
    Reorder { per_mille: u32, longest: Nanos },
    Corrupt { per_mille: u32 },
    DropNth { n: u64 },
    Mark { per_mille: u32 },
    Cut { from: Nanos },
}

/// Something that happens at an endpoint besides posting.
#[derive(Clone, Copy, Debug)]
#[allow(missing_docs)]
pub enum Incident {
    /// The send queue drains.
    Drain,
    /// The send queue goes on.
    Resume,
    /// The program changes what its requests are sent with, unless the send queue has not drained.
    Retune(Tuning),
    /// The responder's program changes what requests are answered with.
    Readjust {
        max_dest_rd_atomic: u8,
        min_rnr_timer: u8,
    },
    /// The responder's program makes a key invalid.
    Invalidate { rkey: u32 },
    /// The responder drops what came past a gap.
    Forget,
    /// The program moves the queue pair to the error state.
    Error,
}

/// Attributes of a requester that may change while it lives.
#[derive(Clone, Copy, Debug)]
#[allow(missing_docs)]
pub struct Tuning {
    pub timeout: u8,
    pub retry_cnt: u8,
    pub rnr_retry: u8,
    pub max_rd_atomic: u8,
}

/// How the pages of what a requester sends come.
#[derive(Clone, Copy, Debug)]
pub struct Paging {
    /// Packets of a thousand whose page is not there when they are sent.
    pub missing_per_mille: u32,
    /// How long it takes at most to come.
    pub longest: Nanos,
}

impl Paging {
    /// All are there.
    pub const NONE: Self = Self {
        missing_per_mille: 0,
        longest: 1,
    };
}

/// One end of a connection: requester of one flow, responder of the other.
#[derive(Clone, Debug)]
pub struct EndPlan {
    /// What it asks of its peer.
    pub flow: Flow,
    /// What must come of that.
    pub fate: Fate,
    /// Work requests its send queue holds.
    pub depth: u32,
    /// Plans of a thousand that can be sent only in part.
    pub unsent_per_mille: u32,
    /// How the data of what it sends comes.
    pub paging: Paging,
    /// Packets of a thousand that came past a gap and for which there is no room.
    pub unkept_per_mille: u32,
    /// Packets it sends at most in one go.
    pub budget: u32,
    /// How it reacts to congestion, if it does.
    pub control: Option<ReactionParams>,
    /// How long it takes at most to get round to sending.
    pub lag: Nanos,
    /// What else happens.
    pub incidents: Vec<(Nanos, Incident)>,
}

/// A whole scenario.
#[derive(Clone, Debug)]
pub struct Scenario {
    /// What all of it follows from.
    pub seed: u64,
    /// What kind it is.
    pub family: Family,
    /// Faults a requester suffers between two steps forward; `None` is any number.
    pub patience: Option<u32>,
    /// The link from each host to the other.
    pub links: [Vec<NodePlan>; 2],
    /// Ends: `2 * i` on one host is connected to `2 * i + 1` on the other.
    pub ends: Vec<EndPlan>,
}

impl Scenario {
    /// The scenario of `seed`.
    pub fn random(seed: u64) -> Self {
        generate::scenario(seed)
    }

    /// One connection over a link with a latency of 5 us and nothing else, for tests that fill in the
    /// rest.
    pub fn plain(flows: [Flow; 2]) -> Self {
        let end = |flow| EndPlan {
            flow,
            fate: Fate::Succeeds,
            depth: 64,
            unsent_per_mille: 0,
            paging: Paging::NONE,
            unkept_per_mille: 0,
            budget: 64,
            control: None,
            lag: 0,
            incidents: Vec::new(),
        };
        let link = vec![NodePlan::Delay {
            latency: 5_000,
            jitter: 0,
        }];
        Self {
            seed: 0,
            family: Family::Clean,
            patience: None,
            links: [link.clone(), link],
            ends: flows.map(end).into(),
        }
    }

    /// Builds the link that leaves host `side`.
    pub fn link(&self, side: usize, rng: &mut Rng) -> Link {
        self.links[side]
            .iter()
            .fold(Link::new(), |link, &node| match node {
                NodePlan::Delay { latency, jitter } => {
                    link.through(Delay::new(latency, jitter, rng.fork()))
                }
                NodePlan::Loss { per_mille } => link.through(Loss::new(per_mille, rng.fork())),
                NodePlan::BurstLoss { per_mille, longest } => {
                    link.through(BurstLoss::new(per_mille, longest, rng.fork()))
                }
                NodePlan::Duplicate { per_mille, longest } => {
                    link.through(Duplicate::new(per_mille, longest, rng.fork()))
                }
                NodePlan::Reorder { per_mille, longest } => {
                    link.through(Reorder::new(per_mille, longest, rng.fork()))
                }
                NodePlan::Corrupt { per_mille } => {
                    link.through(Corrupt::new(per_mille, rng.fork()))
                }
                NodePlan::Mark { per_mille } => link.through(Mark::new(per_mille, rng.fork())),
                NodePlan::DropNth { n } => link.through(DropNth::new(n)),
                NodePlan::Cut { from } => link.through(Cut::new(from)),
            })
    }
}
