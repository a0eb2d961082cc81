#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
# vm: TMO=900
"""What goes wrong goes wrong as specified: the right status on both sides, the rest flushed in order,
and a queue pair that recovers."""

import contextlib
import pathlib
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent / "lib"))

import ktap
import workload
from capture import capture
from ktap import check, check_equal
from pyverbs.mr import MR
from pyverbs.pd import PD
from pyverbs.wr import SGE
from rdma import (
    ACCESS,
    ALL_ACCESS,
    EVENT,
    PSN_MASK,
    STATE,
    STATUS,
    WR,
    Fabric,
    RcAttr,
    RcQp,
    Remote,
    expect_none,
    pair,
    poll_for,
    statuses,
)
from rings import Wqe, ringed_pair

ACK_TIMEOUT = 4.096e-6  # seconds, times 2 ** timeout


class Scene:
    """A connection with memory at both ends, and receives that wait on both."""

    def __init__(self, ends, access=ALL_ACCESS, **attr):
        self.ends = pair(*ends, **attr)
        self.access = access

    def __enter__(self):
        self.qa, self.qb = self.ends.__enter__()
        self.here = self.qa.device.region(4096)
        self.there = self.qb.device.region(4096, self.access)
        self.recv_a = [self.qa.recv([self.here.sge()]) for _ in range(3)]
        self.recv_b = [self.qb.recv([self.there.sge(0, 64)]) for _ in range(3)]
        return self

    def __exit__(self, *why):
        self.ends.__exit__(*why)
        self.here.close()
        self.there.close()

    def fails_with(self, status, post, at_peer=STATE.ERR):
        """Post a bad request and three good ones behind it.

        The bad one completes with `status`, what was posted behind it is flushed in
        order, on both queues; then the peer is in state `at_peer`.
        """
        bad = post()
        behind = [self.qa.write([self.here.sge(0, 8)], self.there.at()) for _ in range(3)]
        wanted = [(bad, status)] + [(n, STATUS.WR_FLUSH_ERR) for n in behind]
        check_equal(statuses(poll_for(self.qa.send_cq, 4)), wanted, "send completions")
        check_equal(self.qa.state, STATE.ERR, "state of the requester")
        flushed = [(n, STATUS.WR_FLUSH_ERR) for n in self.recv_a]
        check_equal(statuses(poll_for(self.qa.recv_cq, 3)), flushed, "receives of the requester")
        check_equal(self.qb.state, at_peer, "state of the responder")
        expect_none(self.qa.send_cq, 0.05)
        return self

    def peer_flushes(self, may_have_taken_one=False):
        """The responder, too, flushes its receives in order.

        If the refused request takes one, that one may have a status of its own.
        """
        done = statuses(poll_for(self.qb.recv_cq, 3))
        if may_have_taken_one and done[0] == (self.recv_b[0], STATUS.LOC_ACCESS_ERR):
            done[0] = (self.recv_b[0], STATUS.WR_FLUSH_ERR)
        check_equal(done, [(n, STATUS.WR_FLUSH_ERR) for n in self.recv_b], "receives of the responder")


# What the responder refuses.

WITH_IMMEDIATE = "WRITE with immediate"
REQUESTS = {
    "WRITE": lambda qp, sge, remote: qp.write([sge], remote),
    WITH_IMMEDIATE: lambda qp, sge, remote: qp.write([sge], remote, imm=1),
    "READ": lambda qp, sge, remote: qp.read([sge], remote),
    "CMP_SWP": lambda qp, sge, remote: qp.cmp_swp(sge, remote, 0, 1),
    "FETCH_ADD": lambda qp, sge, remote: qp.fetch_add(sge, remote, 1),
}
RIGHT = {
    "WRITE": ACCESS.REMOTE_WRITE,
    WITH_IMMEDIATE: ACCESS.REMOTE_WRITE,
    "READ": ACCESS.REMOTE_READ,
    "CMP_SWP": ACCESS.REMOTE_ATOMIC,
    "FETCH_ADD": ACCESS.REMOTE_ATOMIC,
}


def untouched(scene):
    """A refused request has not changed anything."""
    check_equal(scene.there.read(4096, 0), bytes([0x77]) * 4096, "memory of the responder")


