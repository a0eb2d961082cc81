// SPDX-License-Identifier: GPL-2.0

//! The rules of the reliable connection, each shown between two ends. The numbers are those of the
//! list of rules (`rule_*`) and of the list of required behaviour (`required_*`). That nothing is
//! executed twice, completes out of order or with the wrong bytes is judged in every one of them.

use rrxe_sim::{
    agenda::{
        Nanos,
        MICROSECOND,
        MILLISECOND, //
    },
    memory::Rights,
    observer::rnr_wait,
    program::{
        Flow,
        LocalOp,
        Op,
        Settings,
        Work, //
    },
    scenario::{
        Family,
        Fate,
        Incident,
        NodePlan,
        Paging,
        Scenario, //
    },
    world, //
};

const RKEY: u32 = Flow::RKEY;
const VA: u64 = Flow::BASE;
const NOWHERE: u32 = 0xbad_0000;
const WRITE: Op = Op::Write { va: VA, rkey: RKEY };
const WRITE_IMM: Op = Op::WriteImm {
    va: VA,
    rkey: RKEY,
    imm: [9, 8, 7, 6],
};
const READ: Op = Op::Read { va: VA, rkey: RKEY };
const ADD: Op = Op::FetchAdd {
    va: VA,
    rkey: RKEY,
    add: 3,
};

const ATOMIC_WRITE: Op = Op::AtomicWrite {
    va: VA + 8,
    rkey: RKEY,
};
const FLUSH: Op = Op::Flush {
    va: VA + 16,
    rkey: RKEY,
    len: 4000,
    how: (3, 0),
};
const INVALIDATE: Op = Op::Local(LocalOp::Invalidate);
const BIND: Op = Op::Local(LocalOp::Bind);

/// The trace of a scenario that ended as it had to.
struct Trace(Vec<(Nanos, String)>);

impl Trace {
    fn of(scenario: &Scenario) -> Self {
        let mut lines = Vec::new();
        let mut keep = |at, line| lines.push((at, line));
        let outcome = world::run(scenario, Some(&mut keep));
        if let Err(failure) = outcome {
            for (at, line) in &lines {
                println!("{at:>12} {line}");
            }
            panic!("{failure}");
        }
        Self(lines)
    }

    /// When lines with all these words were written.
    fn times(&self, words: &[&str]) -> Vec<Nanos> {
        let fits = |line: &&(Nanos, String)| words.iter().all(|&word| line.1.contains(word));
        self.0.iter().filter(fits).map(|&(at, _)| at).collect()
    }

    fn count(&self, words: &[&str]) -> usize {
        self.times(words).len()
    }
}

/// One requester's works, over a link that is rough or not.
fn one_way(settings: Settings, works: Vec<Work>) -> Scenario {
    let mut scenario = Scenario::plain([Flow::plain(settings, works), Flow::idle(Settings::PLAIN)]);
    scenario.family = Family::Rough;
    scenario
}

fn sends(count: usize, len: u32) -> Vec<Work> {
    vec![Work::new(Op::Send, len); count]
}

/// The n-th frame that leaves `side` is lost.
fn lose(mut scenario: Scenario, side: usize, n: u64) -> Scenario {
    scenario.links[side].insert(0, NodePlan::DropNth { n });
    scenario
}

/// The first requester's work `work` fails with `statuses`.
fn failing(mut scenario: Scenario, work: usize, statuses: &'static [u32]) -> Scenario {
    scenario.ends[0].fate = Fate::Fails { work, statuses };
    scenario.ends[1].fate = Fate::May { statuses: &[] };
    scenario
}

#[test]
fn rule_01_psns_wrap_at_24_bits_and_around_half() {
    for psn in [0, 0xff_fff9, 0x7f_fff9, 0x80_0000] {
        let settings = Settings {
            psn,
            ..Settings::PLAIN
        };
        let works = vec![
            Work::new(WRITE, 2000),
            Work::new(READ, 2000),
            Work::new(Op::Send, 2000),
        ];
        for n in 0..8 {
            Trace::of(&lose(one_way(settings, works.clone()), 0, n));
        }
    }
}

#[test]
fn rule_03_one_sequence_nak_per_gap() {
    let trace = Trace::of(&lose(one_way(Settings::PLAIN, sends(20, 100)), 0, 3));
    assert_eq!(trace.count(&["1 --> ACK", "Nak(0)"]), 1);
    assert_eq!(trace.count(&["timer"]), 0);
}

