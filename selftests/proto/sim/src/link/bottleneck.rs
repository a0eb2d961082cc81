// SPDX-License-Identifier: GPL-2.0

//! A node that is slower than what comes in, with a queue in front of it.

use super::{
    Node,
    Parcel,
    Patience, //
};
use crate::agenda::Nanos;

/// A port of a switch: its speed, and what it does with frames that have to wait.
#[derive(Clone, Copy, Debug)]
pub struct Port {
    /// Nanoseconds that a byte takes.
    pub nanos_per_byte: Nanos,
    /// Bytes that may wait. A frame that finds no room is lost.
    pub capacity: u64,
    /// A frame that finds more bytes waiting is marked, if its sender reacts to that.
    pub threshold: u64,
}

/// A queue that frames leave at the speed of a port, in their order.
///
/// Frames must come in the order of time.
pub struct Bottleneck {
    port: Port,
    /// When the last frame in it has left.
    busy_until: Nanos,
    lost: u64,
    longest: u64,
}

impl Bottleneck {
    /// An empty queue.
    pub fn new(port: Port) -> Self {
        Self {
            port,
            busy_until: 0,
            lost: 0,
            longest: 0,
        }
    }

    /// Frames that found no room so far.
    pub fn lost(&self) -> u64 {
        self.lost
    }

    /// The most bytes that waited at a time since this was asked last.
    pub fn longest(&mut self) -> u64 {
        std::mem::take(&mut self.longest)
    }

    /// Bytes that wait at a time.
    fn waiting(&self, at: Nanos) -> u64 {
        self.busy_until.saturating_sub(at) / self.port.nanos_per_byte
    }
}

impl Node for Bottleneck {
    fn pass(&mut self, mut parcel: Parcel, _: &mut Patience, out: &mut Vec<Parcel>) {
        let waiting = self.waiting(parcel.at);
        let len = parcel.frame.bytes.len() as u64;
        if waiting + len > self.port.capacity {
            self.lost += 1;
            return;
        }
        self.longest = self.longest.max(waiting + len);
        if waiting > self.port.threshold {
            parcel.frame.mark();
        }
        self.busy_until = self.busy_until.max(parcel.at) + len * self.port.nanos_per_byte;
        parcel.at = self.busy_until;
        out.push(parcel);
    }
}
