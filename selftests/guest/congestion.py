#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
# vm: TMO=900
"""Congestion: marks are answered, and what is set for a device counts.

On the cable of the tests `tc` marks what leaves an end as having met congestion.
"""

import contextlib
import errno
import pathlib
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent / "lib"))

import ktap
from capture import capture
from congestion_control import Flow, Settings, marking, speed
from counters import Watch, quiet
from ktap import check, check_equal
from rdma import Fabric, RcQp, UcQp
from roce import CNP, RESPONSES

EXPERIENCED = 3


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
                # An unreliable connection is done before its packets have arrived.
                took = quiet(other) - began
                quiet(sender)
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
    # A busy machine drops packets between the cable and the device.
    arrived = counted["rcvd_pkts"] - counted.get("rx_backlog_drops", 0)
    # What overtakes others on its way is answered by what is no data.
    unmarked = sum(p.target == marked[0].target for p in packets) - len(marked)
    least, most = arrived - unmarked, min(arrived, len(marked))
    seen = counted["np_ecn_marked_roce_packets"]
    check(0 < least <= seen <= most, f"np_ecn_marked_roce_packets: {seen}, of {least} to {most} that have arrived")
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
    """A sender that does not react says so, and ignores what it is told; a receiver may keep silent."""
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
        other = Flow(stack, ends, PlainlyCapableQp)
        other.turn()
        other.finish()
        moved = at_a.until("rp_cnp_ignored")
        check("rp_cnp_handled" not in moved, f"counted: {moved}")
        with Settings(b, np_enabled=0):
            quiet(a)
            at_a, at_b = Watch(a), Watch(b)
            other.turn()
            other.finish()
            at_b.until("np_ecn_marked_roce_packets")
            check("np_cnp_sent" not in at_b.moved() and "rp_cnp_ignored" not in at_a.moved(), "notified nevertheless")


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
        suite.add("traffic class of the consumer", class_of_consumer, fabric, v4)
        suite.add("switched off", switched_off, fabric, v4)
        suite.run()


if __name__ == "__main__":
    main()
