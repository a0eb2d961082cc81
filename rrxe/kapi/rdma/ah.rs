// SPDX-License-Identifier: GPL-2.0

//! Address handles, and the address vectors they are made of.

use super::{
    gid::GidAttr,
    object::{
        Ah,
        Pd, //
    },
    Provider,
    Udata, //
};
use crate::kapi::bindings as b;
use kernel::{
    alloc::Flags,
    error::from_result,
    prelude::*, //
};

/// An address vector ([`struct rdma_ah_attr`]): a path through the network.
///
/// [`struct rdma_ah_attr`]: srctree/include/rdma/ib_verbs.h
#[repr(transparent)]
pub(crate) struct AhAttr(b::rdma_ah_attr);

impl AhAttr {
    pub(super) fn from_ref(attr: &b::rdma_ah_attr) -> &Self {
        // SAFETY: The type is transparent.
        unsafe { &*core::ptr::from_ref(attr).cast() }
    }

    pub(super) fn from_mut(attr: &mut b::rdma_ah_attr) -> &mut Self {
        // SAFETY: The type is transparent.
        unsafe { &mut *core::ptr::from_mut(attr).cast() }
    }

    /// Number of the port.
    pub(crate) fn port(&self) -> u32 {
        self.0.port_num
    }

    /// Service level, 4 bits.
    pub(crate) fn service_level(&self) -> u8 {
        self.0.sl
    }

    /// Address of the destination.
    pub(crate) fn dgid(&self) -> [u8; 16] {
        // SAFETY: All bytes of the union are initialized in either form.
        unsafe { *self.0.grh.dgid.raw.as_ref() }
    }

    /// Index of the source address in the port's table.
    pub(crate) fn sgid_index(&self) -> u8 {
        self.0.grh.sgid_index
    }

    /// The source address, if the core has looked it up.
    ///
    /// It has in `create_ah` and `modify_qp`. The entry is held for as long as the
    /// reference lives.
    pub(crate) fn source(&self) -> Option<&GidAttr> {
        // SAFETY: Null, or an entry that the core holds during the operation this is part of.
        unsafe { GidAttr::from_raw(self.0.grh.sgid_attr) }
    }

    /// Flow label, 20 bits.
    pub(crate) fn flow_label(&self) -> u32 {
        self.0.grh.flow_label
    }

    /// Hop limit, or time to live.
    pub(crate) fn hop_limit(&self) -> u8 {
        self.0.grh.hop_limit
    }

    /// Traffic class, or type of service.
    pub(crate) fn traffic_class(&self) -> u8 {
        self.0.grh.traffic_class
    }

    /// Ethernet address of the next hop, if this is an Ethernet path.
    pub(crate) fn dmac(&self) -> Option<[u8; 6]> {
        (self.0.type_ == b::rdma_ah_attr_type_RDMA_AH_ATTR_TYPE_ROCE)
            // SAFETY: The type says that this is the valid member.
            .then(|| unsafe { self.0.__bindgen_anon_1.roce.as_ref() }.dmac)
    }

    /// Fills in an Ethernet path. `traffic_class` and `flow_label` may be 0.
    pub(crate) fn set_roce(&mut self, path: &RocePath) {
        let attr = &mut self.0;
        attr.type_ = b::rdma_ah_attr_type_RDMA_AH_ATTR_TYPE_ROCE;
        attr.ah_flags = b::ib_ah_flags_IB_AH_GRH as u8;
        attr.port_num = path.port;
        attr.sl = path.service_level;
        // SAFETY: Any bytes are a GID.
        unsafe { *attr.grh.dgid.raw.as_mut() = path.dgid };
        attr.grh.sgid_index = path.sgid_index;
        attr.grh.flow_label = path.flow_label;
        attr.grh.hop_limit = path.hop_limit;
        attr.grh.traffic_class = path.traffic_class;
        // SAFETY: Any bytes are an Ethernet address.
        unsafe { attr.__bindgen_anon_1.roce.as_mut() }.dmac = path.dmac;
    }
}

/// The members of an Ethernet path.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RocePath {
    /// Number of the port.
    pub(crate) port: u32,
    /// Service level, 4 bits.
    pub(crate) service_level: u8,
    /// Address of the destination.
    pub(crate) dgid: [u8; 16],
    /// Index of the source address in the port's table.
    pub(crate) sgid_index: u8,
    /// Flow label, 20 bits.
    pub(crate) flow_label: u32,
    /// Hop limit, or time to live.
    pub(crate) hop_limit: u8,
    /// Traffic class, or type of service.
    pub(crate) traffic_class: u8,
    /// Ethernet address of the next hop.
    pub(crate) dmac: [u8; 6],
}

