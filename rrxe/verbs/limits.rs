// SPDX-License-Identifier: GPL-2.0

//! How many there may be of what, and how large.
//!
//! What user space makes costs kernel memory. The limits of counts are those of number
//! spaces, so that what a device says of itself is true; the limits of sizes keep what one
//! object takes at some tens of megabytes.

use core::ops::RangeInclusive;

/// Numbers of queue pairs: 24 bits, of which 0 and 1 are management's and the last one means
/// multicast. The first few are left out, as they are special to much software.
pub(crate) const QPNS: RangeInclusive<u32> = 16..=QPN_LAST;
const QPN_LAST: u32 = 15 + MAX_QP;

/// Number of the queue pair of general services.
pub(crate) const GSI_QPN: u32 = 1;

/// Queue pairs of a device.
pub(crate) const MAX_QP: u32 = 1 << 20;

/// Requests that fit into a send or receive queue. Rings have 2^n slots, one of them unused,
/// of up to 1 KiB: this is 32 MiB.
pub(crate) const MAX_QP_WR: u32 = (1 << 15) - 1;

/// Scatter/gather entries of a request; so many fit into a slot with the inline data.
pub(crate) const MAX_SGE: u32 = 32;

/// Bytes of inline data: as many as the scatter/gather entries, whose place they take.
pub(crate) const MAX_INLINE: u32 = MAX_SGE * 16;

/// READs and atomics under way on a queue pair, in either direction. The wire format sets no
/// limit; each is a saved response at the responder.
pub(crate) const MAX_RD_ATOMIC: u32 = 128;

/// Completion queues of a device. They have no numbers; the RDMA core counts them.
pub(crate) const MAX_CQ: u32 = 1 << 20;

/// Completions that fit into a queue. As for requests, with slots of 64 bytes: this is 16 MiB.
pub(crate) const MAX_CQE: u32 = (1 << 18) - 1;

/// Indices of memory keys: 24 bits. Index 0 is left out, since some software takes a key of 0
/// for none.
pub(crate) const MR_INDICES: RangeInclusive<u32> = 1..=MAX_MR - MAX_FAST_MR;

/// Indices of regions of listed memory: the last ones of regions.
pub(crate) const FAST_MR_INDICES: RangeInclusive<u32> = MAX_MR - MAX_FAST_MR + 1..=MAX_MR;

/// Memory regions of a device: half of the indices.
pub(crate) const MAX_MR: u32 = 1 << 23;

/// Indices of the keys of memory windows: the other half.
pub(crate) const MW_INDICES: RangeInclusive<u32> = MAX_MR + 1..=MAX_MR + MAX_MW;

/// Memory windows of a device.
pub(crate) const MAX_MW: u32 = (1 << 23) - 1;

/// Of them, those of listed memory, which only consumers inside the kernel have.
const MAX_FAST_MR: u32 = 1 << 20;

/// Pages of a region of listed memory, each of any size.
pub(crate) const MAX_FAST_PAGES: u32 = 2048;

/// Bytes of a memory region: whatever can be pinned.
pub(crate) const MAX_MR_SIZE: u64 = u64::MAX;

/// Shared receive queues of a device. They are found by the queue pairs that use them; the RDMA core
/// counts them.
pub(crate) const MAX_SRQ: u32 = 1 << 20;

/// Protection domains of a device. They have no numbers; the RDMA core counts them.
pub(crate) const MAX_PD: u32 = 1 << 20;

/// Numbers of address handles. To librxe, 0 means that there is none.
pub(crate) const AH_NUMBERS: RangeInclusive<u32> = 1..=MAX_AH;

/// Address handles of a device.
pub(crate) const MAX_AH: u32 = 1 << 20;

/// Entries of the GID table: addresses of the netdev and its uppers.
pub(crate) const GIDS: u32 = 1024;

/// Bytes of the longest message: what a 32-bit length can say, by the specification.
pub(crate) const MAX_MESSAGE: u32 = 1 << 31;

/// How long an acknowledgment may be held up here, 4.096 us * 2^n: 134 ms, since packets are
/// handled in softirqs, which a loaded machine puts off.
pub(crate) const ACK_DELAY: u8 = 15;

/// The number of no vendor.
pub(crate) const VENDOR_ID: u32 = 0x00ff_ffff;
