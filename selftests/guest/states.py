#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
# vm: TMO=1800
"""States of queue pairs: every pair of states with every attribute, and what the states mean to
traffic."""

import contextlib
import errno
import itertools
import pathlib
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent / "lib"))

import ktap
import pyverbs.libibverbs_enums as e
import workload
from datagram import UdQp
from ktap import check, check_equal
from pyverbs.addr import AHAttr, GlobalRoute
from pyverbs.pyverbs_error import PyverbsRDMAError
from pyverbs.qp import QPCap
from pyverbs.wr import SGE
from rdma import (
    ACCESS,
    ALL_ACCESS,
    ATTR,
    EVENT,
    MTU,
    SOON,
    STATE,
    STATUS,
    Fabric,
    Peer,
    RcAttr,
    RcQp,
    SharedQueue,
    UcQp,
    ack_timeout,
    eventually,
    expect_none,
    on_one_processor,
    pair,
    poll_for,
    refused,
    statuses,
)

# The specification's table of ModifyQueuePair: from, to, transports, what must be given / what may
# be. A transition without a line does not exist. "any" stands for all states. PORT on UC in SQD is there
# because the system call adds it to AV.
TABLE = """
any   RESET RC UC UD /
INIT  ERR   RC UC UD /
RTR   ERR   RC UC UD /
RTS   ERR   RC UC UD /
SQD   ERR   RC UC UD /
SQE   ERR   RC UC UD /
ERR   ERR   RC UC UD /
RESET INIT  RC UC    PKEY_INDEX PORT ACCESS_FLAGS /
RESET INIT  UD       PKEY_INDEX PORT QKEY /
INIT  INIT  RC UC    / PKEY_INDEX PORT ACCESS_FLAGS
INIT  INIT  UD       / PKEY_INDEX PORT QKEY
INIT  RTR   RC       AV PATH_MTU DEST_QPN RQ_PSN MAX_DEST_RD_ATOMIC MIN_RNR_TIMER / ALT_PATH ACCESS_FLAGS PKEY_INDEX
INIT  RTR   UC       AV PATH_MTU DEST_QPN RQ_PSN / ALT_PATH ACCESS_FLAGS PKEY_INDEX
INIT  RTR   UD       / PKEY_INDEX QKEY
RTR   RTS   RC       SQ_PSN TIMEOUT RETRY_CNT RNR_RETRY MAX_QP_RD_ATOMIC / CUR_STATE ALT_PATH ACCESS_FLAGS MIN_RNR_TIMER PATH_MIG_STATE
RTR   RTS   UC       SQ_PSN / CUR_STATE ALT_PATH ACCESS_FLAGS PATH_MIG_STATE
RTR   RTS   UD       SQ_PSN / CUR_STATE QKEY
RTS   RTS   RC       / CUR_STATE ALT_PATH ACCESS_FLAGS MIN_RNR_TIMER PATH_MIG_STATE
RTS   RTS   UC       / CUR_STATE ALT_PATH ACCESS_FLAGS PATH_MIG_STATE
RTS   RTS   UD       / CUR_STATE QKEY
RTS   SQD   RC UC UD / EN_SQD_ASYNC_NOTIFY
SQD   RTS   RC       / CUR_STATE ALT_PATH ACCESS_FLAGS MIN_RNR_TIMER PATH_MIG_STATE
SQD   RTS   UC       / CUR_STATE ALT_PATH ACCESS_FLAGS PATH_MIG_STATE
SQD   RTS   UD       / CUR_STATE QKEY
SQD   SQD   RC       / PORT AV TIMEOUT RETRY_CNT RNR_RETRY MAX_QP_RD_ATOMIC MAX_DEST_RD_ATOMIC ALT_PATH ACCESS_FLAGS PKEY_INDEX MIN_RNR_TIMER PATH_MIG_STATE
SQD   SQD   UC       / PORT AV ALT_PATH ACCESS_FLAGS PKEY_INDEX PATH_MIG_STATE
SQD   SQD   UD       / PKEY_INDEX QKEY
SQE   RTS   UC       / CUR_STATE ACCESS_FLAGS
SQE   RTS   UD       / CUR_STATE QKEY
"""

# All attributes but the state itself, and the rate limit, which the system call does not know.
ATTRIBUTES = [a for a in ATTR if a not in (ATTR.STATE, ATTR.RATE_LIMIT)]
KINDS = {"RC": RcQp, "UC": UcQp, "UD": UdQp}
STATES = [s for s in STATE if s != STATE.UNKNOWN]


