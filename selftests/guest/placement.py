#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
# vm: TMO=1200
"""FLUSH and ATOMIC WRITE: how far writes get, and words that are never seen in part."""

import contextlib
import errno
import pathlib
import random
import struct
import sys
import threading

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent / "lib"))

import ktap
from ktap import check, check_equal
from lossy import spoiled
from rdma import (
    ACCESS,
    ALL_ACCESS,
    MW_TYPE,
    PLACEMENT,
    SELECTIVITY,
    STATE,
    STATUS,
    WC_OPCODE,
    ExRcQp,
    Fabric,
    RcAttr,
    good,
    pair,
    poll_for,
    refused,
    statuses,
)
from rings import Wqe, ringed_pair

SIZE = 65536
FLUSHABLE = ALL_ACCESS | ACCESS.FLUSH_GLOBAL
RIGHTS = FLUSHABLE | ACCESS.FLUSH_PERSISTENT
FLUSH, ATOMIC_WRITE = 14, 15


class Scene:
    """A connection with memory at both ends."""

    def __init__(self, ends, access=FLUSHABLE, **attr):
        self.ends, self.access = ends, access
        self.attr = {"access": RIGHTS} | attr

    def __enter__(self):
        self.connection = pair(*self.ends, kind=ExRcQp, **self.attr)
        self.qa, self.qb = self.connection.__enter__()
        self.here = self.qa.device.region(SIZE)
        self.there = self.qb.device.region(SIZE, self.access)
        return self

    def __exit__(self, *why):
        self.connection.__exit__(*why)
        self.there.close()
        self.here.close()

    def fails(self, number, status):
        """A request fails with a status, and what is behind it is flushed."""
        behind = self.qa.send([])
        wanted = [(number, status), (behind, STATUS.WR_FLUSH_ERR)]
        check_equal(statuses(poll_for(self.qa.send_cq, 2)), wanted, "completions")
        check_equal((self.qa.state, self.qb.state), (STATE.ERR, STATE.ERR), "states")


def flushes(ends):
    """A FLUSH of any range, and of the whole region, is done."""
    with Scene(ends) as scene:
        for offset, length in ((0, SIZE), (0, 0), (100, 1), (4095, 2), (SIZE, 0)):
            number = scene.qa.flush(scene.there.at(offset), length)
            (done,) = scene.qa.sent(1)
            check_equal((done.wr_id, done.opcode), (number, WC_OPCODE.FLUSH), "completion")
        # The range means nothing for the whole region.
        scene.qa.flush(scene.there.at()._replace(addr=0), 0, selectivity=SELECTIVITY.MR)
        scene.qa.flush(scene.there.at()._replace(addr=2**64 - 1), 1 << 31, selectivity=SELECTIVITY.MR)
        scene.qa.sent(2)


def follows_writes(ends):
    """When a FLUSH is done, what was written before it is there."""
    with Scene(ends) as scene:
        for turn in range(50):
            data = random.randbytes(SIZE)
            scene.here.write(data)
            scene.qa.write([scene.here.sge()], scene.there.at())
            number = scene.qa.flush(scene.there.at(), SIZE)
            check_equal(scene.qa.sent(2)[-1].wr_id, number, "completion")
            check(scene.there.read(SIZE) == data, f"turn {turn}: not all is there")


def what_is_not_flushed(ends):
    """Keys, ranges and rights are checked."""
    cases = {
        "wrong key": lambda s: s.qa.flush(s.there.at()._replace(rkey=s.there.mr.rkey ^ 1), 8),
        "one byte more": lambda s: s.qa.flush(s.there.at(1), SIZE),
        "before the region": lambda s: s.qa.flush(s.there.at(-1), 1),
        "key of a whole region": lambda s: s.qa.flush(
            s.there.at()._replace(rkey=0x12345), 8, selectivity=SELECTIVITY.MR
        ),
        "no right to persistence": lambda s: s.qa.flush(s.there.at(), 8, PLACEMENT.PERSISTENT),
        "not both rights": lambda s: s.qa.flush(s.there.at(), 8, PLACEMENT.GLOBAL | PLACEMENT.PERSISTENT),
    }
    for what, post in cases.items():
        ktap.comment(what)
        with Scene(ends) as scene:
            scene.fails(post(scene), STATUS.REM_ACCESS_ERR)
    with Scene(ends, access=ALL_ACCESS) as scene:
        scene.fails(scene.qa.flush(scene.there.at(), 8), STATUS.REM_ACCESS_ERR)


