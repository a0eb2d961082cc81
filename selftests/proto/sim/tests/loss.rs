// SPDX-License-Identifier: GPL-2.0

//! How much is sent again over links that lose packets, by peers that keep what comes after a gap
//! and by peers that drop it.

use rrxe_sim::{
    program::{
        Flow,
        Op,
        Settings,
        Work, //
    },
    scenario::{
        Family,
        Fate,
        NodePlan,
        Scenario, //
    },
    world::{
        self,
        Tally, //
    }, //
};

/// Packets of each message.
const PACKETS: u32 = 64;

/// A stream of messages in a window of 128 packets, over links that lose `per_mille` of a thousand
/// packets, to a responder that keeps none, or all, of what comes after a gap.
fn stream(op: Op, per_mille: u32, unkept_per_mille: u32, seed: u64) -> Tally {
    let settings = Settings {
        window_packets: 128,
        timeout: 14,
        ..Settings::PLAIN
    };
    let works = (0..60)
        .map(|_| Work::new(op, PACKETS * settings.mtu))
        .collect();
    let flow = Flow::plain(settings, works);
    let mut scenario = Scenario::plain([flow, Flow::idle(settings)]);
    scenario.seed = seed;
    scenario.family = Family::Lossy;
    for link in &mut scenario.links {
        link.insert(0, NodePlan::Loss { per_mille });
    }
    for end in &mut scenario.ends {
        end.fate = Fate::Succeeds;
        end.unkept_per_mille = unkept_per_mille;
    }
    world::run(&scenario, None).unwrap_or_else(|failure| panic!("{op:?}: {failure}"))
}

/// All that several streams amount to.
fn streams(op: Op, per_mille: u32, unkept_per_mille: u32) -> Tally {
    let mut sum = Tally::default();
    for seed in 1..=5 {
        sum.add(stream(op, per_mille, unkept_per_mille, seed));
    }
    sum
}

#[test]
fn a_lost_packet_is_sent_again_and_hardly_any_other() {
    let (va, rkey) = (Flow::BASE, Flow::RKEY);
    for op in [Op::Write { va, rkey }, Op::Read { va, rkey }] {
        // Where much is lost, so is what is sent again, and only a reminder or a time-out tells.
        for (per_mille, most) in [(1, 1.5), (10, 1.5), (50, 4.0)] {
            let kept = streams(op, per_mille, 0);
            let dropped = streams(op, per_mille, 1000);
            let share = |tally: Tally| tally.resent as f64 / tally.faults.max(1) as f64;
            println!(
                "{op:?}, {per_mille} of 1000 lost: {:.2} packets sent again for each lost one in \
                 {} us; go-back-N {:.2} in {} us",
                share(kept),
                kept.nanos / 1000,
                share(dropped),
                dropped.nanos / 1000,
            );
            assert!(kept.faults > 0, "nothing was lost");
            assert!(share(kept) < most, "{kept:?}");
            if op.is_write() {
                assert!(share(dropped) > 2.0 * share(kept), "{kept:?} {dropped:?}");
                assert!(kept.nanos <= dropped.nanos + dropped.nanos / 4);
            }
        }
    }
}
