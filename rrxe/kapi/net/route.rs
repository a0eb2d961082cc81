// SPDX-License-Identifier: GPL-2.0

//! Where packets leave this host.
//!
//! C headers: [`include/net/route.h`](srctree/include/net/route.h),
//! [`include/net/ip6_route.h`](srctree/include/net/ip6_route.h)

use super::{
    address::Addresses,
    headers,
    netdev::NetDevice, //
};
use crate::kapi::bindings as b;
use core::{
    net::Ipv6Addr,
    ptr,
    ptr::NonNull, //
};
use kernel::{
    error::from_err_ptr,
    error::to_result,
    prelude::*,
    sync::rcu, //
};

/// What a route is looked up by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Flow {
    /// Where packets come from and where they go.
    pub(crate) addresses: Addresses,
    /// Number of the device that packets leave by. For an address of this host that only says where
    /// to look first.
    pub(crate) ifindex: u32,
    /// Traffic class (type of service in IPv4).
    pub(crate) traffic_class: u8,
    /// Flow label, 20 bits; in IPv6 only.
    pub(crate) flow_label: u32,
    /// UDP source port, by which one of several equal routes is chosen.
    pub(crate) source_port: u16,
    /// UDP destination port.
    pub(crate) destination_port: u16,
}

/// The version of IP that a route is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Version {
    /// IPv4.
    V4,
    /// IPv6.
    V6,
}

/// A route that was found; right for as long as [`is_current`](Self::is_current) says so.
///
/// # Invariants
///
/// `dst` is a route for `version`, of which this object owns a reference.
pub(crate) struct Route {
    dst: NonNull<b::dst_entry>,
    cookie: u32,
    version: Version,
}

// SAFETY: References to routes may be dropped by any thread.
unsafe impl Send for Route {}

// SAFETY: All methods may be called by several threads at once.
unsafe impl Sync for Route {}

impl Route {
    /// Finds the route that `flow` takes in the namespace of `device`. Process or softirq context.
    ///
    /// `EHOSTUNREACH`, `ENETUNREACH` and others as the network stack gives them.
    pub(crate) fn lookup(device: &NetDevice, flow: &Flow) -> Result<Self> {
        let _guard = rcu::read_lock();
        let net = device.net_rcu();
        let ifindex = i32::try_from(flow.ifindex).map_err(|_| ENODEV)?;
        match flow.addresses {
            Addresses::V4 {
                source,
                destination,
            } => {
                let mut key = b::flowi4::default();
                // SAFETY: The key is valid.
                unsafe {
                    b::helpers::flowi4_init_output(
                        &mut key,
                        ifindex,
                        flow.traffic_class,
                        u32::from(destination).to_be(),
                        u32::from(source).to_be(),
                        flow.destination_port.to_be(),
                        flow.source_port.to_be(),
                    )
                };
                // SAFETY: The namespace is alive in this read section, and the key initialised.
                let route = unsafe { b::ip_route_output_flow(net, &mut key, ptr::null()) };
                // The route begins with what all versions have in common.
                Self::new(from_err_ptr(route)?.cast(), Version::V4)
            }
            Addresses::V6 {
                source,
                destination,
            } => {
                let mut key = b::flowi6::default();
                key.__fl_common.flowic_oif = ifindex;
                key.__fl_common.flowic_proto = headers::PROTOCOL_UDP;
                key.saddr = in6(source);
                key.daddr = in6(destination);
                let label = flow.flow_label.to_be();
                // SAFETY: Only arithmetic.
                key.flowlabel =
                    unsafe { b::helpers::ip6_make_flowinfo(flow.traffic_class.into(), label) };
                key.uli.ports = b::flowi_uli__bindgen_ty_1 {
                    dport: flow.destination_port.to_be(),
                    sport: flow.source_port.to_be(),
                };
                // SAFETY: The namespace is alive in this read section, and the key initialised.
                let route =
                    unsafe { b::ip6_dst_lookup_flow(net, ptr::null(), &mut key, ptr::null()) };
                Self::new(from_err_ptr(route)?, Version::V6)
            }
        }
    }

