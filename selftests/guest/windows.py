#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
# vm: TMO=1200
"""Memory windows: a part of a region for peers, bound and taken back by work requests."""

import contextlib
import errno
import pathlib
import random
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent / "lib"))

import ktap
from ktap import check, check_equal
from pyverbs.pd import PD
from rdma import (
    ACCESS,
    ALL_ACCESS,
    MW_TYPE,
    STATE,
    STATUS,
    WC_OPCODE,
    Device,
    Fabric,
    Remote,
    Window,
    expect_none,
    good,
    pair,
    poll_for,
    refused,
    statuses,
)
from rings import Wqe, ringed_pair

SIZE = 16384
FIRST, LENGTH = 4000, 5000  # what the windows show: not aligned, of several pages and packets
BINDABLE = ALL_ACCESS | ACCESS.MW_BIND
READ, WRITE, ATOMIC = ACCESS.REMOTE_READ, ACCESS.REMOTE_WRITE, ACCESS.REMOTE_ATOMIC
TYPES = {"type 1": MW_TYPE.TYPE_1, "type 2": MW_TYPE.TYPE_2}


class Scene:
    """A connection, from whose first end a window of the second one is used."""

    def __init__(self, ends, kind, access=BINDABLE, **attr):
        self.ends, self.kind, self.access, self.attr = ends, kind, access, attr

    def __enter__(self):
        self.connection = pair(*self.ends, **self.attr)
        self.qa, self.qb = self.connection.__enter__()
        self.here = self.qa.device.region(SIZE)
        self.there = self.qb.device.region(SIZE, self.access)
        self.window = self.qb.device.window(self.kind)
        self.start = self.there.at(FIRST).addr
        return self

    def __exit__(self, *why):
        self.connection.__exit__(*why)
        self.window.close()
        self.there.close()
        self.here.close()

    def bind(self, offset=FIRST, length=LENGTH, **options):
        """Bind the window."""
        number = self.window.bind(self.qb, self.there, offset, length, **options)
        (done,) = self.qb.sent(1)
        check_equal((done.wr_id, done.opcode), (number, WC_OPCODE.BIND_MW), "completion of the binding")
        return self

    def write(self, addr, length, key=None):
        """WRITE some bytes through the window; tells whether they were let in."""
        data = random.randbytes(length)
        self.here.write(data)
        offset = addr - self.there.at().addr
        self.qa.write([self.here.sge(0, length)], Remote(addr, self.window.key if key is None else key))
        (done,) = poll_for(self.qa.send_cq, 1)
        if done.status == STATUS.SUCCESS:
            check_equal(self.there.read(length, offset), data, "what was written")
            return True
        check_equal(done.status, STATUS.REM_ACCESS_ERR, "status")
        return False

    def again(self):
        """Connect the two anew after an error."""
        for qp in (self.qa, self.qb):
            qp.go(STATE.RESET)
            qp.renumber()
        self.qa.connect(self.qb.peer)
        self.qb.connect(self.qa.peer)
        while self.qb.recv_cq.poll(16)[0]:
            pass


def shows_its_range(ends, kind):
    """All of the range is there, and nothing of what is around it."""
    with Scene(ends, kind) as scene:
        scene.bind()
        check(scene.write(scene.start, LENGTH), "the whole window")
        check(scene.write(scene.start + LENGTH - 1, 1), "its last byte")
        scene.there.write(bytes(range(256)), FIRST + 77)
        scene.qa.read([scene.here.sge(0, 256)], scene.window.at(scene.start + 77))
        scene.qa.sent(1)
        check_equal(scene.here.read(256), bytes(range(256)), "what was read")
        scene.there.fill(0x5A)
        for addr, length in ((-1, 1), (-1, 8), (LENGTH, 1), (LENGTH - 1, 2), (0, LENGTH + 1), (LENGTH + 100, 4)):
            check(not scene.write(scene.start + addr, length), f"{length} bytes at {addr} were written")
            scene.again()
        check_equal(scene.there.read(SIZE), b"\x5a" * SIZE, "memory")


def gives_its_rights(ends, kind):
    """A window gives what it was bound with, whatever the region gives."""
    requests = {
        READ: lambda scene, at: scene.qa.read([scene.here.sge(0, 8)], at),
        WRITE: lambda scene, at: scene.qa.write([scene.here.sge(0, 8)], at),
        ATOMIC: lambda scene, at: scene.qa.fetch_add(scene.here.sge(0, 8), at, 1),
    }
    for given in requests:
        for asked, request in requests.items():
            with Scene(ends, kind) as scene:
                scene.bind(4096, 4096, access=given)
                request(scene, scene.window.at(scene.there.at(4096).addr))
                (done,) = poll_for(scene.qa.send_cq, 1)
                wanted = STATUS.SUCCESS if asked == given else STATUS.REM_ACCESS_ERR
                check_equal(done.status, wanted, f"{asked!r} through a window with {given!r}")


