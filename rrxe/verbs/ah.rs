// SPDX-License-Identifier: GPL-2.0

//! Address vectors, and address handles: address vectors that have a number.

use super::{
    limits,
    Device,
    Provider, //
};
use crate::kapi::{
    net::Addresses,
    rdma::{
        self,
        AhAttr,
        RocePath, //
    },
};
use kernel::{
    prelude::*,
    sync::Arc, //
};
use zerocopy_derive::Immutable;

/// Where packets go, and from which of our addresses.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Av {
    /// The path as the consumer gave it.
    #[expect(dead_code, reason = "for datagrams")]
    pub(crate) path: RocePath,
    /// Source and destination.
    #[expect(dead_code, reason = "for datagrams")]
    pub(crate) addresses: Addresses,
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
            path: RocePath::read(attr)?,
            addresses,
        })
    }
}

/// The number of an address handle, while the handle exists.
pub(crate) struct Ah {
    device: Arc<Device>,
    number: u32,
}

/// Response of `create_ah`: [`struct rxe_create_ah_resp`].
///
/// [`struct rxe_create_ah_resp`]: srctree/include/uapi/rdma/rdma_user_rxe.h
#[derive(IntoBytes, Immutable)]
#[repr(C)]
struct CreateAhResponse {
    number: u32,
    reserved: u32,
}

impl rdma::AddressHandle<Provider> for Ah {
    fn create(pd: &rdma::Pd<Provider>, attr: &AhAttr, udata: &mut rdma::Udata<'_>) -> Result<Self> {
        udata.expect_response::<CreateAhResponse>()?;
        let av = Arc::new(Av::read(attr)?, GFP_KERNEL)?;
        let device = pd.device().data().clone();
        let number = device.avs.insert(limits::AH_NUMBERS, av, GFP_KERNEL)?;
        // From here on the drop takes it back.
        let ah = Self { device, number };
        udata.respond(&CreateAhResponse {
            number,
            reserved: 0,
        })?;
        Ok(ah)
    }
}

impl Drop for Ah {
    fn drop(&mut self) {
        self.device.avs.remove(self.number);
    }
}
