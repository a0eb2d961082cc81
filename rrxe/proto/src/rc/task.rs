// SPDX-License-Identifier: GPL-2.0

//! What a responder has its caller do.

use crate::{
    key::{Imm, Key},
    qpn::Qpn,
    rc::{
        flush::Flush,
        kept::Keep,
        plan::AckRequest,
        saved::Asked, //
    },
    status::{NakCode, WcOpcode, WcStatus},
    wire::{AtomicEth, Headers}, //
};

/// What a request packet leads to.
#[derive(Debug)]
#[must_use]
pub enum Action {
    /// Nothing at once. What is owed to the peer comes out of
    /// [`poll_transmit`](super::Responder::poll_transmit).
    None,
    /// Nothing: it has been executed before. It is answered once more like [`None`](Self::None).
    Repeated,
    /// Nothing at all.
    Dropped(Discard),
    /// It came after a packet that is missing: store it, then [`keep`](super::Responder::keep) it.
    Keep(Keep),
    /// Do this, then [`commit`](super::Responder::commit) it.
    Execute(Task),
}

/// Why a request packet is dropped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Discard {
    /// It is no request on a connection of this kind.
    NotRequest,
    /// It came after a packet that is missing, and is not kept: it waits already, or there is no
    /// place. On a reliable connection the peer has been told of the gap, or will be.
    OutOfOrder,
    /// It asks again for a response that cannot be given again.
    UnknownDuplicate,
    /// There is no receive work request, and the peer does not wait for one.
    NotReady,
    /// It cannot be executed, and the peer is not told.
    Refused,
    /// It does not show the key of the queue pair.
    WrongQkey,
    /// The queue pair is in the error state.
    Closed,
}

/// What to do for one request packet, and what follows from it.
///
/// There is no way to commit one twice. One that is not committed leaves no trace: the peer will
/// send the packet again.
#[derive(Debug)]
#[must_use]
pub struct Task {
    pub(super) kind: TaskKind,
    pub(super) effect: Effect,
    pub(super) ack_request: AckRequest,
}

/// What to do with memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TaskKind {
    /// Nothing, and no key or address is to be checked (C9-88).
    Nothing,
    /// Copy the payload to the memory of the receive work request.
    PlaceReceive {
        /// Where in that memory, in bytes.
        offset: u32,
        /// Bytes.
        len: u32,
    },
    /// Copy the headers of the network to the beginning of the memory of the receive work request, as
    /// [`GRH_LEN`](crate::ud::GRH_LEN) bytes, and the payload after them.
    PlaceDatagram {
        /// Bytes of payload.
        len: u32,
    },
    /// Copy the payload to memory that the peer names.
    Write {
        /// Key of the memory.
        rkey: Key,
        /// Address of the packet's first byte.
        va: u64,
        /// Bytes of the packet.
        len: u32,
        /// Bytes from `va` to the end of the message, to all of which the key must give access.
        remaining: u32,
    },
    /// Check that memory may be read. It is read when the response is sent.
    Read {
        /// Key of the memory.
        rkey: Key,
        /// Address of the first byte.
        va: u64,
        /// Bytes of the whole response.
        len: u32,
    },
    /// Change eight bytes in one step. The address is aligned.
    Atomic {
        /// Key of the memory.
        rkey: Key,
        /// Address of the eight bytes.
        va: u64,
        /// What to do with them.
        op: AtomicOp,
    },
    /// Have all writes before get as far as they are to get, after a check that the key gives the
    /// rights of the [placement](Flush::placement).
    Flush(Flush),
    /// Store the payload, eight bytes, in one step. The address is aligned.
    AtomicWrite {
        /// Key of the memory.
        rkey: Key,
        /// Address of the eight bytes.
        va: u64,
    },
}

/// An atomic operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AtomicOp {
    /// Puts `swap` where `compare` was found.
    CompareSwap {
        /// What must be there.
        compare: u64,
        /// What to put there.
        swap: u64,
    },
    /// Adds to what is there.
    FetchAdd {
        /// What to add.
        add: u64,
    },
}

impl AtomicOp {
    pub(super) const fn compare_swap(atomic: &AtomicEth) -> Self {
        Self::CompareSwap {
            compare: atomic.compare(),
            swap: atomic.swap_or_add(),
        }
    }

    pub(super) const fn fetch_add(atomic: &AtomicEth) -> Self {
        Self::FetchAdd {
            add: atomic.swap_or_add(),
        }
    }
}

/// The caller has done a task.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Done {
    /// What an atomic operation found. Means nothing for other tasks.
    pub original: u64,
}

/// The caller could not do a task.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ExecError {
    /// The key does not give the peer that access.
    RemoteAccess,
    /// The device failed.
    RemoteOperation,
    /// The memory of the receive work request may not be written.
    LocalProtection,
    /// The memory of the receive work request is too short after all.
    LocalLength,
    /// The key that the peer wants invalidated is not one it may have invalidated.
    Invalidate,
}

/// What a task that was done leads to.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Effect {
    /// A packet of a message has been executed.
    Message(Step),
    /// A response is due, and is kept for when it is asked for again.
    Respond(Asked),
}

/// How a packet changes the message that it is of.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Step {
    /// The message goes on.
    Continue(Message),
    /// The message is complete.
    Complete(Option<Receipt>),
}

/// The message that a responder is in the middle of. There is at most one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Message {
    /// None: the next packet starts one.
    #[default]
    None,
    /// A SEND of which so many bytes have arrived.
    Send(u32),
    /// A WRITE.
    Write(WriteRest),
}

