// SPDX-License-Identifier: GPL-2.0

//! Synchronisation: locks that exclude interrupts or softirqs, data with one runner, tables read under RCU.

pub(crate) mod bh;
pub(crate) mod irq;
pub(crate) mod owner;
pub(crate) mod rcu_table;
pub(crate) mod undertaker;

pub(crate) use bh::{
    new_spinlock_bh,
    BhGuard,
    SpinLockBh, //
};
pub(crate) use irq::{
    new_spinlock_irq,
    SpinLockIrq, //
};
pub(crate) use owner::{
    Owned,
    Turn, //
};
pub(in crate::kapi) use rcu_table::wait_for_burials;
pub(crate) use rcu_table::{
    Burial,
    RcuTable, //
};
pub(crate) use undertaker::{
    SlowBurial,
    Undertaker, //
};

use super::bindings as b;

/// Waits until all RCU read sections that have begun have ended.
///
/// Process context, and not in such a section; sleeps. Expedited: it disturbs all CPUs to be short.
pub(in crate::kapi) fn grace_period() {
    // SAFETY: Has no requirements but the context.
    unsafe { b::synchronize_rcu_expedited() };
}