def refused_access(ends, request, remote_of, access=ALL_ACCESS):
    """A request for `remote_of(scene)` is refused as a remote access error."""
    with Scene(ends, access) as scene:
        scene.there.fill(0x77)
        post = lambda: REQUESTS[request](scene.qa, scene.here.sge(0, 8), remote_of(scene))
        scene.fails_with(STATUS.REM_ACCESS_ERR, post).peer_flushes(may_have_taken_one=request == WITH_IMMEDIATE)
        untouched(scene)


def bad_rkey(ends, request):
    """A key that names nothing (another index, another variant)."""
    for flip in (0x00FF0000, 0x00000001):
        refused_access(ends, request, lambda s, f=flip: s.there.at()._replace(rkey=s.there.mr.rkey ^ f))


def out_of_range(ends, request):
    """One byte too far, before the beginning, and around the end of the address space."""
    for wrong in (
        lambda s: s.there.at(4096),
        lambda s: s.there.at(-8),
        lambda s: s.there.at()._replace(addr=2**64 - 8),
    ):
        refused_access(ends, request, wrong)


def beyond_the_end(ends):
    """Begins inside, ends outside; of one packet, and of several."""
    for length in (64, 3000):
        for request in ("WRITE", "READ"):
            with Scene(ends) as scene:
                scene.there.fill(0x77)
                post = lambda: REQUESTS[request](scene.qa, scene.here.sge(0, length), scene.there.at(4096 - length + 1))
                scene.fails_with(STATUS.REM_ACCESS_ERR, post).peer_flushes()
                untouched(scene)


def no_right_on_region(ends, request):
    """The region was registered without the right."""
    refused_access(ends, request, lambda s: s.there.at(), access=ALL_ACCESS & ~RIGHT[request])


def no_right_on_qp(ends, request, status):
    """The queue pair of the responder was given no such right."""
    weak = RcAttr(access=ALL_ACCESS & ~RIGHT[request])
    with Scene(ends, attr_b=weak) as scene:
        post = lambda: REQUESTS[request](scene.qa, scene.here.sge(0, 8), scene.there.at())
        scene.fails_with(status, post).peer_flushes()


def key_of_a_dead_region(ends):
    """A key is worthless as soon as its region is deregistered."""
    with Scene(ends) as scene:
        dead = scene.qb.device.region(4096)
        remote = dead.at()
        dead.close()
        scene.fails_with(STATUS.REM_ACCESS_ERR, lambda: scene.qa.write([scene.here.sge(0, 8)], remote)).peer_flushes()


def key_of_another_pd(ends):
    """A region of another protection domain is out of reach."""
    with Scene(ends) as scene, PD(scene.qb.device.ctx) as other, MR(other, 4096, ALL_ACCESS) as foreign:
        remote = Remote(foreign.buf, foreign.rkey)
        scene.fails_with(STATUS.REM_ACCESS_ERR, lambda: scene.qa.write([scene.here.sge(0, 8)], remote)).peer_flushes()


def misaligned_atomic(ends, opcode):
    """An atomic needs an address that is a multiple of 8; librxe knows that too, so past it."""
    qa, qb = ringed_pair(*ends)
    here, there = qa.device.region(8), qb.device.region(64)
    there.fill(0x77)
    recv = qb.recv()
    qa.sq.post(Wqe(wr_id=77, opcode=opcode, remote=there.at(4), sges=[(here.at().addr, 8, here.mr.lkey)]))
    qa.doorbell()
    check_equal(statuses(poll_for(qa.send_cq, 1)), [(77, STATUS.REM_INV_REQ_ERR)], "send completion")
    check_equal(statuses(poll_for(qb.recv_cq, 1)), [(recv, STATUS.WR_FLUSH_ERR)], "receive of the responder")
    check_equal(there.read(64, 0), bytes([0x77]) * 64, "memory of the responder")
    qa.close()
    qb.close()