#[test]
fn rule_04_duplicate_send_is_acknowledged_again_and_not_executed() {
    let trace = Trace::of(&lose(one_way(Settings::PLAIN, sends(1, 700)), 1, 0));
    assert_eq!(trace.count(&["1     Execute"]), 3);
    assert!(trace.count(&["0 --> SEND"]) > 3);
    assert!(trace.count(&["1 --> ACK"]) >= 2);
}

#[test]
fn rule_04_lost_read_response_is_asked_for_from_there() {
    let works = vec![Work::new(READ, 1000), Work::new(Op::Send, 1)];
    let trace = Trace::of(&lose(one_way(Settings::PLAIN, works), 1, 2));
    assert_eq!(trace.count(&["0 --> READ_REQUEST", "dmalen 1000"]), 1);
    assert_eq!(trace.count(&["0 --> READ_REQUEST", "dmalen 256"]), 1);
    assert_eq!(trace.count(&["0 --> READ_REQUEST"]), 2);
}

#[test]
fn rule_04_duplicate_atomic_is_answered_with_what_was_found_first() {
    let works = vec![Work::new(ADD, 8), Work::new(WRITE, 8), Work::new(ADD, 8)];
    let trace = Trace::of(&lose(one_way(Settings::PLAIN, works), 1, 0));
    assert_eq!(trace.count(&["1     Execute", "Atomic"]), 2);
}

#[test]
fn rule_05_msn_counts_messages_and_a_read_when_it_is_executed() {
    let works = vec![
        Work::new(Op::Send, 600),
        Work::new(READ, 600),
        Work::new(ADD, 8),
    ];
    let trace = Trace::of(&one_way(Settings::PLAIN, works));
    assert_eq!(trace.count(&["READ_FIRST", "1 -->", "msn 2"]), 1);
    assert_eq!(trace.count(&["ATOMIC_ACK", "1 -->", "msn 3"]), 1);
}

#[test]
fn rule_06_every_rnr_timer_is_waited_for_and_not_much_longer() {
    for code in 0..32 {
        let settings = Settings {
            min_rnr_timer: code,
            ..Settings::PLAIN
        };
        let mut scenario = one_way(settings, sends(1, 10));
        scenario.ends[0].flow.receives[0].at = 30 * MICROSECOND;
        let trace = Trace::of(&scenario);
        let nak = trace.times(&["0 <-- ACK", "RnrNak"])[0];
        let again = trace.times(&["0 --> SEND"])[1];
        let wait = again - nak;
        assert!(wait >= rnr_wait(code), "code {code}: {wait} ns");
        assert!(
            wait <= rnr_wait(code) + 20 * MICROSECOND,
            "code {code}: {wait} ns"
        );
    }
}

#[test]
fn rule_06_rnr_retry_is_exact_and_seven_is_for_ever() {
    for rnr_retry in 0..7 {
        let settings = Settings {
            rnr_retry,
            ..Settings::PLAIN
        };
        let mut scenario = failing(one_way(settings, sends(3, 10)), 1, &[13]);
        scenario.ends[0].flow.receives.truncate(1);
        let trace = Trace::of(&scenario);
        assert_eq!(
            trace.count(&["1 --> ACK", "RnrNak"]),
            usize::from(rnr_retry) + 1
        );
    }
    let mut scenario = one_way(Settings::PLAIN, sends(1, 10));
    scenario.ends[0].flow.receives[0].at = 50 * MILLISECOND;
    assert!(Trace::of(&scenario).count(&["1 --> ACK", "RnrNak"]) > 1000);
}

#[test]
fn rule_07_retry_cnt_is_exact_and_seven_means_seven() {
    for retry_cnt in 0..8 {
        let settings = Settings {
            retry_cnt,
            ..Settings::PLAIN
        };
        let mut scenario = failing(one_way(settings, sends(2, 10)), 0, &[12]);
        scenario.family = Family::Death;
        scenario.links[0].insert(0, NodePlan::Cut { from: 0 });
        let trace = Trace::of(&scenario);
        let first = format!("psn {:06x}", settings.psn);
        let sent = trace.times(&["0 --> SEND_ONLY", &first]);
        let timeout = 4096 << settings.timeout;
        // Without the reminders, which come early.
        let mut tries = vec![sent[0]];
        for at in sent {
            if at >= tries[tries.len() - 1] + timeout {
                tries.push(at);
            }
        }
        assert_eq!(tries.len(), usize::from(retry_cnt) + 1);
        let end = trace.times(&["work 0 completes: RetryExceeded"])[0];
        for pair in [&tries[..], &[end]].concat().windows(2) {
            let wait = pair[1] - pair[0];
            assert!((timeout..=4 * timeout).contains(&wait), "{wait} ns");
        }
    }
}

