#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
# vm: TMO=1200 ICOUNT=1
"""Congestion: notifications slow queue pairs down, as much as is needed, and they come back.

Either `tc` marks all that leaves an end as having met congestion, or a slow port does whose queue
marks what has to wait and drops what has no room. The clock counts instructions: what flows get does
not depend on how busy the machine is.
"""

import contextlib
import json
import os
import pathlib
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent / "lib"))

import ktap
from congestion_control import GENTLE, Flow, Settings, marking, speed, speeds
from counters import Watch
from ktap import check, check_equal, patient
from rdma import Fabric, RcQp, UcQp, ack_timeout
from roce import CNP, Bth, Path

MBIT = 100
ROOM = 150  # packets, fewer than the windows of two flows


@contextlib.contextmanager
def slow_port(end):
    """What comes to an end passes a slow port first; yields a function that tells how many packets found no room."""

    def losses():
        return sum(queue["drops"] for queue in json.loads(end.run("tc", "-s", "-j", "qdisc", "show", "dev", "slow")))

    def commands(text):
        for line in text.strip().splitlines():
            end.run(*line.split())

    with contextlib.ExitStack() as stack:
        commands("ip link add slow type ifb")
        stack.callback(commands, "ip link del slow")
        commands(f"""
            ip link set slow up
            tc qdisc add dev slow root handle 1: tbf rate {MBIT}mbit burst 10kb limit 1mb
            tc qdisc add dev slow parent 1:1 codel limit {ROOM} target 900ms interval 1s ecn ce_threshold 2ms
            tc qdisc add dev {end.netdev} clsact
        """)
        stack.callback(commands, f"tc qdisc del dev {end.netdev} clsact")
        commands(f"tc filter add dev {end.netdev} ingress matchall action mirred egress redirect dev slow")
        yield losses


def shares(flows, losses, settled=0.3, measured=0.5):
    """What each flow gets in Mbit/s after a while, and how many packets are lost meanwhile."""
    speeds(flows, settled)
    before = losses()
    found = speeds(flows, measured)
    lost = losses() - before
    for flow in flows:
        flow.finish()
    return found, lost


def shared_port(fabric, ends):
    """With reaction the port is used, shared and does not overflow; without it does."""
    with slow_port(fabric.b) as losses, contextlib.ExitStack() as stack:
        flows = [Flow(stack, ends, mtu=1024, timeout=14) for _ in range(2)]
        with Settings(ends[0], **GENTLE, rp_min_rate=2):
            found, lost = shares(flows, losses)
        ktap.comment(f"{found[0]:.1f} and {found[1]:.1f} of {MBIT} Mbit/s, {lost} lost")
        check(sum(found) > 0.7 * MBIT, f"{found} of {MBIT} Mbit/s")
        check(min(found) > 0.7 * max(found), f"{found}: that is not fair")
        check_equal(lost, 0, "packets lost")
        with Settings(ends[0], rp_enabled=0):
            found, lost = shares(flows, losses)
        ktap.comment(f"without reaction {found[0]:.1f} and {found[1]:.1f}, {lost} lost")
        check(lost > 100, f"{lost} packets are lost without reaction, so this proves nothing")


def recovers(flow, wanted):
    """The flow gets as fast again as it should be."""
    deadline = time.monotonic() + patient(5)
    while (found := speed(flow, 0.2)) < wanted:
        check(time.monotonic() < deadline, f"{found:.0f} Mbit/s, {wanted:.0f} are due")


def slows_down(fabric, ends, kind, operation):
    """As long as all is marked a flow goes down to the lowest rate; then it comes back."""
    end = fabric.b if operation == "read" else fabric.a
    sender = ends[1] if operation == "read" else ends[0]
    with Settings(sender, **GENTLE), contextlib.ExitStack() as stack:
        flow = Flow(stack, ends, kind, operation)
        before = speed(flow, 0.2)
        with marking(end):
            speed(flow, 0.3)
            slow = speed(flow, 1)
        check(4 < slow < before / 10, f"{slow:.1f} Mbit/s while all is marked, {before:.0f} before")
        recovers(flow, before * 0.6)
        flow.finish()
        ktap.comment(f"{before:.0f} Mbit/s, {slow:.1f} while all is marked")


def switched_off_meanwhile(fabric, ends):
    """Who is held back goes on when the administrator says so."""
    with Settings(ends[0], **GENTLE), contextlib.ExitStack() as stack:
        flow = Flow(stack, ends)
        before = speed(flow, 0.2)
        with marking(fabric.a):
            slow = speed(flow, 0.5)
            with Settings(ends[0], rp_enabled=0):
                recovers(flow, before * 0.6)
        check(slow < before / 10, f"{slow:.1f} Mbit/s while all is marked, {before:.0f} before")
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
        before = speed(flow, 0.2)
        at_a = Watch(ends[0])
        with flood(fabric, forged(fabric, flow.qa.qp.qp_num)):
            speed(flow, 0.3)
            slow = speed(flow, 1)
        handled = at_a.moved()["rp_cnp_handled"]
        check(handled > 1000, f"{handled} notifications came, so this proves nothing")
        check(4 < slow < before / 10, f"{slow:.1f} Mbit/s in the flood, {before:.0f} before")
        recovers(flow, before * 0.6)
        flow.finish()
        ktap.comment(f"{before:.0f} Mbit/s, {slow:.1f} in a flood of {handled} notifications")


def main():
    suite = ktap.Suite("rates")
    with contextlib.ExitStack() as stack:
        fabric = stack.enter_context(Fabric())
        ends = [stack.enter_context(fabric.open(side, 4)) for side in "ab"]
        for kind, operation in ((RcQp, "write"), (RcQp, "read"), (UcQp, "write")):
            suite.add(f"all is marked: {kind.TYPE.name[-2:]} {operation}", slows_down, fabric, ends, kind, operation)
        suite.add("switched off meanwhile", switched_off_meanwhile, fabric, ends)
        suite.add("flood of notifications", flood_of_notifications, fabric, ends)
        suite.add("two flows share a slow port", shared_port, fabric, ends)
        suite.run()


if __name__ == "__main__":
    main()
