// SPDX-License-Identifier: GPL-2.0

//! Network devices.
//!
//! C header: [`include/linux/netdevice.h`](srctree/include/linux/netdevice.h)

use super::netns::Net;
use crate::kapi::{
    bindings as b,
    counted::counted, //
};
use core::ptr::NonNull;
use kernel::{
    sync::{
        aref::ARef,
        rcu, //
    },
    types::Opaque,
};

/// A network device.
///
/// A device is not gone before all references are: whoever keeps one must give it up when told so
/// by [`NetDeviceEvents::unregister`](super::notifier::NetDeviceEvents::unregister).
///
/// What the methods tell may change at any moment unless the caller holds the RTNL lock. They may be
/// called in any context unless they say otherwise.
///
/// # Invariants
///
/// The C object's reference count is not zero while a reference to it exists.
#[repr(transparent)]
pub(crate) struct NetDevice(Opaque<b::net_device>);

counted!(
    NetDevice(net_device),
    b::helpers::dev_hold,
    b::helpers::dev_put
);

impl NetDevice {
    /// The device at `ptr`.
    ///
    /// # Safety
    ///
    /// `ptr` must be valid, and something must keep a reference, for the lifetime `'a`.
    #[inline]
    pub(in crate::kapi) unsafe fn from_raw<'a>(ptr: *mut b::net_device) -> &'a Self {
        // INVARIANT: As the caller promises.
        // SAFETY: As above; the type is transparent.
        unsafe { &*ptr.cast() }
    }

    /// The device with index `ifindex` in the same namespace as `self`.
    pub(super) fn sibling<'g>(&self, ifindex: u32, _guard: &'g rcu::Guard) -> Option<&'g Self> {
        let ifindex = i32::try_from(ifindex).ok()?;
        // SAFETY: The RCU read lock is held, for as long as the namespace is used here.
        let device = unsafe { b::dev_get_by_index_rcu(self.net_rcu(), ifindex) };
        // SAFETY: A device that is found under RCU is alive until the read section ends.
        (!device.is_null()).then(|| unsafe { Self::from_raw(device) })
    }

    /// The number of the device in its namespace.
    #[inline]
    pub(crate) fn ifindex(&self) -> u32 {
        // SAFETY: The device is alive.
        unsafe { b::helpers::netdev_ifindex(self.as_ptr()) }.unsigned_abs()
    }

    /// The largest IP packet, in bytes, that the device sends whole.
    #[inline]
    pub(crate) fn mtu(&self) -> u32 {
        // SAFETY: The device is alive.
        unsafe { b::helpers::netdev_mtu(self.as_ptr()) }
    }

    /// The Ethernet address, or the first six bytes of whatever address the device has.
    pub(crate) fn mac(&self) -> [u8; 6] {
        let mut mac = [0; 6];
        // SAFETY: The device is alive, and the pointer to its address does not change.
        let address = unsafe { (*self.as_ptr()).dev_addr };
        // SAFETY: The address lives as long as the device and has at least 32 bytes.
        unsafe { b::helpers::copy_bytes(mac.as_mut_ptr().cast(), address.cast(), mac.len()) };
        mac
    }

    /// Whether the device is administratively up.
    pub(crate) fn is_running(&self) -> bool {
        // SAFETY: The device is alive.
        unsafe { b::helpers::netif_running(self.as_ptr()) }
    }

    /// Whether the device has a link.
    pub(crate) fn has_carrier(&self) -> bool {
        // SAFETY: The device is alive.
        unsafe { b::helpers::netif_carrier_ok(self.as_ptr()) }
    }

    /// The device below, if this is a VLAN.
    pub(crate) fn vlan_lower(&self) -> Option<&Self> {
        // SAFETY: The device is alive.
        if !unsafe { b::helpers::is_vlan_dev(self.as_ptr()) } {
            return None;
        }
        // SAFETY: It is a VLAN device.
        let lower = unsafe { b::helpers::vlan_dev_real_dev(self.as_ptr()) };
        // SAFETY: A VLAN device holds a reference to the device below for as long as it lives.
        Some(unsafe { Self::from_raw(lower) })
    }

    /// Number of the VLAN, if this device is one. Any context.
    pub(crate) fn vlan_id(&self) -> Option<u16> {
        // SAFETY: The device is alive.
        let is_vlan = unsafe { b::helpers::is_vlan_dev(self.as_ptr()) };
        // SAFETY: It is a VLAN device.
        is_vlan.then(|| unsafe { b::helpers::vlan_dev_vlan_id(self.as_ptr()) })
    }

    /// The namespace the device is in just now, unless that is being torn down.
    pub(crate) fn net(&self) -> Option<ARef<Net>> {
        let _guard = rcu::read_lock();
        // SAFETY: The RCU read lock is held.
        let net = NonNull::new(unsafe { b::helpers::maybe_get_net(self.net_rcu()) })?;
        // SAFETY: A reference was just taken, for us.
        Some(unsafe { ARef::from_raw(net.cast()) })
    }

    /// Whether the device is registered in `net` and not about to leave it. What is about to leave
    /// later is announced to all [`Notifier`](super::Notifier)s after this has returned.
    ///
    /// Process context; takes the RTNL lock.
    pub(in crate::kapi) fn is_settled_in(&self, net: &Net) -> bool {
        // SAFETY: Both are alive.
        unsafe { b::helpers::netdev_is_settled_in(self.as_ptr(), net.as_ptr()) }
    }

    /// The namespace the device is in just now; valid in the RCU read section of the caller only.
    #[inline]
    pub(super) fn net_rcu(&self) -> *mut b::net {
        // SAFETY: The device is alive; nothing is done with the namespace.
        unsafe { b::helpers::dev_net_rcu(self.as_ptr()) }
    }
}
