// SPDX-License-Identifier: GPL-2.0

//! One side of a queue pair and all that brings it work.

use super::{
    arrival::Arrival,
    backlog::{
        Backlog,
        MAX_PACKETS, //
    },
    counters::Counter,
    node::Node,
    paging::{
        Fetcher,
        Missing, //
    },
    qp::Qp,
    wake::Wake,
    want::{
        Asked,
        Lost,
        Order,
        Want, //
    }, //
};
use crate::kapi::{
    sync::{
        irq,
        BhGuard,
        Owned,
        Turn, //
    },
    time::Timer,
    work::{
        new_work,
        Work, //
    },
};
use kernel::{
    prelude::*,
    sync::{
        atomic::{
            Atomic,
            Relaxed, //
        },
        Arc, //
    },
};
use rrxe_proto::time::Instant;

/// Packets of one plan, unless there is a rate to keep.
pub(super) const BURST: u32 = 16;

/// Turns in a row that one context takes.
const TURNS: usize = 8;

/// Packets sent, or requests completed, in a turn. More than a window, so that a doorbell does not
/// leave anything to a thread.
const BUDGET: u32 = 192;

/// One side of a queue pair: the send side or the receive side.
pub(super) trait Side: Unpin {
    /// Takes in a packet from the peer, or gives back one whose memory is not there yet: it has to
    /// come again, before all others, after a page has come in.
    fn receive(&mut self, qp: &Qp, arrival: Arrival) -> Result<(), Arrival>;

    /// Does what can be done now, up to about `budget` packets or completions.
    fn work(&mut self, qp: &Qp, budget: u32) -> Progress;
}

/// A packet has to come again.
struct Postponed;

/// Whether there is more to do than the budget allowed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub(super) enum Progress {
    /// All is done that can be done now.
    Idle,
    /// Come back soon.
    Busy,
}

impl Progress {
    /// Busy if either is.
    pub(super) fn and(self, other: Self) -> Self {
        match self {
            Self::Idle => other,
            Self::Busy => Self::Busy,
        }
    }
}

/// Where a side is worked on, by one context at a time.
///
/// A packet, a system call and a timer each [run](Self::run) the side on the spot. If it is being
/// worked on, the packet goes to the backlog and whoever works on it takes another turn.
#[pin_data]
pub(super) struct Station<S: Side> {
    #[pin]
    side: Owned<S>,
    #[pin]
    backlog: Backlog,
    #[pin]
    alarm: Timer<Wake>,
    /// What the alarm is set to, in nanoseconds; [`UNSET`](Self::UNSET) if it is not known to be set.
    alarm_at: Atomic<u64>,
    /// Continues what exceeded a budget.
    #[pin]
    rest: Work<Wake>,
    /// The page that the side waits for.
    #[pin]
    want: Want,
    /// Has it come in.
    #[pin]
    fetcher: Fetcher,
}

impl<S: Side> Station<S> {
    const UNSET: u64 = u64::MAX;

    /// A station of `node` for `side`, to whose [`run_alarm`](Self::run_alarm), [`run`](Self::run), and
    /// [`order`](Self::order) and [`settle`](Self::settle), the three lead.
    pub(super) fn new(
        node: Arc<Node>,
        side: S,
        alarm: Wake,
        rest: Wake,
        fetcher: impl PinInit<Fetcher>,
    ) -> impl PinInit<Self> {
        pin_init!(Self {
            side <- Owned::new(side),
            backlog <- Backlog::new(node),
            alarm <- Timer::new(alarm),
            alarm_at: Atomic::new(Self::UNSET),
            rest <- new_work!(rest, "rrxe::Station::rest"),
            want <- Want::new(),
            fetcher <- fetcher,
        })
    }

    /// Works on the side now, or has whoever works on it look again. Any context but hard interrupts.
    pub(super) fn run(&self, qp: &Qp) {
        let _bh = BhGuard::new();
        if let Some(turn) = self.side.enter() {
            self.take_turns(qp, turn);
        }
    }

    /// Works on the side now, or has a thread do so if interrupts are disabled. Any context.
    pub(super) fn run_or_queue(&self, qp: &Qp) {
        if irq::are_disabled() {
            self.continue_later(qp);
        } else {
            self.run(qp);
        }
    }

