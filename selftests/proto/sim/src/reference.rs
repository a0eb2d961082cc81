// SPDX-License-Identifier: GPL-2.0

//! The reference: what must happen when the works of a flow are executed once each, in order.
//!
//! Everything is computed from the program alone. Packets are numbered by their distance from the
//! first PSN of the flow, so nothing here wraps.

use std::collections::HashMap;

use crate::program::{
    Flow,
    Op,
    Settings,
    Work, //
};

/// What a responder is about to do because of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum Deed<'a> {
    Receive {
        offset: u64,
        data: &'a [u8],
    },
    Write {
        rkey: u32,
        va: u64,
        data: &'a [u8],
        /// Bytes from `va` on to which access is asked for: to the end of the message.
        remaining: u32,
    },
    Read {
        rkey: u32,
        va: u64,
        len: u32,
    },
    CompareSwap {
        rkey: u32,
        va: u64,
        compare: u64,
        swap: u64,
    },
    FetchAdd {
        rkey: u32,
        va: u64,
        add: u64,
    },
    AtomicWrite {
        rkey: u32,
        va: u64,
        data: &'a [u8],
    },
    Flush {
        rkey: u32,
        va: u64,
        len: u32,
        how: (u8, u8),
    },
    Nothing,
}

/// A violated expectation, in words.
pub type Violation = String;

/// The model of one flow.
#[derive(Debug)]
pub struct Reference {
    flow: Flow,
    /// First packet of every work, and the packet after the last.
    starts: Vec<u32>,
    /// Messages before every work, and in all: local works are none.
    ordinals: Vec<usize>,
    /// What each READ should place, what each atomic should find.
    results: Vec<Vec<u8>>,
    /// Memory after all works.
    last: HashMap<u32, Vec<u8>>,
    /// Packets executed by the responder.
    executed: u32,
}

impl Reference {
    /// Runs the program of `flow` in the model.
    pub fn new(flow: Flow) -> Self {
        let (mut starts, mut ordinals) = (vec![0], vec![0]);
        for work in &flow.works {
            starts.push(starts[starts.len() - 1] + flow.packets(work));
            ordinals.push(ordinals[ordinals.len() - 1] + usize::from(!work.op.is_local()));
        }
        let mut memory: HashMap<u32, (u64, Vec<u8>)> = flow
            .regions
            .iter()
            .map(|r| (r.rkey, (r.base, r.bytes.clone())))
            .collect();
        let results = flow
            .works
            .iter()
            .map(|work| run(&mut memory, work))
            .collect();
        let last = memory
            .into_iter()
            .map(|(rkey, (_, bytes))| (rkey, bytes))
            .collect();
        Self {
            flow,
            starts,
            ordinals,
            results,
            last,
            executed: 0,
        }
    }

    /// The program.
    pub fn flow(&self) -> &Flow {
        &self.flow
    }

    /// The attributes of both sides, to be changed.
    pub fn settings(&mut self) -> &mut Settings {
        &mut self.flow.settings
    }

    /// First packet of work `index`; of the one past the last, the number of packets in all.
    pub fn start(&self, index: usize) -> u32 {
        self.starts[index]
    }

    /// Messages before work `index`.
    pub fn ordinal(&self, index: usize) -> usize {
        self.ordinals[index]
    }

    /// The packet a PSN stands for, if the program has that many.
    pub fn packet_of(&self, psn: u32) -> Option<u32> {
        let packet = psn.wrapping_sub(self.flow.settings.psn) & 0xff_ffff;
        (packet < self.starts[self.starts.len() - 1]).then_some(packet)
    }

    /// The PSN of a packet.
    pub fn psn_of(&self, packet: u32) -> u32 {
        self.flow.settings.psn.wrapping_add(packet) & 0xff_ffff
    }

    /// The work a packet belongs to, and its place in the message.
    pub fn locate(&self, packet: u32) -> (usize, u32) {
        let index = self.starts.partition_point(|&start| start <= packet) - 1;
        (index, packet - self.starts[index])
    }

    /// The bytes of packet `part` of work `index`, as offset and length in the message.
    pub fn span(&self, index: usize, part: u32) -> (u32, u32) {
        let (mtu, len) = (self.flow.settings.mtu, self.flow.works[index].len);
        let offset = part * mtu;
        (offset, mtu.min(len - offset))
    }

