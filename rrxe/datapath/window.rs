// SPDX-License-Identifier: GPL-2.0

//! Memory windows: parts of regions that peers may use.
//!
//! # Locking
//!
//! The lock of a window guards what it shows. It is held, with softirqs disabled, while a packet's bytes
//! are copied: when the window shows something else, or nothing, nobody uses any more what it showed.
//! No other lock is taken under it.

use super::{
    memory::Denied,
    region::{
        Bond,
        Mr,
        PdId, //
    },
};
use crate::kapi::sync::{
    new_spinlock_bh,
    SpinLockBh, //
};
use kernel::{
    prelude::*,
    sync::Arc, //
};
use rrxe_proto::{
    mw::{
        MemoryWindow,
        Place,
        QpId,
        WindowType, //
    },
    rc::{
        Binding,
        LocalFailed, //
    },
    Access,
    Key, //
};

/// A memory window.
#[pin_data]
pub(crate) struct Window {
    pd: PdId,
    #[pin]
    state: SpinLockBh<State>,
}

/// What a window shows.
struct State {
    window: MemoryWindow,
    /// Keeps the region it is bound to.
    bond: Option<Bond>,
}

impl Window {
    /// A window of protection domain `pd` that shows nothing. May sleep.
    pub(crate) fn new(window_type: WindowType, key: Key, pd: PdId) -> Result<Arc<Self>> {
        Arc::pin_init(
            pin_init!(Self {
                pd,
                state <- new_spinlock_bh!(State {
                    window: MemoryWindow::new(window_type, key),
                    bond: None,
                }),
            }),
            GFP_KERNEL,
        )
    }

    /// Binds the window to `region`, if it is to show anything, as a work request of queue pair `by`
    /// of the protection domain `pd` says.
    pub(super) fn bind(
        &self,
        binding: &Binding,
        region: Option<&Mr>,
        by: QpId,
        pd: PdId,
    ) -> Result<(), LocalFailed> {
        if self.pd != pd {
            return Err(LocalFailed);
        }
        let bounds = region.map(Mr::bounds);
        let bond = region.map(Mr::bond).transpose()?;
        let mut state = self.state.lock();
        state.window.bind(binding, bounds.as_ref(), by)?;
        state.bond = bond;
        Ok(())
    }

    /// Has the window show nothing, because queue pair `by` of the protection domain `pd` or its peer
    /// says so.
    pub(super) fn invalidate(&self, key: Key, by: QpId, pd: PdId) -> Result<(), LocalFailed> {
        if self.pd != pd {
            return Err(LocalFailed);
        }
        let mut state = self.state.lock();
        state.window.invalidate(key, by)?;
        state.bond = None;
        Ok(())
    }

    /// Has the place used where the `len` bytes at `va` are of which the peer of queue pair `of` of the
    /// protection domain `pd` shows the key, if it may do to them what `access` says.
    pub(super) fn with_place(
        &self,
        key: Key,
        (of, pd): (QpId, PdId),
        access: Access,
        va: u64,
        len: u32,
        use_place: impl FnOnce(Place) -> Result<(), Denied>,
    ) -> Result<(), Denied> {
        if self.pd != pd {
            return Err(Denied::Access);
        }
        let state = self.state.lock();
        let place = state.window.place(key, of, access, va, len);
        use_place(place.ok_or(Denied::Access)?)
    }

    /// Whether the peer of queue pair `of` of the protection domain `pd`, which shows `key`, may do
    /// what `access` says to all that the window shows.
    pub(super) fn admits(&self, key: Key, (of, pd): (QpId, PdId), access: Access) -> bool {
        self.pd == pd && self.state.lock().window.admits(key, of, access)
    }
}
