// SPDX-License-Identifier: GPL-2.0

//! The types that make up one RDMA driver.

use super::{
    AddressHandle,
    CompletionQueue,
    Link,
    LinkOps,
    MemoryRegion,
    MemoryWindow,
    ProtectionDomain,
    ProviderDevice,
    QueuePair,
    SharedReceiveQueue,
    UserContext, //
};
use crate::kapi::bindings as b;
use kernel::ThisModule;

/// [`Provider::DRIVER_ID`] of soft RoCE version 2.
pub(crate) const DRIVER_RXE: u32 = b::rdma_driver_id_RDMA_DRIVER_RXE;

/// One RDMA driver: what stands behind each kind of verbs object.
///
/// A value of an object's type lives from the return of its create operation to its destroy
/// operation. The RDMA core calls operations of one object from several contexts at once.
pub(crate) trait Provider: Sized + Send + Sync + 'static {
    /// Kernel-wide number of the driver ([`enum rdma_driver_id`]), by which user space finds
    /// its library.
    ///
    /// [`enum rdma_driver_id`]: srctree/include/uapi/rdma/ib_user_ioctl_verbs.h
    const DRIVER_ID: u32;
    /// Version of the driver's part of the user space interface.
    const ABI_VERSION: u32;

    /// The device.
    type Device: ProviderDevice<Self>;
    /// An open device file of a user process.
    type Context: UserContext<Self>;
    /// A protection domain.
    type Pd: ProtectionDomain<Self>;
    /// An address handle.
    type Ah: AddressHandle<Self>;
    /// A completion queue.
    type Cq: CompletionQueue<Self>;
    /// A shared receive queue.
    type Srq: SharedReceiveQueue<Self>;
    /// A queue pair.
    type Qp: QueuePair<Self>;
    /// A memory region.
    type Mr: MemoryRegion<Self>;
    /// A memory window.
    type Mw: MemoryWindow<Self>;
    /// How `rdma link add` makes a device.
    type Link: Link<Self>;

    /// The module that holds the driver.
    fn module() -> &'static ThisModule;

    /// The driver's link type.
    fn link_ops() -> &'static LinkOps;
}
