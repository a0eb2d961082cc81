// SPDX-License-Identifier: GPL-2.0

//! What is known of one flow, and the judge of its completions.

use crate::{
    observer::Observer,
    program::{
        Op,
        Work, //
    },
    reference::{
        Reference,
        Violation, //
    },
    scenario::Fate, //
};

/// Completion statuses by their `ib_wc_status` number.
#[allow(missing_docs)]
pub mod status {
    pub const SUCCESS: u32 = 0;
    pub const LOCAL_LENGTH: u32 = 1;
    pub const LOCAL_PROTECTION: u32 = 4;
    pub const FLUSH: u32 = 5;
    pub const RETRY_EXCEEDED: u32 = 12;
    pub const RNR_RETRY_EXCEEDED: u32 = 13;
}

/// A completion of a work, as its poster sees it.
#[derive(Clone, Copy, Debug)]
pub struct WorkDone<'a> {
    /// The work.
    pub index: usize,
    /// How it ended.
    pub status: u32,
    /// Whether there is a completion entry for it.
    pub reported: bool,
    /// What was placed for it.
    pub placed: &'a [u8],
}

/// A completion of a receive, as its poster sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub struct ReceiveDone {
    pub status: u32,
    pub byte_len: u32,
    pub imm: Option<[u8; 4]>,
    pub invalidated: Option<u32>,
    pub solicited: bool,
    pub by_write: bool,
}

/// Circumstances that widen what may become of a flow.
#[derive(Clone, Copy, Debug)]
pub struct Circumstances {
    /// The link has done harm.
    pub harmed: bool,
    /// The requester's queue pair was moved to the error state for another reason.
    pub aborted: bool,
    /// The responder's queue pair is in the error state, so it does not answer.
    pub peer_dead: bool,
}

/// What is known of one flow.
#[derive(Debug)]
pub struct Watch {
    /// What must happen.
    pub reference: Reference,
    /// What is seen on the link.
    pub observer: Observer,
    fate: Fate,
    completed: usize,
    failed: Option<usize>,
    /// Local works carried out.
    locals: usize,
    taken: usize,
    received: usize,
}

impl Watch {
    /// Watches a flow that has not begun.
    pub fn new(reference: Reference, fate: Fate) -> Self {
        let observer = Observer::new(&reference);
        Self {
            reference,
            observer,
            fate,
            completed: 0,
            failed: None,
            locals: 0,
            taken: 0,
            received: 0,
        }
    }

    /// Works completed.
    pub fn completed(&self) -> usize {
        self.completed
    }

    /// Whether every work has completed.
    pub fn is_done(&self) -> bool {
        self.completed == self.reference.flow().works.len()
    }

    /// Whether every work has succeeded.
    pub fn has_succeeded(&self) -> bool {
        self.is_done() && self.failed.is_none()
    }

    /// Whether packets are sent whose work has not completed.
    pub fn awaits_response(&self) -> bool {
        self.observer.sent() > self.reference.start(self.completed)
    }

    /// Judges the completion of a work.
    pub fn work_done(&mut self, done: WorkDone<'_>, about: Circumstances) -> Result<(), Violation> {
        let index = done.index;
        if index != self.completed {
            return Err(format!(
                "work {index} completed while {} is due",
                self.completed
            ));
        }
        let Some(work) = self.reference.flow().works.get(index) else {
            return Err(format!("work {index} completed, there is none"));
        };
        let reported = work.signaled || done.status != status::SUCCESS;
        if done.reported != reported {
            return Err(format!(
                "work {index} with status {} is {}reported",
                done.status,
                if done.reported { "" } else { "not " },
            ));
        }
        if done.status == status::SUCCESS {
            if let Some(failed) = self.failed {
                return Err(format!("work {index} succeeded after {failed} failed"));
            }
            self.success(index, done.placed)?;
        } else {
            self.failure(index, done.status, about)?;
            self.failed.get_or_insert(index);
        }
        self.completed += 1;
        Ok(())
    }

    /// The turn of local work `index` has come. How it goes is told.
    pub fn local_turn(&mut self, index: usize) -> Result<Result<(), ()>, Violation> {
        let works = &self.reference.flow().works;
        let local = works
            .iter()
            .enumerate()
            .filter(|(_, work)| work.op.is_local());
        let due = local.map(|(index, _)| index).nth(self.locals);
        if due != Some(index) {
            return Err(format!("local work {index} in the turn of {due:?}"));
        }
        self.observer.local_turn(&self.reference, index)?;
        if works[index].local_fault {
            return Ok(Err(()));
        }
        self.locals += 1;
        self.observer.local_done();
        Ok(Ok(()))
    }

