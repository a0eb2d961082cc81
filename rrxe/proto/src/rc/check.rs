// SPDX-License-Identifier: GPL-2.0

//! Whether a request may be executed.
//!
//! The checks come in the order of PROTOCOL rule 2: PSN, opcode sequence, opcode, resources,
//! length. The PSN has been checked before, key and execution are the caller's.

use crate::{
    key::Imm,
    mtu::MAX_MESSAGE_LEN,
    rc::{
        plan::AckRequest,
        replay::kept,
        responder::{Held, Responder},
        saved::{Due, Executed, Saved},
        task::{
            AtomicOp,
            Effect,
            Message,
            Receipt,
            ReceiveSource,
            Take,
            Task,
            TaskKind,
            Verdict,
            WriteRest, //
        },
    },
    status::{WcOpcode, WcStatus},
    wire::{AtomicEth, Headers, RcRequest, Reth, SendEnd, SendPart, WritePart}, //
};

/// Why a request is not executed.
pub(super) enum Refusal {
    /// There is no receive work request.
    NotReady,
    /// That is the end of the connection.
    Fatal(Verdict),
}

impl From<Verdict> for Refusal {
    fn from(verdict: Verdict) -> Self {
        Self::Fatal(verdict)
    }
}

impl Responder {
    /// What the request, whose PSN is the expected one, leads to.
    pub(super) fn check(
        &mut self,
        headers: &Headers,
        request: &RcRequest,
        source: &mut impl ReceiveSource,
        saved: &[Saved],
    ) -> Result<Task, Refusal> {
        let in_sequence = match (self.message, request) {
            (Message::None, _) => request.position().starts(),
            (Message::Send(_), RcRequest::Send(part)) => !part.position().starts(),
            (Message::Write(_), RcRequest::Write(part)) => !part.position().starts(),
            _ => false,
        };
        if !in_sequence || !self.config.access.contains(request.access()) {
            return Err(Verdict::INVALID_REQUEST.into());
        }
        let (kind, effect) = match request {
            RcRequest::Send(part) => self.check_send(headers, part, source)?,
            RcRequest::Write(part) => self.check_write(headers, part, source)?,
            RcRequest::Read(reth) => self.check_read(headers, reth, saved)?,
            RcRequest::CompareSwap(atomic) => {
                self.check_atomic(headers, atomic, AtomicOp::compare_swap(atomic), saved)?
            }
            RcRequest::FetchAdd(atomic) => {
                self.check_atomic(headers, atomic, AtomicOp::fetch_add(atomic), saved)?
            }
            RcRequest::Flush(..) | RcRequest::AtomicWrite(_) => {
                return Err(Verdict::INVALID_REQUEST.into());
            }
        };
        Ok(Task {
            kind,
            effect,
            ack_request: if headers.ack_request() {
                AckRequest::Yes
            } else {
                AckRequest::No
            },
        })
    }

    fn check_send(
        &mut self,
        headers: &Headers,
        part: &SendPart<SendEnd>,
        source: &mut impl ReceiveSource,
    ) -> Result<(TaskKind, Effect), Refusal> {
        let capacity = self.receive(WcOpcode::Receive, source)?;
        self.check_payload(headers)?;
        let len = headers.payload_len();
        let offset = match self.message {
            Message::Send(received) => received,
            Message::None | Message::Write(_) => 0,
        };
        let received = match offset.checked_add(len) {
            Some(received) if u64::from(received) <= capacity && received <= MAX_MESSAGE_LEN => {
                received
            }
            _ => return Err(Verdict::TOO_LONG.into()),
        };
        let kind = match len {
            0 => TaskKind::Nothing,
            _ => TaskKind::PlaceReceive { offset, len },
        };
        let effect = match *part {
            SendPart::First | SendPart::Middle => Effect::Continue(Message::Send(received)),
            SendPart::Last(end) | SendPart::Only(end) => Effect::Complete(Some(Receipt {
                opcode: WcOpcode::Receive,
                byte_len: received,
                imm: match end {
                    SendEnd::Imm(imm) => Some(imm),
                    SendEnd::Plain | SendEnd::Invalidate(_) => None,
                },
                invalidate: match end {
                    SendEnd::Invalidate(key) => Some(key),
                    SendEnd::Plain | SendEnd::Imm(_) => None,
                },
                solicited: headers.solicited(),
            })),
        };
        Ok((kind, effect))
    }

