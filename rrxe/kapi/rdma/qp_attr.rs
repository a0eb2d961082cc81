// SPDX-License-Identifier: GPL-2.0

//! Attributes of queue pairs, as `modify_qp` and `query_qp` move them.

use super::{
    AccessFlags,
    AhAttr,
    port::Mtu, //
};
use crate::kapi::bindings as b;
use core::ffi::c_int;
use kernel::prelude::*;

/// State of a queue pair ([`enum ib_qp_state`]).
///
/// [`enum ib_qp_state`]: srctree/include/rdma/ib_verbs.h
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub(crate) enum QpState {
    /// Newly made: nothing is sent or received.
    Reset = b::ib_qp_state_IB_QPS_RESET,
    /// Receives may be posted.
    Init = b::ib_qp_state_IB_QPS_INIT,
    /// Ready to receive.
    Rtr = b::ib_qp_state_IB_QPS_RTR,
    /// Ready to send as well.
    Rts = b::ib_qp_state_IB_QPS_RTS,
    /// The send queue drains.
    Sqd = b::ib_qp_state_IB_QPS_SQD,
    /// The send queue has failed (unreliable types).
    Sqe = b::ib_qp_state_IB_QPS_SQE,
    /// Failed.
    Err = b::ib_qp_state_IB_QPS_ERR,
}

impl TryFrom<b::ib_qp_state> for QpState {
    type Error = Error;

    fn try_from(value: b::ib_qp_state) -> Result<Self> {
        [
            Self::Reset,
            Self::Init,
            Self::Rtr,
            Self::Rts,
            Self::Sqd,
            Self::Sqe,
            Self::Err,
        ]
        .into_iter()
        .find(|&state| state as u32 == value)
        .ok_or(EINVAL)
    }
}

/// A set of attributes ([`enum ib_qp_attr_mask`]).
///
/// [`enum ib_qp_attr_mask`]: srctree/include/rdma/ib_verbs.h
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct AttrMask(u32);

