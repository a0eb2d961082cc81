// SPDX-License-Identifier: GPL-2.0

//! From a seed to a scenario.

use std::time::Duration;

use rrxe_proto::congestion::{
    Rate,
    ReactionParams, //
};

use super::{
    EndPlan,
    Family,
    Fate,
    Incident,
    NodePlan,
    Paging,
    Scenario,
    Tuning, //
};
use crate::{
    agenda::{
        Nanos,
        MICROSECOND,
        MILLISECOND, //
    },
    memory::Rights,
    program::{
        Flow,
        LocalOp,
        Op,
        Receive,
        RegionPlan,
        Settings,
        Work, //
    },
    rng::Rng, //
};

/// The region that works use.
const MAIN: u32 = 0x1000;
/// A region the peer may only read.
const READ_ONLY: u32 = 0x2000;
/// The first of the regions that exist to be invalidated.
const SPARE: u32 = 0x10_000;
/// A key that names nothing.
const NOWHERE: u32 = 0xdead_0000;

/// Packets of the longest message.
const LONGEST: u64 = 120;

const BASE: u64 = 0x7f00_0000_1000;

const LOCAL_QP_OPERATION: &[u32] = &[2];
const LOCAL_PROTECTION: &[u32] = &[4];
const MW_BIND: &[u32] = &[6];
const REMOTE_INVALID_REQUEST: &[u32] = &[9];
const REMOTE_ACCESS: &[u32] = &[10];
const REMOTE_OPERATION: &[u32] = &[11];
const RNR_RETRY_EXCEEDED: &[u32] = &[13];

pub(super) fn scenario(seed: u64) -> Scenario {
    let mut rng = Rng::new(seed);
    let family = match rng.below(100) {
        0..10 => Family::Clean,
        10..55 => Family::Rough,
        55..70 => Family::Refusal,
        70..77 => Family::Death,
        77..83 => Family::Starved,
        _ => Family::Lossy,
    };
    let pairs = if rng.chance(100) { 2 } else { 1 };
    let speed = Speed::random(&mut rng);
    let mut scenario = Scenario {
        seed,
        family,
        patience: None,
        links: [0, 1].map(|_| vec![speed.delay()]),
        ends: Vec::new(),
    };
    for _ in 0..pairs {
        let mtu = rng.pick(&[256, 256, 256, 256, 512, 1024, 2048, 4096]);
        let both_ways = rng.chance(600);
        for side in 0..2 {
            let busy = side == 0 || both_ways;
            let end = end(&mut rng, family, &speed, mtu, busy);
            scenario.ends.push(end);
        }
    }
    match family {
        Family::Clean => {}
        Family::Rough => rough(&mut rng, &mut scenario),
        Family::Refusal => refusal(&mut rng, &mut scenario),
        Family::Death => death(&mut rng, &mut scenario),
        Family::Starved => starved(&mut rng, &mut scenario),
        Family::Lossy => lossy(&mut rng, &mut scenario),
    }
    // From another source, so that the rest of a scenario does not depend on it.
    let mut rng = Rng::new(seed ^ 0xec_0de);
    if rng.chance(250) {
        congest(&mut rng, &mut scenario);
    }
    if matches!(family, Family::Rough | Family::Lossy) {
        forget(&mut rng, &mut scenario);
    }
    if matches!(family, Family::Rough | Family::Lossy | Family::Death) && rng.chance(300) {
        page(&mut rng, &mut scenario);
    }
    scenario
}

/// How long things take.
struct Speed {
    latency: Nanos,
    jitter: Nanos,
    lag: Nanos,
}

impl Speed {
    fn random(rng: &mut Rng) -> Self {
        Self {
            latency: rng.range(200, 60 * MICROSECOND),
            jitter: if rng.chance(500) {
                rng.below(20 * MICROSECOND)
            } else {
                0
            },
            lag: if rng.chance(700) {
                rng.below(8 * MICROSECOND)
            } else {
                0
            },
        }
    }

