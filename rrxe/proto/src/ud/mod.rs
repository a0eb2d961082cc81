// SPDX-License-Identifier: GPL-2.0

//! Unreliable datagrams.
//!
//! A message is one packet, to whatever queue pair its request names; nobody answers. What is said of
//! an [unreliable connection](crate::uc) holds here as well, with these differences:
//!
//! - [`Sender`]: each request has a [`Destination`]. A message that does not fit into a packet is
//!   done without being sent.
//! - [`Receiver`]: a packet is taken in whoever sent it, if it shows the right key. Room is left in
//!   front of it for the headers of the network.

mod receiver;
mod sender;

#[cfg(test)]
mod tests;

pub use self::{
    receiver::Receiver,
    sender::{
        DatagramQueue,
        Destination,
        Sender, //
    }, //
};

/// Bytes that a receive work request has in front of the message, for a global route header. An
/// IPv4 header takes the last twenty of them.
pub const GRH_LEN: u32 = 40;
