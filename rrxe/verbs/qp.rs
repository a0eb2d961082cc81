// SPDX-License-Identifier: GPL-2.0

//! Queue pairs: creation, states and attributes.
//!
//! What a queue pair does with packets is in [`crate::datapath`]. Here is what `ibv_create_qp`,
//! `ibv_modify_qp` and `ibv_query_qp` do to it.

use super::{
    limits,
    pd::Consumer,
    posting::{
        ReceivePosting,
        SendPosting, //
    },
    qp_attributes::{
        saved_for,
        Attributes, //
    },
    qp_details,
    Provider, //
};
use crate::{
    datapath::{
        node::Node,
        patience::Patience,
        peer::Peer,
        qp::Qp,
        receive_queue::Supply,
        respond::ReceiveSide,
        send::{
            Outlet,
            SendSide,
            WhenDrained, //
        },
    },
    kapi::{
        error::eopnotsupp,
        rdma::{
            self,
            Details,
            Pd,
            QpAttr,
            QpCaps,
            QpInit,
            QpModify,
            QpType,
            ReceiveList,
            SendList,
            Udata, //
        },
    },
    ring::{
        abi::{
            CreateQpResponse,
            MmInfo, //
        },
        Poster,
        ReceiveCaps,
        ReceiveRing,
        SendCaps,
        SendRing,
        Signalling, //
    },
};
use kernel::{
    new_mutex,
    prelude::*,
    sync::{
        atomic::{
            Atomic,
            Relaxed, //
        },
        Arc,
        Mutex, //
    },
};
use rrxe_proto::{
    opcode::Transport,
    state::{
        check_current,
        check_transition,
        QpState,
        Service, //
    },
    Qpn, //
};

/// A queue pair.
pub(crate) struct QueuePair {
    qp: Arc<Qp>,
    node: Arc<Node>,
    caps: QpCaps,
    signalling: Signalling,
    service: Service,
    /// Whether requests may be posted to the send queue.
    may_send: Atomic<bool>,
    /// Whether requests may be posted to the receive queue by a call.
    may_receive: Atomic<bool>,
    /// How a consumer inside the kernel posts. User processes do so by themselves.
    posting: Option<Posting>,
    /// State and attributes; held for as long as they change.
    control: Pin<KBox<Mutex<Control>>>,
}

/// How a consumer inside the kernel posts.
struct Posting {
    send: Pin<KBox<SendPosting>>,
    /// Absent with a shared receive queue.
    receive: Option<Pin<KBox<ReceivePosting>>>,
}

impl Posting {
    fn new(send: &SendRing, supply: &Supply) -> Result<Self> {
        Ok(Self {
            send: SendPosting::new(send)?,
            receive: match supply {
                Supply::Own(ring) => Some(ReceivePosting::new(ring)?),
                Supply::Shared(_) => None,
            },
        })
    }
}

/// State and attributes of a queue pair.
#[derive(Clone, Debug)]
struct Control {
    /// The state it was last put in. It may have failed since.
    state: QpState,
    attributes: Attributes,
}

