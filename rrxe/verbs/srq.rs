// SPDX-License-Identifier: GPL-2.0

//! Shared receive queues.

use super::{
    limits,
    Provider, //
};
use crate::{
    datapath::srq::Srq,
    kapi::{
        error::eopnotsupp,
        rdma::{
            Pd,
            SharedReceiveQueue,
            SrqCaps,
            SrqEvents,
            SrqModify,
            Udata, //
        },
    },
    ring::{
        abi::{
            CreateSrqResponse,
            ModifySrqRequest, //
        },
        ReceiveCaps,
        ReceiveRing, //
    },
};
use kernel::prelude::*;

impl SharedReceiveQueue<Provider> for Srq {
    fn create(
        pd: &Pd<Provider>,
        caps: SrqCaps,
        events: SrqEvents,
        udata: Option<&mut Udata<'_>>,
    ) -> Result<Self> {
        // Users in the kernel post by calls, for which there are no queues yet.
        let udata = udata.ok_or(eopnotsupp())?;
        udata.expect_response::<CreateSrqResponse>()?;
        let ring = make_ring(caps)?;
        let mi = ring.share(udata)?;
        udata.respond(&CreateSrqResponse {
            mi,
            srq_num: pd.device().data().number_srq(),
            reserved: 0,
        })?;
        Self::new(ring, pd.id(), events)
    }

    fn caps(&self) -> SrqCaps {
        let ReceiveCaps { max_wr, max_sge } = self.sizes();
        SrqCaps { max_wr, max_sge }
    }

    fn limit(&self) -> u32 {
        Srq::limit(self)
    }

    fn modify(&self, change: &SrqModify, udata: Option<&mut Udata<'_>>) -> Result {
        let Some(max_wr) = change.max_wr else {
            return change.limit.map_or(Ok(()), |limit| self.set_limit(limit));
        };
        let udata = udata.ok_or(eopnotsupp())?;
        let request = udata.request::<ModifySrqRequest>()?;
        let ring = make_ring(SrqCaps {
            max_wr,
            ..SharedReceiveQueue::caps(self)
        })?;
        let mi = ring.share(udata)?;
        udata.write_at(request.mmap_info_addr, &mi)?;
        self.replace_ring(ring, change.limit)
    }
}

/// Makes a ring for what is asked for, `EINVAL` if that is nothing or too much.
fn make_ring(caps: SrqCaps) -> Result<ReceiveRing> {
    let SrqCaps { max_wr, max_sge } = caps;
    if max_wr == 0 || max_wr > limits::MAX_QP_WR || max_sge > limits::MAX_SGE {
        return Err(EINVAL);
    }
    ReceiveRing::new(ReceiveCaps { max_wr, max_sge })
}