def rule(kind, old, new):
    """What the table says: (required, optional), or None."""
    for line in TABLE.strip().splitlines():
        required, optional = (half.split() for half in line.split("/"))
        first, second, *rest = required
        transports = [word for word in rest if word in ("RC", "UC", "UD")]
        if kind in transports and first in (old.name, "any") and second == new.name:
            return [ATTR[w] for w in rest if w not in transports], [ATTR[w] for w in optional]
    return None


class Subject:
    """A queue pair that is asked for transitions."""

    def __init__(self, device, kind):
        self.device, self.kind = device, kind
        self.qp = KINDS[kind](device)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.qp.close()

    def bring_to(self, state):
        """From RESET to a state, over legal ones."""
        qp = self.qp
        if state == STATE.RESET:
            return
        qp.to_init()
        if state in (STATE.RTR, STATE.RTS, STATE.SQD, STATE.SQE):
            qp.to_rtr(qp.peer)
        if state in (STATE.RTS, STATE.SQD, STATE.SQE):
            qp.to_rts()
        if state == STATE.SQE:
            self.stall()
        if state in (STATE.SQD, STATE.ERR):
            qp.go(state)
        check_equal(qp.state, state, "state before")

    def stall(self):
        """A send request that fails takes what is not RC to SQE."""
        region = self.device.region(64)
        bad = SGE(region.mr.buf, 64, region.mr.lkey ^ 0x5A5A00)
        if self.kind == "UD":
            self.qp.send_to(self.qp.peer, [bad])
        else:
            self.qp.send([bad])
        check_equal(poll_for(self.qp.send_cq, 1)[0].status, STATUS.LOC_PROT_ERR, "send")
        region.close()

    def values(self, mask, new):
        """Good values for attributes."""
        all_ = {
            ATTR.STATE: {"qp_state": new},
            ATTR.CUR_STATE: {"cur_qp_state": self.qp.state},
            ATTR.EN_SQD_ASYNC_NOTIFY: {"en_sqd_async_notify": 1},
            ATTR.ACCESS_FLAGS: {"qp_access_flags": int(ACCESS.REMOTE_WRITE)},
            ATTR.PKEY_INDEX: {"pkey_index": 0},
            ATTR.PORT: {"port_num": 1},
            ATTR.QKEY: {"qkey": 0x1234567},
            ATTR.AV: {"ah_attr": self.qp.path_to(self.device.gid)},
            ATTR.PATH_MTU: {"path_mtu": MTU[512]},
            ATTR.TIMEOUT: {"timeout": 9},
            ATTR.RETRY_CNT: {"retry_cnt": 5},
            ATTR.RNR_RETRY: {"rnr_retry": 4},
            ATTR.RQ_PSN: {"rq_psn": 0x123456},
            ATTR.MAX_QP_RD_ATOMIC: {"max_rd_atomic": 3},
            ATTR.ALT_PATH: {
                "alt_ah_attr": self.qp.path_to(self.device.gid),
                "alt_pkey_index": 0,
                "alt_port_num": 1,
                "alt_timeout": 9,
            },
            ATTR.MIN_RNR_TIMER: {"min_rnr_timer": 21},
            ATTR.SQ_PSN: {"sq_psn": 0x654321},
            ATTR.MAX_DEST_RD_ATOMIC: {"max_dest_rd_atomic": 5},
            ATTR.PATH_MIG_STATE: {"path_mig_state": int(e.ibv_mig_state.IBV_MIG_MIGRATED)},
            ATTR.CAP: {"cap": QPCap(max_send_wr=10, max_recv_wr=10, max_send_sge=1, max_recv_sge=1)},
            ATTR.DEST_QPN: {"dest_qp_num": 0x77},
        }
        chosen = {}
        for attribute, values in all_.items():
            if mask & attribute:
                chosen.update(values)
        return chosen

    def ask(self, new, attributes, **changes):
        """ibv_modify_qp() with good values, but for `changes`."""
        mask = sum(attributes)
        self.qp.modify(mask, **{**self.values(mask, new), **changes})

    def snapshot(self):
        """All that can be queried."""
        attr = self.qp.qp.query(0x1FFFFF)[0]
        names = """qp_state path_mtu path_mig_state qkey rq_psn sq_psn dest_qp_num qp_access_flags pkey_index
            max_rd_atomic max_dest_rd_atomic min_rnr_timer port_num timeout retry_cnt
            rnr_retry alt_port_num alt_timeout""".split()
        return {name: getattr(attr, name) for name in names} | {"ah_attr": str(attr.ah_attr), "cap": str(attr.cap)}

    def refuses(self, what, new, attributes, errnos=(errno.EINVAL,), **changes):
        """The request fails, and changes nothing."""
        before = self.snapshot()
        try:
            with refused(*errnos):
                self.ask(new, attributes, **changes)
        except AssertionError as why:
            raise AssertionError(f"{what}: {why}") from None
        check_equal(self.snapshot(), before, f"{what}: attributes after the refusal")

    def accepts(self, what, new, attributes):
        """The request succeeds, and what was set is reported."""
        wanted = self.values(sum(attributes), new)
        before = self.snapshot()
        try:
            self.ask(new, attributes)
        except PyverbsRDMAError as why:
            raise AssertionError(f"{what}: {why}") from None
        after = self.snapshot()
        check_equal(after["qp_state"], new, f"{what}: state")
        for name, value in wanted.items():
            if name in after and name != "ah_attr":
                check_equal(after[name], value, f"{what}: {name}")
        if new == STATE.RESET:
            return
        for name in set(after) - set(wanted) - {"qp_state"}:
            check_equal(after[name], before[name], f"{what}: {name}, which was not set")


