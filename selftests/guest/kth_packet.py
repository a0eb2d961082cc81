#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
# vm: TMO=1200
"""Each packet of an operation is lost once, of the requests and of what answers them: the operation
completes, once, with the right data, and little but what was lost is sent again."""

import contextlib
import pathlib
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent / "lib"))

import ktap
import operations as op
from counters import Watch
from ktap import check, check_equal
from operations import RIGHTS, SEVERAL, WHOLE, Scene
from rdma import STATE, ExRcQp, Fabric, ack_timeout, on_one_processor, pair

MTU = 1024
LENGTH = 3000  # three packets
# 8.6 s, so that nothing is sent again because the machine is slow. A peer that is silent for a sixteenth
# of that is reminded.
SETTINGS = {"timeout": ack_timeout(21), "retry_cnt": 7, "mtu": MTU, "access": RIGHTS}
# Packets sent again at most: the one that was lost, and the reminders of one timeout.
MOST_AGAIN = 1 + 3
NOTHING = range(0)
# What must not be counted, however packets are lost.
BAD = {"retry_exceeded_err", "retry_rnr_exceeded_err", "rcvd_rnr_err", "send_rnr_err", "rx_malformed", "rx_icrc_errors"}


def three(function, *args):
    """Three of an operation of one packet, at once."""
    return lambda scene: [function(scene, *args) for _ in range(3)]


def one(function):
    """One operation of three packets."""
    return lambda scene: [function(scene, LENGTH, SEVERAL)]


# What is posted, its requests, and what answers them, in packets.
OPERATIONS = {
    "SEND": (one(op.send), 3, 1),
    "SEND with immediate": (one(op.send_imm), 3, 1),
    "SEND with invalidate": (one(op.send_inv), 3, 1),
    "WRITE": (one(op.write), 3, 1),
    "WRITE with immediate": (one(op.write_imm), 3, 1),
    "READ": (one(op.read), 1, 3),
    "three FETCH & ADD": (three(op.fetch_add, WHOLE), 3, 3),
    "three CMP & SWAP": (three(op.cmp_swp, WHOLE), 3, 3),
    "three FLUSHes": (three(op.flush, LENGTH), 3, 3),
    "three ATOMIC WRITEs": (three(op.atomic_write), 3, 3),
}


class Cable:
    """What loses packets on their way to either end."""

    def __init__(self, fabric):
        self.to_a, self.to_b = fabric.a.dropper(), fabric.b.dropper()

    def lose(self, dropper, number):
        """Lose one packet, counted from now on, of those to one end."""
        self.be_quiet()
        for each in (self.to_a, self.to_b):
            each.lose(range(number, number + 1) if each is dropper else NOTHING)

    def be_quiet(self):
        """Wait until nothing is on its way any more: a processor that stops delays one look, not several."""
        seen = []
        while len(seen) < 6 or len(set(seen[-6:])) > 1:
            time.sleep(0.01)
            seen.append((self.to_a.seen, self.to_b.seen))

    def close(self):
        """Lose nothing any more."""
        self.to_a.close()
        self.to_b.close()


def lose_each(ends, cable, name):
    """Run an operation once for each of its packets, without that packet."""
    post, requests, answers = OPERATIONS[name]
    with contextlib.ExitStack() as stack:
        stack.enter_context(on_one_processor())
        qa, qb = stack.enter_context(pair(*ends, kind=ExRcQp, **SETTINGS))
        scene = stack.enter_context(contextlib.closing(Scene(qa, qb, 32768)))
        watches = [Watch(end) for end in ends]
        losses = [(cable.to_b, "request", k) for k in range(1, requests + 1)]
        losses += [(cable.to_a, "answer", k) for k in range(1, answers + 1)]
        for dropper, kind, k in losses:
            cable.lose(dropper, k)
            scene.finish(post(scene), f"without {kind} {k}")
            check_equal(dropper.lost, 1, f"{kind} {k}: packets lost")
            again = cable.to_b.seen - requests
            check(1 <= again <= MOST_AGAIN, f"{kind} {k} lost: {again} packets sent again")
        scene.nothing_more()
        check_equal((qa.state, qb.state), (STATE.RTS, STATE.RTS), "states")
        for watch in watches:
            check(not BAD & watch.moved().keys(), f"counted on {watch.device.name}: {watch.moved()}")


def main():
    suite = ktap.Suite("k-th packet")
    with contextlib.ExitStack() as stack:
        fabric = stack.enter_context(Fabric())
        for end in (fabric.a, fabric.b):
            end.run("ethtool", "-K", end.netdev, "tx-udp-segmentation", "off")
        cable = stack.enter_context(contextlib.closing(Cable(fabric)))
        for family in (4, 6):
            ends = [stack.enter_context(fabric.open(side, family)) for side in "ab"]
            for name in OPERATIONS:
                suite.add(f"IPv{family}: {name}", lose_each, ends, cable, name)
        suite.run()


if __name__ == "__main__":
    main()
