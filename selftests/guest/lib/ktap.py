# SPDX-License-Identifier: GPL-2.0
"""A small KTAP runner: each test is a function that raises when it fails.

A suite prints its plan first, one result line for each test, the reason for each
failure, and exits non-zero if a test failed.  After each test the kernel's log is
read: a test during which the kernel complained has failed, whatever it returned.

Arguments of a suite select tests: only those are run whose name contains one of them.

Where all is slow, as on a kernel with all its checks, the environment's PATIENCE is what
time limits are multiplied with: each must go through patient().
"""

import os
import pathlib
import signal
import subprocess
import sys
import time
import traceback

LINK_TYPE = os.environ.get("LINK_TYPE", "rrxe")

PATIENCE = int(os.environ.get("PATIENCE", "1"))

# Seconds that each test has, or more: it is for tests that hang, and not for those on a busy machine.
LIMIT = 300

HERE = pathlib.Path(__file__).resolve().parent

# The one list of what a sound kernel never prints (beside the suites in the guest).
DMESG_CHECK = next(
    (p for p in (HERE.parents[1] / "dmesg-check", HERE.parents[2] / "scripts/dmesg-check") if p.exists()), None
)


class Skip(Exception):
    """The test does not apply here."""


class TimeLimit(Exception):
    """The test ran into its time limit."""


def patient(seconds):
    """A time limit as long as this machine and kernel need it."""
    return seconds * PATIENCE


def check(condition, *what):
    """Fail the running test with the given explanation unless the condition holds."""
    if not condition:
        raise AssertionError(" ".join(str(w) for w in what))


def check_equal(got, wanted, what):
    """Fail the running test unless two values are the same."""
    check(got == wanted, f"{what}: got {got!r}, wanted {wanted!r}")


class KernelLog:
    """What the kernel has logged since this object was made."""

    def __init__(self):
        self.fd = os.open("/dev/kmsg", os.O_RDONLY | os.O_NONBLOCK)
        os.lseek(self.fd, 0, os.SEEK_END)

    def lines(self):
        """The new lines; each is returned once."""
        found = []
        while True:
            try:
                record = os.read(self.fd, 8192).decode(errors="replace")
            except BlockingIOError:
                return found
            except BrokenPipeError:  # overwritten before it was read: go on with the next
                continue
            found.append(record.split(";", 1)[-1].splitlines()[0])

    def complaints(self):
        """What a sound kernel would not have printed among the new lines."""
        lines = self.lines()
        if not lines:
            return ""
        checked = subprocess.run([DMESG_CHECK, "-"], input="\n".join(lines), capture_output=True, text=True, check=False)
        return "" if checked.returncode == 0 else checked.stdout + checked.stderr


def comment(text):
    """Print a diagnostic."""
    for line in str(text).splitlines():
        print(f"# {line}", flush=True)


def bail_out(kind, why, trace):
    """Give the whole suite up: what goes wrong outside of a test."""
    comment("".join(traceback.format_exception(kind, why, trace)))
    print(f"Bail out! {kind.__name__}: {str(why).splitlines()[-1] if str(why) else ''}", flush=True)


sys.excepthook = bail_out


class Test:
    """A named function with its arguments, time limit and expectations."""

    def __init__(self, name, func, args, kwargs, limit, rxe_differs):
        self.name, self.func, self.args, self.kwargs = name, func, args, kwargs
        self.limit = patient(max(limit, LIMIT))
        # Why C rxe is known to fail this test; counts only when it is what is tested.
        self.expected = rxe_differs if LINK_TYPE == "rxe" else None

    def run(self):
        """Run it; returns (ok, directive)."""
        log = KernelLog()
        signal.signal(signal.SIGALRM, self.expire)
        signal.alarm(self.limit)
        try:
            self.func(*self.args, **self.kwargs)
            ok, directive = True, ""
        except Skip as why:
            ok, directive = True, f" # SKIP {why}"
        except (Exception, SystemExit) as why:  # whatever it is, it is a failure
            ok, directive = False, ""
            comment(f"{type(why).__name__}: {why}")
            if not isinstance(why, AssertionError):
                comment(traceback.format_exc())
        finally:
            signal.alarm(0)
        if complaints := log.complaints():
            ok, directive = False, ""
            comment(complaints)
        if not ok and self.expected:
            ok, directive = True, f" # XFAIL {self.expected}"
        return ok, directive

    def expire(self, *_):
        raise TimeLimit(f"not finished after {self.limit} s")


class Suite:
    """A list of tests."""

    def __init__(self, name, limit=LIMIT):
        self.name, self.limit, self.tests = name, limit, []

    def add(self, name, func, *args, limit=None, rxe_differs=None, **kwargs):
        """Add one test."""
        self.tests.append(Test(name, func, args, kwargs, limit or self.limit, rxe_differs))

    def run(self):
        """Run all tests and exit."""
        started = time.monotonic()
        wanted = sys.argv[1:]
        tests = [t for t in self.tests if not wanted or any(w in t.name for w in wanted)]
        counts = {"passed": 0, "failed": 0, "skipped": 0, "expected": 0}
        print("TAP version 13")
        print(f"1..{len(tests)}", flush=True)
        for number, test in enumerate(tests, 1):
            began = time.monotonic()
            ok, directive = test.run()
            kind = "failed" if not ok else "passed"
            kind = {" # SKI": "skipped", " # XFA": "expected"}.get(directive[:6], kind)
            counts[kind] += 1
            took = f" ({time.monotonic() - began:.1f} s)"
            print(f"{'ok' if ok else 'not ok'} {number} - {self.name}: {test.name}{directive or took}", flush=True)
        comment(
            f"{self.name} on {LINK_TYPE}: {counts['passed']} passed, {counts['failed']} failed,"
            f" {counts['skipped']} skipped, {counts['expected']} expected to differ,"
            f" {time.monotonic() - started:.0f} s"
        )
        sys.exit(1 if counts["failed"] or not tests else 0)
