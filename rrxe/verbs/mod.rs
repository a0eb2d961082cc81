// SPDX-License-Identifier: GPL-2.0

//! The verbs objects: what user space makes, asks and destroys through the RDMA core.
//!
//! One file an object. What they do in the long run, sending and receiving, is the business
//! of `datapath`.

mod ah;
mod context;
mod cq;
mod device;
mod link;
mod mr;
mod mw;
mod pd;
mod performance;
mod posting;
mod qp;
mod qp_attributes;
mod qp_details;
mod srq;

pub(crate) mod limits;

pub(crate) use self::{
    device::Device,
    link::{
        link_types,
        NetdevWatch,
        RIVAL, //
    },
    pd::Pd,
};

use crate::kapi::rdma;
use kernel::prelude::*;

/// The provider: which type stands behind which object.
pub(crate) struct Provider;

impl rdma::Provider for Provider {
    // By these two librxe takes our devices for its own.
    const DRIVER_ID: u32 = rdma::DRIVER_RXE;
    const ABI_VERSION: u32 = 2;

    type Device = Device;
    type Context = context::Context;
    type Pd = Pd;
    type Ah = ah::Ah;
    type Cq = crate::datapath::cq::Cq;
    type Srq = srq::SharedQueue;
    type Qp = qp::QueuePair;
    type Mr = mr::Registration;
    type Mw = mw::Allocation;
    type Link = link::Link;

    fn module() -> &'static ThisModule {
        &crate::THIS_MODULE
    }

    fn link_ops() -> &'static rdma::LinkOps {
        link::own_type()
    }
}
