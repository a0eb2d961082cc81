// SPDX-License-Identifier: GPL-2.0

//! Attributes of queue pairs: what a change may set, what is reported, and what it means to the
//! protocol.

use super::{
    ah::Av,
    limits, //
};
use crate::{
    datapath::{
        machine::{
            Answering,
            ReceiveMachine,
            SendMachine, //
        },
        node::{
            port_mtu,
            Node, //
        }, //
    },
    kapi::{
        error::eopnotsupp,
        net::NetDevice,
        rdma::{
            QpAttr,
            QpModify, //
        },
    },
};
use kernel::{
    prelude::*,
    sync::Arc, //
};
use rrxe_proto::{
    access::Access,
    mtu::PathMtu,
    psn::Psn,
    rc::{
        ReceiveConfig,
        Requester,
        Responder,
        RetryLimit,
        Saved,
        SendConfig,
        Window, //
    },
    state::Service,
    timers::{
        AckTimeout,
        RnrTimer, //
    },
    uc,
    ud,
    Qkey,
    Qpn, //
};

/// Largest value of the retry counters, 3 bits.
const MAX_RETRY: u8 = 7;

/// READs and atomics under way, as the attributes count them.
const MAX_RD_ATOMIC: u8 = limits::MAX_RD_ATOMIC as u8;

/// How much may be sent and not acknowledged.
const WINDOW: Window = Window {
    bytes: 512 << 10,
    packets: 128,
};

/// All attributes of a connection that user space can set.
#[derive(Clone, Debug)]
pub(super) struct Attributes {
    pub(super) access: Access,
    pub(super) port: u32,
    pub(super) path: Option<Av>,
    pub(super) path_mtu: PathMtu,
    pub(super) dest_qpn: Qpn,
    pub(super) rq_psn: Psn,
    pub(super) sq_psn: Psn,
    pub(super) timeout: AckTimeout,
    pub(super) retry_count: u8,
    pub(super) rnr_retry: u8,
    pub(super) min_rnr_timer: RnrTimer,
    pub(super) max_rd_atomic: u8,
    pub(super) max_dest_rd_atomic: u8,
    pub(super) notify_drained: bool,
    pub(super) qkey: Qkey,
}

impl Default for Attributes {
    fn default() -> Self {
        Self {
            access: Access::NONE,
            port: 0,
            path: None,
            path_mtu: PathMtu::Mtu256,
            dest_qpn: Qpn::truncate(0),
            rq_psn: Psn::truncate(0),
            sq_psn: Psn::truncate(0),
            timeout: AckTimeout::NEVER,
            retry_count: 0,
            rnr_retry: 0,
            min_rnr_timer: RnrTimer::truncate(0),
            max_rd_atomic: 0,
            max_dest_rd_atomic: 0,
            notify_drained: false,
            qkey: Qkey(0),
        }
    }
}

impl Attributes {
    /// The attributes after `change`, of a queue pair that sends by `netdev`.
    ///
    /// # Errors
    ///
    /// `EINVAL` if a value is out of its range, `EOPNOTSUPP` for an alternate path.
    pub(super) fn changed(&self, change: &QpModify<'_>, netdev: &NetDevice) -> Result<Self> {
        if change.pkey_index().is_some_and(|index| index != 0)
            || change.is_migrated().is_some_and(|migrated| !migrated)
        {
            return Err(EINVAL);
        }
        if change.has_alternate_path() {
            return Err(eopnotsupp());
        }
        let mut new = self.clone();
        set(&mut new.access, change.access().map(valid(known)))?;
        set(&mut new.port, change.port().map(Ok))?;
        set(
            &mut new.path,
            change.path().map(|path| Av::read(path).map(Some)),
        )?;
        set(
            &mut new.path_mtu,
            change.path_mtu().map(|mtu| fitting(mtu, netdev)),
        )?;
        set(&mut new.dest_qpn, change.dest_qp_num().map(valid(Qpn::new)))?;
        set(&mut new.rq_psn, change.rq_psn().map(valid(Psn::new)))?;
        set(&mut new.sq_psn, change.sq_psn().map(valid(Psn::new)))?;
        set(
            &mut new.timeout,
            change.timeout().map(valid(AckTimeout::new)),
        )?;
        set(
            &mut new.retry_count,
            change.retry_count().map(up_to(MAX_RETRY)),
        )?;
        set(&mut new.rnr_retry, change.rnr_retry().map(up_to(MAX_RETRY)))?;
        set(
            &mut new.min_rnr_timer,
            change.min_rnr_timer().map(valid(RnrTimer::new)),
        )?;
        set(
            &mut new.max_rd_atomic,
            change.max_rd_atomic().map(up_to(MAX_RD_ATOMIC)),
        )?;
        set(
            &mut new.max_dest_rd_atomic,
            change.max_dest_rd_atomic().map(up_to(MAX_RD_ATOMIC)),
        )?;
        set(&mut new.notify_drained, change.notify_drained().map(Ok))?;
        set(&mut new.qkey, change.qkey().map(|key| Ok(Qkey(key))))?;
        Ok(new)
    }

