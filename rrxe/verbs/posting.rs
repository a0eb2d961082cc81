// SPDX-License-Identifier: GPL-2.0

//! Posting work requests by calls, as consumers inside the kernel do.
//!
//! # Locking
//!
//! Each queue has a lock of its own, taken in any context. Nothing else is locked under it.

use super::{
    limits,
    Provider, //
};
use crate::{
    kapi::{
        rdma::{
            Operands,
            ReceiveList,
            ReceiveRequest,
            SendList,
            SendRequest,
            WorkSge, //
        },
        sync::{
            new_spinlock_irq,
            SpinLockIrq, //
        },
    },
    ring::{
        abi::{
            AtomicOperands,
            DatagramOperands,
            DmaInfo,
            RdmaOperands,
            ReceiveWqe,
            RegisterOperands,
            SendWqe,
            SendWr,
            OPERAND_WORDS, //
        },
        Producer,
        ReceiveRing,
        SendRing,
        Sge, //
    },
};
use kernel::prelude::*;
use zerocopy::{
    transmute,
    IntoBytes, //
};

/// Places for elements or inline data of a request of any queue.
const CELLS: usize = limits::MAX_SGE as usize;

const NO_SGE: Sge = Sge {
    addr: 0,
    length: 0,
    lkey: 0,
};

/// The producing end of a send queue.
#[pin_data]
pub(super) struct SendPosting {
    #[pin]
    producer: SpinLockIrq<Producer>,
    max_sge: usize,
    max_inline: usize,
}

impl SendPosting {
    /// The end of `ring`, which is to have only this one. May sleep.
    pub(super) fn new(ring: &SendRing) -> Result<Pin<KBox<Self>>> {
        let caps = ring.caps();
        let posting = pin_init!(Self {
            producer <- new_spinlock_irq!(ring.producer(), "rrxe::SendPosting"),
            max_sge: caps.max_sge as usize,
            max_inline: caps.max_inline as usize,
        });
        KBox::pin_init(posting, GFP_KERNEL)
    }

    /// Puts requests in the ring, up to the first that is refused. Any context.
    ///
    /// # Errors
    ///
    /// `EINVAL` if a request has more data or elements than there is room for, `ENOMEM` if the queue
    /// is full.
    pub(super) fn post(&self, requests: &mut SendList<Provider>) -> Result {
        let mut producer = self.producer.lock();
        requests.try_each(|request| {
            let mut cells = [NO_SGE; CELLS];
            let mut head = send_head(request);
            let used = if request.is_inline() {
                let room = cells.as_mut_bytes().get_mut(..self.max_inline);
                let bytes = request.copy_inline(room.ok_or(EINVAL)?)?;
                head.dma.length = u32::try_from(bytes)?;
                bytes.div_ceil(size_of::<Sge>())
            } else {
                fill(&mut cells, self.max_sge, request.sges(), &mut head.dma)?
            };
            let cells = cells.get(..used).ok_or(EINVAL)?;
            producer.post_send(&head, cells).map_err(|_| ENOMEM)
        })
    }
}

/// The producing end of a receive queue, shared or not.
#[pin_data]
pub(super) struct ReceivePosting {
    #[pin]
    producer: SpinLockIrq<Producer>,
    max_sge: usize,
}

impl ReceivePosting {
    /// The end of `ring`, which is to have only this one. May sleep.
    pub(super) fn new(ring: &ReceiveRing) -> Result<Pin<KBox<Self>>> {
        let posting = pin_init!(Self {
            producer <- new_spinlock_irq!(ring.producer(), "rrxe::ReceivePosting"),
            max_sge: ring.caps().max_sge as usize,
        });
        KBox::pin_init(posting, GFP_KERNEL)
    }

    /// Puts requests in the ring, up to the first that is refused. Any context.
    ///
    /// # Errors
    ///
    /// `EINVAL` if a request has more elements than there is room for, `ENOMEM` if the queue is full.
    pub(super) fn post(&self, requests: &mut ReceiveList) -> Result {
        let mut producer = self.producer.lock();
        requests.try_each(|request| {
            let mut sges = [NO_SGE; CELLS];
            let mut head = receive_head(request);
            let used = fill(&mut sges, self.max_sge, request.sges(), &mut head.dma)?;
            let sges = sges.get(..used).ok_or(EINVAL)?;
            producer.post_receive(&head, sges).map_err(|_| ENOMEM)
        })
    }
}

/// Copies elements to the first `max` places, and describes them in `dma`. Returns their number.
fn fill(places: &mut [Sge], max: usize, sges: &[WorkSge], dma: &mut DmaInfo) -> Result<usize> {
    let places = places.get_mut(..max).and_then(|p| p.get_mut(..sges.len()));
    for (place, sge) in places.ok_or(EINVAL)?.iter_mut().zip(sges) {
        *place = Sge {
            addr: sge.addr(),
            length: sge.length(),
            lkey: sge.lkey(),
        };
        // A sum that is too large is found to be so when the request is taken off the ring.
        dma.length = dma.length.wrapping_add(sge.length());
    }
    dma.num_sge = u32::try_from(sges.len())?;
    Ok(sges.len())
}

const NO_DATA: DmaInfo = DmaInfo {
    length: 0,
    resid: 0,
    cur_sge: 0,
    num_sge: 0,
    sge_offset: 0,
    reserved: 0,
};

/// The element's head for a request, without data. The numbers of opcodes and flags are the same.
fn send_head(request: &SendRequest<'_, Provider>) -> SendWqe {
    SendWqe {
        wr: SendWr {
            wr_id: request.wr_id(),
            reserved: 0,
            opcode: request.opcode(),
            send_flags: request.flags(),
            ex: request.extra(),
            operands: operands(request),
        },
        stale: [0; 5],
        dma: NO_DATA,
    }
}

fn operands(request: &SendRequest<'_, Provider>) -> [u64; OPERAND_WORDS] {
    match request.operands() {
        Operands::None => [0; OPERAND_WORDS],
        Operands::Rdma { remote_addr, rkey } => transmute!(RdmaOperands {
            remote_addr,
            rkey,
            reserved: 0,
            unused: [0; OPERAND_WORDS - 2],
        }),
        Operands::Atomic {
            remote_addr,
            rkey,
            compare_add,
            swap,
        } => transmute!(AtomicOperands {
            remote_addr,
            compare_add,
            swap,
            rkey,
            reserved: 0,
            unused: [0; OPERAND_WORDS - 4],
        }),
        Operands::Register { key, va, access } => transmute!(RegisterOperands {
            addr: va,
            key,
            access,
            unused: [0; OPERAND_WORDS - 2],
        }),
        Operands::Datagram { ah, qpn, qkey } => transmute!(DatagramOperands {
            remote_qpn: qpn,
            remote_qkey: qkey,
            pkey_index: 0,
            reserved: 0,
            ah_num: ah.number(),
            pad: [0; 2],
            av: [0; 11],
        }),
    }
}

fn receive_head(request: &ReceiveRequest) -> ReceiveWqe {
    ReceiveWqe {
        wr_id: request.wr_id(),
        reserved: 0,
        dma: NO_DATA,
    }
}
