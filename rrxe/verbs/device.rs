// SPDX-License-Identifier: GPL-2.0

//! The device: what all its objects share.

use super::{
    limits,
    performance,
    Provider, //
};
use crate::{
    datapath::{
        attachment::Attachment,
        counters::{
            Counter,
            Counters, //
        },
        groups,
        node::{
            port_mtu,
            Node, //
        },
        region::PdId,
        rejoin::Rejoin, //
    },
    kapi::{
        debugfs,
        net::NetDevice,
        random,
        rdma::{
            self,
            CoreCaps,
            DeviceAttr,
            DeviceCaps,
            Mad,
            PagingCaps,
            PortLimits,
            StatDesc,
            Violations, //
        },
        sync::Undertaker,
        work::{
            new_work,
            Work, //
        },
    },
};
use kernel::{
    debugfs::Scope,
    prelude::*,
    str::CStr,
    sync::{
        atomic::{
            ordering::Relaxed,
            Atomic, //
        },
        Arc, //
    },
};
use rrxe_proto::{
    PathMtu, //
    Pkey,
};

/// What pages on demand can be used for on reliable connections.
const RC_PAGING: PagingCaps = UC_PAGING
    .union(PagingCaps::READ)
    .union(PagingCaps::ATOMIC)
    .union(PagingCaps::FLUSH)
    .union(PagingCaps::ATOMIC_WRITE);

/// What pages on demand can be used for on all connections.
const UC_PAGING: PagingCaps = UD_PAGING.union(PagingCaps::WRITE);

/// What pages on demand can be used for by all queue pairs.
const UD_PAGING: PagingCaps = PagingCaps::SEND
    .union(PagingCaps::RECEIVE)
    .union(PagingCaps::SHARED_RECEIVE);

/// What all objects of a device share. Objects keep it alive; it may outlive the device that
/// the RDMA core knows.
pub(crate) struct Device {
    /// Dropped first: then no packet comes in any more.
    _attachment: Attachment,
    /// What debugfs shows of the device.
    _files: Pin<KBox<Scope<Arc<Node>>>>,
    /// Joins multicast groups again.
    rejoin: Pin<KBox<Work<Rejoin>>>,
    /// What the packet path knows of the device.
    node: Arc<Node>,
    /// Drops what many of go away at once.
    undertaker: Undertaker,
    /// Number of the next protection domain.
    next_pd: Atomic<u64>,
    /// Number of the next shared receive queue.
    next_srq: Atomic<u32>,
}

impl Device {
    /// Makes the shared part of the device `name`.
    pub(super) fn new(name: &CStr, netdev: &NetDevice) -> Result<Arc<Self>> {
        // Numbers and keys of an earlier life of the device shall not fit.
        let first_qpn = u32::from_ne_bytes(random::bytes()) % limits::MAX_QP;
        let first_key = u32::from_ne_bytes(random::bytes()) % limits::MAX_MR;
        let first_window = limits::MAX_MR + u32::from_ne_bytes(random::bytes()) % limits::MAX_MW;
        let node = Node::new(netdev.into(), first_qpn, first_key, first_window)?;
        let attachment = Attachment::new(node.clone(), netdev)?;
        let files = debugfs::subdirectory(name)?;
        let files = files.scope(node.clone(), c"congestion", |node, dir| {
            node.congestion().publish(dir);
        });
        let files = KBox::pin_init(files, GFP_KERNEL)?;
        let rejoin = new_work!(Rejoin::new(node.clone()), "rrxe::Device::rejoin");
        let rejoin = KBox::pin_init(rejoin, GFP_KERNEL)?;
        Ok(Arc::new(
            Self {
                _attachment: attachment,
                _files: files,
                rejoin,
                node,
                undertaker: Undertaker::new(c"rrxe-undertaker")?,
                next_pd: Atomic::new(0),
                next_srq: Atomic::new(1),
            },
            GFP_KERNEL,
        )?)
    }

    /// What the packet path knows of the device.
    pub(crate) fn node(&self) -> &Arc<Node> {
        &self.node
    }

    /// Has the network device be a member again, soon, of the multicast groups that it may have lost.
    pub(super) fn rejoin_groups(&self) {
        self.node.rejoin_later(&self.rejoin);
    }

    /// Drops what many of go away at once.
    pub(super) fn undertaker(&self) -> &Undertaker {
        &self.undertaker
    }

