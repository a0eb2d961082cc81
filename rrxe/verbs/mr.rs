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
            Demand,
            Details,
            DirectMap,
            LocalRange,
            PageList,
            SgList,
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

/// The registration of a region, which can be found until it is ended.
pub(crate) struct Registration {
    device: Arc<Device>,
    region: Region,
}

/// What is registered.
enum Region {
    /// Memory that stays the same.
    Fixed(Arc<Mr>, SlowBurial<Mr>),
    /// Memory that is listed.
    Fast(Arc<FastRegion>),
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
        let memory = match access.contains(Access::ON_DEMAND) {
            true if region.is_whole() => Memory::Implicit(region.page_whole(pd)?),
            true => Memory::Paged(region.page(pd)?),
            false => Memory::Pinned(region.pin(pd)?),
        };
        if access.contains(Access::FLUSH_PERSISTENT) && !memory.is_persistent() {
            return Err(EINVAL);
        }
        Self::new(pd, access, region.iova, memory)
    }

    fn direct(pd: &rdma::Pd<Provider>, map: DirectMap, access: u32) -> Result<Self> {
        let access = Access::from_bits(access);
        // User processes have no way to all of the memory.
        if !RIGHTS.contains(access) || pd.consumer() != Consumer::Kernel {
            return Err(EINVAL);
        }
        Self::new(pd, access, 0, Memory::Direct(map))
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
            Region::Fixed(mr, _) => {
                details
                    .word(c"memory", kind(mr.memory()))
                    .hex(c"iova", mr.bounds().va)
                    .hex(c"access", mr.bounds().access.bits())
                    .number(c"windows", mr.windows());
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
            Region::Fixed(mr, _) => drop(node.mrs().remove(mr.key().index())),
            Region::Fast(region) => drop(node.fast_regions().remove(region.index())),
        }
    }

    fn abandon(self) {
        match self.region {
            Region::Fixed(mr, burial) => {
                let (mrs, undertaker) = (self.device.node().mrs(), self.device.undertaker());
                mrs.hand_over(mr.key().index(), undertaker, burial);
            }
            Region::Fast(_) => self.deregister(),
        }
    }

    fn retire(&self) -> Result {
        match &self.region {
            Region::Fixed(mr, _) => mr.retire(),
            Region::Fast(_) => Ok(()),
        }
    }
}

impl Registration {
    /// Makes `memory`, whose first byte is called `iova`, known. May sleep.
    fn new(pd: &rdma::Pd<Provider>, access: Access, iova: u64, memory: Memory) -> Result<Self> {
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
        reservation.publish(mr.clone())?;
        Ok(Self {
            device,
            region: Region::Fixed(mr, burial),
        })
    }

    /// The key it was made with. The consumer chooses the tag of one of listed memory.
    fn key(&self) -> Key {
        match &self.region {
            Region::Fixed(mr, _) => mr.key(),
            Region::Fast(region) => Key::new(region.index(), 0),
        }
    }
}

/// What the memory of a region is, in a word.
fn kind(memory: &Memory) -> &'static CStr {
    match memory {
        Memory::Pinned(_) => c"pinned",
        Memory::Paged(_) => c"paged",
        Memory::Implicit(_) => c"implicit",
        Memory::Direct(_) => c"direct",
    }
}
