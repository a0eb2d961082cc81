// SPDX-License-Identifier: GPL-2.0

//! User contexts.

use super::Provider;
use crate::kapi::rdma;
use kernel::prelude::*;

/// A user process' open device. There is nothing to keep: the RDMA core knows what objects
/// were made by it.
pub(crate) struct Context;

impl rdma::UserContext<Provider> for Context {
    fn create(_device: &rdma::Device<Provider>, _udata: &mut rdma::Udata<'_>) -> Result<Self> {
        Ok(Self)
    }
}
