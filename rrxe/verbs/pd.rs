// SPDX-License-Identifier: GPL-2.0

//! Protection domains.

use super::{
    Device,
    Provider, //
};
use crate::kapi::rdma;
use kernel::{
    prelude::*,
    sync::Arc, //
};

/// Number of a protection domain, never used again on its device: objects whose numbers are
/// equal may be used with one another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct PdId(u64);

impl PdId {
    pub(super) const fn new(number: u64) -> Self {
        Self(number)
    }
}

/// A protection domain.
pub(crate) struct Pd {
    device: Arc<Device>,
    id: PdId,
}

impl Pd {
    /// The device it is of.
    pub(crate) fn device(&self) -> &Arc<Device> {
        &self.device
    }

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
        let device = device.data().clone();
        let id = device.number_pd();
        Ok(Self { device, id })
    }
}
