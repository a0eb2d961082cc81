// SPDX-License-Identifier: GPL-2.0

//! An observer of one flow: sees every packet that enters or leaves the link, judges it, and keeps
//! its own account of windows, credits, retries and debts.

use std::collections::HashSet;

use crate::{
    agenda::{
        Nanos,
        MILLISECOND, //
    },
    packet::{
        opcode::*,
        Packet,
        Verdict, //
    },
    program::{
        LocalOp,
        Op,
        Work, //
    },
    reference::{
        Reference,
        Violation, //
    }, //
};

/// What is known of a flow from its packets alone.
#[derive(Debug)]
pub struct Observer {
    /// Packets sent at least once.
    sent: u32,
    /// Packets before this one are acknowledged by something delivered to the requester.
    acked: u32,
    /// Responses to READs and atomics that were sent, and that were delivered.
    responded: Vec<bool>,
    delivered: Vec<bool>,
    /// All packets before this one are acknowledged and their responses delivered.
    solid: u32,
    /// The packet after the one sent last: sending goes on here, or has gone back.
    position: u32,
    /// How often sending went back to packet `solid` since it became the oldest, reminders aside.
    retries: u32,
    /// When the timeout of packet `solid` began anew.
    armed: Nanos,
    /// A packet past `solid` that a NAK has asked for, and when such a one was sent again last, which has
    /// the timeout begin anew, too.
    asked_past: Option<u32>,
    sent_past: Nanos,
    /// Of all before this packet the responder has been asked whether it has arrived, and has not said.
    inquired: u32,
    /// Since packet `solid` became the oldest or was sent, packets had to wait for their data.
    withheld: bool,
    /// Reminders of packet `solid` since then.
    reminders: u32,
    /// The first of them may have been no reminder, so that a NAK may still count as a retry.
    ambiguous: bool,
    /// Something has said since that it is missing.
    told: bool,
    /// That is owed a retry, or has been counted as one.
    retry_owed: bool,
    retry_paid: bool,
    /// So many of them may have been none: decided on before that, or asked for already.
    in_doubt: u32,
    /// A retry may have been one with a retry because of an RNR NAK.
    hidden: bool,
    /// When packet `solid` became the oldest.
    since: Nanos,
    /// RNR NAKs for packet `solid` since then.
    rnr_naks: u32,
    /// The next retransmission of `solid` is owed to an RNR NAK.
    rnr_retry: bool,
    /// Nothing may be sent before.
    rnr_until: Nanos,
    /// Where delivered READ requests began.
    read_begins: HashSet<u32>,
    /// Before which packets they ended.
    read_ends: HashSet<u32>,
    /// A packet that asked for an acknowledgement and has none yet.
    owed: Option<u32>,
    /// A sequence NAK was sent, and the packet it asks for has not arrived since.
    nak_pending: bool,
    /// What RNR NAKs asked for before the last change, which one that was owed then still does.
    earlier_timer: Option<u8>,
    /// No new message may begin.
    draining: bool,
    /// Local works that were carried out.
    locals: usize,
    /// Packets sent more than once.
    resent: u64,
}

/// Something refused by the observer.
type Judged = Result<(), Violation>;

impl Observer {
    /// An observer of the flow of `reference`.
    pub fn new(reference: &Reference) -> Self {
        let packets = reference.start(reference.flow().works.len()) as usize;
        Self {
            sent: 0,
            acked: 0,
            responded: vec![false; packets],
            delivered: vec![false; packets],
            solid: 0,
            position: 0,
            retries: 0,
            armed: 0,
            asked_past: None,
            sent_past: 0,
            inquired: 0,
            withheld: false,
            reminders: 0,
            ambiguous: false,
            told: false,
            retry_owed: false,
            retry_paid: false,
            in_doubt: 0,
            hidden: false,
            since: 0,
            rnr_naks: 0,
            rnr_retry: false,
            rnr_until: 0,
            read_begins: HashSet::new(),
            read_ends: HashSet::new(),
            owed: None,
            nak_pending: false,
            earlier_timer: None,
            draining: false,
            locals: 0,
            resent: 0,
        }
    }

