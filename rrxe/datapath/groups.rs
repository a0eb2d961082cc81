// SPDX-License-Identifier: GPL-2.0

//! Multicast groups, and the queue pairs that are attached to them.
//!
//! # Locking
//!
//! Groups change under a mutex, which is taken before the RTNL lock. They, and their members, are looked
//! up under RCU. To take something away needs no memory: a group that has lost its last member may stay
//! without one, next to others whose addresses have the same hash.

use super::{
    qp::Qp,
    shares::Shares, //
};
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
        ArcBorrow,
        LockedBy,
        Mutex, //
    },
};

/// Groups of a device.
pub(crate) const MAX_GROUPS: u32 = 8192;

/// Queue pairs of a group. Each gets a copy of each packet, in the softirq that the packet came in by.
pub(crate) const MAX_MEMBERS: u32 = 64;

/// How often a user's queue pairs may be attached, so that nobody takes all the groups.
const SHARE: u32 = 1024;

/// The multicast groups of a device.
#[pin_data]
pub(crate) struct Groups {
    /// Groups whose addresses have the same hash, by that.
    #[pin]
    slots: RcuTable<Slot>,
    hash: Hash,
    /// Held for as long as groups change.
    #[pin]
    census: Mutex<Census>,
}

/// How many there are.
struct Census {
    /// Groups with members.
    groups: u32,
    /// Attachments of each user.
    shares: Shares,
}

/// Groups whose addresses have the same hash. At least one of them has members.
struct Slot(KVec<Arc<Group>>);

/// A group.
#[pin_data]
struct Group {
    address: Ipv6Addr,
    #[pin]
    members: RcuTable<Qp>,
    /// That of the network device, while there are members.
    membership: LockedBy<Option<Membership>, Census>,
}

impl Groups {
    /// No groups.
    pub(super) fn new() -> impl PinInit<Self> {
        pin_init!(Self {
            slots <- RcuTable::new(0),
            hash: Hash::new(),
            census <- new_mutex!(Census {
                groups: 0,
                shares: Shares::new(SHARE),
            }),
        })
    }

    /// Attaches `qp` to the group `address`, of which `netdev` becomes a member with the first queue
    /// pair. Process context, may sleep.
    ///
    /// # Errors
    ///
    /// `EEXIST` if it is attached already, `ENOSPC` if there are too many groups, members, or attachments
    /// of its user, `ENOMEM`, and those of [`Membership::join`].
    pub(crate) fn attach(&self, netdev: &NetDevice, address: Ipv6Addr, qp: &Arc<Qp>) -> Result {
        let mut census = self.census.lock();
        let number = self.hash.of(address);
        let slot = self.slot(number);
        if let Some(group) = slot.as_deref().and_then(|slot| slot.find(address)) {
            return group.attach(netdev, qp, &mut census);
        }
        let group = Group::new(address, &self.census)?;
        let mut groups = match &slot {
            Some(slot) => slot.with_members(&census)?,
            None => KVec::new(),
        };
        groups.push(group.clone(), GFP_KERNEL)?;
        let new = Arc::new(Slot(groups), GFP_KERNEL)?;
        group.attach(netdev, qp, &mut census)?;
        let published = match slot {
            Some(_) => self.slots.replace(number, new).map(drop),
            None => self.slots.insert_at(number, new, GFP_KERNEL),
        };
        published.or_else(|error| group.detach(qp, &mut census).and(Err(error)))
    }

    /// Detaches `qp` from the group `address`; with the last queue pair the network device leaves it.
    /// Process context, may sleep. No packet is on its way from there to the queue pair afterwards.
    ///
    /// # Errors
    ///
    /// `EINVAL` if it is not attached.
    pub(crate) fn detach(&self, address: Ipv6Addr, qp: &Arc<Qp>) -> Result {
        let mut census = self.census.lock();
        let number = self.hash.of(address);
        let slot = self.slot(number).ok_or(EINVAL)?;
        slot.find(address).ok_or(EINVAL)?.detach(qp, &mut census)?;
        if slot.0.iter().all(|group| !group.has_members(&census)) {
            self.slots.remove(number);
        }
        Ok(())
    }

