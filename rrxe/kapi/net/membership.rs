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
use core::{
    net::Ipv6Addr,
    ptr::NonNull, //
};
use kernel::{
    error::from_err_ptr,
    prelude::*, //
};

/// The membership of a network device in a multicast group: its routers and switches are told, and it
/// takes packets to the group. Counted with those that others have. Ends with the drop.
///
/// The device loses it when it stops to speak the group's version of IP, as it does when its MTU becomes
/// too small for that; then it has to be [renewed](Self::renew).
pub(crate) struct Membership {
    group: Ipv6Addr,
    joined: Joined,
}

/// What a device has that has joined: its configuration of a version of IP.
///
/// # Invariants
///
/// The pointer is valid, and comes with a reference that belongs to this object.
enum Joined {
    V4(NonNull<b::in_device>),
    V6(NonNull<b::inet6_dev>),
}

// SAFETY: Any thread may use the C objects and put the reference.
unsafe impl Send for Joined {}

// SAFETY: The C objects are used under the RTNL lock.
unsafe impl Sync for Joined {}

impl Membership {
    /// Joins `device` to `group`: one of IPv4 if the address is mapped. Process context; takes the RTNL
    /// lock.
    ///
    /// # Errors
    ///
    /// `ENODEV` if the device does not speak that version of IP, `ENOMEM`.
    pub(crate) fn join(device: &NetDevice, group: Ipv6Addr) -> Result<Self> {
        let device = device.as_ptr();
        // INVARIANT: Both functions give a reference.
        let joined = match group.to_ipv4_mapped() {
            Some(group) => {
                // SAFETY: The device is alive.
                let joined = unsafe { b::helpers::ip_mc_join(device, u32::from(group).to_be()) };
                Joined::V4(NonNull::new(from_err_ptr(joined)?).ok_or(ENODEV)?)
            }
            None => {
                // SAFETY: The device is alive, and the address is valid.
                let joined = unsafe { b::helpers::ipv6_mc_join(device, &in6(group)) };
                Joined::V6(NonNull::new(from_err_ptr(joined)?).ok_or(ENODEV)?)
            }
        };
        Ok(Self { group, joined })
    }

    /// Joins `device`, the same as before, once more if it has lost the membership. Process context;
    /// takes the RTNL lock. Errors as for [`join`](Self::join).
    pub(crate) fn renew(&mut self, device: &NetDevice) -> Result {
        if !self.joined.is_current(device) {
            *self = Self::join(device, self.group)?;
        }
        Ok(())
    }
}

impl Joined {
    /// Whether `device` still has what has joined.
    fn is_current(&self, device: &NetDevice) -> bool {
        let device = device.as_ptr();
        match self {
            // SAFETY: The device is alive. The other pointer is only compared: as long as there is a
            // reference nothing else has the same address.
            Self::V4(joined) => unsafe { b::helpers::ip_mc_is_current(device, joined.as_ptr()) },
            // SAFETY: As above.
            Self::V6(joined) => unsafe { b::helpers::ipv6_mc_is_current(device, joined.as_ptr()) },
        }
    }
}

impl Drop for Membership {
    /// Process context; takes the RTNL lock.
    fn drop(&mut self) {
        match self.joined {
            Joined::V4(joined) => {
                // A device of IPv4 has joined groups of IPv4 only.
                let group = self.group.to_ipv4_mapped().map_or(0, u32::from);
                // SAFETY: Valid by the type invariants; the reference is given up.
                unsafe { b::helpers::ip_mc_leave(joined.as_ptr(), group.to_be()) };
            }
            // SAFETY: As above, and the address is valid.
            Joined::V6(joined) => unsafe {
                b::helpers::ipv6_mc_leave(joined.as_ptr(), &in6(self.group))
            },
        }
    }
}
