#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
"""A process whose queue pairs wait for pages of a file: see withheld.py.

usage: waiter.py DEVICE ADDRESS DEVICE ADDRESS FILE target|source COUNT wait|map|reset|again

So many queue pairs of the first device WRITE to, or from, a page each. It says when that is posted, and
when all have succeeded. With `map` it maps other memory meanwhile, when it reads a line. With `reset` all are reset instead, when it reads a line, and use other memory.
With `again` the last one is reset a thousand times, and waits for its page again each time.
"""

import contextlib
import ctypes
import mmap
import os
import sys

from pyverbs.mr import MR
from pyverbs.wr import SGE
from rdma import ACCESS, ALL_ACCESS, STATE, Device, Region, Remote, pair

APART = 16  # pages
RESETS = 1000


class Writers:
    """Queue pairs that WRITE to, or from, what is paged."""

    def __init__(self, stack, a, b, what, count):
        self.is_target = what == "target"
        self.paged_end, other_end = (b, a) if self.is_target else (a, b)
        self.other = other_end.region(8)
        # The peer may take as long as it likes.
        self.pairs = [stack.enter_context(pair(a, b, timeout=0)) for _ in range(count)]

    def write(self, number, address, mr):
        """Have one write."""
        qa, _ = self.pairs[number]
        if self.is_target:
            qa.write([self.other.sge()], Remote(address, mr.rkey))
        else:
            qa.write([SGE(address, 8, mr.lkey)], self.other.at())

    def finish(self):
        """Wait until all have written."""
        for qa, _ in self.pairs:
            qa.sent(1, 300)

    def reset(self, number):
        """Have one begin anew."""
        qa, qb = self.pairs[number]
        for qp in (qa, qb):
            qp.go(STATE.RESET)
        qa.connect(qb.peer)
        qb.connect(qa.peer)


def main():
    """Wait."""
    *ends, path, what, count, then = sys.argv[1:]
    count = int(count)
    length = count * APART * mmap.PAGESIZE
    memory = mmap.mmap(os.open(path, os.O_RDONLY), length, mmap.MAP_PRIVATE)
    memory.madvise(mmap.MADV_RANDOM)
    address = ctypes.addressof(ctypes.c_char.from_buffer(memory))
    pages = [address + number * APART * mmap.PAGESIZE for number in range(count)]
    with contextlib.ExitStack() as stack:
        a, b = (stack.enter_context(Device(*end)) for end in (ends[:2], ends[2:]))
        writers = Writers(stack, a, b, what, count)
        mr = MR(writers.paged_end.pd, length, ALL_ACCESS | ACCESS.ON_DEMAND, address)
        there = Region(writers.paged_end, count * mmap.PAGESIZE, ALL_ACCESS | ACCESS.ON_DEMAND)
        for number, page in enumerate(pages):
            writers.write(number, page, mr)
        print("posted", flush=True)
        if then != "wait":
            sys.stdin.readline()
        if then == "map":
            mmap.mmap(-1, 100 * mmap.PAGESIZE).close()
            print("mapped", flush=True)
        if then == "again":
            for _ in range(RESETS):
                writers.reset(count - 1)
                writers.write(count - 1, pages[-1], mr)
        if then == "reset":
            for number in range(count):
                writers.reset(number)
                writers.write(number, there.at(number * mmap.PAGESIZE).addr, there.mr)
        if then != "again":
            writers.finish()
        print("done", flush=True)
        sys.stdin.read()


if __name__ == "__main__":
    main()
