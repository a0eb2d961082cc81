#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
# vm: TMO=1800
"""Everything over links that lose, reorder, repeat and corrupt packets: nobody may notice."""

import contextlib
import functools
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent / "lib"))

import ktap
import workload
import write_with_imm
from ktap import check
from rdma import STATE, Fabric, pair

# What netem does on both ends of the cable.
LINKS = {
    "loss 1%": "loss 1%",
    "reorder": "delay 1ms reorder 20% 25%",
    "duplicate 5%": "duplicate 5%",
    "corrupt 1%": "corrupt 1%",
    "all of it": "delay 1ms 200us loss 1% duplicate 2% corrupt 1% reorder 10% 25%",
    "loss 10%": "loss 10%",
}
SETTINGS = {"retry_cnt": 7, "rnr_retry": 7}


def counters(end):
    """How many packets netem has dropped on one end, to see that it does something."""
    return end.run("tc", "-s", "qdisc", "show", "dev", end.netdev)


@contextlib.contextmanager
def spoiled(fabric, netem):
    """The cable while it misbehaves."""
    ends = (fabric.a, fabric.b)
    for end in ends:
        end.run("tc", "qdisc", "replace", "dev", end.netdev, "root", "netem", "limit", "100000", *netem.split())
    try:
        yield
        check(all("netem" in counters(end) for end in ends), "netem was not there")
    finally:
        for end in ends:
            end.run("tc", "qdisc", "del", "dev", end.netdev, "root")


def exercise(fabric, netem, ends, mtu, **options):
    """Operations both ways at once, each result compared; then both QPs must be as good as before."""
    with spoiled(fabric, netem), pair(*ends, mtu=mtu, **SETTINGS) as (qa, qb):
        workload.exercise(qa, qb, **options)
        check(qa.state == qb.state == STATE.RTS, f"states {qa.state!r} and {qb.state!r}")


def spoil(func, fabric, netem):
    """A test of another suite, run over a bad link."""

    @functools.wraps(func)
    def test(*args):
        with spoiled(fabric, netem):
            func(*args)

    return test


# What C rxe does then; it shows, depending on chance, in whatever has a READ or an atomic in it.
RXE_READS = "completes a READ or atomic by the NAK of a later packet; cannot replay a READ of no bytes"

SENDS = ("send", "send_imm", "write", "write_imm")
READS = ("read", "cmp_swp", "fetch_add")
SMALL = (0, 8, 100)


def register(suite, fabric, name, netem, devices):
    """Add all tests over one bad link."""

    def add(title, family, mtu, rxe_differs=None, **options):
        what = f"{name}: {title}, IPv{family}, MTU {mtu}"
        suite.add(what, exercise, fabric, netem, devices[family], mtu, rxe_differs=rxe_differs, **options)

    add("SEND and WRITE", 4, 1024, kinds=SENDS, repeat=2)
    add("READ and atomics", 4, 1024, RXE_READS, kinds=READS, repeat=2)
    add("all operations", 6, 4096, RXE_READS, repeat=2)
    add("many small SEND and WRITE", 6, 1024, kinds=SENDS, sizes=SMALL, repeat=20, window=32)
    add("many small operations of all kinds", 4, 1024, RXE_READS, sizes=SMALL, repeat=20, window=32)
    for title, func in write_with_imm.TESTS:
        suite.add(f"{name}: write with immediate: {title}", spoil(func, fabric, netem), bad_pair(*devices[4]))


def bad_pair(a, b):
    """The connections that the other suite is to use."""
    return lambda **attr: pair(a, b, **{**SETTINGS, **attr})


def main():
    suite = ktap.Suite("lossy")
    with contextlib.ExitStack() as stack:
        fabric = stack.enter_context(Fabric())
        devices = {f: [stack.enter_context(fabric.open(side, f)) for side in "ab"] for f in (4, 6)}
        for name, netem in LINKS.items():
            register(suite, fabric, name, netem, devices)
        suite.run()


if __name__ == "__main__":
    main()
