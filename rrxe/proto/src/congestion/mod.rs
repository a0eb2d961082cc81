// SPDX-License-Identifier: GPL-2.0

//! Congestion control of a queue pair: DCQCN, as RoCE adapters speak it.
//!
//! A switch whose queue grows sets the [ECN](Ecn) field of packets to *congestion experienced*. The
//! receiver of such a packet is the [*notification point*](NotificationPoint): it sends a
//! notification (CNP) back. The sender of the packet is the [*reaction point*](ReactionPoint): a
//! notification cuts its rate, and while none come time and bytes sent raise it again.
//!
//! A sender that was never notified has no rate, and nothing here has to be asked.

mod alpha;
mod bucket;
mod ecn;
mod limit;
mod notification;
mod params;
mod rate;
mod reaction;
mod stages;

#[cfg(test)]
mod tests;

pub use self::{
    ecn::Ecn,
    notification::NotificationPoint,
    params::ReactionParams,
    rate::Rate,
    reaction::ReactionPoint, //
};
