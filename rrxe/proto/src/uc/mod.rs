// SPDX-License-Identifier: GPL-2.0

//! Unreliable connections.
//!
//! As on a [reliable connection](crate::rc) the two sides share no state, and both are machines in
//! the manner of `poll`. Work requests, plans, tasks and completions are those of a reliable
//! connection. What is different is that nobody answers:
//!
//! - [`Sender`]: what has been handed over is done. There is nothing to wait for and nothing to send
//!   again. A request that fails stops the send queue only, which can be started again.
//! - [`Receiver`]: what cannot be executed is dropped with the rest of its message, and the peer does
//!   not learn of it. The next message that starts is taken in again.
//!
//! # Limitations
//!
//! A packet that starts a message is taken in whatever its PSN, or a long gap would never end. So a
//! network that copies packets or changes their order may have a message arrive twice or late.

mod receiver;
mod sender;

#[cfg(test)]
mod tests;

pub use self::{receiver::Receiver, sender::Sender};
