// SPDX-License-Identifier: GPL-2.0

//! The headers of a packet, from the BTH to the last byte before the payload.
//!
//! Each header type has the layout of the wire, so that reading one is a bounds check, and writing
//! one is a copy. [`Headers`] reads the set of headers an opcode has, [`HeaderBuf`] writes it.

mod aeth;
mod atomic;
mod bth;
mod build;
mod cnp;
mod deth;
mod feth;
mod ieth;
mod immdt;
mod kind;
mod packet;
mod reth;

pub use self::{
    aeth::{
        Aeth,
        Credits,
        ReservedSyndrome,
        Syndrome, //
    },
    atomic::{
        AtomicAckEth,
        AtomicEth, //
    },
    bth::Bth,
    build::{
        HeaderBuf,
        HeaderSpec, //
    },
    cnp::CnpReserved,
    deth::Deth,
    feth::{
        Feth,
        Placement,
        Selectivity, //
    },
    ieth::Ieth,
    immdt::ImmDt,
    kind::{
        Kind,
        RcRequest,
        RcResponse,
        ReadResponsePart,
        SendEnd,
        SendPart,
        UcRequest,
        WritePart, //
    },
    packet::{
        Headers,
        Packet,
        ParseError,
        ICRC_LEN, //
    },
    reth::Reth, //
};
