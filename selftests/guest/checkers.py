#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
# vm: KERNEL=debug CHECKS=kasan_multi_shot TMO=480 DMESG_IGNORE=.
"""The kernel's checks are alive, and what they report fails a test: each is given a fault to find.

A module commits the faults (selftests/faulty), one in a suite of its own, which has to fail. Its
log is read as every suite's is; here only, where faults are the point, all lines are excused.
"""

import errno
import os
import pathlib
import re
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE / "lib"))

import faulty
import ktap
from faults import Faults, arm, disarm
from ktap import check, patient

# Each with what the kernel says of it. One of memory or of the order of locks ends the checks
# of locking, so those of contexts come first.
FAULTS = {
    "RCU outside": "suspicious RCU usage",
    "sleep in atomic": "BUG: sleeping function called from invalid context",
    "lock order": "possible circular locking dependency",
    "active timer freed": "ODEBUG: free active .* timer_list",
    "pending work freed": "ODEBUG: free active .* work_struct",
    "list added twice": r"WARNING: lib/list_debug\.c",
    "refcount below zero": "refcount_t:",
    "index out of bounds": "UBSAN: array-index-out-of-bounds in .*faulty/main.c",
    "overwritten redzone": r"BUG faulty \(.*Object corrupt",
    "out of bounds": "KASAN: slab-out-of-bounds in out_of_bounds",
    "use after free": "KASAN: slab-use-after-free in use_after_free",
    "use after free in Rust": "KASAN: slab-use-after-free in .*stale_read",
}


def strictly(*command):
    """Run a command with no line of the kernel's log excused; returns its status and what it printed."""
    environment = {name: value for name, value in os.environ.items() if name != "DMESG_IGNORE"}
    done = subprocess.run(
        command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
        timeout=patient(60), check=False,
    )
    return done.returncode, done.stdout


def noticed(fault, report):
    """A test during which the kernel reports a fault has failed, and says why."""
    status, output = strictly(HERE / "lib/faulty.py", fault)
    check(status == 1 and f"not ok 1 - faulty: {fault}" in output, f"status {status}: {output}")
    check(re.search(report, output), f"no '{report}' in: {output}")


def refused(request, nth, error):
    """What is to be refused is refused, once."""
    Faults("faulty")
    faulty.commit(request)
    arm(nth)
    try:
        faulty.commit(request)
    except OSError as why:
        check(why.errno == error, f"{request}: {why}")
    else:
        raise AssertionError(f"{request}: granted")
    finally:
        disarm()
    faulty.commit(request)


def verdict():
    """At the end of a run leaks are looked for, and a lock checker that is off is a failure."""
    faulty.commit("leak")
    # Of a log that is full of reports only the first lines are shown.
    subprocess.run(["dmesg", "-c"], stdout=subprocess.DEVNULL, check=True)
    status, output = strictly(HERE.parent / "guest-verdict")
    check(status, f"passed: {output}")
    for report in r"kmemleak: \d+ new suspected memory leaks", "lockdep is off", r"\bleak\+0x.* \[faulty\]":
        check(re.search(report, output), f"no '{report}' in: {output}")


def main():
    subprocess.run(["modprobe", "faulty"], check=True)
    suite = ktap.Suite("checkers")
    # First the name is copied, then what it asks for is done.
    suite.add("a copy from user space is refused", refused, "allocate", 1, errno.EFAULT)
    suite.add("memory is refused", refused, "allocate", 2, errno.ENOMEM)
    suite.add("pages are refused", refused, "allocate pages", 2, errno.ENOMEM)
    for fault, report in FAULTS.items():
        suite.add(fault, noticed, fault, report)
    suite.add("the verdict on a run", verdict)
    suite.run()


if __name__ == "__main__":
    main()