    /// Takes over the route at `dst`, unless it is one that leads nowhere.
    fn new(dst: *mut b::dst_entry, version: Version) -> Result<Self> {
        let dst = NonNull::new(dst).ok_or(EINVAL)?;
        // INVARIANT: Look-ups give a reference.
        let mut route = Self {
            dst,
            cookie: 0,
            version,
        };
        // SAFETY: The route is valid.
        to_result(unsafe { (*dst.as_ptr()).error }.into())?;
        if version == Version::V6 {
            // SAFETY: The route is one of IPv6.
            route.cookie = unsafe { b::helpers::rt6_get_cookie(dst.as_ptr()) };
        }
        Ok(route)
    }

    /// Whether the network is still such that the look-up would find this. Any context.
    #[inline]
    pub(crate) fn is_current(&self) -> bool {
        let _guard = rcu::read_lock();
        // SAFETY: By the type invariant the route is valid.
        !unsafe { b::helpers::dst_check(self.dst.as_ptr(), self.cookie) }.is_null()
    }

    /// Room that a packet needs in front of its content: for link, IP and UDP headers, in bytes. Any
    /// context.
    pub(crate) fn headroom(&self) -> usize {
        let _guard = rcu::read_lock();
        // SAFETY: By the type invariant the route is valid, and the RCU read lock is held.
        let link = unsafe { b::helpers::dst_headroom(self.dst.as_ptr()) };
        (link as usize).saturating_add(headers::MAX_LEN)
    }

    /// Room that the link needs behind a packet, in bytes. Any context.
    pub(crate) fn tailroom(&self) -> usize {
        let _guard = rcu::read_lock();
        // SAFETY: By the type invariant the route is valid, and the RCU read lock is held.
        unsafe { b::helpers::dst_tailroom(self.dst.as_ptr()) as usize }
    }

    /// The version of IP.
    #[inline]
    pub(super) fn version(&self) -> Version {
        self.version
    }

    /// The C object.
    #[inline]
    pub(super) fn as_ptr(&self) -> *mut b::dst_entry {
        self.dst.as_ptr()
    }
}

impl Clone for Route {
    fn clone(&self) -> Self {
        // SAFETY: By the type invariant the route is valid.
        unsafe { b::helpers::dst_hold(self.dst.as_ptr()) };
        // INVARIANT: The new reference is the clone's.
        Self { ..*self }
    }
}

impl Drop for Route {
    fn drop(&mut self) {
        // SAFETY: By the type invariant we own a reference.
        unsafe { b::dst_release(self.dst.as_ptr()) };
    }
}

/// The route of one flow, looked up when it is needed first and again when the network has changed.
pub(crate) struct RouteCache {
    flow: Flow,
    route: Option<Route>,
}

impl RouteCache {
    /// A cache for `flow`, empty.
    pub(crate) const fn new(flow: Flow) -> Self {
        Self { flow, route: None }
    }

    /// A route that is current, in the namespace of `device`, which must be the same each time.
    /// Process or softirq context. Errors as [`Route::lookup`].
    ///
    /// One to a group is looked up each time: with IPv4 it says whether this host is a member itself,
    /// and does not learn when that changes.
    #[inline]
    pub(crate) fn get(&mut self, device: &NetDevice) -> Result<&Route> {
        let kept = self
            .route
            .take()
            .filter(|route| !self.flow.addresses.is_to_group() && route.is_current());
        let route = match kept {
            Some(route) => route,
            None => Route::lookup(device, &self.flow)?,
        };
        Ok(self.route.insert(route))
    }

    /// Forgets the route, so that nothing of the network is referenced. Any context.
    pub(crate) fn clear(&mut self) {
        self.route = None;
    }
}

/// `address` as C keeps it.
pub(super) fn in6(address: Ipv6Addr) -> b::in6_addr {
    let mut to = b::in6_addr::default();
    to.in6_u.u6_addr8 = address.octets();
    to
}