impl rdma::QueuePair<Provider> for QueuePair {
    fn create(
        pd: &Pd<Provider>,
        init: &mut QpInit<'_, Provider>,
        events: rdma::QpEvents,
        udata: Option<&mut Udata<'_>>,
    ) -> Result<Self> {
        let (service, transport) = match init.qp_type() {
            QpType::Rc => (Service::Rc, Transport::Rc),
            QpType::Uc => (Service::Uc, Transport::Uc),
            QpType::Ud => (Service::Ud, Transport::Ud),
            // Management's, of which user processes have no part.
            QpType::Gsi if udata.is_none() => (Service::Gsi, Transport::Ud),
            _ => return Err(eopnotsupp()),
        };
        if init.create_flags() != 0 {
            return Err(eopnotsupp());
        }
        // Only users inside the kernel have protection domains that reach all memory.
        let consumer = Consumer::of(udata.as_deref());
        if pd.consumer() != consumer {
            return Err(EINVAL);
        }
        if let Some(udata) = &udata {
            udata.expect_response::<CreateQpResponse>()?;
        }

        let poster = match consumer {
            Consumer::User => Poster::User,
            Consumer::Kernel => Poster::Kernel,
        };
        let caps = caps(init)?;
        let signalling = if init.signal_all() {
            Signalling::All
        } else {
            Signalling::Requested
        };
        let send_caps = SendCaps {
            max_wr: caps.max_send_wr,
            max_sge: caps.max_send_sge,
            max_inline: caps.max_inline_data,
        };
        let send = SendRing::new(send_caps, transport, poster, signalling)?;
        let supply = match init.srq() {
            Some(srq) => Supply::Shared(srq.queue().clone()),
            None => Supply::Own(ReceiveRing::new(ReceiveCaps {
                max_wr: caps.max_recv_wr,
                max_sge: caps.max_recv_sge,
            })?),
        };
        let receive_caps = supply.own_caps();
        let caps = QpCaps {
            max_send_wr: send.caps().max_wr,
            max_send_sge: send.caps().max_sge,
            max_inline_data: send.caps().max_inline,
            max_recv_wr: receive_caps.max_wr,
            max_recv_sge: receive_caps.max_sge,
        };
        let posting = match udata {
            Some(udata) => {
                let response = CreateQpResponse {
                    rq_mi: match &supply {
                        Supply::Own(ring) => ring.share(udata)?,
                        Supply::Shared(_) => MmInfo::NOTHING,
                    },
                    sq_mi: send.share(udata)?,
                };
                udata.respond(&response)?;
                None
            }
            None => Some(Posting::new(&send, &supply)?),
        };

        let control = KBox::pin_init(
            new_mutex!(Control {
                state: QpState::Reset,
                attributes: Attributes::default(),
            }),
            GFP_KERNEL,
        )?;
        let node = pd.device().data().node().clone();
        let send = SendSide::new(send, (**init.send_cq()?).clone());
        let receive = ReceiveSide::new(supply, (**init.recv_cq()?).clone());
        let place = match service {
            Service::Gsi => node.qps().reserve_at(limits::GSI_QPN, GFP_KERNEL)?,
            _ => node.qps().reserve(limits::QPNS, GFP_KERNEL)?,
        };
        let qpn = Qpn::new(place.id()).ok_or(ENOSPC)?;
        let qp = Qp::new(qpn, pd.id(), node.clone(), events, send, receive)?;
        place.publish(qp.clone())?;

        init.set_caps(caps);
        Ok(Self {
            qp,
            node,
            caps,
            signalling,
            service,
            may_send: Atomic::new(false),
            may_receive: Atomic::new(false),
            posting,
            control,
        })
    }

    fn number(&self) -> u32 {
        self.qp.qpn().get()
    }

    fn signals_all(&self) -> bool {
        self.signalling == Signalling::All
    }

    fn modify(&self, change: &QpModify<'_>) -> Result {
        let mut control = self.control.lock();
        let from = self.state(&control);
        if let Some(believed) = change.current_state() {
            let believed = QpState::from_ib(believed).ok_or(EINVAL)?;
            check_current(from, believed).map_err(|_| EINVAL)?;
        }
        let to = change
            .state()
            .map_or(Some(from), QpState::from_ib)
            .ok_or(EINVAL)?;
        let mask = rrxe_proto::state::AttrMask::from_bits(change.mask());
        check_transition(self.service, from, to, mask).map_err(|_| EINVAL)?;

        let attributes = match to {
            QpState::Reset => Attributes::default(),
            _ => control.attributes.changed(change, self.node.netdev())?,
        };
        self.go(from, to, &attributes, change)?;
        self.may_receive.store(to != QpState::Reset, Relaxed);
        *control = Control {
            state: to,
            attributes,
        };
        Ok(())
    }

