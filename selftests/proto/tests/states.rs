// SPDX-License-Identifier: GPL-2.0

//! Every transition of a queue pair with every attribute, against a table in words.

use proptest::prelude::*;
use rrxe_proto::state::{
    check_transition,
    AttrMask,
    QpState,
    Service, //
};

/// From, to, services, what must be given `/` what may be. A transition without a line does not
/// exist. `DGRAM` stands for `UD` and `GSI`, `CONN` for `RC` and `UC`, `ALL` for all. `port` on `UC` in
/// `SQD` is there because the kernel's system call adds it to `av`.
const TABLE: &str = "
RESET RESET ALL   /
INIT  RESET ALL   /
RTR   RESET ALL   /
RTS   RESET ALL   /
SQD   RESET ALL   /
SQE   RESET ALL   /
ERR   RESET ALL   /
INIT  ERR   ALL   /
RTR   ERR   ALL   /
RTS   ERR   ALL   /
SQD   ERR   ALL   /
SQE   ERR   ALL   /
ERR   ERR   ALL   /
RESET INIT  CONN  pkey_index port access_flags /
RESET INIT  UD    pkey_index port qkey /
RESET INIT  GSI   pkey_index qkey /
INIT  INIT  CONN  / pkey_index port access_flags
INIT  INIT  UD    / pkey_index port qkey
INIT  INIT  GSI   / pkey_index qkey
INIT  RTR   RC    av path_mtu dest_qpn rq_psn max_dest_rd_atomic min_rnr_timer / alt_path access_flags pkey_index
INIT  RTR   UC    av path_mtu dest_qpn rq_psn / alt_path access_flags pkey_index
INIT  RTR   DGRAM / pkey_index qkey
RTR   RTS   RC    timeout retry_cnt rnr_retry sq_psn max_rd_atomic / cur_state alt_path access_flags min_rnr_timer path_mig_state
RTR   RTS   UC    sq_psn / cur_state alt_path access_flags path_mig_state
RTR   RTS   DGRAM sq_psn / cur_state qkey
RTS   RTS   RC    / cur_state alt_path access_flags min_rnr_timer path_mig_state
RTS   RTS   UC    / cur_state alt_path access_flags path_mig_state
RTS   RTS   DGRAM / cur_state qkey
RTS   SQD   ALL   / en_sqd_async_notify
SQD   RTS   RC    / cur_state alt_path access_flags min_rnr_timer path_mig_state
SQD   RTS   UC    / cur_state alt_path access_flags path_mig_state
SQD   RTS   DGRAM / cur_state qkey
SQD   SQD   RC    / port av timeout retry_cnt rnr_retry max_rd_atomic max_dest_rd_atomic alt_path access_flags pkey_index min_rnr_timer path_mig_state
SQD   SQD   UC    / port av alt_path access_flags pkey_index path_mig_state
SQD   SQD   DGRAM / pkey_index qkey
SQE   RTS   UC    / cur_state access_flags
SQE   RTS   DGRAM / cur_state qkey
";

const STATES: [(&str, QpState); 7] = [
    ("RESET", QpState::Reset),
    ("INIT", QpState::Init),
    ("RTR", QpState::Rtr),
    ("RTS", QpState::Rts),
    ("SQD", QpState::Sqd),
    ("SQE", QpState::Sqe),
    ("ERR", QpState::Error),
];

const SERVICES: [(&str, &str, Service); 4] = [
    ("RC", "CONN", Service::Rc),
    ("UC", "CONN", Service::Uc),
    ("UD", "DGRAM", Service::Ud),
    ("GSI", "DGRAM", Service::Gsi),
];

/// The bits of `enum ib_qp_attr_mask`.
const BITS: [(&str, u32); 22] = [
    ("state", 0),
    ("cur_state", 1),
    ("en_sqd_async_notify", 2),
    ("access_flags", 3),
    ("pkey_index", 4),
    ("port", 5),
    ("qkey", 6),
    ("av", 7),
    ("path_mtu", 8),
    ("timeout", 9),
    ("retry_cnt", 10),
    ("rnr_retry", 11),
    ("rq_psn", 12),
    ("max_rd_atomic", 13),
    ("alt_path", 14),
    ("min_rnr_timer", 15),
    ("sq_psn", 16),
    ("max_dest_rd_atomic", 17),
    ("path_mig_state", 18),
    ("cap", 19),
    ("dest_qpn", 20),
    ("rate_limit", 25),
];

