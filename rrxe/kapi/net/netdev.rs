// SPDX-License-Identifier: GPL-2.0

//! Network devices.
//!
//! C header: [`include/linux/netdevice.h`](srctree/include/linux/netdevice.h)

use super::netns::Net;
use crate::kapi::bindings as b;
use core::ptr::NonNull;
use kernel::{
    sync::{
        aref::{
            ARef,
            AlwaysRefCounted, //
        },
        rcu,
    },
    types::Opaque,
};

/// A network device.
///
/// A device is not gone before all references are: whoever keeps one must give it up when told so
/// by [`NetDeviceEvents::unregister`](super::notifier::NetDeviceEvents::unregister).
///
/// What the methods tell may change at any moment unless the caller holds the RTNL lock. They may be
/// called in any context.
///
/// # Invariants
///
/// The C object's reference count is not zero while a reference to it exists.
#[repr(transparent)]
pub(crate) struct NetDevice(Opaque<b::net_device>);

// SAFETY: Reference counts may be dropped by any thread.
unsafe impl Send for NetDevice {}

// SAFETY: All methods may be called by several threads at once.
unsafe impl Sync for NetDevice {}

// SAFETY: The C object is reference counted, and not freed before the count reaches zero.
unsafe impl AlwaysRefCounted for NetDevice {
    fn inc_ref(&self) {
        // SAFETY: By the type invariant the device is alive.
        unsafe { b::helpers::dev_hold(self.as_ptr()) };
    }

    /// # Safety
    ///
    /// As [`AlwaysRefCounted::dec_ref`] says.
    unsafe fn dec_ref(obj: NonNull<Self>) {
        // SAFETY: The caller owns a count.
        unsafe { b::helpers::dev_put(obj.as_ptr().cast()) };
    }
}

impl NetDevice {
    /// The device at `ptr`.
    ///
    /// # Safety
    ///
    /// `ptr` must be valid, and something must keep the device alive, for the lifetime `'a`.
    pub(crate) unsafe fn from_raw<'a>(ptr: *mut b::net_device) -> &'a Self {
        // SAFETY: The type is transparent; the rest the caller promises.
        unsafe { &*ptr.cast() }
    }

    /// The device with index `ifindex` of namespace `net`.
    pub(crate) fn by_index(net: &Net, ifindex: u32) -> Option<ARef<Self>> {
        let _guard = rcu::read_lock();
        let ifindex = i32::try_from(ifindex).ok()?;
        // SAFETY: The namespace is alive and the RCU read lock is held.
        let device = NonNull::new(unsafe { b::dev_get_by_index_rcu(net.as_ptr(), ifindex) })?;
        // SAFETY: A device that is found under RCU is alive until the read section ends.
        Some(unsafe { Self::from_raw(device.as_ptr()) }.into())
    }

    /// The number of the device in its namespace.
    #[inline]
    pub(crate) fn ifindex(&self) -> u32 {
        // SAFETY: The device is alive, and its number changes only while no packets flow.
        let index = unsafe { (&raw const (*self.as_ptr()).ifindex).read_volatile() };
        index.unsigned_abs()
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
        // SAFETY: The device is alive, and so is its address, of at least 32 bytes.
        unsafe {
            b::helpers::copy_bytes(
                mac.as_mut_ptr().cast(),
                (*self.as_ptr()).dev_addr.cast(),
                mac.len(),
            )
        };
        mac
    }

    /// The name, up to its terminating zero.
    pub(crate) fn name(&self) -> [u8; 16] {
        let mut name = [0; 16];
        // SAFETY: The device is alive; a name is an array of 16 bytes.
        unsafe {
            b::helpers::copy_bytes(
                name.as_mut_ptr().cast(),
                (&raw const (*self.as_ptr()).name).cast(),
                name.len(),
            )
        };
        name
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

    /// Whether the device carries Ethernet frames.
    pub(crate) fn is_ethernet(&self) -> bool {
        // SAFETY: The device is alive, and its type does not change while it is registered.
        u32::from(unsafe { (*self.as_ptr()).type_ }) == b::RRXE_ARPHRD_ETHER
    }

    /// The device below, if this is a VLAN.
    pub(crate) fn vlan_lower(&self) -> Option<&Self> {
        // SAFETY: The device is alive.
        if !unsafe { b::helpers::is_vlan_dev(self.as_ptr()) } {
            return None;
        }
        // SAFETY: It is a VLAN device.
        let lower = NonNull::new(unsafe { b::helpers::vlan_dev_real_dev(self.as_ptr()) })?;
        // SAFETY: A VLAN device holds a reference to the device below for as long as it lives.
        Some(unsafe { Self::from_raw(lower.as_ptr()) })
    }

    /// The namespace the device is in just now, unless that is being torn down.
    pub(crate) fn net(&self) -> Option<ARef<Net>> {
        let _guard = rcu::read_lock();
        // SAFETY: The device is alive and the RCU read lock is held.
        let net = unsafe { b::helpers::dev_net_rcu(self.as_ptr()) };
        // SAFETY: The namespace is not freed before the read section ends.
        let net = NonNull::new(unsafe { b::helpers::maybe_get_net(net) })?;
        // SAFETY: A reference was just taken, for us.
        Some(unsafe { ARef::from_raw(net.cast()) })
    }

    /// The C object.
    #[inline]
    pub(in crate::kapi) fn as_ptr(&self) -> *mut b::net_device {
        self.0.get()
    }
}