#[test]
fn rule_07_retries_are_counted_from_the_last_progress() {
    let settings = Settings {
        retry_cnt: 1,
        window_packets: 1,
        ..Settings::PLAIN
    };
    let mut scenario = one_way(settings, sends(4, 10));
    // Every other packet is lost, so that each needs its only retry.
    for n in 0..4 {
        scenario.links[0].insert(0, NodePlan::DropNth { n: 7 - 2 * n });
    }
    Trace::of(&scenario);
}

#[test]
fn rule_08_a_later_response_acknowledges_sends_before_it() {
    // The ACK of the SEND is lost; the response to the READ stands for it.
    let works = vec![
        Work::new(Op::Send, 10),
        Work::new(READ, 10).at(100 * MICROSECOND),
    ];
    let trace = Trace::of(&lose(one_way(Settings::PLAIN, works), 1, 0));
    assert_eq!(trace.count(&["0 --> SEND"]), 1);
}

#[test]
fn rule_08_an_ack_past_a_missing_read_response_is_an_implied_nak() {
    let works = vec![Work::new(READ, 10), Work::new(Op::Send, 10)];
    let trace = Trace::of(&lose(one_way(Settings::PLAIN, works), 1, 0));
    assert_eq!(trace.count(&["0 --> READ_REQUEST"]), 2);
    assert_eq!(trace.count(&["timer"]), 0, "it does not wait for the timer");
}

#[test]
fn rule_09_a_fence_waits_for_reads_and_atomics() {
    let works = vec![
        Work::new(READ, 2000),
        Work::new(ADD, 8),
        Work::new(WRITE, 2000).fenced(),
    ];
    let trace = Trace::of(&one_way(Settings::PLAIN, works));
    let write = trace.times(&["0 --> WRITE_FIRST"])[0];
    assert!(write >= trace.times(&["0 <-- ATOMIC_ACK"])[0]);
}

#[test]
fn rule_09_no_more_than_max_rd_atomic_in_flight() {
    for depth in [1, 2, 3, 16] {
        let settings = Settings {
            max_rd_atomic: depth,
            max_dest_rd_atomic: depth,
            ..Settings::PLAIN
        };
        let works = vec![Work::new(READ, 10); 20];
        let trace = Trace::of(&one_way(settings, works));
        let answered = trace.times(&["0 <-- READ"])[0];
        let asked = trace
            .times(&["0 --> READ"])
            .iter()
            .filter(|&&at| at < answered)
            .count();
        assert_eq!(asked, usize::from(depth));
    }
}

#[test]
fn rule_09_where_no_read_may_be_in_flight_none_is_sent() {
    let settings = Settings {
        max_rd_atomic: 0,
        ..Settings::PLAIN
    };
    for op in [READ, ADD] {
        let works = vec![Work::new(Op::Send, 10), Work::new(op, 8)];
        let trace = Trace::of(&failing(one_way(settings, works), 1, &[2]));
        assert_eq!(trace.count(&["0 --> "]), 1);
    }
    let settings = Settings {
        max_dest_rd_atomic: 0,
        ..Settings::PLAIN
    };
    for op in [READ, ADD] {
        let works = vec![Work::new(Op::Send, 10), Work::new(op, 8)];
        Trace::of(&failing(one_way(settings, works), 1, &[9]));
    }
}

#[test]
fn rule_09_local_works_happen_once_in_their_turn() {
    let works: Vec<Work> = [
        WRITE, BIND, READ, INVALIDATE, BIND, BIND, ADD, INVALIDATE, FLUSH,
    ]
    .map(|op| Work::new(op, 700))
    .into();
    Trace::of(&one_way(Settings::PLAIN, works.clone()));
    for side in 0..2 {
        for n in 0..12 {
            Trace::of(&lose(one_way(Settings::PLAIN, works.clone()), side, n));
        }
    }
}

