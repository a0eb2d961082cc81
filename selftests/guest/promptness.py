#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
# vm: TMO=600 ICOUNT=1
"""A device goes within a second while a process uses it, by the clock of instructions.

Whether it goes as it should, on several processors as well, is what removal.py is about.
"""

import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent / "lib"))

import ktap
from ktap import check
from rdma import Fabric
from removal import removals

LIMIT = 1.0


def within_limit(remove):
    """A way to take a device away, and how long it takes."""
    took = remove()
    check(took < LIMIT, f"{took:.2f} s")


def main():
    suite = ktap.Suite("promptness", limit=120)
    with Fabric() as fabric:
        for name, remove in removals(fabric):
            suite.add(name, within_limit, remove, rxe_differs="waits for the process")
        suite.run()


if __name__ == "__main__":
    main()
