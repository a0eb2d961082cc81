#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
# vm: TMO=1200
"""A device goes away while a process uses it: nobody waits for the process, and it is told."""

import contextlib
import functools
import os
import pathlib
import subprocess
import sys
import threading
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent / "lib"))

import ktap
from children import Child
from ktap import LINK_TYPE, check, check_equal, comment, patient
from pyverbs.cq import CQ
from pyverbs.pd import PD
from pyverbs.pyverbs_error import PyverbsError
from rdma import EVENT, SOON, Fabric, eventually, pair, refused, shell

EIO = 5

# Regions that the process has beside what its traffic needs.
REGIONS = 1000

PORT_EVENTS = (EVENT.PORT_ERR, EVENT.GID_CHANGE)

MODULE = {"rxe": "rdma_rxe"}.get(LINK_TYPE, LINK_TYPE)


class Traffic:
    """WRITEs without a pause, in a thread, until the device is gone."""

    def __init__(self, a, b):
        self.source, self.target = a.region(1 << 16), b.region(1 << 16)
        self.pair = pair(a, b)
        self.qp, _ = self.pair.__enter__()
        self.done, self.stopped = 0, False
        threading.Thread(target=self.run, daemon=True).start()

    def run(self):
        """What the thread does."""
        try:
            while not self.stopped:
                self.qp.write([self.source.sge()], self.target.at())
                while not self.stopped and not self.qp.send_cq.poll(1)[0]:
                    pass
                self.done += 1
        except PyverbsError:
            pass

    def flows(self):
        """Wait until it has made some progress."""
        before = self.done
        eventually(lambda: self.done >= before + 20, "something is sent")


def uses(fabric):
    """A process that uses both devices; then that of one end goes away."""
    a, b = fabric.open("a"), fabric.open("b")
    regions = [a.region(4096) for _ in range(REGIONS)]
    idle = CQ(a.ctx, 100)
    traffic = Traffic(a, b)
    traffic.flows()
    yield
    # The port may be told of first, as its network device goes.
    event = next(event for event in iter(a.event, None) if event not in PORT_EVENTS)
    check_equal(event, EVENT.DEVICE_FATAL, "event")
    for attempt in (a.ctx.query_device, lambda: PD(a.ctx), lambda: a.region(4096), lambda: traffic.qp.state):
        with refused(EIO):
            attempt()
    # What is mapped is still there.
    check_equal(idle.poll(1)[0], 0, "completions")
    traffic.stopped = True
    with refused(EIO):
        traffic.qp.write([traffic.source.sge()], traffic.target.at())
    yield
    del regions


@contextlib.contextmanager
def put_back():
    """Afterwards all is there again."""
    try:
        yield
    finally:
        shell("fabric_up")


@contextlib.contextmanager
def used_meanwhile(fabric):
    """A process uses the devices, has them open while one goes, and finds out afterwards."""
    with put_back(), Child(uses, fabric) as child:
        child.step()
        yield
        check(os.waitpid(child.pid, os.WNOHANG) == (0, 0), "the process has ended before")
        child.step()


def timed(command):
    """Run a command; returns how long it took, in seconds."""
    began = time.monotonic()
    subprocess.run(command, check=True, timeout=patient(SOON))
    took = time.monotonic() - began
    comment(f"{' '.join(command[:4])}: {took:.2f} s")
    return took


def removed(fabric, command):
    """A command takes the device of an end away, and returns while a process still has it open."""
    with used_meanwhile(fabric):
        took = timed(command)
        eventually(lambda: not pathlib.Path(f"/sys/class/infiniband/{fabric.a.device}").exists(), "the device is gone")
    return took


def unloaded(fabric):
    """The module can be unloaded meanwhile, and the process ends without it."""
    with used_meanwhile(fabric):
        took = timed(["modprobe", "-r", MODULE])
        check(not pathlib.Path(f"/sys/module/{MODULE}").exists(), "the module is still there")
    return took


def removals(fabric):
    """The ways in which a device goes: a name, and what takes the device away."""
    a = fabric.a
    for name, command in {
        "link deleted": ["rdma", "link", "delete", a.device],
        "network device deleted": ["ip", "-n", a.netns, "link", "del", a.netdev],
        "name space deleted": ["ip", "netns", "del", a.netns],
    }.items():
        yield name, functools.partial(removed, fabric, command)
    yield "module unloaded", functools.partial(unloaded, fabric)


def main():
    suite = ktap.Suite("removal")
    with Fabric() as fabric:
        for name, remove in removals(fabric):
            suite.add(name, remove, rxe_differs="waits for the process")
        suite.run()


if __name__ == "__main__":
    main()
