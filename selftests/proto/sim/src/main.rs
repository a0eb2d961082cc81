// SPDX-License-Identifier: GPL-2.0

//! Long runs of the simulator, and replays of one scenario.
//!
//! `rrxe-sim [--seed N] [--scenarios N] [--verbose]` runs scenarios from a seed on;
//! with `--verbose` it tells every packet.

use std::{
    process::ExitCode,
    time::Instant, //
};

use rrxe_sim::{
    scenario::Scenario,
    world::{
        self,
        Tally, //
    }, //
};

fn main() -> ExitCode {
    let Some(options) = Options::from_args(std::env::args().skip(1)) else {
        eprintln!("usage: rrxe-sim [--seed N] [--scenarios N] [--verbose]");
        return ExitCode::from(2);
    };
    let start = Instant::now();
    let mut tally = Tally::default();
    let mut failures = 0;
    for seed in options.seed..options.seed + options.scenarios {
        let scenario = Scenario::random(seed);
        let mut print = |now: u64, line: String| println!("{now:>12} {line}");
        if options.verbose {
            describe(&scenario);
        }
        match world::run(&scenario, options.verbose.then_some(&mut print)) {
            Ok(one) => tally.add(one),
            Err(failure) => {
                println!("{:?}: {failure}", scenario.family);
                failures += 1;
            }
        }
    }
    let seconds = start.elapsed().as_secs_f64();
    println!(
        "{} scenarios in {seconds:.1} s ({:.0}/s), {failures} failed\n{tally:?}",
        options.scenarios,
        options.scenarios as f64 / seconds,
    );
    ExitCode::from(u8::from(failures > 0))
}

fn describe(scenario: &Scenario) {
    println!("{:?}, patience {:?}", scenario.family, scenario.patience);
    for (side, link) in scenario.links.iter().enumerate() {
        println!("link from {side}: {link:?}");
    }
    for (index, end) in scenario.ends.iter().enumerate() {
        println!(
            "end {index}: {:?}\n  {:?}, depth {}, budget {}, lag {}, control {:?}, unsent {}, {:?}, unkept {}, {:?}",
            end.flow.settings,
            end.fate,
            end.depth,
            end.budget,
            end.lag,
            end.control,
            end.unsent_per_mille,
            end.paging,
            end.unkept_per_mille,
            end.incidents,
        );
        for (i, work) in end.flow.works.iter().enumerate() {
            println!(
                "  work {i} at {}: {:x?} len {}{}{}",
                work.at,
                work.op,
                work.len,
                if work.fence { " fence" } else { "" },
                if work.signaled { " signaled" } else { "" },
            );
        }
        for receive in &end.flow.receives {
            println!("  receive {receive:?}");
        }
    }
}

struct Options {
    seed: u64,
    scenarios: u64,
    verbose: bool,
}

impl Options {
    fn from_args(mut args: impl Iterator<Item = String>) -> Option<Self> {
        let (mut seed, mut scenarios, mut verbose) = (0, None, false);
        while let Some(arg) = args.next() {
            match arg.as_str() {
                "--seed" => seed = args.next()?.parse().ok()?,
                "--scenarios" => scenarios = Some(args.next()?.parse().ok()?),
                "--verbose" => verbose = true,
                _ => return None,
            }
        }
        let scenarios = scenarios.unwrap_or(if verbose { 1 } else { 20_000 });
        Some(Self {
            seed,
            scenarios,
            verbose,
        })
    }
}
