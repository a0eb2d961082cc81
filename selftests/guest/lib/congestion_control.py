# SPDX-License-Identifier: GPL-2.0
"""Congestion control: its settings, and flows that it slows down."""

import contextlib
import pathlib
import time

from ktap import check, check_equal
from rdma import STATE, RcQp, pair

SETTINGS = pathlib.Path("/sys/kernel/debug/rrxe")
SIZE = 32768
MBIT = 1e6 / 8

# What suits the rates of an emulated machine.
GENTLE = {"rp_ai_rate": 5, "rp_time_reset": 300}


class Settings:
    """The settings of a device, which are as before when it is over."""

    def __init__(self, device, **changes):
        self.directory, self.changes = SETTINGS / device.name / "congestion", changes

    def __getitem__(self, name):
        return int((self.directory / name).read_text())

    def __setitem__(self, name, value):
        (self.directory / name).write_text(str(value))

    def __enter__(self):
        self.before = {name: self[name] for name in self.changes}
        for name, value in self.changes.items():
            self[name] = value
        return self

    def __exit__(self, *_):
        for name, value in self.before.items():
            self[name] = value


class Flow:
    """Operations one after the other, some at a time, from one end of a connection."""

    DEPTH = 8

    def __init__(self, stack, ends, kind=RcQp, operation="write", **attr):
        self.qa, self.qb = stack.enter_context(pair(*ends, kind=kind, **attr))
        self.here, self.there = (qp.device.region(SIZE) for qp in (self.qa, self.qb))
        stack.callback(self.there.close)
        stack.callback(self.here.close)
        self.operation = operation
        self.posted = 0

    def turn(self):
        """Post what there is room for; returns how many are done."""
        done = 0
        if self.posted:
            count, completions = self.qa.send_cq.poll(self.posted)
            check(all(wc.status == 0 for wc in completions), f"status {[wc.status for wc in completions]}")
            done = count
            self.posted -= count
        while self.posted < self.DEPTH:
            getattr(self.qa, self.operation)([self.here.sge()], self.there.at())
            self.posted += 1
        return done

    def finish(self):
        """Wait for all that is posted."""
        self.qa.sent(self.posted)
        self.posted = 0
        check_equal((self.qa.state, self.qb.state), (STATE.RTS, STATE.RTS), "states")


def speeds(flows, seconds):
    """What flows do in a time, in Mbit/s each."""
    done = [0] * len(flows)
    began = time.monotonic()
    while time.monotonic() < began + seconds:
        moved = [flow.turn() for flow in flows]
        done = [a + b for a, b in zip(done, moved)]
        if not any(moved):
            time.sleep(0.0005)
    took = time.monotonic() - began
    return [count * SIZE / took / MBIT for count in done]


def speed(flow, seconds):
    """What one flow does."""
    return speeds([flow], seconds)[0]


@contextlib.contextmanager
def marking(end):
    """All that leaves an end has met congestion, if its sender reacts to that."""
    where = ("dev", end.netdev)
    end.run("tc", "qdisc", "add", *where, "clsact")
    try:
        end.run("tc", "filter", "add", *where, "egress", "matchall", "action", "skbmod", "ecn")
        yield
    finally:
        end.run("tc", "qdisc", "del", *where, "clsact")