    fn delay(&self) -> NodePlan {
        NodePlan::Delay {
            latency: self.latency,
            jitter: self.jitter,
        }
    }
}

fn end(rng: &mut Rng, family: Family, speed: &Speed, mtu: u32, busy: bool) -> EndPlan {
    let settings = settings(rng, family, mtu);
    let count = if busy { works_count(rng) } else { 0 };
    let packets = if mtu == 256 { LONGEST as usize } else { 20 };
    let region_len = 8 * 1024 + mtu as usize * packets;
    let mut regions = vec![
        RegionPlan {
            rkey: MAIN,
            base: BASE,
            bytes: rng.bytes(region_len),
            rights: Rights::ALL,
        },
        RegionPlan {
            rkey: READ_ONLY,
            base: BASE,
            bytes: rng.bytes(4096),
            rights: Rights {
                read: true,
                ..Rights::NONE
            },
        },
    ];
    let pace = rng.pick(&[0, 0, 500, 5 * MICROSECOND, 50 * MICROSECOND]);
    let mut at = 0;
    let mix = rng.below(6);
    let mut works = Vec::new();
    for i in 0..count {
        at += rng.below(pace + 1);
        let mut work = work(rng, mix, mtu, region_len as u64);
        work.at = at;
        if let Op::SendInv(key) = &mut work.op {
            *key = SPARE + i as u32;
            regions.push(RegionPlan {
                rkey: *key,
                base: BASE,
                bytes: vec![0; 16],
                rights: Rights::ALL,
            });
        }
        works.push(work);
    }
    let receives = receives(rng, family, &works);
    let rough = matches!(family, Family::Rough | Family::Lossy);
    let mut incidents = Vec::new();
    if rough && rng.chance(150) {
        let from = rng.below(at + 200 * MICROSECOND);
        let to = from + rng.below(2 * MILLISECOND);
        incidents.push((from, Incident::Drain));
        if rng.chance(500) {
            incidents.push((to, Incident::Retune(tuning(rng, family, &settings))));
        }
        incidents.push((to, Incident::Resume));
    }
    if rough && rng.chance(150) {
        // The peer's requests must find as much room as before.
        let readjust = Incident::Readjust {
            max_dest_rd_atomic: rng.range(16, 40) as u8,
            min_rnr_timer: rng.range(1, 16) as u8,
        };
        incidents.push((rng.below(at + 200 * MICROSECOND), readjust));
    }
    EndPlan {
        flow: Flow {
            settings,
            works,
            receives,
            regions,
        },
        fate: if family == Family::Lossy {
            Fate::May { statuses: &[] }
        } else {
            Fate::Succeeds
        },
        depth: rng.pick(&[1, 2, 4, 16, 64]),
        unsent_per_mille: if rough && rng.chance(300) {
            rng.range(10, 300) as u32
        } else {
            0
        },
        paging: Paging::NONE,
        unkept_per_mille: rng.pick(&[0, 0, 0, 100, 1000]),
        budget: rng.pick(&[1, 2, 3, 8, 64]),
        control: None,
        lag: speed.lag,
        incidents,
    }
}

fn settings(rng: &mut Rng, family: Family, mtu: u32) -> Settings {
    let psn = match rng.below(3) {
        0 => rng.below(1 << 24) as u32,
        1 => 0x100_0000 - rng.range(1, 40) as u32,
        _ => 0x80_0000 - rng.range(1, 40) as u32,
    };
    let any = family == Family::Lossy;
    let depth = rng.pick(&[1, 1, 2, 4, 16]) as u8;
    Settings {
        mtu,
        psn,
        retry_cnt: if any || family == Family::Death {
            rng.below(8) as u8
        } else {
            7
        },
        rnr_retry: if any { rng.below(8) as u8 } else { 7 },
        timeout: match family {
            Family::Clean if rng.chance(300) => 0,
            Family::Lossy => rng.range(5, 13) as u8,
            _ => rng.range(9, 14) as u8,
        },
        max_rd_atomic: depth,
        max_dest_rd_atomic: if rng.chance(300) { 16 } else { depth },
        min_rnr_timer: if rng.chance(100) {
            rng.below(32) as u8
        } else {
            rng.range(1, 16) as u8
        },
        window_bytes: mtu * rng.pick(&[1, 2, 3, 7, 16, 64, 256]),
        window_packets: rng.pick(&[1, 2, 3, 7, 16, 64, 256]),
        access: Rights::ALL,
    }
}

