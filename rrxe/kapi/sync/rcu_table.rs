// SPDX-License-Identifier: GPL-2.0

//! Numbered objects that are looked up without a reference count.
//!
//! C header: [`include/linux/xarray.h`](srctree/include/linux/xarray.h)

use super::{
    grace_period,
    SlowBurial,
    Undertaker, //
};
use crate::kapi::{
    bindings as b,
    gfp, //
};
use core::{
    marker::{
        PhantomData,
        PhantomPinned, //
    },
    ops::RangeInclusive,
    ptr,
};
use kernel::{
    alloc::Flags,
    prelude::*,
    sync::{
        rcu,
        Arc,
        ArcBorrow, //
    },
    types::{
        ForeignOwnable,
        Opaque, //
    },
};

/// A table from 32-bit numbers to objects, read under RCU.
///
/// Looking up takes no lock and counts no reference. An object that is removed is not given back
/// before every RCU read section that may have seen it has ended.
///
/// # Locking
///
/// Changes take the table's own lock with interrupts disabled, for a few instructions; no other lock
/// is taken under it. Changes and look-ups may be made in any context, but for changes that say that
/// they sleep.
///
/// # Invariants
///
/// - Each entry of `xa` is empty, reserved (which C calls a zero entry), or the pointer of an
///   `Arc<T>` that came from [`ForeignOwnable::into_foreign`] and that the table owns.
/// - An `Arc<T>` leaves the table only when no entry of `xa` has its pointer any more and an RCU
///   grace period has passed since.
#[pin_data(PinnedDrop)]
pub(crate) struct RcuTable<T: Send + Sync + 'static> {
    #[pin]
    xa: Opaque<b::xarray>,
    /// Where the next number is searched from; under the lock of `xa`.
    next: core::cell::UnsafeCell<u32>,
    objects: PhantomData<Arc<T>>,
    #[pin]
    _pin: PhantomPinned,
}

// SAFETY: The table owns `Arc<T>`s, which may be sent as `T` is `Send` and `Sync`; the C object is
// not bound to a thread.
unsafe impl<T: Send + Sync> Send for RcuTable<T> {}

// SAFETY: The C object is changed under its lock and read under RCU; shared references give access
// to `T` from several threads, which its `Send` and `Sync` allow.
unsafe impl<T: Send + Sync> Sync for RcuTable<T> {}

/// What it takes to drop an object of a table later. It is made along with the object, so that the
/// removal needs no memory.
pub(crate) struct Burial<T: Send + Sync + 'static>(KBox<Grave<T>>);

/// An object that waits for the end of a grace period.
#[repr(C)]
struct Grave<T: Send + Sync + 'static> {
    // The first, so that its address is that of the whole.
    head: Opaque<b::callback_head>,
    /// The pointer of an `Arc` that belongs to this; null before the burial.
    object: *mut c_void,
    objects: PhantomData<Arc<T>>,
}

// SAFETY: What there is to send is an `Arc<T>`.
unsafe impl<T: Send + Sync> Send for Grave<T> {}

// SAFETY: There is nothing to be done with a shared reference.
unsafe impl<T: Send + Sync> Sync for Grave<T> {}

impl<T: Send + Sync + 'static> Burial<T> {
    /// Sleeps if `flags` allow it; `ENOMEM` when out of memory.
    pub(crate) fn new(flags: Flags) -> Result<Self> {
        let grave = Grave {
            head: Opaque::uninit(),
            object: ptr::null_mut(),
            objects: PhantomData,
        };
        Ok(Self(KBox::new(grave, flags)?))
    }

    /// Drops `object`, an entry that a table has given up, after a grace period.
    fn bury(mut self, object: *mut c_void) {
        self.0.object = object;
        let grave = KBox::into_raw(self.0);
        // SAFETY: The head is the first member of the grave, which stays until it is dug up by the
        // function, once.
        unsafe { b::call_rcu(grave.cast(), Some(Self::dig)) };
    }

    /// Drops what was buried.
    ///
    /// # Safety
    ///
    /// To be called by RCU, with the head of a grave that was a box.
    unsafe extern "C" fn dig(head: *mut b::callback_head) {
        // SAFETY: The head is the first member of the grave.
        let grave = unsafe { KBox::from_raw(head.cast::<Grave<T>>()) };
        // SAFETY: The object is an entry that a table has given up; a grace period has passed.
        drop(unsafe { <Arc<T> as ForeignOwnable>::from_foreign(grave.object) });
    }
}

