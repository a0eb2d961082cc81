#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
"""A suite that must fail: each test has the module faulty.ko commit the fault of its name.

For checkers.py, which sees whether the runner notices. The name must be given in full.
"""

import pathlib
import sys

import ktap

FAULTY = pathlib.Path("/sys/kernel/debug/faulty")


def commit(fault):
    """Have the module do wrong; raises the error that it meets."""
    FAULTY.write_text(fault)


def main():
    suite = ktap.Suite("faulty")
    for fault in sys.argv[1:]:
        suite.add(fault, commit, fault)
    suite.run()


if __name__ == "__main__":
    main()
