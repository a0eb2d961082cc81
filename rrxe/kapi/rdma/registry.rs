// SPDX-License-Identifier: GPL-2.0

//! Registering devices, finding them again by their netdev, and unregistering them.
//!
//! Devices go away in several ways: by `rdma link delete`, with their netdev, and with the
//! module. All end in the core's unregistration, which calls the driver's operations and may
//! run in one of the core's own threads. So that the module's code is not gone before it has
//! returned, the module keeps a reference of each device it has made. Unregistering a device
//! a second time does nothing but wait for the first; that is done for all of them before the
//! module goes.
//!
//! (The core offers `ib_unregister_driver()` for this. It takes the devices of all modules
//! that have the same driver number, so it is not for a module that shares one.)
//!
//! # Locking
//!
//! `DEVICES` is taken with the core's lock of link types, `link_ops_rwsem`, held for reading (by
//! `newlink`) or with none. Under it come the locks that the core takes to register a device and to wait for the end
//! of an unregistration: that of the device, those of its lists, RTNL. So no one who holds RTNL may
//! take it, as notifiers of netdevs do, nor may operations of devices.

use super::{
    device::{
        Device,
        IbDevice, //
    },
    ops,
    port,
    Provider, //
};
use crate::kapi::{
    bindings as b,
    net::{
        netdev::NetDevice,
        netns::Net, //
    },
};
use core::{
    marker::PhantomData,
    mem,
    ops::Deref,
    ptr::NonNull, //
};
use kernel::{
    error::to_result,
    global_lock,
    prelude::*,
    str::CStr,
    sync::{
        aref::ARef,
        Arc,
        GlobalGuard,
        SetOnce, //
    },
};

global_lock! {
    // SAFETY: Only used by `init` and by `devices`, which makes sure that `init` has been there.
    unsafe(uninit) static DEVICES: Mutex<KVec<ARef<IbDevice>>> = KVec::new();
}

/// Set when `DEVICES` is initialized.
static READY: SetOnce<()> = SetOnce::new();

/// Makes the list of devices usable. `EBUSY` if that has been done before.
pub(super) fn init() -> Result {
    static CLAIMED: SetOnce<()> = SetOnce::new();

    if !CLAIMED.populate(()) {
        return Err(EBUSY);
    }
    // SAFETY: Only one caller gets here, once.
    unsafe { DEVICES.init() };
    READY.populate(());
    Ok(())
}

/// Locks the list of devices. `ENODEV` before [`init`].
fn devices() -> Result<GlobalGuard<DEVICES>> {
    READY.as_ref().ok_or(ENODEV)?;
    Ok(DEVICES.lock())
}

/// Who a new device is.
pub(crate) struct DeviceSpec<'a> {
    /// Name of the device.
    pub(crate) name: &'a CStr,
    /// What it is, for people; 63 bytes of it are used.
    pub(crate) description: &'a CStr,
    /// The netdev to run on.
    pub(crate) netdev: &'a NetDevice,
    /// Number that no other device has, in network byte order.
    pub(crate) node_guid: [u8; 8],
    /// Completion vectors.
    pub(crate) vectors: u32,
}

/// Makes a device and registers it with the RDMA core.
///
/// It belongs to the network namespace of its netdev, or, if the system has its namespaces
/// share RDMA devices, to all. From now on it may go away at any time.
///
/// Fails with `EEXIST` if the netdev has a device of the same driver number already, with
/// `ENODEV` if the netdev is on its way out or to another namespace, and as the core does.
pub(crate) fn register<P: Provider>(spec: &DeviceSpec<'_>, data: Arc<P::Device>) -> Result {
    let net = spec.netdev.net().ok_or(ENODEV)?;
    let mut devices = devices()?;
    forget_unregistered(&mut devices);
    if find(spec.netdev, P::DRIVER_ID).is_some() {
        return Err(EEXIST);
    }
    devices.reserve(1, GFP_KERNEL)?;

    let device = Unregistered::<P>::new(spec, &net, data)?.register(spec.name)?;
    devices.push(device.clone(), GFP_KERNEL)?;
    drop(devices);

    // If it was announced that the netdev goes, or leaves its namespace, before the device was
    // there to be found by it, no one will tell us any more.
    if !spec.netdev.is_settled_in(&net) {
        unregister(&device);
        return Err(ENODEV);
    }
    Ok(())
}

/// Unregisters all devices, and waits until no operation of any runs any more.
///
/// No device may be registered beside this or after it.
pub(super) fn unregister_all() {
    // Without a list there are no devices.
    if let Ok(mut devices) = devices() {
        let last = mem::take(&mut *devices);
        drop(devices);
        last.iter().for_each(|device| unregister(device));
    }
}

/// Unregisters `device` if it is registered, and waits until it is not.
fn unregister(device: &IbDevice) {
    device.leave();
    // SAFETY: The device was registered once, and is referenced.
    unsafe { b::ib_unregister_device(device.as_raw()) };
}

/// Takes the devices off the list that have gone away since.
fn forget_unregistered(devices: &mut KVec<ARef<IbDevice>>) {
    devices.retain(|device| {
        let gone = device.is_gone();
        if gone {
            // Its last operation may not have returned yet.
            unregister(device);
        }
        !gone
    });
}

/// A device whose registration is held: it cannot be unregistered meanwhile.
struct Hold(NonNull<b::ib_device>);

impl Drop for Hold {
    fn drop(&mut self) {
        // SAFETY: The hold was taken by `find`.
        unsafe { b::ib_device_put(self.0.as_ptr()) };
    }
}