#[test]
fn rule_09_a_local_work_that_fails_is_reported_in_its_turn() {
    for (op, status) in [(BIND, &[6]), (INVALIDATE, &[2])] {
        let mut works = vec![Work::new(WRITE, 700), Work::new(op, 0), Work::new(WRITE, 1)];
        works[1].local_fault = true;
        for n in 0..4 {
            let scenario = one_way(Settings::PLAIN, works.clone());
            Trace::of(&lose(failing(scenario, 1, status), 0, n));
        }
    }
}

#[test]
fn rule_10_every_ack_req_is_answered_and_a_batch_by_one_ack() {
    let trace = Trace::of(&one_way(Settings::PLAIN, sends(30, 10)));
    assert_eq!(trace.count(&["0 --> SEND", "AckReq"]), 30);
    // They arrive at the same time, one after the other.
    assert!(trace.count(&["1 --> ACK"]) < 30);
    assert_eq!(trace.count(&["timer"]), 0);
}

#[test]
fn rule_10_solicited_goes_with_the_last_packet_of_what_completes_a_receive() {
    for (op, expected) in [(Op::Send, 1), (WRITE_IMM, 1), (WRITE, 0), (READ, 0)] {
        let work = Work {
            solicited: true,
            ..Work::new(op, 700)
        };
        let trace = Trace::of(&one_way(Settings::PLAIN, vec![work]));
        assert_eq!(trace.count(&["0 -->", " SE AckReq"]), expected);
    }
}

#[test]
fn rule_11_every_length_is_padded_and_carried() {
    for mtu in [256, 512, 1024, 2048, 4096] {
        let settings = Settings {
            mtu,
            ..Settings::PLAIN
        };
        let lens = (0..9)
            .chain(mtu - 4..mtu + 5)
            .chain(2 * mtu - 1..2 * mtu + 2);
        let works = lens
            .flat_map(|len| [Op::Send, WRITE, READ, WRITE_IMM].map(|op| Work::new(op, len)))
            .collect();
        Trace::of(&one_way(settings, works));
    }
}

#[test]
fn rule_12_no_key_is_checked_for_no_bytes() {
    let works = vec![
        Work::new(
            Op::Write {
                va: 0,
                rkey: NOWHERE,
            },
            0,
        ),
        Work::new(
            Op::Read {
                va: 5,
                rkey: NOWHERE,
            },
            0,
        ),
        Work::new(
            Op::WriteImm {
                va: 1,
                rkey: NOWHERE,
                imm: [0; 4],
            },
            0,
        ),
        Work::new(Op::Send, 0),
    ];
    Trace::of(&one_way(Settings::PLAIN, works));
}

#[test]
fn rule_13_write_with_imm_needs_its_receive_at_the_last_packet_only() {
    let mut scenario = one_way(Settings::PLAIN, vec![Work::new(WRITE_IMM, 1000)]);
    scenario.ends[0].flow.receives[0].at = 60 * MICROSECOND;
    let trace = Trace::of(&scenario);
    assert!(trace.count(&["RnrNak", "1 -->"]) > 0);
    assert_eq!(trace.count(&["0 --> WRITE_FIRST"]), 1);
    assert_eq!(trace.count(&["0 --> WRITE_MIDDLE"]), 2);
    assert!(trace.count(&["0 --> WRITE_LAST_IMM"]) > 1);
}

#[test]
fn rule_13_send_needs_its_receive_at_the_first_packet() {
    let mut scenario = one_way(Settings::PLAIN, sends(1, 1000));
    scenario.ends[0].flow.receives[0].at = 60 * MICROSECOND;
    let trace = Trace::of(&scenario);
    assert!(trace.count(&["0 --> SEND_FIRST"]) > 1);
    // What came after it has been kept.
    assert_eq!(trace.count(&["1     Execute", "; Execute"]), 1);
    assert_eq!(trace.count(&["0 --> SEND_MIDDLE"]), 2);
}

#[test]
fn rule_14_damage_is_found_by_the_icrc() {
    let mut scenario = one_way(Settings::PLAIN, sends(150, 700));
    scenario.patience = Some(4);
    for link in &mut scenario.links {
        link.push(NodePlan::Corrupt { per_mille: 200 });
    }
    let trace = Trace::of(&scenario);
    assert!(trace.count(&["damaged"]) > 10);
}

