// SPDX-License-Identifier: GPL-2.0

//! The RoCEv2 transport protocol, pure.
//!
//! Events go in, small values that say what to do come out. Nothing here allocates, reads a clock,
//! takes a lock, or owns a byte of payload, and no input makes it panic. The kernel module and the
//! host tests compile the same sources.
//!
//! # Layers
//!
//! - Vocabulary: [`psn`], [`qpn`], [`key`], [`time`], [`timers`], [`mtu`], [`access`], [`status`].
//! - Packets: [`opcode`] is the table every length is derived from, [`wire`] reads and writes the
//!   headers, [`icrc`] masks what the invariant CRC leaves out.
//! - Memory: [`mw`] knows what windows show of it.
//! - Queue pairs: [`state`] says which attributes a transition needs and admits, [`rc`] runs the
//!   two sides of a reliable connection, [`uc`] those of an unreliable one, [`ud`] those of datagrams;
//!   [`congestion`] says how fast they may.

// Kbuild adds `no_std` to every crate itself.
#![cfg_attr(not(any(test, MODULE)), no_std)]
#![forbid(unsafe_code)]
#![deny(
    missing_docs,
    unreachable_pub,
    rust_2018_idioms,
    rustdoc::broken_intra_doc_links
)]
#![deny(
    clippy::arithmetic_side_effects,
    clippy::indexing_slicing,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic
)]
// A test that fails is meant to panic.
#![cfg_attr(
    test,
    allow(
        clippy::arithmetic_side_effects,
        clippy::indexing_slicing,
        clippy::unwrap_used,
        clippy::expect_used,
        clippy::panic
    )
)]

pub mod access;
pub mod congestion;
pub mod icrc;
pub mod key;
pub mod mtu;
pub mod mw;
pub mod opcode;
pub mod psn;
pub mod qpn;
pub mod rc;
pub mod state;
pub mod status;
pub mod time;
pub mod timers;
pub mod uc;
pub mod ud;
pub mod wire;

pub use crate::{
    access::Access,
    key::{
        Imm,
        Key,
        Pkey,
        Qkey, //
    },
    mtu::PathMtu,
    opcode::Opcode,
    psn::{
        Msn,
        Psn, //
    },
    qpn::Qpn,
    time::Instant, //
};
