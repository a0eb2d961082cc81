#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
"""Run rdma-core's tests on a device: rdma_core.py DEVICE EXPECTED [FILTER]...

EXPECTED lists every test in sections:

    [ok]                 has to pass
    [skip: MESSAGE]      has to be skipped, with a message that contains this
    [fail: REASON]       known to fail; has to be moved to another section once it passes

A test that is not listed fails, and so does one that is listed and does not exist.
"""

import pathlib
import sys
import typing
import unittest
from multiprocessing.context import BaseContext
from multiprocessing.process import BaseProcess

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))

import ktap
from ktap import check, patient
from rdma import SOON, RcAttr

DOC = pathlib.Path("/usr/share/doc/rdma-core")


class Outcome(typing.NamedTuple):
    """How a test ended or has to end: ok, skip or fail, and why."""

    kind: str
    why: str = ""


def read_expected(path):
    """The outcome of each test listed in a file."""
    expected, section = {}, None
    for line in pathlib.Path(path).read_text().splitlines():
        if line.startswith("["):
            kind, _, why = line.strip("[]").partition(": ")
            section = Outcome(kind, why)
        elif line and not line.startswith("#"):
            check(line not in expected, f"{path}: {line} is listed twice")
            expected[line] = section
    return expected


def load(device):
    """All tests by name, such that they run on a device."""
    sys.path[:0] = [str(DOC), str(DOC / "tests")]
    arguments, sys.argv = sys.argv, ["rdma_core", "--dev", device]
    from args_parser import parser

    parser.parse_args()
    sys.argv = arguments
    import tests

    loader = unittest.TestLoader()
    suites = [loader.loadTestsFromModule(module) for module in tests.__test_modules__]
    return {test.id().removeprefix("tests."): test for suite in suites for case in suite for test in case}


def be_patient():
    """Have the tests wait as long as a busy machine needs."""
    from tests import base, utils

    utils.POLL_CQ_TIMEOUT = patient(SOON)
    base.TIMEOUT = RcAttr().timeout
    # The processes of a test are given half a minute to end, in steps, and a quarter of one to meet.
    join, barrier = BaseProcess.join, BaseContext.Barrier
    BaseProcess.join = lambda process, timeout=None: join(process, timeout and patient(10 * timeout))
    BaseContext.Barrier = lambda context, parties, timeout: barrier(context, parties, timeout=patient(10 * timeout))


def run(test):
    """Run one; returns its outcome."""
    result = unittest.TestResult()
    test.run(result)
    if bad := result.errors + result.failures:
        return Outcome("fail", bad[0][1])
    if result.skipped:
        return Outcome("skip", result.skipped[0][1])
    return Outcome("ok")


def compare(test, wanted):
    """Run a test and compare its outcome with the one that is listed."""
    got = run(test)
    if got.kind == "fail":
        ktap.comment(got.why)
    if got.kind == "ok" and wanted.kind == "skip":
        ktap.comment(f"passes, although it is listed as [skip: {wanted.why}]")
        return
    check(got.kind == wanted.kind, f"{got.kind} ({got.why.strip().splitlines()[-1:]}), listed as {wanted}")
    if got.kind == "skip":
        check(wanted.why in got.why, f"skipped because of {got.why!r}, listed as {wanted.why!r}")
        raise ktap.Skip(got.why)


def missing():
    """A test that is listed, but not there."""
    raise AssertionError("there is no such test")


def main():
    device, path, *filters = sys.argv[1:]
    sys.argv[1:] = filters
    expected, tests = read_expected(path), load(device)
    be_patient()
    suite = ktap.Suite("rdma-core", limit=600)
    for name in sorted(expected | tests):
        if name in tests:
            suite.add(name, compare, tests[name], expected.get(name, Outcome("ok", "not listed")))
        else:
            suite.add(name, missing)
    suite.run()


if __name__ == "__main__":
    main()
