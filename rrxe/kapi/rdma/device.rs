// SPDX-License-Identifier: GPL-2.0

//! RDMA devices.

use super::{
    mad::Mad,
    port::{
        CoreCaps,
        PortLimits,
        Violations, //
    },
    Provider,
    StatDesc, //
};
use crate::kapi::{
    bindings as b,
    net::netdev::NetDevice, //
};
use core::{
    mem::ManuallyDrop,
    ops::Deref,
    ptr::NonNull, //
};
use kernel::{
    error::from_result,
    prelude::*,
    sync::{
        aref::AlwaysRefCounted,
        atomic::{
            Acquire,
            Atomic,
            Relaxed,
            Release, //
        },
        Arc, //
    },
    types::Opaque, //
};

/// A device as the RDMA core sees it ([`struct ib_device`]).
///
/// A reference keeps the memory, not the registration: the device may go away meanwhile.
///
/// # Invariants
///
/// It is the start of a [`Device`], and referenced.
///
/// [`struct ib_device`]: srctree/include/rdma/ib_verbs.h
#[repr(C)]
pub(crate) struct IbDevice {
    raw: Opaque<b::ib_device>,
    /// Whether it is being unregistered, or about to be.
    leaving: Atomic<bool>,
    /// Whether the last operation has been called.
    gone: Atomic<bool>,
}

// SAFETY: References may be taken and put by any thread.
unsafe impl Send for IbDevice {}

// SAFETY: All methods may be called from any thread.
unsafe impl Sync for IbDevice {}

// SAFETY: The device is freed with the last reference of its `struct device`.
unsafe impl AlwaysRefCounted for IbDevice {
    fn inc_ref(&self) {
        // SAFETY: The device is referenced by the type invariant.
        unsafe { b::get_device(self.device()) };
    }

    unsafe fn dec_ref(obj: NonNull<Self>) {
        // SAFETY: The caller has a reference.
        let device = unsafe { obj.as_ref() }.device();
        // SAFETY: The caller gives it up.
        unsafe { b::put_device(device) };
    }
}

impl IbDevice {
    /// # Safety
    ///
    /// `ib` must be the start of a [`Device`], and referenced during `'a`.
    pub(super) unsafe fn from_raw<'a>(ib: *mut b::ib_device) -> &'a Self {
        // INVARIANT: By the requirements.
        // SAFETY: As above.
        unsafe { &*ib.cast() }
    }

    pub(super) fn as_raw(&self) -> *mut b::ib_device {
        self.raw.get()
    }

    /// Announces that it is about to be unregistered.
    pub(super) fn leave(&self) {
        self.leaving.store(true, Relaxed);
    }

    /// Whether it is being unregistered, or about to be: all objects are going to be destroyed.
    pub(super) fn is_leaving(&self) -> bool {
        self.leaving.load(Relaxed)
    }

    /// Whether the device has gone away, all but the return of its last operation.
    pub(super) fn is_gone(&self) -> bool {
        self.gone.load(Acquire)
    }

    fn device(&self) -> *mut b::device {
        // The `struct device` is one member of this union, and the first of the other.
        // SAFETY: The device is valid by the type invariant.
        unsafe { (&raw mut (*self.as_raw()).__bindgen_anon_1).cast() }
    }
}

/// A device of the provider `P`: the core's structure, and behind it the driver's value.
///
/// # Invariants
///
/// A `&Device` exists only from when `data` has been written on to `dealloc_driver()`, which the
/// core calls when no operation runs and no object is left.
#[repr(C)]
pub(crate) struct Device<P: Provider> {
    ib: IbDevice,
    data: ManuallyDrop<Arc<P::Device>>,
}

impl<P: Provider> Device<P> {
    /// # Safety
    ///
    /// `ib` must be a device of `P` that has its data, and stay clear of `dealloc_driver()`
    /// during `'a`.
    pub(super) unsafe fn from_raw<'a>(ib: *mut b::ib_device) -> &'a Self {
        // SAFETY: The device is the first member of a `Self`, by the requirements.
        unsafe { &*ib.cast::<Self>() }
    }

    /// # Safety
    ///
    /// `ib` must be the first member of a new `Self` that no one else uses.
    pub(super) unsafe fn init(ib: *mut b::ib_device, data: Arc<P::Device>) {
        let this = ib.cast::<Self>();
        // SAFETY: By the requirements.
        let place = unsafe { &raw mut (*this).data };
        // SAFETY: As above.
        unsafe { place.write(ManuallyDrop::new(data)) };
    }

    /// The driver's value. It may be kept for longer than the device.
    pub(crate) fn data(&self) -> &Arc<P::Device> {
        &self.data
    }
}

impl<P: Provider> Deref for Device<P> {
    type Target = IbDevice;