    /// Packets sent at least once.
    pub fn sent(&self) -> u32 {
        self.sent
    }

    /// How often sending went back since there was progress, because of RNR NAKs not counted: the
    /// least and the most.
    pub fn retries(&self) -> std::ops::RangeInclusive<u32> {
        self.retries - self.in_doubt..=self.retries + u32::from(self.hidden)
    }

    /// RNR NAKs for the oldest packet since there was progress.
    pub fn rnr_naks(&self) -> u32 {
        self.rnr_naks
    }

    /// Packets sent more than once.
    pub fn resent(&self) -> u64 {
        self.resent
    }

    /// Something is to be sent and is not before `until`, so that the timeout begins anew then.
    pub fn put_off(&mut self, now: Nanos, until: Nanos, reference: &Reference) {
        if self.solid == self.sent {
            return;
        }
        if !self.rnr_retry && self.is_late(now, reference) {
            // The retry has been decided on, and is among what is not sent.
            self.retry_owed |= self.is_owed();
            self.retry_paid = false;
            self.told = false;
            self.inquired = self.solid;
        }
        self.armed = self.armed.max(until);
    }

    /// Something is to be sent whose data is not there.
    pub fn withheld(&mut self) {
        self.withheld = true;
    }

    /// Whether the responder has been asked for an answer that it has not given: otherwise it is asked
    /// when the timeout is over, which is no retry.
    fn is_owed(&self) -> bool {
        self.inquired > self.solid
    }

    /// Whether the timeout of packet `solid` is over, which is twice as long after a retry and four
    /// times after more.
    fn is_late(&self, now: Nanos, reference: &Reference) -> bool {
        let since = self.armed.max(self.sent_past);
        let stretch = 1 << (*self.retries().start()).min(2);
        ack_timeout(reference.flow().settings.timeout)
            .is_some_and(|timeout| now >= since + stretch * timeout)
    }

    /// From now on no new message may begin, or it may again.
    pub fn drain(&mut self, draining: bool) {
        self.draining = draining;
    }

    /// Whether no new message may begin.
    pub fn is_draining(&self) -> bool {
        self.draining
    }

    /// From now on RNR NAKs ask for something else than `earlier`.
    pub fn change_timer(&mut self, earlier: u8) {
        self.earlier_timer = Some(earlier);
    }

    /// Whether every response the work at `packet` can expect has been delivered.
    pub fn settled(&self, reference: &Reference, index: usize) -> bool {
        let span = reference.start(index) as usize..reference.start(index + 1) as usize;
        if reference.flow().works[index].op.takes_credit() {
            self.delivered[span].iter().all(|&d| d)
        } else {
            self.acked >= span.end as u32
        }
    }

    /// A request enters the link.
    pub fn request_sent(
        &mut self,
        now: Nanos,
        reference: &Reference,
        packet: &Packet<'_>,
    ) -> Judged {
        let Some(at) = reference.packet_of(packet.psn) else {
            return Err("request with a PSN outside the program".into());
        };
        let (index, part) = reference.locate(at);
        let work = &reference.flow().works[index];
        request_is(reference, index, part, packet)?;
        if now < self.rnr_until {
            return Err(format!(
                "sent {} ns before the RNR wait is over",
                self.rnr_until - now
            ));
        }
        if at > self.sent {
            return Err(format!("packet {at} sent, but {} was never", self.sent));
        }
        let span = match packet.reth {
            Some(reth) if work.op.is_read() => responses(reference, reth.len),
            _ => 1,
        };
        let first_sent = self.sent;
        if at == self.sent {
            if at == self.solid {
                self.armed = now;
            }
            if work.op.is_read() && at + span != reference.start(index + 1) {
                return Err(format!("READ {index} first requested in part"));
            }
            self.may_begin(reference, index, part)?;
            self.sent += span;
            self.within_limits(reference)?;
        } else {
            self.resent += 1;
            if self.asked_past == Some(at) {
                self.asked_past = None;
                self.sent_past = now;
            }
        }
        if at < self.position || at == self.solid && at != first_sent {
            self.went_back(now, reference, at)?;
            let limit = u32::from(reference.flow().settings.retry_cnt);
            if *self.retries().start() > limit {
                return Err(format!(
                    "went back {} times, retry_cnt is {limit}",
                    self.retries
                ));
            }
        }
        if at == self.solid {
            self.withheld = false;
        }
        if packet.ack_req || work.op.takes_credit() {
            self.inquired = self.inquired.max(at + span);
        }
        self.position = at + span;
        Ok(())
    }