/// What is still to arrive of a WRITE.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct WriteRest {
    pub(super) rkey: Key,
    /// Address of the next byte.
    pub(super) va: u64,
    /// Bytes to arrive.
    pub(super) remaining: u32,
    /// Bytes of the whole message.
    pub(super) total: u32,
}

/// What the last packet of a message tells the receiver's completion.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Receipt {
    pub(super) opcode: WcOpcode,
    pub(super) byte_len: u32,
    pub(super) imm: Option<Imm>,
    pub(super) invalidate: Option<Key>,
    pub(super) solicited: bool,
    pub(super) source: Option<Qpn>,
}

impl Task {
    /// What the packet with `headers` leads to.
    pub(crate) fn new(headers: &Headers, kind: TaskKind, effect: Effect) -> Self {
        Self {
            kind,
            effect,
            ack_request: if headers.ack_request() {
                AckRequest::Yes
            } else {
                AckRequest::No
            },
        }
    }

    /// What follows when it is done.
    pub(crate) fn effect(&self) -> Effect {
        self.effect
    }

    /// What to do with memory.
    pub fn kind(&self) -> TaskKind {
        self.kind
    }

    /// The key to invalidate after that.
    pub fn invalidate(&self) -> Option<Key> {
        match self.effect {
            Effect::Message(Step::Complete(Some(receipt))) => receipt.invalidate,
            _ => None,
        }
    }
}

/// A receive work request is done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReceiveCompletion {
    /// How it ended.
    pub status: WcStatus,
    /// [`WcOpcode::Receive`] or [`WcOpcode::ReceiveRdmaWithImm`].
    pub opcode: WcOpcode,
    /// Bytes of the message, whether received or written. Of a datagram, with the headers before it.
    pub byte_len: u32,
    /// Immediate data as it was sent.
    pub imm: Option<Imm>,
    /// The key that was invalidated.
    pub invalidated: Option<Key>,
    /// The peer wants the receiver woken.
    pub solicited: bool,
    /// The queue pair that sent it, if it is a datagram.
    pub source: Option<Qpn>,
}

/// Something to tell the consumer, or that concerns the whole queue pair.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// The first request has arrived. Of interest to a queue pair that cannot send yet.
    CommunicationEstablished,
    /// The queue pair must go to the error state.
    Failed(Failure),
}

/// Why the receive side has failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Failure {
    /// The peer's request made no sense: `QP_REQ_ERR`.
    InvalidRequest,
    /// The peer's request was forbidden: `QP_ACCESS_ERR`.
    Access,
    /// The device failed: `QP_FATAL`.
    Fatal,
    /// A receive work request was at fault. Its completion tells, and there is no other event.
    Receive,
}

/// How the two sides learn of a failure.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Verdict {
    /// For the peer.
    pub(super) nak: NakCode,
    /// For the receive work request in use, if there is one.
    pub(crate) receive: WcStatus,
    /// For the consumer.
    pub(crate) failure: Failure,
}

impl Verdict {
    pub(crate) const INVALID_REQUEST: Self = Self {
        nak: NakCode::InvalidRequest,
        receive: WcStatus::WrFlush,
        failure: Failure::InvalidRequest,
    };

    pub(super) const REMOTE_ACCESS: Self = Self {
        nak: NakCode::RemoteAccess,
        receive: WcStatus::WrFlush,
        failure: Failure::Access,
    };

    /// A message longer than the receive work request (PROTOCOL rule 19).
    pub(super) const TOO_LONG: Self = Self {
        nak: NakCode::InvalidRequest,
        receive: WcStatus::LocalLength,
        failure: Failure::Receive,
    };

    /// Whether it is the peer that is at fault where it cannot be told: its faults are of no
    /// consequence there, a message that is too long for the receive work request among them.
    pub(crate) fn blames_peer(&self) -> bool {
        match self.failure {
            Failure::InvalidRequest | Failure::Access => true,
            Failure::Receive => self.receive == WcStatus::LocalLength,
            Failure::Fatal => false,
        }
    }

    /// The receive work request is at fault, of which the peer learns no more than that.
    pub(super) const fn bad_receive(status: WcStatus) -> Self {
        Self {
            nak: NakCode::RemoteOperational,
            receive: status,
            failure: Failure::Receive,
        }
    }
}

impl From<ExecError> for Verdict {
    fn from(error: ExecError) -> Self {
        match error {
            ExecError::RemoteAccess => Self::REMOTE_ACCESS,
            ExecError::RemoteOperation => Self {
                nak: NakCode::RemoteOperational,
                receive: WcStatus::WrFlush,
                failure: Failure::Fatal,
            },
            ExecError::LocalProtection => Self::bad_receive(WcStatus::LocalProtection),
            ExecError::LocalLength => Self::TOO_LONG,
            ExecError::Invalidate => Self {
                nak: NakCode::RemoteAccess,
                receive: WcStatus::RemoteInvalidRequest,
                failure: Failure::Receive,
            },
        }
    }
}

/// The source of receive work requests: a queue of the queue pair's own, or a shared one.
pub trait ReceiveSource {
    /// Takes the next one. What is taken is reported once, by
    /// [`commit`](super::Responder::commit) or [`poll_flush`](super::Responder::poll_flush).
    fn take(&mut self) -> Take;
}

/// What there was to take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Take {
    /// A work request.
    Taken {
        /// Bytes of its memory.
        capacity: u64,
    },
    /// None is posted.
    Empty,
    /// A work request that cannot be used, and completes with that status.
    Invalid(WcStatus),
}