    fn deref(&self) -> &IbDevice {
        &self.ib
    }
}

/// A set of capabilities of a device ([`enum ib_device_cap_flags`]).
///
/// [`enum ib_device_cap_flags`]: srctree/include/rdma/ib_verbs.h
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct DeviceCaps(u64);

impl DeviceCaps {
    /// Raises an event when the port comes up.
    pub(crate) const PORT_ACTIVE_EVENT: Self =
        Self(b::ib_device_cap_flags_IB_DEVICE_PORT_ACTIVE_EVENT as u64);
    /// Has a system image GUID.
    pub(crate) const SYS_IMAGE_GUID: Self =
        Self(b::ib_device_cap_flags_IB_DEVICE_SYS_IMAGE_GUID as u64);
    /// Registers memory and makes keys invalid by work requests.
    pub(crate) const MEM_MGT_EXTENSIONS: Self =
        Self(b::ib_device_cap_flags_IB_DEVICE_MEM_MGT_EXTENSIONS as u64);
    /// Has memory windows of type 1.
    pub(crate) const MEM_WINDOW: Self = Self(b::ib_device_cap_flags_IB_DEVICE_MEM_WINDOW as u64);
    /// Has memory windows of type 2B.
    pub(crate) const MEM_WINDOW_TYPE_2B: Self =
        Self(b::ib_device_cap_flags_IB_DEVICE_MEM_WINDOW_TYPE_2B as u64);
    /// Changes the sizes of shared receive queues.
    pub(crate) const SRQ_RESIZE: Self = Self(b::ib_device_cap_flags_IB_DEVICE_SRQ_RESIZE as u64);
    /// Makes a peer's writes visible when the peer asks for it.
    pub(crate) const FLUSH_GLOBAL: Self =
        Self(b::ib_device_cap_flags_IB_DEVICE_FLUSH_GLOBAL as u64);
    /// Makes a peer's writes persistent when the peer asks for it.
    pub(crate) const FLUSH_PERSISTENT: Self =
        Self(b::ib_device_cap_flags_IB_DEVICE_FLUSH_PERSISTENT as u64);
    /// Has the atomic write of eight bytes.
    pub(crate) const ATOMIC_WRITE: Self =
        Self(b::ib_device_cap_flags_IB_DEVICE_ATOMIC_WRITE as u64);
    /// Says "receiver not ready" by itself.
    pub(crate) const RC_RNR_NAK: Self =
        Self(b::ib_device_cap_flags_IB_DEVICE_RC_RNR_NAK_GEN as u64);

    /// The capabilities of both sets.
    pub(crate) const fn union(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }
}

/// What may be done with memory whose pages come when they are needed
/// ([`enum ib_odp_transport_cap_bits`]).
///
/// [`enum ib_odp_transport_cap_bits`]: srctree/include/rdma/ib_verbs.h
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct PagingCaps(u32);

impl PagingCaps {
    /// SENDs from it.
    pub(crate) const SEND: Self = Self(b::ib_odp_transport_cap_bits_IB_ODP_SUPPORT_SEND);
    /// Receives into it.
    pub(crate) const RECEIVE: Self = Self(b::ib_odp_transport_cap_bits_IB_ODP_SUPPORT_RECV);
    /// Receives into it, from a shared receive queue.
    pub(crate) const SHARED_RECEIVE: Self =
        Self(b::ib_odp_transport_cap_bits_IB_ODP_SUPPORT_SRQ_RECV);
    /// WRITEs, on either side.
    pub(crate) const WRITE: Self = Self(b::ib_odp_transport_cap_bits_IB_ODP_SUPPORT_WRITE);
    /// READs, on either side.
    pub(crate) const READ: Self = Self(b::ib_odp_transport_cap_bits_IB_ODP_SUPPORT_READ);
    /// Atomics, on either side.
    pub(crate) const ATOMIC: Self = Self(b::ib_odp_transport_cap_bits_IB_ODP_SUPPORT_ATOMIC);
    /// FLUSHes, on either side.
    pub(crate) const FLUSH: Self = Self(b::ib_odp_transport_cap_bits_IB_ODP_SUPPORT_FLUSH);
    /// ATOMIC WRITEs, on either side.
    pub(crate) const ATOMIC_WRITE: Self =
        Self(b::ib_odp_transport_cap_bits_IB_ODP_SUPPORT_ATOMIC_WRITE);

    /// The capabilities of both sets.
    pub(crate) const fn union(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }
}