def from_state(a, _, kind, old):
    """From one state to each."""
    for new in STATES:
        found = rule(kind, old, new)
        if found is None:
            no_transition(a, kind, old, new)
        else:
            transition(a, kind, old, new, *found)


def no_transition(a, kind, old, new):
    """What is not in the table is refused, whatever is given."""
    ways_there = [found for state in STATES if (found := rule(kind, state, new))]
    with Subject(a, kind) as subject:
        subject.bring_to(old)
        what = f"{old!r} to {new!r}"
        subject.refuses(what, new, [ATTR.STATE])
        for required, _ in ways_there:
            subject.refuses(f"{what} with {required}", new, [ATTR.STATE, *required])


def transition(a, kind, old, new, required, optional):
    """What is in the table: with just what it takes, with more, with less."""
    what = f"{old!r} to {new!r}"
    unsupported = [x for x in optional if x == ATTR.ALT_PATH]
    optional = [x for x in optional if x not in unsupported]
    with Subject(a, kind) as subject:
        subject.bring_to(old)
        base = [ATTR.STATE, *required]
        for attribute in required:
            fewer = [x for x in base if x != attribute]
            subject.refuses(f"{what} without {attribute!r}", new, fewer)
            subject.refuses(f"{what} without {attribute!r}, with all others", new, fewer + optional)
        for attribute in ATTRIBUTES:
            if attribute not in (*required, *optional, *unsupported):
                subject.refuses(f"{what} with {attribute!r}", new, [*base, attribute])
        for attribute in unsupported:
            subject.refuses(f"{what} with {attribute!r}", new, [*base, attribute], (errno.EOPNOTSUPP, errno.EINVAL))
        if ATTR.CUR_STATE in optional:
            for wrong in STATES:
                if wrong != old:
                    subject.refuses(f"{what} as from {wrong!r}", new, [*base, ATTR.CUR_STATE], cur_qp_state=wrong)
        subject.accepts(what, new, base)
        if old == new:
            in_state(subject, new, optional)
    for attribute in optional:
        with Subject(a, kind) as subject:
            subject.bring_to(old)
            subject.accepts(f"{what} with {attribute!r}", new, [*base, attribute])
    with Subject(a, kind) as subject:
        subject.bring_to(old)
        subject.accepts(f"{what} with all", new, [*base, *optional])


def in_state(subject, state, optional):
    """Attributes alone, without the state that stays."""
    for attribute in ATTRIBUTES:
        if attribute in optional:
            subject.accepts(f"{attribute!r} in {state!r}", state, [attribute])
        elif attribute != ATTR.ALT_PATH:
            subject.refuses(f"{attribute!r} in {state!r}", state, [attribute])


def no_state_without(a, _, kind):
    """Attributes alone are refused in states that have no transition to themselves."""
    for state in STATES:
        if rule(kind, state, state) is not None or (kind, state) == ("RC", STATE.SQE):
            continue
        with Subject(a, kind) as subject:
            subject.bring_to(state)
            for attribute in ATTRIBUTES:
                subject.refuses(f"{attribute!r} in {state!r}", state, [attribute])


# Draining.


