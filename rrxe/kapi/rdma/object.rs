// SPDX-License-Identifier: GPL-2.0

//! What the RDMA core's objects and the driver's values have in common: one allocation.

use super::{
    cq_notify::NotifyOwner,
    device::Device,
    event::{
        CqSource,
        EventOwner,
        QpSource,
        SrqSource, //
    },
    mmap::Mapping,
    Provider,
    Udata, //
};
use crate::kapi::bindings as b;
use core::{
    mem::ManuallyDrop,
    ops::Deref, //
};
use kernel::{
    error::from_result,
    prelude::*,
    sync::Mutex,
    types::Opaque, //
};

/// A kind of object: which C structure it extends with what.
///
/// # Safety
///
/// `device` and `parent` return what outlives the object.
pub(crate) unsafe trait Kind<P: Provider> {
    /// The C structure.
    type Raw;
    /// What an object of this kind is made on.
    type Parent;
    /// The driver's value.
    type Data: Send + Sync;
    /// The owning ends of the handles given to the driver at creation; dropped after
    /// [`Self::Data`].
    type Handles;

    /// Returns the device of the object.
    ///
    /// # Safety
    ///
    /// `raw` must point to a valid object whose core members are set up.
    unsafe fn device<'a>(raw: *mut Self::Raw) -> &'a Device<P>;

    /// Returns what the object is made on, if it is made on anything.
    ///
    /// # Safety
    ///
    /// As for [`device`](Self::device).
    unsafe fn parent<'a>(raw: *mut Self::Raw) -> Option<&'a Self::Parent>;
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
/// destroy operation of the object. In that time `body` holds a value that no one writes to.
#[repr(C)]
pub(crate) struct Object<P: Provider, K: Kind<P>> {
    raw: Opaque<K::Raw>,
    body: ManuallyDrop<Body<K::Data, K::Handles>>,
}

impl<P: Provider, K: Kind<P>> Object<P, K> {
    /// Size to allocate for one object, in bytes. `kmalloc()` memory is aligned for it.
    pub(super) const SIZE: usize = {
        assert!(align_of::<Self>() <= b::RRXE_KMALLOC_MINALIGN);
        size_of::<Self>()
    };

    /// The operation that creates an object: has `make` make the driver's value and the handles, and
    /// puts them in.
    ///
    /// # Safety
    ///
    /// The caller must be the create operation of the object `raw`, of [`Self::SIZE`] bytes, and
    /// `udata` must be what the core has passed to it, null or valid during the call.
    pub(super) unsafe fn create(
        raw: *mut K::Raw,
        udata: *mut b::ib_udata,
        make: impl FnOnce(&K::Parent, Option<Udata<'_>>) -> Result<(K::Data, K::Handles)>,
    ) -> c_int {
        from_result(|| {
            // SAFETY: The core sets the members of the object before the call.
            let parent = unsafe { K::parent(raw) }.ok_or(EINVAL)?;
            // SAFETY: By the requirements.
            let udata = unsafe { Udata::from_raw(udata) };
            let (data, handles) = make(parent, udata)?;
            // SAFETY: This is the create operation.
            unsafe { Self::init(raw, data, handles) };
            Ok(0)
        })
    }

    /// The operation that destroys an object: has `end` end the driver's value.
    ///
    /// # Safety
    ///
    /// The caller must be the destroy operation of the object, and must not use it again.
    pub(super) unsafe fn destroy(raw: *mut K::Raw, end: impl FnOnce(K::Data)) {
        let this = raw.cast::<Self>();
        // SAFETY: The object is valid until its destroy operation returns.
        let body = unsafe { &raw const (*this).body };
        // SAFETY: The create operation has written it. It is read once, as the object is destroyed
        // once.
        let body = unsafe { body.read() };
        let Body { data, handles } = ManuallyDrop::into_inner(body);
        end(data);
        drop(handles);
    }

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
        unsafe { body.write(ManuallyDrop::new(Body { data, handles })) };
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

    /// Returns the owning ends of the handles that the driver got.
    pub(super) fn handles(&self) -> &K::Handles {
        &self.body.handles
    }

    /// Returns the device that the object belongs to.
    pub(crate) fn device(&self) -> &Device<P> {
        // SAFETY: By the type invariant the object is set up.
        unsafe { K::device(self.raw.get()) }
    }
}

impl<P: Provider, K: Kind<P>> Deref for Object<P, K> {
    type Target = K::Data;

    fn deref(&self) -> &Self::Target {
        &self.body.data
    }
}

macro_rules! kinds {
    ($($(#[$doc:meta])* $name:ident = $raw:ident.$field:ident: $parent:ident, $handles:ty;)*) => {
        /// Markers of the kinds of objects.
        pub(crate) mod kind {
            $(
                $(#[$doc])*
                pub(crate) struct $name;
            )*
        }

        $(
            // SAFETY: The RDMA core (or `mr::create`, for the device of regions) sets both, to
            // what belongs to this provider, and keeps them for as long as the object.
            unsafe impl<P: Provider> Kind<P> for kind::$name {
                type Raw = b::$raw;
                type Parent = $parent<P>;
                type Data = P::$name;
                type Handles = $handles;

                unsafe fn device<'a>(raw: *mut b::$raw) -> &'a Device<P> {
                    // SAFETY: The object is valid by the requirements.
                    let device = unsafe { (*raw).device };
                    // SAFETY: It is of the same provider and outlives the object.
                    unsafe { Device::from_raw(device) }
                }

                unsafe fn parent<'a>(raw: *mut b::$raw) -> Option<&'a $parent<P>> {
                    // SAFETY: The object is valid by the requirements.
                    let parent = unsafe { (*raw).$field };
                    // SAFETY: It is of the same provider and outlives the object.
                    (!parent.is_null()).then(|| unsafe { $parent::from_raw(parent) })
                }
            }

            $(#[$doc])*
            pub(crate) type $name<P> = Object<P, kind::$name>;
        )*
    };
}

kinds! {
    /// A user process' open device.
    Context = ib_ucontext.device: Device, ();
    /// A protection domain.
    Pd = ib_pd.device: Device, ();
    /// An address handle.
    Ah = ib_ah.pd: Pd, ();
    /// A completion queue.
    Cq = ib_cq.device: Device, (NotifyOwner, EventOwner<CqSource>, Pin<KBox<Mutex<KVec<Mapping>>>>);
    /// A shared receive queue.
    Srq = ib_srq.pd: Pd, (EventOwner<SrqSource>, Pin<KBox<Mutex<KVec<Mapping>>>>);
    /// A queue pair.
    Qp = ib_qp.pd: Pd, (EventOwner<QpSource>, KVec<Mapping>);
    /// A memory region.
    Mr = ib_mr.pd: Pd, ();
    /// A memory window.
    Mw = ib_mw.pd: Pd, ();
}
