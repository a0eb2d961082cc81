// SPDX-License-Identifier: GPL-2.0

//! The receive side of an end: executes requests, sends responses, completes receives.

use rrxe_proto::{
    psn::Psn,
    rc::{
        Action,
        AtomicOp,
        Done,
        Event,
        ExecError,
        Flush,
        ReceiveCompletion,
        ReceiveConfig,
        Responder,
        ResponsePlan,
        Saved,
        Task,
        TaskKind, //
    },
    status::{
        WcOpcode,
        WcStatus, //
    },
    timers::RnrTimer,
    wire::{
        Headers,
        Packet,
        Placement,
        Selectivity, //
    },
    Access,
    Key,
    Pkey, //
};

use super::asking::{
    mtu,
    qpn,
    Burst,
    Rest, //
};
use crate::{
    agenda::Nanos,
    frame::Frame,
    memory::{
        Memory,
        Refused,
        Rights, //
    },
    program::{
        Receive,
        Settings, //
    },
    queue::ReceiveRing,
    reference::{
        Deed,
        Reference,
        Violation, //
    },
    rng::Rng,
    scenario::EndPlan,
    watch::{
        ReceiveDone,
        Watch, //
    }, //
};

/// The receive side of an end.
#[derive(Debug)]
pub struct Answering {
    engine: Responder,
    ring: ReceiveRing,
    saved: Vec<Saved>,
    /// Frames that came past a gap.
    kept: Vec<Option<Frame>>,
    unkept_per_mille: u32,
    memory: Memory,
    receives: Vec<Receive>,
    posted: usize,
    unsent_per_mille: u32,
    rng: Rng,
}

/// What became of a request.
#[derive(Debug)]
pub struct Said {
    /// In words.
    pub line: String,
    /// The queue pair is in the error state now.
    pub fatal: bool,
}

impl Answering {
    /// The side that answers the flow of `peer`.
    pub(super) fn new(plan: &EndPlan, peer: &EndPlan, rng: Rng) -> Self {
        let flow = &peer.flow;
        let settings = &flow.settings;
        let mut memory = Memory::default();
        for region in &flow.regions {
            memory.register(
                region.rkey,
                region.base,
                region.bytes.clone(),
                region.rights,
            );
        }
        Self {
            engine: Responder::new(mtu(settings), Psn::truncate(settings.psn), config(settings)),
            ring: ReceiveRing::default(),
            saved: vec![Saved::EMPTY; settings.max_dest_rd_atomic.into()],
            kept: vec![None; Responder::PLACES],
            unkept_per_mille: plan.unkept_per_mille,
            memory,
            receives: flow.receives.clone(),
            posted: 0,
            unsent_per_mille: plan.unsent_per_mille,
            rng,
        }
    }

    pub(super) fn engine(&mut self) -> &mut Responder {
        &mut self.engine
    }

    /// Goes on with other attributes, and at least as much room for what is kept.
    pub(super) fn readjust(&mut self, settings: &Settings) {
        let places = self.saved.len().max(settings.max_dest_rd_atomic.into());
        let mut saved = vec![Saved::EMPTY; places];
        self.engine.move_saved(&self.saved, &mut saved);
        self.saved = saved;
        self.engine.set_config(config(settings));
    }

    pub(super) fn memory(&mut self) -> &mut Memory {
        &mut self.memory
    }

    /// Posts the receives that are due.
    pub(super) fn post(&mut self, now: Nanos) {
        while let Some(receive) = self.receives.get(self.posted).filter(|r| r.at <= now) {
            self.ring.post(*receive);
            self.posted += 1;
        }
    }

    /// Takes in a request, and what was kept until it came.
    pub(super) fn on_request(
        &mut self,
        frame: &Frame,
        peer: &mut Watch,
    ) -> Result<Said, Violation> {
        let mut said = self.take_in(frame, peer)?;
        while let Some(place) = self.engine.poll_kept() {
            let frame = self.kept[place].take().ok_or("nothing is kept there")?;
            let Said { line, fatal } = self.take_in(&frame, peer)?;
            said.line = format!("{}; {line}", said.line);
            said.fatal |= fatal;
        }
        Ok(said)
    }

