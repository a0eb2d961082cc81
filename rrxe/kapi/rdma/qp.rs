// SPDX-License-Identifier: GPL-2.0

//! Queue pairs.

use super::{
    event::{
        EventOwner,
        QpEvents, //
    },
    object::{
        Cq,
        Pd,
        Qp,
        Srq, //
    },
    qp_attr::{
        QpAttr,
        QpModify, //
    },
    wr::{
        ReceiveList,
        SendList, //
    },
    Details,
    Provider,
    Udata, //
};
use crate::kapi::bindings as b;
use core::marker::PhantomData;
use kernel::{
    error::from_result,
    prelude::*, //
};

/// Type of a queue pair ([`enum ib_qp_type`]).
///
/// [`enum ib_qp_type`]: srctree/include/rdma/ib_verbs.h
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum QpType {
    /// Subnet management, queue pair 0.
    Smi,
    /// General services, queue pair 1.
    Gsi,
    /// Reliable connection.
    Rc,
    /// Unreliable connection.
    Uc,
    /// Unreliable datagram.
    Ud,
    /// Any other type.
    Other(u32),
}

impl From<b::ib_qp_type> for QpType {
    fn from(value: b::ib_qp_type) -> Self {
        match value {
            b::ib_qp_type_IB_QPT_SMI => Self::Smi,
            b::ib_qp_type_IB_QPT_GSI => Self::Gsi,
            b::ib_qp_type_IB_QPT_RC => Self::Rc,
            b::ib_qp_type_IB_QPT_UC => Self::Uc,
            b::ib_qp_type_IB_QPT_UD => Self::Ud,
            other => Self::Other(other),
        }
    }
}

/// Sizes of a queue pair's two queues.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct QpCaps {
    /// Work requests that fit into the send queue.
    pub(crate) max_send_wr: u32,
    /// Work requests that fit into the receive queue.
    pub(crate) max_recv_wr: u32,
    /// Scatter/gather entries of a send request.
    pub(crate) max_send_sge: u32,
    /// Scatter/gather entries of a receive request.
    pub(crate) max_recv_sge: u32,
    /// Bytes of payload that a send request can hold itself.
    pub(crate) max_inline_data: u32,
}

impl QpCaps {
    fn from_raw(cap: &b::ib_qp_cap) -> Self {
        Self {
            max_send_wr: cap.max_send_wr,
            max_recv_wr: cap.max_recv_wr,
            max_send_sge: cap.max_send_sge,
            max_recv_sge: cap.max_recv_sge,
            max_inline_data: cap.max_inline_data,
        }
    }

    fn write_to(self, cap: &mut b::ib_qp_cap) {
        cap.max_send_wr = self.max_send_wr;
        cap.max_recv_wr = self.max_recv_wr;
        cap.max_send_sge = self.max_send_sge;
        cap.max_recv_sge = self.max_recv_sge;
        cap.max_inline_data = self.max_inline_data;
    }
}

/// What the creator of a queue pair asks for.
///
/// # Invariants
///
/// The queues that `attr` names are objects of `P` and outlive `'a`.
pub(crate) struct QpInit<'a, P: Provider> {
    attr: &'a mut b::ib_qp_init_attr,
    _provider: PhantomData<P>,
}