/// Other attributes of a requester that suit its family, and what its responder can hold.
fn tuning(rng: &mut Rng, family: Family, now: &Settings) -> Tuning {
    let other = settings(rng, family, now.mtu);
    Tuning {
        timeout: other.timeout,
        retry_cnt: other.retry_cnt,
        rnr_retry: other.rnr_retry,
        max_rd_atomic: rng.range(1, now.max_dest_rd_atomic.into()) as u8,
    }
}

fn works_count(rng: &mut Rng) -> usize {
    let most = rng.pick(&[3, 10, 10, 30]);
    rng.range(1, most) as usize
}

fn work(rng: &mut Rng, mix: u64, mtu: u32, region: u64) -> Work {
    let kind = match mix {
        // One kind of operation only, or READ and WRITE alternating at random, or everything.
        0 => rng.pick(&[0, 1, 2]),
        1 => rng.pick(&[3, 4]),
        2 => rng.pick(&[5, 6, 7, 8, 9]),
        3 => rng.pick(&[3, 5, 9]),
        _ => rng.below(12),
    };
    let len = length(rng, mtu);
    let rkey = MAIN;
    let va = BASE + rng.below(region - u64::from(len) + 1);
    let aligned = BASE + rng.below(32) * 8;
    let imm = (rng.bits() as u32).to_ne_bytes();
    let op = match kind {
        0 => Op::Send,
        1 => Op::SendImm(imm),
        2 => Op::SendInv(0),
        3 => Op::Write { va, rkey },
        4 => Op::WriteImm { va, rkey, imm },
        5 => Op::Read { va, rkey },
        6 => Op::CompareSwap {
            va: aligned,
            rkey,
            compare: rng.pick(&[0, 1, u64::MAX]),
            swap: rng.bits(),
        },
        7 => Op::FetchAdd {
            va: aligned,
            rkey,
            add: rng.bits(),
        },
        8 => Op::AtomicWrite { va: aligned, rkey },
        9 => flush(rng, va, len),
        10 => Op::Local(LocalOp::Bind),
        _ => Op::Local(LocalOp::Invalidate),
    };
    let len = op.fixed_len().unwrap_or(len);
    // What names no byte is not checked.
    let op = match op {
        Op::Read { .. } if len == 0 => Op::Read {
            va: rng.bits() >> 1,
            rkey: NOWHERE,
        },
        Op::Write { .. } if len == 0 => Op::Write {
            va: rng.bits() >> 1,
            rkey: NOWHERE,
        },
        op => op,
    };
    let payload = if op.sends_data() {
        rng.bytes(len as usize)
    } else {
        Vec::new()
    };
    Work {
        at: 0,
        op,
        len,
        signaled: rng.chance(600),
        solicited: rng.chance(300),
        fence: rng.chance(150),
        local_fault: false,
        payload,
    }
}

fn flush(rng: &mut Rng, va: u64, len: u32) -> Op {
    let placement = rng.pick(&[1, 2, 3]);
    // The range means nothing for a whole region.
    let (selectivity, va, len) = if rng.chance(300) {
        (1, rng.bits(), rng.bits() as u32 >> 1)
    } else {
        (0, va, len)
    };
    Op::Flush {
        va,
        rkey: MAIN,
        len,
        how: (placement, selectivity),
    }
}

