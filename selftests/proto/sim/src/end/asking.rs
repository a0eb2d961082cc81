// SPDX-License-Identifier: GPL-2.0

//! The send side of an end: posts works, sends requests, takes in responses, reports completions.

use std::collections::HashSet;

use rrxe_proto::{
    mtu::PathMtu,
    psn::Psn,
    rc::{
        Binding,
        Flush,
        Local,
        LocalFailed,
        Operation,
        Placement,
        Request,
        RequestFlags,
        RequestPlan,
        Requester,
        Response,
        RetryLimit,
        SendConfig,
        Window, //
    },
    status::WcStatus,
    time::Instant,
    timers::AckTimeout,
    wire::{
        self,
        Headers,
        Selectivity, //
    },
    Access,
    Imm,
    Key,
    Pkey,
    Qpn, //
};

use super::pages::Pages;
use crate::{
    agenda::Nanos,
    frame::Frame,
    program::{
        Flow,
        LocalOp,
        Op,
        Settings,
        Work, //
    },
    queue::SendRing,
    reference::Violation,
    rng::Rng,
    scenario::EndPlan,
    watch::{
        Circumstances,
        Watch,
        WorkDone, //
    }, //
};

/// The send side of an end.
#[derive(Debug)]
pub struct Asking {
    engine: Requester,
    ring: SendRing,
    depth: usize,
    posted: usize,
    completed: usize,
    /// What was placed for each work.
    placed: Vec<Placed>,
    unsent_per_mille: u32,
    pages: Pages,
    /// When the page is there that is waited for.
    page_comes: Option<Nanos>,
    /// Plans that had to wait for one.
    withheld: u64,
    rng: Rng,
}

/// What was placed for a work, in any order.
#[derive(Clone, Debug, Default)]
struct Placed {
    bytes: Vec<u8>,
    /// Where there is something.
    offsets: HashSet<u32>,
    /// How much there is.
    count: usize,
}

impl Placed {
    /// Places `bytes` at `offset` of `len`.
    fn put(&mut self, offset: u32, bytes: &[u8], len: u32) -> Result<(), Violation> {
        self.bytes.resize(len as usize, 0);
        let end = offset as usize + bytes.len();
        let Some(place) = self.bytes.get_mut(offset as usize..end) else {
            return Err(format!("placed at {offset}, past the end"));
        };
        place.copy_from_slice(bytes);
        self.count += bytes.len();
        if !self.offsets.insert(offset) || self.count > len as usize {
            return Err(format!("placed twice at {offset}"));
        }
        Ok(())
    }

    /// All of it, or nothing as long as some is missing.
    fn whole(&self) -> &[u8] {
        if self.count < self.bytes.len() {
            return &[];
        }
        &self.bytes
    }
}

/// One plan carried out.
pub struct Burst {
    /// What goes out.
    pub frames: Vec<Frame>,
    /// What is left of the plan.
    pub rest: Rest,
}

/// What became of the rest of a plan.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rest {
    /// There is none.
    Nothing,
    /// It could not be sent.
    Unsent,
    /// Its data is not there yet.
    Withheld,
}

impl Burst {
    /// Nothing goes out, and nothing is left.
    fn empty() -> Self {
        Self {
            frames: Vec::new(),
            rest: Rest::Nothing,
        }
    }
}

impl Asking {
    pub(super) fn new(plan: &EndPlan, rng: Rng) -> Self {
        let settings = &plan.flow.settings;
        Self {
            engine: Requester::new(mtu(settings), Psn::truncate(settings.psn), config(settings)),
            ring: SendRing::new(plan.depth),
            depth: plan.depth as usize,
            posted: 0,
            completed: 0,
            placed: vec![Placed::default(); plan.flow.works.len()],
            unsent_per_mille: plan.unsent_per_mille,
            pages: Pages::new(plan.paging, rng.clone().fork()),
            page_comes: None,
            withheld: 0,
            rng,
        }
    }

