// SPDX-License-Identifier: GPL-2.0

//! Making devices (`rdma link add NAME type rrxe netdev NETDEV`), and unmaking them when
//! their netdev goes away. In drop-in mode `type rxe` makes them too.
//!
//! A netdev has one device at most. Any netdev that IP packets can be sent by will do, the
//! loopback device included, but a VLAN: the device of the netdev below has its addresses.

use super::{
    Device,
    Provider, //
};
use crate::{
    datapath::counters::Counter,
    kapi::{
        module,
        net::{
            NetDevice,
            NetDeviceEvents, //
        },
        random,
        rdma::{
            self,
            DeviceSpec,
            LinkOps,
            Registered, //
        },
    },
};
use core::slice;
use kernel::{
    prelude::*,
    str::CStr, //
};

/// The C driver, which has the same driver number and takes our devices for its own.
pub(crate) const RIVAL: &CStr = c"rdma_rxe";

/// The link types: the module's own, and the one of [`RIVAL`].
static TYPES: [LinkOps; 2] = [
    LinkOps::new::<Provider>(c"rrxe"),
    LinkOps::new::<Provider>(c"rxe"),
];

pub(super) fn own_type() -> &'static LinkOps {
    let [own, _] = &TYPES;
    own
}

/// The link types to answer to, by the module parameter `rxe_link_type`. `EINVAL` if that is
/// neither 0 nor 1.
///
/// The second one is to be registered only while [`RIVAL`] is kept out.
pub(crate) fn link_types(rxe_link_type: u8) -> Result<&'static [LinkOps]> {
    match rxe_link_type {
        0 => Ok(slice::from_ref(own_type())),
        1 => Ok(&TYPES),
        _ => Err(EINVAL),
    }
}

/// How devices are made, of whatever link type.
pub(crate) struct Link;

impl rdma::Link<Provider> for Link {
    fn add(name: &CStr, netdev: &NetDevice) -> Result {
        if module::is_loaded(RIVAL, &crate::THIS_MODULE) {
            pr_err!("{}: unload {} first\n", name, RIVAL);
            return Err(EBUSY);
        }
        if netdev.vlan_lower().is_some() {
            pr_err!("{}: a VLAN has no device, use the netdev below\n", name);
            return Err(EPERM);
        }
        let spec = DeviceSpec {
            name,
            description: c"rrxe",
            netdev,
            node_guid: node_guid(netdev.mac()),
            vectors: cpus(),
        };
        rdma::register::<Provider>(&spec, Device::new(name, netdev)?)
    }
}

/// Makes a GUID of an Ethernet address, or of nothing if the netdev has none.
fn node_guid(mac: [u8; 6]) -> [u8; 8] {
    // Bits of the first byte of an address: for a group, and not from a manufacturer's range.
    const GROUP: u8 = 1;
    const LOCAL: u8 = 2;

    let [a, b, c, d, e, f] = if mac == [0; 6] {
        let [first, rest @ ..]: [u8; 6] = random::bytes();
        let [b, c, d, e, f] = rest;
        [(first & !GROUP) | LOCAL, b, c, d, e, f]
    } else {
        mac
    };
    [a ^ LOCAL, b, c, 0xff, 0xfe, d, e, f]
}

/// Completion vectors of a device: one for each CPU there may be.
fn cpus() -> u32 {
    kernel::cpu::nr_cpu_ids()
}

/// What happens to netdevs, as far as it concerns devices.
///
/// The RDMA core itself follows their addresses. A change of their MTU is seen by whoever asks, but
/// one too small for a version of IP ends their memberships, which the next change may let begin again.
pub(crate) struct NetdevWatch;

impl NetDeviceEvents for NetdevWatch {
    fn up(&self, netdev: &NetDevice) {
        report_state(netdev);
        rejoin_groups(netdev);
    }

    fn change_mtu(&self, netdev: &NetDevice) {
        rejoin_groups(netdev);
    }

    fn down(&self, netdev: &NetDevice) {
        if let Some(device) = Registered::<Provider>::find(netdev) {
            device.data().node().counters().count(Counter::LinkDowned);
            device.report_state(netdev);
        }
    }

    fn change(&self, netdev: &NetDevice) {
        report_state(netdev);
    }

    fn unregister(&self, netdev: &NetDevice) {
        if let Some(device) = Registered::<Provider>::find(netdev) {
            device.unregister_queued();
        }
    }
}

fn report_state(netdev: &NetDevice) {
    if let Some(device) = Registered::<Provider>::find(netdev) {
        device.report_state(netdev);
    }
}

fn rejoin_groups(netdev: &NetDevice) {
    if let Some(device) = Registered::<Provider>::find(netdev) {
        device.data().rejoin_groups();
    }
}
