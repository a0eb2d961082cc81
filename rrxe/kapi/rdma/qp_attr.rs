// SPDX-License-Identifier: GPL-2.0

//! Attributes of queue pairs, as `modify_qp` and `query_qp` move them.
//!
//! Where C has an enumeration the value is passed on as a number that the driver takes or
//! refuses: `enum ib_qp_state`, `enum ib_mtu`, `enum ib_access_flags`, `enum ib_qp_attr_mask`.

use super::AhAttr;
use crate::kapi::bindings as b;
use kernel::prelude::*;

/// A change of a queue pair: each attribute is there only if the caller gave it.
///
/// Except for the port and the path the core has checked nothing.
pub(crate) struct QpModify<'a> {
    attr: &'a b::ib_qp_attr,
    mask: u32,
}

impl<'a> QpModify<'a> {
    /// # Safety
    ///
    /// `attr` must be valid and unchanging during `'a`.
    pub(super) unsafe fn from_raw(attr: *const b::ib_qp_attr, mask: c_int) -> Self {
        Self {
            // SAFETY: By the requirements.
            attr: unsafe { &*attr },
            mask: mask as u32,
        }
    }

    /// Which attributes the caller gave: bits of `enum ib_qp_attr_mask`.
    pub(crate) fn mask(&self) -> u32 {
        self.mask
    }

    fn given<T>(&self, bit: b::ib_qp_attr_mask, value: T) -> Option<T> {
        (self.mask & bit != 0).then_some(value)
    }

    /// The state to go to.
    pub(crate) fn state(&self) -> Option<u32> {
        self.given(b::ib_qp_attr_mask_IB_QP_STATE, self.attr.qp_state)
    }

    /// The state the caller believes the queue pair to be in.
    pub(crate) fn current_state(&self) -> Option<u32> {
        self.given(b::ib_qp_attr_mask_IB_QP_CUR_STATE, self.attr.cur_qp_state)
    }

    /// Whether to raise an event when the send queue has drained.
    pub(crate) fn notify_drained(&self) -> Option<bool> {
        self.given(
            b::ib_qp_attr_mask_IB_QP_EN_SQD_ASYNC_NOTIFY,
            self.attr.en_sqd_async_notify != 0,
        )
    }

    /// What the peer may do.
    pub(crate) fn access(&self) -> Option<u32> {
        self.given(
            b::ib_qp_attr_mask_IB_QP_ACCESS_FLAGS,
            self.attr.qp_access_flags as u32,
        )
    }

    /// Index of the partition key.
    pub(crate) fn pkey_index(&self) -> Option<u16> {
        self.given(b::ib_qp_attr_mask_IB_QP_PKEY_INDEX, self.attr.pkey_index)
    }

    /// Number of the port; the core has checked it.
    pub(crate) fn port(&self) -> Option<u32> {
        self.given(b::ib_qp_attr_mask_IB_QP_PORT, self.attr.port_num)
    }

    /// The queue key.
    pub(crate) fn qkey(&self) -> Option<u32> {
        self.given(b::ib_qp_attr_mask_IB_QP_QKEY, self.attr.qkey)
    }

    /// The path to the peer.
    pub(crate) fn path(&self) -> Option<&'a AhAttr> {
        self.given(
            b::ib_qp_attr_mask_IB_QP_AV,
            AhAttr::from_ref(&self.attr.ah_attr),
        )
    }

    /// Whether an alternate path is given.
    pub(crate) fn has_alternate_path(&self) -> bool {
        self.mask() & b::ib_qp_attr_mask_IB_QP_ALT_PATH != 0
    }

    /// Payload of a full packet.
    pub(crate) fn path_mtu(&self) -> Option<u32> {
        self.given(b::ib_qp_attr_mask_IB_QP_PATH_MTU, self.attr.path_mtu)
    }

    /// Patience for an acknowledgment: 4.096 us * 2^n, 0 is for ever.
    pub(crate) fn timeout(&self) -> Option<u8> {
        self.given(b::ib_qp_attr_mask_IB_QP_TIMEOUT, self.attr.timeout)
    }

    /// Tries after a time-out.
    pub(crate) fn retry_count(&self) -> Option<u8> {
        self.given(b::ib_qp_attr_mask_IB_QP_RETRY_CNT, self.attr.retry_cnt)
    }

    /// Tries after "receiver not ready", 7 is without end.
    pub(crate) fn rnr_retry(&self) -> Option<u8> {
        self.given(b::ib_qp_attr_mask_IB_QP_RNR_RETRY, self.attr.rnr_retry)
    }

    /// Code of how long the peer shall wait when we are not ready, below 32.
    pub(crate) fn min_rnr_timer(&self) -> Option<u8> {
        self.given(
            b::ib_qp_attr_mask_IB_QP_MIN_RNR_TIMER,
            self.attr.min_rnr_timer,
        )
    }

    /// First PSN to expect, 24 bits.
    pub(crate) fn rq_psn(&self) -> Option<u32> {
        self.given(b::ib_qp_attr_mask_IB_QP_RQ_PSN, self.attr.rq_psn)
    }

    /// First PSN to send, 24 bits.
    pub(crate) fn sq_psn(&self) -> Option<u32> {
        self.given(b::ib_qp_attr_mask_IB_QP_SQ_PSN, self.attr.sq_psn)
    }

    /// READs and atomics to have under way.
    pub(crate) fn max_rd_atomic(&self) -> Option<u8> {
        self.given(
            b::ib_qp_attr_mask_IB_QP_MAX_QP_RD_ATOMIC,
            self.attr.max_rd_atomic,
        )
    }

    /// READs and atomics the peer may have under way.
    pub(crate) fn max_dest_rd_atomic(&self) -> Option<u8> {
        self.given(
            b::ib_qp_attr_mask_IB_QP_MAX_DEST_RD_ATOMIC,
            self.attr.max_dest_rd_atomic,
        )
    }

    /// Number of the peer's queue pair, not checked to have 24 bits.
    pub(crate) fn dest_qp_num(&self) -> Option<u32> {
        self.given(b::ib_qp_attr_mask_IB_QP_DEST_QPN, self.attr.dest_qp_num)
    }

    /// Whether paths are in the migrated state, the only one without path migration.
    pub(crate) fn is_migrated(&self) -> Option<bool> {
        self.given(
            b::ib_qp_attr_mask_IB_QP_PATH_MIG_STATE,
            self.attr.path_mig_state == b::ib_mig_state_IB_MIG_MIGRATED,
        )
    }
}