    /// Has `netdev` be a member again of all groups that it has lost, as it may have with its
    /// configuration of IP. Process context, may sleep.
    ///
    /// What fails is tried again the next time.
    pub(super) fn renew(&self, netdev: &NetDevice) {
        let mut census = self.census.lock();
        self.slots.for_each(|slot| {
            for group in &slot.0 {
                if let Some(membership) = group.membership.access_mut(&mut census) {
                    let _ = membership.renew(netdev);
                }
            }
        });
    }

    /// Shows `visit` the queue pairs of the group `address`, if there are any. Any context.
    pub(super) fn visit<R>(
        &self,
        address: Ipv6Addr,
        guard: &rcu::Guard,
        visit: impl FnOnce(&mut dyn Iterator<Item = ArcBorrow<'_, Qp>>) -> R,
    ) -> Option<R> {
        let slot = self.slots.get(self.hash.of(address), guard)?;
        let mut members = slot.find(address)?.members.iter(guard).map(|(_, qp)| qp);
        Some(visit(&mut members))
    }

    fn slot(&self, number: u32) -> Option<Arc<Slot>> {
        let guard = rcu::read_lock();
        self.slots.get(number, &guard).map(Into::into)
    }
}

impl Slot {
    fn find(&self, address: Ipv6Addr) -> Option<&Arc<Group>> {
        self.0.iter().find(|group| group.address == address)
    }

    /// Those of the groups that have members, and room for one more.
    fn with_members(&self, census: &Census) -> Result<KVec<Arc<Group>>> {
        let mut groups = KVec::with_capacity(self.0.len().saturating_add(1), GFP_KERNEL)?;
        for group in self.0.iter().filter(|group| group.has_members(census)) {
            groups.push(group.clone(), GFP_KERNEL)?;
        }
        Ok(groups)
    }
}

impl Group {
    /// A group without members.
    fn new(address: Ipv6Addr, census: &Mutex<Census>) -> Result<Arc<Self>> {
        Arc::pin_init(
            pin_init!(Self {
                address,
                members <- RcuTable::new(0),
                membership: LockedBy::new(census, None),
            }),
            GFP_KERNEL,
        )
    }

    fn has_members(&self, census: &Census) -> bool {
        self.membership.access(census).is_some()
    }

    fn attach(&self, netdev: &NetDevice, qp: &Arc<Qp>, census: &mut Census) -> Result {
        if self.place_of(qp).is_some() {
            return Err(EEXIST);
        }
        let joined = match self.has_members(census) {
            true => None,
            false if census.groups >= MAX_GROUPS => return Err(ENOSPC),
            false => Some(Membership::join(netdev, self.address)?),
        };
        let place = self
            .members
            .reserve(0..=MAX_MEMBERS.saturating_sub(1), GFP_KERNEL)
            .map_err(|error| if error == EBUSY { ENOSPC } else { error })?;
        census.shares.take(qp.owner())?;
        if let Err(error) = place.publish(qp.clone()) {
            census.shares.give_back(qp.owner());
            return Err(error);
        }
        if joined.is_some() {
            census.groups = census.groups.saturating_add(1);
            *self.membership.access_mut(census) = joined;
        }
        Ok(())
    }

    /// Errors as for [`Groups::detach`].
    fn detach(&self, qp: &Arc<Qp>, census: &mut Census) -> Result {
        let place = self.place_of(qp).ok_or(EINVAL)?;
        self.members.remove(place);
        census.shares.give_back(qp.owner());
        if self.members.first_from(0).is_none() {
            census.groups = census.groups.saturating_sub(1);
            *self.membership.access_mut(census) = None;
        }
        Ok(())
    }

    /// Where `qp` is among the members.
    fn place_of(&self, qp: &Arc<Qp>) -> Option<u32> {
        let guard = rcu::read_lock();
        let mut members = self.members.iter(&guard);
        members
            .find(|(_, member)| core::ptr::eq(&raw const **member, Arc::as_ptr(qp)))
            .map(|(place, _)| place)
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
