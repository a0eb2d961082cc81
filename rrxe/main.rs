// SPDX-License-Identifier: GPL-2.0

//! rrxe: a soft RNIC. An RDMA provider that speaks RoCEv2 over any Ethernet device.

use kernel::prelude::*;

mod kapi;

module! {
    type: Rrxe,
    name: "rrxe",
    authors: ["The rrxe authors"],
    description: "Soft RDMA over Converged Ethernet v2 (RoCEv2) provider",
    license: "GPL",
    alias: ["rdma-link-rrxe"],
}

struct Rrxe;

impl kernel::Module for Rrxe {
    fn init(_module: &'static ThisModule) -> Result<Self> {
        Ok(Self)
    }
}
