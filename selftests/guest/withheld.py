#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
# vm: TMO=1800
"""Pages that user space does not give out: who waits for them can end, and nobody else waits."""

import contextlib
import mmap
import os
import pathlib
import subprocess
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent / "lib"))

import ktap
from ktap import check, check_equal, patient
from rdma import ACCESS, ALL_ACCESS, SOON, Fabric, Region, eventually, pair
from waiter import RESETS
from withholding import Withholding

WAITER = pathlib.Path(__file__).resolve().parent / "lib/waiter.py"
KHUGEPAGED = pathlib.Path("/sys/kernel/mm/transparent_hugepage/khugepaged")
AT_A_TIME = 8  # pages that come in at a time for a process
SIDES = ("target", "source")


class Waiter:
    """A process of which so many queue pairs wait for pages, and do what `then` says."""

    def __init__(self, fabric, file, what, count=1, then="wait"):
        ends = [word for end in (fabric.a, fabric.b) for word in (end.device, end.ip4)]
        self.process = subprocess.Popen(
            [sys.executable, WAITER, *ends, file.path, what, str(count), then],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
        )
        self.says("posted")

    def says(self, line):
        """Wait until it says that."""
        check_equal(self.process.stdout.readline().strip(), line, "what the process says")

    def go_on(self):
        """Have it not wait any more."""
        self.process.stdin.write("\n")
        self.process.stdin.flush()

    def kill(self):
        """Have it end, and wait for that."""
        self.process.kill()
        self.process.wait(patient(SOON))

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.kill()
        self.process.stdin.close()
        self.process.stdout.close()


def comes_at_last(what):
    """A page that is given out at last: what waits for it goes on."""
    with Withholding(16) as file, Fabric() as fabric, Waiter(fabric, file, what) as waiter:
        file.await_pages(1)
        time.sleep(0.5)  # many times what was between two looks for it
        file.give_out()
        waiter.says("done")


def process_maps(what):
    """A process that waits for a page can change its address space."""
    with Withholding(16) as file, Fabric() as fabric, Waiter(fabric, file, what, then="map") as waiter:
        file.await_pages(1)
        waiter.go_on()
        waiter.says("mapped")
        file.give_out()
        waiter.says("done")


def refused_at_last(what):
    """A page that its file system refuses at last: what waits for it fails."""
    with Fabric() as fabric, contextlib.ExitStack() as stack:
        with Withholding(16) as file:
            waiter = stack.enter_context(Waiter(fabric, file, what))
            file.await_pages(1)
        said = waiter.process.stdout.read()
        check({"target": "REM_ACCESS_ERR", "source": "LOC_PROT_ERR"}[what] in said, "what it says:", said)


def process_ends(what):
    """A process that waits for a page is killed: it is gone; what it had is, too, when the page has come."""

    def nothing_is_left():
        lines = subprocess.run(["rdma", "resource"], capture_output=True, text=True, check=True).stdout.splitlines()
        return len(lines) == 2 and all("mr 0" in line and "ctx 0" in line for line in lines)

    with Withholding(16) as file, Fabric() as fabric:
        with Waiter(fabric, file, what) as waiter:
            file.await_pages(1)
            waiter.kill()
        check(not file.says_more(), "more pages were asked for")
        file.give_out()
        eventually(nothing_is_left, "all that it had is gone")


def device_goes(what):
    """Devices, netdevs and namespaces go while somebody waits; the module is in use until the page comes."""
    with contextlib.ExitStack() as stack:
        file = stack.enter_context(Withholding(16))
        with Fabric() as fabric:
            waiter = stack.enter_context(Waiter(fabric, file, what))
            file.await_pages(1)
        check(not os.listdir("/sys/class/infiniband"), "a device is left")
        check(waiter.process.poll() is None, "the process has ended")
        module = ktap.LINK_TYPE
        unload = ["rmmod", module]
        refused = subprocess.run(unload, capture_output=True, text=True, check=False)
        check(refused.returncode != 0 and "in use" in refused.stderr, "rmmod:", refused.stderr)
        waiter.kill()
        file.give_out()
        eventually(lambda: subprocess.run(unload, capture_output=True, check=False).returncode == 0, "rmmod")
        subprocess.run(["modprobe", module], check=True)


def a_few_at_a_time():
    """A process has a few threads wait for its pages, and no more; others do not wait for them."""
    count = 3 * AT_A_TIME
    with Withholding(16 * count) as file, Fabric() as fabric, Waiter(fabric, file, "target", count) as waiter:
        file.await_pages(AT_A_TIME)
        with fabric.open("a") as a, fabric.open("b") as b, pair(a, b) as (qa, _):
            source, target = (Region(end, 64 * mmap.PAGESIZE, ALL_ACCESS | ACCESS.ON_DEMAND) for end in (a, b))
            for page in range(64):
                target.mr.write(b"\0", 1, page * mmap.PAGESIZE)
                qa.write([source.sge(0, 8)], target.at(page * mmap.PAGESIZE))
                qa.sent(1)
        check(not file.says_more(), f"more than {AT_A_TIME} pages were asked for at a time")
        file.give_out()
        waiter.says("done")


def reset_meanwhile(what):
    """A queue pair that is reset while its page is withheld: it goes on with other pages."""
    with Withholding(16) as file, Fabric() as fabric, Waiter(fabric, file, what, then="reset") as waiter:
        file.await_pages(1)
        waiter.go_on()
        waiter.says("done")
        file.give_out()


def accounted_objects():
    """Small objects of the kernel that are charged to somebody."""
    lines = pathlib.Path("/proc/slabinfo").read_text(encoding="ascii").splitlines()
    return sum(int(line.split()[1]) for line in lines if line.startswith("kmalloc-cg-"))


def resets_leave_nothing():
    """A queue pair that waits behind withheld pages, and is reset again and again: it waits once at a time."""
    count = AT_A_TIME + 1
    with (
        Withholding(16 * count) as file, Fabric() as fabric,
        Waiter(fabric, file, "source", count, then="again") as waiter,
    ):
        file.await_pages(AT_A_TIME)
        before = accounted_objects()
        waiter.go_on()
        waiter.says("done")
        left = accounted_objects() - before
        check(left < RESETS // 2, f"{left} objects are left of {RESETS} resets")
        file.give_out()


def main():
    # It goes round all processes and wants to change their address spaces: nothing is to keep it from that.
    if KHUGEPAGED.exists():
        (KHUGEPAGED / "scan_sleep_millisecs").write_text("50")
    suite = ktap.Suite("withheld pages")
    lacks = {"rxe_differs": "waits in the softirq"}
    for what in SIDES:
        suite.add(f"{what}: comes at last", comes_at_last, what, **lacks)
        suite.add(f"{what}: the process maps memory", process_maps, what, **lacks)
        suite.add(f"{what}: refused at last", refused_at_last, what, **lacks)
        suite.add(f"{what}: the process ends", process_ends, what, **lacks)
        suite.add(f"{what}: the device goes", device_goes, what, **lacks)
        suite.add(f"{what}: reset meanwhile", reset_meanwhile, what, **lacks)
    suite.add("a few at a time", a_few_at_a_time, **lacks)
    suite.add("resets leave nothing behind", resets_leave_nothing, **lacks)
    suite.run()


if __name__ == "__main__":
    main()