    /// The same for a work of any kind: an atomic has no bytes in packets.
    pub fn span_of(&self, index: usize, part: u32) -> (u32, u32) {
        if self.flow.works[index].op.is_atomic() {
            return (0, 0);
        }
        self.span(index, part)
    }

    /// Packets the responder has executed.
    pub fn executed(&self) -> u32 {
        self.executed
    }

    /// Messages the responder has executed whole.
    pub fn messages(&self) -> usize {
        self.ordinals[self.starts.partition_point(|&start| start <= self.executed) - 1]
    }

    /// Messages whose last packet is at or before `packet`.
    pub fn messages_through(&self, packet: u32) -> usize {
        self.ordinals[self.starts.partition_point(|&start| start <= packet + 1) - 1]
    }

    /// What an atomic should find.
    pub fn found(&self, index: usize) -> u64 {
        u64::from_le_bytes(
            self.results[index]
                .as_slice()
                .try_into()
                .expect("an atomic"),
        )
    }

    /// The memory of region `rkey` after the whole program.
    pub fn last(&self, rkey: u32) -> &[u8] {
        &self.last[&rkey]
    }

    /// Judges what the responder does on request packet `psn`; the work it belongs to comes back, and
    /// whether the deed is new (anything but a repeated READ).
    pub fn judge(&self, psn: u32, deed: Deed<'_>) -> Result<(usize, bool), Violation> {
        let packet = self
            .packet_of(psn)
            .ok_or_else(|| format!("psn {psn:06x} was never sent: {deed:?}"))?;
        let (index, part) = self.locate(packet);
        let work = &self.flow.works[index];
        let new = packet == self.executed;
        let again = packet < self.executed && work.op.is_read();
        if !new && !again {
            return Err(format!(
                "psn {psn:06x} (packet {packet}, work {index}) executed while packet {} is due: {deed:?}",
                self.executed,
            ));
        }
        if new && part != 0 && work.op.is_read() {
            return Err(format!(
                "READ {index} begins in its middle, at packet {part}"
            ));
        }
        let due = self.due(index, part);
        if due != deed {
            return Err(format!(
                "work {index} packet {part}: executed {deed:?}, should be {due:?}"
            ));
        }
        Ok((index, new))
    }

    /// The deed judged last was carried out. True if it was the last of its message.
    pub fn carried_out(&mut self) -> bool {
        let (index, _) = self.locate(self.executed);
        let takes_span = self.flow.works[index].op.is_read();
        self.executed = if takes_span {
            self.starts[index + 1]
        } else {
            self.executed + 1
        };
        self.executed == self.starts[index + 1]
    }

    /// Judges what a READ placed when it completes.
    ///
    /// A byte may also be as a later work left it, unless a fence stands between: the responder may
    /// read long after the request, or once more.
    pub fn judge_read(&self, index: usize, placed: &[u8]) -> Result<(), Violation> {
        let due = &self.results[index];
        if placed == due.as_slice() {
            return Ok(());
        }
        let works = &self.flow.works;
        let Op::Read { va, rkey } = works[index].op else {
            return Err("not a READ".into());
        };
        if placed.len() != due.len() {
            return Err(format!(
                "READ {index} placed {} of {} bytes",
                placed.len(),
                due.len()
            ));
        }
        let racing = || works[index + 1..].iter().take_while(|work| !work.fence);
        for (at, (&got, &want)) in placed.iter().zip(due).enumerate() {
            let explained =
                got == want || racing().any(|work| self.leaves(work, rkey, va + at as u64, got));
            if !explained {
                return Err(format!(
                    "READ {index} byte {at} is {got:#04x}, should be {want:#04x}"
                ));
            }
        }
        Ok(())
    }

    fn leaves(&self, work: &Work, rkey: u32, va: u64, byte: u8) -> bool {
        match work.op {
            Op::Write { va: to, rkey: key }
            | Op::AtomicWrite { va: to, rkey: key }
            | Op::WriteImm {
                va: to, rkey: key, ..
            } => {
                key == rkey
                    && va
                        .checked_sub(to)
                        .and_then(|i| work.payload.get(i as usize))
                        == Some(&byte)
            }
            // Its new value depends on those before it; which bytes it touches is enough here.
            Op::CompareSwap {
                va: to, rkey: key, ..
            }
            | Op::FetchAdd {
                va: to, rkey: key, ..
            } => key == rkey && (to..to + 8).contains(&va),
            _ => false,
        }
    }