#[test]
fn rule_17_after_an_error_the_rest_is_flushed_in_order() {
    let bad = Op::Write {
        va: VA,
        rkey: NOWHERE,
    };
    let mut works = sends(3, 10);
    works.push(Work::new(bad, 10));
    works.extend(sends(3, 10));
    works.push(Work::new(Op::Send, 10).at(5 * MILLISECOND));
    for work in &mut works {
        work.signaled = false;
    }
    let trace = Trace::of(&failing(one_way(Settings::PLAIN, works), 3, &[10]));
    assert_eq!(trace.count(&["0     work", "Success"]), 3);
    assert_eq!(trace.count(&["0     work", "WrFlush"]), 4);
}

#[test]
fn rule_17_a_local_error_lets_what_is_before_it_succeed() {
    for op in [Op::Send, WRITE, READ, ADD] {
        let mut works = vec![Work::new(READ, 3000), Work::new(Op::Send, 2000)];
        works.push(Work {
            local_fault: true,
            ..Work::new(op, 600)
        });
        works.push(Work::new(Op::Send, 1));
        Trace::of(&failing(one_way(Settings::PLAIN, works), 2, &[4]));
    }
}

#[test]
fn rule_18_a_draining_queue_finishes_what_has_begun() {
    let settings = Settings {
        window_packets: 2,
        ..Settings::PLAIN
    };
    let mut scenario = one_way(settings, sends(5, 2000));
    let (drain, resume) = (15 * MICROSECOND, 9 * MILLISECOND);
    scenario.ends[0].incidents = vec![(drain, Incident::Drain), (resume, Incident::Resume)];
    let trace = Trace::of(&scenario);
    let firsts = trace.times(&["0 --> SEND_FIRST"]);
    assert_eq!(firsts.iter().filter(|&&at| at < resume).count(), 1);
    assert_eq!(
        trace
            .times(&["0     work 0 completes"])
            .iter()
            .filter(|&&at| at < resume)
            .count(),
        1
    );
}

#[test]
fn rule_19_a_send_longer_than_the_receive_is_an_invalid_request() {
    let mut scenario = failing(one_way(Settings::PLAIN, sends(2, 1000)), 1, &[9]);
    scenario.ends[0].flow.receives[1].capacity = 999;
    let trace = Trace::of(&scenario);
    assert_eq!(trace.count(&["1 --> ACK", "Nak(1)"]), 1);
    assert_eq!(trace.count(&["receive flushed: Some(LocalLength)"]), 1);
}

#[test]
fn rule_19_a_receive_that_cannot_be_written_is_a_remote_operation_error() {
    for op in [Op::Send, WRITE_IMM] {
        let works = vec![Work::new(Op::Send, 10), Work::new(op, 1000)];
        let mut scenario = failing(one_way(Settings::PLAIN, works), 1, &[11]);
        scenario.ends[0].flow.receives[1].local_fault = true;
        let trace = Trace::of(&scenario);
        assert_eq!(trace.count(&["1 --> ACK", "Nak(3)"]), 1);
        assert_eq!(trace.count(&["receive flushed: Some(LocalProtection)"]), 1);
    }
}

#[test]
fn required_01_a_flush_and_an_atomic_write_are_sent_again_with_their_address() {
    for op in [FLUSH, ATOMIC_WRITE] {
        let name = if op == FLUSH { "FLUSH" } else { "ATOMIC_WRITE" };
        let va = if op == FLUSH { VA + 16 } else { VA + 8 };
        for side in 0..2 {
            let scenario = one_way(Settings::PLAIN, vec![Work::new(op, 8)]);
            let trace = Trace::of(&lose(scenario, side, 0));
            let words = ["0 --> ", name, &format!("va {va:#x} ")];
            assert_eq!(trace.count(&words), 2);
        }
    }
}

#[test]
fn required_02_a_flush_and_an_atomic_write_are_confirmed_again_and_not_executed() {
    for op in [FLUSH, ATOMIC_WRITE] {
        let works = vec![Work::new(op, 8), Work::new(WRITE, 8)];
        let trace = Trace::of(&lose(one_way(Settings::PLAIN, works), 1, 0));
        assert_eq!(trace.count(&["1     Execute"]), 2);
        assert_eq!(trace.count(&["1 --> READ_ONLY"]), 2);
    }
}

#[test]
fn required_02_a_read_of_nothing_can_be_answered_again() {
    for n in 0..2 {
        let works = vec![Work::new(READ, 0), Work::new(ADD, 8), Work::new(READ, 0)];
        Trace::of(&lose(one_way(Settings::PLAIN, works), 1, n));
    }
}

