#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
"""A process whose queue pairs wait for pages of a file: see withheld.py.

usage: waiter.py DEVICE ADDRESS DEVICE ADDRESS FILE target|source COUNT

So many queue pairs of the first device WRITE to, or from, a page each. It says when that is posted, and
when all have succeeded.
"""

import contextlib
import ctypes
import mmap
import os
import sys

from pyverbs.mr import MR
from pyverbs.wr import SGE
from rdma import ACCESS, ALL_ACCESS, Device, Remote, pair

APART = 16  # pages


def main():
    """Wait."""
    *ends, path, what, count = sys.argv[1:]
    count = int(count)
    length = count * APART * mmap.PAGESIZE
    memory = mmap.mmap(os.open(path, os.O_RDONLY), length, mmap.MAP_PRIVATE)
    memory.madvise(mmap.MADV_RANDOM)
    address = ctypes.addressof(ctypes.c_char.from_buffer(memory))
    with contextlib.ExitStack() as stack:
        a, b = (stack.enter_context(Device(*end)) for end in (ends[:2], ends[2:]))
        mr = MR((b if what == "target" else a).pd, length, ALL_ACCESS | ACCESS.ON_DEMAND, address)
        other = (a if what == "target" else b).region(8)
        # While a page is withheld the address space cannot change: there has to be room for objects.
        spare = [bytearray(100) for _ in range(20000)]
        del spare[::2]
        # The peer may take as long as it likes.
        pairs = [stack.enter_context(pair(a, b, timeout=0)) for _ in range(count)]
        for number, (qa, _) in enumerate(pairs):
            page = address + number * APART * mmap.PAGESIZE
            if what == "target":
                qa.write([other.sge()], Remote(page, mr.rkey))
            else:
                qa.write([SGE(page, 8, mr.lkey)], other.at())
        print("posted", flush=True)
        for qa, _ in pairs:
            qa.sent(1, 300)
        print("done", flush=True)
        sys.stdin.read()


if __name__ == "__main__":
    main()
