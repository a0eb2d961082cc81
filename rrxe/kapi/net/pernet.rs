// SPDX-License-Identifier: GPL-2.0

//! State of our own in each network namespace.
//!
//! C headers: [`include/net/net_namespace.h`](srctree/include/net/net_namespace.h),
//! [`include/net/netns/generic.h`](srctree/include/net/netns/generic.h)

use super::netns::Net;
use crate::kapi::{
    bindings as b,
    sync::grace_period, //
};
use core::{
    cell::UnsafeCell,
    marker::{
        PhantomData,
        PhantomPinned, //
    },
    ptr,
};
use kernel::{
    error::to_result,
    ffi::*,
    prelude::*,
    sync::{
        atomic::{
            ordering,
            Atomic, //
        },
        rcu, Arc,
    },
    types::{
        ForeignOwnable,
        Opaque, //
    },
};

/// Nothing is registered.
const UNUSED: u32 = 0;
/// A registration is complete.
const READY: u32 = 1;
/// A registration begins or ends.
const CHANGING: u32 = 2;

/// The number under which namespaces keep their `P`; a `static` of its own for each kind of state.
///
/// # Invariants
///
/// - While `state` is [`READY`], `id` does not change, and is the number of a complete registration:
///   each namespace in use has a slot for it, which holds the pointer of an `Arc<P>` or null.
/// - While `state` is [`CHANGING`], that is true for whoever the C core calls on behalf of the
///   registration, with the slot of the namespace in question.
pub(crate) struct PernetId<P> {
    id: UnsafeCell<c_uint>,
    state: Atomic<u32>,
    kind: PhantomData<fn() -> P>,
}

// SAFETY: `id` is read only while it does not change, by the type invariants.
unsafe impl<P> Sync for PernetId<P> {}

impl<P> PernetId<P> {
    /// A number that is not known yet.
    pub(crate) const fn new() -> Self {
        // INVARIANT: Nothing is registered.
        Self {
            id: UnsafeCell::new(0),
            state: Atomic::new(UNUSED),
            kind: PhantomData,
        }
    }

    /// Where `net` keeps the pointer to its state.
    ///
    /// # Safety
    ///
    /// `net` must be valid for the lifetime `'a`, and the caller be one for whom `id` is right by the type invariants.
    unsafe fn slot<'a>(&self, net: *const b::net) -> &'a Atomic<*mut c_void> {
        // SAFETY: The caller promises that the number does not change.
        let id = unsafe { *self.id.get() };
        // SAFETY: The namespace is valid, and has memory for this number.
        let slot = unsafe { b::helpers::net_generic(net, id) };
        // SAFETY: The memory has the size and the alignment of a pointer, begins as null, and stays
        // for as long as the namespace. Nobody but us uses it.
        unsafe { Atomic::from_ptr(slot.cast()) }
    }
}

/// A kind of state that each network namespace has.
pub(crate) trait Pernet: Send + Sync + Sized + 'static {
    /// Where the number of this kind is kept: always the same `static`.
    fn id() -> &'static PernetId<Self>;

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
        let id = P::id();
        id.state
            .cmpxchg(UNUSED, CHANGING, ordering::Full)
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
        let state = if result.is_ok() { READY } else { UNUSED };
        // INVARIANT: The registration is complete, or nothing is registered.
        id.state.store(state, ordering::Release);
        result
    }

    /// The C callback for a new namespace.
    ///
    /// # Safety
    ///
    /// To be called by the C core for the operations of this type only.
    unsafe extern "C" fn init(net: *mut b::net) -> c_int {
        let id = P::id();
        if id.state.load(ordering::Acquire) == UNUSED {
            return EINVAL.to_errno();
        }
        let state = match P::init() {
            Ok(state) => state.into_foreign(),
            Err(error) => return error.to_errno(),
        };
        // SAFETY: The core calls us, with the number known and the memory of the slot in place.
        let slot = unsafe { id.slot(net) };
        slot.store(state, ordering::Release);
        0
    }

    /// The C callback for a namespace that goes away.
    ///
    /// # Safety
    ///
    /// To be called by the C core for the operations of this type only, after `init`.
    unsafe extern "C" fn exit(net: *mut b::net) {
        let id = P::id();
        if id.state.load(ordering::Acquire) == UNUSED {
            return;
        }
        // SAFETY: The core calls us, with the number known and the memory of the slot in place.
        let slot = unsafe { id.slot(net) };
        let state = slot.load(ordering::Acquire);
        slot.store(ptr::null_mut(), ordering::Relaxed);
        // SAFETY: `init` put an `Arc` there, and it was taken out just now. Nobody reads the slot any
        // more: the count of the namespace is zero, or readers have been waited for by the drop of
        // the registration.
        if let Some(state) = unsafe { <Arc<P> as ForeignOwnable>::try_from_foreign(state) } {
            state.exit();
        }
    }
}

#[pinned_drop]
impl<P: Pernet> PinnedDrop for Registration<P> {
    /// Process context, sleeps.
    fn drop(self: Pin<&mut Self>) {
        let id = P::id();
        // INVARIANT: The registration is about to end.
        id.state.store(CHANGING, ordering::Release);
        // No reader that saw the registration goes on after this.
        grace_period();
        // SAFETY: By the type invariant the operations are registered.
        unsafe { b::unregister_pernet_subsys(self.ops.get()) };
        // INVARIANT: The registration has ended.
        id.state.store(UNUSED, ordering::Release);
    }
}

/// The state of kind `P` of namespace `net`, if the kind is registered. Any context.
pub(crate) fn get<P: Pernet>(net: &Net) -> Option<Arc<P>> {
    let _guard = rcu::read_lock();
    let id = P::id();
    if id.state.load(ordering::Acquire) != READY {
        return None;
    }
    // SAFETY: The namespace is in use, and the kind registered: unregistering waits for our RCU read
    // section before it goes on.
    let slot = unsafe { id.slot(net.as_ptr()) };
    let state = slot.load(ordering::Acquire);
    if state.is_null() {
        return None;
    }
    // SAFETY: The namespace holds the `Arc`, and lets go of it in `exit` only, which is not called
    // while the namespace is in use, or after our RCU read section.
    Some(unsafe { <Arc<P> as ForeignOwnable>::borrow(state) }.into())
}
