// SPDX-License-Identifier: GPL-2.0

//! Storage that the engine leaves to its caller.

use std::collections::VecDeque;

use rrxe_proto::{
    rc::{
        ReceiveSource,
        Request,
        SendQueue,
        Take,
        WqeSeq, //
    },
    status::WcStatus, //
};

use crate::program::Receive;

/// A ring of send requests.
#[derive(Debug)]
pub struct SendRing {
    slots: Vec<Option<Request>>,
}

impl SendRing {
    /// A ring that holds at least `depth` requests.
    pub fn new(depth: u32) -> Self {
        Self {
            slots: vec![None; (depth as usize + 1).next_power_of_two()],
        }
    }

    /// Stores the request that is posted as `wqe`.
    pub fn store(&mut self, wqe: WqeSeq, request: Request) {
        let place = self.place(wqe);
        self.slots[place] = Some(request);
    }

    /// Forgets a completed request: whoever asks for it again makes a mistake.
    pub fn release(&mut self, wqe: WqeSeq) {
        let place = self.place(wqe);
        self.slots[place] = None;
    }

    fn place(&self, wqe: WqeSeq) -> usize {
        wqe.get() as usize & (self.slots.len() - 1)
    }
}

impl SendQueue for SendRing {
    fn request(&self, wqe: WqeSeq) -> &Request {
        self.slots[self.place(wqe)]
            .as_ref()
            .expect("the request is posted and not completed")
    }
}

/// A receive queue.
#[derive(Debug, Default)]
pub struct ReceiveRing {
    posted: VecDeque<Receive>,
    /// Receives taken and not yet accounted for.
    pub taken: usize,
}

impl ReceiveRing {
    /// Posts a receive.
    pub fn post(&mut self, receive: Receive) {
        self.posted.push_back(receive);
    }
}

impl ReceiveSource for ReceiveRing {
    fn take(&mut self) -> Take {
        let Some(receive) = self.posted.pop_front() else {
            return Take::Empty;
        };
        self.taken += 1;
        if receive.local_fault {
            return Take::Invalid(WcStatus::LocalProtection);
        }
        Take::Taken {
            capacity: receive.capacity.into(),
        }
    }
}
