// SPDX-License-Identifier: GPL-2.0

//! Numbered objects that are looked up without a reference count.
//!
//! C header: [`include/linux/xarray.h`](srctree/include/linux/xarray.h)

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
/// Changes take the table's own lock with softirqs disabled, for a few instructions; no other lock is
/// taken under it. Changes may be made in process or softirq context, but for those that say that
/// they sleep. Look-ups may be made in any context.
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
            xa <- Opaque::ffi_init(|slot| unsafe { b::helpers::xa_init_alloc_bh(slot) }),
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

    /// Puts `object` under a free number of `range`, visible at once. Errors as
    /// [`reserve`](Self::reserve).
    pub(crate) fn insert(
        &self,
        range: RangeInclusive<u32>,
        object: Arc<T>,
        flags: Flags,
    ) -> Result<u32> {
        Ok(self.reserve(range, flags)?.publish(object))
    }

    /// Puts `object` under the number `id`, visible at once. Errors as
    /// [`reserve_at`](Self::reserve_at).
    pub(crate) fn insert_at(&self, id: u32, object: Arc<T>, flags: Flags) -> Result {
        self.reserve_at(id, flags)?.publish(object);
        Ok(())
    }

    /// Removes the object with number `id`, waits until no look-up can see it, and gives it back.
    ///
    /// Process context; sleeps, for an expedited RCU grace period, and must not be called in an RCU
    /// read section. The number is free again before the wait.
    pub(crate) fn remove(&self, id: u32) -> Option<Arc<T>> {
        let entry = self.locked(|xa| {
            // SAFETY: The lock is held.
            unsafe { b::__xa_erase(xa, index(id)) }
        });
        if entry.is_null() {
            return None;
        }
        // SAFETY: May be called in process context, as the caller promises.
        unsafe { b::synchronize_rcu_expedited() };
        // SAFETY: The entry was the table's own `Arc`; erasing was atomic, so nobody else has it.
        // INVARIANT: No entry has it any more and a grace period has passed.
        Some(unsafe { <Arc<T> as ForeignOwnable>::from_foreign(entry) })
    }

    /// The object with the smallest number not below `from`, and its number.
    ///
    /// For walks that sleep between their steps: start with zero, go on with the number found plus
    /// one. Objects that come and go meanwhile may or may not be seen. Any context.
    pub(crate) fn first_from(&self, from: u32) -> Option<(u32, Arc<T>)> {
        let mut at = index(from);
        let _guard = rcu::read_lock();
        // SAFETY: `xa` is initialised, and may be read at any time. Reserved entries are skipped.
        let entry = unsafe { b::helpers::xa_find_present(self.xa.get(), &mut at) };
        if entry.is_null() {
            return None;
        }
        // SAFETY: As in `get`: the `Arc` does not leave the table before the read section has ended.
        let object = unsafe { <Arc<T> as ForeignOwnable>::borrow(entry) };
        Some((u32::try_from(at).ok()?, object.into()))
    }

    /// Calls `visit` with each object, in the order of their numbers. Process context; `visit` may
    /// sleep.
    ///
    /// Objects that come and go meanwhile may or may not be seen.
    pub(crate) fn for_each(&self, visit: impl Fn(&T)) {
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
        unsafe { b::helpers::xa_lock_bh(xa) };
        let result = change(xa);
        // SAFETY: The lock was taken above.
        unsafe { b::helpers::xa_unlock_bh(xa) };
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

    /// Makes `object` visible under the number, which is returned. Process or softirq context.
    pub(crate) fn publish(self, object: Arc<T>) -> u32 {
        let id = self.id;
        let entry = object.into_foreign();
        self.table.locked(|xa| {
            // SAFETY: The lock is held. The entry exists, so that nothing has to be allocated and
            // the store cannot fail. INVARIANT: The table owns the `Arc` now.
            unsafe { b::__xa_store(xa, index(id), entry, 0) }
        });
        core::mem::forget(self);
        id
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