/// The attributes of a queue pair, to be reported.
#[repr(transparent)]
pub(crate) struct QpAttr(b::ib_qp_attr);

impl QpAttr {
    /// Zeroes the attributes, so that nothing is reported that was not set.
    ///
    /// # Safety
    ///
    /// `attr` must be valid for writes and no one else's during `'a`.
    pub(super) unsafe fn clear<'a>(attr: *mut b::ib_qp_attr) -> &'a mut Self {
        // SAFETY: By the requirements.
        unsafe { attr.write_bytes(0, 1) };
        // SAFETY: Zeroes are valid attributes; the type is transparent.
        unsafe { &mut *attr.cast::<Self>() }
    }

    pub(super) fn caps_mut(&mut self) -> &mut b::ib_qp_cap {
        &mut self.0.cap
    }

    /// Sets the state, which is the current one as well.
    pub(crate) fn set_state(&mut self, state: u32) -> &mut Self {
        self.0.qp_state = state;
        self.0.cur_qp_state = state;
        self
    }

    /// Sets whether the send queue is still draining.
    pub(crate) fn set_draining(&mut self, draining: bool) -> &mut Self {
        self.0.sq_draining = draining.into();
        self
    }

    /// Sets whether an event tells that the send queue has drained.
    pub(crate) fn set_notify_drained(&mut self, notify: bool) -> &mut Self {
        self.0.en_sqd_async_notify = notify.into();
        self
    }

    /// Sets what the peer may do.
    pub(crate) fn set_access(&mut self, access: u32) -> &mut Self {
        self.0.qp_access_flags = access as c_int;
        self
    }

    /// Sets the index of the partition key.
    pub(crate) fn set_pkey_index(&mut self, index: u16) -> &mut Self {
        self.0.pkey_index = index;
        self
    }

    /// Sets the number of the port.
    pub(crate) fn set_port(&mut self, port: u32) -> &mut Self {
        self.0.port_num = port;
        self
    }

    /// Sets the queue key.
    pub(crate) fn set_qkey(&mut self, qkey: u32) -> &mut Self {
        self.0.qkey = qkey;
        self
    }

    /// The path to the peer, to be filled in.
    pub(crate) fn path_mut(&mut self) -> &mut AhAttr {
        AhAttr::from_mut(&mut self.0.ah_attr)
    }

    /// Sets the payload of a full packet.
    pub(crate) fn set_path_mtu(&mut self, mtu: u32) -> &mut Self {
        self.0.path_mtu = mtu;
        self
    }

    /// Sets the code of the patience for an acknowledgment.
    pub(crate) fn set_timeout(&mut self, timeout: u8) -> &mut Self {
        self.0.timeout = timeout;
        self
    }

    /// Sets the tries after a time-out.
    pub(crate) fn set_retry_count(&mut self, count: u8) -> &mut Self {
        self.0.retry_cnt = count;
        self
    }

    /// Sets the tries after "receiver not ready".
    pub(crate) fn set_rnr_retry(&mut self, count: u8) -> &mut Self {
        self.0.rnr_retry = count;
        self
    }

    /// Sets the code of how long the peer shall wait when we are not ready.
    pub(crate) fn set_min_rnr_timer(&mut self, timer: u8) -> &mut Self {
        self.0.min_rnr_timer = timer;
        self
    }

    /// Sets the PSN expected next.
    pub(crate) fn set_rq_psn(&mut self, psn: u32) -> &mut Self {
        self.0.rq_psn = psn;
        self
    }

    /// Sets the PSN to be sent next.
    pub(crate) fn set_sq_psn(&mut self, psn: u32) -> &mut Self {
        self.0.sq_psn = psn;
        self
    }

    /// Sets the READs and atomics to have under way.
    pub(crate) fn set_max_rd_atomic(&mut self, max: u8) -> &mut Self {
        self.0.max_rd_atomic = max;
        self
    }

    /// Sets the READs and atomics the peer may have under way.
    pub(crate) fn set_max_dest_rd_atomic(&mut self, max: u8) -> &mut Self {
        self.0.max_dest_rd_atomic = max;
        self
    }

    /// Sets the number of the peer's queue pair.
    pub(crate) fn set_dest_qp_num(&mut self, qpn: u32) -> &mut Self {
        self.0.dest_qp_num = qpn;
        self
    }

    /// Reports that paths are in the migrated state.
    pub(crate) fn set_migrated(&mut self) -> &mut Self {
        self.0.path_mig_state = b::ib_mig_state_IB_MIG_MIGRATED;
        self
    }
}
