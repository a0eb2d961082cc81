// SPDX-License-Identifier: GPL-2.0

//! Shared receive queues.

use super::{
    limits,
    pd::Consumer,
    posting::ReceivePosting,
    Provider, //
};
use crate::{
    datapath::srq::Srq,
    kapi::{
        error::eopnotsupp,
        rdma::{
            Details,
            Pd,
            ReceiveList,
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

/// A shared receive queue.
pub(crate) struct SharedQueue {
    queue: Srq,
    /// How a consumer inside the kernel posts. User processes do so by themselves.
    posting: Option<Pin<KBox<ReceivePosting>>>,
}

impl SharedQueue {
    /// What queue pairs take requests from.
    pub(super) fn queue(&self) -> &Srq {
        &self.queue
    }
}

impl SharedReceiveQueue<Provider> for SharedQueue {
    fn create(
        pd: &Pd<Provider>,
        caps: SrqCaps,
        events: SrqEvents,
        udata: Option<&mut Udata<'_>>,
    ) -> Result<Self> {
        if pd.consumer() != Consumer::of(udata.as_deref()) {
            return Err(EINVAL);
        }
        let ring = make_ring(caps)?;
        let posting = match udata {
            Some(udata) => {
                udata.expect_response::<CreateSrqResponse>()?;
                let mi = ring.share(udata)?;
                udata.respond(&CreateSrqResponse {
                    mi,
                    srq_num: pd.device().data().number_srq(),
                    reserved: 0,
                })?;
                None
            }
            None => Some(ReceivePosting::new(&ring)?),
        };
        Ok(Self {
            queue: Srq::new(ring, pd.id(), events)?,
            posting,
        })
    }

    fn caps(&self) -> SrqCaps {
        let ReceiveCaps { max_wr, max_sge } = self.queue.sizes();
        SrqCaps { max_wr, max_sge }
    }

    fn limit(&self) -> u32 {
        self.queue.limit()
    }

    fn describe(&self, details: &mut Details) {
        let ReceiveCaps { max_wr, max_sge } = self.queue.sizes();
        details
            .number(c"size", max_wr)
            .number(c"max_sge", max_sge)
            .number(c"posted", self.queue.posted())
            .number(c"limit", self.queue.limit());
    }

    fn post(&self, requests: &mut ReceiveList) -> Result {
        self.posting.as_ref().ok_or(eopnotsupp())?.post(requests)
    }

    fn modify(&self, change: &SrqModify, udata: Option<&mut Udata<'_>>) -> Result {
        let Some(max_wr) = change.max_wr else {
            return change
                .limit
                .map_or(Ok(()), |limit| self.queue.set_limit(limit));
        };
        let udata = udata.ok_or(eopnotsupp())?;
        let request = udata.request::<ModifySrqRequest>()?;
        let ring = make_ring(SrqCaps {
            max_wr,
            ..SharedReceiveQueue::caps(self)
        })?;
        let mi = ring.share(udata)?;
        udata.write_at(request.mmap_info_addr, &mi)?;
        self.queue.replace_ring(ring, change.limit)
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
