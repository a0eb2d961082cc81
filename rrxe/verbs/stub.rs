// SPDX-License-Identifier: GPL-2.0

//! Objects that are not there yet.

use super::Provider;
use crate::kapi::{
    error::eopnotsupp,
    rdma::{
        self,
        Pd,
        QpAttr,
        QpCaps,
        QpEvents,
        QpInit,
        QpModify,
        Udata, //
    },
};
use kernel::prelude::*;

/// No queue pair.
pub(crate) struct Qp;

impl rdma::QueuePair<Provider> for Qp {
    fn create(
        _pd: &Pd<Provider>,
        _init: &mut QpInit<'_, Provider>,
        _events: QpEvents,
        _udata: Option<&mut Udata<'_>>,
    ) -> Result<Self> {
        Err(eopnotsupp())
    }

    fn number(&self) -> u32 {
        0
    }

    fn modify(&self, _change: &QpModify<'_>) -> Result {
        Err(eopnotsupp())
    }

    fn query(&self, _attr: &mut QpAttr, _mask: u32) -> Result<QpCaps> {
        Err(eopnotsupp())
    }

    fn doorbell(&self) -> Result {
        Err(eopnotsupp())
    }
}
