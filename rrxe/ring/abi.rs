// SPDX-License-Identifier: GPL-2.0

//! What lies in memory shared with user space, byte by byte: the structures of
//! `include/uapi/rdma/rdma_user_rxe.h` and the completion of `ib_user_verbs.h`.
//!
//! The layouts are fixed for ever, the stock `librxe` reads and writes them. Names are those of
//! the C structures without their prefix.

use core::mem::{
    offset_of,
    size_of, //
};

use zerocopy_derive::{
    FromBytes,
    Immutable,
    IntoBytes,
    KnownLayout, //
};

/// Work requests' opcodes: `enum ib_uverbs_wr_opcode`.
pub(crate) mod wr_opcode {
    /// RDMA write.
    pub(crate) const RDMA_WRITE: u32 = 0;
    /// RDMA write that completes a receive.
    pub(crate) const RDMA_WRITE_WITH_IMM: u32 = 1;
    /// Send.
    pub(crate) const SEND: u32 = 2;
    /// Send with four bytes for the receiver's completion.
    pub(crate) const SEND_WITH_IMM: u32 = 3;
    /// RDMA read.
    pub(crate) const RDMA_READ: u32 = 4;
    /// Atomic compare and swap.
    pub(crate) const ATOMIC_CMP_AND_SWP: u32 = 5;
    /// Atomic fetch and add.
    pub(crate) const ATOMIC_FETCH_AND_ADD: u32 = 6;
    /// Invalidation of a local key.
    pub(crate) const LOCAL_INV: u32 = 7;
    /// Binding of a memory window.
    pub(crate) const BIND_MW: u32 = 8;
    /// Send that invalidates a key of the receiver.
    pub(crate) const SEND_WITH_INV: u32 = 9;
    /// Flush of remote memory.
    pub(crate) const FLUSH: u32 = 14;
    /// Atomic write of eight bytes.
    pub(crate) const ATOMIC_WRITE: u32 = 15;
    /// Registration of listed memory: `IB_WR_REG_MR`, for consumers inside the kernel only.
    pub(crate) const REG_MR: u32 = 0x20;
}

/// Work requests' flags: `enum ib_send_flags`.
pub(crate) mod send_flags {
    /// Begin only when earlier reads and atomics are complete.
    pub(crate) const FENCE: u32 = 1 << 0;
    /// Report success too.
    pub(crate) const SIGNALED: u32 = 1 << 1;
    /// Wake the receiver that waits for solicited completions.
    pub(crate) const SOLICITED: u32 = 1 << 2;
    /// The data lies in the work request.
    pub(crate) const INLINE: u32 = 1 << 3;
    /// Let the device compute IP checksums. Means nothing here.
    pub(crate) const IP_CSUM: u32 = 1 << 4;
    /// Every flag there is.
    pub(crate) const ALL: u32 = FENCE | SIGNALED | SOLICITED | INLINE | IP_CSUM;
}

/// Completions' flags: `enum ibv_wc_flags` of the user library, which differs from the kernel's
/// `enum ib_wc_flags`.
pub(crate) mod wc_flags {
    /// The buffer begins with a global route header.
    pub(crate) const GRH: u32 = 1 << 0;
    /// `ex` is immediate data.
    pub(crate) const WITH_IMM: u32 = 1 << 1;
    /// `ex` is an invalidated key.
    pub(crate) const WITH_INVALIDATE: u32 = 1 << 3;
}

/// Scatter or gather element: `struct rxe_sge`, which is `struct ibv_sge`.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout,
)]
#[repr(C)]
pub(crate) struct Sge {
    /// User address of the first byte.
    pub(crate) addr: u64,
    /// Bytes.
    pub(crate) length: u32,
    /// Key of the memory region.
    pub(crate) lkey: u32,
}