/// Finds the device of driver number `driver` on `netdev`.
fn find(netdev: &NetDevice, driver: u32) -> Option<Hold> {
    // SAFETY: The netdev is referenced.
    NonNull::new(unsafe { b::ib_device_get_by_netdev(netdev.as_ptr(), driver) }).map(Hold)
}

/// A registered device of `P`. While this exists its unregistration has to wait.
pub(crate) struct Registered<P: Provider> {
    hold: Hold,
    _provider: PhantomData<P>,
}

impl<P: Provider> Registered<P> {
    /// Finds the device on `netdev`. Any context.
    pub(crate) fn find(netdev: &NetDevice) -> Option<Self> {
        let hold = find(netdev, P::DRIVER_ID)?;
        // SAFETY: The device is registered, its operations do not change.
        let owner = unsafe { (*hold.0.as_ptr()).ops.owner };
        // Another module may use the same number.
        (owner == P::module().as_ptr()).then_some(Self {
            hold,
            _provider: PhantomData,
        })
    }

    /// Tells the users of the device if its port has come up or gone down.
    ///
    /// For a `netdev` that is the port's. The core does so by itself unless the netdev is a
    /// bond or part of one; it tells of no state twice. Process context.
    pub(crate) fn report_state(&self, netdev: &NetDevice) {
        // SAFETY: The device is registered, and the netdev is referenced.
        unsafe { b::ib_dispatch_port_state_event(self.as_raw(), netdev.as_ptr()) };
    }

    /// Unregisters the device from a thread of the core's, soon.
    ///
    /// For callers that hold locks which the unregistration takes, as that of the netdevs.
    pub(crate) fn unregister_queued(self) {
        self.leave();
        // SAFETY: The device is registered.
        unsafe { b::ib_unregister_device_queued(self.hold.0.as_ptr()) };
    }
}

impl<P: Provider> Deref for Registered<P> {
    type Target = Device<P>;

    fn deref(&self) -> &Device<P> {
        // SAFETY: The device belongs to the module of `P`, and is registered.
        unsafe { Device::from_raw(self.hold.0.as_ptr()) }
    }
}

/// A device that is being made.
///
/// # Invariants
///
/// Points to a device of `P` with its data and operations, which is not registered.
struct Unregistered<P: Provider> {
    ib: NonNull<b::ib_device>,
    _provider: PhantomData<P>,
}

impl<P: Provider> Unregistered<P> {
    fn new(spec: &DeviceSpec<'_>, net: &Net, data: Arc<P::Device>) -> Result<Self> {
        // SAFETY: A `Device<P>` starts with an `ib_device`.
        let ib = unsafe { b::_ib_alloc_device(size_of::<Device<P>>(), net.as_ptr()) };
        let ib = NonNull::new(ib).ok_or(ENOMEM)?;
        // SAFETY: The device is new.
        unsafe { Device::<P>::init(ib.as_ptr(), data) };
        // SAFETY: As above; the table lives as long as the module.
        unsafe { b::ib_set_device_ops(ib.as_ptr(), ops::table::<P>()) };
        // INVARIANT: It has its data and operations now.
        let this = Self {
            ib,
            _provider: PhantomData,
        };
        this.describe(spec)?;
        // SAFETY: The device is new, and the netdev is referenced.
        to_result(unsafe {
            b::ib_device_set_netdev(ib.as_ptr(), spec.netdev.as_ptr(), port::NUMBER)
        })?;
        Ok(this)
    }

    fn describe(&self, spec: &DeviceSpec<'_>) -> Result {
        // SAFETY: The device is new, so that no one else uses it.
        let ib = unsafe { &mut *self.ib.as_ptr() };
        ib.ops.owner = P::module().as_ptr();
        ib.link_ops = P::link_ops().as_raw();
        ib.node_type = b::RDMA_NODE_IB_CA as u8;
        ib.phys_port_cnt = port::NUMBER;
        ib.num_comp_vectors = c_int::try_from(spec.vectors)?;
        ib.node_guid = u64::from_ne_bytes(spec.node_guid);
        ib.uverbs_cmd_mask |= 1 << b::ib_uverbs_write_cmds_IB_USER_VERBS_CMD_POST_SEND
            | 1 << b::ib_uverbs_write_cmds_IB_USER_VERBS_CMD_REQ_NOTIFY_CQ;
        let room = ib.node_desc.len().saturating_sub(1);
        for (to, from) in ib
            .node_desc
            .iter_mut()
            .take(room)
            .zip(spec.description.to_bytes())
        {
            *to = *from;
        }
        // SAFETY: As above.
        unsafe { b::helpers::ib_mark_name_assigned_by_user(self.ib.as_ptr()) };
        Ok(())
    }

    /// Registers the device; it lives by itself then.
    fn register(self, name: &CStr) -> Result<ARef<IbDevice>> {
        // SAFETY: The device is alive.
        let device = ARef::from(unsafe { IbDevice::from_raw(self.ib.as_ptr()) });
        // SAFETY: The device is complete. Without a DMA device, addresses are the kernel's.
        to_result(unsafe {
            b::ib_register_device(self.ib.as_ptr(), name.as_char_ptr(), core::ptr::null_mut())
        })?;
        mem::forget(self);
        Ok(device)
    }
}

impl<P: Provider> Drop for Unregistered<P> {
    fn drop(&mut self) {
        // SAFETY: Not registered by the type invariant. This calls `dealloc_driver()`.
        unsafe { b::ib_dealloc_device(self.ib.as_ptr()) };
    }
}
