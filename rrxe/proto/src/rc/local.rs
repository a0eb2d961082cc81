// SPDX-License-Identifier: GPL-2.0

//! Local operations: work requests of which nothing is sent.
//!
//! They have no packets and take no PSNs. Each is carried out by the caller when its turn comes,
//! and once: when sending goes back to before it, it is passed over.

use crate::{
    access::Access,
    key::Key,
    rc::{
        cursor::Cursor,
        request::{Operation, SendQueue, WqeSeq},
        requester::{Phase, Requester}, //
    },
    status::WcStatus, //
};

/// A local operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Local {
    /// Makes a key of this end invalid.
    Invalidate(Key),
    /// Has a memory window show a range of a region, or nothing.
    Bind(Binding),
    /// Lets a region be used whose memory its owner has listed.
    Register(Registration),
}

/// What a region is to be used as.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Registration {
    /// Its key from now on.
    pub key: Key,
    /// What the first byte is called.
    pub va: u64,
    /// What the owner and a peer may do to it.
    pub access: Access,
}

/// What a memory window is to show.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Binding {
    /// The window's key so far.
    pub window: Key,
    /// The tag of its key from now on.
    pub tag: u8,
    /// Key of the region.
    pub region: Key,
    /// Address of the first byte.
    pub va: u64,
    /// Bytes. None: the window shows nothing any more.
    pub len: u64,
    /// What a peer may do to them.
    pub access: Access,
}

/// What a local operation waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Order {
    /// That all before it have begun.
    InTurn,
    /// That all before it are done: they may use what it takes away.
    AfterAll,
}

impl Local {
    const fn order(&self) -> Order {
        match self {
            Self::Invalidate(_) => Order::AfterAll,
            Self::Bind(_) | Self::Register(_) => Order::InTurn,
        }
    }

    /// What the request completes with if it cannot be done.
    const fn failure(&self) -> WcStatus {
        match self {
            Self::Invalidate(_) | Self::Register(_) => WcStatus::LocalQpOperation,
            Self::Bind(_) => WcStatus::MwBind,
        }
    }
}

/// A local operation whose turn has come.
///
/// One that is not committed has not happened; it is offered again.
#[derive(Debug)]
#[must_use]
pub struct LocalTask {
    wqe: WqeSeq,
    local: Local,
}

impl LocalTask {
    /// The request.
    pub fn wqe(&self) -> WqeSeq {
        self.wqe
    }

    /// What to do.
    pub fn local(&self) -> &Local {
        &self.local
    }
}

/// A local operation could not be done. It has changed nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LocalFailed;

impl Requester {
    /// The local operation that is next, if one is. To be asked before
    /// [`poll_transmit`](Self::poll_transmit), which sends nothing of what is behind it.
    pub fn poll_local(&mut self, queue: &impl SendQueue) -> Option<LocalTask> {
        self.pass_done(queue);
        let wqe = self.next.wqe;
        if self.phase == Phase::Flushing || !wqe.is_before(self.sendable()) {
            return None;
        }
        let request = queue.request(wqe);
        let Operation::Local(local) = request.operation() else {
            return None;
        };
        let waits = match local.order() {
            Order::InTurn => self.is_fenced(request),
            Order::AfterAll => self.acked.wqe != wqe,
        };
        (!waits).then_some(LocalTask { wqe, local })
    }

    /// Takes note of how a local operation went.
    pub fn commit_local(
        &mut self,
        task: LocalTask,
        outcome: Result<(), LocalFailed>,
        queue: &impl SendQueue,
    ) {
        match outcome {
            Ok(()) if self.phase == Phase::Running && task.wqe == self.begun => {
                self.undo = None;
                self.begun = task.wqe.next();
                self.pass_done(queue);
                self.acked = self.past_done(self.acked, queue);
                self.settle();
            }
            // The queue has been flushed meanwhile.
            Ok(()) => (),
            Err(LocalFailed) => self.fail(task.wqe, task.local.failure()),
        }
    }

    /// Has sending go on past local operations that are done.
    pub(super) fn pass_done(&mut self, queue: &impl SendQueue) {
        self.next = self.past_done(self.next, queue);
    }

    /// The place past all local operations right after `at` that are done.
    pub(super) fn past_done(&self, mut at: Cursor, queue: &impl SendQueue) -> Cursor {
        while at.wqe.is_before(self.begun) {
            let request = queue.request(at.wqe);
            let Operation::Local(_) = request.operation() else {
                break;
            };
            at.advance(request, self.mtu, 0);
        }
        at
    }
}
