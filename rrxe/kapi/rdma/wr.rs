// SPDX-License-Identifier: GPL-2.0

//! Work requests, as consumers inside the kernel post them.
//!
//! A list of the caller's, of which each request is read once.

use super::{
    object::Ah,
    Provider,
    QpType, //
};
use crate::kapi::bindings as b;
use core::{
    marker::PhantomData,
    ptr,
    slice, //
};
use kernel::prelude::*;

/// A gather or scatter element ([`struct ib_sge`]).
///
/// [`struct ib_sge`]: srctree/include/rdma/ib_verbs.h
#[repr(transparent)]
pub(crate) struct WorkSge(b::ib_sge);

impl WorkSge {
    /// Address of the first byte.
    pub(crate) fn addr(&self) -> u64 {
        self.0.addr
    }

    /// Bytes.
    pub(crate) fn length(&self) -> u32 {
        self.0.length
    }

    /// Key of the memory.
    pub(crate) fn lkey(&self) -> u32 {
        self.0.lkey
    }
}

/// # Safety
///
/// `list` must point to `count` elements during `'a`, or `count` be none.
unsafe fn sges<'a>(list: *const b::ib_sge, count: c_int) -> &'a [WorkSge] {
    match usize::try_from(count) {
        Err(_) | Ok(0) => &[],
        // SAFETY: By the requirements; the type is transparent.
        Ok(count) => unsafe { slice::from_raw_parts(list.cast(), count) },
    }
}

/// A send request ([`struct ib_send_wr`]).
///
/// # Invariants
///
/// The request is one that a consumer inside the kernel has passed to `post_send`, and has all that
/// the operation needs.
///
/// [`struct ib_send_wr`]: srctree/include/rdma/ib_verbs.h
pub(crate) struct SendRequest<'a, P: Provider> {
    wr: &'a b::ib_send_wr,
    qp_type: QpType,
    _provider: PhantomData<P>,
}

/// What an operation needs besides its data.
pub(crate) enum Operands<'a, P: Provider> {
    /// Nothing.
    None,
    /// For RDMA.
    Rdma {
        /// Address of the first remote byte.
        remote_addr: u64,
        /// Remote key.
        rkey: u32,
    },
    /// For atomics.
    Atomic {
        /// Address of the eight remote bytes.
        remote_addr: u64,
        /// Remote key.
        rkey: u32,
        /// What to compare with, or what to add.
        compare_add: u64,
        /// What to store if the comparison holds.
        swap: u64,
    },
    /// For the registration of a region.
    Register {
        /// The region's key from now on.
        key: u32,
        /// What the first byte is called.
        va: u64,
        /// What may be done: bits of `enum ib_access_flags`.
        access: u32,
    },
    /// For datagrams.
    Datagram {
        /// The way there.
        ah: &'a Ah<P>,
        /// Number of the remote queue pair.
        qpn: u32,
        /// Key of the remote queue pair.
        qkey: u32,
    },
}

impl<'a, P: Provider> SendRequest<'a, P> {
    /// The consumer's name for the request.
    pub(crate) fn wr_id(&self) -> u64 {
        self.wr.__bindgen_anon_1.bindgen_union_field
    }

    /// A number of `enum ib_wr_opcode`.
    pub(crate) fn opcode(&self) -> u32 {
        self.wr.opcode
    }

    /// Bits of `enum ib_send_flags`.
    pub(crate) fn flags(&self) -> u32 {
        self.wr.send_flags as u32
    }

    /// Whether the elements name bytes that are to be copied when the request is posted.
    pub(crate) fn is_inline(&self) -> bool {
        self.wr.send_flags & b::ib_send_flags_IB_SEND_INLINE != 0
    }

    /// Immediate data in network order, or a key to invalidate in native order.
    pub(crate) fn extra(&self) -> [u8; 4] {
        self.wr.ex.bindgen_union_field.to_ne_bytes()
    }

    /// Where the data is, or where it goes.
    pub(crate) fn sges(&self) -> &[WorkSge] {
        // SAFETY: By the type invariant.
        unsafe { sges(self.wr.sg_list, self.wr.num_sge) }
    }

    /// Copies the data of an inline request to the first bytes of `to`, and returns how many they
    /// are. `EINVAL` if there are more than `to` has room for, or if the request is not inline.
    pub(crate) fn copy_inline(&self, to: &mut [u8]) -> Result<usize> {
        if !self.is_inline() {
            return Err(EINVAL);
        }
        let mut done = 0usize;
        for sge in self.sges() {
            let rest = to.get_mut(done..).ok_or(EINVAL)?;
            let part = rest.get_mut(..sge.length() as usize).ok_or(EINVAL)?;
            let from = ptr::with_exposed_provenance::<c_void>(sge.addr() as usize);
            // SAFETY: The data of an inline request is named by its addresses in the kernel, by the
            // type invariant. `part` is ours.
            unsafe { b::helpers::copy_bytes(part.as_mut_ptr().cast(), from, part.len()) };
            done = done.saturating_add(part.len());
        }
        Ok(done)
    }