    /// Has a thread work on the side, because its alarm went off.
    ///
    /// Not the softirq that the alarm is: a peer that is never ready, and asks for a wait of a few
    /// microseconds each time, or some of them, would have softirqs follow each other without a
    /// pause, and nothing else would run on this CPU.
    pub(super) fn run_alarm(&self, qp: &Qp) {
        self.alarm_at.store(Self::UNSET, Relaxed);
        self.continue_later(qp);
    }

    /// Hands a packet to the side.
    pub(super) fn deliver(&self, qp: &Qp, arrival: Arrival) {
        let _bh = BhGuard::new();
        match self.side.try_enter() {
            Some(mut turn) if self.backlog.is_empty() => {
                self.want.begin_turn();
                let _ = self.hand_over(qp, &mut turn, arrival);
                self.take_turns(qp, turn);
            }
            // Packets that wait go first.
            turn => {
                if self.backlog.push(arrival.into_packet()).is_err() {
                    qp.count(Counter::BacklogFull);
                }
                match turn {
                    Some(turn) => self.take_turns(qp, turn),
                    None => self.run(qp),
                }
            }
        }
    }

    /// Changes the side, and works on it afterwards. Process context, may sleep.
    pub(super) fn update<R>(&self, qp: &Qp, change: impl FnOnce(&mut S) -> R) -> R {
        let mut turn = self.side.enter_sleeping();
        let result = change(&mut turn);
        let _bh = BhGuard::new();
        self.take_turns(qp, turn);
        result
    }

    /// Has the side worked on at `deadline` at the latest.
    pub(super) fn wake_at(&self, deadline: Instant) {
        let nanos = deadline.as_nanos();
        // An alarm that comes too early does no harm, and is cheaper than setting it each time.
        if nanos < self.alarm_at.load(Relaxed) {
            self.alarm_at.store(nanos, Relaxed);
            self.alarm.arm(deadline);
        }
    }

    /// Works until nothing is left that was announced, or leaves it to a thread: others can announce
    /// work as fast as it is done.
    fn take_turns(&self, qp: &Qp, mut turn: Turn<'_, S>) {
        for _ in 0..TURNS {
            self.want.begin_turn();
            let drained = self.drain_backlog(qp, &mut turn);
            let progress = drained.and(turn.work(qp, BUDGET));
            self.want.end_turn();
            if progress == Progress::Busy {
                break;
            }
            match turn.leave() {
                Some(again) => turn = again,
                None => return,
            }
        }
        // What is announced between the two is done by the thread.
        drop(turn);
        self.continue_later(qp);
    }

    /// Has a thread work on the side.
    fn continue_later(&self, qp: &Qp) {
        qp.count(Counter::Deferred);
        qp.node().continue_later(&self.rest);
    }

    /// Hands packets of the backlog to the side.
    fn drain_backlog(&self, qp: &Qp, turn: &mut Turn<'_, S>) -> Progress {
        for _ in 0..MAX_PACKETS {
            let Some(packet) = self.backlog.pop() else {
                return Progress::Idle;
            };
            if let Some(arrival) = Arrival::parse(packet) {
                if self.hand_over(qp, turn, arrival).is_err() {
                    return Progress::Idle;
                }
            }
        }
        Progress::Busy
    }

    /// Hands a packet to the side. What the side gives back is the first packet of the backlog again.
    fn hand_over(
        &self,
        qp: &Qp,
        turn: &mut Turn<'_, S>,
        arrival: Arrival,
    ) -> Result<(), Postponed> {
        turn.receive(qp, arrival).map_err(|arrival| {
            self.backlog.push_front(arrival.into_packet());
            Postponed
        })
    }

    /// Has a page come in, and the side worked on then. The side calls this in its turn, and has to
    /// do without if it has waited in vain.
    pub(super) fn page_in(&self, qp: &Qp, missing: Missing) -> Result<(), Lost> {
        match self.want.ask(missing)? {
            Asked::Already => Ok(()),
            Asked::Anew if self.fetcher.start(qp.node(), missing) => Ok(()),
            Asked::Anew => {
                self.want.forget();
                Err(Lost)
            }
        }
    }

    /// The page that is to come in.
    pub(super) fn order(&self) -> Option<Order> {
        self.want.order()
    }

    /// Works on the side, since it is known how `order` went.
    pub(super) fn settle(&self, qp: &Qp, order: Order, outcome: Result) {
        self.want.settle(order, outcome);
        self.run(qp);
    }

    /// Waits for no page any more. Process context, may sleep.
    pub(super) fn forget_pages(&self) {
        self.want.forget();
        self.fetcher.start_over();
    }
}