def is_no_local_key(ends, kind):
    """The key of a window is for peers: work requests of its owner may not name it."""
    with Scene(ends, kind) as scene:
        scene.bind()
        sge = scene.there.sge(FIRST, 8)
        sge.lkey = scene.window.key
        scene.qb.write([sge], scene.here.at())
        check_equal(poll_for(scene.qb.send_cq, 1)[0].status, STATUS.LOC_PROT_ERR, "status")


def bound_before_use(ends, kind):
    """A window that is not bound shows nothing."""
    with Scene(ends, kind) as scene:
        check(not scene.write(scene.start, 8), "written through a window that is not bound")


def key_is_told_behind(ends, kind):
    """What is posted behind a binding happens after it: the peer uses the key as soon as it is told."""
    with Scene(ends, kind) as scene:
        for turn in range(20):
            if turn and kind == MW_TYPE.TYPE_2:
                scene.qb.local_inv(scene.window.key)
            scene.window.bind(scene.qb, scene.there, FIRST + turn, LENGTH)
            scene.qa.recv()
            scene.qb.send([], imm=scene.window.key)
            (told,) = scene.qa.received(1)
            scene.qa.write([scene.here.sge(0, 64)], Remote(scene.start + turn, told.imm))
            scene.qa.sent(1)
        scene.qb.sent(40 if kind == MW_TYPE.TYPE_1 else 59)


def bound_again(ends):
    """A window of type 1 is bound again: the old range and the old key are gone."""
    with Scene(ends, MW_TYPE.TYPE_1) as scene:
        old = scene.bind().window.key
        scene.bind(0, 100)
        check(scene.window.key != old, "same key")
        check(scene.write(scene.there.at().addr, 100), "the new range")
        check(not scene.write(scene.start, 8), "the old range with the new key")
        scene.again()
        check(not scene.write(scene.there.at().addr, 8, key=old), "the new range with the old key")


def bound_to_nothing(ends):
    """Nothing bound to a window of type 1 ends what it shows."""
    with Scene(ends, MW_TYPE.TYPE_1) as scene:
        scene.bind().bind(FIRST, 0)
        check(not scene.write(scene.start, 8), "written through a window that shows nothing")
        scene.again()
        scene.bind()
        check(scene.write(scene.start, 8), "bound again")


def invalidated_locally(ends):
    """LOCAL_INV ends what a window of type 2 shows; it can be bound again."""
    with Scene(ends, MW_TYPE.TYPE_2) as scene:
        for _ in range(2):
            scene.bind()
            check(scene.write(scene.start, LENGTH), "bound")
            number = scene.qb.local_inv(scene.window.key)
            (done,) = scene.qb.sent(1)
            check_equal((done.wr_id, done.opcode), (number, WC_OPCODE.LOCAL_INV), "completion")
            check(not scene.write(scene.start, 8), "written through an invalidated window")
            scene.again()


def invalidated_by_the_peer(ends):
    """SEND with invalidate: the receiver is told, and the window shows nothing any more."""
    with Scene(ends, MW_TYPE.TYPE_2) as scene:
        scene.bind()
        buffer = scene.qb.device.region(4096)
        number = scene.qb.recv([buffer.sge()])
        scene.here.write(bytes(range(100)))
        scene.qa.send_inv([scene.here.sge(0, 100)], scene.window.key)
        scene.qa.sent(1)
        (done,) = scene.qb.received(1)
        check_equal((done.wr_id, done.byte_len, done.invalidated), (number, 100, scene.window.key), "receive")
        check_equal(buffer.read(100), bytes(range(100)), "message")
        check(not scene.write(scene.start, 8), "written through an invalidated window")
        scene.again()
        scene.bind()
        check(scene.write(scene.start, 8), "bound again")


