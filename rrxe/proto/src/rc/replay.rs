// SPDX-License-Identifier: GPL-2.0

//! The part of the receive side that answers, for the first time and again.

use crate::{
    psn::Psn,
    rc::{
        aside::Aside,
        cursor::byte_offset,
        reply::{AtomicReply, Confirmation, ReadReply, ResponsePlan, Turn},
        responder::{Owed, Phase, Responder},
        saved::{Asked, Due, Entry, Part, Saved},
        task::{Action, Discard, Done, Verdict}, //
    },
    wire::{Aeth, RcRequest, Reth, Syndrome}, //
};

impl Responder {
    /// The next responses to send, at most `max_packets` of them. They come in the order of their
    /// PSNs, but for parts that the peer asks for again.
    pub fn poll_transmit(&mut self, max_packets: u32, saved: &mut [Saved]) -> Option<ResponsePlan> {
        if self.phase == Phase::Closed || max_packets == 0 {
            return None;
        }
        if let Some(plan) = self.aside(max_packets, saved) {
            return Some(plan);
        }
        self.due_from = self.due_from.max(self.oldest(saved));
        while self.due_from < self.executed {
            let slot = self.due_from;
            if let Some(plan) = self.reply(slot, max_packets, saved) {
                return Some(plan);
            }
            self.due_from = slot.saturating_add(1);
        }
        // An acknowledgement covers what is before it, READs and atomics included, so it must not
        // overtake their responses.
        let plan = match self.owed {
            Owed::Nothing => return None,
            Owed::Ack => ResponsePlan::Ack {
                psn: self.expected.prev(),
                aeth: Aeth::new(Syndrome::ACK, self.msn),
            },
            Owed::Nak(psn, syndrome) => ResponsePlan::Ack {
                psn,
                aeth: Aeth::new(syndrome, self.msn),
            },
        };
        self.owed = Owed::Nothing;
        if self.phase == Phase::Failing {
            self.phase = Phase::Closed;
        }
        Some(plan)
    }

    /// Takes back the packets of the last plan from the PSN `psn` on, which the caller could not
    /// send. They are offered again by the next call of [`poll_transmit`](Self::poll_transmit).
    pub fn unsent(&mut self, plan: &ResponsePlan, psn: Psn, saved: &mut [Saved]) {
        let sent = psn.offset_from(plan.psn());
        if sent >= plan.count() {
            return;
        }
        match plan {
            ResponsePlan::Ack { psn, aeth } => self.owe_again(*psn, aeth.syndrome()),
            ResponsePlan::Atomic(reply) => self.make_due(reply.slot, reply.due, 0, saved),
            ResponsePlan::Confirm(reply) => self.make_due(reply.slot, reply.due, 0, saved),
            ResponsePlan::Read(reply) => match reply.turn {
                Turn::Stream(due) => self.make_due(reply.slot, due, sent, saved),
                Turn::Aside => self.put_aside_back(reply, sent),
            },
        }
    }

    /// Ends the connection because the memory of `reply` may not be read (any more).
    pub fn fail_read(&mut self, reply: &ReadReply, saved: &mut [Saved]) {
        if self.phase == Phase::Closed {
            return;
        }
        // What is after it goes unanswered.
        for place in saved.iter_mut() {
            if let Some(entry) = &mut place.0 {
                entry.due = Due::No;
            }
        }
        self.due_from = self.executed;
        self.asides.clear();
        self.refuse(reply.psn, Verdict::REMOTE_ACCESS);
    }

    /// Takes what is kept over from `old` to `new`, a larger ring that takes its place.
    pub fn move_saved(&self, old: &[Saved], new: &mut [Saved]) {
        for slot in self.oldest(old)..self.executed {
            if let (Some(entry), Some(to)) = (kept(slot, old), place(slot, new)) {
                *to = Saved(Some(*entry));
            }
        }
    }

    /// Keeps what was executed, and has it answered.
    pub(super) fn respond(&mut self, asked: Asked, done: Done, saved: &mut [Saved]) {
        self.msn = self.msn.next();
        let psn = self.expected;
        self.expected = psn.wrapping_add(asked.packets(self.mtu));
        // The response is the acknowledgement of all before it.
        self.owed = Owed::Nothing;
        let slot = self.executed;
        self.executed = slot.saturating_add(1);
        if let Some(place) = place(slot, saved) {
            *place = Saved(Some(Entry {
                psn,
                msn: self.msn,
                asked,
                original: done.original,
                due: Due::First(asked.whole()),
            }));
        }
    }

    /// Takes in a packet that has been seen before, which must not be executed again. A READ
    /// changes nothing, so it may be. What else has a response of its own gets that again.
    pub(super) fn on_duplicate(
        &mut self,
        psn: Psn,
        request: &RcRequest,
        saved: &mut [Saved],
    ) -> Action {
        let found = match request {
            RcRequest::Send(_) | RcRequest::Write(_) => {
                if self.owed == Owed::Nothing {
                    self.owed = Owed::Ack;
                }
                return Action::Repeated;
            }
            RcRequest::Read(reth) => self.find_read(psn, reth, saved),
            RcRequest::CompareSwap(_)
            | RcRequest::FetchAdd(_)
            | RcRequest::Flush(..)
            | RcRequest::AtomicWrite(_) => self.find_whole(psn, request, saved),
        };
        let Some((slot, part)) = found else {
            return Action::Dropped(Discard::UnknownDuplicate);
        };
        if let Some(Saved(Some(entry))) = place(slot, saved) {
            if entry.is_ended_by(part, self.mtu) {
                entry.repeat(part);
                self.due_from = self.due_from.min(slot);
            } else {
                self.asides.add(Aside { slot, part });
            }
        }
        Action::Repeated
    }

