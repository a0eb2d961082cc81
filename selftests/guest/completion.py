#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
# vm: TMO=900
"""Telling the consumers of completion queues: moderation, and on which CPU."""

import contextlib
import ctypes
import errno
import os
import pathlib
import re
import select
import struct
import sys
import threading
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent / "lib"))

import ktap
from ktap import check, check_equal, patient
from pyverbs.cq import CQ, CompChannel
from rdma import SEND, SOON, Fabric, RcAttr, RcQp, refused
from rdmatool import resource

# IB_USER_VERBS_EX_CMD_MODIFY_CQ, and that it is an extended command. The user library has no call for it.
MODIFY_CQ = 57 | 0x80000000
MODERATE = 1
# The longest period, in microseconds.
LONGEST = 0xFFFF
# With these the receive CQ has a size of its own.
ATTRIBUTES = RcAttr(recv_wr=200)
TRACING = pathlib.Path("/sys/kernel/tracing")


class Ends:
    """A connection whose receiver is told of its completions."""

    def __init__(self, a, b, vector=0):
        self.channel = CompChannel(b.ctx)
        self.qa, self.qb = RcQp(a), RcQp(b, ATTRIBUTES, channels=(None, self.channel), vector=vector)
        self.qa.connect(self.qb.peer)
        self.qb.connect(self.qa.peer)
        self.source = a.region(64)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.qa.close()
        self.qb.close()
        self.channel.close()

    def moderate(self, count, period, mask=MODERATE):
        """Set the moderation of the receiver's queue; returns 0 or the error number."""
        # struct ibv_qp: four pointers before that to the receive CQ. struct ibv_cq: three, then its handle.
        cq = ctypes.c_uint64.from_address(self.qb.qp.qp + 32).value
        handle = ctypes.c_uint32.from_address(cq + 24).value
        body = struct.pack("<IIHHI", handle, mask, count, period, 0)
        head = struct.pack("<IHHQHHI", MODIFY_CQ, len(body) // 8, 0, 0, 0, 0, 0)
        try:
            os.write(self.qb.device.ctx.cmd_fd, head + body)
        except OSError as error:
            return error.errno
        return 0

    def send(self, count, flags=0):
        """Have so many messages received, and polled."""
        for _ in range(count):
            self.qb.recv([])
            self.qa.send([self.source.sge(0, 0)], flags=SEND.SIGNALED | flags)
        self.qa.sent(count)
        self.qb.received(count)

    def told(self, seconds):
        """Whether the consumer is told in time."""
        if not select.select([self.channel.fd], [], [], seconds)[0]:
            return False
        self.channel.get_cq_event(self.qb.recv_cq)
        return True

    def told_after(self, count, solicited=False, flags=0):
        """How long it takes from before so many messages until the consumer is told, in microseconds."""
        self.qb.recv_cq.req_notify(solicited)
        began = time.monotonic()
        self.send(count, flags)
        check(self.told(patient(SOON)), f"not told of {count} messages")
        return (time.monotonic() - began) * 1e6


def soon(measure, less, seconds=120):
    """It takes less than so many microseconds, at least when the machine has a moment for it."""
    times = []
    deadline = time.monotonic() + patient(seconds)
    while time.monotonic() < deadline:
        times.append(measure())
        if times[-1] < less:
            return
    raise AssertionError(f"never in less than {less} us: {times}")


def capabilities(a, _):
    """What can be set, and for how many CPUs there are vectors."""
    moderation = a.ctx.query_device_ex().cq_mod_caps
    check_equal((moderation.max_cq_count, moderation.max_cq_period), (LONGEST, LONGEST), "moderation")
    check(a.ctx.num_comp_vectors >= os.cpu_count(), f"{a.ctx.num_comp_vectors} vectors")


def fewer(a, b):
    """Fewer completions than the count are told of when the period is over, and not before."""
    with Ends(a, b) as ends:
        check_equal(ends.moderate(10, LONGEST), 0, "error")
        for count in (1, 2, 9):
            took = ends.told_after(count)
            check(took >= LONGEST, f"told of {count} messages after {took} us")
        check(not ends.told(0.2), "told twice after one arming")


def enough(a, b):
    """As many as the count are told of before the period is over."""
    with Ends(a, b) as ends:
        check_equal(ends.moderate(4, LONGEST), 0, "error")
        soon(lambda: ends.told_after(4), LONGEST)
        check(not ends.told(0.2), "told twice after one arming")


def off(a, b):
    """Zero of either: each is told of at once."""
    with Ends(a, b) as ends:
        for count, period in ((0, LONGEST), (10, 0), (1, LONGEST), (0, 0)):
            check_equal(ends.moderate(10, LONGEST), 0, "error")
            check_equal(ends.moderate(count, period), 0, "error")
            soon(lambda: ends.told_after(1), LONGEST)


def released(a, b):
    """When there are other limits, what was held back so far is told of."""
    with Ends(a, b) as ends:

        def release():
            check_equal(ends.moderate(10, LONGEST), 0, "error")
            ends.qb.recv_cq.req_notify()
            began = time.monotonic()
            ends.send(1)
            check_equal(ends.moderate(20, LONGEST), 0, "error")
            check(ends.told(patient(SOON)), "not told")
            return (time.monotonic() - began) * 1e6

        soon(release, LONGEST)


def solicited(a, b):
    """What is not solicited begins no period."""
    with Ends(a, b) as ends:
        check_equal(ends.moderate(3, LONGEST), 0, "error")
        ends.qb.recv_cq.req_notify(True)
        ends.send(5)
        check(not ends.told(0.3), "told of what was not solicited")
        ends.send(1, SEND.SOLICITED)
        check(ends.told(patient(SOON)), "not told of what was solicited")


def bad(a, b):
    """Other attributes than moderation are refused."""
    with Ends(a, b) as ends:
        check_equal(ends.moderate(1, 1, mask=0), errno.EINVAL, "error without an attribute")
        check_equal(ends.moderate(1, 1, mask=2), errno.EOPNOTSUPP, "error with another attribute")
        check_equal(ends.moderate(10, 20), 0, "error")
        told = resource("cq", b, cqe=ends.qb.recv_cq.cqe)
        check_equal((told["moderation_count"], told["moderation_usecs"]), (10, 20), "limits")


def destroyed(a, b):
    """A queue that holds something back can go."""
    for _ in range(20):
        with Ends(a, b) as ends:
            check_equal(ends.moderate(100, LONGEST), 0, "error")
            ends.qb.recv_cq.req_notify()
            ends.send(1)


def resized(a, b):
    """A change of size forgets neither that the consumer waits nor what is held back."""
    with Ends(a, b) as ends:
        for size in (500, 100, 1000):
            ends.qb.recv_cq.req_notify()
            ends.qb.recv_cq.resize(size)
            ends.send(1)
            check(ends.told(patient(SOON)), f"not told in a queue resized to {size}")
            check(not ends.told(0.1), "told twice after one arming")
        check_equal(ends.moderate(10, LONGEST), 0, "error")
        ends.qb.recv_cq.req_notify()
        ends.send(1)
        ends.qb.recv_cq.resize(200)
        check(ends.told(patient(SOON)), "not told of what was held back")


def none_missed(a, b, moderation):
    """Who arms, polls, and then sleeps is woken for whatever came meanwhile."""
    messages = 300
    with Ends(a, b) as ends:
        check_equal(ends.moderate(*moderation), 0, "error")
        for _ in range(messages // 2):
            ends.qb.recv([])

        def send():
            for _ in range(messages):
                ends.qa.send([ends.source.sge(0, 0)])
                ends.qa.sent(1)

        sender = threading.Thread(target=send)
        sender.start()
        received = 0
        while received < messages:
            ends.qb.recv_cq.req_notify()
            found = ends.qb.recv_cq.poll(messages)[0]
            received += found
            for _ in range(found):
                ends.qb.recv([])
            if received < messages and not found:
                check(ends.told(patient(SOON)), f"asleep after {received} of {messages} messages")
        sender.join()


@contextlib.contextmanager
def traced(event):
    """Record an event of the kernel; yields a function that returns the lines so far."""
    switch = TRACING / "events" / event / "enable"
    (TRACING / "trace").write_text("")
    switch.write_text("1")
    try:
        yield lambda: [line for line in (TRACING / "trace").read_text().splitlines() if not line.startswith("#")]
    finally:
        switch.write_text("0")


def vectors(a, b):
    """The consumer is told on the CPU that its vector stands for."""
    cpus = sorted(os.sched_getaffinity(0))
    check(len(cpus) > 1, "this test needs two processors")
    for cpu in cpus:
        with Ends(a, b, cpu) as ends, traced("workqueue/workqueue_execute_start") as lines:
            for _ in range(5):
                ends.told_after(1)
            where = {int(re.search(r"\[(\d+)\]", line)[1]) for line in lines() if "cq_notify" in line}
        check_equal(where, {cpu}, "CPUs on which it was told")


def no_vector(a, _):
    """A vector that is not there is refused."""
    with refused(errno.EINVAL):
        CQ(a.ctx, 16, comp_vector=a.ctx.num_comp_vectors)


def main():
    suite = ktap.Suite("completion")
    with Fabric() as fabric, fabric.open("a") as a, fabric.open("b") as b:
        none = "has no moderation"
        suite.add("capabilities", capabilities, a, b, rxe_differs=none)
        suite.add("fewer than the count", fewer, a, b, rxe_differs=none)
        suite.add("as many as the count", enough, a, b, rxe_differs=none)
        suite.add("moderation off", off, a, b, rxe_differs=none)
        suite.add("other limits", released, a, b, rxe_differs=none)
        suite.add("solicited ones only", solicited, a, b, rxe_differs=none)
        suite.add("what is refused", bad, a, b, rxe_differs=none)
        suite.add("changes of size", resized, a, b, rxe_differs=none)
        for moderation in ((0, 0), (5, 1000)):
            suite.add(f"nothing is missed, moderation {moderation}", none_missed, a, b, moderation, rxe_differs=none)
        suite.add("queues that go while they hold back", destroyed, a, b, rxe_differs=none)
        suite.add("completion vectors", vectors, a, b, rxe_differs="tells where the completion appears")
        suite.add("a vector that is not there", no_vector, a, b)
        suite.run()


if __name__ == "__main__":
    main()