def what_no_peer_invalidates(ends):
    """A SEND with invalidate of a key that is not to be invalidated is refused."""
    keys = {
        "region": lambda scene, _: scene.there.mr.rkey,
        "nothing": lambda *_: 0x123456,
        "stale key": lambda scene, _: scene.window.key ^ 1,
        "window of another queue pair": lambda _, other: other.key,
    }
    for what, key in keys.items():
        with Scene(ends, MW_TYPE.TYPE_2) as scene, pair(*ends) as (_, qb):
            other = qb.device.window(MW_TYPE.TYPE_2)
            other.bind(qb, scene.there)
            qb.sent(1)
            scene.bind().qb.recv()
            number = scene.qa.send_inv([], key(scene, other))
            done = statuses(poll_for(scene.qa.send_cq, 1))
            check_equal(done, [(number, STATUS.REM_ACCESS_ERR)], f"invalidation of {what}")
            check(poll_for(scene.qb.recv_cq, 1)[0].status != STATUS.SUCCESS, "the receive succeeded")
            check_equal(scene.qb.state, STATE.ERR, "state of the receiver")
            other.close()
    with Scene(ends, MW_TYPE.TYPE_1) as scene:
        scene.bind().qb.recv()
        scene.qa.send_inv([], scene.window.key)
        check_equal(poll_for(scene.qa.send_cq, 1)[0].status, STATUS.REM_ACCESS_ERR, "invalidation of type 1")


def fails_locally(scene, qp, post, status):
    """A local operation fails with a status, and what is behind it is flushed."""
    bad = post()
    behind = qp.send([])
    wanted = [(bad, status), (behind, STATUS.WR_FLUSH_ERR)]
    check_equal(statuses(poll_for(qp.send_cq, 2)), wanted, "completions")
    check_equal(qp.state, STATE.ERR, "state")
    scene.again()


def what_is_not_invalidated(ends):
    """LOCAL_INV of what is not to be invalidated fails."""
    with Scene(ends, MW_TYPE.TYPE_2) as scene:
        scene.bind()
        keys = (scene.there.mr.lkey, 0x123456, scene.window.key ^ 1)
        for key in keys:
            fails_locally(scene, scene.qb, lambda k=key: scene.qb.local_inv(k), STATUS.LOC_QP_OP_ERR)
        # Nor through another queue pair.
        fails_locally(scene, scene.qa, lambda: scene.qa.local_inv(scene.window.key), STATUS.LOC_QP_OP_ERR)
        check(scene.write(scene.start, 8), "still bound")
    with Scene(ends, MW_TYPE.TYPE_1) as scene:
        scene.bind()
        fails_locally(scene, scene.qb, lambda: scene.qb.local_inv(scene.window.key), STATUS.LOC_QP_OP_ERR)


def what_is_not_bound(ends, kind):
    """Bindings that fail, and leave the window as it was."""
    with Scene(ends, kind) as scene:
        device = scene.qb.device
        with contextlib.ExitStack() as stack:

            def region(access):
                made = device.region(SIZE, access)
                stack.callback(made.close)
                return made

            cases = {
                "region without the right": lambda w: w.bind(scene.qb, region(ALL_ACCESS)),
                "region that is not written": lambda w: w.bind(scene.qb, region(READ | ACCESS.MW_BIND)),
                "one byte more": lambda w: w.bind(scene.qb, scene.there, 1, SIZE),
                "one byte before": lambda w: w.bind(scene.qb, scene.there, -1, 8),
                "around the end": lambda w: w.bind(scene.qb, scene.there, 0, 2**64 - 1),
                "unknown right": lambda w: w.bind(scene.qb, scene.there, access=ACCESS.MW_BIND),
                "persistence of other memory": lambda w: w.bind(
                    scene.qb, scene.there, access=ACCESS.FLUSH_PERSISTENT
                ),
            }
            for what, post in cases.items():
                ktap.comment(what)
                window = device.window(kind)
                fails_locally(scene, scene.qb, lambda p=post, w=window: p(w), STATUS.MW_BIND_ERR)
                window.close()
        if kind == MW_TYPE.TYPE_2:
            again = lambda: scene.window.bind(scene.qb, scene.there, FIRST, 0)
            fails_locally(scene, scene.qb, again, STATUS.MW_BIND_ERR)


def type_2_is_bound_once(ends):
    """A window of type 2 that is bound is not bound again."""
    with Scene(ends, MW_TYPE.TYPE_2) as scene:
        key = scene.bind().window.key
        fails_locally(scene, scene.qb, lambda: scene.window.bind(scene.qb, scene.there, 0, 8), STATUS.MW_BIND_ERR)
        check(scene.write(scene.start, LENGTH, key=key), "still bound")


