// SPDX-License-Identifier: GPL-2.0

//! The path of a message: from the send ring to the wire, from the wire to memory, and back to the
//! completion ring.
//!
//! In the order data flows: [`send`] takes work requests from the ring and runs the requester,
//! [`local`] carries out what concerns this end only, [`transmit`] makes packets of its plans,
//! [`ingress`] finds the queue pair of a packet that came in, [`respond`] runs the responder,
//! [`memory`] moves the bytes. The protocol itself is the crate `rrxe_proto`; nothing here decides
//! what it can decide. How fast all of that may go is the business of [`congestion`].
//!
//! # Contexts
//!
//! Work is done where it arises: in the doorbell's system call, in the receive softirq. What had to
//! wait for a time is done in a thread. Each side of a queue pair is an
//! [`Owned`](crate::kapi::sync::Owned) value, so a context that finds it busy leaves its packet on
//! the side's backlog and goes on.

mod allowance;
mod arrival;
pub(crate) mod attachment;
mod backlog;
pub(crate) mod congestion;
pub(crate) mod counters;
pub(crate) mod cq;
pub(crate) mod fast_region;
mod flush;
pub(crate) mod groups;
pub(crate) mod handle;
pub(crate) mod ingress;
mod local;
pub(crate) mod machine;
mod memory;
pub(crate) mod moderation;
pub(crate) mod node;
mod paging;
pub(crate) mod patience;
pub(crate) mod peer;
pub(crate) mod qp;
pub(crate) mod receive_queue;
pub(crate) mod region;
pub(crate) mod rejoin;
pub(crate) mod respond;
pub(crate) mod send;
mod setting;
mod shares;
pub(crate) mod srq;
mod station;
mod tally;
mod throttle;
mod transmit;
mod waiting;
mod wake;
mod want;
pub(crate) mod way;
pub(crate) mod window;
