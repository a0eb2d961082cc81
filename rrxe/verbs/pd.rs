// SPDX-License-Identifier: GPL-2.0

//! Protection domains.

use super::Provider;
use crate::{
    datapath::region::PdId,
    kapi::rdma, //
};
use kernel::prelude::*;

/// A protection domain.
pub(crate) struct Pd {
    id: PdId,
}

impl Pd {
    /// Its number.
    pub(crate) fn id(&self) -> PdId {
        self.id
    }
}

impl rdma::ProtectionDomain<Provider> for Pd {
    fn create(
        device: &rdma::Device<Provider>,
        _udata: Option<&mut rdma::Udata<'_>>,
    ) -> Result<Self> {
        let id = device.data().number_pd();
        Ok(Self { id })
    }
}
