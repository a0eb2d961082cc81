#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
# vm: KERNEL=debug TMO=480 DMESG_IGNORE=Call.Trace:
"""What the module asks the kernel for may be refused: then it fails cleanly, and works at the next try.

Each thing is tried again and again, with another request refused each time.  The kernel
comments on some of these failures with a call trace; of a fault of ours it says more.
"""

import contextlib
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent / "lib"))

import ktap
import workload
from faults import Faults
from ktap import LINK_TYPE, check, comment
from links import Links
from pyverbs.cq import CQ
from pyverbs.pd import PD
from rdma import Fabric, RcQp, UcQp, pair

MODULE = {"rxe": "rdma_rxe"}.get(LINK_TYPE, LINK_TYPE)


# Scenarios: what is done before, the operation, what is done afterwards.


def making(make):
    """Something is made; it goes away again."""

    @contextlib.contextmanager
    def scenario():
        made = []

        def operation(arm):
            arm()
            made.append(make())

        yield operation
        for thing in made:
            thing.close()

    return scenario


def closing(make):
    """Something goes away."""

    @contextlib.contextmanager
    def scenario():
        made = make()

        def operation(arm):
            arm()
            made.close()

        yield operation

    return scenario


@contextlib.contextmanager
def spare_netdev(fabric):
    """A network device without an RDMA device."""
    fabric.a.run("ip", "link", "add", "spare", "type", "dummy")
    fabric.a.run("ip", "link", "set", "spare", "up")
    try:
        yield "spare"
    finally:
        fabric.a.run("ip", "link", "del", "spare")


def adding(links, device, netdev):
    """A device is added."""

    @contextlib.contextmanager
    def scenario():
        def operation(arm):
            arm()
            links.add(device, netdev)

        yield operation
        if index := links.index(device):
            links.delete(index)

    return scenario


def deleting(links, device, netdev):
    """A device is deleted."""

    @contextlib.contextmanager
    def scenario():
        links.add(device, netdev)
        index = links.index(device)

        def operation(arm):
            arm()
            links.delete(index)

        yield operation
        check(links.index(device) is None, "the device is still there")

    return scenario


def connecting(a, b, kind):
    """A QP goes from RESET to RTS."""

    @contextlib.contextmanager
    def scenario():
        qa, qb = kind(a), kind(b)

        def operation(arm):
            arm()
            qa.connect(qb.peer)

        yield operation
        qa.close()
        qb.close()

    return scenario


def posting(a, b, length):
    """A message is sent, and received."""

    @contextlib.contextmanager
    def scenario():
        with pair(a, b) as (qa, qb):
            source, target = a.region(length), b.region(length)
            source.fill(0x42)
            qb.recv([target.sge()])

            def operation(arm):
                arm()
                qa.send([source.sge()])

            yield operation
            qa.sent(1)
            qb.received(1)
            check(target.read(length) == source.read(length), "the message differs")

    return scenario


# Tests.


def exhausted(faults, scenario, least, most=60):
    """Refuse the requests of an operation; there must be some, or nothing was tested."""
    found, refused = faults.exhaust(scenario, most)
    comment(f"{found} requests, {refused} of them refused, one at a time")
    check(found >= least, f"only {found} requests, {least} or more expected")


def link(faults, fabric, scenario, least):
    """The same for what is done to a link: of many hundred requests, most of them of the core, a few."""
    with spare_netdev(fabric) as netdev, contextlib.closing(Links(fabric.a)) as links:
        exhausted(faults, scenario(links, f"{LINK_TYPE}7", netdev), least, 20)


def traffic(faults, a, b, kinds, percent):
    """Packets that there is no memory for are lost packets: all arrives nevertheless."""
    with pair(a, b) as (qa, qb):
        before = faults.met()
        with faults.at_random(percent):
            workload.exercise(qa, qb, kinds=kinds, sizes=(0, 64, 5000, 32768), repeat=3)
        found = faults.met() - before
        comment(f"{found} requests refused")
        check(found, "nothing was refused")
        workload.exercise(qa, qb, sizes=(64, 5000))


def register(suite, fabric, a, b):
    """Add all tests."""
    faults = Faults(MODULE)

    def add(name, scenario, least=1):
        suite.add(name, exhausted, faults, scenario, least)

    suite.add("a link is added", link, faults, fabric, adding, 10)
    suite.add("a link is deleted", link, faults, fabric, deleting, 0)
    add("a device is opened", making(lambda: fabric.open("a")), 0)
    add("a protection domain is made", making(lambda: PD(a.ctx)), 0)
    add("a CQ is made", making(lambda: CQ(a.ctx, 100)))
    add("a region is made", making(lambda: a.region(100000)))
    for kind in RcQp, UcQp:
        add(f"a {kind.__name__} is made", making(lambda kind=kind: kind(a)))
        add(f"a {kind.__name__} is connected", connecting(a, b, kind), 0)
        add(f"a {kind.__name__} goes away", closing(lambda kind=kind: kind(a)), 0)
    add("a region goes away", closing(lambda: a.region(100000)), 0)
    add("a small message", posting(a, b, 64), 0)
    add("a large message", posting(a, b, 100000), 0)
    suite.add("traffic: SEND and WRITE", traffic, faults, a, b, ("send", "send_imm", "write", "write_imm"), 10)
    suite.add("traffic: all operations", traffic, faults, a, b, workload.KINDS, 10)


def main():
    suite = ktap.Suite("faults")
    with Fabric() as fabric, fabric.open("a") as a, fabric.open("b") as b:
        register(suite, fabric, a, b)
        suite.run()


if __name__ == "__main__":
    main()
