// SPDX-License-Identifier: GPL-2.0

//! The port of a device. Software devices have one, number 1, which is a netdev.

use super::{
    Device,
    Provider,
    ProviderDevice, //
};
use crate::kapi::{
    bindings as b,
    net::netdev::NetDevice, //
};
use core::ptr::NonNull;
use kernel::{
    error::{
        from_result,
        to_result, //
    },
    prelude::*,
    sync::aref::ARef, //
};

/// Number of the only port.
pub(super) const NUMBER: u32 = 1;

/// What the RDMA core may take for granted of a port (`RDMA_CORE_CAP_*`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct CoreCaps(u32);

impl CoreCaps {
    /// RoCE version 2, with queue pair 1 and the kernel's connection manager on it.
    pub(crate) const ROCE_V2_CM: Self = Self(
        b::RDMA_CORE_CAP_PROT_ROCE_UDP_ENCAP
            | b::RDMA_CORE_CAP_ETH_AH
            | b::RDMA_CORE_CAP_AF_IB
            | b::RDMA_CORE_CAP_IB_MAD
            | b::RDMA_CORE_CAP_IB_CM,
    );

    /// Bytes of a management datagram, 0 without them.
    const fn max_mad_size(self) -> u32 {
        if self.0 & b::RDMA_CORE_CAP_IB_MAD != 0 {
            b::IB_MGMT_MAD_SIZE
        } else {
            0
        }
    }
}

/// What a port can do at most.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PortLimits {
    /// Largest path MTU, as a number of [`enum ib_mtu`].
    ///
    /// [`enum ib_mtu`]: srctree/include/rdma/ib_verbs.h
    pub(crate) max_mtu: u32,
    /// Bytes of the longest message.
    pub(crate) max_message: u32,
}

/// How often packets came in that had no right to.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Violations {
    /// Packets with a wrong partition key.
    pub(crate) pkey: u64,
    /// Datagrams with a wrong queue key.
    pub(crate) qkey: u64,
}

impl Violations {
    /// The specification's counters have 16 bits and stop there.
    fn reported(count: u64) -> u32 {
        u16::try_from(count).unwrap_or(u16::MAX).into()
    }
}

impl<P: Provider> Device<P> {
    /// The netdev of the port; `None` while the device goes away.
    pub(crate) fn netdev(&self) -> Option<ARef<NetDevice>> {
        // SAFETY: The device is alive.
        let netdev = unsafe { b::ib_device_get_netdev(self.as_raw(), NUMBER) };
        let netdev = NonNull::new(netdev.cast::<NetDevice>())?;
        // SAFETY: The call gave us a reference; the type is transparent.
        Some(unsafe { ARef::from_raw(netdev) })
    }
}

/// Reports that the port is down: it has no netdev, or none that could be asked.
fn set_down(attr: &mut b::ib_port_attr) {
    attr.state = b::ib_port_state_IB_PORT_DOWN;
    attr.phys_state = b::ib_port_phys_state_IB_PORT_PHYS_STATE_DISABLED as u8;
    attr.active_mtu = b::ib_mtu_IB_MTU_256;
    attr.active_speed = b::ib_port_speed_IB_SPEED_SDR as u16;
    attr.active_width = b::ib_port_width_IB_WIDTH_1X as u8;
}

/// Reports the state of the port's netdev.
fn set_state(attr: &mut b::ib_port_attr, netdev: &NetDevice) {
    // SAFETY: The netdev is referenced.
    attr.state = unsafe { b::helpers::ib_get_curr_port_state(netdev.as_ptr()) };
    attr.phys_state = match (netdev.is_running(), netdev.has_carrier()) {
        (true, true) => b::ib_port_phys_state_IB_PORT_PHYS_STATE_LINK_UP as u8,
        (true, false) => b::ib_port_phys_state_IB_PORT_PHYS_STATE_POLLING as u8,
        (false, _) => b::ib_port_phys_state_IB_PORT_PHYS_STATE_DISABLED as u8,
    };
}

