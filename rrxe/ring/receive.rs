// SPDX-License-Identifier: GPL-2.0

//! Receive queue, shared or not: user space produces, the kernel consumes.
//!
//! User space makes no system call when it posts a receive, so whoever needs one looks.

use kernel::prelude::*;

use crate::kapi::rdma::Udata;

use super::{
    abi::{
        self,
        MmInfo,
        Sge, //
    },
    index::Geometry,
    producer::Producer,
    receive_wqe::{
        ReceiveWqe,
        MAX_RECEIVE_SGE, //
    },
    shared::SharedRing,
    InvalidWqe, //
};

/// Size of a receive queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ReceiveCaps {
    /// Requests that are posted and not taken.
    pub(crate) max_wr: u32,
    /// Scatter elements of a request.
    pub(crate) max_sge: u32,
}

/// A receive queue in memory shared with user space.
pub(crate) struct ReceiveRing {
    ring: SharedRing,
    max_sge: u32,
    /// Index of the next request to take.
    consumer: u32,
}

/// What there was to take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Take {
    /// Nothing.
    Empty,
    /// A request.
    Taken,
    /// A request that makes no sense. It has its name, and completes with the error's status.
    Invalid(InvalidWqe),
}

impl ReceiveRing {
    /// Makes a queue for at least `caps`. May sleep.
    ///
    /// # Errors
    ///
    /// `EINVAL` if it would be larger than any queue may be; `ENOMEM`.
    pub(crate) fn new(caps: ReceiveCaps) -> Result<Self> {
        let sges = caps.max_sge as usize;
        if sges > MAX_RECEIVE_SGE {
            return Err(EINVAL);
        }
        let element =
            size_of::<abi::ReceiveWqe>().wrapping_add(sges.wrapping_mul(size_of::<Sge>()));
        let geometry = Geometry::new(caps.max_wr, element).ok_or(EINVAL)?;
        Ok(Self {
            ring: SharedRing::new(geometry)?,
            max_sge: caps.max_sge,
            consumer: 0,
        })
    }

    /// What the queue really holds: at least what was asked for.
    pub(crate) fn caps(&self) -> ReceiveCaps {
        ReceiveCaps {
            max_wr: self.ring.geometry().capacity(),
            max_sge: self.max_sge,
        }
    }

    /// Lets the calling process map the queue, and gives what its library needs to do so. May
    /// sleep.
    ///
    /// # Errors
    ///
    /// Those of [`Udata::share`].
    pub(crate) fn share(&self, udata: &mut Udata<'_>) -> Result<MmInfo> {
        self.ring.share(udata)
    }

    /// The producing end, for a consumer inside the kernel: there is to be one.
    pub(crate) fn producer(&self) -> Producer {
        Producer::new(self.ring.clone())
    }

    /// Takes the next posted request to `wqe`, private memory of the caller, and gives its slot
    /// back to user space. Leaves `wqe` alone if there is none.
    ///
    /// User space can post as fast as requests are taken: who takes them in a loop, as to flush
    /// the queue, must bound the loop.
    pub(crate) fn take(&mut self, wqe: &mut ReceiveWqe) -> Take {
        if self.posted() == 0 {
            return Take::Empty;
        }
        let loaded = wqe.load(&self.ring.slot(self.consumer), self.max_sge);
        self.consumer = self.ring.geometry().masked(self.consumer.wrapping_add(1));
        self.ring.publish_consumer(self.consumer);
        match loaded {
            Ok(()) => Take::Taken,
            Err(invalid) => Take::Invalid(invalid),
        }
    }

    /// How many requests are posted, as far as is known now: at most the queue's capacity.
    pub(crate) fn posted(&self) -> u32 {
        let geometry = self.ring.geometry();
        geometry.distance(self.consumer, self.ring.producer())
    }

    /// Another handle of the memory, with the index as it is now.
    pub(crate) fn snapshot(&self) -> Self {
        Self {
            ring: self.ring.clone(),
            max_sge: self.max_sge,
            consumer: self.consumer,
        }
    }

    /// Posts the requests that are posted in `old`, the queue that this one, new and of the same
    /// `max_sge`, is to replace. May take long.
    ///
    /// # Errors
    ///
    /// `EINVAL` if this queue is too small. It is of no use then.
    pub(crate) fn append_from(&mut self, old: &Self) -> Result {
        let posted = old.posted();
        if posted > self.ring.geometry().capacity() {
            return Err(EINVAL);
        }
        for distance in 0..posted {
            let request = old.ring.slot(old.consumer.wrapping_add(distance));
            self.ring.slot(distance).copy_from(&request);
        }
        self.ring.publish_producer(posted);
        Ok(())
    }

    /// How many requests have been taken since `earlier`, a snapshot.
    pub(crate) fn taken_since(&self, earlier: &Self) -> u32 {
        self.ring
            .geometry()
            .distance(earlier.consumer, self.consumer)
    }

    /// Drops the next `count` requests, or all that are posted.
    pub(crate) fn skip(&mut self, count: u32) {
        let count = count.min(self.posted());
        self.consumer = self
            .ring
            .geometry()
            .masked(self.consumer.wrapping_add(count));
        self.ring.publish_consumer(self.consumer);
    }

    /// Drops all that is posted: the queue pair is reset.
    pub(crate) fn clear(&mut self) {
        self.consumer = self.ring.producer();
        self.ring.publish_consumer(self.consumer);
    }
}