/// What a device offers, and how much of it ([`struct ib_device_attr`]).
///
/// [`struct ib_device_attr`]: srctree/include/rdma/ib_verbs.h
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct DeviceAttr {
    /// Number of the vendor, an OUI.
    pub(crate) vendor_id: u32,
    /// Bytes of the largest memory region.
    pub(crate) max_mr_size: u64,
    /// Bit n: pages of 2^n bytes may make up a region.
    pub(crate) page_size_cap: u64,
    /// What else it can do.
    pub(crate) caps: DeviceCaps,
    /// Queue pairs.
    pub(crate) max_qp: u32,
    /// Requests that fit into a queue.
    pub(crate) max_qp_wr: u32,
    /// Scatter/gather entries of a send request.
    pub(crate) max_send_sge: u32,
    /// Scatter/gather entries of a receive request.
    pub(crate) max_recv_sge: u32,
    /// Scatter/gather entries of a READ.
    pub(crate) max_sge_rd: u32,
    /// Completion queues.
    pub(crate) max_cq: u32,
    /// Completions that fit into a queue.
    pub(crate) max_cqe: u32,
    /// Completions to be notified of at once.
    pub(crate) max_cq_moderation_count: u16,
    /// How long a notification may be held back, in microseconds.
    pub(crate) max_cq_moderation_period: u16,
    /// Shared receive queues.
    pub(crate) max_srq: u32,
    /// Requests that fit into a shared receive queue.
    pub(crate) max_srq_wr: u32,
    /// Scatter entries of a request in a shared receive queue.
    pub(crate) max_srq_sge: u32,
    /// Pages of a memory region that is registered by a work request.
    pub(crate) max_fast_pages: u32,
    /// Memory regions.
    pub(crate) max_mr: u32,
    /// Memory windows.
    pub(crate) max_mw: u32,
    /// Protection domains.
    pub(crate) max_pd: u32,
    /// Address handles.
    pub(crate) max_ah: u32,
    /// Multicast groups.
    pub(crate) max_mcast_grp: u32,
    /// Queue pairs that may be attached to a multicast group.
    pub(crate) max_mcast_qp_attach: u32,
    /// READs and atomics that a queue pair may have under way as the responder.
    pub(crate) max_qp_rd_atom: u32,
    /// READs and atomics that a queue pair may have under way as the requester.
    pub(crate) max_qp_init_rd_atom: u32,
    /// READs and atomics that all queue pairs may have under way as responders.
    pub(crate) max_res_rd_atom: u32,
    /// Whether atomics are atomic to other queue pairs of the device.
    pub(crate) atomics: bool,
    /// What pages on demand can be used for on reliable connections.
    pub(crate) rc_paging: PagingCaps,
    /// On unreliable connections.
    pub(crate) uc_paging: PagingCaps,
    /// For datagrams.
    pub(crate) ud_paging: PagingCaps,
    /// The device's share of the time until an acknowledgment comes: 4.096 us * 2^n.
    pub(crate) local_ack_delay: u8,
}

/// The driver's part of a device.
pub(crate) trait ProviderDevice<P: Provider<Device = Self>>: Sized + Send + Sync {
    /// What the port can do.
    const CORE_CAPS: CoreCaps;
    /// Entries of the port's GID table.
    const GIDS: u32;
    /// The port's partition keys.
    const PKEYS: &'static [u16];

    /// What the port counts. At most 256 things.
    fn counters() -> &'static [StatDesc];

    /// How many there were, since the device was made, of what is at `index` of
    /// [`counters`](Self::counters), without those of queue pairs that were bound to a
    /// [tally](Self::add_tally) then. Process context.
    fn count(&self, index: usize) -> u64;

    /// Makes a set of counters, a tally, which queue pairs can be [bound](super::QueuePair::bind_tally)
    /// to. Returns its number, which is not zero. Process context, may sleep.
    fn add_tally(&self) -> Result<u32>;

    /// Drops the tally `number`, to which no queue pair is bound. Process context, may sleep.
    fn remove_tally(&self, number: u32);

    /// How many the tally `number` has counted of what is at `index` of [`counters`](Self::counters).
    /// Process context.
    fn tally(&self, number: u32, index: usize) -> u64;

    /// What the device offers.
    fn attributes(&self) -> DeviceAttr;

    /// What the port can do at most.
    fn port_limits(&self) -> PortLimits;

    /// How often packets came in that had no right to.
    fn violations(&self) -> Violations;

    /// Largest path MTU that `netdev`, the port's, leaves room for: a number of `enum ib_mtu`.
    fn active_mtu(&self, netdev: &NetDevice) -> u32;

    /// The device's own answer to a management datagram, if it has one. Process context.
    fn answer(&self, request: &Mad) -> Option<Mad>;
}