fn length(rng: &mut Rng, mtu: u32) -> u32 {
    match rng.below(8) {
        0 => 0,
        1 => rng.range(1, 9) as u32,
        2 => rng.range(1, u64::from(mtu)) as u32,
        3 => mtu - 1 + rng.below(3) as u32,
        4 => mtu * rng.range(1, 8) as u32,
        5 => mtu * 2 + rng.below(8) as u32,
        6 if mtu == 256 && rng.chance(150) => rng.range(1, u64::from(mtu) * LONGEST) as u32,
        6 => rng.range(1, u64::from(mtu) * 4) as u32,
        _ => rng.range(1, u64::from(mtu) * 20) as u32,
    }
}

fn receives(rng: &mut Rng, family: Family, works: &[Work]) -> Vec<Receive> {
    let late = matches!(family, Family::Rough | Family::Lossy) && rng.chance(400);
    let mut at = 0;
    let mut out = Vec::new();
    for work in works.iter().filter(|work| work.op.takes_receive()) {
        if late && rng.chance(400) {
            at += rng.below(3 * MILLISECOND);
        }
        let needed = if work.op.is_send() { work.len } else { 0 };
        let capacity = needed + rng.pick(&[0, 0, 1, 100]);
        out.push(Receive {
            at,
            capacity,
            local_fault: false,
        });
    }
    for _ in 0..rng.below(3) {
        out.push(Receive {
            at,
            capacity: 64,
            local_fault: false,
        });
    }
    out
}

/// Faults for both links. How many of a thousand frames each kind hits is itself random.
fn adversity(rng: &mut Rng, worst: u64) -> Vec<NodePlan> {
    // Frames come a little late, or long after they were sent again.
    let longest = rng.pick(&[20 * MICROSECOND, 150 * MICROSECOND, 4 * MILLISECOND]);
    let mut out = Vec::new();
    for kind in 0..5 {
        let per_mille = rng.range(5, worst) as u32;
        if !rng.chance(400) {
            continue;
        }
        out.push(match kind {
            0 => NodePlan::Loss { per_mille },
            1 => NodePlan::BurstLoss {
                per_mille: per_mille / 4,
                longest: 6,
            },
            2 => NodePlan::Duplicate { per_mille, longest },
            3 => NodePlan::Reorder { per_mille, longest },
            _ => NodePlan::Corrupt { per_mille },
        });
    }
    out
}

/// Switches mark packets; ends may react, or not.
fn congest(rng: &mut Rng, scenario: &mut Scenario) {
    for link in &mut scenario.links {
        if rng.chance(800) {
            let per_mille = rng.pick(&[10, 100, 500, 1000]);
            link.push(NodePlan::Mark { per_mille });
        }
    }
    for end in &mut scenario.ends {
        if rng.chance(800) {
            end.control = Some(reaction(rng, end.flow.settings.mtu));
        }
    }
}

/// A reaction to congestion that leaves a rate at which a packet takes some microseconds.
fn reaction(rng: &mut Rng, mtu: u32) -> ReactionParams {
    let one_in = |micros| Rate::from_mbps(mtu * 8 / micros);
    ReactionParams {
        min_rate: one_in(rng.pick(&[2, 4, 10])),
        max_rate: rng.pick(&[Rate::ZERO, one_in(1)]),
        rate_to_set_on_first_cnp: rng.pick(&[Rate::ZERO, one_in(1), one_in(2)]),
        time_reset: Duration::from_micros(rng.pick(&[20, 55, 500])),
        ..ReactionParams::DEFAULT
    }
}

/// The data of what is sent is not there, for a moment or for many timeouts.
fn page(rng: &mut Rng, scenario: &mut Scenario) {
    for end in &mut scenario.ends {
        end.paging = Paging {
            missing_per_mille: rng.pick(&[20, 200, 700]),
            longest: rng.pick(&[20 * MICROSECOND, 2 * MILLISECOND, 300 * MILLISECOND]),
        };
    }
}

