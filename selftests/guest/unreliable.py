#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
# vm: TMO=1200
"""Unreliable connections: what arrives is whole, what cannot be received is dropped in silence, and
a request that fails stops the send queue only."""

import contextlib
import itertools
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent / "lib"))

import ktap
from ktap import check, check_equal
from lossy import spoiled
from rdma import (
    ACCESS,
    ALL_ACCESS,
    ATTR,
    STATE,
    STATUS,
    WC_OPCODE,
    WR,
    Completion,
    Fabric,
    UcQp,
    eventually,
    expect_none,
    good,
    pair,
    poll_for,
    statuses,
)

SIZE = 8192
UNTOUCHED = 0x5A


def pattern(length, seed):
    """The contents of a message."""
    return bytes((7 * i + seed) & 0xFF for i in range(length))


class Scene:
    """A connection, with memory at both ends."""

    def __init__(self, ends, **attr):
        self.stack = contextlib.ExitStack()
        self.qa, self.qb = self.stack.enter_context(pair(*ends, kind=UcQp, **attr))

    def __enter__(self):
        self.here = self.region(self.qa)
        self.there = self.region(self.qb)
        self.buffer = self.region(self.qb)
        self.flag, self.target = self.region(self.qa, size=8), self.region(self.qb, size=8)
        self.marks = itertools.count(1)
        return self

    def __exit__(self, *why):
        self.stack.__exit__(*why)

    def region(self, qp, access=ALL_ACCESS, size=SIZE):
        """A region that goes with the scene."""
        region = qp.device.region(size, access)
        self.stack.callback(region.close)
        region.fill(UNTOUCHED)
        return region

    def message(self, length, seed=1):
        """The local part of a message with contents of its own."""
        self.here.write(pattern(length, seed))
        return self.here.sge(0, length)

    def passes(self):
        """Wait until what was sent so far has come to the peer: until a WRITE behind it has."""
        mark = next(self.marks).to_bytes(8, "little")
        self.flag.write(mark)
        self.qa.write([self.flag.sge()], self.target.at())
        self.qa.sent(1)
        eventually(lambda: self.target.read(8) == mark, "a WRITE arrives")

    def send_arrives(self, recv_id, length, imm=None):
        """A SEND now, to the receive of that number."""
        self.qa.send([self.message(length, seed=length)], imm=imm)
        self.qa.sent(1)
        (received,) = self.qb.received(1)
        check_equal(
            (received.wr_id, received.opcode, received.byte_len, received.imm),
            (recv_id, WC_OPCODE.RECV, length, imm),
            "receive",
        )
        check_equal(self.buffer.read(length), self.here.read(length), "contents")

    def is_dropped(self, post):
        """What is posted is sent with success, does not arrive, and does no harm to what follows."""
        recv_id = self.qb.recv([self.buffer.sge(0, 2048)])
        post()
        self.qa.sent(1)
        expect_none(self.qb.recv_cq)
        check_equal((self.qa.state, self.qb.state), (STATE.RTS, STATE.RTS), "states")
        self.send_arrives(recv_id, 1500)


def no_receive(ends):
    """There is no receive: the message is gone, and the sender does not know."""
    with Scene(ends) as scene:
        for length in (64, 3000):
            scene.qa.send([scene.message(length)])
            scene.qa.write([scene.here.sge(0, length)], scene.there.at(), imm=1)
            scene.qa.sent(2)
            scene.passes()
            expect_none(scene.qb.recv_cq, 0)
            scene.send_arrives(scene.qb.recv([scene.buffer.sge()]), length)


def too_long(ends):
    """A SEND that is longer than the receive: the receive serves the next message."""
    with Scene(ends) as scene:
        for length in (2049, 5000):
            scene.is_dropped(lambda: scene.qa.send([scene.message(length)]))


def refused(ends):
    """Memory that the peer may not write."""
    with Scene(ends) as scene:
        source = scene.message(3000)
        fixed = scene.region(scene.qb, ACCESS.LOCAL_WRITE)
        for imm in (None, 1):
            for remote in (
                scene.there.at()._replace(rkey=scene.there.mr.rkey ^ 1),
                scene.there.at(SIZE - 1024),
                fixed.at(),
            ):
                scene.is_dropped(lambda: scene.qa.write([source], remote, imm=imm))
        for region in (scene.there, fixed):
            check_equal(region.read(SIZE), bytes([UNTOUCHED]) * SIZE, "memory of the responder")


def no_right_on_qp(ends):
    """A peer that may not write at all."""
    with Scene(ends, access=ACCESS.LOCAL_WRITE) as scene:
        source = scene.message(64)
        scene.is_dropped(lambda: scene.qa.write([source], scene.there.at()))


def bad_post(scene, kind):
    """A request that fails, and the status it fails with."""
    wrong = scene.message(3000)
    wrong.lkey ^= 1
    remote = scene.there.at()
    post, status = {
        "local protection": (lambda: scene.qa.send([wrong]), STATUS.LOC_PROT_ERR),
        "READ": (lambda: scene.qa.read([scene.here.sge()], remote), STATUS.LOC_QP_OP_ERR),
        "atomic": (lambda: scene.qa.fetch_add(scene.here.sge(0, 8), remote, 1), STATUS.LOC_QP_OP_ERR),
        "SEND with invalidate": (
            lambda: scene.qa.post(WR.SEND_WITH_INV, [scene.here.sge(0, 8)]),
            STATUS.LOC_QP_OP_ERR,
        ),
    }[kind]
    return post(), status