    /// Takes in a request and carries out what follows from it.
    fn take_in(&mut self, frame: &Frame, peer: &mut Watch) -> Result<Said, Violation> {
        let packet = Packet::parse(frame.transport())
            .map_err(|error| format!("a good packet is refused: {error:?}"))?;
        let (headers, payload) = (packet.headers(), packet.payload());
        let action = self
            .engine
            .on_request(headers, &mut self.ring, &mut self.saved);
        for _ in 0..std::mem::take(&mut self.ring.taken) {
            peer.receive_taken()?;
        }
        let mut line = format!("{action:?}");
        match action {
            Action::Execute(task) => {
                let outcome = self.execute(headers, payload, task, peer)?;
                if let Some(error) = outcome {
                    line = format!("{error:?}, {line}");
                }
            }
            Action::Keep(keep) if !self.rng.chance(self.unkept_per_mille) => {
                let place = &mut self.kept[keep.place()];
                if place.replace(frame.clone()).is_some() {
                    return Err("two packets are kept in one place".into());
                }
                self.engine.keep(keep);
            }
            Action::Keep(_) | Action::None | Action::Repeated | Action::Dropped(_) => {}
        }
        let mut fatal = false;
        while let Some(event) = self.engine.poll_event() {
            fatal |= matches!(event, Event::Failed(_));
            line = format!("{line} {event:?}");
        }
        if !fatal {
            peer.receives_balance()?;
        }
        Ok(Said { line, fatal })
    }

    fn execute(
        &mut self,
        headers: &Headers,
        payload: &[u8],
        task: Task,
        peer: &mut Watch,
    ) -> Result<Option<ExecError>, Violation> {
        let psn = headers.psn().get();
        let executed = peer.reference.executed();
        let outcome = match self.carry_out(psn, payload, &task, &peer.reference)? {
            Ok(done) => self.invalidate(&task).map(|()| done),
            Err(error) => Err(error),
        };
        let completion = self.engine.commit(task, outcome, &mut self.saved);
        match outcome {
            Ok(_) if peer.reference.packet_of(psn) == Some(executed) => {
                let (index, _) = peer.reference.locate(executed);
                if peer.reference.carried_out() {
                    peer.message_done(index, completion.as_ref().map(receive_done))?;
                } else if completion.is_some() {
                    return Err(format!("message {index} completes before its end"));
                }
            }
            _ if completion.is_some() => return Err("a receive completes for nothing new".into()),
            _ => {}
        }
        Ok(outcome.err())
    }

