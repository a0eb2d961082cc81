// SPDX-License-Identifier: GPL-2.0

//! Synchronisation: locks that exclude softirqs, tables read under RCU, per-CPU counters.

pub(crate) mod bh;
pub(crate) mod owner;
pub(crate) mod percpu;
pub(crate) mod rcu_table;

pub(crate) use bh::{
    new_spinlock_bh,
    BhGuard,
    SpinLockBh, //
};
pub(crate) use owner::{
    Owned,
    Turn, //
};
pub(crate) use percpu::Counters;
pub(crate) use rcu_table::RcuTable;
