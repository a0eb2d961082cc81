#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
"""Make and destroy every kind of object, many times: churn.py DEVICE ADDRESS ROUNDS

Half of the rounds close nothing, so that the kernel has to clean up.
"""

import os
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))

import workload
from pyverbs.addr import AH
from rdma import Device, pair


def use(device):
    """Some of everything."""
    with pair(device, device) as (qa, qb):
        AH(device.pd, attr=qa.path_to(device.gid)).close()
        workload.exercise(qa, qb, sizes=(64, 5000))


def main(name, address, rounds):
    for number in range(int(rounds)):
        child = os.fork()
        if child == 0:
            device = Device(name, address)
            use(device)
            regions = [device.region(1 << 20) for _ in range(4)]
            if number % 2:
                for region in regions:
                    region.close()
                device.close()
            os._exit(0)
        _, status = os.waitpid(child, 0)
        if status:
            sys.exit(f"round {number}: status {status}")


main(*sys.argv[1:])