/// Waits until what has been buried so far has been dropped. Process context, sleeps.
///
/// To be called before the module goes: the drop is its code.
pub(in crate::kapi) fn wait_for_burials() {
    // SAFETY: Has no requirements but the context.
    unsafe { b::rcu_barrier() };
}

/// A number that is taken already, and under which an object can be published.
///
/// Until then a look-up finds nothing there. Dropping it gives the number back.
///
/// # Invariants
///
/// The entry `id` of `table` is reserved, and only this object may change it.
#[must_use = "the number is given back when the reservation is dropped"]
pub(crate) struct Reservation<'a, T: Send + Sync + 'static> {
    table: &'a RcuTable<T>,
    id: u32,
}

impl<T: Send + Sync + 'static> RcuTable<T> {
    /// An initialiser of an empty table; numbers are given out from `first` on, cyclically.
    ///
    /// A random `first` makes it unlikely that a number is in use again soon after a restart.
    pub(crate) fn new(first: u32) -> impl PinInit<Self> {
        pin_init!(Self {
            // SAFETY: `slot` is valid for writes and pinned from now on. INVARIANT: No entries.
            xa <- Opaque::ffi_init(|slot| unsafe { b::helpers::xa_init_alloc_irq(slot) }),
            next: core::cell::UnsafeCell::new(first),
            objects: PhantomData,
            _pin: PhantomPinned,
        })
    }

    /// Finds the object with number `id`. Any context, no lock, no reference count.
    ///
    /// The object stays alive while `guard` does, removed or not; clone the [`ArcBorrow`] into an
    /// [`Arc`] to keep it longer.
    #[inline]
    pub(crate) fn get<'g>(&'g self, id: u32, _guard: &'g rcu::Guard) -> Option<ArcBorrow<'g, T>> {
        // SAFETY: `xa` is initialised, and may be read at any time.
        let entry = unsafe { b::xa_load(self.xa.get(), index(id)) };
        if entry.is_null() {
            return None;
        }
        // SAFETY: By the type invariants the pointer is that of an `Arc<T>`, which does not leave the
        // table, nor is it changed, before the RCU read section that the guard stands for has ended.
        // The borrow of `self` keeps the table from being dropped.
        Some(unsafe { <Arc<T> as ForeignOwnable>::borrow(entry) })
    }

    /// Takes a free number of `range`, the next one in cyclic order.
    ///
    /// `EBUSY` when all are in use, `ENOMEM` when out of memory. Sleeps if `flags` allow it.
    pub(crate) fn reserve(
        &self,
        range: RangeInclusive<u32>,
        flags: Flags,
    ) -> Result<Reservation<'_, T>> {
        let mut id = 0;
        let limit = b::xa_limit {
            min: *range.start(),
            max: *range.end(),
        };
        self.locked(|xa| {
            // SAFETY: The lock is held; it may be dropped and taken again inside, and `next` is used
            // with it held only.
            let err = unsafe {
                b::__xa_alloc_cyclic(
                    xa,
                    &mut id,
                    ptr::null_mut(),
                    limit,
                    self.next.get(),
                    gfp::raw(flags),
                )
            };
            // One says that the numbers wrapped around, which is no error.
            kernel::error::to_result(err.min(0))
        })?;
        // INVARIANT: A null entry under the allocating flags is a reserved one, and `id` was free.
        Ok(Reservation { table: self, id })
    }

    /// Takes the number `id`. `EBUSY` when it is in use, `ENOMEM` when out of memory.
    ///
    /// Sleeps if `flags` allow it.
    pub(crate) fn reserve_at(&self, id: u32, flags: Flags) -> Result<Reservation<'_, T>> {
        self.locked(|xa| {
            // SAFETY: The lock is held; it may be dropped and taken again inside.
            let err = unsafe { b::__xa_insert(xa, index(id), ptr::null_mut(), gfp::raw(flags)) };
            kernel::error::to_result(err)
        })?;
        // INVARIANT: A null entry under the allocating flags is a reserved one, and `id` was free.
        Ok(Reservation { table: self, id })
    }

    /// Puts `object` under the number `id`, visible at once. Errors as
    /// [`reserve_at`](Self::reserve_at).
    pub(crate) fn insert_at(&self, id: u32, object: Arc<T>, flags: Flags) -> Result {
        self.reserve_at(id, flags)?.publish(object).map(drop)
    }

    /// Puts `object` in the place of the one with number `id`, waits until no look-up can see that one,
    /// and gives it back. `ENOENT` if there is none.
    ///
    /// Process context; sleeps, for an expedited RCU grace period, and must not be called in an RCU
    /// read section.
    pub(crate) fn replace(&self, id: u32, object: Arc<T>) -> Result<Arc<T>> {
        let object = object.into_foreign();
        let stored = self.locked(|xa| {
            // SAFETY: `xa` is initialised, and may be read at any time.
            let old = unsafe { b::xa_load(xa, index(id)) };
            if old.is_null() {
                return Err(ENOENT);
            }
            // SAFETY: The lock is held, and the entry is there, so nothing is allocated. INVARIANT: The
            // table owns the `Arc` if this succeeds.
            let replaced = unsafe { b::__xa_store(xa, index(id), object, 0) };
            // SAFETY: Only looks at the value.
            kernel::error::to_result(unsafe { b::helpers::xa_err(replaced) })?;
            Ok(old)
        });
        match stored {
            Ok(old) => {
                grace_period();
                // SAFETY: The entry was the table's own `Arc`. INVARIANT: No entry has it any more and
                // a grace period has passed.
                Ok(unsafe { <Arc<T> as ForeignOwnable>::from_foreign(old) })
            }
            Err(error) => {
                // SAFETY: The table did not take the `Arc` that was just made a pointer.
                drop(unsafe { <Arc<T> as ForeignOwnable>::from_foreign(object) });
                Err(error)
            }
        }
    }

    /// Removes the object with number `id`, waits until no look-up can see it, and gives it back.
    ///
    /// A number that is reserved has no object and stays reserved. Process context; sleeps, for an
    /// expedited RCU grace period, and must not be called in an RCU read section. The number is free
    /// again before the wait.
    pub(crate) fn remove(&self, id: u32) -> Option<Arc<T>> {
        let entry = self.erase(id, |entry| entry)?;
        grace_period();
        // SAFETY: The entry was the table's own `Arc`. INVARIANT: No entry has it any more and a grace
        // period has passed.
        Some(unsafe { <Arc<T> as ForeignOwnable>::from_foreign(entry) })
    }

    /// Removes the object with number `id`, and has `burial` drop it when no look-up can see it. Any
    /// context.
    ///
    /// The drop may be in a softirq. A number that is reserved has no object and stays reserved.
    pub(crate) fn remove_later(&self, id: u32, burial: Burial<T>) {
        // With the lock still held: who does not find it there can wait for the burial.
        self.erase(id, |entry| burial.bury(entry));
    }

    /// Removes the object with number `id`, and has `undertaker` drop it when no look-up can see it. Any
    /// context; does not wait.
    ///
    /// A number that is reserved has no object and stays reserved.
    pub(crate) fn hand_over(&self, id: u32, undertaker: &Undertaker, burial: SlowBurial<T>) {
        self.erase(id, |entry| undertaker.bury(burial, entry));
    }

    /// Takes the object with number `id` off the table, and gives `take` the pointer of its `Arc`, which
    /// belongs to it from now on. Look-ups may still use it until a grace period has passed. `take` is
    /// called with the table locked.
    fn erase<R>(&self, id: u32, take: impl FnOnce(*mut c_void) -> R) -> Option<R> {
        self.locked(|xa| {
            // SAFETY: `xa` is initialised, and may be read at any time.
            let entry = unsafe { b::xa_load(xa, index(id)) };
            if entry.is_null() {
                return None;
            }
            // SAFETY: The lock is held. The entry is not a reserved one, which loads as null.
            unsafe { b::__xa_erase(xa, index(id)) };
            Some(take(entry))
        })
    }

    /// Waits until no look-up goes on that has begun already. Process context; sleeps, for an expedited
    /// RCU grace period, and must not be called in an RCU read section.
    pub(crate) fn wait_for_lookups(&self) {
        grace_period();
    }

    /// The object with the smallest number not below `from`, and its number.
    ///
    /// For walks that sleep between their steps: start with zero, go on with the number found plus
    /// one. Objects that come and go meanwhile may or may not be seen. What had been there and is not
    /// seen has been [buried](Self::remove_later). Any context.
    pub(crate) fn first_from(&self, from: u32) -> Option<(u32, Arc<T>)> {
        let mut at = index(from);
        let object = self.locked(|xa| {
            // SAFETY: `xa` is initialised, and may be read at any time. Reserved entries are skipped.
            let entry = unsafe { b::helpers::xa_find_present(xa, &mut at) };
            // SAFETY: The entry is the table's own `Arc`, which does not leave the table while the lock
            // is held.
            (!entry.is_null())
                .then(|| Arc::from(unsafe { <Arc<T> as ForeignOwnable>::borrow(entry) }))
        })?;
        Some((u32::try_from(at).ok()?, object))
    }

    /// The objects and their numbers, in the order of these. Any context; as with [`get`](Self::get),
    /// they stay alive while `guard` does. What comes and goes meanwhile may or may not be among them.
    pub(crate) fn iter<'g>(
        &'g self,
        _guard: &'g rcu::Guard,
    ) -> impl Iterator<Item = (u32, ArcBorrow<'g, T>)> {
        let mut from = Some(0);
        core::iter::from_fn(move || {
            let mut at = index(from?);
            // SAFETY: `xa` is initialised, and may be read at any time. Reserved entries are skipped.
            let entry = unsafe { b::helpers::xa_find_present(self.xa.get(), &mut at) };
            let id = u32::try_from(at).ok().filter(|_| !entry.is_null())?;
            from = id.checked_add(1);
            // SAFETY: As in `get`: the `Arc` does not leave the table before the read section has ended.
            Some((id, unsafe { <Arc<T> as ForeignOwnable>::borrow(entry) }))
        })
    }

    /// Calls `visit` with each object, in the order of their numbers. Process context; `visit` may
    /// sleep.
    ///
    /// Objects that come and go meanwhile may or may not be seen; see [`first_from`](Self::first_from).
    pub(crate) fn for_each(&self, mut visit: impl FnMut(&T)) {
        let mut from = Some(0);
        while let Some((id, object)) = from.and_then(|from| self.first_from(from)) {
            visit(&object);
            from = id.checked_add(1);
        }
    }

    /// Runs `change` with the table locked.
    fn locked<R>(&self, change: impl FnOnce(*mut b::xarray) -> R) -> R {
        let xa = self.xa.get();
        // SAFETY: `xa` is initialised.
        let flags = unsafe { b::helpers::xa_lock_irqsave(xa) };
        let result = change(xa);
        // SAFETY: The lock was taken above, which gave the flags.
        unsafe { b::helpers::xa_unlock_irqrestore(xa, flags) };
        result
    }
}