/// Where a work request's data is: `struct rxe_dma_info` without the data or the elements.
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub(crate) struct DmaInfo {
    /// Bytes of the message.
    pub(crate) length: u32,
    /// Progress of an implementation that keeps it here. Never read.
    pub(crate) resid: u32,
    /// Likewise.
    pub(crate) cur_sge: u32,
    /// Elements that follow.
    pub(crate) num_sge: u32,
    /// Likewise progress.
    pub(crate) sge_offset: u32,
    /// Nothing.
    pub(crate) reserved: u32,
}

/// Words of the union `wr` in [`SendWr`].
pub(crate) const OPERAND_WORDS: usize = 15;

/// Send work request: `struct rxe_send_wr`.
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub(crate) struct SendWr {
    /// The user's name for the request.
    pub(crate) wr_id: u64,
    /// Nothing.
    pub(crate) reserved: u32,
    /// One of [`wr_opcode`].
    pub(crate) opcode: u32,
    /// A union of [`send_flags`].
    pub(crate) send_flags: u32,
    /// Immediate data in network order, or a key to invalidate in native order.
    pub(crate) ex: [u8; 4],
    /// What the operation needs, by opcode.
    pub(crate) operands: [u64; OPERAND_WORDS],
}

/// Operands of an RDMA read or write.
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub(crate) struct RdmaOperands {
    /// Remote address.
    pub(crate) remote_addr: u64,
    /// Remote key.
    pub(crate) rkey: u32,
    /// Nothing.
    pub(crate) reserved: u32,
    /// What other operations use.
    pub(crate) unused: [u64; OPERAND_WORDS - 2],
}

/// Operands of an atomic.
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub(crate) struct AtomicOperands {
    /// Remote address.
    pub(crate) remote_addr: u64,
    /// What to compare with, or what to add.
    pub(crate) compare_add: u64,
    /// What to store if the comparison holds.
    pub(crate) swap: u64,
    /// Remote key.
    pub(crate) rkey: u32,
    /// Nothing.
    pub(crate) reserved: u32,
    /// What other operations use.
    pub(crate) unused: [u64; OPERAND_WORDS - 4],
}

/// Operands of the binding of a memory window.
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub(crate) struct BindOperands {
    /// Address of the first byte to show.
    pub(crate) addr: u64,
    /// Bytes to show.
    pub(crate) length: u64,
    /// Key of the region.
    pub(crate) mr_lkey: u32,
    /// The window's key so far.
    pub(crate) mw_rkey: u32,
    /// The window's key from now on.
    pub(crate) rkey: u32,
    /// What a peer may do: a union of `ib_access_flags`.
    pub(crate) access: u32,
    /// What other operations use.
    pub(crate) unused: [u64; OPERAND_WORDS - 4],
}

/// Operands of a flush.
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub(crate) struct FlushOperands {
    /// Remote address.
    pub(crate) remote_addr: u64,
    /// Bytes. The user library leaves it alone, and says them in [`DmaInfo`].
    pub(crate) length: u32,
    /// Remote key.
    pub(crate) rkey: u32,
    /// How far writes are to get: a union of `ib_placement_type`.
    pub(crate) placement: u8,
    /// Which writes: an `ib_selectivity_level`.
    pub(crate) selectivity: u8,
    /// Nothing.
    pub(crate) reserved: [u8; 6],
    /// What other operations use.
    pub(crate) unused: [u64; OPERAND_WORDS - 3],
}

/// Operands of a registration of listed memory. User space knows nothing of it.
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub(crate) struct RegisterOperands {
    /// What the first byte is called.
    pub(crate) addr: u64,
    /// The region's key from now on.
    pub(crate) key: u32,
    /// What may be done: a union of `ib_access_flags`.
    pub(crate) access: u32,
    /// What other operations use.
    pub(crate) unused: [u64; OPERAND_WORDS - 2],
}