    /// Reports all of them.
    pub(super) fn report(&self, attr: &mut QpAttr) {
        attr.set_access(self.access.bits())
            .set_pkey_index(0)
            .set_port(self.port)
            .set_path_mtu(self.path_mtu.to_ib())
            .set_dest_qp_num(self.dest_qpn.get())
            .set_rq_psn(self.rq_psn.get())
            .set_sq_psn(self.sq_psn.get())
            .set_timeout(self.timeout.code())
            .set_retry_count(self.retry_count)
            .set_rnr_retry(self.rnr_retry)
            .set_min_rnr_timer(self.min_rnr_timer.code())
            .set_max_rd_atomic(self.max_rd_atomic)
            .set_max_dest_rd_atomic(self.max_dest_rd_atomic)
            .set_notify_drained(self.notify_drained)
            .set_qkey(self.qkey.0)
            .set_migrated();
        if let Some(path) = &self.path {
            attr.path_mut().set_roce(path.given());
        }
    }

    /// What the queue pair `qpn` sends with.
    pub(super) fn send_machine(&self, service: Service, qpn: Qpn) -> SendMachine {
        let (mtu, psn) = (self.path_mtu, self.sq_psn);
        match service {
            Service::Rc => SendMachine::Rc(Requester::new(mtu, psn, self.send_config())),
            Service::Uc => SendMachine::Uc(uc::Sender::new(mtu, psn)),
            Service::Ud | Service::Gsi => SendMachine::Ud(ud::Sender::new(qpn, self.qkey, psn)),
        }
    }

    /// What a queue pair of `node` receives with. May sleep.
    pub(super) fn receive_machine(
        &self,
        service: Service,
        node: &Arc<Node>,
    ) -> Result<ReceiveMachine> {
        let (mtu, psn) = (self.path_mtu, self.rq_psn);
        Ok(match service {
            Service::Rc => ReceiveMachine::Rc(Answering::new(
                Responder::new(mtu, psn, self.receive_config()),
                saved_for(self.max_dest_rd_atomic)?,
                node.clone(),
            )?),
            Service::Uc => ReceiveMachine::Uc(uc::Receiver::new(mtu, psn, self.access)),
            Service::Ud | Service::Gsi => ReceiveMachine::Ud(ud::Receiver::new(self.qkey)),
        })
    }

    /// What the send side makes of them.
    pub(super) fn send_config(&self) -> SendConfig {
        SendConfig {
            timeout: self.timeout,
            retry: RetryLimit::from_retry_cnt(self.retry_count),
            rnr_retry: RetryLimit::from_rnr_retry(self.rnr_retry),
            max_rd_atomic: self.max_rd_atomic,
            window: WINDOW,
        }
    }

    /// What the receive side makes of them.
    pub(super) fn receive_config(&self) -> ReceiveConfig {
        ReceiveConfig {
            max_dest_rd_atomic: self.max_dest_rd_atomic,
            min_rnr_timer: self.min_rnr_timer,
            access: self.access,
        }
    }
}

/// Storage for as many READs and atomics as a peer may have under way. May sleep.
pub(super) fn saved_for(max_dest_rd_atomic: u8) -> Result<KVec<Saved>> {
    let places = usize::from(max_dest_rd_atomic).max(1);
    Ok(KVec::from_elem(Saved::EMPTY, places, GFP_KERNEL)?)
}

/// Puts `value` in `place`, if there is one.
fn set<T>(place: &mut T, value: Option<Result<T>>) -> Result {
    if let Some(value) = value {
        *place = value?;
    }
    Ok(())
}

/// Takes what `new` makes of a number, `EINVAL` if that is nothing.
fn valid<N, T>(new: impl Fn(N) -> Option<T>) -> impl Fn(N) -> Result<T> {
    move |number| new(number).ok_or(EINVAL)
}

/// Takes numbers up to `max`, `EINVAL` for others.
fn up_to(max: u8) -> impl Fn(u8) -> Result<u8> {
    move |number| {
        if number > max {
            return Err(EINVAL);
        }
        Ok(number)
    }
}

/// Takes access rights, of which none is unknown.
fn known(bits: u32) -> Option<Access> {
    Some(Access::from_bits(bits)).filter(|access| access.is_known())
}

/// Takes the code of a path MTU whose packets fit through `netdev`.
fn fitting(code: u32, netdev: &NetDevice) -> Result<PathMtu> {
    PathMtu::from_ib(code)
        .filter(|mtu| *mtu <= port_mtu(netdev))
        .ok_or(EINVAL)
}
