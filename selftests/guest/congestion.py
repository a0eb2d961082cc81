#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
# vm: TMO=300
"""Congestion: marks are answered, notifications slow a queue pair down, and it comes back.

On the cable of the tests `tc` marks what leaves an end as having met congestion.
"""

import contextlib
import errno
import os
import pathlib
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent / "lib"))

import ktap
from capture import capture
from counters import Watch
from ktap import check, check_equal, patient
from rdma import STATE, Fabric, RcAttr, RcQp, UcQp, ack_timeout, pair
from roce import NAMES, OPCODES, RESPONSES, Bth, Path

SETTINGS = pathlib.Path("/sys/kernel/debug/rrxe")
CNP = next(code for code, (name, _) in OPCODES.items() if name == "CNP")
CAPABLE, EXPERIENCED = 2, 3
SIZE = 32768
MBIT = 1e6 / 8

# What suits the rates of an emulated machine.
GENTLE = {"rp_ai_rate": 5, "rp_time_reset": 300}


# Settings.


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


# Marks.


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


# Traffic.


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
        self.qa.sent(self.posted, 60)
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


def recovers(flow, wanted):
    """The flow gets as fast again as it should be."""
    deadline = time.monotonic() + patient(5)
    while (found := speed(flow, 0.2)) < wanted:
        check(time.monotonic() < deadline, f"{found:.0f} Mbit/s, {wanted:.0f} are due")


# Tests.


def settings_are_checked(a):
    """What is out of range is refused, and the rest is kept."""
    settings = Settings(a)
    for name, good, bad in (
        ("np_enabled", (0, 1), ("2", "-1", "x", "1 1")),
        ("np_cnp_dscp", (0, 63), ("64",)),
        ("rp_min_rate", (1, 1000), ("0", "8192001", "4294967296")),
        ("rp_threshold", (1, 31), ("0", "32")),
        ("rp_dce_tcp_g", (0, 1023), ("1024",)),
        ("rp_byte_reset", (1024, 4294967295), ("1023",)),
    ):
        before = settings[name]
        for value in bad:
            try:
                settings[name] = value
            except OSError as error:
                check_equal(error.errno, errno.EINVAL, f"{name} {value}")
            else:
                raise AssertionError(f"{name} takes {value}")
        check_equal(settings[name], before, name)
        for value in (*good, before):
            settings[name] = value
            check_equal(settings[name], value, name)


def is_data(packet):
    """Does a packet have what makes a queue long?"""
    return packet.opcode not in RESPONSES | {CNP} or packet.name.startswith("READ_RESPONSE")


def marks_are_answered(fabric, ends, kind, operation):
    """Notifications of the right form, not more than allowed, and counters that know of them."""
    sender, other = (ends[1], ends[0]) if operation == "read" else ends
    end = fabric.b if operation == "read" else fabric.a
    interval = 20_000
    at_sender, at_other = Watch(sender), Watch(other)
    with Settings(other, np_min_time_between_cnps=interval), contextlib.ExitStack() as stack:
        with capture(fabric, f"marks-{kind.__name__}-{operation}") as packets:
            flow = Flow(stack, ends, kind, operation)
            source = (flow.qb if operation == "read" else flow.qa).qp.qp_num
            with marking(end):
                began = time.monotonic()
                speed(flow, 0.3)
                flow.finish()
                took = time.monotonic() - began
                # An unreliable connection is done before its packets have arrived.
                time.sleep(patient(0.3))
    cnps = [p for p in packets if p.opcode == CNP]
    for p in cnps:
        check_equal((p.qpn, p.psn, p.payload), (source, 0, bytes(16)), "CNP: QPN, PSN, payload")
        check_equal((p.fecn, p.becn, p.migrated, p.solicited, p.ack, p.pad), (0, 1, 0, 0, 0, 0), "CNP: flags")
        check_equal((p.pkey, p.traffic_class), (0xFFFF, 48 << 2), "CNP: P_Key, traffic class")
    check(1 <= len(cnps) <= took * 1e6 / interval + 2, f"{len(cnps)} notifications in {took:.2f} s")
    marked = [p for p in packets if p.traffic_class & 3 == EXPERIENCED]
    check(marked and all(is_data(p) for p in marked), f"marked: {sorted({p.name for p in marked})}")
    plain = {p.name for p in packets if p.traffic_class & 3 == 0}
    check(not {p.name for p in packets if is_data(p)} & plain, f"no reaction promised: {plain}")
    counted = at_other.moved()
    check_equal(counted["np_cnp_sent"], len(cnps), "np_cnp_sent")
    check_equal(counted["np_ecn_marked_roce_packets"], len(marked), "np_ecn_marked_roce_packets")
    check_equal(at_sender.moved()["rp_cnp_handled"], len(cnps), "rp_cnp_handled")


class ClassQp(RcQp):
    """A connection whose consumer has set a traffic class."""

    CLASS = 0x69  # DSCP 26, ECT(1)

    def path_to(self, gid):
        path = super().path_to(gid)
        path.traffic_class = self.CLASS
        return path


class PlainlyCapableQp(ClassQp):
    """The same, of one that says ECT(0) itself."""

    CLASS = 2


def class_of_consumer(fabric, ends):
    """What the consumer says of ECN counts."""
    with capture(fabric, "class") as packets, contextlib.ExitStack() as stack:
        flow = Flow(stack, ends, ClassQp)
        flow.turn()
        flow.finish()
    check_equal({p.traffic_class for p in packets}, {ClassQp.CLASS}, "traffic classes")


