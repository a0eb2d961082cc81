// SPDX-License-Identifier: GPL-2.0

//! Address vectors, and address handles: address vectors that have a number.

use super::{
    limits,
    Device,
    Provider, //
};
use crate::{
    datapath::{
        handle::Handle,
        way::Path, //
    },
    kapi::{
        net::Addresses,
        rdma::{
            self,
            AhAttr,
            RocePath, //
        },
        sync::Burial,
    },
    ring::abi::CreateAhResponse, //
};
use kernel::{
    alloc::Flags,
    prelude::*,
    sync::{
        rcu,
        Arc, //
    },
};

/// Where packets go, and from which of our addresses.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Av {
    /// The path as the consumer gave it.
    given: RocePath,
    /// Source and destination.
    addresses: Addresses,
    /// Number of the netdev that has the source address.
    ifindex: u32,
}

impl Av {
    /// Reads an address vector; its source has been looked up by the RDMA core.
    ///
    /// `EINVAL` if the path is not one of RoCE version 2, or goes from one version of IP to
    /// another.
    pub(crate) fn read(attr: &AhAttr) -> Result<Self> {
        let source = attr.source().ok_or(EINVAL)?;
        if !source.is_udp_encapsulated() {
            return Err(EINVAL);
        }
        let addresses = Addresses::from_gids(source.gid(), attr.dgid()).ok_or(EINVAL)?;
        Ok(Self {
            given: RocePath::read(attr)?,
            addresses,
            ifindex: source.ifindex()?,
        })
    }

    /// The path as the consumer gave it.
    pub(super) fn given(&self) -> &RocePath {
        &self.given
    }

    /// The path as the network knows it.
    pub(super) fn network_path(&self) -> Path {
        Path {
            addresses: self.addresses,
            ifindex: self.ifindex,
            traffic_class: self.given.traffic_class,
            hop_limit: self.given.hop_limit,
            flow_label: self.given.flow_label,
        }
    }
}

/// The number of an address handle, while the handle exists.
pub(crate) struct Ah {
    device: Arc<Device>,
    number: u32,
    burial: Burial<Handle>,
}

impl Ah {
    /// What work requests name it by.
    pub(super) fn number(&self) -> u32 {
        self.number
    }
}

impl rdma::AddressHandle<Provider> for Ah {
    fn create(
        pd: &rdma::Pd<Provider>,
        attr: &AhAttr,
        flags: Flags,
        udata: Option<&mut rdma::Udata<'_>>,
    ) -> Result<Self> {
        let av = Av::read(attr)?;
        let handle = Handle::new(pd.id(), av.given(), &av.network_path(), flags)?;
        let burial = Burial::new(flags)?;
        let device = pd.device().data().clone();
        let place = device.node().handles().reserve(limits::AH_NUMBERS, flags)?;
        if let Some(udata) = udata {
            udata.respond(&CreateAhResponse {
                ah_num: place.id(),
                reserved: 0,
            })?;
        }
        let number = place.publish(handle)?;
        Ok(Self {
            device,
            number,
            burial,
        })
    }

    fn modify(&self, attr: &AhAttr) -> Result {
        let av = Av::read(attr)?;
        self.with_handle(|handle| handle.redirect(av.given(), &av.network_path()))
    }

    fn query(&self, attr: &mut AhAttr) -> Result {
        let given = self.with_handle(Handle::given)?;
        attr.set_roce(&given);
        Ok(())
    }

    fn destroy(self) {
        self.device
            .node()
            .handles()
            .remove_later(self.number, self.burial);
    }
}

impl Ah {
    /// Uses what datagrams see.
    fn with_handle<R>(&self, use_it: impl FnOnce(&Handle) -> R) -> Result<R> {
        let guard = rcu::read_lock();
        let handles = self.device.node().handles();
        let handle = handles.get(self.number, &guard).ok_or(EINVAL)?;
        Ok(use_it(&handle))
    }
}
