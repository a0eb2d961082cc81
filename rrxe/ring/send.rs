// SPDX-License-Identifier: GPL-2.0

//! Send queue: user space produces, the kernel consumes.
//!
//! A request is copied to private memory when it is fetched, and stays there until it is retired;
//! only then user space sees its slot as free again. So the private memory is as large as the ring,
//! and whatever user space does to the shared one meanwhile is no concern of the request.

use kernel::prelude::*;
use rrxe_proto::{
    opcode::Transport,
    rc::{
        Request,
        SendQueue,
        WqeSeq, //
    }, //
    ud::{
        DatagramQueue,
        Destination, //
    },
};

use crate::kapi::rdma::Udata;

use super::{
    abi::{
        self,
        MmInfo,
        Sge, //
    },
    index::Geometry,
    producer::Producer,
    send_wqe::{
        LocalData,
        Poster,
        SendRules,
        SendWqe,
        Signalling, //
    },
    shared::SharedRing,
    InvalidWqe, //
};

/// Most gather elements of a request, of any queue.
pub(crate) const MAX_SEND_SGE: u32 = 32;

/// Most bytes of data in a request itself, of any queue.
pub(crate) const MAX_INLINE: u32 = 512;

/// Size of a send queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SendCaps {
    /// Requests that are posted and not completed.
    pub(crate) max_wr: u32,
    /// Gather elements of a request.
    pub(crate) max_sge: u32,
    /// Bytes of data in a request itself.
    pub(crate) max_inline: u32,
}

/// A send queue in memory shared with user space.
///
/// Requests are named by the number of those fetched before since the queue was made or
/// [cleared](Self::clear). Whoever has `&mut` access is the one that runs the queue pair's send
/// side.
///
/// # Invariants
///
/// - `head` to `tail` are the requests fetched and not retired, at most the ring's capacity.
/// - `wqes` has an entry for each slot of the ring, `cells` has `cells_per_wqe` entries for each.
pub(crate) struct SendRing {
    ring: SharedRing,
    rules: SendRules,
    /// Ring index of request number zero.
    origin: u32,
    head: WqeSeq,
    tail: WqeSeq,
    wqes: KVVec<SendWqe>,
    cells: KVVec<Sge>,
    cells_per_wqe: usize,
}

/// A request that has been fetched.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Fetched {
    /// Its number.
    pub(crate) seq: WqeSeq,
    /// Whether it can be carried out. If not, it completes with the error's status, in its turn.
    pub(crate) validity: Result<(), InvalidWqe>,
}

impl SendRing {
    /// Makes a queue for at least `caps`. May sleep.
    ///
    /// # Errors
    ///
    /// `EINVAL` if it would be larger than any queue may be; `ENOMEM`.
    pub(crate) fn new(
        caps: SendCaps,
        transport: Transport,
        poster: Poster,
        signalling: Signalling,
    ) -> Result<Self> {
        if caps.max_sge > MAX_SEND_SGE || caps.max_inline > MAX_INLINE {
            return Err(EINVAL);
        }
        // Elements and data share the rest of a slot.
        let cells_per_wqe =
            (caps.max_sge as usize).max((caps.max_inline as usize).div_ceil(size_of::<Sge>()));
        let data = cells_per_wqe.wrapping_mul(size_of::<Sge>());
        let geometry = Geometry::new(caps.max_wr, size_of::<abi::SendWqe>().wrapping_add(data))
            .ok_or(EINVAL)?;
        let cells = cells_per_wqe.checked_mul(geometry.slots()).ok_or(ENOMEM)?;

        // INVARIANT: Nothing has been fetched; the vectors have the sizes that they must have.
        Ok(Self {
            wqes: KVVec::from_elem(SendWqe::EMPTY, geometry.slots(), GFP_KERNEL_ACCOUNT)?,
            cells: KVVec::from_elem(Sge::default(), cells, GFP_KERNEL_ACCOUNT)?,
            cells_per_wqe,
            ring: SharedRing::new(geometry)?,
            rules: SendRules {
                transport,
                poster,
                signalling,
                max_sge: u32::try_from(cells_per_wqe)?,
                max_inline: u32::try_from(data)?,
            },
            origin: 0,
            head: WqeSeq::ZERO,
            tail: WqeSeq::ZERO,
        })
    }