def access_event(ends):
    """The owner of the violated memory is told."""
    with Scene(ends) as scene:
        device = scene.qb.device
        while device.event(0) is not None:
            pass
        remote = scene.there.at()._replace(rkey=0)
        scene.fails_with(STATUS.REM_ACCESS_ERR, lambda: scene.qa.write([scene.here.sge(0, 8)], remote))
        check(EVENT.QP_ACCESS_ERR in iter(device.event, None), "no asynchronous event")


def send_too_long(ends, length):
    """Longer than the receive buffer: an error on both sides."""
    with Scene(ends) as scene:
        bad = scene.qa.send([scene.here.sge(0, length)])
        behind = scene.qa.send([scene.here.sge(0, 8)])
        wanted = [(bad, STATUS.REM_INV_REQ_ERR), (behind, STATUS.WR_FLUSH_ERR)]
        check_equal(statuses(poll_for(scene.qa.send_cq, 2)), wanted, "send completions")
        first, *rest = scene.recv_b
        wanted = [(first, STATUS.LOC_LEN_ERR)] + [(n, STATUS.WR_FLUSH_ERR) for n in rest]
        check_equal(statuses(poll_for(scene.qb.recv_cq, 3)), wanted, "receive completions")
        check_equal(scene.there.read(64, 64), bytes(64), "memory behind the receive buffer")


def bad_receive_key(ends):
    """The receiver's own buffer is not what it says: its fault, and the sender learns that."""
    with pair(*ends) as (qa, qb):
        here = qa.device.region(64)
        recv = qb.recv([SGE(here.mr.buf, 64, 0x00FFFF00)])
        bad = qa.send([here.sge()])
        check_equal(statuses(poll_for(qa.send_cq, 1)), [(bad, STATUS.REM_OP_ERR)], "send completion")
        check_equal(statuses(poll_for(qb.recv_cq, 1)), [(recv, STATUS.LOC_PROT_ERR)], "receive completion")


# What the requester itself finds.


def local_protection(ends, sge_of):
    """A source that may not be read: never reaches the wire."""
    for request in ("send", "write"):
        with Scene(ends) as scene:
            sges = [sge_of(scene)]
            post = lambda: scene.qa.send(sges) if request == "send" else scene.qa.write(sges, scene.there.at())
            scene.fails_with(STATUS.LOC_PROT_ERR, post, at_peer=STATE.RTS)
            expect_none(scene.qb.recv_cq, 0.05)


def read_only_target(ends):
    """A READ into a region that may not be written."""
    with Scene(ends) as scene:
        fixed = scene.qa.device.region(64, 0)
        scene.fails_with(
            STATUS.LOC_PROT_ERR, lambda: scene.qa.read([fixed.sge()], scene.there.at()), at_peer=STATE.RTS
        )
        check_equal(fixed.read(64, 0), bytes(64), "the region without write access")


# Peers that do not answer.


def peer_gone(ends, fabric, retry_cnt, timeout=13):
    """The peer's QP is destroyed: as many retries as configured, no fewer and no more, then an error."""
    attr = RcAttr(retry_cnt=retry_cnt, timeout=timeout)
    with capture(fabric, f"gone-{retry_cnt}") as packets, pair(*ends, attr) as (qa, qb):
        here = qa.device.region(2 * attr.mtu)
        remote = qb.device.region(2 * attr.mtu).at()
        recvs = [qa.recv([here.sge()]) for _ in range(2)]
        qb.qp.close()
        began = time.monotonic()
        first = qa.write([here.sge()], remote)
        behind = [qa.write([here.sge()], remote), qa.send([here.sge()])]
        done = poll_for(qa.send_cq, 3)
        took = time.monotonic() - began
        wanted = [(first, STATUS.RETRY_EXC_ERR)] + [(n, STATUS.WR_FLUSH_ERR) for n in behind]
        check_equal(statuses(done), wanted, "send completions")
        check_equal(statuses(poll_for(qa.recv_cq, 2)), [(n, STATUS.WR_FLUSH_ERR) for n in recvs], "receives")
        check_equal(qa.state, STATE.ERR, "state")
        one = ACK_TIMEOUT * 2**timeout
        check(took >= one * (retry_cnt + 1), f"gave up after {took:.3f} s, {retry_cnt} retries at {one:.3f} s")
    # A reminder is the first packet of the message; who tries again sends the second one as well.
    rounds = [p.psn for p in packets].count((qa.psn + 1) & PSN_MASK)
    check_equal(rounds, retry_cnt + 1, "how often the message was sent")


