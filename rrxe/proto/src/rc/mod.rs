// SPDX-License-Identifier: GPL-2.0

//! Reliable connections.
//!
//! The two sides of a queue pair share no state. [`Requester`] is the send side: it says which
//! packets of which work request to send, and digests the responses. [`Responder`] is the receive
//! side: it says what to do with a request, and which responses to send.
//!
//! Both are machines in the manner of `poll`: an event goes in (`on_*`, with the time if it
//! matters), then the caller asks what there is to do (`poll_*`) until there is nothing. Storage
//! of work requests and of responses to replay is the caller's, and so are all bytes of payload.
//! What concerns one end only, as the invalidation of a key, is a [`Local`] operation: the requester
//! says when its turn has come, the caller carries it out.
//!
//! ```text
//!  work requests --> Requester --RequestPlan--> ....... --> Responder --Task--> memory
//!                        |                                      |
//!  completions <---------+<---Response------- ....... <--ResponsePlan
//! ```
//!
//! # Limitations
//!
//! - Credits in acknowledgements are neither given nor honoured: a sender that outruns the
//!   receives is told by an RNR NAK.

mod aside;
pub(crate) mod assembly;
mod check;
mod completer;
mod cursor;
mod flush;
mod heard;
mod kept;
mod local;
pub(crate) mod news;
pub(crate) mod plan;
mod recovery;
mod replay;
mod reply;
mod request;
mod requester;
mod resend;
mod responder;
mod response;
mod retry;
mod saved;
mod sender;
pub mod share;
mod silence;
mod snapshot;
pub(crate) mod task;
mod window;

#[cfg(test)]
pub(crate) mod tests;

pub use self::{
    flush::Flush,
    kept::Keep,
    local::{Binding, Local, LocalFailed, LocalTask, Registration},
    plan::{RequestPacket, RequestPlan},
    reply::{AtomicReply, Confirmation, ReadReply, ResponsePacket, ResponsePlan},
    request::{Operation, Request, RequestFlags, SendQueue, WqeSeq},
    requester::{Completion, Requester, SendConfig},
    responder::{ReceiveConfig, Responder},
    response::{DropReason, Placement, Response},
    retry::RetryLimit,
    saved::Saved,
    snapshot::{Activity, ReceiveSnapshot, SendSnapshot},
    task::{
        Action,
        AtomicOp,
        Discard,
        Done,
        Event,
        ExecError,
        Failure,
        ReceiveCompletion,
        ReceiveSource,
        Take,
        Task,
        TaskKind, //
    },
    window::Window, //
};