    /// A request leaves the link and reaches the responder undamaged.
    pub fn request_delivered(&mut self, reference: &Reference, packet: &Packet<'_>) {
        let Some(at) = reference.packet_of(packet.psn) else {
            return;
        };
        let read = packet.opcode == READ_REQUEST;
        if let Some(reth) = packet.reth.filter(|_| read) {
            self.read_begins.insert(at);
            self.read_ends.insert(at + responses(reference, reth.len));
        }
        let credit =
            read || packet.atomic.is_some() || matches!(packet.opcode, FLUSH | ATOMIC_WRITE);
        let known = at <= reference.executed();
        let new = at == reference.executed();
        self.nak_pending &= !new;
        if packet.ack_req && known && (new || !credit) {
            self.owed = Some(self.owed.map_or(at, |owed| owed.max(at)));
        }
    }

    /// The responder has nothing more to send: every debt must be paid.
    pub fn responder_idle(&self) -> Judged {
        match self.owed {
            None => Ok(()),
            Some(at) => Err(format!(
                "packet {at} asked for an acknowledgement and got none"
            )),
        }
    }

    /// A response enters the link.
    pub fn response_sent(&mut self, reference: &Reference, packet: &Packet<'_>) -> Judged {
        let Some(at) = reference.packet_of(packet.psn) else {
            return Err("response with a PSN outside the program".into());
        };
        self.owed = self.owed.filter(|&owed| owed > at);
        let (index, part) = reference.locate(at);
        let work = &reference.flow().works[index];
        let aeth = packet.aeth;
        let verdict = aeth.map(|aeth| aeth.verdict());
        let least = match verdict {
            Some(Verdict::Ack) | None => {
                if at >= reference.executed() {
                    return Err(format!(
                        "packet {at} acknowledged, executed are {}",
                        reference.executed(),
                    ));
                }
                if packet.opcode == ACK {
                    reference.messages_through(at)
                } else {
                    reference.ordinal(index + 1)
                }
            }
            Some(verdict @ (Verdict::Nak(0) | Verdict::RnrNak(_))) => {
                self.owed = None;
                if verdict == Verdict::Nak(0) && std::mem::replace(&mut self.nak_pending, true) {
                    return Err(format!("a second sequence NAK for packet {at}"));
                }
                if at != reference.executed() {
                    return Err(format!(
                        "NAK for packet {at}, due is {}",
                        reference.executed()
                    ));
                }
                reference.ordinal(index)
            }
            Some(Verdict::Nak(1..=4)) => {
                self.owed = None;
                if at != reference.executed() && !(work.op.is_read() && at < reference.executed()) {
                    return Err(format!(
                        "fatal NAK for packet {at}, due is {}",
                        reference.executed()
                    ));
                }
                reference.ordinal(index)
            }
            Some(other) => return Err(format!("reserved syndrome: {other:?}")),
        };
        if let Some(aeth) = aeth {
            let most = reference.messages();
            if !(least..=most).contains(&(aeth.msn as usize)) {
                return Err(format!("MSN {} is not in {least}..={most}", aeth.msn));
            }
            let credits = aeth.syndrome & 0x1f;
            if aeth.verdict() == Verdict::Ack && credits != 0x1f {
                return Err(format!("{credits} end-to-end credits offered"));
            }
            let timer = reference.flow().settings.min_rnr_timer;
            if let Verdict::RnrNak(code) = aeth.verdict() {
                if code != timer && Some(code) != self.earlier_timer {
                    return Err(format!("RNR NAK with another timer than {timer}"));
                }
            }
        }
        if packet.solicited || packet.ack_req {
            return Err("SE or AckReq on a response".into());
        }
        self.response_is(reference, at, index, part, packet)
    }

