// SPDX-License-Identifier: GPL-2.0

//! Memory regions.

use super::{
    limits,
    pd::Consumer,
    Device,
    Provider, //
};
use crate::{
    datapath::{
        fast_region::FastRegion,
        region::{
            Memory,
            Mr, //
        },
    },
    kapi::{
        error::eopnotsupp,
        mem::{
            ReadOnly,
            ReadWrite, //
        },
        random,
        rdma::{
            self,
            Advice,
            BufferRegion,
            Demand,
            Details,
            DirectMap,
            LocalRange,
            PageList,
            Reregistration,
            SgList,
            UserRange,
            UserRegion, //
        },
        sync::SlowBurial,
    },
};
use kernel::{
    prelude::*,
    str::CStr,
    sync::{
        rcu,
        Arc, //
    },
};
use rrxe_proto::{
    Access,
    Key, //
};

/// Rights that regions know of.
const RIGHTS: Access = Access::from_bits(
    Access::LOCAL_WRITE.bits()
        | Access::REMOTE_WRITE.bits()
        | Access::REMOTE_READ.bits()
        | Access::REMOTE_ATOMIC.bits()
        | Access::MW_BIND.bits()
        | Access::ON_DEMAND.bits()
        | Access::HUGETLB.bits()
        | Access::FLUSH_GLOBAL.bits()
        | Access::FLUSH_PERSISTENT.bits()
        | Access::OPTIONAL.bits(),
);

/// Rights with which a region is written to, or may come to be.
const WRITING: Access = Access::from_bits(
    Access::LOCAL_WRITE.bits()
        | Access::REMOTE_WRITE.bits()
        | Access::REMOTE_ATOMIC.bits()
        | Access::MW_BIND.bits(),
);

/// The registration of a region, which can be found until it is ended.
pub(crate) struct Registration {
    device: Arc<Device>,
    region: Region,
}

/// What is registered.
enum Region {
    /// Memory that stays the same until it is registered anew: what stands under the key.
    Fixed(Key, SlowBurial<Mr>),
    /// Memory that is listed.
    Fast(Arc<FastRegion>),
}

impl rdma::MemoryRegion<Provider> for Registration {
    fn register(pd: &rdma::Pd<Provider>, region: &UserRegion) -> Result<Self> {
        let access = Access::from_bits(region.access);
        let memory = of_user(pd, access, region.range)?;
        Self::new(pd, access, region.range.iova, memory)
    }

    fn register_buffer(pd: &rdma::Pd<Provider>, region: &BufferRegion) -> Result<Self> {
        let access = Access::from_bits(region.access);
        check(access, region.length, region.iova)?;
        let memory = Arc::new(Memory::Buffer(region.map()?), GFP_KERNEL)?;
        Self::new(pd, access, region.iova, memory)
    }

    fn direct(pd: &rdma::Pd<Provider>, map: DirectMap, access: u32) -> Result<Self> {
        let access = Access::from_bits(access);
        // User processes have no way to all of the memory.
        if !RIGHTS.contains(access) || pd.consumer() != Consumer::Kernel {
            return Err(EINVAL);
        }
        Self::new(pd, access, 0, Arc::new(Memory::Direct(map), GFP_KERNEL)?)
    }

    fn advise(pd: &rdma::Pd<Provider>, advice: Advice, range: LocalRange) -> Result {
        let key = Key(range.lkey);
        let mr: Arc<Mr> = {
            let guard = rcu::read_lock();
            let mrs = pd.device().data().node().mrs();
            mrs.get(key.index(), &guard).ok_or(EFAULT)?.into()
        };
        let (start, length) = (range.start, range.length);
        match advice {
            Advice::Read => mr.prefetch::<ReadOnly>(key, pd.id(), start, length, Demand::Fault),
            Advice::Write => mr.prefetch::<ReadWrite>(key, pd.id(), start, length, Demand::Fault),
            Advice::ReadPresent => {
                mr.prefetch::<ReadOnly>(key, pd.id(), start, length, Demand::Peek)
            }
        }
    }

    fn fast(pd: &rdma::Pd<Provider>, max_pages: u32) -> Result<Self> {
        if max_pages > limits::MAX_FAST_PAGES || pd.consumer() != Consumer::Kernel {
            return Err(EINVAL);
        }
        let device = pd.device().data().clone();
        let table = device.node().fast_regions();
        let place = table.reserve(limits::FAST_MR_INDICES, GFP_KERNEL)?;
        let region = FastRegion::new(place.id(), pd.id(), PageList::new(max_pages)?)?;
        place.publish(region.clone())?;
        Ok(Self {
            device,
            region: Region::Fast(region),
        })
    }

    fn list(&self, list: &SgList<'_>) -> Result<c_int> {
        match &self.region {
            Region::Fixed(..) => Err(EINVAL),
            Region::Fast(region) => region.list(list),
        }
    }

    fn describe(&self, details: &mut Details) {
        match &self.region {
            Region::Fixed(key, _) => {
                let Some(mr) = self.mr(*key) else { return };
                details
                    .word(c"memory", kind(mr.memory()))
                    .hex(c"iova", mr.bounds().va)
                    .hex(c"access", mr.bounds().access.bits())
                    .number(c"windows", mr.windows());
                if let Memory::Pinned(umem) = &**mr.memory() {
                    details.number(c"extents", umem.extents() as u64);
                }
            }
            Region::Fast(region) => {
                details.word(c"memory", c"listed");
                if let Some(registration) = region.registration() {
                    details
                        .hex(c"key", registration.key.0)
                        .hex(c"iova", registration.va)
                        .hex(c"access", registration.access.bits());
                }
            }
        }
    }