def peer_in_error(ends):
    """A peer whose QP is in ERR does not answer either."""
    with pair(*ends, retry_cnt=1, timeout=12) as (qa, qb):
        here, there = qa.device.region(64), qb.device.region(64)
        qb.go(STATE.ERR)
        bad = qa.write([here.sge()], there.at())
        check_equal(statuses(poll_for(qa.send_cq, 1)), [(bad, STATUS.RETRY_EXC_ERR)], "send completion")


def no_receive(ends, rnr_retry):
    """A SEND that finds no receive, retried as often as configured."""
    with pair(*ends, rnr_retry=rnr_retry, min_rnr_timer=25) as (qa, qb):
        here = qa.device.region(64)
        began = time.monotonic()
        bad = qa.send([here.sge()])
        check_equal(statuses(poll_for(qa.send_cq, 1)), [(bad, STATUS.RNR_RETRY_EXC_ERR)], "send completion")
        took = time.monotonic() - began
        check(took >= 0.06144 * rnr_retry, f"{rnr_retry} retries after 61.44 ms each took only {took:.3f} s")
        check_equal(qb.state, STATE.RTS, "state of the receiver")


def queue_drops_all(ends, fabric, retry_cnt=2, timeout=12):
    """A queue on the way out that never has room for a packet: lost like any other, with as many retries."""
    tc = ("tc", "qdisc")
    where = ("dev", fabric.a.netdev, "root")
    with pair(*ends, retry_cnt=retry_cnt, timeout=timeout) as (qa, qb):
        here, there = qa.device.region(4096), qb.device.region(4096)
        fabric.a.run(*tc, "add", *where, "pfifo", "limit", "0")
        try:
            bad = qa.write([here.sge()], there.at())
            check_equal(statuses(poll_for(qa.send_cq, 1)), [(bad, STATUS.RETRY_EXC_ERR)], "who cannot send")
            bad = qb.read([there.sge()], here.at())
            check_equal(statuses(poll_for(qb.send_cq, 1)), [(bad, STATUS.RETRY_EXC_ERR)], "who gets no answer")
        finally:
            fabric.a.run(*tc, "del", *where)


# ERR, and the way back.


def flush_on_demand(ends):
    """The owner moves a busy QP to ERR: everything outstanding comes back, in order, once."""
    with pair(*ends, rnr_retry=7) as (qa, qb):
        here = qa.device.region(64)
        recvs = [qa.recv([here.sge()]) for _ in range(10)]
        sends = [qa.send([here.sge()]) for _ in range(10)]  # the peer has no receive: they wait
        time.sleep(0.05)
        qa.go(STATE.ERR)
        check_equal(statuses(poll_for(qa.send_cq, 10)), [(n, STATUS.WR_FLUSH_ERR) for n in sends], "sends")
        check_equal(statuses(poll_for(qa.recv_cq, 10)), [(n, STATUS.WR_FLUSH_ERR) for n in recvs], "receives")
        expect_none(qa.send_cq)
        expect_none(qa.recv_cq)


def post_in_error(ends, queue):
    """What is posted to a QP in ERR is flushed as well."""
    with pair(*ends) as (qa, _):
        here = qa.device.region(64)
        qa.go(STATE.ERR)
        time.sleep(0.05)
        if queue == "send":
            numbers, cq = [qa.send([here.sge()]) for _ in range(5)], qa.send_cq
        else:
            numbers, cq = [qa.recv([here.sge()]) for _ in range(5)], qa.recv_cq
        check_equal(statuses(poll_for(cq, 5)), [(n, STATUS.WR_FLUSH_ERR) for n in numbers], "flushed")


def flush_into_a_small_cq(ends):
    """More receives than the completion queue has room for: they come back as room is made."""
    with pair(*ends, recv_wr=255) as (qa, _):
        qa.recv_cq.resize(15)
        numbers = [qa.recv() for _ in range(200)]
        qa.go(STATE.ERR)
        time.sleep(0.3)
        check_equal(statuses(poll_for(qa.recv_cq, 200)), [(n, STATUS.WR_FLUSH_ERR) for n in numbers], "flushed")