    fn due(&self, index: usize, part: u32) -> Deed<'_> {
        let work = &self.flow.works[index];
        match work.op {
            Op::Send | Op::SendImm(_) | Op::SendInv(_) => {
                let (offset, len) = self.span(index, part);
                if work.len == 0 {
                    return Deed::Nothing;
                }
                let data = &work.payload[offset as usize..(offset + len) as usize];
                Deed::Receive {
                    offset: offset.into(),
                    data,
                }
            }
            Op::Write { .. } | Op::WriteImm { .. } | Op::Read { .. } if work.len == 0 => {
                Deed::Nothing
            }
            Op::Write { va, rkey } | Op::WriteImm { va, rkey, .. } => {
                let (offset, len) = self.span(index, part);
                let data = &work.payload[offset as usize..(offset + len) as usize];
                Deed::Write {
                    rkey,
                    va: va + u64::from(offset),
                    data,
                    remaining: work.len - offset,
                }
            }
            Op::Read { va, rkey } => {
                let (offset, _) = self.span(index, part);
                Deed::Read {
                    rkey,
                    va: va + u64::from(offset),
                    len: work.len - offset,
                }
            }
            Op::CompareSwap {
                va,
                rkey,
                compare,
                swap,
            } => Deed::CompareSwap {
                rkey,
                va,
                compare,
                swap,
            },
            Op::FetchAdd { va, rkey, add } => Deed::FetchAdd { rkey, va, add },
            Op::AtomicWrite { va, rkey } => Deed::AtomicWrite {
                rkey,
                va,
                data: &work.payload,
            },
            Op::Flush { va, rkey, len, how } => Deed::Flush { rkey, va, len, how },
            Op::Local(_) => Deed::Nothing,
        }
    }
}

/// The memory of the model: regions and their first addresses, by key.
type Regions = HashMap<u32, (u64, Vec<u8>)>;

/// Executes one work in the model; what it brings back to the requester is returned. Works that the
/// responder will refuse change nothing.
fn run(memory: &mut Regions, work: &Work) -> Vec<u8> {
    match work.op {
        Op::Send | Op::SendImm(_) | Op::SendInv(_) | Op::Flush { .. } | Op::Local(_) => Vec::new(),
        Op::Write { va, rkey } | Op::WriteImm { va, rkey, .. } | Op::AtomicWrite { va, rkey } => {
            if let Some(bytes) = slice(memory, rkey, va, work.len as usize) {
                bytes.copy_from_slice(&work.payload);
            }
            Vec::new()
        }
        Op::Read { va, rkey } => {
            slice(memory, rkey, va, work.len as usize).map_or_else(Vec::new, |bytes| bytes.to_vec())
        }
        Op::CompareSwap {
            va,
            rkey,
            compare,
            swap,
        } => exchange(
            memory,
            rkey,
            va,
            |old| if old == compare { swap } else { old },
        ),
        Op::FetchAdd { va, rkey, add } => exchange(memory, rkey, va, |old| old.wrapping_add(add)),
    }
}

fn slice(memory: &mut Regions, rkey: u32, va: u64, len: usize) -> Option<&mut [u8]> {
    let (base, bytes) = memory.get_mut(&rkey)?;
    let start = usize::try_from(va.checked_sub(*base)?).ok()?;
    bytes.get_mut(start..start.checked_add(len)?)
}

/// Changes eight bytes; what was there comes back.
fn exchange(memory: &mut Regions, rkey: u32, va: u64, new: impl Fn(u64) -> u64) -> Vec<u8> {
    let Some(bytes) = slice(memory, rkey, va, 8) else {
        return vec![0; 8];
    };
    let old = u64::from_le_bytes((&*bytes).try_into().expect("eight bytes"));
    bytes.copy_from_slice(&new(old).to_le_bytes());
    old.to_le_bytes().to_vec()
}