    fn query(&self, attr: &mut QpAttr, _mask: u32) -> Result<QpCaps> {
        let control = self.control.lock();
        let state = self.state(&control);
        control.attributes.report(attr);
        attr.set_state(state.to_ib())
            .set_draining(state == QpState::Sqd && self.qp.update_send(|side| side.is_draining()));
        Ok(self.caps)
    }

    fn doorbell(&self) -> Result {
        self.check_may_send()?;
        self.qp.ring_doorbell();
        Ok(())
    }

    fn post_send(&self, requests: &mut SendList<Provider>) -> Result {
        let posting = self.posting.as_ref().ok_or(eopnotsupp())?;
        self.check_may_send()?;
        let posted = posting.send.post(requests);
        // Those before one that is refused are posted.
        self.qp.ring_doorbell();
        posted
    }

    fn post_receive(&self, requests: &mut ReceiveList) -> Result {
        let posting = self.posting.as_ref().ok_or(eopnotsupp())?;
        let queue = posting.receive.as_ref().ok_or(EINVAL)?;
        if !self.may_receive.load(Relaxed) {
            return Err(EINVAL);
        }
        let posted = queue.post(requests);
        self.qp.ring_receive_doorbell();
        posted
    }

    fn attach(&self, mgid: [u8; 16]) -> Result {
        let groups = self.node.groups();
        groups.attach(self.node.netdev(), mgid.into(), &self.qp)
    }

    fn detach(&self, mgid: [u8; 16]) -> Result {
        self.node.groups().detach(mgid.into(), &self.qp)
    }

    fn describe(&self, details: &mut Details) {
        qp_details::describe(&self.qp, self.caps, details);
    }

    fn bind_tally(&self, number: Option<u32>) {
        self.qp.bind_tally(number);
    }

    fn destroy(self) {
        // Who has found the queue pair just now finds nothing to do any more.
        self.reset();
        self.node.qps().remove(self.qp.qpn().get());
    }
}

impl QueuePair {
    /// Fails with `EINVAL` if no send requests may be posted.
    fn check_may_send(&self) -> Result {
        if !self.may_send.load(Relaxed) && !self.qp.has_failed() {
            return Err(EINVAL);
        }
        Ok(())
    }

    /// The state it is in. Whoever has seen a completion finds the state that it leads to: the turn
    /// that reported it is over. Process context, may sleep.
    fn state(&self, control: &Control) -> QpState {
        self.qp.await_turns();
        if self.qp.has_failed() {
            return QpState::Error;
        }
        if self.qp.is_stalled() {
            return QpState::Sqe;
        }
        control.state
    }

    /// Goes from one state to another, or fails and changes nothing.
    fn go(
        &self,
        from: QpState,
        to: QpState,
        attributes: &Attributes,
        change: &QpModify<'_>,
    ) -> Result {
        match (from, to) {
            (_, QpState::Reset) => {
                self.may_send.store(false, Relaxed);
                self.reset();
            }
            (_, QpState::Error) => {
                self.may_send.store(true, Relaxed);
                self.qp.fail();
                self.qp.update_receive(ReceiveSide::enter_error);
                self.qp.update_send(SendSide::enter_error);
            }
            (QpState::Init, QpState::Rtr) => {
                // It may arrive at once.
                self.qp.announce_first_packet(true);
                self.start_receiving(attributes)?;
            }
            (QpState::Rtr, QpState::Rts) => {
                self.start_sending(attributes)?;
                self.qp.announce_first_packet(false);
                self.qp.update_receive(|side| {
                    side.configure(attributes.receive_config());
                    side.set_qkey(attributes.qkey);
                });
                self.may_send.store(true, Relaxed);
            }
            (QpState::Sqe, QpState::Rts) => {
                self.change_running(from, to, attributes, change)?;
                self.qp.restart();
            }
            (QpState::Rts | QpState::Sqd, _) => {
                self.change_running(from, to, attributes, change)?
            }
            // There is nothing that runs yet.
            _ => (),
        }
        Ok(())
    }