    fn check_write(
        &mut self,
        headers: &Headers,
        part: &WritePart,
        source: &mut impl ReceiveSource,
    ) -> Result<(TaskKind, Effect), Refusal> {
        let imm = match *part {
            WritePart::First(_) | WritePart::Middle => None,
            WritePart::Last(imm) | WritePart::Only(_, imm) => imm,
        };
        // Nothing is written before there is a receive work request, so that a packet that is
        // sent again after an RNR NAK is not executed twice (PROTOCOL rule 13).
        if imm.is_some() {
            self.receive(WcOpcode::ReceiveRdmaWithImm, source)?;
        }
        self.check_payload(headers)?;
        let rest = match (part, self.message) {
            (WritePart::First(reth) | WritePart::Only(reth, _), _) => WriteRest {
                rkey: reth.rkey(),
                va: reth.va(),
                remaining: reth.dma_len(),
                total: reth.dma_len(),
            },
            (WritePart::Middle | WritePart::Last(_), Message::Write(rest)) => rest,
            _ => return Err(Verdict::INVALID_REQUEST.into()),
        };
        let len = headers.payload_len();
        let ends = part.position().ends();
        let adds_up = match rest.remaining.checked_sub(len) {
            Some(left) => rest.total <= MAX_MESSAGE_LEN && ends == (left == 0),
            None => false,
        };
        if !adds_up {
            return Err(Verdict::INVALID_REQUEST.into());
        }
        let kind = match len {
            0 => TaskKind::Nothing,
            _ => TaskKind::Write {
                rkey: rest.rkey,
                va: rest.va,
                len,
                remaining: rest.remaining,
            },
        };
        let effect = if ends {
            Effect::Complete(imm.map(|imm| written(headers, rest.total, imm)))
        } else {
            Effect::Continue(Message::Write(WriteRest {
                va: rest.va.wrapping_add(u64::from(len)),
                remaining: rest.remaining.saturating_sub(len),
                ..rest
            }))
        };
        Ok((kind, effect))
    }

    fn check_read(
        &self,
        headers: &Headers,
        reth: &Reth,
        saved: &[Saved],
    ) -> Result<(TaskKind, Effect), Refusal> {
        self.check_depth(saved)?;
        self.check_payload(headers)?;
        let (rkey, va, len) = (reth.rkey(), reth.va(), reth.dma_len());
        let kind = match len {
            0 => TaskKind::Nothing,
            1..=MAX_MESSAGE_LEN => TaskKind::Read { rkey, va, len },
            _ => return Err(Verdict::INVALID_REQUEST.into()),
        };
        Ok((kind, Effect::Respond(Executed::Read { rkey, va, len })))
    }

    fn check_atomic(
        &self,
        headers: &Headers,
        atomic: &AtomicEth,
        op: AtomicOp,
        saved: &[Saved],
    ) -> Result<(TaskKind, Effect), Refusal> {
        self.check_depth(saved)?;
        self.check_payload(headers)?;
        let (rkey, va) = (atomic.rkey(), atomic.va());
        if va & 7 != 0 {
            return Err(Verdict::INVALID_REQUEST.into());
        }
        let executed = Executed::Atomic {
            rkey,
            va,
            op,
            original: 0,
        };
        Ok((TaskKind::Atomic { rkey, va, op }, Effect::Respond(executed)))
    }

    /// Has a receive work request in use, and tells the bytes of its memory.
    ///
    /// One that is in use stays so until the message is complete, whatever is sent again.
    fn receive(
        &mut self,
        opcode: WcOpcode,
        source: &mut impl ReceiveSource,
    ) -> Result<u64, Refusal> {
        if let Some(held) = &self.held {
            return Ok(held.capacity);
        }
        let (capacity, fault) = match source.take() {
            Take::Empty => return Err(Refusal::NotReady),
            Take::Taken { capacity } => (capacity, None),
            Take::Invalid(status) => (0, Some(status)),
        };
        self.held = Some(Held {
            capacity,
            opcode,
            status: WcStatus::WrFlush,
        });
        match fault {
            Some(status) => Err(Verdict::bad_receive(status).into()),
            None => Ok(capacity),
        }
    }

    /// Checks how much payload the opcode goes with.
    fn check_payload(&self, headers: &Headers) -> Result<(), Refusal> {
        if !headers.obeys(self.mtu) {
            return Err(Verdict::INVALID_REQUEST.into());
        }
        Ok(())
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

/// What a WRITE with immediate data tells the receiver's completion.
fn written(headers: &Headers, byte_len: u32, imm: Imm) -> Receipt {
    Receipt {
        opcode: WcOpcode::ReceiveRdmaWithImm,
        byte_len,
        imm: Some(imm),
        invalidate: None,
        solicited: headers.solicited(),
    }
}
