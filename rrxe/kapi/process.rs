// SPDX-License-Identifier: GPL-2.0

//! The process that calls.

use super::bindings as b;

/// A user of the host, whatever a user namespace calls it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct User(u32);

impl User {
    /// The user whose process calls: by the real user ID. Process context.
    pub(crate) fn current() -> Self {
        // SAFETY: May be called in process context.
        Self(unsafe { b::helpers::current_uid() })
    }
}

/// Whether the process ends and is giving up all that it has. Process context.
pub(in crate::kapi) fn is_exiting() -> bool {
    // SAFETY: May be called in process context.
    unsafe { b::helpers::is_exiting() }
}