def switched_off(fabric, ends):
    """A sender that does not react says so, and is not slowed down; a receiver may keep silent."""
    a, b = ends
    with Settings(a, rp_enabled=0), contextlib.ExitStack() as stack, marking(fabric.a):
        at_a, at_b = Watch(a), Watch(b)
        with capture(fabric, "off") as packets:
            flow = Flow(stack, ends)
            flow.turn()
            flow.finish()
        check_equal({p.traffic_class for p in packets}, {0}, "traffic classes")
        check("np_ecn_marked_roce_packets" not in at_b.moved(), "something was marked")
        # The consumer says that it reacts, and nobody does.
        fast = speed(flow, 0.5)
        other = Flow(stack, ends, PlainlyCapableQp)
        recovers(other, fast / 2)
        other.finish()
        moved = at_a.moved()
        check(moved.get("rp_cnp_ignored") and "rp_cnp_handled" not in moved, f"counted: {moved}")
        with Settings(b, np_enabled=0):
            at_a, at_b = Watch(a), Watch(b)
            other.turn()
            other.finish()
            check(at_b.moved()["np_ecn_marked_roce_packets"], "nothing was marked")
            check("np_cnp_sent" not in at_b.moved() and "rp_cnp_ignored" not in at_a.moved(), "notified nevertheless")


def slows_down(fabric, ends, kind, operation):
    """As long as all is marked a flow goes down to the lowest rate; then it comes back."""
    end = fabric.b if operation == "read" else fabric.a
    sender = ends[1] if operation == "read" else ends[0]
    with Settings(sender, **GENTLE), contextlib.ExitStack() as stack:
        flow = Flow(stack, ends, kind, operation)
        speed(flow, 0.1)
        before = speed(flow, 0.5)
        with marking(end):
            speed(flow, 0.3)
            slow = speed(flow, 1)
        check(4 < slow < before / 2, f"{slow:.1f} Mbit/s while all is marked, {before:.0f} before")
        recovers(flow, before * 0.6)
        flow.finish()
        ktap.comment(f"{before:.0f} Mbit/s, {slow:.1f} while all is marked")


def switched_off_meanwhile(fabric, ends):
    """Who is held back goes on when the administrator says so."""
    with Settings(ends[0], **GENTLE), contextlib.ExitStack() as stack:
        flow = Flow(stack, ends)
        before = speed(flow, 0.5)
        with marking(fabric.a):
            slow = speed(flow, 0.5)
            with Settings(ends[0], rp_enabled=0):
                recovers(flow, before * 0.6)
        check(slow < before / 2, f"{slow:.1f} Mbit/s while all is marked, {before:.0f} before")
        flow.finish()


@contextlib.contextmanager
def flood(fabric, frame):
    """A process that sends a frame all the time from the other end of the cable."""
    child = os.fork()
    if child == 0:
        try:
            with fabric.b.socket(17, 3, 0) as tap:  # AF_PACKET, SOCK_RAW
                tap.bind((fabric.b.netdev, 0))
                while True:
                    for _ in range(64):
                        with contextlib.suppress(BlockingIOError, OSError):
                            tap.send(frame)
        finally:
            os._exit(1)
    try:
        yield
    finally:
        os.kill(child, 9)
        os.waitpid(child, 0)


def forged(fabric, qpn):
    """A notification as an attacker makes it."""
    path = Path(fabric.b.mac, fabric.a.mac, fabric.b.ip4_bytes, fabric.a.ip4_bytes)
    # Nobody looks at the reserved bytes.
    return path.frame(bytes(Bth(CNP, qpn, 0, migrated=0, reserved=0x40)) + os.urandom(16))


def flood_of_notifications(fabric, ends):
    """It slows a flow down, but does not stop it, nor does it end its retries."""
    with Settings(ends[0], **GENTLE), contextlib.ExitStack() as stack:
        flow = Flow(stack, ends, timeout=ack_timeout(12), retry_cnt=1, mtu=4096)
        before = speed(flow, 0.5)
        at_a = Watch(ends[0])
        with flood(fabric, forged(fabric, flow.qa.qp.qp_num)):
            speed(flow, 0.3)
            slow = speed(flow, 3)
        handled = at_a.moved()["rp_cnp_handled"]
        check(handled > 1000, f"{handled} notifications came, so this proves nothing")
        check(4 < slow < before / 2, f"{slow:.1f} Mbit/s in the flood, {before:.0f} before")
        recovers(flow, before * 0.6)
        flow.finish()
        ktap.comment(f"{before:.0f} Mbit/s, {slow:.1f} in a flood of {handled} notifications")


def main():
    suite = ktap.Suite("congestion")
    with contextlib.ExitStack() as stack:
        fabric = stack.enter_context(Fabric())
        v4, v6 = ([stack.enter_context(fabric.open(side, f)) for side in "ab"] for f in (4, 6))
        suite.add("settings", settings_are_checked, v4[0])
        for family, ends in ((4, v4), (6, v6)):
            for kind, operation in ((RcQp, "write"), (RcQp, "read"), (UcQp, "write")):
                name = f"IPv{family}, {kind.TYPE.name[-2:]} {operation}"
                suite.add(f"marks are answered: {name}", marks_are_answered, fabric, ends, kind, operation)
        for kind, operation in ((RcQp, "write"), (RcQp, "read"), (UcQp, "write")):
            suite.add(f"slows down: {kind.TYPE.name[-2:]} {operation}", slows_down, fabric, v4, kind, operation)
        suite.add("traffic class of the consumer", class_of_consumer, fabric, v4)
        suite.add("switched off", switched_off, fabric, v4)
        suite.add("switched off meanwhile", switched_off_meanwhile, fabric, v4)
        suite.add("flood of notifications", flood_of_notifications, fabric, v4)
        suite.run()


if __name__ == "__main__":
    main()