/// Operands of a send of a datagram.
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub(crate) struct DatagramOperands {
    /// Remote queue pair.
    pub(crate) remote_qpn: u32,
    /// Remote queue key.
    pub(crate) remote_qkey: u32,
    /// Index of the partition key. That of the queue pair is the one that counts.
    pub(crate) pkey_index: u16,
    /// Nothing.
    pub(crate) reserved: u16,
    /// Number of the address handle. Zero says that the address is in the request itself.
    pub(crate) ah_num: u32,
    /// Nothing.
    pub(crate) pad: [u64; 2],
    /// The address, from user libraries that do not know the numbers of address handles. Never read.
    pub(crate) av: [u64; 11],
}

/// Head of a send queue's element: `struct rxe_send_wqe`. Elements or inline data follow.
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub(crate) struct SendWqe {
    /// The work request.
    pub(crate) wr: SendWr,
    /// State of an implementation that keeps it here, `status` to `has_rd_atomic`: the user
    /// library leaves in it whatever an earlier request left. Never read.
    pub(crate) stale: [u64; 5],
    /// Where the data is.
    pub(crate) dma: DmaInfo,
}

/// Head of a receive queue's element: `struct rxe_recv_wqe`. Elements follow.
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub(crate) struct ReceiveWqe {
    /// The user's name for the request.
    pub(crate) wr_id: u64,
    /// Nothing.
    pub(crate) reserved: u64,
    /// Where the buffer is.
    pub(crate) dma: DmaInfo,
}

/// Work completion: `struct ib_uverbs_wc`, which is `struct ibv_wc`.
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub(crate) struct UverbsWc {
    /// The user's name for the request.
    pub(crate) wr_id: u64,
    /// An `ib_wc_status`.
    pub(crate) status: u32,
    /// An `ib_wc_opcode`.
    pub(crate) opcode: u32,
    /// Nothing a vendor wants to say.
    pub(crate) vendor_err: u32,
    /// Bytes of the message.
    pub(crate) byte_len: u32,
    /// Immediate data in network order, or an invalidated key in native order.
    pub(crate) ex: [u8; 4],
    /// The local queue pair.
    pub(crate) qp_num: u32,
    /// The remote queue pair, of a datagram.
    pub(crate) src_qp: u32,
    /// A union of [`wc_flags`].
    pub(crate) wc_flags: u32,
    /// Index of the partition key, of a datagram.
    pub(crate) pkey_index: u16,
    /// Source LID: not on Ethernet.
    pub(crate) slid: u16,
    /// Service level.
    pub(crate) sl: u8,
    /// Path bits of the destination LID: not on Ethernet.
    pub(crate) dlid_path_bits: u8,
    /// The port.
    pub(crate) port_num: u8,
    /// Nothing.
    pub(crate) reserved: u8,
}

/// Where to map a queue: `struct mminfo`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub(crate) struct MmInfo {
    /// Offset to pass to `mmap`.
    pub(crate) offset: u64,
    /// Bytes to map.
    pub(crate) size: u32,
    /// Nothing.
    pub(crate) pad: u32,
}

impl MmInfo {
    /// There is no queue to map.
    pub(crate) const NOTHING: Self = Self {
        offset: 0,
        size: 0,
        pad: 0,
    };
}

/// Response to the creation of a completion queue, and to its resizing.
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub(crate) struct CqResponse {
    /// The queue.
    pub(crate) mi: MmInfo,
}

/// Response to the creation of a queue pair.
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub(crate) struct CreateQpResponse {
    /// The receive queue. Zero with a shared receive queue.
    pub(crate) rq_mi: MmInfo,
    /// The send queue.
    pub(crate) sq_mi: MmInfo,
}

/// Response to the creation of a shared receive queue.
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub(crate) struct CreateSrqResponse {
    /// The queue.
    pub(crate) mi: MmInfo,
    /// Number of the shared receive queue.
    pub(crate) srq_num: u32,
    /// Nothing.
    pub(crate) reserved: u32,
}

/// Response to the creation of an address handle.
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub(crate) struct CreateAhResponse {
    /// Number of the address handle. Never zero.
    pub(crate) ah_num: u32,
    /// Nothing.
    pub(crate) reserved: u32,
}

