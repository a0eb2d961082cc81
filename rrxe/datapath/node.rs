// SPDX-License-Identifier: GPL-2.0

//! What the packet path needs of a device.

use super::{
    allowance::Allowance,
    congestion::Congestion,
    counters::Counters,
    fast_region::FastRegion,
    groups::Groups,
    handle::Handle,
    qp::Qp,
    region::Mr,
    rejoin::Rejoin,
    tally::Tallies,
    wake::Wake,
    window::Window, //
};
use crate::kapi::{
    net::NetDevice,
    sync::RcuTable,
    work::{
        Work,
        WorkQueue, //
    },
};
use kernel::{
    prelude::*,
    sync::{
        aref::ARef,
        atomic::{
            Atomic,
            Relaxed, //
        },
        Arc, //
    },
};
use rrxe_proto::{
    mw::QpId,
    PathMtu, //
};

/// Bytes of headers and trailer around the payload of the packet that has most of them: a
/// WRITE with immediate data over IPv6.
const OVERHEAD: u32 = 40 + 8 + 12 + 16 + 4 + 4;

/// Memory that packets may take on one device that arrived past a gap, in bytes.
const PAST_GAPS: usize = 16 << 20;

/// Memory that backlogs of one device may take beyond what is each one's own, in bytes.
const BACKLOGS: usize = 64 << 20;

/// A device as the packet path sees it.
///
/// Outlives the RDMA device for as long as timers of queue pairs know it; holds on to the network
/// device only by what the RDMA device holds.
#[pin_data]
pub(crate) struct Node {
    netdev: ARef<NetDevice>,
    /// Queue pairs by number.
    #[pin]
    qps: RcuTable<Qp>,
    /// What windows will know the next queue pair by.
    next_qp: Atomic<u64>,
    /// Memory regions by index of their keys.
    #[pin]
    mrs: RcuTable<Mr>,
    /// Regions of listed memory by index of their keys.
    #[pin]
    fast_regions: RcuTable<FastRegion>,
    past_gaps: Allowance,
    backlogs: Allowance,
    /// Memory windows by index of their keys.
    #[pin]
    windows: RcuTable<Window>,
    /// Address handles by number.
    #[pin]
    handles: RcuTable<Handle>,
    /// Multicast groups.
    #[pin]
    groups: Groups,
    counters: Counters,
    /// Counters that queue pairs are bound to.
    #[pin]
    tallies: Tallies,
    /// Continues what exceeded a budget.
    rest: WorkQueue,
    congestion: Congestion,
}

impl Node {
    /// A node that sends by `netdev`, without any objects. The first numbers of queue pairs, memory
    /// regions and memory windows are looked for from the given ones on. Process context, may sleep.
    pub(crate) fn new(
        netdev: ARef<NetDevice>,
        first_qpn: u32,
        first_key: u32,
        first_window: u32,
    ) -> Result<Arc<Self>> {
        let counters = Counters::new()?;
        let all_tallies = Counters::new()?;
        let rest = WorkQueue::new_unbound(c"rrxe")?;
        Arc::pin_init(
            pin_init!(Self {
                netdev,
                qps <- RcuTable::new(first_qpn),
                next_qp: Atomic::new(0),
                mrs <- RcuTable::new(first_key),
                fast_regions <- RcuTable::new(first_key),
                past_gaps: Allowance::new(PAST_GAPS),
                backlogs: Allowance::new(BACKLOGS),
                windows <- RcuTable::new(first_window),
                handles <- RcuTable::new(1),
                groups <- Groups::new(),
                counters,
                tallies <- Tallies::new(all_tallies),
                rest,
                congestion: Congestion::new(),
            }),
            GFP_KERNEL,
        )
    }

    /// The network device that packets leave by.
    pub(crate) fn netdev(&self) -> &NetDevice {
        &self.netdev
    }

    /// Queue pairs by number.
    pub(crate) fn qps(&self) -> &RcuTable<Qp> {
        &self.qps
    }

    /// Returns a number that no queue pair of the device has had before.
    pub(super) fn number_qp(&self) -> QpId {
        QpId(self.next_qp.fetch_add(1, Relaxed))
    }

    /// Memory regions by index of their keys.
    pub(crate) fn mrs(&self) -> &RcuTable<Mr> {
        &self.mrs
    }

    /// How its queue pairs deal with congestion.
    pub(crate) fn congestion(&self) -> &Congestion {
        &self.congestion
    }

    /// Regions of listed memory by index of their keys.
    pub(crate) fn fast_regions(&self) -> &RcuTable<FastRegion> {
        &self.fast_regions
    }

    /// What packets past a gap may take until their turn comes.
    pub(super) fn past_gaps(&self) -> &Allowance {
        &self.past_gaps
    }

    /// What packets may take for whom somebody has no time, beyond what each may that has none.
    pub(super) fn backlogs(&self) -> &Allowance {
        &self.backlogs
    }

    /// Memory windows by index of their keys.
    pub(crate) fn windows(&self) -> &RcuTable<Window> {
        &self.windows
    }

    /// Address handles by number.
    pub(crate) fn handles(&self) -> &RcuTable<Handle> {
        &self.handles
    }

    /// Multicast groups.
    pub(crate) fn groups(&self) -> &Groups {
        &self.groups
    }

    /// The largest payload of a packet that the network device sends whole.
    pub(super) fn mtu(&self) -> PathMtu {
        port_mtu(&self.netdev)
    }

    /// What has happened so far.
    pub(crate) fn counters(&self) -> &Counters {
        &self.counters
    }

    /// Counters that queue pairs are bound to.
    pub(crate) fn tallies(&self) -> &Tallies {
        &self.tallies
    }

    /// Drops the routes that queue pairs and address handles have found. Process context, may sleep.
    ///
    /// A route must not outlive its network namespace, which a queue pair may: the network device
    /// goes to another namespace when its own one ends.
    pub(super) fn forget_routes(&self) {
        self.qps.for_each(Qp::forget_routes);
        self.handles.for_each(Handle::forget_route);
    }

    /// Has `rest` run soon, by a thread.
    pub(super) fn continue_later(&self, rest: &Work<Wake>) {
        self.rest.enqueue(rest);
    }

    /// Has `rejoin` run soon, by a thread.
    pub(crate) fn rejoin_later(&self, rejoin: &Work<Rejoin>) {
        self.rest.enqueue(rejoin);
    }
}

/// The largest path MTU whose packets fit through `netdev`.
pub(crate) fn port_mtu(netdev: &NetDevice) -> PathMtu {
    let room = netdev.mtu().saturating_sub(OVERHEAD);
    // There is no smaller one. If even that does not fit, its full packets are refused.
    PathMtu::fitting(room).unwrap_or(PathMtu::Mtu256)
}