    fn carry_out(
        &mut self,
        psn: u32,
        payload: &[u8],
        task: &Task,
        reference: &Reference,
    ) -> Result<Result<Done, ExecError>, Violation> {
        let done = Ok(Done::default());
        let judge = |deed| reference.judge(psn, deed);
        Ok(match task.kind() {
            TaskKind::Nothing => {
                judge(Deed::Nothing)?;
                done
            }
            TaskKind::PlaceReceive { offset, len } => {
                if len as usize != payload.len() {
                    return Err(format!("{len} of {} bytes received", payload.len()));
                }
                judge(Deed::Receive {
                    offset: offset.into(),
                    data: payload,
                })?;
                done
            }
            TaskKind::PlaceDatagram { .. } => {
                return Err("a datagram on a connection".into());
            }
            TaskKind::Write {
                rkey: Key(rkey),
                va,
                len,
                remaining,
            } => {
                if len as usize != payload.len() {
                    return Err(format!("{len} of {} bytes written", payload.len()));
                }
                judge(Deed::Write {
                    rkey,
                    va,
                    data: payload,
                    remaining,
                })?;
                let place = self
                    .memory
                    .slice_mut(rkey, va, remaining.into(), |r| r.write);
                place.map_err(refused).map(|place| {
                    place[..payload.len()].copy_from_slice(payload);
                    Done::default()
                })
            }
            TaskKind::Read {
                rkey: Key(rkey),
                va,
                len,
            } => {
                judge(Deed::Read { rkey, va, len })?;
                let bytes = self.memory.slice(rkey, va, len.into(), |r| r.read);
                bytes.map_err(refused).and(done)
            }
            TaskKind::Atomic {
                rkey: Key(rkey),
                va,
                op,
            } => {
                judge(match op {
                    AtomicOp::CompareSwap { compare, swap } => Deed::CompareSwap {
                        rkey,
                        va,
                        compare,
                        swap,
                    },
                    AtomicOp::FetchAdd { add } => Deed::FetchAdd { rkey, va, add },
                })?;
                let place = self.memory.slice_mut(rkey, va, 8, |r| r.atomic);
                place.map_err(refused).map(|place| {
                    let original = u64::from_le_bytes((&*place).try_into().expect("eight bytes"));
                    let new = match op {
                        AtomicOp::CompareSwap { compare, swap } if original == compare => swap,
                        AtomicOp::CompareSwap { .. } => original,
                        AtomicOp::FetchAdd { add } => original.wrapping_add(add),
                    };
                    place.copy_from_slice(&new.to_le_bytes());
                    Done { original }
                })
            }
            TaskKind::AtomicWrite {
                rkey: Key(rkey),
                va,
            } => {
                judge(Deed::AtomicWrite {
                    rkey,
                    va,
                    data: payload,
                })?;
                let place = self.memory.slice_mut(rkey, va, 8, |r| r.write);
                place.map_err(refused).map(|place| {
                    place.copy_from_slice(payload);
                    Done::default()
                })
            }
            TaskKind::Flush(flush) => {
                let Flush {
                    rkey: Key(rkey),
                    va,
                    len,
                    placement,
                    selectivity,
                } = flush;
                let bit = |of, bit| if placement.contains(of) { bit } else { 0 };
                let how = (
                    bit(Placement::GLOBAL, 1) | bit(Placement::PERSISTENT, 2),
                    selectivity as u8,
                );
                judge(Deed::Flush { rkey, va, len, how })?;
                let checked = match selectivity {
                    Selectivity::Range => self
                        .memory
                        .slice(rkey, va, len.into(), |r| r.flush)
                        .map(drop),
                    Selectivity::Region => self.memory.admits(rkey, |r| r.flush),
                };
                checked.map_err(refused).and(done)
            }
        })
    }

    fn invalidate(&mut self, task: &Task) -> Result<(), ExecError> {
        match task.invalidate() {
            Some(Key(key)) if !self.memory.invalidate(key) => Err(ExecError::Invalidate),
            _ => Ok(()),
        }
    }

    /// Whether the next response is one to a READ.
    pub(super) fn is_read_next(&mut self) -> bool {
        let Some(plan) = self.engine.poll_transmit(1, &mut self.saved) else {
            return false;
        };
        self.engine.unsent(&plan, plan.psn(), &mut self.saved);
        matches!(plan, ResponsePlan::Read(_))
    }

    /// Drops what came past a gap.
    pub(super) fn forget(&mut self) {
        self.engine.drop_kept();
        self.kept.fill(None);
    }