impl<P: Provider> QpInit<'_, P> {
    /// The type of queue pair.
    pub(crate) fn qp_type(&self) -> QpType {
        self.attr.qp_type.into()
    }

    /// The sizes asked for.
    pub(crate) fn caps(&self) -> QpCaps {
        QpCaps::from_raw(&self.attr.cap)
    }

    /// Reports the sizes that the queue pair really has.
    pub(crate) fn set_caps(&mut self, caps: QpCaps) {
        caps.write_to(&mut self.attr.cap);
    }

    /// Whether each send request makes a completion, asked for or not.
    pub(crate) fn signal_all(&self) -> bool {
        self.attr.sq_sig_type == b::ib_sig_type_IB_SIGNAL_ALL_WR
    }

    /// Special wishes: bits of [`enum ib_qp_create_flags`].
    ///
    /// [`enum ib_qp_create_flags`]: srctree/include/rdma/ib_verbs.h
    pub(crate) fn create_flags(&self) -> u32 {
        self.attr.create_flags
    }

    /// Where receives come from, if they are shared.
    pub(crate) fn srq(&self) -> Option<&Srq<P>> {
        let srq = self.attr.srq;
        // SAFETY: Not null, and as the type invariant says.
        (!srq.is_null()).then(|| unsafe { Srq::from_raw(srq) })
    }

    /// Where sends complete. Fails with `EINVAL` if the creator named none.
    pub(crate) fn send_cq(&self) -> Result<&Cq<P>> {
        // SAFETY: Null, or as the type invariant says.
        unsafe { Self::cq(self.attr.send_cq) }
    }

    /// Where receives complete. Fails with `EINVAL` if the creator named none.
    pub(crate) fn recv_cq(&self) -> Result<&Cq<P>> {
        // SAFETY: Null, or as the type invariant says.
        unsafe { Self::cq(self.attr.recv_cq) }
    }

    /// # Safety
    ///
    /// `cq` must be null or a queue of `P` that outlives `'c`.
    unsafe fn cq<'c>(cq: *mut b::ib_cq) -> Result<&'c Cq<P>> {
        if cq.is_null() {
            return Err(EINVAL);
        }
        // SAFETY: By the requirements.
        Ok(unsafe { Cq::from_raw(cq) })
    }
}

/// The driver's part of a queue pair.
pub(crate) trait QueuePair<P: Provider<Qp = Self>>: Sized + Send + Sync {
    /// Makes a queue pair on `pd`, in state RESET.
    ///
    /// The sizes it really gets are reported with [`QpInit::set_caps`]; they must not be
    /// smaller than what was asked for. `udata` is `None` for a user inside the kernel.
    ///
    /// Process context, may sleep.
    fn create(
        pd: &Pd<P>,
        init: &mut QpInit<'_, P>,
        events: QpEvents,
        udata: Option<&mut Udata<'_>>,
    ) -> Result<Self>;

    /// Number of the queue pair, 24 bits.
    fn number(&self) -> u32;

    /// Whether each send request makes a completion, asked for or not.
    fn signals_all(&self) -> bool;

