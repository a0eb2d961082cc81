// SPDX-License-Identifier: GPL-2.0

//! How packets make a message, and what it is put into.

use crate::{
    key::Imm,
    mtu::{PathMtu, MAX_MESSAGE_LEN},
    qpn::Qpn,
    rc::task::{
        Message,
        Receipt,
        ReceiveCompletion,
        ReceiveSource,
        Step,
        Take,
        TaskKind,
        Verdict,
        WriteRest, //
    },
    status::{WcOpcode, WcStatus},
    ud::GRH_LEN,
    wire::{Headers, RcRequest, SendEnd, SendPart, WritePart}, //
};

/// The SEND or WRITE that a receive side is in the middle of, and the receive work request that it
/// has taken.
#[derive(Debug)]
pub(crate) struct Assembly {
    mtu: PathMtu,
    message: Message,
    /// The receive work request in use.
    held: Option<Held>,
}

/// A receive work request that has been taken and not reported.
#[derive(Clone, Copy, Debug)]
struct Held {
    /// Bytes of its memory.
    capacity: u64,
    opcode: WcOpcode,
    /// What it completes with if the message does not complete.
    status: WcStatus,
}

/// Why a request is not executed.
pub(crate) enum Refusal {
    /// There is no receive work request.
    NotReady,
    /// It cannot be.
    Wrong(Verdict),
}

impl From<Verdict> for Refusal {
    fn from(verdict: Verdict) -> Self {
        Self::Wrong(verdict)
    }
}

impl Assembly {
    /// No message, of packets of a path MTU of `mtu`.
    pub(crate) const fn new(mtu: PathMtu) -> Self {
        Self {
            mtu,
            message: Message::None,
            held: None,
        }
    }

    /// Whether a packet may follow those that came before: it starts a message if there is none, and
    /// goes on with the one that there is.
    pub(crate) fn is_continued_by(&self, request: &RcRequest) -> bool {
        match (self.message, request) {
            (Message::None, _) => request.position().starts(),
            (Message::Send(_), RcRequest::Send(part)) => !part.position().starts(),
            (Message::Write(_), RcRequest::Write(part)) => !part.position().starts(),
            _ => false,
        }
    }

    /// What a packet of a SEND that [continues](Self::is_continued_by) the message leads to.
    pub(crate) fn check_send(
        &mut self,
        headers: &Headers,
        part: &SendPart<SendEnd>,
        source: &mut impl ReceiveSource,
    ) -> Result<(TaskKind, Step), Refusal> {
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
        let step = match *part {
            SendPart::First | SendPart::Middle => Step::Continue(Message::Send(received)),
            SendPart::Last(end) | SendPart::Only(end) => Step::Complete(Some(Receipt {
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
                source: None,
            })),
        };
        Ok((kind, step))
    }

    /// What a packet of a WRITE that [continues](Self::is_continued_by) the message leads to.
    pub(crate) fn check_write(
        &mut self,
        headers: &Headers,
        part: &WritePart,
        source: &mut impl ReceiveSource,
    ) -> Result<(TaskKind, Step), Refusal> {
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
        let step = if ends {
            Step::Complete(imm.map(|imm| written(headers, rest.total, imm)))
        } else {
            Step::Continue(Message::Write(WriteRest {
                va: rest.va.wrapping_add(u64::from(len)),
                remaining: rest.remaining.saturating_sub(len),
                ..rest
            }))
        };
        Ok((kind, step))
    }

    /// What a datagram leads to, which is a message for itself.
    pub(crate) fn check_datagram(
        &mut self,
        headers: &Headers,
        source: Qpn,
        imm: Option<Imm>,
        receives: &mut impl ReceiveSource,
    ) -> Result<(TaskKind, Step), Refusal> {
        let capacity = self.receive(WcOpcode::Receive, receives)?;
        self.check_payload(headers)?;
        let len = headers.payload_len();
        let byte_len = len.saturating_add(GRH_LEN);
        if u64::from(byte_len) > capacity {
            return Err(Verdict::TOO_LONG.into());
        }
        let receipt = Receipt {
            opcode: WcOpcode::Receive,
            byte_len,
            imm,
            invalidate: None,
            solicited: headers.solicited(),
            source: Some(source),
        };
        Ok((
            TaskKind::PlaceDatagram { len },
            Step::Complete(Some(receipt)),
        ))
    }

    /// Takes note that a packet has been executed. Gives the receive work request that is complete.
    pub(crate) fn advance(&mut self, step: Step) -> Option<ReceiveCompletion> {
        match step {
            Step::Continue(message) => {
                self.message = message;
                None
            }
            Step::Complete(receipt) => {
                self.message = Message::None;
                self.complete(receipt?)
            }
        }
    }

    /// Drops the message. The receive work request in use is kept for the next one that needs one.
    pub(crate) fn abandon(&mut self) {
        self.message = Message::None;
    }

    /// The receive work request in use, if there is one, shall complete with `status`.
    pub(crate) fn spoil(&mut self, status: WcStatus) {
        if let Some(held) = &mut self.held {
            held.status = status;
        }
    }

    /// Completes the receive work request in use without a message.
    pub(crate) fn flush(&mut self) -> Option<ReceiveCompletion> {
        self.held.take().map(|held| ReceiveCompletion {
            status: held.status,
            opcode: held.opcode,
            byte_len: 0,
            imm: None,
            invalidated: None,
            solicited: false,
            source: None,
        })
    }

    /// Checks how much payload the opcode goes with.
    pub(crate) fn check_payload(&self, headers: &Headers) -> Result<(), Refusal> {
        if !headers.obeys(self.mtu) {
            return Err(Verdict::INVALID_REQUEST.into());
        }
        Ok(())
    }

    /// Reports the receive work request in use.
    fn complete(&mut self, receipt: Receipt) -> Option<ReceiveCompletion> {
        self.held.take().map(|_| ReceiveCompletion {
            status: WcStatus::Success,
            opcode: receipt.opcode,
            byte_len: receipt.byte_len,
            imm: receipt.imm,
            invalidated: receipt.invalidate,
            solicited: receipt.solicited,
            source: receipt.source,
        })
    }

    /// Has a receive work request in use, and tells the bytes of its memory.
    ///
    /// One that is in use stays so until a message is complete, whatever is sent again or dropped.
    fn receive(
        &mut self,
        opcode: WcOpcode,
        source: &mut impl ReceiveSource,
    ) -> Result<u64, Refusal> {
        if let Some(held) = &mut self.held {
            held.opcode = opcode;
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
}

/// What a WRITE with immediate data tells the receiver's completion.
fn written(headers: &Headers, byte_len: u32, imm: Imm) -> Receipt {
    Receipt {
        opcode: WcOpcode::ReceiveRdmaWithImm,
        byte_len,
        imm: Some(imm),
        invalidate: None,
        solicited: headers.solicited(),
        source: None,
    }
}