impl RocePath {
    /// Reads an Ethernet path; `EINVAL` if it is another one.
    pub(crate) fn read(attr: &AhAttr) -> Result<Self> {
        Ok(Self {
            port: attr.port(),
            service_level: attr.service_level(),
            dgid: attr.dgid(),
            sgid_index: attr.sgid_index(),
            flow_label: attr.flow_label(),
            hop_limit: attr.hop_limit(),
            traffic_class: attr.traffic_class(),
            dmac: attr.dmac().ok_or(EINVAL)?,
        })
    }
}

/// The driver's part of an address handle.
pub(crate) trait AddressHandle<P: Provider<Ah = Self>>: Sized + Send + Sync {
    /// Makes an address handle. `udata` is `None` for a user inside the kernel.
    ///
    /// Sleeps if `flags` allow it; any context otherwise.
    fn create(
        pd: &Pd<P>,
        attr: &AhAttr,
        flags: Flags,
        udata: Option<&mut Udata<'_>>,
    ) -> Result<Self>;

    /// Changes where it leads, or nothing if it fails. Process or softirq context.
    fn modify(&self, attr: &AhAttr) -> Result;

    /// Reports where it leads. Process or softirq context.
    fn query(&self, attr: &mut AhAttr) -> Result;

    /// Ends it; no request that names it is left. Any context.
    fn destroy(self) {}
}

/// The operations `create_ah` and `create_user_ah`.
///
/// # Safety
///
/// To be called by the RDMA core, as [`ops`](super::ops) says.
pub(super) unsafe extern "C" fn create<P: Provider>(
    ah: *mut b::ib_ah,
    init: *mut b::rdma_ah_init_attr,
    udata: *mut b::ib_udata,
) -> c_int {
    // SAFETY: The core passes a valid structure that it does not touch meanwhile.
    let init = unsafe { &*init };
    // SAFETY: As above.
    let attr = AhAttr::from_ref(unsafe { &*init.ah_attr });
    let flags = if init.flags & b::rdma_create_ah_flags_RDMA_CREATE_AH_SLEEPABLE != 0 {
        GFP_KERNEL_ACCOUNT
    } else {
        GFP_ATOMIC
    };
    let make = |pd: &Pd<P>, mut udata: Option<Udata<'_>>| {
        Ok((P::Ah::create(pd, attr, flags, udata.as_mut())?, ()))
    };
    // SAFETY: This is the create operation.
    unsafe { Ah::<P>::create(ah, udata, make) }
}

/// The operation `modify_ah`.
///
/// # Safety
///
/// To be called by the RDMA core, as [`ops`](super::ops) says.
pub(super) unsafe extern "C" fn modify<P: Provider>(
    ah: *mut b::ib_ah,
    attr: *mut b::rdma_ah_attr,
) -> c_int {
    from_result(|| {
        // SAFETY: The core passes a live handle.
        let ah = unsafe { Ah::<P>::from_raw(ah) };
        // SAFETY: The core passes a valid structure that it does not touch meanwhile.
        ah.modify(AhAttr::from_ref(unsafe { &*attr }))?;
        Ok(0)
    })
}

/// The operation `query_ah`.
///
/// # Safety
///
/// To be called by the RDMA core, as [`ops`](super::ops) says.
pub(super) unsafe extern "C" fn query<P: Provider>(
    ah: *mut b::ib_ah,
    attr: *mut b::rdma_ah_attr,
) -> c_int {
    from_result(|| {
        // SAFETY: The core passes a live handle.
        let ah = unsafe { Ah::<P>::from_raw(ah) };
        // SAFETY: The caller passes a place for a structure. Zeroes are one.
        unsafe { attr.write_bytes(0, 1) };
        // SAFETY: As above; it is no one else's meanwhile.
        ah.query(AhAttr::from_mut(unsafe { &mut *attr }))?;
        Ok(0)
    })
}

/// The operation `destroy_ah`.
///
/// # Safety
///
/// To be called by the RDMA core, as [`ops`](super::ops) says.
pub(super) unsafe extern "C" fn destroy<P: Provider>(ah: *mut b::ib_ah, _flags: u32) -> c_int {
    // SAFETY: This is the destroy operation.
    unsafe { Ah::<P>::destroy(ah, P::Ah::destroy) };
    0
}
