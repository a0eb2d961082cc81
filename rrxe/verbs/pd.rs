// SPDX-License-Identifier: GPL-2.0

//! Protection domains.

use super::Provider;
use crate::{
    datapath::region::PdId,
    kapi::rdma, //
};
use kernel::prelude::*;

/// Who makes and uses objects.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Consumer {
    /// A user process.
    User,
    /// Somebody inside the kernel.
    Kernel,
}

impl Consumer {
    /// Who makes an object with that `udata`.
    pub(super) fn of(udata: Option<&rdma::Udata<'_>>) -> Self {
        match udata {
            Some(_) => Self::User,
            None => Self::Kernel,
        }
    }
}

/// A protection domain.
pub(crate) struct Pd {
    id: PdId,
    consumer: Consumer,
}

impl Pd {
    /// Whose objects it is for.
    pub(super) fn consumer(&self) -> Consumer {
        self.consumer
    }

    /// Its number.
    pub(crate) fn id(&self) -> PdId {
        self.id
    }
}

impl rdma::ProtectionDomain<Provider> for Pd {
    fn create(
        device: &rdma::Device<Provider>,
        udata: Option<&mut rdma::Udata<'_>>,
    ) -> Result<Self> {
        Ok(Self {
            id: device.data().number_pd(),
            consumer: Consumer::of(udata.as_deref()),
        })
    }
}
