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

/// What a responder does with packets that arrive after a gap.
#[derive(Clone, Copy, Debug)]
enum Peer {
    Keeps,
    Drops,
}

impl Peer {
    /// Packets that may be sent again for a lost one, of `packets` in all: the lost one and a reminder,
    /// and what the peer has dropped.
    fn most_resent(self, packets: u64) -> u64 {
        match self {
            Self::Keeps => 2,
            Self::Drops => 2 + packets,
        }
    }

    /// `flow` to such a responder over perfect links.
    fn scenario(self, flow: &Flow) -> Scenario {
        let idle = Flow::idle(flow.settings);
        let mut scenario = Scenario::plain([flow.clone(), idle]);
        scenario.ends[1].unkept_per_mille = match self {
            Self::Keeps => 0,
            Self::Drops => 1000,
        };
        scenario
    }
}

/// No more than `most` packets are sent again.
fn resends_little(scenario: &Scenario, tally: Tally, most: u64) -> Result<Tally, Failure> {
    if tally.resent <= most {
        return Ok(tally);
    }
    Err(Failure {
        seed: scenario.seed,
        at: tally.nanos,
        violation: format!("{} packets sent again", tally.resent),
    })
}

/// Runs `works` once for each packet of each direction, without it.
fn lose_each(what: &str, settings: Settings, works: &[Work]) {
    for peer in [Peer::Keeps, Peer::Drops] {
        lose_each_to(peer, what, &Flow::plain(settings, works.to_vec()));
    }
}

fn lose_each_to(peer: Peer, what: &str, flow: &Flow) {
    let clean = world::run(&peer.scenario(flow), None)
        .unwrap_or_else(|failure| panic!("{what}: {failure}"));
    let most = peer.most_resent(clean.packets);
    let mut lost = 0;
    for side in 0..2 {
        for n in 0..clean.packets {
            let mut scenario = peer.scenario(flow);
            scenario.family = Family::Rough;
            scenario.links[side].insert(0, NodePlan::DropNth { n });
            let outcome = world::run(&scenario, None)
                .and_then(|tally| resends_little(&scenario, tally, most));
            match outcome {
                Ok(tally) => lost += tally.faults,
                Err(failure) => {
                    println!("{what}, {peer:?}: packet {n} from {side} lost: {failure}");
                    let mut print = |now: u64, line: String| println!("{now:>12} {line}");
                    let _ = world::run(&scenario, Some(&mut print));
                    panic!("{what}: packet {n} from {side} lost");
                }
            }
        }
    }
    assert_eq!(lost, clean.packets, "{what}: each packet is lost once");
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
fn every_operation_with_a_local_one_before_the_next() {
    for local in [LocalOp::Invalidate, LocalOp::Bind] {
        for first in operations() {
            for second in operations() {
                if matches!((first, second), (Op::SendInv(_), Op::SendInv(_))) {
                    continue;
                }
                let works = [
                    Work::new(first, 300),
                    Work::new(Op::Local(local), 0),
                    Work::new(second, 300),
                ];
                let what = format!("{first:?}, {local:?}, {second:?}");
                lose_each(&what, Settings::PLAIN, &works);
            }
        }
    }
}

#[test]
fn every_operation_behind_a_fence() {
    for op in operations() {
        let read = Op::Read { va: VA, rkey: RKEY };
        let works = [
            Work::new(read, 700),
            Work::new(op, 300).fenced(),
            Work::new(read, 0),
        ];
        lose_each(&format!("READ, fenced {op:?}"), Settings::PLAIN, &works);
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
