#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
# vm: TMO=1200
"""RDMA WRITE with immediate, end to end: what is written, what is delivered, and how often."""

import contextlib
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent / "lib"))

import ktap
from ktap import check, check_equal
from rdma import STATE, STATUS, WC_OPCODE, WITH_IMM, Fabric, expect_none, pair, poll_for, statuses

UNTOUCHED = 0x5A


def check_delivery(completion, recv_id, imm, length):
    """Everything a receive completion of a write with immediate says."""
    check_equal(completion.wr_id, recv_id, "wr_id")
    check_equal(completion.status, STATUS.SUCCESS, "status")
    check_equal(completion.opcode, WC_OPCODE.RECV_RDMA_WITH_IMM, "opcode")
    check(completion.flags & WITH_IMM, "WITH_IMM flag is not set")
    check_equal(f"{completion.imm:#x}", f"{imm:#x}", "immediate")
    check_equal(completion.byte_len, length, "byte_len")


def write_one(qa, qb, imm, length):
    """One write: the payload lands at the address of the RETH, the receive buffer stays as it was."""
    payload = bytes((7 * i + imm) & 0xFF for i in range(length))
    source, target = qa.device.region(length + 64), qb.device.region(length + 64)
    buffer = qb.device.region(max(length, 64))
    source.write(payload, 16)
    target.fill(UNTOUCHED)
    buffer.fill(UNTOUCHED)

    recv_id = qb.recv([buffer.sge()])
    send_id = qa.write([source.sge(16, length)], target.at(32), imm=imm)
    (sent,) = qa.sent(1)
    check_equal(sent.wr_id, send_id, "wr_id of the write")
    check_equal(sent.opcode, WC_OPCODE.RDMA_WRITE, "opcode of the write")
    (received,) = qb.received(1)
    check_delivery(received, recv_id, imm, length)
    guard = bytes([UNTOUCHED]) * 32
    check(target.read(length + 64, 0) == guard + payload + guard, "memory at the RETH address differs")
    check(buffer.read(buffer.length, 0) == bytes([UNTOUCHED]) * buffer.length, "the receive buffer was written to")
    for region in (source, target, buffer):
        region.close()


def delivers(ends):
    """Both immediates of the task, one packet and several."""
    with ends() as (qa, qb):
        for imm in (0x12345678, 0xDEADBEEF):
            for length in (1, 64, 1000, 1024, 1025, 5000):
                write_one(qa, qb, imm, length)


def zero_length(ends):
    """No payload; address and key mean nothing then (C9-88)."""
    with ends() as (qa, qb):
        memory = qb.device.region(64)
        for remote in (memory.at(0), memory.at(0)._replace(rkey=0, addr=0)):
            recv_id = qb.recv([memory.sge()])
            qa.write([], remote, imm=0xDEADBEEF)
            qa.sent(1)
            check_delivery(qb.received(1)[0], recv_id, 0xDEADBEEF, 0)
        check_equal(memory.read(64, 0), bytes(64), "the receive buffer")


def no_sge(ends):
    """A receive that has no buffer at all will do."""
    with ends() as (qa, qb):
        source, target = qa.device.region(3000), qb.device.region(3000)
        source.fill(0x42)
        recv_id = qb.recv()
        qa.write([source.sge()], target.at(), imm=0x12345678)
        qa.sent(1)
        check_delivery(qb.received(1)[0], recv_id, 0x12345678, 3000)
        check(target.read(3000, 0) == source.read(3000, 0), "payload differs")


def without_immediate(ends):
    """A plain write completes nothing at the receiver and leaves its receives alone."""
    with ends() as (qa, qb):
        source, target = qa.device.region(64), qb.device.region(64)
        recv_id = qb.recv()
        qa.write([source.sge()], target.at())
        qa.sent(1)
        expect_none(qb.recv_cq)
        qa.write([source.sge()], target.at(), imm=1)
        qa.sent(1)
        check_delivery(qb.received(1)[0], recv_id, 1, 64)


def backlog(ends, receives=256, writes=512):
    """Twice as many writes as receives: the surplus waits (RNR) for the refill; each arrives once, in order."""
    with ends(send_wr=writes, recv_wr=writes, min_rnr_timer=14) as (qa, qb):
        source, target = qa.device.region(8 * writes), qb.device.region(8 * writes)
        for i in range(writes):
            source.set_word(i + 1, 8 * i)
        recv_ids = [qb.recv() for _ in range(receives)]
        send_ids = [qa.write([source.sge(8 * i, 8)], target.at(8 * i), imm=i) for i in range(writes)]

        arrived = qb.received(receives)
        expect_none(qb.recv_cq, 0.5)
        recv_ids += [qb.recv() for _ in range(writes - receives)]
        arrived += qb.received(writes - receives)
        sent = qa.sent(writes)

        check_equal([c.wr_id for c in sent], send_ids, "order of the send completions")
        for i, completion in enumerate(arrived):
            check_delivery(completion, recv_ids[i], i, 8)
        expect_none(qb.recv_cq)
        expect_none(qa.send_cq, 0)
        check(target.read(8 * writes, 0) == source.read(8 * writes, 0), "payloads differ")


def rnr_exhausted(ends):
    """Nobody ever posts a receive, and the sender is told to give up."""
    with ends(rnr_retry=2) as (qa, qb):
        source, target = qa.device.region(64), qb.device.region(64)
        first = qa.write([source.sge()], target.at(), imm=1)
        second = qa.write([source.sge()], target.at(), imm=2)
        check_equal(
            statuses(poll_for(qa.send_cq, 2)),
            [(first, STATUS.RNR_RETRY_EXC_ERR), (second, STATUS.WR_FLUSH_ERR)],
            "completions",
        )
        check_equal(qa.state, STATE.ERR, "state of the sender")
        check_equal(qb.state, STATE.RTS, "state of the receiver")
        expect_none(qb.recv_cq)


TESTS = (
    ("0x12345678 and 0xDEADBEEF arrive as posted", delivers),
    ("zero length", zero_length),
    ("a receive without SGE", no_sge),
    ("a write without immediate takes no receive", without_immediate),
    ("256 receives, 512 writes, refill", backlog),
    ("rnr_retry exhausted", rnr_exhausted),
)


def register(suite, ends, where):
    """Add all tests to a suite, over connections made by ends()."""
    for name, func in TESTS:
        suite.add(f"{where}: {name}", func, ends)


@contextlib.contextmanager
def directions(fabric, families=(4, 6)):
    """The connections to test over: name and maker."""
    with contextlib.ExitStack() as stack:
        found = []
        for family in families:
            a, b = (stack.enter_context(fabric.open(side, family)) for side in "ab")
            found += [
                (f"IPv{family} a to b", lambda a=a, b=b, **attr: pair(a, b, **attr)),
                (f"IPv{family} b to a", lambda a=a, b=b, **attr: pair(b, a, **attr)),
            ]
        found.append(("loopback", lambda a=a, **attr: pair(a, a, **attr)))
        yield found


def main():
    suite = ktap.Suite("write with immediate")
    with Fabric() as fabric, directions(fabric) as found:
        for where, ends in found:
            register(suite, ends, where)
        suite.run()


if __name__ == "__main__":
    main()
