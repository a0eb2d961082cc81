// SPDX-License-Identifier: GPL-2.0

//! Whom memory is charged to that a thread of the kernel allocates for a process.
//!
//! C headers: [`include/linux/sched/mm.h`](srctree/include/linux/sched/mm.h),
//! [`include/linux/memcontrol.h`](srctree/include/linux/memcontrol.h)

use crate::kapi::bindings as b;
use kernel::{
    mm::Mm,
    types::NotThreadSafe, //
};

/// While this exists, what the thread allocates with `GFP_KERNEL_ACCOUNT` is charged to the memory
/// control group of a process.
///
/// # Invariants
///
/// The thread charges to `group`, of which this has a reference, or to nobody if that is null. Before, it
/// charged to `before`.
#[must_use = "the thread charges to itself again as soon as this is dropped"]
pub(crate) struct Charge {
    group: *mut b::mem_cgroup,
    before: *mut b::mem_cgroup,
    _thread: NotThreadSafe,
}

impl Charge {
    /// Charges to the process whose memory is `mm`. Process context. To be dropped in the reverse order,
    /// if there is more than one.
    pub(crate) fn to(mm: &Mm) -> Self {
        // SAFETY: The memory is referenced.
        let group = unsafe { b::helpers::mem_cgroup_of(mm.as_raw().cast()) };
        // SAFETY: There is a reference of the group until this is undone.
        let before = unsafe { b::helpers::set_active_memcg(group) };
        // INVARIANT: As just set.
        Self {
            group,
            before,
            _thread: NotThreadSafe,
        }
    }
}

impl Drop for Charge {
    fn drop(&mut self) {
        // SAFETY: By the type invariant this is what the thread charged to, and whoever set that has a
        // reference still.
        unsafe { b::helpers::set_active_memcg(self.before) };
        // SAFETY: Ours by the type invariant, and not used any more.
        unsafe { b::helpers::mem_cgroup_put(self.group) };
    }
}
