// SPDX-License-Identifier: GPL-2.0

//! Regions whose memory consumers inside the kernel change again and again: they list pages by a call,
//! and have them registered and made invalid by work requests.
//!
//! # Locking
//!
//! The lock of a region guards its pages and what they are called. It is held, with softirqs disabled,
//! while a packet's bytes are copied: when an invalidation is done nobody touches the pages any more.

use super::{
    memory::Denied,
    region::{
        Fault,
        PdId, //
    },
};
use crate::kapi::{
    mem::Rights,
    rdma::{
        Chunks,
        PageList,
        SgList, //
    },
    sync::{
        new_spinlock_bh,
        SpinLockBh, //
    },
};
use kernel::{
    prelude::*,
    sync::Arc, //
};
use rrxe_proto::{
    rc::{
        LocalFailed,
        Registration, //
    },
    Access,
    Key, //
};

/// A region of listed pages.
#[pin_data]
pub(crate) struct FastRegion {
    index: u32,
    pd: PdId,
    #[pin]
    state: SpinLockBh<State>,
}

struct State {
    pages: PageList,
    /// What the pages are called, and what may be done with them. `None`: nothing may.
    registered: Option<Registration>,
}

impl FastRegion {
    /// A region of protection domain `pd`, whose keys have that index, with room for as many pages as
    /// `pages`. Nothing can be done with it yet. May sleep.
    pub(crate) fn new(index: u32, pd: PdId, pages: PageList) -> Result<Arc<Self>> {
        let state = State {
            pages,
            registered: None,
        };
        Arc::pin_init(
            pin_init!(Self {
                index,
                pd,
                state <- new_spinlock_bh!(state, "rrxe::FastRegion"),
            }),
            GFP_KERNEL,
        )
    }

    /// What it is registered as, if it is.
    pub(crate) fn registration(&self) -> Option<Registration> {
        self.state.lock().registered
    }

    /// What its keys have in common.
    pub(crate) fn index(&self) -> u32 {
        self.index
    }

    /// Makes the pages of `list` its pages, and returns how many entries that used up. What was
    /// registered before is not any more. Process or softirq context.
    ///
    /// # Errors
    ///
    /// Those of [`SgList::list`].
    pub(crate) fn list(&self, list: &SgList<'_>) -> Result<c_int> {
        let mut state = self.state.lock();
        state.registered = None;
        list.list(&mut state.pages)
    }

    /// Registers the pages listed, as a work request of protection domain `pd` says.
    pub(super) fn register(
        &self,
        registration: &Registration,
        pd: PdId,
    ) -> Result<(), LocalFailed> {
        let mut state = self.state.lock();
        if self.pd != pd || state.registered.is_some() {
            return Err(LocalFailed);
        }
        state.registered = Some(*registration);
        Ok(())
    }

    /// Lets nobody use the pages any more, as a work request of protection domain `pd`, or a peer,
    /// says.
    pub(super) fn invalidate(&self, key: Key, pd: PdId) -> Result<(), LocalFailed> {
        let mut state = self.state.lock();
        if self.pd != pd || state.registered.is_none_or(|known| known.key != key) {
            return Err(LocalFailed);
        }
        state.registered = None;
        Ok(())
    }

    /// Has the `length` bytes at `va` used by an object of the protection domain `pd` that shows
    /// `key`, in the way that `access` says.
    pub(super) fn with_range<R: Rights>(
        &self,
        key: Key,
        pd: PdId,
        access: Access,
        va: u64,
        length: u32,
        use_range: impl FnOnce(Chunks<'_, R>) -> Result<(), Denied>,
    ) -> Result<(), Denied> {
        let state = self.state.lock();
        let registered = state.registered.filter(|known| known.key == key);
        let registered = registered.ok_or(Fault::Key)?;
        if self.pd != pd {
            return Err(Fault::Domain.into());
        }
        if !registered.access.contains(access) {
            return Err(Fault::Rights.into());
        }
        let chunks = va
            .checked_sub(registered.va)
            .and_then(|offset| state.pages.chunks(offset, length as usize))
            .ok_or(Fault::Range)?;
        use_range(Chunks::Listed(chunks))
    }
}