    /// What the operation needs besides.
    pub(crate) fn operands(&self) -> Operands<'a, P> {
        if matches!(self.qp_type, QpType::Ud | QpType::Gsi) {
            // SAFETY: A request to such a queue pair is the first member of this structure.
            let wr = unsafe { self.container::<b::ib_ud_wr>() };
            return Operands::Datagram {
                // SAFETY: The address handle is of the same provider, and outlives the request.
                ah: unsafe { Ah::from_raw(wr.ah) },
                qpn: wr.remote_qpn,
                qkey: wr.remote_qkey,
            };
        }
        match self.wr.opcode {
            b::ib_wr_opcode_IB_WR_RDMA_WRITE
            | b::ib_wr_opcode_IB_WR_RDMA_WRITE_WITH_IMM
            | b::ib_wr_opcode_IB_WR_RDMA_READ => {
                // SAFETY: Such a request is the first member of this structure.
                let wr = unsafe { self.container::<b::ib_rdma_wr>() };
                Operands::Rdma {
                    remote_addr: wr.remote_addr,
                    rkey: wr.rkey,
                }
            }
            b::ib_wr_opcode_IB_WR_ATOMIC_CMP_AND_SWP
            | b::ib_wr_opcode_IB_WR_ATOMIC_FETCH_AND_ADD => {
                // SAFETY: As above.
                let wr = unsafe { self.container::<b::ib_atomic_wr>() };
                Operands::Atomic {
                    remote_addr: wr.remote_addr,
                    rkey: wr.rkey,
                    compare_add: wr.compare_add,
                    swap: wr.swap,
                }
            }
            b::ib_wr_opcode_IB_WR_REG_MR => {
                // SAFETY: As above.
                let wr = unsafe { self.container::<b::ib_reg_wr>() };
                Operands::Register {
                    key: wr.key,
                    // SAFETY: The region outlives the request.
                    va: unsafe { (*wr.mr).iova },
                    access: wr.access as u32,
                }
            }
            _ => Operands::None,
        }
    }

    /// The structure around the request.
    ///
    /// # Safety
    ///
    /// The request must be the first member of a `T`.
    unsafe fn container<T>(&self) -> &'a T {
        // SAFETY: By the requirements.
        unsafe { &*ptr::from_ref(self.wr).cast() }
    }
}

/// A receive request ([`struct ib_recv_wr`]).
///
/// # Invariants
///
/// The request is one that a consumer inside the kernel has passed to `post_recv`.
///
/// [`struct ib_recv_wr`]: srctree/include/rdma/ib_verbs.h
#[repr(transparent)]
pub(crate) struct ReceiveRequest(b::ib_recv_wr);

impl ReceiveRequest {
    /// The consumer's name for the request.
    pub(crate) fn wr_id(&self) -> u64 {
        self.0.__bindgen_anon_1.bindgen_union_field
    }

    /// Where the message goes.
    pub(crate) fn sges(&self) -> &[WorkSge] {
        // SAFETY: By the type invariant.
        unsafe { sges(self.0.sg_list, self.0.num_sge) }
    }
}

/// Send requests that are to be posted.
///
/// # Invariants
///
/// `first` is null or the first of a list that the caller of `post_send` has passed, for a queue pair
/// of type `qp_type`.
pub(crate) struct SendList<P: Provider> {
    first: *const b::ib_send_wr,
    qp_type: QpType,
    _provider: PhantomData<P>,
}

impl<P: Provider> SendList<P> {
    /// # Safety
    ///
    /// `first` must be what the core passes to `post_send` for a queue pair of type `qp_type`, and stay
    /// valid for as long as the result exists.
    pub(super) unsafe fn new(first: *const b::ib_send_wr, qp_type: QpType) -> Self {
        // INVARIANT: By the requirements.
        Self {
            first,
            qp_type,
            _provider: PhantomData,
        }
    }

    /// The first request that has not been posted.
    pub(super) fn first(&self) -> *const b::ib_send_wr {
        self.first
    }

    /// Has `post` post one request after the other, up to the first that it refuses.
    pub(crate) fn try_each(
        &mut self,
        mut post: impl FnMut(&SendRequest<'_, P>) -> Result,
    ) -> Result {
        // SAFETY: By the type invariant.
        while let Some(wr) = unsafe { self.first.as_ref() } {
            // INVARIANT: The list's requests are such.
            post(&SendRequest {
                wr,
                qp_type: self.qp_type,
                _provider: PhantomData,
            })?;
            // INVARIANT: The rest of a list is one.
            self.first = wr.next;
        }
        Ok(())
    }
}

/// Receive requests that are to be posted.
///
/// # Invariants
///
/// `first` is null or the first of a list that the caller of `post_recv` has passed.
pub(crate) struct ReceiveList {
    first: *const b::ib_recv_wr,
}

impl ReceiveList {
    /// # Safety
    ///
    /// `first` must be what the core passes to `post_recv` or `post_srq_recv`, and stay valid for as
    /// long as the result exists.
    pub(super) unsafe fn new(first: *const b::ib_recv_wr) -> Self {
        // INVARIANT: By the requirements.
        Self { first }
    }

    /// The first request that has not been posted.
    pub(super) fn first(&self) -> *const b::ib_recv_wr {
        self.first
    }

    /// Has `post` post one request after the other, up to the first that it refuses.
    pub(crate) fn try_each(&mut self, mut post: impl FnMut(&ReceiveRequest) -> Result) -> Result {
        // INVARIANT: The type is transparent, the list's requests are such.
        // SAFETY: By the type invariant.
        while let Some(request) = unsafe { self.first.cast::<ReceiveRequest>().as_ref() } {
            post(request)?;
            // INVARIANT: The rest of a list is one.
            self.first = request.0.next;
        }
        Ok(())
    }
}