#[test]
fn required_03_credits_come_back() {
    let settings = Settings {
        max_rd_atomic: 1,
        max_dest_rd_atomic: 1,
        ..Settings::PLAIN
    };
    let works: Vec<Work> = (0..60)
        .map(|i| {
            Work::new(
                [READ, ADD, WRITE, FLUSH, ATOMIC_WRITE][i % 5],
                10 * i as u32,
            )
        })
        .collect();
    for n in 0..20 {
        Trace::of(&lose(one_way(settings, works.clone()), 1, n));
    }
}

#[test]
fn required_05_naks_after_an_rnr_nak_burn_no_retry() {
    let settings = Settings {
        retry_cnt: 0,
        min_rnr_timer: 10,
        ..Settings::PLAIN
    };
    let mut scenario = one_way(settings, sends(12, 600));
    for receive in &mut scenario.ends[0].flow.receives {
        receive.at = 2 * MILLISECOND;
    }
    Trace::of(&scenario);
}

#[test]
fn required_07_a_sender_that_cannot_send_loses_nothing() {
    let settings = Settings {
        retry_cnt: 0,
        ..Settings::PLAIN
    };
    let works: Vec<Work> = (0..20)
        .map(|i| Work::new([Op::Send, WRITE, READ, ADD][i % 4], 300))
        .collect();
    let mut scenario = one_way(settings, works);
    scenario.ends[0].unsent_per_mille = 700;
    scenario.ends[1].unsent_per_mille = 700;
    Trace::of(&scenario);
}

#[test]
fn required_07_data_that_comes_late_uses_up_no_retry() {
    let settings = Settings {
        retry_cnt: 0,
        ..Settings::PLAIN
    };
    let mut scenario = one_way(settings, sends(10, 2000));
    scenario.ends[0].paging = Paging {
        missing_per_mille: 500,
        longest: 40 * MILLISECOND,
    };
    let trace = Trace::of(&scenario);
    assert_eq!(trace.count(&["completes: Success"]), 10);
}

#[test]
fn required_08_a_read_larger_than_the_window_stalls_nothing() {
    let settings = Settings {
        window_packets: 4,
        window_bytes: 1024,
        ..Settings::PLAIN
    };
    let works = vec![
        Work::new(READ, 60_000),
        Work::new(Op::Send, 1000),
        Work::new(WRITE, 10),
    ];
    let trace = Trace::of(&one_way(settings, works));
    let answered = trace.times(&["0 <-- READ_FIRST"])[0];
    assert!(trace.times(&["0 --> SEND_LAST"])[0] < answered);
}

#[test]
fn required_09_drained_and_resumed_with_loss() {
    for n in 0..8 {
        let mut scenario = lose(one_way(Settings::PLAIN, sends(6, 900)), 0, n);
        for work in &mut scenario.ends[0].flow.works[2..] {
            work.at = 20 * MICROSECOND;
        }
        let drain = (12 * MICROSECOND, Incident::Drain);
        scenario.ends[0].incidents = vec![drain, (20 * MILLISECOND, Incident::Resume)];
        Trace::of(&scenario);
    }
}

#[test]
fn required_11_write_with_imm_completes_a_receive_with_the_bytes_written() {
    for len in [0, 1, 256, 1000] {
        Trace::of(&one_way(Settings::PLAIN, vec![Work::new(WRITE_IMM, len)]));
    }
}

#[test]
fn required_13_what_the_queue_pair_does_not_allow_is_an_invalid_request() {
    let cases = [
        (
            WRITE,
            Rights {
                write: false,
                ..Rights::ALL
            },
        ),
        (
            WRITE_IMM,
            Rights {
                write: false,
                ..Rights::ALL
            },
        ),
        (
            READ,
            Rights {
                read: false,
                ..Rights::ALL
            },
        ),
        (
            ADD,
            Rights {
                atomic: false,
                ..Rights::ALL
            },
        ),
        (
            ATOMIC_WRITE,
            Rights {
                write: false,
                ..Rights::ALL
            },
        ),
        (
            FLUSH,
            Rights {
                flush: false,
                ..Rights::ALL
            },
        ),
    ];
    for (op, access) in cases {
        let settings = Settings {
            access,
            ..Settings::PLAIN
        };
        let works = vec![Work::new(Op::Send, 10), Work::new(op, 10)];
        Trace::of(&failing(one_way(settings, works), 1, &[9]));
    }
}

