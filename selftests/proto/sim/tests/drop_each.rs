// SPDX-License-Identifier: GPL-2.0

//! Every packet of every operation is lost once, in either direction.

use rrxe_sim::{
    program::{
        Flow,
        LocalOp,
        Op,
        Settings,
        Work, //
    },
    scenario::{
        Family,
        NodePlan,
        Scenario, //
    },
    world::{
        self,
        Failure,
        Tally, //
    }, //
};

const RKEY: u32 = Flow::RKEY;
const VA: u64 = Flow::BASE;

fn operations() -> Vec<Op> {
    let imm = [1, 2, 3, 4];
    vec![
        Op::Send,
        Op::SendImm(imm),
        Op::SendInv(Flow::SPARE),
        Op::Write { va: VA, rkey: RKEY },
        Op::WriteImm {
            va: VA + 3,
            rkey: RKEY,
            imm,
        },
        Op::Read {
            va: VA + 1,
            rkey: RKEY,
        },
        Op::CompareSwap {
            va: VA,
            rkey: RKEY,
            compare: 0,
            swap: 5,
        },
        Op::FetchAdd {
            va: VA + 8,
            rkey: RKEY,
            add: 9,
        },
        Op::AtomicWrite {
            va: VA + 16,
            rkey: RKEY,
        },
        Op::Flush {
            va: VA,
            rkey: RKEY,
            len: 5000,
            how: (1, 0),
        },
        Op::Flush {
            va: 0,
            rkey: RKEY,
            len: 0,
            how: (3, 1),
        },
        Op::Local(LocalOp::Invalidate),
        Op::Local(LocalOp::Bind),
    ]
}

/// Nothing but the lost packet is sent again, but for reminders, and what a timeout may ask for.
fn resends_little(scenario: &Scenario, tally: Tally) -> Result<(), Failure> {
    if tally.resent <= MOST_RESENT {
        return Ok(());
    }
    Err(Failure {
        seed: scenario.seed,
        at: tally.nanos,
        violation: format!("{} packets sent again", tally.resent),
    })
}

/// The lost packet, and a reminder.
const MOST_RESENT: u64 = 2;

/// Runs `works` once for each packet of each direction, without it.
fn lose_each(what: &str, settings: Settings, works: &[Work]) {
    let flow = Flow::plain(settings, works.to_vec());
    let clean = Scenario::plain([flow.clone(), Flow::idle(settings)]);
    let tally = world::run(&clean, None).unwrap_or_else(|failure| panic!("{what}: {failure}"));
    for side in 0..2 {
        for n in 0..tally.packets {
            let mut scenario = Scenario::plain([flow.clone(), Flow::idle(settings)]);
            scenario.family = Family::Rough;
            scenario.links[side].insert(0, NodePlan::DropNth { n });
            let outcome =
                world::run(&scenario, None).and_then(|tally| resends_little(&scenario, tally));
            if let Err(failure) = outcome {
                println!("{what}: packet {n} from {side} lost: {failure}");
                let mut print = |now: u64, line: String| println!("{now:>12} {line}");
                let _ = world::run(&scenario, Some(&mut print));
                panic!("{what}: packet {n} from {side} lost");
            }
        }
    }
}

#[test]
fn one_message_alone() {
    for op in operations() {
        for len in [0, 1, 255, 256, 257, 512, 767, 2048] {
            lose_each(
                &format!("{op:?} of {len}"),
                Settings::PLAIN,
                &[Work::new(op, len)],
            );
        }
    }
}

#[test]
fn one_message_in_a_small_window() {
    let settings = Settings {
        window_packets: 2,
        window_bytes: 512,
        ..Settings::PLAIN
    };
    for op in operations() {
        lose_each(&format!("{op:?}"), settings, &[Work::new(op, 1500)]);
    }
}

#[test]
fn every_operation_after_every_other() {
    for first in operations() {
        for second in operations() {
            if matches!((first, second), (Op::SendInv(_), Op::SendInv(_))) {
                continue;
            }
            let works = [Work::new(first, 700), Work::new(second, 300)];
            lose_each(&format!("{first:?}, {second:?}"), Settings::PLAIN, &works);
        }
    }
}

#[test]
fn one_read_at_a_time() {
    let settings = Settings {
        max_rd_atomic: 1,
        max_dest_rd_atomic: 1,
        ..Settings::PLAIN
    };
    let works: Vec<Work> = operations()
        .into_iter()
        .filter(|op| op.takes_credit())
        .flat_map(|op| [Work::new(op, 600), Work::new(op, 0)])
        .collect();
    lose_each("READs and atomics", settings, &works);
}

#[test]
fn receive_is_late() {
    for op in operations().into_iter().filter(|op| op.takes_receive()) {
        let mut flow = Flow::plain(Settings::PLAIN, vec![Work::new(op, 900), Work::new(op, 0)]);
        if matches!(op, Op::SendInv(_)) {
            flow.works.truncate(1);
        }
        flow.receives[0].at = 100_000;
        for n in 0..12 {
            for side in 0..2 {
                let mut scenario = Scenario::plain([flow.clone(), Flow::idle(Settings::PLAIN)]);
                scenario.family = Family::Rough;
                scenario.links[side].insert(0, NodePlan::DropNth { n });
                if let Err(failure) = world::run(&scenario, None) {
                    panic!("{op:?}, packet {n} from {side} lost: {failure}");
                }
            }
        }
    }
}
