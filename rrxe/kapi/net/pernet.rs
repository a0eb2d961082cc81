// SPDX-License-Identifier: GPL-2.0

//! State of our own in each network namespace.
//!
//! C headers: [`include/net/net_namespace.h`](srctree/include/net/net_namespace.h),
//! [`include/net/netns/generic.h`](srctree/include/net/netns/generic.h)

use super::netns::Net;
use crate::kapi::bindings as b;
use core::{
    cell::UnsafeCell,
    marker::{PhantomData, PhantomPinned},
    ptr,
};
use kernel::{
    error::to_result,
    ffi::*,
    prelude::*,
    sync::{
        atomic::{ordering, Atomic},
        rcu, Arc,
    },
    types::{ForeignOwnable, Opaque},
};

/// The number under which namespaces keep a kind of state; a `static` for each kind.
///
/// # Invariants
///
/// `id` is written by the C functions that register and unregister only. While `registered` is one,
/// it is the number of a kind of state whose registration is complete.
pub(crate) struct PernetId {
    id: UnsafeCell<c_uint>,
    registered: Atomic<u32>,
}

// SAFETY: `id` is read only while it does not change, by the type invariant.
unsafe impl Sync for PernetId {}

impl PernetId {
    /// A number that is not known yet.
    pub(crate) const fn new() -> Self {
        // INVARIANT: Nothing is registered.
        Self {
            id: UnsafeCell::new(0),
            registered: Atomic::new(0),
        }
    }
}

/// A kind of state that each network namespace has.
pub(crate) trait Pernet: Send + Sync + Sized + 'static {
    /// Where the number of this kind is kept; not to be shared with another kind.
    fn id() -> &'static PernetId;

    /// Makes the state of one namespace. Process context, may sleep.
    fn init() -> Result<Arc<Self>>;

    /// Called when the namespace is torn down, or the kind is unregistered, after all network devices
    /// have left the namespace and while its protocols still work. Process context, may sleep.
    ///
    /// References to the state may outlive this; it must not touch the namespace any more then.
    fn exit(&self);
}

/// A kind of state that is registered, so that all namespaces have it.
///
/// # Invariants
///
/// `ops` is registered and pinned.
#[pin_data(PinnedDrop)]
pub(crate) struct Registration<P: Pernet> {
    #[pin]
    ops: Opaque<b::pernet_operations>,
    kind: PhantomData<P>,
    #[pin]
    _pin: PhantomPinned,
}

// SAFETY: Any thread may unregister.
unsafe impl<P: Pernet> Send for Registration<P> {}

// SAFETY: There is nothing to do with a shared reference.
unsafe impl<P: Pernet> Sync for Registration<P> {}

impl<P: Pernet> Registration<P> {
    /// Registers the kind `P` and makes the state of all namespaces there are. Process context,
    /// sleeps. `EBUSY` if the kind is registered already.
    pub(crate) fn new() -> impl PinInit<Self, Error> {
        // INVARIANT: The operations are registered when this has succeeded.
        try_pin_init!(Self {
            ops <- Opaque::try_ffi_init(Self::register),
            kind: PhantomData,
            _pin: PhantomPinned,
        })
    }

    /// Fills in and registers the operations at `slot`, which must be valid and stay pinned until
    /// they are unregistered.
    fn register(slot: *mut b::pernet_operations) -> Result {
        /// A registration is on its way.
        const BUSY: u32 = 2;

        let id = P::id();
        id.registered
            .cmpxchg(0, BUSY, ordering::Full)
            .map_err(|_| EBUSY)?;

        let ops = b::pernet_operations {
            init: Some(Self::init),
            exit: Some(Self::exit),
            id: id.id.get(),
            size: size_of::<*mut c_void>(),
            ..pin_init::zeroed()
        };
        // SAFETY: `slot` is valid for writes.
        unsafe { slot.write(ops) };
        // SAFETY: The operations are initialised and stay where they are.
        let result = to_result(unsafe { b::register_pernet_subsys(slot) });
        // INVARIANT: The registration is complete, or nothing is registered.
        id.registered
            .store(u32::from(result.is_ok()), ordering::Release);
        result
    }

    /// Where `net` keeps the pointer to its state.
    ///
    /// # Safety
    ///
    /// `net` must be valid, and the kind `P` registered or about to be, with its number known.
    unsafe fn slot(net: *const b::net) -> *mut *mut c_void {
        // SAFETY: The number does not change while the kind is registered.
        let id = unsafe { *P::id().id.get() };
        // SAFETY: The namespace is valid, and the number is one that it knows.
        unsafe { b::helpers::net_generic(net, id) }.cast()
    }

    /// The C callback for a new namespace.
    ///
    /// # Safety
    ///
    /// To be called by the C core for the operations of this type only.
    unsafe extern "C" fn init(net: *mut b::net) -> c_int {
        let state = match P::init() {
            Ok(state) => state.into_foreign(),
            Err(error) => return error.to_errno(),
        };
        // SAFETY: The core calls this with the number known and the memory of the slot in place.
        let slot = unsafe { Self::slot(net) };
        // SAFETY: The slot is ours, and nobody reads it before the namespace is set up.
        unsafe { slot.write(state) };
        0
    }

    /// The C callback for a namespace that goes away.
    ///
    /// # Safety
    ///
    /// To be called by the C core for the operations of this type only, after `init`.
    unsafe extern "C" fn exit(net: *mut b::net) {
        // SAFETY: The core calls this with the number known and the memory of the slot in place.
        let slot = unsafe { Self::slot(net) };
        // SAFETY: Nobody reads the slot any more: the count of the namespace is zero, or readers
        // have been waited for by the drop of the registration.
        let state = unsafe { slot.replace(ptr::null_mut()) };
        // SAFETY: `init` put an `Arc` there, and it was taken out just now.
        if let Some(state) = unsafe { <Arc<P> as ForeignOwnable>::try_from_foreign(state) } {
            state.exit();
        }
    }
}

#[pinned_drop]
impl<P: Pernet> PinnedDrop for Registration<P> {
    /// Process context, sleeps.
    fn drop(self: Pin<&mut Self>) {
        P::id().registered.store(0, ordering::Release);
        // SAFETY: Process context. No reader that saw the registration goes on after this.
        unsafe { b::synchronize_rcu_expedited() };
        // SAFETY: By the type invariant the operations are registered.
        unsafe { b::unregister_pernet_subsys(self.ops.get()) };
    }
}

/// The state of kind `P` of namespace `net`, if the kind is registered. Any context.
pub(crate) fn get<P: Pernet>(net: &Net) -> Option<Arc<P>> {
    let _guard = rcu::read_lock();
    if P::id().registered.load(ordering::Acquire) != 1 {
        return None;
    }
    // SAFETY: The namespace is in use, and the kind registered: unregistering waits for our RCU read
    // section before it goes on.
    let slot = unsafe { Registration::<P>::slot(net.as_ptr()) };
    // SAFETY: The slot was written before the namespace could be used, and is not changed while it is.
    let state = unsafe { slot.read() };
    if state.is_null() {
        return None;
    }
    // SAFETY: The namespace holds the `Arc`, and lets go of it in `exit` only, which is not called
    // while the namespace is in use, or after our RCU read section.
    Some(unsafe { <Arc<P> as ForeignOwnable>::borrow(state) }.into())
}