def type_2_is_for_one_queue_pair(ends):
    """A window of type 2 is for the peer of the queue pair that bound it, one of type 1 for all."""
    for kind, wanted in ((MW_TYPE.TYPE_1, STATUS.SUCCESS), (MW_TYPE.TYPE_2, STATUS.REM_ACCESS_ERR)):
        with Scene(ends, kind) as scene, pair(*ends) as (qa, _):
            scene.bind()
            qa.write([scene.here.sge(0, 8)], scene.window.at(scene.start))
            check_equal(poll_for(qa.send_cq, 1)[0].status, wanted, f"{kind!r} through another queue pair")
            check(scene.write(scene.start, 8), "through its own")


def of_another_domain(ends, kind):
    """Window, region and queue pair are of one protection domain."""
    with Scene(ends, kind) as scene:
        home = scene.qb.device
        with PD(home.ctx) as pd:
            elsewhere = object.__new__(Device)
            elsewhere.pd = pd
            foreign_region, foreign_window = elsewhere.region(SIZE, BINDABLE), Window(elsewhere, kind)
            own = home.window(kind)
            past = [
                (own, foreign_region),
                (foreign_window, scene.there),
                (foreign_window, foreign_region),
            ]
            for window, region in past:
                binding = (region.at().addr, 64, region.mr.lkey, window.mw.rkey, window.mw.rkey ^ 1, WRITE)
                rings_refuse(ends, scene, binding)
            for thing in (own, foreign_window, foreign_region):
                thing.close()


def rings_refuse(ends, scene, binding):
    """A binding that librxe would not post fails."""
    _, b = ends
    qb, qa = ringed_pair(b, ends[0])
    qb.sq.post(Wqe(wr_id=9, opcode=8, binding=binding))
    check_equal(qb.doorbell(), 0, "doorbell")
    check_equal(statuses(poll_for(qb.send_cq, 1)), [(9, STATUS.MW_BIND_ERR)], "binding")
    qa.close()
    qb.close()
    check_equal(scene.qb.state, STATE.RTS, "state of others")


def begins_at_zero(ends):
    """A window of type 2 may have its bytes called 0 and on."""
    with Scene(ends, MW_TYPE.TYPE_2) as scene:
        scene.bind(access=WRITE | ACCESS.ZERO_BASED)
        scene.here.write(bytes(range(64)))
        scene.qa.write([scene.here.sge(0, 64)], scene.window.at(LENGTH - 64))
        scene.qa.sent(1)
        check_equal(scene.there.read(64, FIRST + LENGTH - 64), bytes(range(64)), "what was written")
        scene.qa.write([scene.here.sge(0, 64)], scene.window.at(LENGTH - 63))
        check_equal(poll_for(scene.qa.send_cq, 1)[0].status, STATUS.REM_ACCESS_ERR, "past its end")
    with Scene(ends, MW_TYPE.TYPE_1) as scene:
        there = (scene.start, 64, scene.there.mr.lkey, scene.window.mw.rkey, 0, WRITE | ACCESS.ZERO_BASED)
        rings_refuse(ends, scene, there)


def keeps_its_region(ends, kind):
    """A region with windows stays registered; with the last of them gone it does not."""
    with Scene(ends, kind) as scene:
        scene.bind()
        other = scene.qb.device.window(kind)
        other.bind(scene.qb, scene.there)
        scene.qb.sent(1)
        with refused(errno.EBUSY):
            scene.there.close()
        check(scene.write(scene.start, 8), "still there")
        other.close()
        with refused(errno.EBUSY):
            scene.there.close()
        if kind == MW_TYPE.TYPE_1:
            scene.bind(FIRST, 0)
        else:
            scene.qb.local_inv(scene.window.key)
            scene.qb.sent(1)
        scene.there.close()


def freed_while_bound(ends, kind):
    """The key of a window that is freed is worth nothing."""
    with Scene(ends, kind) as scene:
        scene.bind()
        scene.window.close()
        check(not scene.write(scene.start, 8), "written through a freed window")


def waits_for_all_before(ends):
    """LOCAL_INV waits for what is before it: a READ into the region, and all completes in order."""
    with Scene(ends, MW_TYPE.TYPE_2) as scene:
        for _ in range(10):
            scene.bind()
            numbers = [scene.qb.read([scene.there.sge(FIRST, LENGTH)], scene.here.at()) for _ in range(3)]
            numbers.append(scene.qb.write([scene.there.sge(0, SIZE)], scene.here.at()))
            numbers.append(scene.qb.local_inv(scene.window.key))
            numbers.append(scene.qb.write([scene.there.sge(0, 8)], scene.here.at()))
            done = good(poll_for(scene.qb.send_cq, len(numbers)))
            check_equal([c.wr_id for c in done], numbers, "order")