macro_rules! attr_masks {
    ($($(#[$doc:meta])* $name:ident = $raw:ident;)*) => {
        impl AttrMask {
            $(
                $(#[$doc])*
                pub(crate) const $name: Self = Self(b::$raw);
            )*
        }
    };
}

attr_masks! {
    /// The state to go to.
    STATE = ib_qp_attr_mask_IB_QP_STATE;
    /// The state the caller believes the queue pair to be in.
    CUR_STATE = ib_qp_attr_mask_IB_QP_CUR_STATE;
    /// Whether to tell when the send queue has drained.
    EN_SQD_ASYNC_NOTIFY = ib_qp_attr_mask_IB_QP_EN_SQD_ASYNC_NOTIFY;
    /// What the peer may do.
    ACCESS_FLAGS = ib_qp_attr_mask_IB_QP_ACCESS_FLAGS;
    /// The partition key.
    PKEY_INDEX = ib_qp_attr_mask_IB_QP_PKEY_INDEX;
    /// The port.
    PORT = ib_qp_attr_mask_IB_QP_PORT;
    /// The queue key.
    QKEY = ib_qp_attr_mask_IB_QP_QKEY;
    /// The path to the peer.
    AV = ib_qp_attr_mask_IB_QP_AV;
    /// Payload of a full packet.
    PATH_MTU = ib_qp_attr_mask_IB_QP_PATH_MTU;
    /// Patience for an acknowledgment.
    TIMEOUT = ib_qp_attr_mask_IB_QP_TIMEOUT;
    /// Tries after a time-out.
    RETRY_CNT = ib_qp_attr_mask_IB_QP_RETRY_CNT;
    /// Tries after "receiver not ready".
    RNR_RETRY = ib_qp_attr_mask_IB_QP_RNR_RETRY;
    /// First PSN to expect.
    RQ_PSN = ib_qp_attr_mask_IB_QP_RQ_PSN;
    /// READs and atomics to have under way.
    MAX_QP_RD_ATOMIC = ib_qp_attr_mask_IB_QP_MAX_QP_RD_ATOMIC;
    /// The alternate path.
    ALT_PATH = ib_qp_attr_mask_IB_QP_ALT_PATH;
    /// How long the peer shall wait when we are not ready.
    MIN_RNR_TIMER = ib_qp_attr_mask_IB_QP_MIN_RNR_TIMER;
    /// First PSN to send.
    SQ_PSN = ib_qp_attr_mask_IB_QP_SQ_PSN;
    /// READs and atomics the peer may have under way.
    MAX_DEST_RD_ATOMIC = ib_qp_attr_mask_IB_QP_MAX_DEST_RD_ATOMIC;
    /// State of path migration.
    PATH_MIG_STATE = ib_qp_attr_mask_IB_QP_PATH_MIG_STATE;
    /// Sizes of the queues.
    CAP = ib_qp_attr_mask_IB_QP_CAP;
    /// Number of the peer's queue pair.
    DEST_QPN = ib_qp_attr_mask_IB_QP_DEST_QPN;
    /// Limit of the rate.
    RATE_LIMIT = ib_qp_attr_mask_IB_QP_RATE_LIMIT;
}

impl AttrMask {
    pub(super) fn from_raw(mask: c_int) -> Self {
        Self(mask as u32)
    }

    /// The bits, as in C.
    pub(crate) const fn bits(self) -> u32 {
        self.0
    }

    /// Whether all of `other` is in the set.
    pub(crate) const fn contains(self, other: Self) -> bool {
        self.0 & other.0 == other.0
    }

    /// The attributes in either set.
    pub(crate) const fn union(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// The attributes that are not in `other`.
    pub(crate) const fn without(self, other: Self) -> Self {
        Self(self.0 & !other.0)
    }

    /// Whether the set is empty.
    pub(crate) const fn is_empty(self) -> bool {
        self.0 == 0
    }
}

/// A change of a queue pair: each attribute is there only if the caller gave it.
///
/// What can be malformed makes its getter fail with `EINVAL`; sizes and ranges that depend
/// on the driver are the driver's to check.
pub(crate) struct QpModify<'a> {
    attr: &'a b::ib_qp_attr,
    mask: AttrMask,
}

impl<'a> QpModify<'a> {
    /// # Safety
    ///
    /// `attr` must be valid and unchanging during `'a`.
    pub(super) unsafe fn from_raw(attr: *const b::ib_qp_attr, mask: c_int) -> Self {
        Self {
            // SAFETY: By the requirements.
            attr: unsafe { &*attr },
            mask: AttrMask::from_raw(mask),
        }
    }

    /// Which attributes the caller gave.
    pub(crate) fn mask(&self) -> AttrMask {
        self.mask
    }

    fn given<T>(&self, bit: AttrMask, value: T) -> Option<T> {
        self.mask.contains(bit).then_some(value)
    }

    /// The state to go to.
    pub(crate) fn state(&self) -> Result<Option<QpState>> {
        self.given(AttrMask::STATE, self.attr.qp_state)
            .map(QpState::try_from)
            .transpose()
    }

    /// The state the caller believes the queue pair to be in.
    pub(crate) fn current_state(&self) -> Result<Option<QpState>> {
        self.given(AttrMask::CUR_STATE, self.attr.cur_qp_state)
            .map(QpState::try_from)
            .transpose()
    }

    /// Whether to raise an event when the send queue has drained.
    pub(crate) fn notify_drained(&self) -> Option<bool> {
        self.given(
            AttrMask::EN_SQD_ASYNC_NOTIFY,
            self.attr.en_sqd_async_notify != 0,
        )
    }

    /// What the peer may do.
    pub(crate) fn access(&self) -> Option<AccessFlags> {
        self.given(
            AttrMask::ACCESS_FLAGS,
            AccessFlags::from_raw(self.attr.qp_access_flags),
        )
    }

    /// Index of the partition key.
    pub(crate) fn pkey_index(&self) -> Option<u16> {
        self.given(AttrMask::PKEY_INDEX, self.attr.pkey_index)
    }

    /// Number of the port; the core has checked it.
    pub(crate) fn port(&self) -> Option<u32> {
        self.given(AttrMask::PORT, self.attr.port_num)
    }

    /// The queue key.
    pub(crate) fn qkey(&self) -> Option<u32> {
        self.given(AttrMask::QKEY, self.attr.qkey)
    }

    /// The path to the peer.
    pub(crate) fn path(&self) -> Option<&'a AhAttr> {
        self.given(AttrMask::AV, AhAttr::from_ref(&self.attr.ah_attr))
    }

    /// Payload of a full packet.
    pub(crate) fn path_mtu(&self) -> Result<Option<Mtu>> {
        self.given(AttrMask::PATH_MTU, self.attr.path_mtu)
            .map(Mtu::try_from)
            .transpose()
    }

    /// Patience for an acknowledgment: 4.096 us * 2^n, 0 is for ever.
    pub(crate) fn timeout(&self) -> Option<u8> {
        self.given(AttrMask::TIMEOUT, self.attr.timeout)
    }

    /// Tries after a time-out.
    pub(crate) fn retry_count(&self) -> Option<u8> {
        self.given(AttrMask::RETRY_CNT, self.attr.retry_cnt)
    }

    /// Tries after "receiver not ready", 7 is without end.
    pub(crate) fn rnr_retry(&self) -> Option<u8> {
        self.given(AttrMask::RNR_RETRY, self.attr.rnr_retry)
    }

    /// Code of how long the peer shall wait when we are not ready, below 32.
    pub(crate) fn min_rnr_timer(&self) -> Option<u8> {
        self.given(AttrMask::MIN_RNR_TIMER, self.attr.min_rnr_timer)
    }

    /// First PSN to expect, 24 bits.
    pub(crate) fn rq_psn(&self) -> Option<u32> {
        self.given(AttrMask::RQ_PSN, self.attr.rq_psn)
    }

    /// First PSN to send, 24 bits.
    pub(crate) fn sq_psn(&self) -> Option<u32> {
        self.given(AttrMask::SQ_PSN, self.attr.sq_psn)
    }

    /// READs and atomics to have under way.
    pub(crate) fn max_rd_atomic(&self) -> Option<u8> {
        self.given(AttrMask::MAX_QP_RD_ATOMIC, self.attr.max_rd_atomic)
    }

    /// READs and atomics the peer may have under way.
    pub(crate) fn max_dest_rd_atomic(&self) -> Option<u8> {
        self.given(AttrMask::MAX_DEST_RD_ATOMIC, self.attr.max_dest_rd_atomic)
    }

    /// Number of the peer's queue pair, not checked to have 24 bits.
    pub(crate) fn dest_qp_num(&self) -> Option<u32> {
        self.given(AttrMask::DEST_QPN, self.attr.dest_qp_num)
    }

    /// Whether paths are in the migrated state, the only one without path migration.
    pub(crate) fn is_migrated(&self) -> Option<bool> {
        self.given(
            AttrMask::PATH_MIG_STATE,
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
    pub(crate) fn set_state(&mut self, state: QpState) -> &mut Self {
        self.0.qp_state = state as u32;
        self.0.cur_qp_state = state as u32;
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
    pub(crate) fn set_access(&mut self, access: AccessFlags) -> &mut Self {
        self.0.qp_access_flags = access.into_raw();
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
    pub(crate) fn set_path_mtu(&mut self, mtu: Mtu) -> &mut Self {
        self.0.path_mtu = mtu as u32;
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
