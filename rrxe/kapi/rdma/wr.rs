// SPDX-License-Identifier: GPL-2.0

//! Work requests, as consumers inside the kernel post them.
//!
//! A list of the caller's, of which each request is read once.

use crate::kapi::bindings as b;
use core::{
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
#[repr(transparent)]
pub(crate) struct SendRequest(b::ib_send_wr);

/// What an operation needs besides its data.
pub(crate) enum Operands {
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
}

impl SendRequest {
    /// The consumer's name for the request.
    pub(crate) fn wr_id(&self) -> u64 {
        self.0.__bindgen_anon_1.bindgen_union_field
    }

    /// A number of `enum ib_wr_opcode`.
    pub(crate) fn opcode(&self) -> u32 {
        self.0.opcode
    }

    /// Bits of `enum ib_send_flags`.
    pub(crate) fn flags(&self) -> u32 {
        self.0.send_flags as u32
    }

    /// Whether the elements name bytes that are to be copied when the request is posted.
    pub(crate) fn is_inline(&self) -> bool {
        self.0.send_flags & b::ib_send_flags_IB_SEND_INLINE != 0
    }

    /// Immediate data in network order, or a key to invalidate in native order.
    pub(crate) fn extra(&self) -> [u8; 4] {
        self.0.ex.bindgen_union_field.to_ne_bytes()
    }

    /// Where the data is, or where it goes.
    pub(crate) fn sges(&self) -> &[WorkSge] {
        // SAFETY: By the type invariant.
        unsafe { sges(self.0.sg_list, self.0.num_sge) }
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
    pub(crate) fn operands(&self) -> Operands {
        match self.0.opcode {
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
            _ => Operands::None,
        }
    }

    /// The structure around the request.
    ///
    /// # Safety
    ///
    /// The request must be the first member of a `T`.
    unsafe fn container<T>(&self) -> &T {
        // SAFETY: By the requirements.
        unsafe { &*ptr::from_ref(self).cast() }
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

macro_rules! list {
    ($(#[$doc:meta])* $name:ident of $request:ident($raw:ident)) => {
        $(#[$doc])*
        ///
        /// # Invariants
        ///
        /// `first` is null or the first of a list that the caller of the operation has passed.
        pub(crate) struct $name {
            first: *const b::$raw,
        }

        impl $name {
            /// # Safety
            ///
            /// `first` must be what the core passes to the operation that posts such requests, and
            /// stay valid for as long as the result exists.
            pub(super) unsafe fn new(first: *const b::$raw) -> Self {
                // INVARIANT: By the requirements.
                Self { first }
            }

            /// The first request that has not been posted.
            pub(super) fn first(&self) -> *const b::$raw {
                self.first
            }

            /// Has `post` post one request after the other, up to the first that it refuses.
            pub(crate) fn try_each(&mut self, mut post: impl FnMut(&$request) -> Result) -> Result {
                // INVARIANT: The type is transparent, the list's requests are such.
                // SAFETY: By the type invariant.
                while let Some(request) = unsafe { self.first.cast::<$request>().as_ref() } {
                    post(request)?;
                    // INVARIANT: The rest of a list is one.
                    self.first = request.0.next;
                }
                Ok(())
            }
        }
    };
}

list!(
    /// Send requests that are to be posted.
    SendList of SendRequest(ib_send_wr)
);
list!(
    /// Receive requests that are to be posted.
    ReceiveList of ReceiveRequest(ib_recv_wr)
);