    /// Returns a number that no protection domain of the device has had before.
    pub(super) fn number_pd(&self) -> PdId {
        PdId::new(self.next_pd.fetch_add(1, Relaxed))
    }

    /// Returns a number for a shared receive queue. Nothing is found by it.
    pub(super) fn number_srq(&self) -> u32 {
        self.next_srq.fetch_add(1, Relaxed)
    }
}

impl rdma::ProviderDevice<Provider> for Device {
    const CORE_CAPS: CoreCaps = CoreCaps::ROCE_V2_CM;
    const GIDS: u32 = limits::GIDS;
    const PKEYS: &'static [u16] = &[Pkey::DEFAULT.0];

    fn counters() -> &'static [StatDesc] {
        Counters::descriptions()
    }

    fn count(&self, index: usize) -> u64 {
        // The part first, so that it is not larger than the whole.
        let tallied = self.node.tallies().total(index);
        self.node.counters().get(index).saturating_sub(tallied)
    }

    fn add_tally(&self) -> Result<u32> {
        self.node.tallies().add()
    }

    fn remove_tally(&self, number: u32) {
        self.node.tallies().remove(number);
    }

    fn tally(&self, number: u32, index: usize) -> u64 {
        self.node.tallies().get(number, index)
    }

    fn attributes(&self) -> DeviceAttr {
        DeviceAttr {
            vendor_id: limits::VENDOR_ID,
            max_mr_size: limits::MAX_MR_SIZE,
            // Pages of any size from 4 KiB to 2 GiB.
            page_size_cap: 0xffff_f000,
            caps: DeviceCaps::PORT_ACTIVE_EVENT
                .union(DeviceCaps::SYS_IMAGE_GUID)
                .union(DeviceCaps::SRQ_RESIZE)
                .union(DeviceCaps::RC_RNR_NAK)
                .union(DeviceCaps::MEM_MGT_EXTENSIONS)
                .union(DeviceCaps::MEM_WINDOW)
                .union(DeviceCaps::MEM_WINDOW_TYPE_2B)
                .union(DeviceCaps::FLUSH_GLOBAL)
                .union(DeviceCaps::FLUSH_PERSISTENT)
                .union(DeviceCaps::ATOMIC_WRITE),
            max_qp: limits::MAX_QP,
            max_qp_wr: limits::MAX_QP_WR,
            max_send_sge: limits::MAX_SGE,
            max_recv_sge: limits::MAX_SGE,
            max_sge_rd: limits::MAX_SGE,
            max_cq: limits::MAX_CQ,
            max_cqe: limits::MAX_CQE,
            max_cq_moderation_count: u16::MAX,
            max_cq_moderation_period: u16::MAX,
            max_srq: limits::MAX_SRQ,
            max_srq_wr: limits::MAX_QP_WR,
            max_srq_sge: limits::MAX_SGE,
            max_fast_pages: limits::MAX_FAST_PAGES,
            max_mr: limits::MAX_MR,
            max_mw: limits::MAX_MW,
            max_pd: limits::MAX_PD,
            max_ah: limits::MAX_AH,
            max_mcast_grp: groups::MAX_GROUPS,
            max_mcast_qp_attach: groups::MAX_MEMBERS,
            max_qp_rd_atom: limits::MAX_RD_ATOMIC,
            max_qp_init_rd_atom: limits::MAX_RD_ATOMIC,
            max_res_rd_atom: limits::MAX_QP.saturating_mul(limits::MAX_RD_ATOMIC),
            atomics: true,
            rc_paging: RC_PAGING,
            uc_paging: UC_PAGING,
            ud_paging: UD_PAGING,
            local_ack_delay: limits::ACK_DELAY,
        }
    }

    fn port_limits(&self) -> PortLimits {
        PortLimits {
            max_mtu: PathMtu::Mtu4096.to_ib(),
            max_message: limits::MAX_MESSAGE,
        }
    }

    fn violations(&self) -> Violations {
        let counted = |counter| self.node.counters().get(counter as usize);
        Violations {
            pkey: counted(Counter::BadPkey),
            qkey: counted(Counter::BadQkey),
        }
    }

    fn active_mtu(&self, netdev: &NetDevice) -> u32 {
        port_mtu(netdev).to_ib()
    }

    fn answer(&self, request: &Mad) -> Option<Mad> {
        performance::answer(request, self.node.counters())
    }
}