#[pinned_drop]
impl<T: Send + Sync + 'static> PinnedDrop for RcuTable<T> {
    fn drop(self: Pin<&mut Self>) {
        let mut from = 0;
        let xa = self.xa.get();
        loop {
            // SAFETY: `xa` is initialised. Nobody else can see the table any more.
            let entry = unsafe { b::helpers::xa_find_present(xa, &mut from) };
            if entry.is_null() {
                break;
            }
            self.locked(|xa| {
                // SAFETY: The lock is held.
                unsafe { b::__xa_erase(xa, from) }
            });
            // SAFETY: The entry was the table's own `Arc`. Look-ups borrow the table for as long as
            // they use what they found, so there are none.
            drop(unsafe { <Arc<T> as ForeignOwnable>::from_foreign(entry) });
        }
        // SAFETY: `xa` is initialised and not used after this.
        unsafe { b::xa_destroy(xa) };
    }
}

impl<T: Send + Sync + 'static> Reservation<'_, T> {
    /// The number.
    pub(crate) fn id(&self) -> u32 {
        self.id
    }

    /// Makes `object` visible under the number, which is returned. Any context.
    ///
    /// The entry is there, so nothing has to be allocated; should the table refuse it nevertheless,
    /// the object is dropped and the number given back.
    pub(crate) fn publish(self, object: Arc<T>) -> Result<u32> {
        let id = self.id;
        let object = object.into_foreign();
        let stored = self.table.locked(|xa| {
            // SAFETY: The lock is held. INVARIANT: The table owns the `Arc` if this succeeds.
            let old = unsafe { b::__xa_store(xa, index(id), object, 0) };
            // SAFETY: Only looks at the value.
            kernel::error::to_result(unsafe { b::helpers::xa_err(old) })
        });
        if let Err(error) = stored {
            // SAFETY: The table did not take the `Arc` that was just made a pointer.
            drop(unsafe { <Arc<T> as ForeignOwnable>::from_foreign(object) });
            return Err(error);
        }
        core::mem::forget(self);
        Ok(id)
    }
}

impl<T: Send + Sync + 'static> Drop for Reservation<'_, T> {
    fn drop(&mut self) {
        self.table.locked(|xa| {
            // SAFETY: The lock is held. By the type invariant the entry is reserved and ours, so no
            // object is lost.
            unsafe { b::__xa_erase(xa, index(self.id)) }
        });
    }
}

/// `id` as the C interface takes it.
#[inline]
const fn index(id: u32) -> kernel::ffi::c_ulong {
    id as kernel::ffi::c_ulong
}