class Scene:
    """A connection with memory at both ends."""

    def __init__(self, ends, **attr):
        self.stack = contextlib.ExitStack()
        self.qa, self.qb = self.stack.enter_context(pair(*ends, **attr))
        self.here, self.there = self.region(self.qa), self.region(self.qb)
        forget_events(self.qa.device)

    def __enter__(self):
        return self

    def __exit__(self, *why):
        self.stack.__exit__(*why)

    def region(self, qp):
        """A region that goes with the scene."""
        region = qp.device.region(8192)
        self.stack.callback(region.close)
        return region

    def draining(self):
        """What a query says of the send queue."""
        return bool(self.qa.qp.query(ATTR.STATE)[0].sq_draining)

    def works(self):
        """The connection carries everything."""
        workload.exercise(self.qa, self.qb, sizes=(64, 3000))

    def life(self):
        """RESET to RTS at both ends, with the same PSNs."""
        self.qa.connect(self.qb.peer)
        self.qb.connect(self.qa.peer)


def forget_events(device):
    """What has happened so far."""
    while device.event(0) is not None:
        pass


def notified_drain(qp):
    """RTS to SQD with the wish to be told."""
    qp.modify(ATTR.STATE | ATTR.EN_SQD_ASYNC_NOTIFY, qp_state=STATE.SQD, en_sqd_async_notify=1)


def drain_waits(a, b, asked):
    """A message that has begun finishes, the next one does not begin, and that is when it is told."""
    with Scene((a, b), min_rnr_timer=1) as scene:
        qa, qb = scene.qa, scene.qb
        first = qa.send([scene.here.sge(0, 3000)])
        expect_none(qa.send_cq, 0.1)
        notified_drain(qa) if asked else qa.go(STATE.SQD)
        check(scene.draining(), "drained though a message waits for its receiver")
        second = qa.send([scene.here.sge(0, 50)])
        third = qa.write([scene.here.sge(0, 8)], scene.there.at(8000))
        check_equal(a.event(0.3), None, "event before the queue has drained")
        recv = [qb.recv([scene.there.sge(0, 4096)]) for _ in range(2)]
        check_equal([c.wr_id for c in qa.sent(1)], [first], "the message that had begun")
        check_equal([c.wr_id for c in qb.received(1)], recv[:1], "its receive")
        check_equal(a.event(SOON if asked else 0.3), EVENT.SQ_DRAINED if asked else None, "event")
        eventually(lambda: not scene.draining(), "it has drained")
        expect_none(qa.send_cq, 0.3)
        expect_none(qb.recv_cq, 0.1)
        check_equal(a.event(0.2), None, "another event")
        qa.go(STATE.RTS)
        check_equal([c.wr_id for c in qa.sent(2)], [second, third], "the messages that had not")
        check_equal([c.wr_id for c in qb.received(1)], recv[1:], "the second receive")
        scene.works()


def drain_and_stop(a, b, kind, end):
    """SQD with messages that have not begun: on to ERR they are flushed, on to RESET forgotten."""
    with Scene((a, b), kind=KINDS[kind]) as scene:
        qa, qb = scene.qa, scene.qb
        qa.go(STATE.SQD)
        check(not scene.draining(), "draining an empty queue")
        numbers = [qa.write([scene.here.sge(0, 100)], scene.there.at()) for _ in range(5)]
        expect_none(qa.send_cq)
        qa.go(end)
        if end == STATE.ERR:
            check_equal(statuses(poll_for(qa.send_cq, 5)), [(n, STATUS.WR_FLUSH_ERR) for n in numbers], "sends")
        expect_none(qa.send_cq)
        qa.go(STATE.RESET)
        qb.go(STATE.RESET)
        scene.life()
        qb.recv([scene.there.sge()])
        qa.send([scene.here.sge(0, 100)])
        qa.sent(1)
        qb.received(1)


def drain_again(a, b, kind):
    """Again and again, with and without an event, under way: nothing is lost, in order."""
    with Scene((a, b), kind=KINDS[kind]) as scene:
        qa, qb = scene.qa, scene.qb
        for round_ in range(20):
            recv = [qb.recv([scene.there.sge(0, 3000)]) for _ in range(8)]
            send = [qa.send([scene.here.sge(0, 2500)]) for _ in range(4)]
            notified_drain(qa) if round_ % 2 else qa.go(STATE.SQD)
            send += [qa.send([scene.here.sge(0, 1500)]) for _ in range(4)]
            check_equal(a.event(SOON if round_ % 2 else 0), EVENT.SQ_DRAINED if round_ % 2 else None, "event")
            qa.go(STATE.RTS)
            check_equal([c.wr_id for c in qa.sent(8)], send, "sends")
            check_equal([c.wr_id for c in qb.received(8)], recv, "receives")
        check_equal(a.event(0.2), None, "event")


