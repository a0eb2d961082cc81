// SPDX-License-Identifier: GPL-2.0

//! Membership in multicast groups.
//!
//! C headers: [`include/linux/igmp.h`](srctree/include/linux/igmp.h),
//! [`include/net/addrconf.h`](srctree/include/net/addrconf.h)

use super::{
    netdev::NetDevice,
    route::in6, //
};
use crate::kapi::bindings as b;
use core::net::Ipv6Addr;
use kernel::{
    error::to_result,
    prelude::*,
    sync::aref::ARef, //
};

/// The membership of a network device in a multicast group: its routers and switches are told, and it
/// takes packets to the group. Counted with those that others have. Ends with the drop.
pub(crate) struct Membership {
    device: ARef<NetDevice>,
    group: Ipv6Addr,
}

impl Membership {
    /// Joins `device` to `group`: one of IPv4 if the address is mapped. Process context; takes the RTNL
    /// lock.
    ///
    /// # Errors
    ///
    /// `ENODEV` or `EINVAL` if the device does not speak that version of IP, `ENOMEM`.
    pub(crate) fn join(device: &NetDevice, group: Ipv6Addr) -> Result<Self> {
        let error = match group.to_ipv4_mapped() {
            // SAFETY: The device is alive.
            Some(group) => unsafe {
                b::helpers::ip_mc_join(device.as_ptr(), u32::from(group).to_be())
            },
            // SAFETY: As above, and the address is valid.
            None => unsafe { b::ipv6_dev_mc_inc(device.as_ptr(), &in6(group)) },
        };
        to_result(error)?;
        Ok(Self {
            device: device.into(),
            group,
        })
    }
}

impl Drop for Membership {
    /// Process context; takes the RTNL lock.
    fn drop(&mut self) {
        let device = self.device.as_ptr();
        // What the device has lost by itself, with its addresses say, need not be given up.
        match self.group.to_ipv4_mapped() {
            // SAFETY: The device is alive.
            Some(group) => unsafe { b::helpers::ip_mc_leave(device, u32::from(group).to_be()) },
            None => {
                // SAFETY: As above, and the address is valid.
                unsafe { b::ipv6_dev_mc_dec(device, &in6(self.group)) };
            }
        }
    }
}
