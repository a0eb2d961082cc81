// SPDX-License-Identifier: GPL-2.0

//! Completion queue of a user process: the kernel produces, user space consumes.

use kernel::prelude::*;
use rrxe_proto::{
    status::{
        WcOpcode,
        WcStatus, //
    },
    Imm,
    Key,
    Qpn, //
};
use zerocopy::transmute;

use crate::kapi::rdma::Udata;

use super::{
    abi::{
        wc_flags,
        MmInfo,
        UverbsWc, //
    },
    element::Element,
    index::Geometry,
    shared::SharedRing, //
};

/// Bytes of an element: room for a completion, and never less than the user library expects.
const ELEMENT: usize = 64;

/// Words of a completion.
const WC_WORDS: usize = size_of::<UverbsWc>() / size_of::<u64>();

/// Words of an element.
const ELEMENT_WORDS: usize = ELEMENT / size_of::<u64>();

/// Four bytes that a completion may carry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum WcExtra {
    /// Immediate data.
    Imm(Imm),
    /// The key that was invalidated.
    Invalidated(Key),
}

/// A work completion.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Wc {
    /// The user's name for the request.
    pub(crate) wr_id: u64,
    /// How the request ended.
    pub(crate) status: WcStatus,
    /// What it was.
    pub(crate) opcode: WcOpcode,
    /// The local queue pair.
    pub(crate) qpn: Qpn,
    /// Bytes of the message.
    pub(crate) byte_len: u32,
    /// Immediate data or an invalidated key.
    pub(crate) extra: Option<WcExtra>,
    /// Whether it wakes who waits for solicited completions. Errors always do.
    pub(crate) solicited: bool,
    /// Where a datagram came from.
    pub(crate) datagram: Option<Datagram>,
}

/// What the completion of a received datagram says besides.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Datagram {
    /// The sender.
    pub(crate) src_qp: Qpn,
    /// Index of the partition key.
    pub(crate) pkey_index: u16,
    /// Service level.
    pub(crate) sl: u8,
    /// The VLAN that it came by, if it came by one.
    pub(crate) vlan: Option<u16>,
}

impl Wc {
    /// Number of a device's only port.
    const PORT: u8 = 1;

    /// What a place holds that no completion was stored in.
    pub(crate) const EMPTY: Self =
        Self::new(0, WcOpcode::Send, WcStatus::Success, Qpn::truncate(0));

    /// A completion that tells no more than how a request ended.
    pub(crate) const fn new(wr_id: u64, opcode: WcOpcode, status: WcStatus, qpn: Qpn) -> Self {
        Self {
            wr_id,
            status,
            opcode,
            qpn,
            byte_len: 0,
            extra: None,
            solicited: false,
            datagram: None,
        }
    }

    /// The same, for a datagram that came by `vlan`.
    pub(crate) fn by_vlan(mut self, vlan: Option<u16>) -> Self {
        if let Some(datagram) = &mut self.datagram {
            datagram.vlan = vlan;
        }
        self
    }

    /// Whether it wakes who waits for solicited completions.
    pub(crate) fn is_solicited(&self) -> bool {
        self.solicited || self.status != WcStatus::Success
    }

    /// What user space reads.
    fn encode(&self) -> [u64; WC_WORDS] {
        let (extra_flags, ex) = match self.extra {
            None => (0, [0; 4]),
            Some(WcExtra::Imm(Imm(bytes))) => (wc_flags::WITH_IMM, bytes),
            Some(WcExtra::Invalidated(key)) => (wc_flags::WITH_INVALIDATE, key.0.to_ne_bytes()),
        };
        let datagram_flags = self.datagram.map_or(0, |_| wc_flags::GRH);
        let wc = UverbsWc {
            wr_id: self.wr_id,
            status: self.status.code(),
            opcode: self.opcode.code(),
            vendor_err: 0,
            byte_len: self.byte_len,
            ex,
            qp_num: self.qpn.get(),
            src_qp: self.datagram.map_or(0, |datagram| datagram.src_qp.get()),
            wc_flags: extra_flags | datagram_flags,
            pkey_index: self.datagram.map_or(0, |datagram| datagram.pkey_index),
            slid: 0,
            sl: self.datagram.map_or(0, |datagram| datagram.sl),
            dlid_path_bits: 0,
            port_num: Self::PORT,
            reserved: 0,
        };
        transmute!(wc)
    }
}

/// There is no room for a completion.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Full;

/// A completion queue in memory shared with user space.
///
/// The index in `producer` is the one that counts; what user space writes over the shared one goes
/// unnoticed.
pub(crate) struct CompletionRing {
    ring: SharedRing,
    /// Index of the next completion to write.
    producer: u32,
}

impl CompletionRing {
    /// Makes a queue for at least `entries` completions. May sleep.
    ///
    /// # Errors
    ///
    /// `EINVAL` if it would be larger than any queue may be; `ENOMEM`.
    pub(crate) fn new(entries: u32) -> Result<Self> {
        let geometry = Geometry::new(entries, ELEMENT).ok_or(EINVAL)?;
        Ok(Self {
            ring: SharedRing::new(geometry)?,
            producer: 0,
        })
    }

    /// How many completions the queue really holds: at least as many as were asked for.
    pub(crate) fn capacity(&self) -> u32 {
        self.ring.geometry().capacity()
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

    /// How many completions user space has not polled, as far as is known now.
    pub(crate) fn pending(&self) -> u32 {
        let geometry = self.ring.geometry();
        geometry.distance(self.ring.consumer(), self.producer)
    }

    /// Appends a completion. User space sees it at once.
    ///
    /// # Errors
    ///
    /// [`Full`] if user space has not polled enough.
    pub(crate) fn push(&mut self, wc: &Wc) -> Result<(), Full> {
        self.push_words(&wc.encode())
    }

    /// Another handle of the memory, with the indices as they are now.
    pub(crate) fn snapshot(&self) -> Self {
        Self {
            ring: self.ring.clone(),
            producer: self.producer,
        }
    }

    /// Index of the oldest completion that user space has not polled.
    pub(crate) fn first_pending(&self) -> u32 {
        self.ring.consumer()
    }

    /// Appends the completions of `old`, the queue that this one is to replace, from the index
    /// `first` on. Gives the index of the next one, which may be written meanwhile.
    ///
    /// # Errors
    ///
    /// [`Full`] if this queue is too small. It is of no use then.
    pub(crate) fn append_from(&mut self, old: &Self, first: u32) -> Result<u32, Full> {
        for distance in 0..old.ring.geometry().distance(first, old.producer) {
            let slot = old.ring.slot(first.wrapping_add(distance));
            self.push_words(&slot.words::<ELEMENT_WORDS>(0))?;
        }
        Ok(old.producer)
    }

    fn push_words(&mut self, words: &[u64]) -> Result<(), Full> {
        let geometry = self.ring.geometry();
        if geometry.is_full(self.producer, self.ring.consumer()) {
            return Err(Full);
        }
        self.ring.slot(self.producer).write(0, words);
        self.producer = geometry.masked(self.producer.wrapping_add(1));
        self.ring.publish_producer(self.producer);
        Ok(())
    }
}
