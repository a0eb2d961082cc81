// SPDX-License-Identifier: GPL-2.0

//! What a program on one host asks of its queue pair, and what the program on the other host
//! provides for it.

use crate::{
    agenda::Nanos,
    memory::Rights,
    scenario::Tuning, //
};

/// The operation of a work request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum Op {
    Send,
    SendImm([u8; 4]),
    SendInv(u32),
    Write {
        va: u64,
        rkey: u32,
    },
    WriteImm {
        va: u64,
        rkey: u32,
        imm: [u8; 4],
    },
    Read {
        va: u64,
        rkey: u32,
    },
    CompareSwap {
        va: u64,
        rkey: u32,
        compare: u64,
        swap: u64,
    },
    FetchAdd {
        va: u64,
        rkey: u32,
        add: u64,
    },
    AtomicWrite {
        va: u64,
        rkey: u32,
    },
    Flush {
        va: u64,
        rkey: u32,
        len: u32,
        /// As the wire has them: how far writes get, and which.
        how: (u8, u8),
    },
    Local(LocalOp),
}

/// A work of which nothing is sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LocalOp {
    /// Waits for all before it.
    Invalidate,
    /// Happens when its turn has come.
    Bind,
}

impl Op {
    /// A SEND of some kind.
    pub fn is_send(self) -> bool {
        matches!(self, Op::Send | Op::SendImm(_) | Op::SendInv(_))
    }

    /// A WRITE of some kind.
    pub fn is_write(self) -> bool {
        matches!(self, Op::Write { .. } | Op::WriteImm { .. })
    }

    /// A READ.
    pub fn is_read(self) -> bool {
        matches!(self, Op::Read { .. })
    }

    /// An atomic.
    pub fn is_atomic(self) -> bool {
        matches!(self, Op::CompareSwap { .. } | Op::FetchAdd { .. })
    }

    /// Answered by a READ response without data.
    pub fn is_confirmed(self) -> bool {
        matches!(self, Op::AtomicWrite { .. } | Op::Flush { .. })
    }

    /// Takes a credit, and ends with a response of its own.
    pub fn takes_credit(self) -> bool {
        self.is_read() || self.is_atomic() || self.is_confirmed()
    }

    /// Nothing is sent of it.
    pub fn is_local(self) -> bool {
        matches!(self, Op::Local(_))
    }

    /// Its packets carry data.
    pub fn sends_data(self) -> bool {
        self.is_send() || self.is_write() || matches!(self, Op::AtomicWrite { .. })
    }

    /// The bytes of its message, if it can have only so many.
    pub fn fixed_len(self) -> Option<u32> {
        match self {
            Op::CompareSwap { .. } | Op::FetchAdd { .. } | Op::AtomicWrite { .. } => Some(8),
            Op::Flush { .. } | Op::Local(_) => Some(0),
            _ => None,
        }
    }

    /// Uses up a receive of the other side.
    pub fn takes_receive(self) -> bool {
        self.is_send() || matches!(self, Op::WriteImm { .. })
    }
}

/// One work request.
#[derive(Clone, Debug)]
pub struct Work {
    /// When it is posted.
    pub at: Nanos,
    /// What it does.
    pub op: Op,
    /// Bytes of its message.
    pub len: u32,
    /// Success is to be reported.
    pub signaled: bool,
    /// The receiver is to be woken.
    pub solicited: bool,
    /// Waits for READs and atomics before it.
    pub fence: bool,
    /// Its local buffer turns out to be inaccessible.
    pub local_fault: bool,
    /// What it sends.
    pub payload: Vec<u8>,
}

impl Work {
    /// A signaled work posted at the beginning; its payload follows from its length.
    pub fn new(op: Op, len: u32) -> Self {
        let len = op.fixed_len().unwrap_or(len);
        let payload = if op.sends_data() {
            (0..len).map(|i| (i * 7 + len) as u8).collect()
        } else {
            Vec::new()
        };
        Self {
            at: 0,
            op,
            len,
            signaled: true,
            solicited: false,
            fence: false,
            local_fault: false,
            payload,
        }
    }

    /// The same work behind a fence.
    pub fn fenced(self) -> Self {
        Self {
            fence: true,
            ..self
        }
    }

    /// The same work, posted later.
    pub fn at(self, at: Nanos) -> Self {
        Self { at, ..self }
    }
}

/// One receive.
#[derive(Clone, Copy, Debug)]
pub struct Receive {
    /// When it is posted.
    pub at: Nanos,
    /// Bytes its buffer holds.
    pub capacity: u32,
    /// Its buffer turns out to be inaccessible.
    pub local_fault: bool,
}