def receives_in_sqd(a, b, kind):
    """In SQD, and on UC in SQE, the receive side goes on."""
    with Scene((a, b), kind=KINDS[kind]) as scene:
        qa, qb = scene.qa, scene.qb
        qb.go(STATE.SQD)
        qb.recv([scene.there.sge()])
        qa.send([scene.here.sge(0, 2000)])
        qa.sent(1)
        qb.received(1)
        if kind == "RC":
            qa.read([scene.here.sge(0, 2000)], scene.there.at())
            qa.sent(1)


# RESET.


def reset_forgets(a, b):
    """After RESET the old life does not show: requests, timers, PSNs, saved responses, credits."""
    # No packet of one life is to come late in the next: each has but one copy for a quarter of a second.
    with on_one_processor(), Scene((a, b), rd_atomic=1, timeout=ack_timeout(20), min_rnr_timer=0) as scene:
        qa, qb = scene.qa, scene.qb
        for round_ in range(4):
            # The same PSNs in each life: an atomic must not be answered from an earlier one.
            scene.there.set_word(round_)
            for i in range(3):
                qa.fetch_add(scene.here.sge(0, 8), scene.there.at(), 100)
                qa.sent(1)
                check_equal(scene.here.word(), round_ + 100 * i, f"value found in life {round_}")
            # A message that waits for its receiver, for 655 ms; those behind it; receives.
            qa.send([scene.here.sge(0, 3000)])
            qa.read([scene.here.sge(0, 3000)], scene.there.at())
            qa.fetch_add(scene.here.sge(0, 8), scene.there.at(), 1)
            expect_none(qa.send_cq, 0.05)
            qa.recv([scene.here.sge()])
            for qp in (qa, qb):
                qp.go(STATE.RESET)
                check_equal(qp.state, STATE.RESET, "state")
            expect_none(qa.send_cq, 0.8 if round_ == 0 else 0.05)
            expect_none(qa.recv_cq, 0.01)
            scene.life()
        qb.recv([scene.there.sge()])
        number = qa.send([scene.here.sge(0, 3000)])
        check_equal([c.wr_id for c in qa.sent(1)], [number], "send")
        qb.received(1)
        scene.works()


def reset_is_deaf(a, b):
    """A queue pair in RESET answers nothing; its next life does not know what was sent meanwhile."""
    with Scene((a, b), timeout=ack_timeout(12), retry_cnt=2) as scene:
        qa, qb = scene.qa, scene.qb
        qb.go(STATE.RESET)
        number = qa.write([scene.here.sge(0, 8)], scene.there.at())
        check_equal(statuses(poll_for(qa.send_cq, 1)), [(number, STATUS.RETRY_EXC_ERR)], "write")
        check_equal(scene.there.read(8), bytes(8), "memory")
        qa.go(STATE.RESET)
        # Now there is somebody who answers, when there is time.
        for qp in (qa, qb):
            qp.attr = RcAttr()
            qp.renumber()
        scene.life()
        scene.works()


def many_lives(a, b, kind):
    """Through all states and back, again and again; each life works."""
    # Without a timer no copy of a packet can come in the next life.
    with Scene((a, b), kind=KINDS[kind], timeout=0) as scene:
        qa, qb = scene.qa, scene.qb
        for round_ in range(30):
            recv = qb.recv([scene.there.sge()])
            qa.send([scene.here.sge(0, 10 * round_)])
            qa.sent(1)
            check_equal([(c.wr_id, c.byte_len) for c in qb.received(1)], [(recv, 10 * round_)], "receive")
            if round_ % 3 == 1:
                qa.go(STATE.ERR)
            if round_ % 3 == 2:
                qa.go(STATE.SQD)
            qa.go(STATE.RESET)
            qb.go(STATE.RESET)
            scene.life()


# Changes while it runs.


def change_rnr_timer(a, b, state):
    """What RNR NAKs ask for can be changed."""
    with Scene((a, b), min_rnr_timer=0) as scene:
        qa, qb = scene.qa, scene.qb

        def waits():
            qa.send([scene.here.sge(0, 8)])
            time.sleep(0.05)
            began = time.monotonic()
            qb.recv([scene.there.sge()])
            qa.sent(1)
            qb.received(1)
            return time.monotonic() - began

        check(any(waits() > 0.4 for _ in range(50)), "no wait of 655 ms")
        if state == STATE.SQD:
            qb.go(STATE.SQD)
        qb.modify(ATTR.MIN_RNR_TIMER, min_rnr_timer=1)
        if state == STATE.SQD:
            qb.go(STATE.RTS)
        # Where all is slow it may take long some times, but not always.
        check(any(waits() < 0.3 for _ in range(50)), "a wait of 10 us takes long")
        check_equal(qb.qp.query(ATTR.MIN_RNR_TIMER)[0].min_rnr_timer, 1, "min_rnr_timer")


