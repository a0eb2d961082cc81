// SPDX-License-Identifier: GPL-2.0

//! Where the receive side of a queue pair has its receive work requests from.

use super::{
    memory::Memory,
    qp::Qp,
    srq::Srq, //
};
use crate::ring::{
    self,
    ReceiveCaps,
    ReceiveRing,
    ReceiveWqe,
    Sge, //
};
use rrxe_proto::rc::{
    ReceiveSource,
    Take, //
};

/// Who may take requests from the queue.
pub(crate) enum Supply {
    /// One queue pair.
    Own(ReceiveRing),
    /// All queue pairs that use it.
    Shared(Srq),
}

impl Supply {
    /// The sizes of the queue pair's own queue.
    pub(crate) fn own_caps(&self) -> ReceiveCaps {
        match self {
            Self::Own(ring) => ring.caps(),
            Self::Shared(_) => ReceiveCaps {
                max_wr: 0,
                max_sge: 0,
            },
        }
    }
}

/// The receive queue, shared or not, and the request taken from it.
///
/// A request that has been taken from a shared queue belongs to the queue pair.
pub(super) struct ReceiveQueue {
    supply: Supply,
    /// The request that the machine has taken, if it has taken one.
    wqe: ReceiveWqe,
}

/// What there is to flush in the queue.
pub(super) enum Leftover {
    /// A request with this name.
    Request(u64),
    /// Nothing that has been posted yet.
    NoneYet,
    /// Nothing ever: others may use what is in a shared queue.
    Never,
}

impl ReceiveQueue {
    /// A queue of which nothing has been taken.
    pub(super) fn new(supply: Supply) -> Self {
        Self {
            supply,
            wqe: ReceiveWqe::new(),
        }
    }

    /// The user's name for the request that has been taken.
    pub(super) fn wr_id(&self) -> u64 {
        self.wqe.wr_id()
    }

    /// Where the message goes.
    pub(super) fn sges(&self) -> &[Sge] {
        self.wqe.sges()
    }

    /// The memory that the request may name.
    pub(super) fn memory<'a>(&self, qp: &'a Qp) -> Memory<'a> {
        match &self.supply {
            Supply::Own(_) => qp.memory(),
            Supply::Shared(srq) => Memory::new(qp.node(), srq.pd(), qp.id()),
        }
    }

    /// Takes a request that is not to be used.
    pub(super) fn take_leftover(&mut self) -> Leftover {
        match &mut self.supply {
            Supply::Own(ring) => match ring.take(&mut self.wqe) {
                ring::Take::Empty => Leftover::NoneYet,
                ring::Take::Taken | ring::Take::Invalid(_) => Leftover::Request(self.wqe.wr_id()),
            },
            Supply::Shared(_) => Leftover::Never,
        }
    }

    /// Requests of the queue pair's own that have not been taken.
    pub(super) fn posted(&self) -> u32 {
        match &self.supply {
            Supply::Own(ring) => ring.posted(),
            Supply::Shared(_) => 0,
        }
    }

    /// Drops all requests that nobody else may use.
    pub(super) fn clear(&mut self) {
        match &mut self.supply {
            Supply::Own(ring) => ring.clear(),
            Supply::Shared(_) => (),
        }
    }
}

impl ReceiveSource for ReceiveQueue {
    fn take(&mut self) -> Take {
        let taken = match &mut self.supply {
            Supply::Own(ring) => ring.take(&mut self.wqe),
            Supply::Shared(srq) => srq.take(&mut self.wqe),
        };
        match taken {
            ring::Take::Empty => Take::Empty,
            ring::Take::Taken => Take::Taken {
                capacity: self.wqe.capacity(),
            },
            ring::Take::Invalid(invalid) => Take::Invalid(invalid.status()),
        }
    }
}
