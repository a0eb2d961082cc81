// SPDX-License-Identifier: GPL-2.0

//! Memory regions.

use super::{
    limits,
    pd::PdId,
    Device,
    Provider, //
};
use crate::kapi::{
    error::eopnotsupp,
    random,
    rdma::{
        self,
        Chunks,
        Umem,
        UserRegion, //
    },
};
use kernel::{
    prelude::*,
    sync::{
        rcu,
        Arc,
        ArcBorrow, //
    },
};
use rrxe_proto::{
    Access,
    Key, //
};

/// Memory that work requests and peers may use.
pub(crate) struct Mr {
    key: Key,
    pd: PdId,
    access: Access,
    /// What the consumer and its peers call the first byte.
    iova: u64,
    memory: Umem,
}

/// Why memory may not be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fault {
    /// There is no memory with this key.
    Key,
    /// The memory and its user are of different protection domains.
    Domain,
    /// The memory may not be used in this way.
    Rights,
    /// The range is not within the memory.
    Range,
}

/// Rights that regions know of. Windows and paging on demand are not there yet.
const RIGHTS: Access = Access::from_bits(
    Access::LOCAL_WRITE.bits()
        | Access::REMOTE_WRITE.bits()
        | Access::REMOTE_READ.bits()
        | Access::REMOTE_ATOMIC.bits()
        | Access::OPTIONAL.bits(),
);

impl Mr {
    /// Finds the memory with `key`. Any context; see [`RcuTable::get`] on how long it lasts.
    ///
    /// [`RcuTable::get`]: crate::kapi::sync::RcuTable::get
    pub(crate) fn find<'g>(
        device: &'g Device,
        key: Key,
        guard: &'g rcu::Guard,
    ) -> Result<ArcBorrow<'g, Self>, Fault> {
        device
            .mrs
            .get(key.index(), guard)
            .filter(|mr| mr.key == key)
            .ok_or(Fault::Key)
    }

    /// Returns the range of `length` bytes at `iova`, to be used as `access` says by an object
    /// of the protection domain `pd`. Any context.
    ///
    /// To write into it, `access` has to have a right to do so in it: memory without may be
    /// shared with whoever the process has it from.
    pub(crate) fn range(
        &self,
        pd: PdId,
        access: Access,
        iova: u64,
        length: u32,
    ) -> Result<Chunks<'_>, Fault> {
        if self.pd != pd {
            return Err(Fault::Domain);
        }
        if !self.access.contains(access) {
            return Err(Fault::Rights);
        }
        iova.checked_sub(self.iova)
            .and_then(|offset| usize::try_from(offset).ok())
            .zip(usize::try_from(length).ok())
            .and_then(|(offset, length)| self.memory.chunks(offset, length))
            .ok_or(Fault::Range)
    }
}

/// The registration of an [`Mr`]: ends its being found.
pub(crate) struct Registration {
    device: Arc<Device>,
    key: Key,
}

impl rdma::MemoryRegion<Provider> for Registration {
    fn register(pd: &rdma::Pd<Provider>, region: &UserRegion) -> Result<Self> {
        let access = Access::from_bits(region.access);
        if !RIGHTS.contains(access) {
            return Err(eopnotsupp());
        }
        // The last byte has an address as well.
        region
            .length
            .checked_sub(1)
            .and_then(|last| region.iova.checked_add(last))
            .ok_or(EINVAL)?;
        let memory = region.pin(pd)?;

        let device = pd.device().data().clone();
        let reservation = device.mrs.reserve(limits::MR_INDICES, GFP_KERNEL)?;
        // The index comes again some day; this makes it unlikely that a stale key fits then.
        let [tag] = random::bytes();
        let key = Key(reservation.id() << 8 | u32::from(tag));
        let mr = Arc::new(
            Mr {
                key,
                pd: pd.id(),
                access,
                iova: region.iova,
                memory,
            },
            GFP_KERNEL,
        )?;
        reservation.publish(mr);
        Ok(Self { device, key })
    }

    fn lkey(&self) -> u32 {
        self.key.0
    }

    fn rkey(&self) -> u32 {
        self.key.0
    }
}

impl Drop for Registration {
    fn drop(&mut self) {
        // Waits until no one uses what he found, then lets go of the pages.
        self.device.mrs.remove(self.key.index());
    }
}