def change_access(a, b, kind, state):
    """Rights of the peer can be taken and given while it runs."""
    with Scene((a, b), kind=KINDS[kind]) as scene:
        qa, qb = scene.qa, scene.qb

        def change(access):
            if state == STATE.SQD:
                qb.go(STATE.SQD)
            qb.modify(ATTR.ACCESS_FLAGS, qp_access_flags=int(access))
            if state == STATE.SQD:
                qb.go(STATE.RTS)

        def write(byte):
            scene.here.fill(byte)
            qa.write([scene.here.sge(0, 8)], scene.there.at())

        def arrives(byte):
            write(byte)
            qa.sent(1)
            # On an unreliable connection it is complete when it has been sent.
            eventually(lambda: scene.there.read(8) == bytes([byte]) * 8, f"{byte} is written")

        arrives(1)
        change(0)
        change(ALL_ACCESS)
        arrives(2)
        change(ACCESS.REMOTE_READ)
        write(3)
        if kind == "RC":
            check_equal(poll_for(qa.send_cq, 1)[0].status, STATUS.REM_INV_REQ_ERR, "write without the right")
        else:
            qa.sent(1)
            time.sleep(0.1)
        check_equal(scene.there.read(8), b"\2" * 8, "memory")


def change_retries(a, b):
    """Timeout and number of retries can be changed in SQD."""
    with Scene((a, b), timeout=20, retry_cnt=7) as scene:
        qa, qb = scene.qa, scene.qb
        qa.go(STATE.SQD)
        qa.modify(ATTR.TIMEOUT | ATTR.RETRY_CNT | ATTR.RNR_RETRY, timeout=10, retry_cnt=1, rnr_retry=1)
        got = qa.qp.query(ATTR.TIMEOUT | ATTR.RETRY_CNT | ATTR.RNR_RETRY)[0]
        check_equal((got.timeout, got.retry_cnt, got.rnr_retry), (10, 1, 1), "attributes")
        qa.go(STATE.RTS)
        qb.go(STATE.RESET)
        began = time.monotonic()
        qa.write([scene.here.sge(0, 8)], scene.there.at())
        # With the old ones it would take half a minute.
        check_equal(poll_for(qa.send_cq, 1)[0].status, STATUS.RETRY_EXC_ERR, "write")
        check(time.monotonic() - began < 20, "the old timeout")


def change_depths(a, b):
    """READs under way, more and less of them, at both ends."""
    with Scene((a, b), rd_atomic=1) as scene:
        for depth in (8, 2, 16, 1, 5):
            for qp in (scene.qa, scene.qb):
                qp.go(STATE.SQD)
            for qp in (scene.qa, scene.qb):
                qp.modify(
                    ATTR.MAX_QP_RD_ATOMIC | ATTR.MAX_DEST_RD_ATOMIC, max_rd_atomic=depth, max_dest_rd_atomic=depth
                )
                got = qp.qp.query(ATTR.MAX_QP_RD_ATOMIC | ATTR.MAX_DEST_RD_ATOMIC)[0]
                check_equal((got.max_rd_atomic, got.max_dest_rd_atomic), (depth, depth), "depths")
                qp.go(STATE.RTS)
            workload.exercise(
                scene.qa, scene.qb, sizes=(8, 3000), kinds=("read", "cmp_swp", "fetch_add"), repeat=4, seed=depth
            )


