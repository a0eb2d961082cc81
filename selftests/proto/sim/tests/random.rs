// SPDX-License-Identifier: GPL-2.0

//! Many random scenarios. `RRXE_SCENARIOS` sets how many, `RRXE_SEED` the first seed.

use rrxe_sim::{
    scenario::Scenario,
    world::{
        self,
        Tally, //
    }, //
};

fn from_env(name: &str, default: u64) -> u64 {
    std::env::var(name).map_or(default, |value| value.parse().expect("a number"))
}

#[test]
fn random_scenarios_end_as_they_must() {
    let first = from_env("RRXE_SEED", 1);
    let count = from_env("RRXE_SCENARIOS", 50_000);
    let mut tally = Tally::default();
    for seed in first..first + count {
        match world::run(&Scenario::random(seed), None) {
            Ok(one) => tally.add(one),
            Err(failure) => panic!("{failure}"),
        }
    }
    println!("{count} scenarios: {tally:?}");
    // A run in which nothing goes wrong on the link, or no error path is taken, tests nothing.
    if count >= 1000 {
        assert!(tally.faults > 0 && tally.resent > 0 && tally.damaged > 0 && tally.failed > 0);
        assert!(tally.heeded > 0 && tally.withheld > 0);
    }
}
