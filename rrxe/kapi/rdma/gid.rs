// SPDX-License-Identifier: GPL-2.0

//! Entries of a port's GID table: the addresses that queue pairs may speak from.
//!
//! The RDMA core keeps the table: it follows the IP addresses of the netdev and of its
//! uppers. A driver only sees the entries that its objects use.

use crate::kapi::{
    bindings as b,
    counted::counted,
    net::NetDevice, //
};
use kernel::{
    error::from_err_ptr,
    prelude::*,
    sync::rcu,
    types::Opaque, //
};

/// An entry of the GID table ([`struct ib_gid_attr`]).
///
/// # Invariants
///
/// The entry is referenced. What is read here does not change while it is.
///
/// [`struct ib_gid_attr`]: srctree/include/rdma/ib_verbs.h
#[repr(transparent)]
pub(crate) struct GidAttr(Opaque<b::ib_gid_attr>);

counted!(
    GidAttr(ib_gid_attr),
    b::rdma_hold_gid_attr,
    b::rdma_put_gid_attr
);

impl GidAttr {
    /// # Safety
    ///
    /// `attr` must be null, or be referenced during `'a`.
    pub(super) unsafe fn from_raw<'a>(attr: *const b::ib_gid_attr) -> Option<&'a Self> {
        // INVARIANT: By the requirements.
        // SAFETY: As above; the type is transparent.
        unsafe { attr.cast::<Self>().as_ref() }
    }

    /// The address: an IPv6 one, or an IPv4 one mapped into IPv6.
    pub(crate) fn gid(&self) -> [u8; 16] {
        // SAFETY: Immutable by the type invariant.
        let gid = unsafe { &(*self.as_ptr()).gid };
        // SAFETY: All bytes of the union are initialized.
        *unsafe { gid.raw.as_ref() }
    }

    /// Number of the netdev that has the address: the device's, or one above it.
    ///
    /// Any context. `ENODEV` if it is gone.
    pub(crate) fn ifindex(&self) -> Result<u32> {
        let _guard = rcu::read_lock();
        // SAFETY: The entry is referenced by the type invariant, and the RCU read lock is held.
        let netdev = from_err_ptr(unsafe { b::rdma_read_gid_attr_ndev_rcu(self.as_ptr()) })?;
        if netdev.is_null() {
            return Err(ENODEV);
        }
        // SAFETY: A netdev that is found under RCU is alive until the read section ends.
        Ok(unsafe { NetDevice::from_raw(netdev) }.ifindex())
    }

    /// Whether packets are sent in UDP (RoCE version 2).
    pub(crate) fn is_udp_encapsulated(&self) -> bool {
        // SAFETY: Immutable by the type invariant.
        let gid_type = unsafe { (*self.as_ptr()).gid_type };
        gid_type == b::ib_gid_type_IB_GID_TYPE_ROCE_UDP_ENCAP
    }
}