/// The operation `query_device`.
///
/// # Safety
///
/// To be called by the RDMA core, as [`ops`](super::ops) says.
pub(super) unsafe extern "C" fn query<P: Provider>(
    ib: *mut b::ib_device,
    attr: *mut b::ib_device_attr,
    udata: *mut b::ib_udata,
) -> c_int {
    from_result(|| {
        // SAFETY: `udata` is null or valid during the call.
        let udata = unsafe { udata.as_ref() };
        if udata.is_some_and(|udata| udata.inlen != 0 || udata.outlen != 0) {
            return Err(EINVAL);
        }
        // SAFETY: The core passes a live device.
        let device = unsafe { Device::<P>::from_raw(ib) };
        let from = device.data().attributes();
        // SAFETY: The core passes a zeroed structure that it does not touch meanwhile.
        let to = unsafe { &mut *attr };

        to.vendor_id = from.vendor_id;
        // SAFETY: Set before the device was registered.
        to.sys_image_guid = unsafe { (*ib).node_guid };
        to.max_mr_size = from.max_mr_size;
        to.page_size_cap = from.page_size_cap;
        to.device_cap_flags = from.caps.0;
        // The device is deleted by the same command set that made it.
        to.kernel_cap_flags = u64::from(b::ib_kernel_cap_flags_IBK_ALLOW_USER_UNREG)
            | u64::from(b::ib_kernel_cap_flags_IBK_ON_DEMAND_PAGING);
        to.odp_caps.general_caps = u64::from(b::ib_odp_general_cap_bits_IB_ODP_SUPPORT)
            | u64::from(b::ib_odp_general_cap_bits_IB_ODP_SUPPORT_IMPLICIT);
        to.odp_caps.per_transport_caps.rc_odp_caps = from.rc_paging.0;
        to.odp_caps.per_transport_caps.uc_odp_caps = from.uc_paging.0;
        to.odp_caps.per_transport_caps.ud_odp_caps = from.ud_paging.0;
        to.max_qp = c_int::try_from(from.max_qp)?;
        to.max_qp_wr = c_int::try_from(from.max_qp_wr)?;
        to.max_send_sge = c_int::try_from(from.max_send_sge)?;
        to.max_recv_sge = c_int::try_from(from.max_recv_sge)?;
        to.max_sge_rd = c_int::try_from(from.max_sge_rd)?;
        to.max_cq = c_int::try_from(from.max_cq)?;
        to.max_cqe = c_int::try_from(from.max_cqe)?;
        to.cq_caps.max_cq_moderation_count = from.max_cq_moderation_count;
        to.cq_caps.max_cq_moderation_period = from.max_cq_moderation_period;
        to.max_srq = c_int::try_from(from.max_srq)?;
        to.max_srq_wr = c_int::try_from(from.max_srq_wr)?;
        to.max_srq_sge = c_int::try_from(from.max_srq_sge)?;
        to.max_fast_reg_page_list_len = from.max_fast_pages;
        to.max_mr = c_int::try_from(from.max_mr)?;
        to.max_mw = c_int::try_from(from.max_mw)?;
        to.max_pd = c_int::try_from(from.max_pd)?;
        to.max_ah = c_int::try_from(from.max_ah)?;
        to.max_mcast_grp = c_int::try_from(from.max_mcast_grp)?;
        to.max_mcast_qp_attach = c_int::try_from(from.max_mcast_qp_attach)?;
        to.max_total_mcast_qp_attach =
            c_int::try_from(from.max_mcast_grp.saturating_mul(from.max_mcast_qp_attach))?;
        to.max_qp_rd_atom = c_int::try_from(from.max_qp_rd_atom)?;
        to.max_qp_init_rd_atom = c_int::try_from(from.max_qp_init_rd_atom)?;
        to.max_res_rd_atom = c_int::try_from(from.max_res_rd_atom)?;
        to.atomic_cap = if from.atomics {
            b::ib_atomic_cap_IB_ATOMIC_HCA
        } else {
            b::ib_atomic_cap_IB_ATOMIC_NONE
        };
        to.max_pkeys = u16::try_from(P::Device::PKEYS.len())?;
        to.local_ca_ack_delay = from.local_ack_delay;
        Ok(0)
    })
}

/// The operation `dealloc_driver`.
///
/// The last operation of a device; what is left is the core's structure.
///
/// # Safety
///
/// To be called by the RDMA core, as [`ops`](super::ops) says.
pub(super) unsafe extern "C" fn dealloc<P: Provider>(ib: *mut b::ib_device) {
    // SAFETY: The core passes a device that is still there.
    let data = unsafe { &raw const (*ib.cast::<Device<P>>()).data };
    // SAFETY: As above. It is read once, as this is the last operation.
    drop(ManuallyDrop::into_inner(unsafe { data.read() }));
    // SAFETY: The core still has a reference.
    unsafe { IbDevice::from_raw(ib) }.gone.store(true, Release);
}
