// SPDX-License-Identifier: GPL-2.0

//! A deterministic simulator of the reliable connection engine.
//!
//! Ends, each with a requester and a responder of the engine, exchange real packets over links that
//! lose, copy, reorder, delay and damage them, in virtual time. Everything random follows from one
//! seed, so every failure can be replayed exactly. After each step what happened is compared with
//! what had to happen:
//!
//! - [`scenario`] makes programs for the ends, and the trouble they meet, from a seed;
//! - [`reference`] computes from the programs alone what a responder must do, once and in order;
//! - [`observer`] decodes every packet on the link with a decoder of its own ([`packet`]) and keeps
//!   its own account of windows, credits, retries and debts;
//! - [`watch`] judges completions;
//! - [`end`] carries out what the engine decides, as a data path would;
//! - [`link`] is the cable, a chain of nodes;
//! - [`world`] lets time pass.
//!
//! `cargo test --release` runs everything; `RRXE_SCENARIOS` and `RRXE_SEED` say how many random
//! scenarios, and from which seed on. A failure tells the command that replays it packet by packet.
//! Profiles check for overflow as the kernel does.
//!
//! # Limitations
//!
//! - IPv4 only; other operations than SEND, WRITE, READ and the two atomics are not sent.
//! - Attributes do not change while a queue pair lives, but for draining and the error state.
//! - What a READ races with is judged byte by byte: each may be as any of the works left it that
//!   may be executed between request and response.

pub mod agenda;
pub mod end;
pub mod frame;
pub mod link;
pub mod memory;
pub mod observer;
pub mod packet;
pub mod program;
pub mod queue;
pub mod reference;
pub mod rng;
pub mod scenario;
pub mod watch;
pub mod world;