def change_path(a, b, fabric, kind):
    """Another address of the peer, while messages wait."""
    with contextlib.ExitStack() as stack:
        a6, b6 = (stack.enter_context(fabric.open(side, 6)) for side in "ab")
        scene = stack.enter_context(Scene((a, b), kind=KINDS[kind]))
        qa, qb = scene.qa, scene.qb
        for round_, (this, other) in enumerate(((a6, b6), (a, b), (a6, b6))):
            for qp in (qa, qb):
                qp.go(STATE.SQD)
            number = qa.write([scene.here.sge(0, 100)], scene.there.at())
            for qp, own, peer in ((qa, this, other), (qb, other, this)):
                route = GlobalRoute(dgid=peer.gid, sgid_index=own.gid_index, hop_limit=64, traffic_class=8 * round_)
                qp.modify(ATTR.AV, ah_attr=AHAttr(port_num=1, is_global=1, gr=route))
                got = qp.qp.query(ATTR.AV)[0].ah_attr
                check_equal(got.dgid, str(peer.gid), "dgid")
                check_equal((got.traffic_class, got.sgid_index), (8 * round_, own.gid_index), "path")
            expect_none(qa.send_cq, 0.05)
            before = packets_by_family(fabric.b)
            qb.go(STATE.RTS)
            qa.go(STATE.RTS)
            check_equal([c.wr_id for c in qa.sent(1)], [number], "write")
            qb.recv([scene.there.sge()])
            for _ in range(20):
                qa.write([scene.here.sge(0, 3000)], scene.there.at())
            qa.send([scene.here.sge(0, 8)])
            qa.sent(21)
            qb.received(1)
            after = packets_by_family(fabric.b)
            v4, v6 = (now - then for now, then in zip(after, before))
            check((v6 > 50 > v4) if this is a6 else (v4 > 50 > v6), f"{v4} packets over IPv4, {v6} over IPv6")


def packets_by_family(end):
    """IPv4 and IPv6 packets that an end has received."""
    v4 = next(
        int(line.split()[3]) for line in end.run("cat", "/proc/net/snmp").splitlines() if line.startswith("Ip:") and "Forw" not in line
    )
    v6 = next(int(line.split()[1]) for line in end.run("cat", "/proc/net/snmp6").splitlines() if line.startswith("Ip6InReceives"))
    return v4, v6


def bad_change(a, b):
    """A change with a bad value changes nothing, not even what is good of it."""
    with Scene((a, b)) as scene:
        qa = scene.qa
        qa.go(STATE.SQD)
        before = str(qa.qp.query(0x1FFFFF)[0])
        bad_route = GlobalRoute(dgid=b.gid, sgid_index=200, hop_limit=64)
        for mask, values in (
            (ATTR.TIMEOUT | ATTR.RETRY_CNT, {"timeout": 3, "retry_cnt": 8}),
            (ATTR.TIMEOUT | ATTR.RNR_RETRY, {"timeout": 3, "rnr_retry": 9}),
            (ATTR.TIMEOUT | ATTR.AV, {"timeout": 3, "ah_attr": AHAttr(port_num=1, is_global=1, gr=bad_route)}),
            (ATTR.TIMEOUT | ATTR.PORT, {"timeout": 3, "port_num": 2}),
            (ATTR.TIMEOUT | ATTR.PKEY_INDEX, {"timeout": 3, "pkey_index": 1}),
            (ATTR.TIMEOUT | ATTR.MAX_DEST_RD_ATOMIC, {"timeout": 3, "max_dest_rd_atomic": 200}),
        ):
            with refused(errno.EINVAL, errno.ENODATA, errno.ENOENT):
                qa.modify(mask, **values)
            check_equal(str(qa.qp.query(0x1FFFFF)[0]), before, f"attributes after {values}")
        qa.go(STATE.RTS)
        scene.works()


# ERR.


def late_requests(a, b, kind, shared):
    """Requests posted in ERR complete in error: receives that no system call tells of, and sends."""
    with contextlib.ExitStack() as stack:
        queue = None
        if shared:
            queue = SharedQueue(a)
            stack.callback(queue.close)
        qp = KINDS[kind](a, srq=queue)
        stack.callback(qp.close)
        qp.connect(qp.peer)
        early = [qp.recv() for _ in range(3)] if not shared else []
        qp.go(STATE.ERR)
        for pause in (0, 0.1, 1):
            time.sleep(pause)
            if shared:
                queue.recv()
            else:
                early.append(qp.recv())
            sent = qp.send_to(qp.peer, []) if kind == "UD" else qp.send([])
            check_equal(statuses(poll_for(qp.send_cq, 1)), [(sent, STATUS.WR_FLUSH_ERR)], "send")
        if shared:
            expect_none(qp.recv_cq, 1.5)
        else:
            done = poll_for(qp.recv_cq, len(early))
            check_equal(statuses(done), [(n, STATUS.WR_FLUSH_ERR) for n in early], "receives")