def queue_pair_without_the_right(ends):
    """A queue pair that does not give the right to FLUSH calls it an invalid request."""
    for access, placement in ((ALL_ACCESS, PLACEMENT.GLOBAL), (FLUSHABLE, PLACEMENT.PERSISTENT)):
        with Scene(ends, attr_b=RcAttr(access=access)) as scene:
            scene.fails(scene.qa.flush(scene.there.at(), 8, placement), STATUS.REM_INV_REQ_ERR)
    with Scene(ends, attr_b=RcAttr(access=ALL_ACCESS & ~ACCESS.REMOTE_WRITE)) as scene:
        scene.fails(scene.qa.atomic_write(scene.there.at(), bytes(8)), STATUS.REM_INV_REQ_ERR)


def only_persistent_memory_is(ends):
    """Memory that is lost with the power is not registered as persistent."""
    with refused(errno.EINVAL):
        ends[0].region(4096, ALL_ACCESS | ACCESS.FLUSH_PERSISTENT)


def writes_words(ends):
    """ATOMIC WRITE writes its eight bytes and no others."""
    with Scene(ends) as scene:
        scene.there.fill(0x11)
        for offset in (0, 8, 4088, SIZE - 8):
            data = random.randbytes(8)
            number = scene.qa.atomic_write(scene.there.at(offset), data)
            (done,) = scene.qa.sent(1)
            check_equal((done.wr_id, done.opcode), (number, WC_OPCODE.ATOMIC_WRITE), "completion")
            check_equal(scene.there.read(8, offset), data, "word")
            scene.there.fill(0x11, 8, offset)
        check_equal(scene.there.read(SIZE), b"\x11" * SIZE, "all the rest")


def what_is_not_written(ends):
    """Keys, ranges, rights and alignment are checked; nothing is written then."""
    cases = {
        "wrong key": (lambda s: s.there.at()._replace(rkey=s.there.mr.rkey ^ 1), STATUS.REM_ACCESS_ERR),
        "past the end": (lambda s: s.there.at(SIZE), STATUS.REM_ACCESS_ERR),
        "four bytes off": (lambda s: s.there.at(4), STATUS.REM_INV_REQ_ERR),
        "one byte off": (lambda s: s.there.at(1), STATUS.REM_INV_REQ_ERR),
    }
    for what, (place, status) in cases.items():
        ktap.comment(what)
        with Scene(ends) as scene:
            scene.there.fill(0x77)
            scene.fails(scene.qa.atomic_write(place(scene), b"\0" * 8), status)
            check_equal(scene.there.read(SIZE), b"\x77" * SIZE, "memory")
    with Scene(ends, access=FLUSHABLE & ~ACCESS.REMOTE_WRITE) as scene:
        scene.fails(scene.qa.atomic_write(scene.there.at(), b"\0" * 8), STATUS.REM_ACCESS_ERR)


def never_in_part(ends):
    """Words are written while they are read: each reading is one of those written."""
    with Scene(ends, send_wr=256) as scene:
        words = [struct.pack("<Q", 0x0101010101010101 * n) for n in range(256)]
        torn, over = [], threading.Event()
        scene.there.set_word(0)

        def watch():
            while not over.is_set():
                word = scene.there.read(8)
                if len(set(word)) != 1:
                    torn.append(word)

        watcher = threading.Thread(target=watch)
        watcher.start()
        try:
            for _ in range(20):
                for word in words[:200]:
                    scene.qa.atomic_write(scene.there.at(), word)
                scene.qa.sent(200)
        finally:
            over.set()
            watcher.join()
        check(not torn, "seen in part:", torn[:3])


def through_a_window(ends):
    """Both are done through a memory window that gives the rights, and checked against it."""
    for kind in MW_TYPE:
        with Scene(ends, access=FLUSHABLE | ACCESS.MW_BIND) as scene:
            window = scene.qb.device.window(kind)
            window.bind(scene.qb, scene.there, 4096, 4096, ACCESS.REMOTE_WRITE | ACCESS.FLUSH_GLOBAL)
            scene.qb.sent(1)
            start = scene.there.at(4096).addr
            scene.qa.atomic_write(window.at(start + 8), b"12345678")
            scene.qa.flush(window.at(start), 4096)
            scene.qa.flush(window.at(0), 0, selectivity=SELECTIVITY.MR)
            scene.qa.sent(3)
            check_equal(scene.there.read(8, 4104), b"12345678", "word")
            scene.fails(scene.qa.flush(window.at(start + 1), 4096), STATUS.REM_ACCESS_ERR)
            window.close()