/// A region at the responder.
#[derive(Clone, Debug)]
pub struct RegionPlan {
    /// Its key.
    pub rkey: u32,
    /// Its first address.
    pub base: u64,
    /// What is in it at first.
    pub bytes: Vec<u8>,
    /// What the requester may do.
    pub rights: Rights,
}

/// Attributes of one direction of a connection.
#[derive(Clone, Copy, Debug)]
pub struct Settings {
    /// Payload bytes of a full packet.
    pub mtu: u32,
    /// First PSN.
    pub psn: u32,
    /// Requester: retries after a timeout or a sequence NAK.
    pub retry_cnt: u8,
    /// Requester: retries after an RNR NAK; 7 is for ever.
    pub rnr_retry: u8,
    /// Requester: ACK timeout code; 0 is never.
    pub timeout: u8,
    /// Requester: READs and atomics in flight.
    pub max_rd_atomic: u8,
    /// Responder: READs and atomics it can hold.
    pub max_dest_rd_atomic: u8,
    /// Responder: code of the time it asks for in RNR NAKs.
    pub min_rnr_timer: u8,
    /// Requester: bytes of SEND and WRITE in flight.
    pub window_bytes: u32,
    /// Requester: packets of SEND and WRITE in flight.
    pub window_packets: u32,
    /// Responder: what its queue pair lets the peer do.
    pub access: Rights,
}

impl Settings {
    /// Changes what the requester may change.
    pub fn tune(&mut self, tuning: Tuning) {
        let Tuning {
            timeout,
            retry_cnt,
            rnr_retry,
            max_rd_atomic,
        } = tuning;
        *self = Self {
            timeout,
            retry_cnt,
            rnr_retry,
            max_rd_atomic,
            ..*self
        };
    }

    /// Settings with room for everything, and a timeout of 4 ms.
    pub const PLAIN: Self = Self {
        mtu: 256,
        psn: 0xff_fffc,
        retry_cnt: 7,
        rnr_retry: 7,
        timeout: 10,
        max_rd_atomic: 16,
        max_dest_rd_atomic: 16,
        min_rnr_timer: 1,
        window_bytes: 1 << 20,
        window_packets: 4096,
        access: Rights::ALL,
    };
}

/// Everything that one requester does to one responder.
#[derive(Clone, Debug)]
pub struct Flow {
    /// How the two are set up.
    pub settings: Settings,
    /// Posted by the requester.
    pub works: Vec<Work>,
    /// Posted by the responder.
    pub receives: Vec<Receive>,
    /// Registered by the responder.
    pub regions: Vec<RegionPlan>,
}

impl Flow {
    /// Key of the region that a plain flow has.
    pub const RKEY: u32 = 0x1000;
    /// Its first address.
    pub const BASE: u64 = 0x7f00_0000_1000;
    /// Its length.
    pub const REGION: usize = 1 << 16;
    /// Key of a small region that exists to be invalidated.
    pub const SPARE: u32 = 0x10_000;

    /// Works, a receive for each of them that needs one, and a region with every right.
    pub fn plain(settings: Settings, works: Vec<Work>) -> Self {
        let receive = |work: &Work| Receive {
            at: 0,
            capacity: work.len,
            local_fault: false,
        };
        let receives = works
            .iter()
            .filter(|work| work.op.takes_receive())
            .map(receive)
            .collect();
        let region = |rkey, len: usize| RegionPlan {
            rkey,
            base: Self::BASE,
            bytes: (0..len).map(|i| (i ^ (i >> 8)) as u8).collect(),
            rights: Rights::ALL,
        };
        let regions = vec![region(Self::RKEY, Self::REGION), region(Self::SPARE, 16)];
        Self {
            settings,
            works,
            receives,
            regions,
        }
    }

    /// Nothing to do.
    pub fn idle(settings: Settings) -> Self {
        Self::plain(settings, Vec::new())
    }

    /// How many PSNs a work request takes.
    pub fn packets(&self, work: &Work) -> u32 {
        if work.op.is_local() {
            return 0;
        }
        if work.op.is_atomic() {
            return 1;
        }
        work.len.div_ceil(self.settings.mtu).max(1)
    }

    /// First PSN of every work request, and the PSN after the last.
    pub fn psns(&self) -> Vec<u32> {
        let mut psn = self.settings.psn;
        let mut out = vec![psn];
        for work in &self.works {
            psn = (psn + self.packets(work)) & 0xff_ffff;
            out.push(psn);
        }
        out
    }
}
