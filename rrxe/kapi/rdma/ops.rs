// SPDX-License-Identifier: GPL-2.0

//! The table of operations through which the RDMA core calls a provider.
//!
//! Its entries are the trampolines of the files named for the objects.
//!
//! # Safety
//!
//! They are to be called by the RDMA core only, for a device that has this table, as the
//! documentation of [`struct ib_device_ops`] and the core's own use of it have it. They rely on
//! this in particular:
//!
//! - Arguments are valid during the call. Structures to be filled in, and those of an object that
//!   is being made, are no one else's meanwhile. `udata` is null if the caller is in the kernel.
//! - The members of an object that say what it belongs to are set before the operation that makes
//!   it. All of that was made by operations of this table, and outlives the object.
//! - The operation that makes an object is called once, with the size of memory that the table
//!   says, before all others of the object; the one that destroys it once, after all others have
//!   returned, and only if it was made. All others may run beside one another.
//!
//! Operations that are left out make the core refuse the corresponding verb with
//! `EOPNOTSUPP`. `poll_cq`, `post_recv` and `get_dma_mr` are for clients inside the kernel, which
//! are not told of a device that lacks one of them. User space may call these two and `post_srq_recv` as well: by
//! commands of the RDMA core that the user library does not use.
//!
//! [`struct ib_device_ops`]: srctree/include/rdma/ib_verbs.h

use super::{
    ah,
    counter,
    cq,
    detail,
    device,
    mad,
    mmap,
    mr,
    mw,
    object::{
        Ah,
        Context,
        Cq,
        Mw,
        Pd,
        Qp,
        Srq, //
    },
    pd,
    port,
    qp,
    srq,
    stats,
    ucontext,
    Provider, //
};
use crate::kapi::bindings as b;
use core::marker::PhantomData;

struct Table<P>(PhantomData<P>);

impl<P: Provider> Table<P> {
    const OPS: b::ib_device_ops = b::ib_device_ops {
        driver_id: P::DRIVER_ID,
        uverbs_abi_ver: P::ABI_VERSION,

        query_device: Some(device::query::<P>),
        dealloc_driver: Some(device::dealloc::<P>),

        query_port: Some(port::query::<P>),
        query_port_speed: Some(port::query_speed::<P>),
        get_port_immutable: Some(port::immutable::<P>),
        get_link_layer: Some(port::link_layer),
        query_pkey: Some(port::query_pkey::<P>),

        alloc_hw_port_stats: Some(stats::alloc::<P>),
        get_hw_stats: Some(stats::get::<P>),

        fill_res_qp_entry: Some(detail::qp::<P>),
        fill_res_cq_entry: Some(detail::cq::<P>),
        fill_res_srq_entry: Some(detail::srq::<P>),
        fill_res_mr_entry: Some(detail::mr::<P>),

        counter_init: Some(counter::init),
        counter_alloc_stats: Some(counter::alloc_stats::<P>),
        counter_bind_qp: Some(counter::bind_qp::<P>),
        counter_unbind_qp: Some(counter::unbind_qp::<P>),
        counter_update_stats: Some(counter::update_stats::<P>),
        counter_dealloc: Some(counter::dealloc::<P>),

        process_mad: Some(mad::process::<P>),

        alloc_ucontext: Some(ucontext::alloc::<P>),
        dealloc_ucontext: Some(ucontext::dealloc::<P>),
        disassociate_ucontext: Some(ucontext::disassociate),
        mmap: Some(mmap::mmap),
        mmap_free: Some(mmap::free),

        alloc_pd: Some(pd::alloc::<P>),
        dealloc_pd: Some(pd::dealloc::<P>),

        create_ah: Some(ah::create::<P>),
        create_user_ah: Some(ah::create::<P>),
        modify_ah: Some(ah::modify::<P>),
        query_ah: Some(ah::query::<P>),
        destroy_ah: Some(ah::destroy::<P>),

        create_cq: Some(cq::create::<P>),
        destroy_cq: Some(cq::destroy::<P>),
        resize_user_cq: Some(cq::resize::<P>),
        modify_cq: Some(cq::modify::<P>),
        req_notify_cq: Some(cq::arm::<P>),
        poll_cq: Some(cq::poll::<P>),

        create_srq: Some(srq::create::<P>),
        destroy_srq: Some(srq::destroy::<P>),
        modify_srq: Some(srq::modify::<P>),
        query_srq: Some(srq::query::<P>),
        post_srq_recv: Some(srq::post_recv::<P>),

        create_qp: Some(qp::create::<P>),
        modify_qp: Some(qp::modify::<P>),
        query_qp: Some(qp::query::<P>),
        destroy_qp: Some(qp::destroy::<P>),
        attach_mcast: Some(qp::attach::<P>),
        detach_mcast: Some(qp::detach::<P>),
        post_send: Some(qp::post_send::<P>),
        post_recv: Some(qp::post_recv::<P>),

        get_dma_mr: Some(mr::get_dma::<P>),
        alloc_mr: Some(mr::alloc::<P>),
        map_mr_sg: Some(mr::map_sg::<P>),
        reg_user_mr: Some(mr::reg_user::<P>),
        reg_user_mr_dmabuf: Some(mr::reg_buffer::<P>),
        rereg_user_mr: Some(mr::rereg_user::<P>),
        dereg_mr: Some(mr::dereg::<P>),
        advise_mr: Some(mr::advise::<P>),

        alloc_mw: Some(mw::alloc::<P>),
        dealloc_mw: Some(mw::dealloc::<P>),

        size_ib_ucontext: Context::<P>::SIZE,
        size_ib_pd: Pd::<P>::SIZE,
        size_ib_ah: Ah::<P>::SIZE,
        size_ib_cq: Cq::<P>::SIZE,
        size_ib_srq: Srq::<P>::SIZE,
        size_ib_qp: Qp::<P>::SIZE,
        size_ib_mw: Mw::<P>::SIZE,
        size_rdma_counter: counter::SIZE,

        ..pin_init::zeroed()
    };
}

/// The operations of a provider, all but their owner.
pub(super) fn table<P: Provider>() -> &'static b::ib_device_ops {
    &Table::<P>::OPS
}