    /// Changes state and attributes, or nothing if it fails.
    ///
    /// Process context, may sleep. The RDMA core does not keep two calls apart.
    fn modify(&self, change: &QpModify<'_>) -> Result;

    /// Reports state and attributes into `attr`, and returns the sizes.
    ///
    /// `mask` says what the caller wants to know, as bits of `enum ib_qp_attr_mask`; more may
    /// be reported.
    fn query(&self, attr: &mut QpAttr, mask: u32) -> Result<QpCaps>;

    /// Looks at the send queue: user space has put requests there.
    ///
    /// Process context.
    fn doorbell(&self) -> Result;

    /// Takes the requests of a user inside the kernel, up to the first that it refuses. Any context.
    ///
    /// # Errors
    ///
    /// `EOPNOTSUPP` for the queue pair of a user process, `EINVAL` for a request that makes no sense
    /// or in a state in which none may be posted, `ENOMEM` if the queue is full.
    fn post_send(&self, requests: &mut SendList<P>) -> Result;

    /// Takes the requests of a user inside the kernel, up to the first that it refuses. Any context.
    ///
    /// # Errors
    ///
    /// Those of [`post_send`](Self::post_send).
    fn post_receive(&self, requests: &mut ReceiveList) -> Result;

    /// Attaches a datagram queue pair to the multicast group `mgid`. May sleep.
    ///
    /// # Errors
    ///
    /// `EEXIST` if it is attached already: the core counts attachments.
    fn attach(&self, mgid: [u8; 16]) -> Result;

    /// Detaches a datagram queue pair from the multicast group `mgid`. May sleep. The core has it done
    /// for all attachments before the queue pair is destroyed.
    ///
    /// # Errors
    ///
    /// `EINVAL` if it is not attached.
    fn detach(&self, mgid: [u8; 16]) -> Result;

    /// Has the tally `number` count from now on what happens to the queue pair, or none. On return
    /// the one before does not any more. May sleep.
    fn bind_tally(&self, number: Option<u32>);

    /// Adds what there is to tell of it to whoever looks on. Process context, may sleep.
    fn describe(&self, details: &mut Details);

    /// Tears the queue pair down; no operation on it runs any more. May sleep.
    ///
    /// On return nothing may refer to its completion queues and protection domain.
    fn destroy(self) {}
}

/// The operation `create_qp`.
///
/// # Safety
///
/// To be called by the RDMA core, as [`ops`](super::ops) says.
pub(super) unsafe extern "C" fn create<P: Provider>(
    qp: *mut b::ib_qp,
    attr: *mut b::ib_qp_init_attr,
    udata: *mut b::ib_udata,
) -> c_int {
    // INVARIANT: The core holds the queues while it creates the queue pair.
    let mut init = QpInit::<P> {
        // SAFETY: The core passes a valid structure that it does not touch meanwhile.
        attr: unsafe { &mut *attr },
        _provider: PhantomData,
    };
    let make = |pd: &Pd<P>, mut udata: Option<Udata<'_>>| {
        // SAFETY: `qp` stays valid until its destroy operation, and so does the owner.
        let owner = unsafe { EventOwner::new(qp) }?;
        let data = P::Qp::create(pd, &mut init, owner.handle(), udata.as_mut())?;
        let number = data.number();
        // SAFETY: The queue pair is ours until we return.
        unsafe { (*qp).qp_num = number };
        Ok((data, (owner, Udata::into_mappings(udata))))
    };
    // SAFETY: This is the create operation.
    unsafe { Qp::<P>::create(qp, udata, make) }
}

/// The operation `destroy_qp`.
///
/// # Safety
///
/// To be called by the RDMA core, as [`ops`](super::ops) says.
pub(super) unsafe extern "C" fn destroy<P: Provider>(
    qp: *mut b::ib_qp,
    _udata: *mut b::ib_udata,
) -> c_int {
    // SAFETY: This is the destroy operation.
    unsafe { Qp::<P>::destroy(qp, P::Qp::destroy) };
    0
}

/// The operation `modify_qp`.
///
/// # Safety
///
/// To be called by the RDMA core, as [`ops`](super::ops) says.
pub(super) unsafe extern "C" fn modify<P: Provider>(
    qp: *mut b::ib_qp,
    attr: *mut b::ib_qp_attr,
    mask: c_int,
    _udata: *mut b::ib_udata,
) -> c_int {
    from_result(|| {
        // SAFETY: The core passes a live queue pair.
        let qp = unsafe { Qp::<P>::from_raw(qp) };
        // SAFETY: The core passes valid attributes that it does not touch meanwhile.
        let change = unsafe { QpModify::from_raw(attr, mask) };
        qp.modify(&change)?;
        Ok(0)
    })
}

/// The operation `query_qp`.
///
/// # Safety
///
/// To be called by the RDMA core, as [`ops`](super::ops) says.
pub(super) unsafe extern "C" fn query<P: Provider>(
    qp: *mut b::ib_qp,
    attr: *mut b::ib_qp_attr,
    mask: c_int,
    init: *mut b::ib_qp_init_attr,
) -> c_int {
    from_result(|| {
        // SAFETY: The core passes a live queue pair.
        let object = unsafe { Qp::<P>::from_raw(qp) };
        // SAFETY: The core passes a place for attributes that it does not touch meanwhile.
        let attr = unsafe { QpAttr::clear(attr) };
        let caps = object.query(attr, mask as u32)?;
        caps.write_to(attr.caps_mut());

        // SAFETY: The core passes a place for a structure. These members of a live queue pair do
        // not change.
        unsafe { b::helpers::ib_qp_describe(qp, init) };
        // SAFETY: As above; it has been filled in completely.
        let init = unsafe { &mut *init };
        caps.write_to(&mut init.cap);
        init.sq_sig_type = if object.signals_all() {
            b::ib_sig_type_IB_SIGNAL_ALL_WR
        } else {
            b::ib_sig_type_IB_SIGNAL_REQ_WR
        };
        Ok(0)
    })
}

