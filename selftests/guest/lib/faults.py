# SPDX-License-Identifier: GPL-2.0
"""Faults on purpose: what the module asks the kernel for is refused.

Only requests with the module's code on their stack count, whoever makes them there: the
RDMA core as well as the module.  A scenario is a context manager that yields the operation
to try; the operation calls arm() when the faults are to begin, in the thread that is to
meet them.

    faults = Faults("rrxe")
    faults.exhaust(scenario)         refuses the first request, then the second, and so on
    with faults.at_random(percent):  refuses some that are made where nobody can wait: packets
"""

import contextlib
import errno
import gc
import pathlib
import re

from ktap import check

KINDS = ("failslab", "fail_page_alloc", "fail_usercopy")
DEBUGFS = pathlib.Path("/sys/kernel/debug")
FAIL_NTH = pathlib.Path("/proc/thread-self/fail-nth")

# More than anything needs.
PLENTY = 1_000_000
MOST_REQUESTS = 400

SETTINGS = {
    "probability": 0,
    "times": PLENTY,
    "verbose": 0,
    "ignore-gfp-wait": "N",
    "ignore-gfp-highmem": "N",
    "min-order": 0,
}


def text_of(module):
    """Where the code of a module lies."""
    symbols = re.findall(rf"^(\w+) [tT] .*\[{module}\]$", pathlib.Path("/proc/kallsyms").read_text(), re.M)
    addresses = [int(address, 16) for address in symbols]
    return min(addresses), max(addresses) + 1


def error_of(operation, *args):
    """The number of the error that an operation ends in, or None."""
    try:
        operation(*args)
    except Exception as why:
        number = getattr(why, "error_code", None) or getattr(why, "errno", None)
        if number is None:
            raise
        return number
    finally:
        FAIL_NTH.write_text("0")
    return None


class Faults:
    """What the kernel is told to refuse to a module.

    The module's code must be among the last `depth` calls of the stack. With few of them less is
    refused to the functions that the module calls, and they call.
    """

    def __init__(self, module, depth=32):
        start, end = text_of(module)
        self.set(
            {**SETTINGS, "stacktrace-depth": depth, "require-start": hex(start), "require-end": hex(end)}
        )

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

    def exhaust(self, scenario, errors=(errno.ENOMEM, errno.EFAULT)):
        """Refuse each request that an operation makes, one in each run; returns how many there are.

        It must fail with one of the errors, or do what it was to do nevertheless.
        """
        for nth in range(1, MOST_REQUESTS):
            before = self.met()
            with scenario() as operation:
                error = error_of(operation, lambda n=nth: FAIL_NTH.write_text(str(n)))
            gc.collect()
            if self.met() == before:
                check(error is None, f"failed without a fault: {error}")
                return nth - 1
            check(error is None or error in errors, f"request {nth} refused: {errno.errorcode.get(error, error)}")
        raise AssertionError(f"more than {MOST_REQUESTS} requests")

    @contextlib.contextmanager
    def at_random(self, percent):
        """Some requests for memory are refused which are made where nobody can wait for it."""
        self.set({"probability": percent, "ignore-gfp-wait": "Y"}, ("failslab",))
        try:
            yield
        finally:
            self.set(SETTINGS)