    pub(super) fn engine(&mut self) -> &mut Requester {
        &mut self.engine
    }

    pub(super) fn next_deadline(&self) -> Option<Nanos> {
        let engine = self.engine.next_deadline().map(Instant::as_nanos);
        [engine, self.page_comes].into_iter().flatten().min()
    }

    /// Plans that had to wait for their data.
    pub(super) fn withheld(&self) -> u64 {
        self.withheld
    }

    /// Flushes what is not done. Nothing waits for a page any more.
    pub(super) fn enter_error(&mut self) {
        self.engine.enter_error();
        self.page_comes = None;
    }

    pub(super) fn on_timeout(&mut self, now: Nanos) {
        self.engine.on_timeout(Instant::from_nanos(now));
        self.page_comes = self.page_comes.filter(|at| *at > now);
    }

    /// Posts what is due and fits. True if there was anything.
    pub(super) fn post(&mut self, now: Nanos, flow: &Flow) -> bool {
        let before = self.posted;
        while let Some(work) = flow.works.get(self.posted) {
            if work.at > now || self.posted - self.completed >= self.depth {
                break;
            }
            self.ring.store(self.engine.tail(), request(work));
            self.engine.post();
            self.posted += 1;
        }
        self.posted > before
    }

    /// Whether the turn of a local work has come.
    pub(super) fn is_local_next(&mut self) -> bool {
        self.engine.poll_local(&self.ring).is_some()
    }

    /// Carries out a local work if its turn has come.
    fn do_local(&mut self, own: &mut Watch) -> Result<Option<Burst>, Violation> {
        let Some(task) = self.engine.poll_local(&self.ring) else {
            return Ok(None);
        };
        let index = task.wqe().get() as usize;
        let due = request(&own.reference.flow().works[index]).operation();
        if due != Operation::Local(*task.local()) {
            return Err(format!("{task:?} for {due:?}"));
        }
        let outcome = own.local_turn(index)?.map_err(|()| LocalFailed);
        self.engine.commit_local(task, outcome, &self.ring);
        Ok(Some(Burst::empty()))
    }

    /// Sends nothing before `until`.
    fn hold(&mut self, now: Nanos, until: Nanos, own: &mut Watch) {
        let before = self.engine.next_deadline();
        self.engine.hold(Instant::from_nanos(until), &self.ring);
        if self.engine.next_deadline() != before {
            own.observer.put_off(now, until, &own.reference);
        }
    }

    /// Carries out a local work or sends one plan of at most `budget` packets, unless packets are held
    /// until some time.
    pub(super) fn transmit(
        &mut self,
        now: Nanos,
        end: usize,
        budget: u32,
        held_until: Option<Nanos>,
        own: &mut Watch,
    ) -> Result<Option<Burst>, Violation> {
        if let Some(done) = self.do_local(own)? {
            return Ok(Some(done));
        }
        let instant = Instant::from_nanos(now);
        self.engine.on_timeout(instant);
        if let Some(until) = held_until {
            self.hold(now, until, own);
            return Ok(None);
        }
        let Some(plan) = self.engine.poll_transmit(instant, budget, &self.ring) else {
            return Ok(None);
        };
        let index = plan.wqe().get() as usize;
        let work = &own.reference.flow().works[index];
        if plan.count() == 0 || plan.count() > budget {
            return Err(format!(
                "a plan of {} packets, budget {budget}",
                plan.count()
            ));
        }
        if work.local_fault && work.op.sends_data() {
            self.engine.fail(plan.wqe(), WcStatus::LocalProtection);
            return Ok(Some(Burst::empty()));
        }
        let (count, rest) = self.choose(now, index, &plan);
        let mut frames = Vec::new();
        for packet in plan.packets().take(count as usize) {
            let spec = packet.header(qpn(end ^ 1), Pkey::DEFAULT);
            let span = packet.offset as usize..packet.offset as usize + packet.len as usize;
            let payload = if packet.len == 0 {
                &[][..]
            } else {
                &work.payload[span]
            };
            frames.push(Frame::new(end & 1, end, &spec, payload));
        }
        if frames.len() != count as usize {
            return Err(format!(
                "a plan of {} packets has {}",
                plan.count(),
                frames.len()
            ));
        }
        let end = plan.psn().wrapping_add(count);
        match rest {
            Rest::Nothing => {}
            Rest::Unsent => {
                own.observer.put_off(now, now, &own.reference);
                self.engine.unsent(instant, end, &self.ring);
                if self.engine.next_deadline().is_none() {
                    return Err("packets are unsent and there is no deadline".into());
                }
            }
            Rest::Withheld => {
                own.observer.withheld();
                self.engine.withheld(end, &self.ring);
                self.withheld += 1;
            }
        }
        Ok(Some(Burst { frames, rest }))
    }