def failure_before_rts(ends):
    """A QP that fails while it may only receive flushes both queues, without being told to."""
    with contextlib.closing(RcQp(ends[0])) as qa, contextlib.closing(RcQp(ends[1])) as qb:
        here, there = qa.device.region(64), qb.device.region(64)
        qa.connect(qb.peer)
        qb.to_init()
        qb.to_rtr(qa.peer)
        received = qb.recv([there.sge()])
        bad = qa.write([here.sge()], there.at()._replace(rkey=0))
        check_equal(statuses(poll_for(qa.send_cq, 1)), [(bad, STATUS.REM_ACCESS_ERR)], "send completion")
        check_equal(qb.state, STATE.ERR, "state")
        check_equal(statuses(poll_for(qb.recv_cq, 1)), [(received, STATUS.WR_FLUSH_ERR)], "receive")
        sent = qb.send([there.sge()])
        check_equal(statuses(poll_for(qb.send_cq, 1)), [(sent, STATUS.WR_FLUSH_ERR)], "send")


def unsignalled_flush(ends):
    """An error completes unsignalled work as well; success does not."""
    with pair(*ends, signal_all=False) as (qa, qb):
        here, there = qa.device.region(64), qb.device.region(64)
        qa.write([here.sge()], there.at(), flags=0)
        seen = qa.write([here.sge()], there.at())
        check_equal([c.wr_id for c in qa.sent(1)], [seen], "signalled")
        expect_none(qa.send_cq, 0.05)
        bad = qa.write([here.sge()], there.at()._replace(rkey=0), flags=0)
        rest = qa.write([here.sge()], there.at(), flags=0)
        wanted = [(bad, STATUS.REM_ACCESS_ERR), (rest, STATUS.WR_FLUSH_ERR)]
        check_equal(statuses(poll_for(qa.send_cq, 2)), wanted, "unsignalled, in error")


def recovery(ends):
    """ERR to RESET, INIT, RTR and RTS on the same QPs, again and again, with new PSNs and traffic."""
    with pair(*ends) as (qa, qb):
        for psn in (0x000001, 0xFFFFF8, 0x800000):
            here = qa.device.region(64)
            bad = qa.write([here.sge()], qb.device.region(64).at()._replace(rkey=0))
            check_equal(statuses(poll_for(qa.send_cq, 1)), [(bad, STATUS.REM_ACCESS_ERR)], "send completion")
            qb.go(STATE.ERR)
            for qp, own in ((qa, psn), (qb, psn ^ 0x5A5A5A)):
                check_equal(qp.state, STATE.ERR, "state")
                qp.go(STATE.RESET)
                check_equal(qp.state, STATE.RESET, "state")
                qp.psn = own
            qa.connect(qb.peer)
            qb.connect(qa.peer)
            check(qa.state == qb.state == STATE.RTS, "not RTS again")
            workload.exercise(qa, qb, sizes=(0, 100, 5000), seed=psn)


def reset_while_busy(ends):
    """RESET with work outstanding: the work is gone without completions, and the QP as new."""
    with pair(*ends) as (qa, qb):
        here = qa.device.region(64)
        for _ in range(5):
            qa.send([here.sge()])
            qa.recv([here.sge()])
        time.sleep(0.05)
        for qp in (qa, qb):
            qp.go(STATE.RESET)
            qp.renumber()
        expect_none(qa.send_cq)
        expect_none(qa.recv_cq)
        qa.connect(qb.peer)
        qb.connect(qa.peer)
        workload.exercise(qa, qb, sizes=(0, 100, 5000))


def others_unharmed(ends):
    """The error of one connection is nobody else's business."""
    with pair(*ends) as (qa, qb), Scene(ends) as scene:
        workload.exercise(qa, qb, sizes=(100,))
        remote = scene.there.at()._replace(rkey=0)
        scene.fails_with(STATUS.REM_ACCESS_ERR, lambda: scene.qa.write([scene.here.sge(0, 8)], remote))
        workload.exercise(qa, qb, sizes=(100,))


