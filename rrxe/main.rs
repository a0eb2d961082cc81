// SPDX-License-Identifier: GPL-2.0

//! rrxe: a soft RNIC. An RDMA provider that speaks RoCEv2 over any Ethernet device.

use kernel::prelude::*;

mod datapath;
mod kapi;
mod ring;
mod verbs;

module! {
    type: Rrxe,
    name: "rrxe",
    authors: ["The rrxe authors"],
    description: "Soft RDMA over Converged Ethernet v2 (RoCEv2) provider",
    license: "GPL",
    alias: ["rdma-link-rrxe"],
    imports_ns: ["DMA_BUF"],
    params: {
        rxe_link_type: u8 {
            default: 0,
            description: "1: drop-in mode, devices are made for the link type rxe as well",
        },
    },
}

/// The module. Fields are dropped in order: no new devices, then none at all, then no pages come in,
/// then no packets, then no one is told of netdevs any more, then nothing is to be seen in debugfs.
struct Rrxe {
    _link: kapi::rdma::LinkRegistration,
    _pagers: kapi::rdma::Pagers,
    _namespaces:
        Pin<KBox<kapi::net::Registration<kapi::net::Namespace<datapath::ingress::Ingress>>>>,
    _netdevs: Pin<KBox<kapi::net::Notifier<verbs::NetdevWatch>>>,
    _alone: Pin<KBox<kapi::module::Exclusion>>,
    _debugfs: kapi::debugfs::Root,
}

impl kernel::Module for Rrxe {
    fn init(module: &'static ThisModule) -> Result<Self> {
        let links = verbs::link_types(*module_parameters::rxe_link_type.value())
            .inspect_err(|_| pr_err!("rxe_link_type is 0 or 1\n"))?;
        let alone = KBox::try_pin_init(
            kapi::module::Exclusion::new(verbs::RIVAL, module),
            GFP_KERNEL,
        )
        .inspect_err(|_| pr_err!("{} is loaded; unload it first\n", verbs::RIVAL))?;
        let debugfs = kapi::debugfs::Root::new(c"rrxe")?;
        let netdevs = KBox::try_pin_init(kapi::net::Notifier::new(verbs::NetdevWatch), GFP_KERNEL)?;
        let namespaces = KBox::try_pin_init(kapi::net::Registration::new(), GFP_KERNEL)?;
        let pagers = kapi::rdma::Pagers::new()?;
        Ok(Self {
            _link: kapi::rdma::LinkRegistration::new(links)?,
            _pagers: pagers,
            _namespaces: namespaces,
            _netdevs: netdevs,
            _alone: alone,
            _debugfs: debugfs,
        })
    }
}