const STATE: u32 = 1;

/// What a transition requires and admits, by the table.
fn expected(service: usize, from: usize, to: usize) -> Option<(u32, u32)> {
    let (name, group, _) = SERVICES[service];
    let mut lines = TABLE.lines().filter_map(|line| {
        let (required, optional) = line.split_once('/')?;
        let mut words = required.split_whitespace();
        let applies = words.next() == Some(STATES[from].0)
            && words.next() == Some(STATES[to].0)
            && words
                .next()
                .is_some_and(|who| [name, group, "ALL"].contains(&who));
        applies.then(|| (bits(words), bits(optional.split_whitespace())))
    });
    let found = lines.next();
    assert!(lines.next().is_none(), "two lines for {name}");
    found
}

fn bits<'a>(names: impl Iterator<Item = &'a str>) -> u32 {
    names.fold(0, |mask, name| {
        let (_, bit) = BITS.iter().find(|entry| entry.0 == name).unwrap();
        mask | 1 << bit
    })
}

fn accepted(service: usize, from: usize, to: usize, mask: u32) -> bool {
    let (service, from, to) = (SERVICES[service].2, STATES[from].1, STATES[to].1);
    check_transition(service, from, to, AttrMask::from_bits(mask)).is_ok()
}

fn all() -> impl Iterator<Item = (usize, usize, usize)> {
    (0..4).flat_map(|s| (0..7).flat_map(move |from| (0..7).map(move |to| (s, from, to))))
}

// PROTOCOL requirement 21.
#[test]
fn a_transition_exists_if_and_only_if_the_table_has_it() {
    for (service, from, to) in all() {
        match expected(service, from, to) {
            Some((required, _)) => assert!(accepted(service, from, to, required | STATE)),
            None => assert!((0..32).all(|bit| !accepted(service, from, to, 1 << bit))),
        }
    }
}

#[test]
fn every_required_attribute_is_missed() {
    for (service, from, to) in all() {
        let Some((required, optional)) = expected(service, from, to) else {
            continue;
        };
        for bit in (0..32).filter(|bit| required & 1 << bit != 0) {
            let mask = (required | optional | STATE) & !(1 << bit);
            assert!(
                !accepted(service, from, to, mask),
                "{service} {from} {to} {bit}"
            );
        }
    }
}

#[test]
fn every_attribute_is_admitted_or_refused_as_the_table_says() {
    for (service, from, to) in all() {
        let Some((required, optional)) = expected(service, from, to) else {
            continue;
        };
        for bit in 0..32 {
            let mask = required | STATE | 1 << bit;
            let admitted = (required | optional | STATE) & 1 << bit != 0;
            assert_eq!(
                accepted(service, from, to, mask),
                admitted,
                "{service} {from} {to} {bit}"
            );
        }
        assert!(accepted(service, from, to, required | optional | STATE));
        assert!(
            accepted(service, from, to, required | optional),
            "without STATE"
        );
    }
}

#[test]
fn the_believed_state_may_be_given_where_the_queue_pair_can_change_by_itself() {
    for (service, from, to) in all() {
        let Some((_, optional)) = expected(service, from, to) else {
            continue;
        };
        let may = optional & AttrMask::CUR_STATE.bits() != 0;
        assert_eq!(may, STATES[to].0 == "RTS");
    }
}

#[test]
fn attributes_have_the_bits_of_the_verbs() {
    for (name, bit) in BITS {
        let printed = format!("{:?}", AttrMask::from_bits(1 << bit)).to_lowercase();
        let printed = printed.replace("max_qp_rd_atomic", "max_rd_atomic");
        assert_eq!(printed, format!("{{{name}}}"));
    }
}

proptest! {
    #[test]
    fn arbitrary_attributes(service in 0..4usize, from in 0..7usize, to in 0..7usize, mask: u32) {
        // Arbitrary bits are hardly ever right: also try ones near to it.
        let (required, optional) = expected(service, from, to).unwrap_or_default();
        for mask in [mask, required | mask & (optional | STATE), mask & (required | optional)] {
            let right = expected(service, from, to).is_some()
                && mask & required == required
                && mask & !(required | optional | STATE) == 0;
            prop_assert_eq!(accepted(service, from, to, mask), right);
        }
    }
}