/// Responders drop what they have kept.
fn forget(rng: &mut Rng, scenario: &mut Scenario) {
    for end in &mut scenario.ends {
        if rng.chance(200) {
            end.incidents
                .push((rng.below(2 * MILLISECOND), Incident::Forget));
        }
    }
}

fn rough(rng: &mut Rng, scenario: &mut Scenario) {
    scenario.patience = Some(rng.range(1, 5) as u32);
    for side in 0..2 {
        scenario.links[side].extend(adversity(rng, 200));
    }
}

fn lossy(rng: &mut Rng, scenario: &mut Scenario) {
    for side in 0..2 {
        scenario.links[side].extend(adversity(rng, 350));
    }
}

fn death(rng: &mut Rng, scenario: &mut Scenario) {
    let from = rng.below(400 * MICROSECOND);
    if rng.chance(300) {
        let victim = rng.below(scenario.ends.len() as u64) as usize;
        scenario.ends[victim]
            .incidents
            .push((from, Incident::Error));
    } else {
        let one_way = rng.below(3) as usize;
        for side in (0..2).filter(|&side| side != one_way) {
            scenario.links[side].insert(0, NodePlan::Cut { from });
        }
    }
    for end in &mut scenario.ends {
        end.fate = Fate::May { statuses: &[] };
    }
}

fn starved(rng: &mut Rng, scenario: &mut Scenario) {
    let end = &mut scenario.ends[0];
    end.flow.settings.rnr_retry = rng.below(7) as u8;
    if rng.chance(300) {
        // Nothing is lost, so no ACK timer is needed.
        end.flow.settings.timeout = 0;
    }
    let hungry: Vec<usize> = (0..end.flow.works.len())
        .filter(|&i| end.flow.works[i].op.takes_receive())
        .collect();
    if hungry.is_empty() {
        return;
    }
    let missing = rng.below(hungry.len() as u64) as usize;
    end.flow.receives.truncate(missing);
    end.fate = Fate::Fails {
        work: hungry[missing],
        statuses: RNR_RETRY_EXCEEDED,
    };
    scenario.ends[1].fate = Fate::May { statuses: &[] };
}

fn refusal(rng: &mut Rng, scenario: &mut Scenario) {
    if rng.chance(300) {
        rough(rng, scenario);
    }
    let fate = match rng.below(10) {
        0 => revoke(rng, scenario),
        1 => overdraw(rng, &mut scenario.ends[0].flow),
        2 => forbid(rng, &mut scenario.ends[0].flow),
        _ => spoil_any(rng, &mut scenario.ends[0].flow),
    };
    if let Some(fate) = fate {
        scenario.ends[0].fate = fate;
        scenario.ends[1].fate = Fate::May { statuses: &[] };
    }
}

/// The responder invalidates the key while it is in use.
fn revoke(rng: &mut Rng, scenario: &mut Scenario) -> Option<Fate> {
    let at = rng.below(300 * MICROSECOND);
    scenario.ends[1]
        .incidents
        .push((at, Incident::Invalidate { rkey: MAIN }));
    Some(Fate::May {
        statuses: REMOTE_ACCESS,
    })
}

/// The requester has more READs and atomics in flight than the responder can hold.
fn overdraw(rng: &mut Rng, flow: &mut Flow) -> Option<Fate> {
    flow.settings.max_rd_atomic = 16;
    flow.settings.max_dest_rd_atomic = rng.range(1, 4) as u8;
    Some(Fate::May {
        statuses: REMOTE_INVALID_REQUEST,
    })
}