/// The operation `query_port`.
///
/// # Safety
///
/// To be called by the RDMA core, as [`ops`](super::ops) says.
pub(super) unsafe extern "C" fn query<P: Provider>(
    ib: *mut b::ib_device,
    port: u32,
    attr: *mut b::ib_port_attr,
) -> c_int {
    from_result(|| {
        if port != NUMBER {
            return Err(EINVAL);
        }
        // SAFETY: The core passes a live device.
        let device = unsafe { Device::<P>::from_raw(ib) };
        // SAFETY: The core passes a zeroed structure that it does not touch meanwhile.
        let attr = unsafe { &mut *attr };

        attr.gid_tbl_len = c_int::try_from(P::Device::GIDS)?;
        attr.pkey_tbl_len = u16::try_from(P::Device::PKEYS.len())?;
        attr.max_vl_num = 1;
        if P::Device::CORE_CAPS.max_mad_size() != 0 {
            attr.port_cap_flags = b::ib_port_capability_mask_bits_IB_PORT_CM_SUP;
        }
        let limits = device.data().port_limits();
        attr.max_mtu = limits.max_mtu;
        attr.max_msg_sz = limits.max_message;
        let violations = device.data().violations();
        attr.bad_pkey_cntr = Violations::reported(violations.pkey);
        attr.qkey_viol_cntr = Violations::reported(violations.qkey);

        // While the netdev goes away it is still asked for.
        set_down(attr);
        let Some(netdev) = device.netdev() else {
            return Ok(0);
        };
        // SAFETY: The device is alive, and the places are valid for writes.
        let err = unsafe {
            b::ib_get_eth_speed(ib, port, &mut attr.active_speed, &mut attr.active_width)
        };
        if err == 0 {
            set_state(attr, &netdev);
            attr.active_mtu = device.data().active_mtu(&netdev);
        }
        Ok(0)
    })
}

/// The operation `query_port_speed`: in units of 100 Mbit/s.
///
/// # Safety
///
/// To be called by the RDMA core, as [`ops`](super::ops) says.
pub(super) unsafe extern "C" fn query_speed<P: Provider>(
    ib: *mut b::ib_device,
    port: u32,
    speed: *mut u64,
) -> c_int {
    from_result(|| {
        let mut attr: b::ib_port_attr = pin_init::zeroed();
        // SAFETY: The core passes a live device; the structure is ours.
        to_result(unsafe { query::<P>(ib, port, &mut attr) })?;
        let mut info: b::ib_port_speed_info = pin_init::zeroed();
        // SAFETY: Both structures are ours.
        to_result(unsafe { b::ib_port_attr_to_speed_info(&mut attr, &mut info) })?;
        // SAFETY: The core passes a valid place.
        unsafe { speed.write(u64::try_from(info.rate)?) };
        Ok(0)
    })
}

/// The operation `get_port_immutable`.
///
/// # Safety
///
/// To be called by the RDMA core, as [`ops`](super::ops) says.
pub(super) unsafe extern "C" fn immutable<P: Provider>(
    _ib: *mut b::ib_device,
    _port: u32,
    immutable: *mut b::ib_port_immutable,
) -> c_int {
    from_result(|| {
        // SAFETY: The core passes a valid structure that it does not touch meanwhile.
        let immutable = unsafe { &mut *immutable };
        immutable.pkey_tbl_len = c_int::try_from(P::Device::PKEYS.len())?;
        immutable.gid_tbl_len = c_int::try_from(P::Device::GIDS)?;
        immutable.core_cap_flags = P::Device::CORE_CAPS.0;
        immutable.max_mad_size = P::Device::CORE_CAPS.max_mad_size();
        Ok(0)
    })
}

/// The operation `get_link_layer`.
///
/// # Safety
///
/// To be called by the RDMA core, as [`ops`](super::ops) says.
pub(super) unsafe extern "C" fn link_layer(
    _ib: *mut b::ib_device,
    _port: u32,
) -> b::rdma_link_layer {
    b::rdma_link_layer_IB_LINK_LAYER_ETHERNET
}

/// The operation `query_pkey`.
///
/// # Safety
///
/// To be called by the RDMA core, as [`ops`](super::ops) says.
pub(super) unsafe extern "C" fn query_pkey<P: Provider>(
    _ib: *mut b::ib_device,
    _port: u32,
    index: u16,
    pkey: *mut u16,
) -> c_int {
    from_result(|| {
        let value = P::Device::PKEYS.get(usize::from(index)).ok_or(EINVAL)?;
        // SAFETY: The core passes a valid place.
        unsafe { pkey.write(*value) };
        Ok(0)
    })
}