def destroy_while_busy(ends):
    """Destroying a QP with work outstanding returns, and nothing comes afterwards."""
    with pair(*ends) as (qa, qb):
        here, there = qa.device.region(65536), qb.device.region(65536)
        for _ in range(20):
            qa.write([here.sge()], there.at())
        qa.qp.close()
        time.sleep(0.1)
        qa.send_cq.poll(64)
        expect_none(qa.send_cq)


RXE_TOO_LONG = "answers a remote operation error"
RXE_LOCAL = "flushes what failed"


def wrong_key(scene):
    """A local buffer by a key that names nothing."""
    return SGE(scene.here.mr.buf, 64, scene.here.mr.lkey ^ 0x00FF0000)


def too_far(scene):
    """A local buffer that goes on beyond its region."""
    return SGE(scene.here.mr.buf + 4090, 64, scene.here.mr.lkey)


def register(suite, ends, fabric):
    """Add all tests over one pair of devices."""

    def add(name, func, *args, **options):
        suite.add(name, func, ends, *args, **options)

    for request in REQUESTS:
        differs = "completes the receive with REM_ACCESS_ERR" if request == WITH_IMMEDIATE else None
        add(f"{request} with a wrong rkey", bad_rkey, request, rxe_differs=differs)
        add(f"{request} out of range", out_of_range, request, rxe_differs=differs)
        add(f"{request} without the right, by the region", no_right_on_region, request, rxe_differs=differs)
        add(f"{request} without the right, by the QP", no_right_on_qp, request, STATUS.REM_INV_REQ_ERR)
    add("WRITE and READ beyond the end", beyond_the_end)
    add("key of a deregistered region", key_of_a_dead_region)
    add("key of another protection domain", key_of_another_pd)
    add("misaligned CMP_SWP", misaligned_atomic, WR.ATOMIC_CMP_AND_SWP)
    add("misaligned FETCH_ADD", misaligned_atomic, WR.ATOMIC_FETCH_AND_ADD)
    add("access violation raises an event", access_event)
    add("SEND longer than the receive buffer, one packet", send_too_long, 65, rxe_differs=RXE_TOO_LONG)
    add("SEND longer than the receive buffer, several packets", send_too_long, 3000, rxe_differs=RXE_TOO_LONG)
    add("receive buffer with a bad lkey", bad_receive_key, rxe_differs="LOC_QP_OP_ERR")
    add("bad lkey", local_protection, wrong_key, rxe_differs=RXE_LOCAL)
    add("local range", local_protection, too_far, rxe_differs=RXE_LOCAL)
    add("READ into a region without write access", read_only_target)
    for retry_cnt in (0, 1, 3, 6):
        add(f"peer destroyed, {retry_cnt} retries", peer_gone, fabric, retry_cnt)
    add("peer destroyed, 7 retries", peer_gone, fabric, 7, rxe_differs="takes 7 for infinite")
    add("peer in ERR", peer_in_error)
    add("a queue that drops all", queue_drops_all, fabric, rxe_differs="tries without end")
    add("no receive, 1 RNR retry", no_receive, 1)
    add("no receive, 5 RNR retries", no_receive, 5, rxe_differs="waits less than 61.44 ms for timer 25")
    add("modify to ERR flushes in order", flush_on_demand)
    add("send posted in ERR", post_in_error, "send")
    add("receive posted in ERR", post_in_error, "receive", rxe_differs="is not told of the receive")
    add("flush into a small CQ", flush_into_a_small_cq, rxe_differs="overruns the CQ")
    add("failure before RTS", failure_before_rts)
    add("unsignalled work completes in error only", unsignalled_flush)
    add("recovery through RESET", recovery)
    add("RESET while busy", reset_while_busy)
    add("destroy while busy", destroy_while_busy)
    add("other connections are unharmed", others_unharmed)


def main():
    suite = ktap.Suite("errors")
    with Fabric() as fabric, fabric.open("a") as a, fabric.open("b") as b:
        register(suite, (a, b), fabric)
        suite.run()


if __name__ == "__main__":
    main()