/// The responder's queue pair does not let the peer do what a work does.
fn forbid(rng: &mut Rng, flow: &mut Flow) -> Option<Fate> {
    let access = &mut flow.settings.access;
    let right: fn(&Op) -> bool = match rng.below(4) {
        0 => {
            access.write = false;
            |op| op.is_write() || matches!(op, Op::AtomicWrite { .. })
        }
        3 => {
            access.flush = false;
            |op| matches!(op, Op::Flush { .. })
        }
        1 => {
            access.read = false;
            |op| op.is_read()
        }
        _ => {
            access.atomic = false;
            |op| op.is_atomic()
        }
    };
    let work = flow.works.iter().position(|work| right(&work.op))?;
    Some(Fate::Fails {
        work,
        statuses: REMOTE_INVALID_REQUEST,
    })
}

/// Makes one work go wrong, any that can.
fn spoil_any(rng: &mut Rng, flow: &mut Flow) -> Option<Fate> {
    let count = flow.works.len();
    let start = rng.below(count as u64) as usize;
    (start..count)
        .chain(0..start)
        .find_map(|work| spoil(rng, flow, work).map(|statuses| Fate::Fails { work, statuses }))
}

/// Makes one work go wrong in a way that suits it; the statuses it must fail with come back.
fn spoil(rng: &mut Rng, flow: &mut Flow, index: usize) -> Option<&'static [u32]> {
    let ordinal = flow.works[..index]
        .iter()
        .filter(|work| work.op.takes_receive())
        .count();
    let work = &mut flow.works[index];
    if work.len > 0 && rng.chance(200) {
        work.local_fault = true;
        return Some(LOCAL_PROTECTION);
    }
    if let Op::Local(local) = work.op {
        work.local_fault = true;
        return Some(match local {
            LocalOp::Invalidate => LOCAL_QP_OPERATION,
            LocalOp::Bind => MW_BIND,
        });
    }
    let last = BASE + flow.regions[0].bytes.len() as u64;
    if work.op.takes_receive() && rng.chance(200) {
        flow.receives[ordinal].local_fault = true;
        return Some(REMOTE_OPERATION);
    }
    match &mut work.op {
        Op::Send | Op::SendImm(_) if work.len > 0 => {
            flow.receives[ordinal].capacity = rng.below(u64::from(work.len)) as u32;
            Some(REMOTE_INVALID_REQUEST)
        }
        Op::SendInv(key) => {
            *key = NOWHERE;
            Some(REMOTE_ACCESS)
        }
        Op::Write { va, rkey } | Op::WriteImm { va, rkey, .. } if work.len > 0 => {
            match rng.below(4) {
                0 => *rkey = NOWHERE,
                1 => *rkey = READ_ONLY,
                2 => *va = BASE - rng.range(1, 100),
                _ => *va = last - u64::from(work.len) + rng.range(1, 100),
            }
            Some(REMOTE_ACCESS)
        }
        Op::Read { va, rkey } if work.len > 0 => {
            match rng.below(3) {
                0 => *rkey = NOWHERE,
                1 => *va = BASE - rng.range(1, 100),
                _ => *va = last - u64::from(work.len) + rng.range(1, 100),
            }
            Some(REMOTE_ACCESS)
        }
        Op::CompareSwap { va, rkey, .. }
        | Op::FetchAdd { va, rkey, .. }
        | Op::AtomicWrite { va, rkey } => {
            match rng.below(4) {
                0 => *rkey = NOWHERE,
                1 => *rkey = READ_ONLY,
                2 => *va = last + 8 - last % 8,
                _ => {
                    *va += rng.range(1, 7);
                    return Some(REMOTE_INVALID_REQUEST);
                }
            }
            Some(REMOTE_ACCESS)
        }
        Op::Flush { va, rkey, len, how } => {
            match rng.below(4) {
                0 => *rkey = NOWHERE,
                1 => *rkey = READ_ONLY,
                2 => (*va, how.1) = (BASE - rng.range(1, 100), 0),
                _ => (*va, *len, how.1) = (last, rng.range(1, 100) as u32, 0),
            }
            Some(REMOTE_ACCESS)
        }
        _ => None,
    }
}