/// Request to modify a shared receive queue.
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub(crate) struct ModifySrqRequest {
    /// User address of a [`MmInfo`] to write to, if the queue is resized.
    pub(crate) mmap_info_addr: u64,
}

/// Offsets in the header of a queue, `struct rxe_queue_buf`: bytes.
pub(crate) mod queue_header {
    /// Logarithm of the element size.
    pub(crate) const LOG2_ELEM_SIZE: usize = 0;
    /// Number of elements, less one.
    pub(crate) const INDEX_MASK: usize = 4;
    /// Index of the next element to produce.
    pub(crate) const PRODUCER_INDEX: usize = 128;
    /// Index of the next element to consume.
    pub(crate) const CONSUMER_INDEX: usize = 256;
    /// The first element.
    pub(crate) const DATA: usize = 384;
}

const _: () = {
    assert!(size_of::<Sge>() == 16);
    assert!(size_of::<DmaInfo>() == 24);

    assert!(size_of::<SendWr>() == 144);
    assert!(offset_of!(SendWr, opcode) == 12);
    assert!(offset_of!(SendWr, send_flags) == 16);
    assert!(offset_of!(SendWr, ex) == 20);
    assert!(offset_of!(SendWr, operands) == 24);
    assert!(offset_of!(RdmaOperands, rkey) == 32 - 24);
    assert!(offset_of!(AtomicOperands, compare_add) == 32 - 24);
    assert!(offset_of!(AtomicOperands, swap) == 40 - 24);
    assert!(offset_of!(AtomicOperands, rkey) == 48 - 24);
    assert!(offset_of!(FlushOperands, rkey) == 36 - 24);
    assert!(offset_of!(FlushOperands, placement) == 40 - 24);
    assert!(offset_of!(FlushOperands, selectivity) == 41 - 24);
    assert!(offset_of!(BindOperands, length) == 32 - 24);
    assert!(offset_of!(BindOperands, mr_lkey) == 40 - 24);
    assert!(offset_of!(BindOperands, mw_rkey) == 44 - 24);
    assert!(offset_of!(BindOperands, rkey) == 48 - 24);
    assert!(offset_of!(BindOperands, access) == 52 - 24);
    assert!(offset_of!(DatagramOperands, remote_qkey) == 28 - 24);
    assert!(offset_of!(DatagramOperands, ah_num) == 36 - 24);
    assert!(offset_of!(DatagramOperands, av) == 56 - 24);

    assert!(size_of::<SendWqe>() == 208);
    assert!(offset_of!(SendWqe, stale) == 144);
    assert!(offset_of!(SendWqe, dma) == 184);

    assert!(size_of::<ReceiveWqe>() == 40);
    assert!(offset_of!(ReceiveWqe, dma) == 16);

    assert!(size_of::<UverbsWc>() == 48);
    assert!(offset_of!(UverbsWc, status) == 8);
    assert!(offset_of!(UverbsWc, opcode) == 12);
    assert!(offset_of!(UverbsWc, byte_len) == 20);
    assert!(offset_of!(UverbsWc, ex) == 24);
    assert!(offset_of!(UverbsWc, qp_num) == 28);
    assert!(offset_of!(UverbsWc, wc_flags) == 36);
    assert!(offset_of!(UverbsWc, pkey_index) == 40);
    assert!(offset_of!(UverbsWc, sl) == 44);

    assert!(size_of::<MmInfo>() == 16);
    assert!(size_of::<CqResponse>() == 16);
    assert!(size_of::<CreateQpResponse>() == 32);
    assert!(offset_of!(CreateQpResponse, sq_mi) == 16);
    assert!(size_of::<CreateSrqResponse>() == 24);
    assert!(offset_of!(CreateSrqResponse, srq_num) == 16);
    assert!(size_of::<CreateAhResponse>() == 8);
    assert!(size_of::<ModifySrqRequest>() == 8);
};
