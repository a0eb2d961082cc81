// SPDX-License-Identifier: GPL-2.0

//! Work completions, as consumers inside the kernel poll them.

use super::{
    port,
    QpObject, //
};
use crate::kapi::bindings as b;
use core::{
    mem::MaybeUninit,
    ptr, //
};
use kernel::prelude::*;

/// What a completion says ([`struct ib_wc`]).
///
/// [`struct ib_wc`]: srctree/include/rdma/ib_verbs.h
#[derive(Clone, Copy, Debug)]
pub(crate) struct Completion {
    /// The consumer's name for the request.
    pub(crate) wr_id: u64,
    /// A number of `enum ib_wc_status`.
    pub(crate) status: u32,
    /// A number of `enum ib_wc_opcode`.
    pub(crate) opcode: u32,
    /// Bytes of the message.
    pub(crate) byte_len: u32,
    /// The queue pair; `None` if it is gone.
    pub(crate) qp: Option<QpObject>,
    /// Immediate data or an invalidated key.
    pub(crate) extra: CompletionExtra,
    /// Where a datagram came from, whose buffer begins with a global route header.
    pub(crate) source: Option<CompletionSource>,
}

/// Where a datagram came from.
#[derive(Clone, Copy, Debug)]
pub(crate) struct CompletionSource {
    /// Number of the queue pair.
    pub(crate) qpn: u32,
    /// Index of the partition key.
    pub(crate) pkey_index: u16,
    /// Service level.
    pub(crate) service_level: u8,
    /// The VLAN that it came by, if it came by one.
    pub(crate) vlan: Option<u16>,
}

/// Four bytes that a completion may carry.
#[derive(Clone, Copy, Debug)]
pub(crate) enum CompletionExtra {
    /// None.
    None,
    /// Immediate data, as it was sent.
    Imm([u8; 4]),
    /// The key that was invalidated.
    Invalidated(u32),
}

/// A place to be filled with a completion.
#[repr(transparent)]
pub(crate) struct CompletionPlace(MaybeUninit<b::ib_wc>);

impl CompletionPlace {
    /// Fills the place.
    pub(crate) fn fill(&mut self, completion: &Completion) {
        let (ex, flags) = match completion.extra {
            CompletionExtra::None => (0, 0),
            CompletionExtra::Imm(bytes) => {
                (u32::from_ne_bytes(bytes), b::ib_wc_flags_IB_WC_WITH_IMM)
            }
            CompletionExtra::Invalidated(key) => (key, b::ib_wc_flags_IB_WC_WITH_INVALIDATE),
        };
        let mut wc: b::ib_wc = pin_init::zeroed();
        wc.__bindgen_anon_1.bindgen_union_field = completion.wr_id;
        wc.status = completion.status;
        wc.opcode = completion.opcode;
        wc.byte_len = completion.byte_len;
        wc.qp = completion.qp.map_or(ptr::null_mut(), QpObject::as_ptr);
        wc.ex.bindgen_union_field = ex;
        wc.wc_flags = flags as c_int;
        wc.port_num = port::NUMBER;
        if let Some(source) = &completion.source {
            wc.wc_flags |= b::ib_wc_flags_IB_WC_GRH as c_int;
            wc.src_qp = source.qpn;
            wc.pkey_index = source.pkey_index;
            wc.sl = source.service_level;
            if let Some(vlan) = source.vlan {
                wc.wc_flags |= b::ib_wc_flags_IB_WC_WITH_VLAN as c_int;
                wc.vlan_id = vlan;
            }
        }
        self.0.write(wc);
    }
}