#[test]
fn required_13_more_reads_than_the_responder_holds_are_an_invalid_request() {
    let settings = Settings {
        max_dest_rd_atomic: 2,
        ..Settings::PLAIN
    };
    let mut scenario = one_way(settings, vec![Work::new(READ, 10_000); 4]);
    scenario.ends[0].fate = Fate::May { statuses: &[9] };
    scenario.ends[1].fate = Fate::May { statuses: &[] };
    let trace = Trace::of(&scenario);
    assert_eq!(trace.count(&["1 --> ACK", "Nak(1)"]), 1);
}

#[test]
fn required_14_a_receive_is_taken_once_however_often_packets_come() {
    let works = vec![
        Work::new(Op::Send, 1000),
        Work::new(WRITE_IMM, 1000),
        Work::new(Op::Send, 0),
    ];
    let mut scenario = one_way(Settings::PLAIN, works);
    scenario.patience = Some(5);
    for link in &mut scenario.links {
        link.push(NodePlan::Duplicate {
            per_mille: 600,
            longest: 50 * MICROSECOND,
        });
        link.push(NodePlan::Loss { per_mille: 300 });
    }
    for seed in 0..50 {
        scenario.seed = seed;
        Trace::of(&scenario);
    }
}

#[test]
fn required_15_every_access_is_checked() {
    let last = VA + Flow::REGION as u64;
    let places = [
        (VA - 1, RKEY),
        (last - 599, RKEY),
        (VA, NOWHERE),
        (u64::MAX - 10, RKEY),
    ];
    for (va, rkey) in places {
        let imm = [0; 4];
        for op in [
            Op::Write { va, rkey },
            Op::WriteImm { va, rkey, imm },
            Op::Read { va, rkey },
        ] {
            let works = vec![
                Work::new(Op::Send, 10),
                Work::new(op, 600),
                Work::new(Op::Send, 1),
            ];
            Trace::of(&failing(one_way(Settings::PLAIN, works), 1, &[10]));
        }
    }
}

#[test]
fn required_15_a_key_that_is_invalidated_in_flight_stops_the_transfer() {
    for op in [WRITE, READ] {
        for at in 1..40 {
            let settings = Settings {
                window_packets: 4,
                ..Settings::PLAIN
            };
            let mut scenario = one_way(settings, vec![Work::new(op, 10_000)]);
            scenario.ends[1].budget = 3;
            scenario.ends[1].lag = 2 * MICROSECOND;
            let incident = Incident::Invalidate { rkey: RKEY };
            scenario.ends[1]
                .incidents
                .push((at * 2 * MICROSECOND, incident));
            scenario.ends[0].fate = Fate::May { statuses: &[10] };
            Trace::of(&scenario);
        }
    }
}

#[test]
fn required_16_the_ack_for_a_later_packet_waits_for_the_read_response() {
    let mut scenario = one_way(
        Settings::PLAIN,
        vec![Work::new(READ, 5000), Work::new(Op::Send, 1)],
    );
    scenario.ends[1].budget = 1;
    scenario.ends[1].lag = 3 * MICROSECOND;
    let trace = Trace::of(&scenario);
    let ack = trace.times(&["1 --> ACK"])[0];
    assert!(ack >= trace.times(&["1 --> READ_LAST"])[0]);
}

#[test]
fn required_17_an_invalidation_that_fails_is_told_to_the_peer() {
    let works = vec![Work::new(Op::SendInv(NOWHERE), 10), Work::new(Op::Send, 10)];
    let trace = Trace::of(&failing(one_way(Settings::PLAIN, works), 0, &[10]));
    assert_eq!(trace.count(&["1 --> ACK", "Nak(2)"]), 1);
}

#[test]
fn required_17_an_invalidated_key_is_of_no_use_afterwards() {
    let late = Op::Write {
        va: VA,
        rkey: Flow::SPARE,
    };
    let works = vec![
        Work::new(late, 8),
        Work::new(Op::SendInv(Flow::SPARE), 10),
        Work::new(late, 8),
    ];
    Trace::of(&failing(one_way(Settings::PLAIN, works), 2, &[10]));
}

#[test]
fn required_18_a_misaligned_atomic_is_an_invalid_request() {
    for off in 1..8 {
        let op = Op::FetchAdd {
            va: VA + off,
            rkey: RKEY,
            add: 1,
        };
        Trace::of(&failing(
            one_way(Settings::PLAIN, vec![Work::new(op, 8)]),
            0,
            &[9],
        ));
    }
}