/// The operation `post_send`.
///
/// A user process rings the doorbell with an empty list: its requests are in the ring.
///
/// # Safety
///
/// To be called by the RDMA core, as [`ops`](super::ops) says.
pub(super) unsafe extern "C" fn post_send<P: Provider>(
    qp: *mut b::ib_qp,
    list: *const b::ib_send_wr,
    bad: *mut *const b::ib_send_wr,
) -> c_int {
    from_result(|| {
        // SAFETY: The core passes a live queue pair.
        let object = unsafe { Qp::<P>::from_raw(qp) };
        // SAFETY: The type does not change.
        let qp_type = unsafe { (*qp).qp_type };
        // SAFETY: The core passes a list that stays valid during the call.
        let mut requests = unsafe { SendList::new(list, qp_type.into()) };
        let posted = if list.is_null() {
            object.doorbell()
        } else {
            object.post_send(&mut requests)
        };
        if posted.is_err() {
            // SAFETY: The core passes a valid place for the first request not posted.
            unsafe { bad.write(requests.first()) };
        }
        posted.map(|()| 0)
    })
}

/// The operation `post_recv`.
///
/// # Safety
///
/// To be called by the RDMA core, as [`ops`](super::ops) says.
pub(super) unsafe extern "C" fn post_recv<P: Provider>(
    qp: *mut b::ib_qp,
    list: *const b::ib_recv_wr,
    bad: *mut *const b::ib_recv_wr,
) -> c_int {
    from_result(|| {
        // SAFETY: The core passes a live queue pair.
        let qp = unsafe { Qp::<P>::from_raw(qp) };
        // SAFETY: The core passes a list that stays valid during the call.
        let mut requests = unsafe { ReceiveList::new(list) };
        let posted = qp.post_receive(&mut requests);
        if posted.is_err() {
            // SAFETY: The core passes a valid place for the first request not posted.
            unsafe { bad.write(requests.first()) };
        }
        posted.map(|()| 0)
    })
}

/// The operation `attach_mcast`.
///
/// # Safety
///
/// To be called by the RDMA core, as [`ops`](super::ops) says.
pub(super) unsafe extern "C" fn attach<P: Provider>(
    qp: *mut b::ib_qp,
    mgid: *mut b::ib_gid,
    _mlid: u16,
) -> c_int {
    // SAFETY: By the requirements.
    unsafe { with_group::<P>(qp, mgid, P::Qp::attach) }
}

/// The operation `detach_mcast`.
///
/// # Safety
///
/// To be called by the RDMA core, as [`ops`](super::ops) says.
pub(super) unsafe extern "C" fn detach<P: Provider>(
    qp: *mut b::ib_qp,
    mgid: *mut b::ib_gid,
    _mlid: u16,
) -> c_int {
    // SAFETY: By the requirements.
    unsafe { with_group::<P>(qp, mgid, P::Qp::detach) }
}

/// Changes the membership of a queue pair in a group.
///
/// # Safety
///
/// The arguments must be those of an operation on a live queue pair.
unsafe fn with_group<P: Provider>(
    qp: *mut b::ib_qp,
    mgid: *mut b::ib_gid,
    change: fn(&P::Qp, [u8; 16]) -> Result,
) -> c_int {
    from_result(|| {
        // SAFETY: The core passes a live queue pair.
        let qp = unsafe { Qp::<P>::from_raw(qp) };
        // SAFETY: The core passes a valid GID.
        let mgid = unsafe { &*mgid };
        // SAFETY: All bytes of the union are initialized.
        change(qp, *unsafe { mgid.raw.as_ref() })?;
        Ok(0)
    })
}
