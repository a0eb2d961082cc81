// SPDX-License-Identifier: GPL-2.0

//! Completion queues.

use super::{
    limits::MAX_CQE,
    Provider, //
};
use crate::{
    datapath::{
        cq::{
            Completions,
            Cq, //
        },
        moderation::Limits,
    },
    kapi::{
        error::eopnotsupp,
        rdma::{
            Completion,
            CompletionExtra,
            CompletionPlace,
            CompletionQueue,
            CompletionSource,
            CqEvents,
            CqInit,
            CqNotify,
            Details,
            Device,
            Moment,
            QpObject,
            Udata, //
        },
    },
    ring::{
        abi::CqResponse,
        CompletionList,
        CompletionRing,
        Wc,
        WcExtra, //
    },
};
use core::time::Duration;
use kernel::{
    prelude::*,
    sync::rcu, //
};

impl CompletionQueue<Provider> for Cq {
    fn create(
        _device: &Device<Provider>,
        init: &CqInit,
        notify: CqNotify,
        events: CqEvents,
        udata: Option<&mut Udata<'_>>,
    ) -> Result<Self> {
        if init.flags != 0 {
            return Err(eopnotsupp());
        }
        check(init.entries)?;
        let completions = match udata {
            Some(udata) => Completions::User(make_ring(init.entries, udata)?),
            None => Completions::Kernel(CompletionList::new(init.entries)?),
        };
        Self::new(completions, notify, events)
    }

    fn entries(&self) -> u32 {
        self.capacity()
    }

    fn arm(&self, moment: Moment) -> bool {
        Cq::arm(self, moment)
    }

    fn moderate(&self, count: u16, period: Duration) {
        let moderates = count > 1 && !period.is_zero();
        Cq::moderate(self, moderates.then_some(Limits { count, period }));
    }

    fn describe(&self, details: &mut Details) {
        let report = self.report();
        let limits = report.moderation.unwrap_or(Limits {
            count: 0,
            period: Duration::ZERO,
        });
        let armed = match report.armed {
            None => c"no",
            Some(Moment::Next) => c"next",
            Some(Moment::Solicited) => c"solicited",
        };
        details
            .number(c"size", report.capacity)
            .number(c"pending", report.pending)
            .word(c"armed", armed)
            .number(c"moderation_count", limits.count)
            .number(c"moderation_usecs", limits.period.as_micros() as u64)
            .word(c"state", if report.dead { c"overrun" } else { c"good" });
    }

    fn poll(&self, device: &Device<Provider>, places: &mut [CompletionPlace]) -> Result<usize> {
        let qps = device.data().node().qps();
        let guard = rcu::read_lock();
        let mut filled = 0usize;
        for place in places {
            let Some(wc) = Cq::poll(self)? else {
                break;
            };
            let qp = qps.get(wc.qpn.get(), &guard).map(|qp| qp.object());
            place.fill(&completion(&wc, qp));
            filled = filled.saturating_add(1);
        }
        Ok(filled)
    }

    fn resize(&self, entries: u32, udata: &mut Udata<'_>) -> Result {
        check(entries)?;
        self.replace_ring(make_ring(entries, udata)?)
    }
}

/// What a consumer inside the kernel reads, who knows the queue pair as `qp`.
fn completion(wc: &Wc, qp: Option<QpObject>) -> Completion {
    Completion {
        wr_id: wc.wr_id,
        status: wc.status.code(),
        opcode: wc.opcode.code(),
        byte_len: wc.byte_len,
        qp,
        extra: match wc.extra {
            None => CompletionExtra::None,
            Some(WcExtra::Imm(imm)) => CompletionExtra::Imm(imm.0),
            Some(WcExtra::Invalidated(key)) => CompletionExtra::Invalidated(key.0),
        },
        source: wc.datagram.map(|datagram| CompletionSource {
            qpn: datagram.src_qp.get(),
            pkey_index: datagram.pkey_index,
            service_level: datagram.sl,
            vlan: datagram.vlan,
        }),
    }
}

/// Fails with `EINVAL` if a queue cannot have `entries` completions.
fn check(entries: u32) -> Result {
    if entries == 0 || entries > MAX_CQE {
        return Err(EINVAL);
    }
    Ok(())
}

/// Makes a ring for `entries` completions and tells the calling process of it.
fn make_ring(entries: u32, udata: &mut Udata<'_>) -> Result<CompletionRing> {
    udata.expect_response::<CqResponse>()?;
    let ring = CompletionRing::new(entries)?;
    let mi = ring.share(udata)?;
    udata.respond(&CqResponse { mi })?;
    Ok(ring)
}
