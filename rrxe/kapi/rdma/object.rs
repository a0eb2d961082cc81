// SPDX-License-Identifier: GPL-2.0

//! What the RDMA core's objects and the driver's values have in common: one allocation.

use super::{
    cq::NotifyOwner,
    device::Device,
    event::{
        CqSource,
        EventOwner,
        QpSource, //
    },
    mmap::Mapping,
    Provider, //
};
use crate::kapi::bindings as b;
use core::{
    mem::MaybeUninit,
    ops::Deref, //
};
use kernel::{
    prelude::*,
    sync::Mutex,
    types::Opaque, //
};

/// A structure of the RDMA core that a driver's value is attached to.
///
/// # Safety
///
/// `device` returns the device that the object belongs to, which outlives it.
pub(crate) unsafe trait RawObject {
    /// Returns the device of the object.
    ///
    /// # Safety
    ///
    /// `this` must point to a valid object whose core members are set up.
    unsafe fn device(this: *mut Self) -> *mut b::ib_device;
}

/// A kind of object: which C structure it extends with what.
pub(crate) trait Kind<P: Provider> {
    /// The C structure.
    type Raw: RawObject;
    /// The driver's value.
    type Data: Send + Sync;
    /// The owning ends of the handles given to the driver at creation; dropped after
    /// [`Self::Data`].
    type Handles;
}

/// What stands behind the C structure of an [`Object`].
///
/// Fields are dropped in this order: the driver's value first, then what it may still use.
pub(super) struct Body<D, H> {
    pub(super) data: D,
    pub(super) handles: H,
}

/// A verbs object: the C structure, and behind it the value of the driver.
///
/// # Invariants
///
/// A `&Object` exists only between the end of the create operation and the start of the
/// destroy operation of the object. In that time `body` is initialized and never written.
#[repr(C)]
pub(crate) struct Object<P: Provider, K: Kind<P>> {
    raw: Opaque<K::Raw>,
    body: MaybeUninit<Body<K::Data, K::Handles>>,
}

impl<P: Provider, K: Kind<P>> Object<P, K> {
    /// Size to allocate for one object, in bytes. `kmalloc()` memory is aligned for it.
    pub(super) const SIZE: usize = {
        assert!(align_of::<Self>() <= b::RRXE_KMALLOC_MINALIGN);
        size_of::<Self>()
    };

    /// Puts the driver's value into a new object.
    ///
    /// # Safety
    ///
    /// `raw` must point to [`Self::SIZE`] bytes of which no one but the caller, who is the
    /// object's create operation, uses what is behind the C structure.
    pub(super) unsafe fn init(raw: *mut K::Raw, data: K::Data, handles: K::Handles) {
        let this = raw.cast::<Self>();
        // SAFETY: The caller gives us the memory behind the C structure to write to.
        let body = unsafe { &raw mut (*this).body };
        // SAFETY: As above.
        unsafe { body.write(MaybeUninit::new(Body { data, handles })) };
    }

    /// Takes the body out of an object that is going away.
    ///
    /// # Safety
    ///
    /// The caller must be the destroy operation of the object, and must not use it again.
    pub(super) unsafe fn take(raw: *mut K::Raw) -> Body<K::Data, K::Handles> {
        let this = raw.cast::<Self>();
        // SAFETY: The object is valid until its destroy operation returns.
        let body = unsafe { &raw const (*this).body };
        // SAFETY: By the type invariant the body is initialized. It is read once, as the
        // object is destroyed once.
        unsafe { body.read().assume_init() }
    }

    /// Converts a pointer from the RDMA core.
    ///
    /// # Safety
    ///
    /// `raw` must point to an object that was created with [`Self::init`], and stay clear
    /// of its destroy operation during `'a`.
    pub(super) unsafe fn from_raw<'a>(raw: *mut K::Raw) -> &'a Self {
        // SAFETY: The object is the first member of a `Self`, by the requirements.
        unsafe { &*raw.cast::<Self>() }
    }

    /// Returns the C structure.
    pub(super) fn as_raw(&self) -> *mut K::Raw {
        self.raw.get()
    }

    /// Returns the owning ends of the handles that the driver got.
    pub(super) fn handles(&self) -> &K::Handles {
        // SAFETY: Initialized and unchanging by the type invariant.
        unsafe { &self.body.assume_init_ref().handles }
    }

    /// Returns the device that the object belongs to.
    pub(crate) fn device(&self) -> &Device<P> {
        // SAFETY: By the type invariant the object is set up.
        let device = unsafe { K::Raw::device(self.as_raw()) };
        // SAFETY: The device was made by the same provider and outlives the object.
        unsafe { Device::from_raw(device) }
    }
}

impl<P: Provider, K: Kind<P>> Deref for Object<P, K> {
    type Target = K::Data;

    fn deref(&self) -> &Self::Target {
        // SAFETY: Initialized and unchanging by the type invariant.
        unsafe { &self.body.assume_init_ref().data }
    }
}

macro_rules! kinds {
    ($($(#[$doc:meta])* $name:ident = $raw:ident, $handles:ty;)*) => {
        /// Markers of the kinds of objects.
        pub(crate) mod kind {
            $(
                $(#[$doc])*
                pub(crate) struct $name;
            )*
        }

        $(
            // SAFETY: The RDMA core (or `mr::reg_user`, for regions) sets `device` before
            // the create operation returns.
            unsafe impl RawObject for b::$raw {
                unsafe fn device(this: *mut Self) -> *mut b::ib_device {
                    // SAFETY: The object is valid by the requirements.
                    unsafe { (*this).device }
                }
            }

            impl<P: Provider> Kind<P> for kind::$name {
                type Raw = b::$raw;
                type Data = P::$name;
                type Handles = $handles;
            }

            $(#[$doc])*
            pub(crate) type $name<P> = Object<P, kind::$name>;
        )*
    };
}

kinds! {
    /// A user process' open device.
    Context = ib_ucontext, ();
    /// A protection domain.
    Pd = ib_pd, ();
    /// An address handle.
    Ah = ib_ah, ();
    /// A completion queue.
    Cq = ib_cq, (NotifyOwner, EventOwner<CqSource>, Pin<KBox<Mutex<KVec<Mapping>>>>);
    /// A queue pair.
    Qp = ib_qp, (EventOwner<QpSource>, KVec<Mapping>);
    /// A memory region.
    Mr = ib_mr, ();
}