    /// The number and the part of the READ that `reth` at `psn` is a copy of.
    fn find_read(&self, psn: Psn, reth: &Reth, saved: &[Saved]) -> Option<(u64, Part)> {
        self.newest_first(saved)
            .find_map(|(slot, entry)| Some((slot, entry.part(psn, reth, self.mtu)?)))
    }

    /// The number and all of what `request` at `psn` is a copy of.
    fn find_whole(&self, psn: Psn, request: &RcRequest, saved: &[Saved]) -> Option<(u64, Part)> {
        self.newest_first(saved)
            .find(|(_, entry)| entry.is_of(psn, request))
            .map(|(slot, entry)| (slot, entry.asked.whole()))
    }

    /// All that is kept.
    fn newest_first<'a>(&self, saved: &'a [Saved]) -> impl Iterator<Item = (u64, &'a Entry)> {
        (self.oldest(saved)..self.executed)
            .rev()
            .filter_map(|slot| Some((slot, kept(slot, saved)?)))
    }

    /// The lowest number of what is kept.
    fn oldest(&self, saved: &[Saved]) -> u64 {
        self.executed.saturating_sub(saved.len() as u64)
    }

    /// The responses of number `slot` that are due, at most `max_packets`.
    fn reply(&self, slot: u64, max_packets: u32, saved: &mut [Saved]) -> Option<ResponsePlan> {
        let Some(Saved(Some(entry))) = place(slot, saved) else {
            return None;
        };
        let due = entry.due;
        let (Due::First(part) | Due::Again(part)) = due else {
            return None;
        };
        match entry.asked {
            Asked::Atomic { .. } => {
                entry.due = Due::No;
                Some(ResponsePlan::Atomic(AtomicReply {
                    slot,
                    due,
                    psn: entry.psn,
                    msn: entry.msn,
                    original: entry.original,
                }))
            }
            Asked::Flush(_) | Asked::AtomicWrite { .. } => {
                entry.due = Due::No;
                Some(ResponsePlan::Confirm(Confirmation {
                    slot,
                    due,
                    psn: entry.psn,
                    msn: entry.msn,
                }))
            }
            Asked::Read { .. } => {
                let reply = self.read_reply(slot, entry, Turn::Stream(due), part, max_packets)?;
                entry.due = match reply.is_rest() {
                    true => Due::No,
                    false => due.after(reply.count),
                };
                Some(ResponsePlan::Read(reply))
            }
        }
    }

    /// What the peer lacks in between, at most `max_packets` of it.
    fn aside(&mut self, max_packets: u32, saved: &[Saved]) -> Option<ResponsePlan> {
        while let Some(Aside { slot, part }) = self.asides.take() {
            let reply = kept(slot, saved)
                .filter(|_| slot >= self.oldest(saved))
                .and_then(|entry| self.read_reply(slot, entry, Turn::Aside, part, max_packets));
            let Some(reply) = reply else {
                continue;
            };
            if !reply.is_rest() {
                let part = part.after(reply.count);
                self.asides.put_back(Aside { slot, part });
            }
            return Some(ResponsePlan::Read(reply));
        }
        None
    }

    /// What is to be sent next of `part` of the response to a READ, at most `max_packets`.
    fn read_reply(
        &self,
        slot: u64,
        entry: &Entry,
        turn: Turn,
        part: Part,
        max_packets: u32,
    ) -> Option<ReadReply> {
        let Asked::Read { rkey, va, .. } = entry.asked else {
            return None;
        };
        let left = self.mtu.packets(part.len).saturating_sub(part.sent);
        Some(ReadReply {
            slot,
            turn,
            psn: entry.psn.wrapping_add(part.start).wrapping_add(part.sent),
            msn: entry.msn,
            mtu: self.mtu,
            rkey,
            va: va.wrapping_add(byte_offset(part.start, self.mtu).into()),
            part,
            count: left.min(max_packets),
        })
    }

    /// Makes what was `due` of number `slot` due again, but for `sent` packets.
    fn make_due(&mut self, slot: u64, due: Due, sent: u32, saved: &mut [Saved]) {
        if slot < self.oldest(saved) || slot >= self.executed {
            return;
        }
        if let Some(Saved(Some(entry))) = place(slot, saved) {
            entry.due = due.after(sent);
            self.due_from = self.due_from.min(slot);
        }
    }

    /// Takes back a part in between, but for `sent` packets.
    fn put_aside_back(&mut self, reply: &ReadReply, sent: u32) {
        if !reply.is_rest() {
            // Its rest, of which this was the beginning.
            self.asides.take();
        }
        self.asides.put_back(Aside {
            slot: reply.slot,
            part: reply.part.after(sent),
        });
    }

    /// Makes an acknowledgement due again, unless it has been overtaken.
    fn owe_again(&mut self, psn: Psn, syndrome: Syndrome) {
        match syndrome {
            Syndrome::Ack(_) if self.owed == Owed::Nothing => self.owed = Owed::Ack,
            Syndrome::Ack(_) => (),
            Syndrome::Nak(code) if code.status().is_some() => {
                self.owed = Owed::Nak(psn, syndrome);
                self.phase = Phase::Failing;
            }
            _ if psn == self.expected => self.owed = Owed::Nak(psn, syndrome),
            _ => (),
        }
    }
}

/// The place of number `slot`.
fn place(slot: u64, saved: &mut [Saved]) -> Option<&mut Saved> {
    let index = slot.checked_rem(saved.len() as u64)?;
    saved.get_mut(usize::try_from(index).ok()?)
}

/// What is kept of number `slot`.
pub(super) fn kept(slot: u64, saved: &[Saved]) -> Option<&Entry> {
    let index = slot.checked_rem(saved.len() as u64)?;
    saved.get(usize::try_from(index).ok()?)?.0.as_ref()
}
