#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
# vm: TMO=1200
"""What is counted towards whom: pinned memory, rings, objects; and that all of it is given back."""

import contextlib
import ctypes
import mmap
import os
import pathlib
import resource
import subprocess
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent / "lib"))

import ktap
from children import Child
from ktap import check, check_equal, comment
from mapping import pinned
from pyverbs.cq import CQ
from pyverbs.device import Context
from pyverbs.mr import MR
from pyverbs.pd import PD
from rdma import ACCESS, ALL_ACCESS, Fabric, Remote, eventually, pair, refused

KIB, MIB = 1 << 10, 1 << 20
EAGAIN, ENOMEM = 11, 12

CGROUPS = pathlib.Path("/sys/fs/cgroup")


def pinned_pages():
    """How many pages are pinned in all."""
    # Processors have counts of their own, which are added up now and then, or when this is read.
    pathlib.Path("/proc/sys/vm/stat_refresh").read_bytes()
    counts = dict(line.split() for line in pathlib.Path("/proc/vmstat").read_text().splitlines())
    return int(counts["nr_foll_pin_acquired"]) - int(counts["nr_foll_pin_released"])


def memlock(fabric):
    """A process cannot pin more than it may; what it deregisters it has back."""

    def pins():
        device = fabric.open("a")
        regions = [device.region(400 * KIB) for _ in range(2)]
        with refused(ENOMEM):
            device.region(400 * KIB)
        yield
        regions.pop().close()
        yield
        regions.append(device.region(400 * KIB))
        with refused(ENOMEM):
            device.region(400 * KIB)
        yield

    before = resource.getrlimit(resource.RLIMIT_MEMLOCK)
    resource.setrlimit(resource.RLIMIT_MEMLOCK, (MIB, before[1]))
    try:
        with Child(pins, uid=1000) as child:
            child.step()
            check(800 * KIB <= pinned(child.pid) <= MIB, f"{pinned(child.pid)} bytes are pinned")
            child.step()
            check(400 * KIB <= pinned(child.pid) <= 512 * KIB, f"{pinned(child.pid)} bytes are pinned then")
            child.step()
    finally:
        resource.setrlimit(resource.RLIMIT_MEMLOCK, before)


def nothing_pinned(usual):
    """What processes had pinned that have ended is given back, soon."""
    eventually(lambda: pinned_pages() == usual, "pages are still pinned")


