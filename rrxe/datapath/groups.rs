// SPDX-License-Identifier: GPL-2.0

//! Multicast groups, and the queue pairs that are attached to them.
//!
//! # Locking
//!
//! Groups change under a mutex, which is taken before the RTNL lock. They are looked up under RCU: what
//! is found there does not change, a change puts another one in its place.

use super::qp::Qp;
use crate::kapi::{
    net::{
        Membership,
        NetDevice, //
    },
    random,
    sync::RcuTable,
};
use core::net::Ipv6Addr;
use kernel::{
    new_mutex,
    prelude::*,
    sync::{
        rcu,
        Arc,
        Mutex, //
    },
};

/// Groups of a device.
pub(crate) const MAX_GROUPS: u32 = 8192;

/// Queue pairs of a group. Each gets a copy of each packet, in the softirq that the packet came in by.
pub(crate) const MAX_MEMBERS: u32 = 64;

/// The multicast groups of a device.
#[pin_data]
pub(crate) struct Groups {
    /// Groups whose addresses have the same hash, by that.
    #[pin]
    slots: RcuTable<Slot>,
    hash: Hash,
    /// How many groups there are. Held for as long as they change.
    #[pin]
    count: Mutex<u32>,
}

/// Groups whose addresses have the same hash, at least one.
struct Slot(KVec<Group>);

/// A group with its members, at least one.
struct Group {
    address: Ipv6Addr,
    members: KVec<Arc<Qp>>,
    membership: Arc<Membership>,
}

impl Groups {
    /// No groups.
    pub(super) fn new() -> impl PinInit<Self> {
        pin_init!(Self {
            slots <- RcuTable::new(0),
            hash: Hash::new(),
            count <- new_mutex!(0),
        })
    }

    /// Attaches `qp` to the group `address`, of which `netdev` becomes a member with the first queue
    /// pair. Process context, may sleep.
    ///
    /// # Errors
    ///
    /// `EEXIST` if it is attached already, `ENOSPC` if there are too many groups or members, `ENOMEM`,
    /// and those of [`Membership::join`].
    pub(crate) fn attach(&self, netdev: &NetDevice, address: Ipv6Addr, qp: &Arc<Qp>) -> Result {
        let mut count = self.count.lock();
        let number = self.hash.of(address);
        let old = self.slot(number);
        let mut groups = old.as_deref().map_or(Ok(KVec::new()), Slot::copy)?;
        match groups.iter_mut().find(|group| group.address == address) {
            Some(group) => group.add(qp)?,
            None if *count >= MAX_GROUPS => return Err(ENOSPC),
            None => {
                let mut group = Group {
                    address,
                    members: KVec::new(),
                    membership: Arc::new(Membership::join(netdev, address)?, GFP_KERNEL)?,
                };
                group.add(qp)?;
                groups.push(group, GFP_KERNEL)?;
            }
        }
        let grown = groups.len() > old.as_deref().map_or(0, |slot| slot.0.len());
        let new = Arc::new(Slot(groups), GFP_KERNEL)?;
        match old {
            Some(_) => drop(self.slots.replace(number, new)?),
            None => self.slots.insert_at(number, new, GFP_KERNEL)?,
        }
        *count = count.saturating_add(grown.into());
        Ok(())
    }

    /// Detaches `qp` from the group `address`; with the last queue pair the network device leaves it.
    /// Process context, may sleep. No packet is on its way from there to the queue pair afterwards.
    ///
    /// # Errors
    ///
    /// `EINVAL` if it is not attached, `ENOMEM`.
    pub(crate) fn detach(&self, address: Ipv6Addr, qp: &Arc<Qp>) -> Result {
        let mut count = self.count.lock();
        let number = self.hash.of(address);
        let old = self.slot(number).ok_or(EINVAL)?;
        let mut groups = old.copy()?;
        let at = groups.iter().position(|group| group.address == address);
        let group = at.and_then(|at| groups.get_mut(at)).ok_or(EINVAL)?;
        group.remove(qp)?;
        if group.members.is_empty() {
            groups.retain(|group| group.address != address);
        }
        let shrunk = groups.len() < old.0.len();
        if groups.is_empty() {
            self.slots.remove(number);
        } else {
            let new = Arc::new(Slot(groups), GFP_KERNEL)?;
            self.slots.replace(number, new)?;
        }
        *count = count.saturating_sub(shrunk.into());
        Ok(())
    }

    /// Shows `visit` the queue pairs of the group `address`, if there are any. Any context.
    pub(super) fn visit<R>(
        &self,
        address: Ipv6Addr,
        guard: &rcu::Guard,
        visit: impl FnOnce(&[Arc<Qp>]) -> R,
    ) -> Option<R> {
        let slot = self.slots.get(self.hash.of(address), guard)?;
        let group = slot.0.iter().find(|group| group.address == address)?;
        Some(visit(&group.members))
    }

    fn slot(&self, number: u32) -> Option<Arc<Slot>> {
        let guard = rcu::read_lock();
        self.slots.get(number, &guard).map(Into::into)
    }
}

impl Slot {
    /// The same groups, to be changed.
    fn copy(&self) -> Result<KVec<Group>> {
        let mut groups = KVec::with_capacity(self.0.len().saturating_add(1), GFP_KERNEL)?;
        for group in &self.0 {
            let mut members =
                KVec::with_capacity(group.members.len().saturating_add(1), GFP_KERNEL)?;
            for member in &group.members {
                members.push(member.clone(), GFP_KERNEL)?;
            }
            let group = Group {
                address: group.address,
                members,
                membership: group.membership.clone(),
            };
            groups.push(group, GFP_KERNEL)?;
        }
        Ok(groups)
    }
}

impl Group {
    fn add(&mut self, qp: &Arc<Qp>) -> Result {
        if self.members.iter().any(|member| Arc::ptr_eq(member, qp)) {
            return Err(EEXIST);
        }
        if self.members.len() >= MAX_MEMBERS as usize {
            return Err(ENOSPC);
        }
        Ok(self.members.push(qp.clone(), GFP_KERNEL)?)
    }

    fn remove(&mut self, qp: &Arc<Qp>) -> Result {
        let before = self.members.len();
        self.members.retain(|member| !Arc::ptr_eq(member, qp));
        if self.members.len() == before {
            return Err(EINVAL);
        }
        Ok(())
    }
}

/// A hash of addresses whose collisions cannot be foreseen: programs choose the groups, and the groups
/// of a slot are gone through one by one.
struct Hash([u64; 4]);

impl Hash {
    fn new() -> Self {
        Self(core::array::from_fn(
            |_| u64::from_ne_bytes(random::bytes()),
        ))
    }

    fn of(&self, address: Ipv6Addr) -> u32 {
        let octets = address.octets();
        let (words, _) = octets.as_chunks::<4>();
        let sum = words.iter().zip(self.0).fold(0u64, |sum, (word, factor)| {
            let word = u64::from(u32::from_ne_bytes(*word));
            sum.wrapping_add(factor.wrapping_mul(word))
        });
        (sum >> 32) as u32
    }
}
