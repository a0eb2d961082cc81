// SPDX-License-Identifier: GPL-2.0

//! Whether a request may be executed.
//!
//! The checks come in the order of PROTOCOL rule 2: PSN, opcode sequence, opcode, resources,
//! length. The PSN has been checked before, key and execution are the caller's.

use crate::{
    mtu::MAX_MESSAGE_LEN,
    rc::{
        assembly::Refusal,
        flush::Flush,
        replay::kept,
        responder::Responder,
        saved::{Asked, Due, Saved},
        task::{
            AtomicOp,
            Effect,
            ReceiveSource,
            Task,
            TaskKind,
            Verdict, //
        },
    },
    wire::{AtomicEth, Feth, Headers, RcRequest, Reth}, //
};

impl Responder {
    /// What the request, whose PSN is the expected one, leads to.
    pub(super) fn check(
        &mut self,
        headers: &Headers,
        request: &RcRequest,
        source: &mut impl ReceiveSource,
        saved: &[Saved],
    ) -> Result<Task, Refusal> {
        if !self.assembly.is_continued_by(request) || !self.config.access.contains(request.access())
        {
            return Err(Verdict::INVALID_REQUEST.into());
        }
        let (kind, effect) = match request {
            RcRequest::Send(part) => {
                let (kind, step) = self.assembly.check_send(headers, part, source)?;
                (kind, Effect::Message(step))
            }
            RcRequest::Write(part) => {
                let (kind, step) = self.assembly.check_write(headers, part, source)?;
                (kind, Effect::Message(step))
            }
            RcRequest::Read(reth) => self.check_read(headers, reth, saved)?,
            RcRequest::CompareSwap(atomic) => {
                self.check_atomic(headers, atomic, AtomicOp::compare_swap(atomic), saved)?
            }
            RcRequest::FetchAdd(atomic) => {
                self.check_atomic(headers, atomic, AtomicOp::fetch_add(atomic), saved)?
            }
            RcRequest::Flush(feth, reth) => self.check_flush(headers, feth, reth, saved)?,
            RcRequest::AtomicWrite(reth) => self.check_atomic_write(headers, reth, saved)?,
        };
        Ok(Task::new(headers, kind, effect))
    }

    fn check_read(
        &self,
        headers: &Headers,
        reth: &Reth,
        saved: &[Saved],
    ) -> Result<(TaskKind, Effect), Refusal> {
        self.check_depth(saved)?;
        self.assembly.check_payload(headers)?;
        let (rkey, va, len) = (reth.rkey(), reth.va(), reth.dma_len());
        let kind = match len {
            0 => TaskKind::Nothing,
            1..=MAX_MESSAGE_LEN => TaskKind::Read { rkey, va, len },
            _ => return Err(Verdict::INVALID_REQUEST.into()),
        };
        Ok((kind, Effect::Respond(Asked::Read { rkey, va, len })))
    }

    fn check_atomic(
        &self,
        headers: &Headers,
        atomic: &AtomicEth,
        op: AtomicOp,
        saved: &[Saved],
    ) -> Result<(TaskKind, Effect), Refusal> {
        self.check_depth(saved)?;
        self.assembly.check_payload(headers)?;
        let (rkey, va) = (atomic.rkey(), atomic.va());
        if va & 7 != 0 {
            return Err(Verdict::INVALID_REQUEST.into());
        }
        let asked = Asked::Atomic { rkey, va, op };
        Ok((TaskKind::Atomic { rkey, va, op }, Effect::Respond(asked)))
    }

    fn check_flush(
        &self,
        headers: &Headers,
        feth: &Feth,
        reth: &Reth,
        saved: &[Saved],
    ) -> Result<(TaskKind, Effect), Refusal> {
        self.check_depth(saved)?;
        self.assembly.check_payload(headers)?;
        let flush = Flush::read(feth, reth).ok_or(Verdict::INVALID_REQUEST)?;
        Ok((TaskKind::Flush(flush), Effect::Respond(Asked::Flush(flush))))
    }

    fn check_atomic_write(
        &self,
        headers: &Headers,
        reth: &Reth,
        saved: &[Saved],
    ) -> Result<(TaskKind, Effect), Refusal> {
        self.check_depth(saved)?;
        self.assembly.check_payload(headers)?;
        let (rkey, va) = (reth.rkey(), reth.va());
        if va & 7 != 0 || reth.dma_len() != headers.payload_len() {
            return Err(Verdict::INVALID_REQUEST.into());
        }
        let asked = Asked::AtomicWrite { rkey, va };
        Ok((TaskKind::AtomicWrite { rkey, va }, Effect::Respond(asked)))
    }

    /// Checks that the peer does not have more READs and atomics on their way than it may.
    ///
    /// As responses go out in order, it has if the one that is that many back is not out. If that
    /// is to go out again, the peer has the first copy, or it would not have sent this request.
    fn check_depth(&self, saved: &[Saved]) -> Result<(), Refusal> {
        let depth = u64::from(self.config.max_dest_rd_atomic).min(saved.len() as u64);
        let exceeded = match self.executed.checked_sub(depth) {
            _ if depth == 0 => true,
            Some(oldest) => {
                kept(oldest, saved).is_some_and(|entry| matches!(entry.due, Due::First(_)))
            }
            None => false,
        };
        if exceeded {
            return Err(Verdict::INVALID_REQUEST.into());
        }
        Ok(())
    }
}