    /// A response leaves the link and reaches the requester undamaged. True if there is progress.
    pub fn response_delivered(
        &mut self,
        now: Nanos,
        reference: &Reference,
        packet: &Packet<'_>,
    ) -> bool {
        let Some(at) = reference.packet_of(packet.psn).filter(|&at| at < self.sent) else {
            return false;
        };
        let verdict = packet.aeth.map_or(Verdict::Ack, |aeth| aeth.verdict());
        let credit = |p: u32| {
            let (index, _) = reference.locate(p);
            reference.flow().works[index].op.takes_credit()
        };
        if verdict == Verdict::Ack {
            self.acked = self.acked.max(at + 1);
            if packet.opcode != ACK {
                self.delivered[at as usize] = true;
            }
        } else {
            self.acked = self.acked.max(at);
        }
        let before = self.solid;
        while self.solid < self.sent {
            let done = if credit(self.solid) {
                self.delivered[self.solid as usize]
            } else {
                self.solid < self.acked
            };
            if !done {
                break;
            }
            self.solid += 1;
        }
        let progress = self.solid > before;
        if progress {
            self.retries = 0;
            self.armed = now;
            self.reminders = 0;
            self.ambiguous = false;
            self.told = false;
            self.retry_owed = false;
            self.retry_paid = false;
            self.in_doubt = 0;
            self.hidden = false;
            self.since = now;
            self.rnr_naks = 0;
            self.rnr_retry = false;
            self.rnr_until = 0;
        }
        // A copy of an RNR NAK that has been heeded says nothing new.
        if let (Verdict::RnrNak(code), true) = (verdict, at == self.solid && !self.rnr_retry) {
            // It shows that the peer is alive, so that the retries start anew.
            self.retries = 0;
            self.in_doubt = 0;
            self.hidden = false;
            self.rnr_naks += 1;
            self.rnr_retry = true;
            self.rnr_until = now + rnr_wait(code);
            self.inquired = at;
            self.told = true;
            self.retry_owed = false;
            self.retry_paid = false;
        }
        let is_implied = self.acked > self.solid;
        let is_told = verdict == Verdict::Nak(0) && at == self.solid;
        if at > self.solid && matches!(verdict, Verdict::Nak(0) | Verdict::RnrNak(_)) {
            self.asked_past = Some(at);
        }
        let asks = is_implied || is_told;
        let is_news = asks && !std::mem::replace(&mut self.told, true);
        self.hidden |= asks && !is_news && self.ambiguous;
        if is_news && is_told {
            self.inquired = at;
        }
        if is_news {
            // What an implied NAK asks for may have been asked for before.
            self.retries += u32::from(is_implied);
            self.in_doubt += u32::from(is_implied);
            self.retry_owed = !is_implied;
            self.retry_paid = is_implied;
            self.armed = now;
        }
        progress
    }

    /// Sending went back to `at`.
    fn went_back(&mut self, now: Nanos, reference: &Reference, at: u32) -> Judged {
        if at < self.solid {
            return Err(format!(
                "packet {at} sent again, acknowledged are {}",
                self.solid
            ));
        }
        if at != self.solid {
            return Ok(());
        }
        let is_late = self.is_late(now, reference);
        if std::mem::take(&mut self.rnr_retry) {
            self.hidden = true;
            self.armed = now;
        } else if std::mem::take(&mut self.retry_paid) && !is_late {
            return Ok(());
        } else if std::mem::take(&mut self.retry_owed) || is_late && self.is_owed() {
            self.retries += 1;
            self.told &= !is_late;
            // Progress may have come between the decision to go back and the sending.
            let may_be_old = self.retries == 1 && self.may_be_old(now);
            self.in_doubt += u32::from(may_be_old);
        } else if is_late {
            self.told = false;
        } else {
            self.reminders += 1;
            self.told = true;
            // It may be what sending had gone back to before there was progress.
            self.ambiguous |= self.may_be_old(now);
            if self.reminders > MOST_REMINDERS {
                return Err(format!("{} reminders of packet {at}", self.reminders));
            }
            return Ok(());
        }
        if is_late {
            self.armed = now;
            self.inquired = at;
        }
        self.reminders = 0;
        Ok(())
    }