    /// What the queue really holds: at least what was asked for.
    pub(crate) fn caps(&self) -> SendCaps {
        SendCaps {
            max_wr: self.ring.geometry().capacity(),
            max_sge: self.rules.max_sge,
            max_inline: self.rules.max_inline,
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

    /// Takes the next posted request to private memory, or gives `None` if there is none.
    ///
    /// However user space plays with its index, no more requests are fetched and not retired than
    /// the queue has room for. But it can post as fast as requests are retired: who does both in a
    /// loop, as to flush the queue, must bound the loop.
    pub(crate) fn fetch(&mut self) -> Option<Fetched> {
        let geometry = self.ring.geometry();
        let seq = self.tail;
        let index = self.index(seq);
        if geometry.is_full(seq.get(), self.head.get())
            || geometry.distance(index, self.ring.producer()) == 0
        {
            return None;
        }
        let place = self.place(seq);
        let cells = self.cells_range(seq);
        let cells = self.cells.get_mut(cells)?;
        let (wqe, validity) = SendWqe::load(&self.ring.slot(index), &self.rules, cells);
        *self.wqes.get_mut(place)? = wqe;
        // INVARIANT: The queue was not full.
        self.tail = seq.next();
        Some(Fetched { seq, validity })
    }

    /// Gives the slot of the oldest request that was fetched back to user space. The request is
    /// complete.
    pub(crate) fn retire(&mut self) {
        if self.head == self.tail {
            return;
        }
        // INVARIANT: There is a request to retire.
        self.head = self.head.next();
        self.ring.publish_consumer(self.index(self.head));
    }

    /// Drops all that is posted or fetched, and begins to count anew: the queue pair is reset.
    pub(crate) fn clear(&mut self) {
        // INVARIANT: Nothing is fetched any more.
        self.origin = self.ring.producer();
        self.head = WqeSeq::ZERO;
        self.tail = WqeSeq::ZERO;
        self.ring.publish_consumer(self.origin);
    }

    /// A request that has been fetched and not retired.
    pub(crate) fn wqe(&self, seq: WqeSeq) -> &SendWqe {
        self.wqes.get(self.place(seq)).unwrap_or(&SendWqe::EMPTY)
    }

    /// Local side of a request that has been fetched and not retired.
    pub(crate) fn local(&self, seq: WqeSeq) -> LocalData<'_> {
        let cells = self.cells.get(self.cells_range(seq));
        self.wqe(seq).local(cells.unwrap_or_default())
    }

    /// Ring index of a request.
    fn index(&self, seq: WqeSeq) -> u32 {
        self.ring
            .geometry()
            .masked(self.origin.wrapping_add(seq.get()))
    }

    /// Where a request is kept. There is such a place, by the type invariants.
    fn place(&self, seq: WqeSeq) -> usize {
        self.ring.geometry().masked(seq.get()) as usize
    }

    /// Where its elements or its data are kept. There are such cells, by the type invariants.
    fn cells_range(&self, seq: WqeSeq) -> core::ops::Range<usize> {
        let start = self.place(seq).wrapping_mul(self.cells_per_wqe);
        start..start.wrapping_add(self.cells_per_wqe)
    }
}

impl SendQueue for SendRing {
    fn request(&self, wqe: WqeSeq) -> &Request {
        self.wqe(wqe).request()
    }
}

impl DatagramQueue for SendRing {
    fn destination(&self, wqe: WqeSeq) -> Option<Destination> {
        Some(self.wqe(wqe).addressee()?.destination)
    }
}
