// SPDX-License-Identifier: GPL-2.0

//! RDMA providers: drivers of RDMA devices, below the kernel's RDMA core.
//!
//! A driver names its types in one [`Provider`] and implements one trait for each kind of
//! verbs object: [`QueuePair`], [`CompletionQueue`], [`MemoryRegion`] and so on. Creating
//! an object through verbs makes a value of the driver's type, destroying it drops the
//! value. What the driver gets are the C structures behind typed, checked accessors; what
//! it holds on to (completion and event handles, pinned memory, mappings) is revoked or
//! released by its `Drop`.
//!
//! ```text
//!  uverbs, ULPs -> ib_core -> ops (trampolines) -> impl QueuePair for ... (safe Rust)
//!                                   |
//!                          Object<P, Qp> = struct ib_qp + the driver's value
//! ```
//!
//! # Lifetimes
//!
//! The RDMA core allocates and frees the objects. It makes sure that an object outlives
//! what was created from it (a PD its regions, a CQ its queue pairs, the device
//! everything) and that no call on an object runs beside its destroy operation, but it
//! does call the other operations of one object concurrently.
//!
//! C header: [`include/rdma/ib_verbs.h`](srctree/include/rdma/ib_verbs.h)

mod ah;
mod chunks;
mod counter;
mod cq;
mod cq_notify;
mod detail;
mod device;
mod direct;
mod event;
mod gid;
mod implicit;
mod link;
mod mad;
mod mmap;
mod mr;
mod mw;
mod object;
mod ops;
mod page_list;
mod paged;
mod pager;
mod pd;
mod port;
mod provider;
mod qp;
mod qp_attr;
mod registry;
mod srq;
mod stats;
mod ucontext;
mod udata;
mod umem;
mod wc;
mod wr;

pub(crate) use self::{
    ah::{
        AddressHandle,
        AhAttr,
        RocePath, //
    },
    chunks::Chunks,
    cq::{
        CompletionQueue,
        CqInit,
        Moment, //
    },
    cq_notify::CqNotify,
    detail::Details,
    device::{
        Device,
        DeviceAttr,
        DeviceCaps,
        IbDevice,
        PagingCaps,
        ProviderDevice, //
    },
    direct::DirectMap,
    event::{
        CqEvent,
        CqEvents,
        QpEvent,
        QpEvents,
        QpObject,
        SrqEvent,
        SrqEvents, //
    },
    implicit::ImplicitUmem,
    link::{
        Link,
        LinkOps,
        LinkRegistration, //
    },
    mad::Mad,
    mmap::Mappable,
    mr::{
        Advice,
        BufferRegion,
        LocalRange,
        MemoryRegion,
        Reregistration,
        UserRange,
        UserRegion, //
    },
    mw::{
        MemoryWindow,
        MwType, //
    },
    object::Pd,
    page_list::{
        PageList,
        SgList, //
    },
    paged::{
        Demand,
        MissingPage,
        PagedUmem, //
    },
    pager::Pagers,
    pd::ProtectionDomain,
    port::{
        CoreCaps,
        PortLimits,
        Violations, //
    },
    provider::{
        Provider,
        DRIVER_RXE, //
    },
    qp::{
        QpCaps,
        QpInit,
        QpType,
        QueuePair, //
    },
    qp_attr::{
        QpAttr,
        QpModify, //
    },
    registry::{
        register,
        DeviceSpec,
        Registered, //
    },
    srq::{
        SharedReceiveQueue,
        SrqCaps,
        SrqModify, //
    },
    stats::StatDesc,
    ucontext::UserContext,
    udata::Udata,
    umem::Umem,
    wc::{
        Completion,
        CompletionExtra,
        CompletionPlace,
        CompletionSource, //
    },
    wr::{
        Operands,
        ReceiveList,
        ReceiveRequest,
        SendList,
        SendRequest,
        WorkSge, //
    },
};