    /// Whether what is sent now may have been decided on before packet `solid` became the oldest.
    fn may_be_old(&self, now: Nanos) -> bool {
        self.withheld || now < self.since + UNSENT_AT_LONGEST
    }

    fn may_begin(&self, reference: &Reference, index: usize, part: u32) -> Judged {
        let works = &reference.flow().works;
        if part != 0 && works[index].op.is_read() {
            return Err(format!("READ {index} first requested from its middle"));
        }
        if part == 0 && self.draining {
            return Err(format!("work {index} begun while the send queue drains"));
        }
        let locals = works[..index].iter().filter(|work| work.op.is_local());
        if part == 0 && locals.count() != self.locals {
            return Err(format!("work {index} begun before a local one was done"));
        }
        if part == 0 {
            self.fence(reference, index)?;
        }
        Ok(())
    }

    /// A fenced work begins after the READs and atomics before it.
    fn fence(&self, reference: &Reference, index: usize) -> Judged {
        let works = &reference.flow().works;
        let pending =
            (0..index).find(|&i| works[i].op.takes_credit() && !self.settled(reference, i));
        match pending {
            Some(pending) if works[index].fence => Err(format!(
                "fenced work {index} begun before {pending} was answered"
            )),
            _ => Ok(()),
        }
    }

    /// Whether local work `index` may be carried out now.
    pub fn local_turn(&self, reference: &Reference, index: usize) -> Judged {
        let start = reference.start(index);
        if self.sent != start {
            return Err(format!(
                "local work {index} in the turn of packet {}",
                self.sent
            ));
        }
        if self.draining {
            return Err(format!("local work {index} while the send queue drains"));
        }
        let waits = reference.flow().works[index].op == Op::Local(LocalOp::Invalidate);
        if waits && self.solid < start {
            return Err(format!(
                "local work {index} before packet {} was acknowledged",
                self.solid
            ));
        }
        self.fence(reference, index)
    }

    /// A local work was carried out.
    pub fn local_done(&mut self) {
        self.locals += 1;
    }

    fn within_limits(&self, reference: &Reference) -> Judged {
        let flow = reference.flow();
        let (mut bytes, mut packets, mut credits) = (0, 0, 0);
        let (last, _) = reference.locate(self.sent - 1);
        let (first, _) = reference.locate(self.solid.min(self.sent - 1));
        for index in first..=last {
            if flow.works[index].op.takes_credit() {
                credits += u32::from(!self.settled(reference, index));
                continue;
            }
            let start = reference.start(index);
            let end = reference.start(index + 1).min(self.sent);
            for at in start.max(self.acked)..end {
                packets += 1;
                bytes += reference.span(index, at - start).1;
            }
        }
        let settings = &flow.settings;
        if credits > u32::from(settings.max_rd_atomic) {
            return Err(format!("{credits} READs and atomics in flight"));
        }
        if packets > settings.window_packets {
            return Err(format!(
                "{packets} packets in flight, window {}",
                settings.window_packets
            ));
        }
        if bytes > settings.window_bytes {
            return Err(format!(
                "{bytes} bytes in flight, window {}",
                settings.window_bytes
            ));
        }
        Ok(())
    }