    fn success(&self, index: usize, placed: &[u8]) -> Result<(), Violation> {
        if let Fate::Fails { work, .. } = self.fate {
            if index >= work {
                return Err(format!("work {index} succeeded, {work} had to fail"));
            }
        }
        let reference = &self.reference;
        if reference.executed() < reference.start(index + 1) {
            return Err(format!(
                "work {index} succeeded, the responder has executed {} of {} packets",
                reference.executed(),
                reference.start(index + 1),
            ));
        }
        let op = reference.flow().works[index].op;
        let locals = reference.flow().works[..=index]
            .iter()
            .filter(|work| work.op.is_local())
            .count();
        if locals > self.locals {
            return Err(format!("work {index} succeeded before a local one"));
        }
        if op.takes_credit() && !self.observer.settled(reference, index) {
            return Err(format!(
                "work {index} succeeded before its responses were delivered"
            ));
        }
        if op.is_read() {
            reference.judge_read(index, placed)?;
        }
        if op.is_atomic() && placed != reference.found(index).to_le_bytes() {
            return Err(format!(
                "atomic {index} placed {placed:02x?}, found was {:#x}",
                reference.found(index),
            ));
        }
        Ok(())
    }

    fn failure(&self, index: usize, status: u32, about: Circumstances) -> Result<(), Violation> {
        if status == status::FLUSH {
            return match self.failed {
                None if !about.aborted => Err(format!("work {index} flushed for no reason")),
                _ => Ok(()),
            };
        }
        if let Some(failed) = self.failed {
            return Err(format!(
                "work {index} failed with {status} after {failed} did"
            ));
        }
        let settings = &self.reference.flow().settings;
        if status == status::RETRY_EXCEEDED {
            let retries = self.observer.retries();
            if !retries.contains(&settings.retry_cnt.into()) {
                return Err(format!(
                    "given up after {retries:?} retries, not {}",
                    settings.retry_cnt
                ));
            }
        }
        if status == status::RNR_RETRY_EXCEEDED {
            let naks = self.observer.rnr_naks();
            if settings.rnr_retry == 7 || naks != u32::from(settings.rnr_retry) + 1 {
                return Err(format!(
                    "given up after {naks} RNR NAKs, not {}",
                    settings.rnr_retry
                ));
            }
        }
        let silent = status == status::RETRY_EXCEEDED && (about.harmed || about.peer_dead);
        let expected = match self.fate {
            Fate::Succeeds => false,
            Fate::Fails { work, statuses } => {
                (index == work && statuses.contains(&status))
                    || (index <= work && silent && about.peer_dead)
            }
            Fate::May { statuses } => {
                silent || status == status::RNR_RETRY_EXCEEDED || statuses.contains(&status)
            }
        };
        if expected {
            return Ok(());
        }
        Err(format!(
            "work {index} failed with status {status}; fate was {:?}",
            self.fate
        ))
    }

    /// The responder took one more receive for this flow.
    pub fn receive_taken(&mut self) -> Result<(), Violation> {
        self.taken += 1;
        let due = self.receives_begun() + 1;
        if self.taken > due {
            return Err(format!("{} receives taken, {due} are due", self.taken));
        }
        Ok(())
    }

    /// After a step of the responder that did not fail: one receive for each message that uses one.
    pub fn receives_balance(&self) -> Result<(), Violation> {
        let due = self.receives_begun();
        if self.taken != due {
            return Err(format!("{} receives taken for {due} messages", self.taken));
        }
        Ok(())
    }

    /// The responder completed the last packet of message `index`.
    pub fn message_done(
        &mut self,
        index: usize,
        done: Option<ReceiveDone>,
    ) -> Result<(), Violation> {
        let due = self.receive_due(&self.reference.flow().works[index]);
        if done != due {
            return Err(format!(
                "message {index} completed {done:?}, should be {due:?}"
            ));
        }
        self.received += usize::from(done.is_some());
        Ok(())
    }

    /// Receives completed with success.
    pub fn received(&self) -> usize {
        self.received
    }

    /// Receives taken.
    pub fn taken(&self) -> usize {
        self.taken
    }

    fn receive_due(&self, work: &Work) -> Option<ReceiveDone> {
        let done = ReceiveDone {
            status: status::SUCCESS,
            byte_len: work.len,
            imm: None,
            invalidated: None,
            solicited: work.solicited,
            by_write: false,
        };
        match work.op {
            Op::Send => Some(done),
            Op::SendImm(imm) => Some(ReceiveDone {
                imm: Some(imm),
                ..done
            }),
            Op::SendInv(key) => Some(ReceiveDone {
                invalidated: Some(key),
                ..done
            }),
            Op::WriteImm { imm, .. } => Some(ReceiveDone {
                imm: Some(imm),
                by_write: true,
                ..done
            }),
            _ => None,
        }
    }

    /// Messages executed far enough to have taken a receive.
    fn receives_begun(&self) -> usize {
        let reference = &self.reference;
        let executed = reference.executed();
        let begun = |(index, work): (usize, &Work)| match work.op {
            Op::WriteImm { .. } => reference.start(index + 1) <= executed,
            _ => work.op.takes_receive() && reference.start(index) < executed,
        };
        reference
            .flow()
            .works
            .iter()
            .enumerate()
            .filter(|&pair| begun(pair))
            .count()
    }
}