def taken_away_in_use(ends):
    """A window is invalidated while its peer writes: it succeeds or is refused, and nothing comes after."""
    for _ in range(10):
        with Scene(ends, MW_TYPE.TYPE_2) as scene:
            scene.bind()
            for _ in range(40):
                scene.qa.write([scene.here.sge(0, LENGTH)], scene.window.at(scene.start))
            scene.qb.local_inv(scene.window.key)
            check_equal(poll_for(scene.qb.send_cq, 1)[0].status in (STATUS.SUCCESS, STATUS.WR_FLUSH_ERR), True, "status")
            done = [c.status for c in poll_for(scene.qa.send_cq, 40)]
            kinds = {STATUS.SUCCESS, STATUS.REM_ACCESS_ERR, STATUS.WR_FLUSH_ERR}
            check(set(done) <= kinds and done.count(STATUS.REM_ACCESS_ERR) <= 1, "completions", done)
            expect_none(scene.qa.send_cq, 0.02)


def untouched_when_taken_away(ends):
    """When an invalidation has completed, nobody writes to the memory any more."""
    for _ in range(10):
        with Scene(ends, MW_TYPE.TYPE_2, mtu=4096) as scene:
            scene.bind(0, SIZE)
            for fill in range(60):
                scene.here.fill(fill + 1)
                scene.qa.write([scene.here.sge()], scene.window.at(scene.there.at().addr))
            scene.qb.local_inv(scene.window.key)
            (done,) = poll_for(scene.qb.send_cq, 1)
            memory = scene.there.read(SIZE)
            poll_for(scene.qa.send_cq, 60)
            if done.status == STATUS.SUCCESS:
                check_equal(scene.there.read(SIZE), memory, "memory, some time later")


def is_offered(ends):
    """The device says that it has windows of both types."""
    attr = ends[0].ctx.query_device()
    check(attr.device_cap_flags & 1 << 17, "no windows of type 1")
    check(attr.device_cap_flags & 1 << 24, "no windows of type 2B")
    check(attr.max_mw > 1000, f"max_mw is {attr.max_mw}")


def many(ends, count=2000):
    """Many of them, and their keys differ."""
    device = ends[0]
    windows = [device.window(MW_TYPE.TYPE_2) for _ in range(count)]
    check_equal(len({window.key >> 8 for window in windows}), count, "keys")
    for window in windows:
        window.close()


def main():
    suite = ktap.Suite("memory windows")
    with Fabric() as fabric, contextlib.ExitStack() as stack:
        ends = [stack.enter_context(fabric.open(side)) for side in "ab"]
        suite.add("offered", is_offered, ends)
        for name, kind in TYPES.items():
            suite.add(f"{name}: shows its range", shows_its_range, ends, kind, rxe_differs="shows all of the region")
            suite.add(f"{name}: gives its rights", gives_its_rights, ends, kind)
            suite.add(f"{name}: is no local key", is_no_local_key, ends, kind)
            suite.add(f"{name}: bound before it is used", bound_before_use, ends, kind)
            suite.add(f"{name}: key told behind the binding", key_is_told_behind, ends, kind)
            suite.add(f"{name}: bindings that fail", what_is_not_bound, ends, kind, rxe_differs="binds some of it")
            suite.add(f"{name}: of another domain", of_another_domain, ends, kind, rxe_differs="binds some of it")
            suite.add(f"{name}: keeps its region", keeps_its_region, ends, kind, rxe_differs="EINVAL")
            suite.add(f"{name}: freed while bound", freed_while_bound, ends, kind)
        suite.add("type 1: bound again", bound_again, ends, rxe_differs="shows all of the region")
        suite.add("type 1: bound to nothing", bound_to_nothing, ends)
        suite.add("type 2: invalidated locally", invalidated_locally, ends)
        suite.add("type 2: invalidated by the peer", invalidated_by_the_peer, ends, rxe_differs="sets another flag")
        suite.add("type 2: bound once", type_2_is_bound_once, ends)
        suite.add("type 2: for one queue pair", type_2_is_for_one_queue_pair, ends)
        suite.add("type 2: begins at zero", begins_at_zero, ends, rxe_differs="shows all of the region")
        suite.add("type 2: waits for all before", waits_for_all_before, ends)
        suite.add("type 2: taken away in use", taken_away_in_use, ends)
        suite.add("type 2: untouched when taken away", untouched_when_taken_away, ends)
        suite.add("what no peer invalidates", what_no_peer_invalidates, ends, rxe_differs="does not look at the owner")
        suite.add("what is not invalidated", what_is_not_invalidated, ends, rxe_differs="does not look at the owner")
        suite.add("many", many, ends)
        suite.run()


if __name__ == "__main__":
    main()
