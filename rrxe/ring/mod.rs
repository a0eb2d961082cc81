// SPDX-License-Identifier: GPL-2.0

//! Queues shared with user space, and those of consumers inside the kernel.
//!
//! User space is hostile: all it can put into this memory is bytes, at any time. What is read is
//! read once, into private memory, and validated there as a whole. Indices are masked. What the
//! kernel itself needs to remember is private, the copies in shared memory are for user space to
//! read.
//!
//! - [`abi`] has the layouts, [`index`] the sizes and the index arithmetic.
//! - [`element`], [`send_wqe`], [`receive_wqe`] read and validate what user space posted. They
//!   depend on neither the kernel nor shared memory; the host tests compile them too.
//! - [`shared`] is a ring's memory; [`send`], [`receive`], [`completion`] are the three uses of it.
//! - Consumers inside the kernel post to the same rings by a [`producer`]. Their completions are in a
//!   [`completion_list`], from which they are handed out.

pub(crate) mod abi;
pub(crate) mod completion;
pub(crate) mod completion_list;
pub(crate) mod element;
pub(crate) mod index;
pub(crate) mod producer;
pub(crate) mod receive;
pub(crate) mod receive_wqe;
pub(crate) mod send;
pub(crate) mod send_wqe;

mod invalid;
mod shared;

pub(crate) use self::{
    abi::Sge,
    completion::{
        CompletionRing,
        Datagram,
        Full,
        Wc,
        WcExtra, //
    },
    completion_list::CompletionList,
    invalid::InvalidWqe,
    producer::Producer,
    receive::{
        ReceiveCaps,
        ReceiveRing,
        Take, //
    },
    receive_wqe::ReceiveWqe,
    send::{
        SendCaps,
        SendRing, //
    },
    send_wqe::{
        Addressee,
        LocalData,
        Poster,
        Signalling, //
    },
};