def take_credits(ends):
    """They are of the READs and atomics: with a depth of one, each waits for the other."""
    with Scene(ends, rd_atomic=1) as scene:
        numbers = []
        for turn in range(20):
            numbers.append(scene.qa.atomic_write(scene.there.at(8 * turn), struct.pack("<Q", turn)))
            numbers.append(scene.qa.flush(scene.there.at(), SIZE))
            numbers.append(scene.qa.read([scene.here.sge(8 * turn, 8)], scene.there.at(8 * turn)))
        done = good(poll_for(scene.qa.send_cq, len(numbers)))
        check_equal([c.wr_id for c in done], numbers, "order")
        for turn in range(20):
            check_equal(scene.here.word(8 * turn), turn, "what was read behind it")
    with Scene(ends, rd_atomic=0) as scene:
        number = scene.qa.flush(scene.there.at(), 8)
        check_equal(statuses(poll_for(scene.qa.send_cq, 1)), [(number, STATUS.LOC_QP_OP_ERR)], "no depth at all")


def on_a_bad_link(ends, fabric, count=60):
    """Packets are lost, repeated and overtaken: each word is the last one that was written."""
    disorder = "delay 200us loss 10% duplicate 5% reorder 80%"
    with spoiled(fabric, disorder), Scene(ends, send_wr=256, rd_atomic=16) as scene:
        model = {}
        for _ in range(count):
            offset, data = random.randrange(64) * 8, random.randbytes(8)
            model[offset] = data
            scene.qa.atomic_write(scene.there.at(offset), data)
            scene.qa.flush(scene.there.at(offset), 8)
            scene.qa.write([scene.here.sge(0, 3000)], scene.there.at(8192))
        scene.qa.sent(3 * count)
        for offset, data in model.items():
            check_equal(scene.there.read(8, offset), data, f"word at {offset}")


def rings_refuse(ends):
    """What librxe would not post: reserved placements and selectivities, other lengths, more than a message."""
    local, length = STATUS.LOC_QP_OP_ERR, STATUS.LOC_LEN_ERR
    cases = [(dict(flush=(place, level)), local) for place, level in ((0, 0), (4, 0), (8, 1), (1, 2), (1, 255))]
    cases += [(dict(flush=(1, 0), length=(1 << 31) + 1), length)]
    cases += [(dict(opcode=ATOMIC_WRITE, inline=b"1" * size), length) for size in (1, 7, 9, 16)]
    cases += [(dict(opcode=ATOMIC_WRITE), length)]
    for changes, status in cases:
        qa, qb = ringed_pair(*ends, access=RIGHTS)
        there = qb.device.region(4096, FLUSHABLE)
        there.fill(0x77)
        qa.sq.post(Wqe(**({"wr_id": 5, "opcode": FLUSH, "remote": there.at()} | changes)))
        check_equal(qa.doorbell(), 0, "doorbell")
        check_equal(statuses(poll_for(qa.send_cq, 1)), [(5, status)], str(changes))
        check_equal(there.read(4096), b"\x77" * 4096, "memory")
        qa.close()
        qb.close()
        there.close()


def is_offered(ends):
    """The device says that it has both."""
    caps = ends[0].ctx.query_device_ex().device_cap_flags_ex
    for bit, what in ((38, "FLUSH of global placement"), (39, "FLUSH of persistent placement"), (40, "ATOMIC WRITE")):
        check(caps & 1 << bit, f"no {what}")


def main():
    suite = ktap.Suite("placement")
    with Fabric() as fabric, contextlib.ExitStack() as stack:
        ends = [stack.enter_context(fabric.open(side)) for side in "ab"]
        suite.add("offered", is_offered, ends)
        suite.add("FLUSH", flushes, ends)
        suite.add("FLUSH follows writes", follows_writes, ends)
        suite.add("what is not flushed", what_is_not_flushed, ends)
        suite.add("queue pair without the right", queue_pair_without_the_right, ends)
        suite.add("only persistent memory is registered as such", only_persistent_memory_is, ends)
        suite.add("ATOMIC WRITE", writes_words, ends)
        suite.add("what is not written", what_is_not_written, ends)
        suite.add("never seen in part", never_in_part, ends)
        suite.add("through a window", through_a_window, ends, rxe_differs="shows all of the region")
        suite.add("take credits", take_credits, ends, rxe_differs="counts neither")
        suite.add("on a bad link", on_a_bad_link, ends, fabric, rxe_differs="sends another address again")
        suite.add("what the user library would not post", rings_refuse, ends, rxe_differs="looks at none of it")
        suite.run()


if __name__ == "__main__":
    main()
