#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
# vm: TMO=900 ICOUNT=1
"""Congestion: two flows share a slow port, whose queue marks what has to wait and drops what has no room.

The clock counts instructions: what flows get does not depend on how busy the machine is.
"""

import contextlib
import json
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent / "lib"))

import ktap
from congestion_control import GENTLE, Flow, Settings, speeds
from ktap import check, check_equal
from rdma import Fabric

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
        flows = [Flow(stack, ends, mtu=1024) for _ in range(2)]
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


def main():
    suite = ktap.Suite("slow port")
    with contextlib.ExitStack() as stack:
        fabric = stack.enter_context(Fabric())
        for family in (4, 6):
            ends = [stack.enter_context(fabric.open(side, family)) for side in "ab"]
            suite.add(f"shared by two flows, IPv{family}", shared_port, fabric, ends, limit=300)
        suite.run()


if __name__ == "__main__":
    main()