    /// How many packets of a plan for work `index` go out, and what becomes of the rest.
    fn choose(&mut self, now: Nanos, index: usize, plan: &RequestPlan) -> (u32, Rest) {
        let (count, rest) = match self.rng.chance(self.unsent_per_mille) {
            true => (self.rng.below(plan.count().into()) as u32, Rest::Unsent),
            false => (plan.count(), Rest::Nothing),
        };
        let carries_data =
            |packet: &u32| plan.packet(*packet).is_some_and(|packet| packet.len != 0);
        for packet in (0..count).filter(carries_data) {
            if let Err(at) = self.pages.ask(now, (index, plan.first() + packet)) {
                self.page_comes = Some(at);
                return (packet, Rest::Withheld);
            }
        }
        (count, rest)
    }

    /// Takes in a response. What the engine made of it is told.
    pub(super) fn on_response(
        &mut self,
        now: Nanos,
        headers: &Headers,
        payload: &[u8],
        own: &Watch,
    ) -> Result<String, Violation> {
        let response = Response::from_headers(headers).ok_or("a response is not taken for one")?;
        let placement = self
            .engine
            .on_response(Instant::from_nanos(now), &response, &self.ring);
        let works = &own.reference.flow().works;
        match placement {
            Placement::Read { wqe, offset, len } => {
                let index = wqe.get() as usize;
                let work = works.get(index).ok_or("data placed for no work")?;
                if work.local_fault {
                    self.engine.fail(wqe, WcStatus::LocalProtection);
                    return Ok("local fault".into());
                }
                let place = &mut self.placed[index];
                if len as usize != payload.len() || !work.op.is_read() {
                    return Err(format!(
                        "work {index}: {len} of {} bytes placed",
                        payload.len()
                    ));
                }
                place
                    .put(offset, payload, work.len)
                    .map_err(|violation| format!("READ {index}: {violation}"))?;
            }
            Placement::Atomic { wqe, original } => {
                let index = wqe.get() as usize;
                let work = works.get(index).ok_or("a value placed for no work")?;
                if !work.op.is_atomic() {
                    return Err(format!("a value placed for work {index}, {:?}", work.op));
                }
                if work.local_fault {
                    self.engine.fail(wqe, WcStatus::LocalProtection);
                    return Ok("local fault".into());
                }
                self.placed[index]
                    .put(0, &original.to_le_bytes(), 8)
                    .map_err(|violation| format!("atomic {index}: {violation}"))?;
            }
            Placement::None | Placement::Dropped(_) => {}
        }
        Ok(format!("{placement:?}"))
    }

    /// Reports what is done. True if a work failed, so that the queue pair is in error.
    pub(super) fn complete(
        &mut self,
        about: Circumstances,
        own: &mut Watch,
        said: &mut Vec<String>,
    ) -> Result<bool, Violation> {
        let mut broken = false;
        while let Some(done) = self.engine.poll_completion(&self.ring) {
            let index = done.wqe.get() as usize;
            said.push(format!("work {index} completes: {:?}", done.status));
            if index >= self.posted {
                return Err(format!("work {index} completed before it was posted"));
            }
            own.work_done(
                WorkDone {
                    index,
                    status: done.status.code(),
                    reported: done.reported,
                    placed: self.placed[index].whole(),
                },
                about,
            )?;
            self.ring.release(done.wqe);
            self.completed += 1;
            broken |= !matches!(done.status, WcStatus::Success | WcStatus::WrFlush);
        }
        Ok(broken)
    }