def stalled(a, b):
    """UC in SQE: sends are flushed, receives go on, RTS starts it again."""
    with Scene((a, b), kind=UcQp) as scene:
        qa, qb = scene.qa, scene.qb
        bad = qa.send([SGE(scene.here.mr.buf, 8, scene.here.mr.lkey ^ 0x5A5A00)])
        late = qa.send([scene.here.sge(0, 8)])
        wanted = [(bad, STATUS.LOC_PROT_ERR), (late, STATUS.WR_FLUSH_ERR)]
        check_equal(statuses(poll_for(qa.send_cq, 2)), wanted, "sends")
        check_equal(qa.state, STATE.SQE, "state")
        qa.recv([scene.here.sge()])
        qb.send([scene.there.sge(0, 8)])
        qb.sent(1)
        qa.received(1)
        qa.modify(ATTR.STATE | ATTR.CUR_STATE, qp_state=STATE.RTS, cur_qp_state=STATE.SQE)
        qb.recv([scene.there.sge()])
        qa.send([scene.here.sge(0, 8)])
        qa.sent(1)
        qb.received(1)


def query_path(a, b):
    """What was set of the path comes back, bit by bit."""
    qp = RcQp(a)
    qp.to_init()
    route = GlobalRoute(dgid=b.gid, sgid_index=a.gid_index, hop_limit=77, traffic_class=0x28, flow_label=0x12345)
    qp.path_to = lambda gid: AHAttr(port_num=1, is_global=1, gr=route, sl=5)
    qp.to_rtr(Peer(b.gid, 0x123456, 0xFFFFFF))
    got = qp.qp.query(0x1FFFFF)[0]
    path = got.ah_attr
    # The RDMA core puts the route's hop limit in the place of what was asked for.
    found = (path.traffic_class, path.flow_label, path.sgid_index, path.sl, path.port_num, path.is_global)
    check_equal(found, (0x28, 0x12345, a.gid_index, 5, 1, 1), "path")
    check_equal(path.dgid, str(b.gid), "dgid")
    check_equal((got.dest_qp_num, got.rq_psn), (0x123456, 0xFFFFFF), "the peer")
    qp.close()


def main():
    suite = ktap.Suite("states")
    with Fabric() as fabric, fabric.open("a") as a, fabric.open("b") as b:

        def add(name, func, *args, **options):
            suite.add(name, func, a, b, *args, **options)

        for kind, old in itertools.product(KINDS, STATES):
            if (kind, old) != ("RC", STATE.SQE):  # there is no way there
                add(f"{kind} from {old.name}", from_state, kind, old, rxe_differs="accepts what it must not")
        for kind in KINDS:
            add(f"{kind}: attributes without a state", no_state_without, kind, rxe_differs="accepts any")
            add(f"ERR: requests posted late, {kind}", late_requests, kind, False)
            add(f"ERR: requests posted late, shared queue, {kind}", late_requests, kind, True)
        stuck = "an idle queue drains for ever, and cannot go back to RTS"
        add("SQD: what has begun finishes, asked to tell", drain_waits, True, rxe_differs="tells too early")
        add("SQD: what has begun finishes", drain_waits, False, rxe_differs="raises the event unasked")
        for kind in ("RC", "UC"):
            add(f"SQD, then ERR, {kind}", drain_and_stop, kind, STATE.ERR, rxe_differs=stuck)
            add(f"SQD, then RESET, {kind}", drain_and_stop, kind, STATE.RESET, rxe_differs=stuck)
            add(f"SQD again and again, {kind}", drain_again, kind, rxe_differs="raises the event unasked")
            add(f"SQD: receives go on, {kind}", receives_in_sqd, kind)
            add(f"RESET: many lives, {kind}", many_lives, kind, rxe_differs=stuck)
            for state in (STATE.RTS, STATE.SQD):
                add(f"{state.name}: access rights change, {kind}", change_access, kind, state, rxe_differs=stuck if state == STATE.SQD else None)
            add(f"SQD: another path, {kind}", change_path, fabric, kind, rxe_differs="is deaf then")
        add("RESET forgets", reset_forgets)
        add("RESET is deaf", reset_is_deaf)
        for state in (STATE.RTS, STATE.SQD):
            add(f"{state.name}: RNR timer changes", change_rnr_timer, state, rxe_differs=stuck if state == STATE.SQD else None)
        add("SQD: retries change", change_retries)
        add("SQD: READ depths change", change_depths, rxe_differs=stuck)
        add("SQD: a bad change", bad_change, rxe_differs="accepts it")
        add("SQE and back", stalled, rxe_differs="goes to ERR")
        add("query of the path", query_path, rxe_differs="forgets the service level")
        suite.run()


if __name__ == "__main__":
    main()