def given_back(fabric, usual):
    """What a process has pinned is unpinned at its end."""

    def pins():
        device = fabric.open("a")
        regions = [device.region(size) for size in (1, 5000, MIB, 8 * MIB)]
        yield
        del regions

    nothing_pinned(usual)
    with Child(pins) as child:
        child.step()
        check(pinned_pages() - usual >= 9 * MIB // 4096, f"only {pinned_pages() - usual} pages are pinned")
    nothing_pinned(usual)


def many_regions(fabric, usual):
    """A process with many regions ends sooner than it could give them up one by one."""
    count = 1000

    def registers():
        device = fabric.open("a")
        regions = [device.region(64) for _ in range(count)]
        yield
        for region in regions:
            region.close()
        yield

    def measure(action):
        began = time.monotonic()
        action()
        return time.monotonic() - began

    with Child(registers) as child:
        child.step()
        one_by_one = measure(child.step)

    def end():
        with Child(registers) as child:
            child.step()
            return measure(child.kill)

    # The machine may have stopped meanwhile, though not each time.
    at_its_end = min(end() for _ in range(3))
    comment(f"{count} regions: {one_by_one:.2f} s one by one, {at_its_end:.2f} s at the end of the process")
    check(at_its_end < one_by_one, "the end of the process waits for each region")
    nothing_pinned(usual)


@contextlib.contextmanager
def control_group(controller):
    """A control group, for what a controller controls."""
    if not (CGROUPS / "cgroup.controllers").exists():
        subprocess.run(["mount", "-t", "cgroup2", "none", CGROUPS], check=True)
    (CGROUPS / "cgroup.subtree_control").write_text(f"+{controller}")
    group = CGROUPS / "rrxe-test"
    group.mkdir()
    try:
        yield group
    finally:
        eventually(lambda: not (group / "cgroup.procs").read_text(), "a process is left in the group")
        group.rmdir()
        (CGROUPS / "cgroup.subtree_control").write_text(f"-{controller}")


def enter(group):
    """Put the calling process into a control group."""
    (group / "cgroup.procs").write_text(str(os.getpid()))


def usage(group, device):
    """What a control group has of a device."""
    lines = [line.split() for line in (group / "rdma.current").read_text().splitlines()]
    found = [dict(item.split("=") for item in items) for name, *items in lines if name == device]
    return {name: int(value) for name, value in found[0].items()} if found else {"hca_handle": 0, "hca_object": 0}


def objects(fabric):
    """The `rdma` controller limits handles and objects; both are given back."""
    device = fabric.a.device

    def uses(group):
        enter(group)
        opened = [Context(name=device) for _ in range(2)]
        with refused(EAGAIN):
            Context(name=device)
        yield
        domains = [PD(opened[0]) for _ in range(5)]
        for make in (lambda: PD(opened[1]), lambda: CQ(opened[1], 16)):
            with refused(EAGAIN):
                make()
        yield
        domains.pop().close()
        domains.append(CQ(opened[1], 16))
        yield

    with control_group("rdma") as group:
        (group / "rdma.max").write_text(f"{device} hca_handle=2 hca_object=5")
        with Child(uses, group) as child:
            child.step()
            check_equal(usage(group, device)["hca_handle"], 2, "handles")
            child.step()
            check_equal(usage(group, device)["hca_object"], 5, "objects")
            child.step()
            check_equal(usage(group, device)["hca_object"], 5, "objects then")
        check_equal(usage(group, device), {"hca_handle": 0, "hca_object": 0}, "what is left")


def rings(fabric):
    """Rings are charged to the memory control group. What it has no room for is refused, and nobody killed."""
    # 64 bytes for each completion.
    entries = 2**16 - 1
    size = 4 * MIB

    def makes(group):
        enter(group)
        device = fabric.open("a")
        yield
        queues = [CQ(device.ctx, entries)]
        yield
        with refused(ENOMEM):
            for _ in range(8):
                queues.append(CQ(device.ctx, entries))
        yield
        while queues:
            queues.pop().close()
        queues.append(CQ(device.ctx, entries))
        yield

    def current(group):
        return int((group / "memory.current").read_text())

    with control_group("memory") as group:
        with Child(makes, group) as child:
            child.step()
            before = current(group)
            child.step()
            # Processors have taken some in advance.
            check(current(group) - before >= size - MIB, f"{current(group) - before} bytes for a ring of {size}")
            # Half a ring is left for the process itself.
            (group / "memory.max").write_text(str(current(group) + 5 * size // 2))
            child.step()
            child.step()
            events = dict(line.split() for line in (group / "memory.events").read_text().splitlines())
            check_equal(events["oom_kill"], "0", "processes killed")
        eventually(lambda: current(group) < size, "the rings are still charged")


def tables(fabric):
    """A region of all the address space: its tables are charged to the process, whoever makes them."""
    stretches, stretch, size = 128, 16 * MIB, 32 * KIB

    def writes(group):
        enter(group)
        a, b = fabric.open("a"), fabric.open("b")
        memory = mmap.mmap(-1, stretches * stretch, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | mmap.MAP_NORESERVE)
        address = ctypes.addressof(ctypes.c_char.from_buffer(memory))
        # What pages cost is charged before.
        for number in range(stretches):
            memory[number * stretch] = 1
        whole = MR(b.pd, stretches * stretch, ALL_ACCESS | ACCESS.ON_DEMAND, address, True)
        source = a.region(8)
        with pair(a, b) as (qa, _):
            yield
            for number in range(stretches):
                qa.write([source.sge()], Remote(address + number * stretch, whole.rkey))
                qa.sent(1)
            yield

    with control_group("memory") as group, Child(writes, group) as child:
        child.step()
        before = int((group / "memory.current").read_text())
        child.step()
        grown = int((group / "memory.current").read_text()) - before
        check(grown >= stretches * size, f"{grown} bytes for {stretches} tables of {size}")


def main():
    suite = ktap.Suite("memory")
    with Fabric() as fabric:
        usual = pinned_pages()
        suite.add("what may be pinned", memlock, fabric)
        suite.add("unpinned at the end", given_back, fabric, usual)
        suite.add("many regions", many_regions, fabric, usual)
        suite.add("handles and objects", objects, fabric)
        suite.add("rings", rings, fabric, rxe_differs="does not charge them")
        suite.add("tables", tables, fabric, rxe_differs="does not charge them")
        suite.run()


if __name__ == "__main__":
    main()