    /// Whatever is true after every step, at the end of which the end wants to be called at `deadline`.
    pub(super) fn check(&self, own: &Watch, deadline: Option<Nanos>) -> Result<(), Violation> {
        let settings = &own.reference.flow().settings;
        if own.awaits_response() && settings.timeout != 0 && deadline.is_none() {
            return Err("a response is awaited without a deadline".into());
        }
        if own.observer.is_draining() && self.engine.is_drained() == own.awaits_response() {
            return Err(format!("is_drained() is {}", self.engine.is_drained()));
        }
        if self.engine.head().get() as usize != self.completed
            || self.engine.tail().get() as usize != self.posted
        {
            return Err("head and tail differ from what was completed and posted".into());
        }
        Ok(())
    }
}

/// The number of the queue pair of an end.
pub(super) fn qpn(end: usize) -> Qpn {
    Qpn::truncate(0x11 + end as u32)
}

/// The path MTU of a flow.
pub fn mtu(settings: &Settings) -> PathMtu {
    PathMtu::fitting(settings.mtu).expect("a path MTU")
}

/// The requester's attributes of a flow.
pub fn config(settings: &Settings) -> SendConfig {
    SendConfig {
        timeout: AckTimeout::new(settings.timeout).expect("five bits"),
        retry: RetryLimit::from_retry_cnt(settings.retry_cnt),
        rnr_retry: RetryLimit::from_rnr_retry(settings.rnr_retry),
        max_rd_atomic: settings.max_rd_atomic,
        window: Window {
            bytes: settings.window_bytes,
            packets: settings.window_packets,
        },
    }
}

/// A work as the engine wants it.
pub fn request(work: &Work) -> Request {
    let operation = match work.op {
        Op::Send => Operation::Send,
        Op::SendImm(imm) => Operation::SendImm(Imm(imm)),
        Op::SendInv(key) => Operation::SendInv(Key(key)),
        Op::Write { va, rkey } => Operation::Write {
            va,
            rkey: Key(rkey),
        },
        Op::WriteImm { va, rkey, imm } => Operation::WriteImm {
            va,
            rkey: Key(rkey),
            imm: Imm(imm),
        },
        Op::Read { va, rkey } => Operation::Read {
            va,
            rkey: Key(rkey),
        },
        Op::CompareSwap {
            va,
            rkey,
            compare,
            swap,
        } => Operation::CompareSwap {
            va,
            rkey: Key(rkey),
            compare,
            swap,
        },
        Op::FetchAdd { va, rkey, add } => Operation::FetchAdd {
            va,
            rkey: Key(rkey),
            add,
        },
        Op::AtomicWrite { va, rkey } => Operation::AtomicWrite {
            va,
            rkey: Key(rkey),
        },
        Op::Flush {
            va,
            rkey,
            len,
            how: (placement, selectivity),
        } => Operation::Flush(Flush {
            rkey: Key(rkey),
            va,
            len,
            placement: wire::Placement::from_bits(placement.into()).expect("a placement"),
            selectivity: Selectivity::new(selectivity).expect("a selectivity"),
        }),
        Op::Local(LocalOp::Invalidate) => Operation::Local(Local::Invalidate(Key(1))),
        Op::Local(LocalOp::Bind) => Operation::Local(Local::Bind(Binding {
            window: Key(1),
            tag: 2,
            region: Key(3),
            va: 0,
            len: 0,
            access: Access::NONE,
        })),
    };
    let flags = RequestFlags {
        signaled: work.signaled,
        solicited: work.solicited,
        fence: work.fence,
    };
    Request::new(operation, work.len, flags).expect("a valid work")
}