    fn response_is(
        &mut self,
        reference: &Reference,
        at: u32,
        index: usize,
        part: u32,
        packet: &Packet<'_>,
    ) -> Judged {
        let work = &reference.flow().works[index];
        let last = at + 1 == reference.start(index + 1);
        if packet.opcode == ACK {
            let nak = packet
                .aeth
                .is_some_and(|aeth| aeth.verdict() != Verdict::Ack);
            let missing = (0..=index).find(|&i| {
                let span = reference.start(i)..reference.start(i + 1).min(at + u32::from(!nak));
                reference.flow().works[i].op.takes_credit()
                    && span.into_iter().any(|p| !self.responded[p as usize])
            });
            return match missing {
                Some(i) => Err(format!(
                    "packet {at} answered before work {i} has its responses"
                )),
                None if !packet.payload.is_empty() => Err("an ACK with a payload".into()),
                None => Ok(()),
            };
        }
        if packet.opcode == ATOMIC_ACK {
            if !work.op.is_atomic() {
                return Err(format!("atomic response for work {index}, {:?}", work.op));
            }
            let found = reference.found(index);
            if packet.original != Some(found) {
                return Err(format!(
                    "atomic {index} found {:x?}, should be {found:#x}",
                    packet.original
                ));
            }
            self.responded[at as usize] = true;
            return Ok(());
        }
        if work.op.is_confirmed() {
            if packet.opcode != READ_ONLY || !packet.payload.is_empty() {
                return Err(format!("work {index} is not confirmed by {packet}"));
            }
            self.responded[at as usize] = true;
            return Ok(());
        }
        if !work.op.is_read() {
            return Err(format!("READ response for work {index}, {:?}", work.op));
        }
        let (_, len) = reference.span(index, part);
        if packet.payload.len() != len as usize {
            return Err(format!(
                "READ response of {} bytes, should be {len}",
                packet.payload.len()
            ));
        }
        let begins = matches!(packet.opcode, READ_FIRST | READ_ONLY);
        let ends = matches!(packet.opcode, READ_LAST | READ_ONLY);
        if ends != last && !(ends && self.read_ends.contains(&(at + 1))) {
            return Err(format!("packet {at} of READ {index} has the wrong opcode"));
        }
        if begins && !self.read_begins.contains(&at) {
            return Err(format!(
                "READ {index} answered from packet {at}, which was not asked for"
            ));
        }
        if !begins && (part == 0 || !self.responded[at as usize - 1]) {
            return Err(format!(
                "READ {index} answered from packet {at} without a beginning"
            ));
        }
        self.responded[at as usize] = true;
        Ok(())
    }
}

/// Within this time a decision to send again leads to a packet.
const UNSENT_AT_LONGEST: Nanos = 2 * MILLISECOND;

/// A packet may be sent again so many times without being a retry: three reminders in a timeout, and
/// for the sake of others, as those before it or behind it were lost too.
const MOST_REMINDERS: u32 = 10;

/// The acknowledgement timeout of a code.
fn ack_timeout(code: u8) -> Option<Nanos> {
    (code != 0).then(|| 4096 << code)
}

/// Packets of a response of `len` bytes.
fn responses(reference: &Reference, len: u32) -> u32 {
    len.div_ceil(reference.flow().settings.mtu).max(1)
}

/// Is `packet` what packet `part` of work `index` must look like?
fn request_is(reference: &Reference, index: usize, part: u32, packet: &Packet<'_>) -> Judged {
    let flow = reference.flow();
    let work = &flow.works[index];
    let packets = flow.packets(work);
    let (first, last) = (part == 0, part + 1 == packets);
    let opcode = match (work.op, first, last) {
        (Op::Read { .. }, ..) => READ_REQUEST,
        (Op::CompareSwap { .. }, ..) => COMPARE_SWAP,
        (Op::FetchAdd { .. }, ..) => FETCH_ADD,
        (Op::AtomicWrite { .. }, ..) => ATOMIC_WRITE,
        (Op::Flush { .. }, ..) => FLUSH,
        (Op::Local(_), ..) => return Err(format!("work {index} has no packets")),
        (Op::Send | Op::SendImm(_) | Op::SendInv(_), true, false) => SEND_FIRST,
        (Op::Send | Op::SendImm(_) | Op::SendInv(_), false, false) => SEND_MIDDLE,
        (Op::Send, false, true) => SEND_LAST,
        (Op::Send, true, true) => SEND_ONLY,
        (Op::SendImm(_), false, true) => SEND_LAST_IMM,
        (Op::SendImm(_), true, true) => SEND_ONLY_IMM,
        (Op::SendInv(_), false, true) => SEND_LAST_INV,
        (Op::SendInv(_), true, true) => SEND_ONLY_INV,
        (Op::Write { .. } | Op::WriteImm { .. }, true, false) => WRITE_FIRST,
        (Op::Write { .. } | Op::WriteImm { .. }, false, false) => WRITE_MIDDLE,
        (Op::Write { .. }, false, true) => WRITE_LAST,
        (Op::Write { .. }, true, true) => WRITE_ONLY,
        (Op::WriteImm { .. }, false, true) => WRITE_LAST_IMM,
        (Op::WriteImm { .. }, true, true) => WRITE_ONLY_IMM,
    };
    expect(
        "opcode",
        crate::packet::name(packet.opcode),
        crate::packet::name(opcode),
    )?;
    expect("pkey", packet.pkey, 0xffff)?;
    expect("MigReq", packet.migrated, true)?;
    let wakes = last && work.op.takes_receive() && work.solicited;
    expect("SE", packet.solicited, wakes)?;
    if last && !work.op.takes_credit() {
        expect("AckReq on the last packet", packet.ack_req, true)?;
    }
    expect_headers(work, reference.span_of(index, part), first, last, packet)
}