    /// Sends one plan of at most `budget` packets.
    pub(super) fn transmit(&mut self, end: usize, budget: u32) -> Result<Option<Burst>, Violation> {
        let Some(plan) = self.engine.poll_transmit(budget, &mut self.saved) else {
            return Ok(None);
        };
        if plan.count() == 0 || plan.count() > budget {
            return Err(format!(
                "a plan of {} responses, budget {budget}",
                plan.count()
            ));
        }
        let mut data = Vec::new();
        if let ResponsePlan::Read(read) = &plan {
            if !read.is_empty() {
                let Key(rkey) = read.rkey();
                match self
                    .memory
                    .slice(rkey, read.va(), read.len().into(), |r| r.read)
                {
                    Ok(bytes) => data.extend_from_slice(bytes),
                    Err(Refused) => {
                        self.engine.fail_read(read, &mut self.saved);
                        return Ok(Some(Burst {
                            frames: Vec::new(),
                            rest: Rest::Nothing,
                        }));
                    }
                }
            }
        }
        let unsent = self.rng.chance(self.unsent_per_mille);
        let count = if unsent {
            self.rng.below(plan.count().into()) as u32
        } else {
            plan.count()
        };
        let mut frames = Vec::new();
        for packet in plan.packets().take(count as usize) {
            let spec = packet.header(qpn(end ^ 1), Pkey::DEFAULT);
            let payload = &data[packet.offset as usize..(packet.offset + packet.len) as usize];
            frames.push(Frame::new(end & 1, end ^ 1, &spec, payload));
        }
        if frames.len() != count as usize {
            return Err(format!(
                "a plan of {} responses has {}",
                plan.count(),
                frames.len()
            ));
        }
        if unsent {
            self.engine
                .unsent(&plan, plan.psn().wrapping_add(count), &mut self.saved);
        }
        Ok(Some(Burst {
            frames,
            rest: match unsent {
                true => Rest::Unsent,
                false => Rest::Nothing,
            },
        }))
    }

    /// Whether memory is as the reference says it must be after the whole program.
    pub(super) fn memory_is(&self, reference: &Reference) -> Result<(), Violation> {
        for plan in &reference.flow().regions {
            let region = self.memory.region(plan.rkey).ok_or("a region is gone")?;
            if region.bytes != reference.last(plan.rkey) {
                return Err(format!(
                    "region {:#x} differs from the reference",
                    plan.rkey
                ));
            }
        }
        Ok(())
    }

    /// The error state: what was taken and not completed is flushed, once. The status comes back.
    pub(super) fn flush(&mut self, peer: &Watch) -> Result<Option<WcStatus>, Violation> {
        let flushed = self.engine.poll_flush();
        if self.engine.poll_flush().is_some() {
            return Err("more than one receive is flushed".into());
        }
        let held = peer.taken() - peer.received();
        if usize::from(flushed.is_some()) != held {
            return Err(format!(
                "flushed {flushed:?}, {held} were taken and not done"
            ));
        }
        let status = flushed.map(|done| done.status);
        if status == Some(WcStatus::Success) {
            return Err("a receive is flushed with success".into());
        }
        Ok(status)
    }
}

fn refused(_: Refused) -> ExecError {
    ExecError::RemoteAccess
}

fn config(settings: &Settings) -> ReceiveConfig {
    ReceiveConfig {
        max_dest_rd_atomic: settings.max_dest_rd_atomic,
        min_rnr_timer: RnrTimer::truncate(settings.min_rnr_timer),
        access: access(settings.access),
    }
}

fn access(rights: Rights) -> Access {
    let part = |allowed, access| if allowed { access } else { Access::NONE };
    part(rights.write, Access::REMOTE_WRITE)
        | part(rights.read, Access::REMOTE_READ)
        | part(rights.atomic, Access::REMOTE_ATOMIC)
        | part(
            rights.flush,
            Access::FLUSH_GLOBAL | Access::FLUSH_PERSISTENT,
        )
}

fn receive_done(done: &ReceiveCompletion) -> ReceiveDone {
    ReceiveDone {
        status: done.status.code(),
        byte_len: done.byte_len,
        imm: done.imm.map(|imm| imm.0),
        invalidated: done.invalidated.map(|key| key.0),
        solicited: done.solicited,
        by_write: done.opcode == WcOpcode::ReceiveRdmaWithImm,
    }
}