    fn lkey(&self) -> u32 {
        self.key().0
    }

    fn rkey(&self) -> u32 {
        self.key().0
    }

    fn deregister(self) {
        let node = self.device.node();
        // Waits until no one uses what he found, then lets go of the pages.
        match self.region {
            Region::Fixed(key, _) => drop(node.mrs().remove(key.index())),
            Region::Fast(region) => drop(node.fast_regions().remove(region.index())),
        }
    }

    fn abandon(self) {
        match self.region {
            Region::Fixed(key, burial) => {
                let (mrs, undertaker) = (self.device.node().mrs(), self.device.undertaker());
                mrs.hand_over(key.index(), undertaker, burial);
            }
            Region::Fast(_) => self.deregister(),
        }
    }

    fn retire(&self) -> Result {
        match &self.region {
            Region::Fixed(key, _) => self.mr(*key).ok_or(ENOENT)?.retire(),
            Region::Fast(_) => Ok(()),
        }
    }

    fn reregister(&self, change: &Reregistration<'_, Provider>) -> Result {
        let Region::Fixed(key, _) = self.region else {
            return Err(eopnotsupp());
        };
        let old = self.mr(key).ok_or(ENOENT)?;
        let bounds = old.bounds();
        let access = change.access.map_or(bounds.access, Access::from_bits);
        let (iova, memory) = match change.range {
            Some(range) => (range.iova, of_user(change.pd, access, range)?),
            None => (bounds.va, kept(&old, access)?),
        };
        let new = Mr::new(key, change.pd.id(), access, iova, memory)?;
        let new = Arc::new(new, GFP_KERNEL)?;
        // Windows show the memory with the rights that it had.
        old.retire()?;
        self.device.node().mrs().replace(key.index(), new).map(drop)
    }
}

impl Registration {
    /// Makes `memory`, whose first byte is called `iova`, known. May sleep.
    fn new(
        pd: &rdma::Pd<Provider>,
        access: Access,
        iova: u64,
        memory: Arc<Memory>,
    ) -> Result<Self> {
        let device = pd.device().data().clone();
        let reservation = device
            .node()
            .mrs()
            .reserve(limits::MR_INDICES, GFP_KERNEL)?;
        // The index comes again some day; this makes it unlikely that a stale key fits then.
        let [tag] = random::bytes();
        let key = Key::new(reservation.id(), tag);
        let burial = SlowBurial::new()?;
        let mr = Arc::new(Mr::new(key, pd.id(), access, iova, memory)?, GFP_KERNEL)?;
        reservation.publish(mr)?;
        Ok(Self {
            device,
            region: Region::Fixed(key, burial),
        })
    }

    /// The region under `key`, as it is now.
    fn mr(&self, key: Key) -> Option<Arc<Mr>> {
        let guard = rcu::read_lock();
        let mrs = self.device.node().mrs();
        mrs.get(key.index(), &guard).map(Arc::from)
    }

    /// The key it was made with. The consumer chooses the tag of one of listed memory.
    fn key(&self) -> Key {
        match &self.region {
            Region::Fixed(key, _) => *key,
            Region::Fast(region) => Key::new(region.index(), 0),
        }
    }
}

/// Checks that there may be a region with the rights `access`, of `length` bytes of which the first is
/// called `iova`.
fn check(access: Access, length: u64, iova: u64) -> Result {
    if !RIGHTS.contains(access) {
        return Err(eopnotsupp());
    }
    // The last byte has an address as well.
    let last = length.checked_sub(1).ok_or(EINVAL)?;
    iova.checked_add(last).map(drop).ok_or(EINVAL)
}

/// Memory of the calling process, for a region with the rights `access`. May sleep.
fn of_user(pd: &rdma::Pd<Provider>, access: Access, range: UserRange) -> Result<Arc<Memory>> {
    check(access, range.length, range.iova)?;
    let region = UserRegion {
        range,
        access: access.bits(),
    };
    let memory = match access.contains(Access::ON_DEMAND) {
        true if region.is_whole() => Memory::Implicit(region.page_whole(pd)?),
        true => Memory::Paged(region.page(pd)?),
        false => Memory::Pinned(region.pin(pd)?),
    };
    if access.contains(Access::FLUSH_PERSISTENT) && !memory.is_persistent() {
        return Err(EINVAL);
    }
    Ok(Arc::new(memory, GFP_KERNEL)?)
}

/// The memory of a region, for one with the rights `access`.
///
/// `EACCES` if these are to write to memory that was not registered for that, and may belong to
/// somebody else; `EOPNOTSUPP` if it would have to be pinned for them, or not any more.
fn kept(mr: &Mr, access: Access) -> Result<Arc<Memory>> {
    let memory = mr.memory();
    if !RIGHTS.contains(access) || access.contains(Access::ON_DEMAND) != memory.is_paged() {
        return Err(eopnotsupp());
    }
    if access.intersects(WRITING) && !memory.is_writable() {
        return Err(EACCES);
    }
    if access.contains(Access::FLUSH_PERSISTENT) && !memory.is_persistent() {
        return Err(EINVAL);
    }
    Ok(memory.clone())
}

/// What the memory of a region is, in a word.
fn kind(memory: &Memory) -> &'static CStr {
    match memory {
        Memory::Pinned(_) => c"pinned",
        Memory::Paged(_) => c"paged",
        Memory::Implicit(_) => c"implicit",
        Memory::Buffer(_) => c"dma-buf",
        Memory::Direct(_) => c"direct",
    }
}
