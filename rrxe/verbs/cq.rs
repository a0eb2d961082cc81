// SPDX-License-Identifier: GPL-2.0

//! Completion queues.

use super::{
    limits::MAX_CQE,
    Provider, //
};
use crate::{
    datapath::cq::Cq,
    kapi::{
        error::eopnotsupp,
        rdma::{
            CompletionQueue,
            CqEvents,
            CqInit,
            CqNotify,
            Device,
            Moment,
            Udata, //
        },
    },
    ring::{
        abi::CqResponse,
        CompletionRing, //
    },
};
use kernel::prelude::*;

impl CompletionQueue<Provider> for Cq {
    fn create(
        _device: &Device<Provider>,
        init: &CqInit,
        notify: CqNotify,
        events: CqEvents,
        udata: Option<&mut Udata<'_>>,
    ) -> Result<Self> {
        let udata = udata.ok_or(eopnotsupp())?;
        if init.flags != 0 {
            return Err(eopnotsupp());
        }
        Self::new(make_ring(init.entries, udata)?, notify, events)
    }

    fn entries(&self) -> u32 {
        self.capacity()
    }

    fn arm(&self, moment: Moment) -> bool {
        Cq::arm(self, moment)
    }

    fn resize(&self, entries: u32, udata: &mut Udata<'_>) -> Result {
        self.replace_ring(make_ring(entries, udata)?)
    }
}

/// Makes a ring for `entries` completions and tells the calling process of it.
fn make_ring(entries: u32, udata: &mut Udata<'_>) -> Result<CompletionRing> {
    if entries == 0 || entries > MAX_CQE {
        return Err(EINVAL);
    }
    udata.expect_response::<CqResponse>()?;
    let ring = CompletionRing::new(entries)?;
    let mi = ring.share(udata)?;
    udata.respond(&CqResponse { mi })?;
    Ok(ring)
}
