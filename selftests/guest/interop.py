#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
# vm: pair TMO=3600 MEM=1024
"""Two machines on a cable, each with a driver of its own: do they understand each other?

LINK_TYPE is the driver of this machine, PEER_TYPE that of the other one (see lib/machine.py).
"""

import contextlib
import itertools
import os
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent / "lib"))

import ktap
import workload
from ktap import check
from machine import Machine, Other
from rdma import STATE, RcQp, UcQp, pair

PEER_TYPE = os.environ.get("PEER_TYPE", "rxe")
CLEAN, LOSSY, EARLY_LOSS = "clean", "loss 1%", "early loss"
# C rxe gives a peer up that stands still for eight timeouts, of 1.1 s.
SETTINGS = {"timeout": 18, "retry_cnt": 7, "rnr_retry": 7}

SENDS = ("send", "send_imm", "write", "write_imm")
READS = ("read",)
ATOMICS = ("cmp_swp", "fetch_add")

CLIENT_LIMIT = 120
ports = itertools.count(20000)

# The packets to each machine that are lost when a stock client runs, and none after them. Some clients
# end without a word when they have got all that they wait for. If the last acknowledgement is lost, nobody
# is there to repeat it, and the other end's last message fails for want of an answer.
EARLY = range(7, 31, 12)


@contextlib.contextmanager
def lossy(machines):
    """The cable while it loses one packet in a hundred, as chance has it."""
    for machine in machines:
        machine.spoil(LOSSY)
    try:
        yield
    finally:
        for machine in machines:
            machine.mend()


@contextlib.contextmanager
def losing_early(machines):
    """The cable while it loses chosen packets."""
    with contextlib.ExitStack() as stack:
        droppers = [stack.enter_context(contextlib.closing(machine.dropper())) for machine in machines]
        for dropper in droppers:
            dropper.lose(EARLY)
        yield
        lost = [dropper.lost for dropper in droppers]
        check(max(lost) == len(EARLY), f"{lost} packets lost, wanted {len(EARLY)}")


LINKS = {CLEAN: contextlib.nullcontext, LOSSY: lossy, EARLY_LOSS: losing_early}


def both(other, kind, test):
    """A test that gets both machines, during which neither kernel may complain."""

    def run(*args, **options):
        with contextlib.closing(other.borrow()) as borrowed:
            machines = {"a": Machine("a", ktap.LINK_TYPE), "b": borrowed.root}
            with LINKS[kind](machines.values()):
                test(machines, *args, **options)
            for machine in machines.values():
                complaints = machine.complaints()
                check(not complaints, complaints)

    return run


def stock_client(machines, client, server, tool, family, *options):
    """A stock client on one machine, its server on the other."""
    port = next(ports)
    serving = machines[server].server(tool, family, port, *options)
    asking = machines[client].client(tool, family, "-p", str(port), *options, machines[server].ip(4))
    outcomes = {"client": asking.outcome(CLIENT_LIMIT), "server": serving.outcome(CLIENT_LIMIT)}
    if any(status for status, _ in outcomes.values()):
        reports = [f"{role}: status {status}\n{output}" for role, (status, output) in outcomes.items()]
        raise AssertionError("\n".join(reports))


def exercise(machines, family, kind, mtu, kinds, **options):
    """Operations both ways at once, each result compared; then both QPs must be as good as before."""
    with machines["a"].open(family) as a:
        b = machines["b"].open(family)
        with pair(a, b, kind=kind, mtu=mtu, **SETTINGS) as (qa, qb):
            workload.exercise(qa, qb, kinds=kinds, **options)
            check(qa.state == qb.state == STATE.RTS, f"states {qa.state!r} and {qb.state!r}")


RC_CLIENTS = (
    ("ibv_rc_pingpong", "-n", "100", "-c"),
    ("ib_send_bw", "-s", "16384", "-n", "30"),
    ("ib_write_bw", "-s", "65536", "-n", "20", "-q", "2"),
    ("ib_write_bw", "-s", "8192", "-n", "50", "--write_with_imm"),
    ("ib_read_bw", "-s", "32768", "-n", "20"),
    ("ib_atomic_bw", "-n", "40", "-A", "FETCH_AND_ADD"),
    ("ib_atomic_lat", "-n", "40", "-A", "CMP_AND_SWAP"),
    ("ib_send_lat", "-s", "64", "-n", "50", "-e"),
)
# Nothing makes good for what is lost.
UC_CLIENTS = (
    ("ibv_uc_pingpong", "-n", "100", "-c"),
    ("ib_send_lat", "-c", "UC", "-s", "4096", "-n", "50"),
    ("ib_write_bw", "-c", "UC", "-s", "8192", "-n", "20", "--write_with_imm"),
)

# A datagram is one packet, of what the port's MTU leaves.
UD_CLIENTS = (
    ("ibv_ud_pingpong", "-n", "100"),
    ("ib_send_lat", "-c", "UD", "-s", "1024", "-n", "50"),
    ("ib_send_bw", "-c", "UD", "-s", "2048", "-n", "30"),
)


def add_clients(suite, other, kind, clients):
    """The stock clients: each as client and as server, with either address family and path MTU."""
    settings = itertools.cycle(itertools.product((4, 6), (1024, 4096)))
    for tool, *options in clients:
        for client, server in ("ab", "ba"):
            for _ in range(2):
                family, mtu = next(settings)
                name = f"{kind}: {tool} {' '.join(options)}, client {client}, IPv{family}, MTU {mtu}"
                suite.add(
                    name, both(other, kind, stock_client), client, server, tool, family, "-m", str(mtu), *options
                )


def add_datagrams(suite, other, clients):
    """The stock clients of datagrams: each as client and as server, with either address family."""
    for tool, *options in clients:
        for (client, server), family in itertools.product(("ab", "ba"), (4, 6)):
            name = f"{CLEAN}: {tool} {' '.join(options)}, client {client}, IPv{family}"
            suite.add(name, both(other, CLEAN, stock_client), client, server, tool, family, *options)


def add_workload(suite, other, kind, qp, kinds, **options):
    """All operations of some kinds in both directions at once."""
    for family, mtu in itertools.product((4, 6), (1024, 4096)):
        name = f"{kind}: {qp.__name__} {' '.join(kinds)}, IPv{family}, MTU {mtu}"
        suite.add(name, both(other, kind, exercise), family, qp, mtu, kinds, **options)


def main():
    Machine("a", ktap.LINK_TYPE).up()
    other = Other("b")
    suite = ktap.Suite(f"interop with {PEER_TYPE}")
    for kind in (CLEAN, EARLY_LOSS):
        add_clients(suite, other, kind, RC_CLIENTS)
    for kind in (CLEAN, LOSSY):
        for kinds in (SENDS, READS, ATOMICS):
            add_workload(suite, other, kind, RcQp, kinds)
    add_clients(suite, other, CLEAN, UC_CLIENTS)
    add_workload(suite, other, CLEAN, UcQp, SENDS)
    add_datagrams(suite, other, UD_CLIENTS)
    suite.run()


if __name__ == "__main__":
    main()
