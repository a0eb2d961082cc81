// SPDX-License-Identifier: GPL-2.0

//! Being told what happens to network devices.
//!
//! C header: [`include/linux/notifier.h`](srctree/include/linux/notifier.h)

use super::netdev::NetDevice;
use crate::kapi::{
    bindings as b,
    callback::{
        notifier_block,
        Callback, //
    },
};
use kernel::{
    error::to_result,
    ffi::*,
    prelude::*, //
};

/// What to do when something happens to a network device, of any namespace.
///
/// All methods are called in process context with the RTNL lock held, and may sleep. They must not
/// register or unregister a [`Notifier`].
pub(crate) trait NetDeviceEvents: Send + Sync + 'static {
    /// The device goes away, or to another namespace; give up every reference to it soon.
    ///
    /// May come more than once for one device while references are left.
    fn unregister(&self, _device: &NetDevice) {}

    /// The device has been brought up.
    fn up(&self, _device: &NetDevice) {}

    /// The device has been brought down.
    fn down(&self, _device: &NetDevice) {}

    /// The device has gained or lost its link, or another of its states has changed.
    fn change(&self, _device: &NetDevice) {}

    /// The device's MTU has changed.
    fn change_mtu(&self, _device: &NetDevice) {}

    /// The device's hardware address has changed.
    fn change_address(&self, _device: &NetDevice) {}

    /// The device's name has changed.
    fn change_name(&self, _device: &NetDevice) {}
}

/// A registered receiver of network device events.
///
/// From its creation on, and during it for devices that are up already, `T` is called. When it is
/// dropped, `T` is told once more that each device goes down and away; the drop waits for calls that
/// go on.
///
/// # Invariants
///
/// `block` has a registered block, with [`Notifier::<T>::call`].
#[pin_data(PinnedDrop)]
pub(crate) struct Notifier<T: NetDeviceEvents> {
    #[pin]
    block: Callback<b::notifier_block, T>,
}

impl<T: NetDeviceEvents> Notifier<T> {
    /// Registers `target`; process context, sleeps, without the RTNL lock.
    pub(crate) fn new(target: T) -> impl PinInit<Self, Error> {
        let block = notifier_block(Self::call, |block| {
            // SAFETY: The block is initialised, pinned, and unregistered before it is dropped.
            to_result(unsafe { b::register_netdevice_notifier(block) })
        });
        // INVARIANT: The block is registered when this has succeeded.
        try_pin_init!(Self {
            block <- Callback::new(target, block),
        })
    }

    /// The callback of the C notifier.
    ///
    /// # Safety
    ///
    /// To be called for the C block of a [`Notifier`] of this type, with information on a device.
    unsafe extern "C" fn call(
        block: *mut b::notifier_block,
        event: c_ulong,
        info: *mut c_void,
    ) -> c_int {
        // SAFETY: By the type invariant the C block is that of a `Callback` of this type.
        // Unregistering waits for this call.
        let target = unsafe { Callback::<_, T>::target(block) };
        // SAFETY: The argument of a network device notifier is this structure.
        let device = unsafe { b::helpers::netdev_notifier_info_to_dev(info.cast()) };
        // SAFETY: The device is alive for the length of the call, under the RTNL lock.
        let device = unsafe { NetDevice::from_raw(device) };

        match u32::try_from(event) {
            Ok(b::netdev_cmd_NETDEV_UNREGISTER) => target.unregister(device),
            Ok(b::netdev_cmd_NETDEV_UP) => target.up(device),
            Ok(b::netdev_cmd_NETDEV_DOWN) => target.down(device),
            Ok(b::netdev_cmd_NETDEV_CHANGE) => target.change(device),
            Ok(b::netdev_cmd_NETDEV_CHANGEMTU) => target.change_mtu(device),
            Ok(b::netdev_cmd_NETDEV_CHANGEADDR) => target.change_address(device),
            Ok(b::netdev_cmd_NETDEV_CHANGENAME) => target.change_name(device),
            _ => {}
        }
        // Nobody may veto what has happened.
        b::NOTIFY_DONE as c_int
    }
}

#[pinned_drop]
impl<T: NetDeviceEvents> PinnedDrop for Notifier<T> {
    /// Process context, sleeps, without the RTNL lock.
    fn drop(self: Pin<&mut Self>) {
        // SAFETY: By the type invariant the block is registered.
        unsafe { b::unregister_netdevice_notifier(self.block.raw()) };
    }
}
