// SPDX-License-Identifier: GPL-2.0

//! Protection domains.

use super::Provider;
use crate::kapi::rdma;
use kernel::prelude::*;

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
