// SPDX-License-Identifier: GPL-2.0

//! Objects that are not there yet.

use super::Provider;
use crate::kapi::{
    error::eopnotsupp,
    rdma::{
        self,
        CqEvents,
        CqInit,
        CqNotify,
        Device,
        Moment,
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

/// No completion queue.
pub(crate) struct Cq;

impl rdma::CompletionQueue<Provider> for Cq {
    fn create(
        _device: &Device<Provider>,
        _init: &CqInit,
        _notify: CqNotify,
        _events: CqEvents,
        _udata: Option<&mut Udata<'_>>,
    ) -> Result<Self> {
        Err(eopnotsupp())
    }

    fn entries(&self) -> u32 {
        0
    }

    fn arm(&self, _moment: Moment) -> bool {
        false
    }

    fn resize(&self, _entries: u32, _udata: &mut Udata<'_>) -> Result {
        Err(eopnotsupp())
    }
}

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
