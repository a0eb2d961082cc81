#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
# vm: manual
"""What the second machine of a pair runs: peer.py LINK_TYPE (see lib/machine.py)."""

import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent / "lib"))

from machine import Machine

machine = Machine("b", sys.argv[1])
machine.up()
machine.lend()