def stalls(ends, kind):
    """The send queue stands in SQE, the receive queue goes on, and RTS brings all back."""
    with Scene(ends) as scene:
        qa, qb = scene.qa, scene.qb
        waiting = qa.recv([scene.here.sge()])
        bad, status = bad_post(scene, kind)
        behind = [qa.write([scene.here.sge(0, 8)], scene.there.at()) for _ in range(3)]
        wanted = [(bad, status)] + [(number, STATUS.WR_FLUSH_ERR) for number in behind]
        check_equal(statuses(poll_for(qa.send_cq, 4)), wanted, "send completions")
        check_equal((qa.state, qb.state), (STATE.SQE, STATE.RTS), "states")

        number = qa.send([scene.here.sge(0, 8)])
        check_equal(statuses(poll_for(qa.send_cq, 1)), [(number, STATUS.WR_FLUSH_ERR)], "posted in SQE")
        expect_none(qa.recv_cq, 0.05)
        qb.send([scene.buffer.sge(0, 100)])
        qb.sent(1)
        check_equal([done.wr_id for done in qa.received(1)], [waiting], "receive in SQE")

        qa.modify(ATTR.STATE | ATTR.CUR_STATE, qp_state=STATE.RTS, cur_qp_state=STATE.SQE)
        check_equal(qa.state, STATE.RTS, "state")
        scene.send_arrives(qb.recv([scene.buffer.sge()]), 3000)
        check_equal(scene.there.read(SIZE), bytes([UNTOUCHED]) * SIZE, "memory of the responder")


def ends_in_error(ends):
    """From SQE to ERR: receives are flushed as well; from there to RESET, and all is good."""
    with Scene(ends) as scene:
        qa = scene.qa
        waiting = qa.recv([scene.here.sge()])
        bad_post(scene, "READ")
        poll_for(qa.send_cq, 1)
        qa.go(STATE.ERR)
        number = qa.send([])
        check_equal(statuses(poll_for(qa.send_cq, 1)), [(number, STATUS.WR_FLUSH_ERR)], "send")
        check_equal(statuses(poll_for(qa.recv_cq, 1)), [(waiting, STATUS.WR_FLUSH_ERR)], "receive")
        qa.go(STATE.RESET)
        qa.connect(scene.qb.peer)
        check_equal(qa.state, STATE.RTS, "state")
        scene.send_arrives(scene.qb.recv([scene.buffer.sge()]), 3000)


def bad_receive(ends):
    """A receive at fault is its owner's mistake: its status, and the end of the queue pair."""
    with Scene(ends) as scene:
        sge = scene.buffer.sge()
        sge.lkey ^= 1
        number, behind = scene.qb.recv([sge]), scene.qb.recv()
        scene.qa.send([scene.message(64)])
        scene.qa.sent(1)
        wanted = [(number, STATUS.LOC_PROT_ERR), (behind, STATUS.WR_FLUSH_ERR)]
        check_equal(statuses(poll_for(scene.qb.recv_cq, 2)), wanted, "receives")
        check_equal((scene.qa.state, scene.qb.state), (STATE.RTS, STATE.ERR), "states")


def loss(ends, fabric, count=200, length=3000):
    """Messages get lost, but none arrives in part, twice or out of order."""
    with Scene(ends, recv_wr=count) as scene:
        target = scene.qb.device.region(count * length)
        numbers = [scene.qb.recv([target.sge(i * length, length)]) for i in range(count)]
        with spoiled(fabric, "loss 5%"):
            for imm in range(count):
                scene.qa.send([scene.message(length, seed=imm)], imm=imm)
                scene.qa.sent(1)
        scene.passes()
        arrived = good([Completion.of(wc) for wc in scene.qb.recv_cq.poll(count)[1]])
        last = -1
        for place, (number, received) in enumerate(zip(numbers, arrived)):
            check_equal((received.wr_id, received.byte_len), (number, length), "receive")
            check(received.imm > last, f"{received.imm} arrives after {last}")
            last = received.imm
            check_equal(target.read(length, place * length), pattern(length, last), "contents")
        check(count // 2 < len(arrived) < count, f"{len(arrived)} of {count} messages arrived")
        target.close()


def main():
    suite = ktap.Suite("unreliable connections")
    with Fabric() as fabric, contextlib.ExitStack() as stack:
        ends = [stack.enter_context(fabric.open(side, 6)) for side in "ab"]
        suite.add("no receive", no_receive, ends)
        suite.add("SEND longer than the receive", too_long, ends)
        suite.add("WRITE that is refused", refused, ends)
        suite.add("WRITE without the right, by the QP", no_right_on_qp, ends)
        for kind in ("local protection", "READ", "atomic", "SEND with invalidate"):
            suite.add(f"SQE and back: {kind}", stalls, ends, kind, rxe_differs="goes to ERR")
        suite.add("SQE, ERR, RESET", ends_in_error, ends)
        suite.add("receive buffer with a bad lkey", bad_receive, ends, rxe_differs="LOC_QP_OP_ERR")
        suite.add("loss", loss, ends, fabric)
        suite.run()


if __name__ == "__main__":
    main()
