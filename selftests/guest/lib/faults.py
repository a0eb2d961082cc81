# SPDX-License-Identifier: GPL-2.0
"""Faults on purpose: what the module asks the kernel for is refused.

Only requests with the module's code on their stack count, whoever makes them there: the
RDMA core as well as the module.  A scenario is a context manager that yields the operation
to try; the operation calls arm() when the faults are to begin, in the thread that is to
meet them.

    faults = Faults("rrxe")
    faults.exhaust(scenario)         refuses one request after the other
    with faults.at_random(percent):  refuses some that are made where nobody can wait: packets
"""

import contextlib
import errno
import gc
import pathlib
import re

from ktap import check
from pyverbs.pyverbs_error import PyverbsRDMAError

KINDS = ("failslab", "fail_page_alloc", "fail_usercopy")
DEBUGFS = pathlib.Path("/sys/kernel/debug")
FAIL_NTH = pathlib.Path("/proc/thread-self/fail-nth")

# More than anything needs.
PLENTY = 1_000_000

SETTINGS = {
    "probability": 0,
    "times": PLENTY,
    "verbose": 0,
    "stacktrace-depth": 32,
    "ignore-gfp-wait": "N",
    "ignore-gfp-highmem": "N",
    "min-order": 0,
}


def text_of(module):
    """Where the code of a module lies."""
    symbols = re.findall(rf"^(\w+) [tT] .*\[{module}\]$", pathlib.Path("/proc/kallsyms").read_text(), re.M)
    addresses = [int(address, 16) for address in symbols]
    return min(addresses), max(addresses) + 1


def arm(nth):
    """Have a request of this thread refused: the nth from now on."""
    FAIL_NTH.write_text(str(nth))


def disarm():
    """Refuse nothing more; returns how many requests were still to come."""
    left = int(FAIL_NTH.read_text())
    arm(0)
    return left


def spread(count, most):
    """The numbers from 1 to `count`, or as many of them as `most`, evenly."""
    step = max(1, -(-count // most))
    return range(1, count + 1, step)


class Faults:
    """What the kernel is told to refuse to a module."""

    def __init__(self, module):
        start, end = text_of(module)
        self.set({**SETTINGS, "require-start": hex(start), "require-end": hex(end)})

    def set(self, settings, kinds=KINDS):
        """Change settings of the kernel, where they exist."""
        for kind in kinds:
            for name, value in settings.items():
                setting = DEBUGFS / kind / name
                if setting.exists():
                    setting.write_text(str(value))

    def met(self):
        """How many faults there were."""
        return sum(PLENTY - int((DEBUGFS / kind / "times").read_text()) for kind in KINDS)

    def attempt(self, scenario, nth):
        """Go through a scenario with one request refused; returns the error, and how many were still to come."""
        left = 0
        with scenario() as operation:
            try:
                operation(lambda: arm(nth))
                error = None
            except (PyverbsRDMAError, OSError) as why:
                error = getattr(why, "error_code", None) or why.errno
            finally:
                left = disarm()
        # What was made before the failure goes away with its last reference.
        gc.collect()
        return error, left

    def exhaust(self, scenario, most):
        """Refuse the requests that an operation makes, one in each run.

        It must fail with ENOMEM or EFAULT, or do what it was to do nevertheless.  Returns how many
        there are, and how many of them were refused: no more than `most`, evenly spread.
        """
        error, left = self.attempt(scenario, PLENTY)
        check(error is None, f"failed without a fault: {error}")
        count = PLENTY - left
        before = self.met()
        for nth in spread(count, most):
            error, _ = self.attempt(scenario, nth)
            check(error in (None, errno.ENOMEM, errno.EFAULT), f"request {nth} refused: {errno.errorcode.get(error, error)}")
        return count, self.met() - before

    @contextlib.contextmanager
    def at_random(self, percent):
        """Some requests for memory are refused which are made where nobody can wait for it."""
        self.set({"probability": percent, "ignore-gfp-wait": "Y"}, ("failslab",))
        try:
            yield
        finally:
            self.set(SETTINGS)