    /// Has both sides forget all.
    fn reset(&self) {
        loop {
            self.qp.forgive();
            self.qp.update_send(SendSide::reset);
            self.qp.update_receive(ReceiveSide::reset);
            // The side that was reset last may have failed before. It cannot any more.
            if !self.qp.has_failed() {
                break;
            }
        }
        // Before, a side could have asked for one again.
        self.qp.forget_pages();
    }

    fn start_receiving(&self, attributes: &Attributes) -> Result {
        let machine = attributes.receive_machine(self.service, &self.node)?;
        let peer = self.peer(attributes)?;
        self.qp.update_receive(|side| side.start(peer, machine));
        Ok(())
    }

    fn start_sending(&self, attributes: &Attributes) -> Result {
        let peer = self.peer(attributes)?;
        let outlet = match peer {
            Some(peer) => Outlet::Peer(peer),
            None => Outlet::Anywhere(Patience::default()),
        };
        let machine = attributes.send_machine(self.service, self.qp.qpn());
        self.qp.update_send(|side| side.start(outlet, machine));
        Ok(())
    }

    /// Changes what may be changed while both sides run.
    fn change_running(
        &self,
        from: QpState,
        to: QpState,
        attributes: &Attributes,
        change: &QpModify<'_>,
    ) -> Result {
        let saved = change.max_dest_rd_atomic().map(saved_for).transpose()?;
        let peers = change
            .path()
            .map(|_| Ok::<_, Error>((self.peer(attributes)?, self.peer(attributes)?)))
            .transpose()?;
        let (peer_of_send, peer_of_receive) = peers.unwrap_or_default();
        self.qp.update_receive(|side| {
            side.configure(attributes.receive_config());
            side.set_qkey(attributes.qkey);
            if let Some(saved) = saved {
                side.enlarge_saved(saved);
            }
            if let Some(peer) = peer_of_receive {
                side.redirect(peer);
            }
        });
        self.qp.update_send(|side| {
            side.configure(attributes.send_config());
            side.set_qkey(attributes.qkey);
            if let Some(peer) = peer_of_send {
                side.redirect(peer);
            }
            match (from, to) {
                (QpState::Rts, QpState::Sqd) => side.drain(match change.notify_drained() {
                    Some(true) => WhenDrained::Tell,
                    Some(false) | None => WhenDrained::Nothing,
                }),
                (QpState::Sqd, QpState::Rts) => side.resume(),
                _ => (),
            }
        });
        Ok(())
    }

    /// The other end of a connection. Datagrams have none.
    fn peer(&self, attributes: &Attributes) -> Result<Option<Peer>> {
        if matches!(self.service, Service::Ud | Service::Gsi) {
            return Ok(None);
        }
        let path = attributes.path.ok_or(EINVAL)?;
        let (local, remote) = (self.qp.qpn(), attributes.dest_qpn);
        Ok(Some(Peer::new(local, remote, &path.network_path())))
    }
}

/// The sizes asked for, none of a receive queue if that is shared. `EINVAL` if they are more than
/// there may be.
fn caps(init: &QpInit<'_, Provider>) -> Result<QpCaps> {
    let mut caps = init.caps();
    if init.srq().is_some() {
        caps.max_recv_wr = 0;
        caps.max_recv_sge = 0;
    }
    let fits = caps.max_send_wr <= limits::MAX_QP_WR
        && caps.max_recv_wr <= limits::MAX_QP_WR
        && caps.max_send_sge <= limits::MAX_SGE
        && caps.max_recv_sge <= limits::MAX_SGE
        && caps.max_inline_data <= limits::MAX_INLINE;
    fits.then_some(caps).ok_or(EINVAL)
}