fn expect_headers(
    work: &Work,
    (offset, len): (u32, u32),
    first: bool,
    last: bool,
    packet: &Packet<'_>,
) -> Judged {
    let reth = packet.reth.map(|reth| (reth.va, reth.rkey, reth.len));
    match work.op {
        Op::Read { va, rkey } => {
            let whole = work.len - offset;
            // What is missing may end before the READ does.
            let part = reth
                .map(|(_, _, len)| len)
                .filter(|part| *part == whole || *part < whole && *part != 0 && *part % len == 0);
            let part = part.unwrap_or(whole);
            expect("RETH", reth, Some((va + u64::from(offset), rkey, part)))?;
        }
        Op::Write { va, rkey } | Op::WriteImm { va, rkey, .. } if first => {
            expect("RETH", reth, Some((va, rkey, work.len)))?;
        }
        Op::AtomicWrite { va, rkey } => expect("RETH", reth, Some((va, rkey, 8)))?,
        Op::Flush { va, rkey, len, .. } => expect("RETH", reth, Some((va, rkey, len)))?,
        _ => expect("RETH", reth, None)?,
    }
    let how = match work.op {
        Op::Flush { how, .. } => Some(how),
        _ => None,
    };
    expect("FETH", packet.feth, how)?;
    let atomic = packet.atomic.map(|a| (a.va, a.rkey, a.swap_add));
    match work.op {
        Op::CompareSwap {
            va,
            rkey,
            compare,
            swap,
        } => {
            expect("AtomicETH", atomic, Some((va, rkey, swap)))?;
            expect("compare", packet.atomic.map(|a| a.compare), Some(compare))?;
        }
        Op::FetchAdd { va, rkey, add } => expect("AtomicETH", atomic, Some((va, rkey, add)))?,
        _ => expect("AtomicETH", atomic, None)?,
    }
    let imm = match work.op {
        Op::SendImm(imm) | Op::WriteImm { imm, .. } if last => Some(imm),
        _ => None,
    };
    expect("immediate", packet.imm, imm)?;
    let invalidate = match work.op {
        Op::SendInv(key) if last => Some(key),
        _ => None,
    };
    expect("IETH", packet.invalidate, invalidate)?;
    let payload = if work.op.sends_data() {
        &work.payload[offset as usize..(offset + len) as usize]
    } else {
        &[]
    };
    if packet.payload != payload {
        return Err(format!(
            "payload of {} bytes differs from bytes {offset}..+{len}",
            packet.payload.len()
        ));
    }
    Ok(())
}

fn expect<T: PartialEq + std::fmt::Debug>(what: &str, is: T, should: T) -> Judged {
    if is == should {
        return Ok(());
    }
    Err(format!("{what} is {is:x?}, should be {should:x?}"))
}

/// The wait an RNR NAK asks for, from the table of the specification.
pub fn rnr_wait(code: u8) -> Nanos {
    const HUNDREDTHS_OF_MS: [u64; 32] = [
        65536, 1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128, 192, 256, 384, 512, 768, 1024,
        1536, 2048, 3072, 4096, 6144, 8192, 12288, 16384, 24576, 32768, 49152,
    ];
    HUNDREDTHS_OF_MS[usize::from(code & 0x1f)] * 10_000
}
