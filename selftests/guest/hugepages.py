#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
# vm: TMO=600
"""Regions in huge pages: explicit ones, such as the kernel makes by itself, and such as are paged on demand."""

import contextlib
import gc
import mmap
import os
import pathlib
import random
import re
import struct
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent / "lib"))

import ktap
import workload
from buffers import MFD_HUGETLB, BufferRegion, of_file
from ktap import check, check_equal
from machine import eventually
from mapping import PAGE, Mapped, address_of
from pyverbs.mr import MR
from rdma import ACCESS, ALL_ACCESS, STATUS, Device, Fabric, Region, ack_timeout, pair, poll_for
from rdmatool import resource

HUGE = 2 << 20
POOL = 16  # huge pages
SIZE = 2  # of a region, in huge pages
MAP_HUGETLB = 0x40000
MADV_HUGEPAGE, MADV_COLLAPSE = 14, 25
PAGED = ALL_ACCESS | ACCESS.ON_DEMAND | ACCESS.HUGETLB
VM = pathlib.Path("/proc/sys/vm")


def explicit(device, pages=SIZE, access=ALL_ACCESS):
    """A region of huge pages that belong to no file."""
    flags = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | MAP_HUGETLB
    return Mapped(device, pages * HUGE // PAGE, access, -1, flags)


def of_a_file(device, pages=SIZE, access=ALL_ACCESS):
    """A region of huge pages of a file."""
    file = os.memfd_create("huge", MFD_HUGETLB)
    try:
        os.truncate(file, pages * HUGE)
        return Mapped(device, pages * HUGE // PAGE, access, file)
    finally:
        os.close(file)


class Transparent(Region):
    """A region of memory that the kernel has put into huge pages."""

    def __init__(self, device, pages=SIZE, access=ALL_ACCESS):
        self.length = pages * HUGE
        self.memory = mmap.mmap(-1, self.length + HUGE, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
        skip = -address_of(self.memory) % HUGE
        self.address = address_of(self.memory) + skip
        self.memory.madvise(MADV_HUGEPAGE, skip, self.length)
        self.memory[skip : skip + self.length] = bytes(self.length)
        eventually(lambda: self.collapse(skip), "the kernel makes no huge pages of it", 60)
        self.mr = MR(device.pd, self.length, access, self.address)

    def collapse(self, skip):
        """Have it put into huge pages; tells whether all of it is."""
        with contextlib.suppress(OSError):
            self.memory.madvise(MADV_COLLAPSE, skip, self.length)
        return self.huge() >= self.length

    def huge(self):
        """How many bytes of the mapping are in huge pages."""
        maps = pathlib.Path("/proc/self/smaps").read_text()
        for entry in re.split(r"^(?=[0-9a-f]+-[0-9a-f]+ )", maps, flags=re.MULTILINE)[1:]:
            first, last = (int(bound, 16) for bound in entry.split(maxsplit=1)[0].split("-"))
            if first <= self.address < last:
                return int(re.search(r"AnonHugePages: +(\d+) kB", entry)[1]) << 10
        return 0


class HugeDevice(Device):
    """A device all of whose regions are at the end of huge pages."""

    def region(self, length, access=ALL_ACCESS):
        pages = -(-length // HUGE)
        region = explicit(self, pages, access)
        region.mr.close()
        region.mr = MR(self.pd, length, access, region.address + pages * HUGE - length)
        region.length = length
        return region


def frames(region):
    """The numbers of the physical pages of a region, in order."""
    first, last = region.mr.buf // PAGE, (region.mr.buf + region.length - 1) // PAGE
    with open("/proc/self/pagemap", "rb") as pagemap:
        pagemap.seek(8 * first)
        entries = struct.unpack(f"<{last - first + 1}Q", pagemap.read(8 * (last - first + 1)))
    check(all(entry >> 63 for entry in entries), "a page of the region is not there")
    return [entry % (1 << 55) for entry in entries]


def stretches(numbers):
    """How many stretches of successive numbers there are."""
    return 1 + sum(after != before + 1 for before, after in zip(numbers, numbers[1:]))


def extents(device, region):
    """Of how many extents a region is."""
    return resource("mr", device, mrlen=region.length)["extents"]


def exchange(a, b, here, there, offset, length):
    """WRITE, READ, SEND and an atomic between the same places of two regions, compared."""
    with pair(a, b, mtu=4096, timeout=ack_timeout(15)) as (qa, qb):
        data = random.randbytes(length)
        here.write(data, offset)
        qa.write([here.sge(offset, length)], there.at(offset))
        qa.sent(1, 60)
        check_equal(there.read(length, offset) == data, True, "what was written is there")
        here.fill(0, length, offset)
        qa.read([here.sge(offset, length)], there.at(offset))
        qa.sent(1, 60)
        check_equal(here.read(length, offset) == data, True, "what was READ is there")
        qa.recv([here.sge(offset, length)])
        there.write(data[::-1], offset)
        qb.send([there.sge(offset, length)])
        qb.sent(1, 60)
        qa.received(1, 60)
        check_equal(here.read(length, offset) == data[::-1], True, "what was sent is there")
        word = -(-offset // 8) * 8
        there.set_word(40, word)
        qa.fetch_add(here.sge(word, 8), there.at(word), 2)
        qa.sent(1, 60)
        check_equal((here.word(word), there.word(word)), (40, 42), "words after an atomic")


def everywhere(a, b, here, there):
    """That within a huge page, at the borders of two, at the ends, and with all there is."""
    length = here.length
    for offset, part in ((0, 100), (12345, 70000), (HUGE - 1000, 3000), (length - 5000, 5000), (0, length)):
        exchange(a, b, here, there, offset, part)


def contiguous(a, b, make):
    """Memory in huge pages: used as a whole, each stretch of contiguous memory as one."""
    here, there = make(a), make(b)
    for device, region in ((a, here), (b, there)):
        found = extents(device, region)
        check_equal(found, stretches(frames(region)), "extents, by the numbers of the pages")
        check(found <= SIZE, f"{found} extents of {SIZE} huge pages")
    everywhere(a, b, here, there)
    here.close()
    there.close()


def scattered(a, _):
    """Small pages: as many extents as there are stretches, and one for a part of a page."""
    memory = mmap.mmap(-1, 256 * PAGE, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    memory.madvise(mmap.MADV_NOHUGEPAGE)
    # Not in their order, to have them apart.
    pages = list(range(256))
    random.shuffle(pages)
    for page in pages:
        memory[page * PAGE] = 1
    for first, length in ((0, 256 * PAGE), (PAGE - 10, 100 * PAGE + 20), (300, 77)):
        region = Region.__new__(Region)
        region.length = length
        region.mr = MR(a.pd, length, ALL_ACCESS, address_of(memory) + first)
        check_equal(extents(a, region), stretches(frames(region)), f"extents of {length} bytes")
        region.close()


def all_operations(fabric):
    """Every operation, with all memory of both sides in huge pages."""
    with contextlib.ExitStack() as stack:
        a, b = (stack.enter_context(HugeDevice(end.device, end.ip4)) for end in (fabric.a, fabric.b))
        qa, qb = stack.enter_context(pair(a, b, timeout=ack_timeout(15)))
        workload.exercise(qa, qb)


def paged(a, b):
    """Huge pages that are paged on demand: they come as such, go, and come again."""
    here, there = explicit(a, SIZE, PAGED), explicit(b, SIZE, PAGED)
    everywhere(a, b, here, there)
    there.forget()
    with pair(a, b) as (qa, _):
        here.fill(0xFF)
        qa.read([here.sge()], there.at())
        qa.sent(1, 60)
        check_equal(here.read(here.length) == bytes(here.length), True, "pages that were dropped are zero")
    everywhere(a, b, here, there)
    for region in (here, there):
        region.mr.close()
    # A part that begins and ends within pages.
    first, length = HUGE - 3 * PAGE - 104, PAGE * 8
    for device, region in ((a, here), (b, there)):
        region.mr, region.length = MR(device.pd, length, PAGED, region.address + first), length
    for offset, part in ((0, 16), (length - 16, 16), (3 * PAGE, 200), (0, length)):
        exchange(a, b, here, there, offset, part)
    here.close()
    there.close()


def not_huge(a, b):
    """Who says that there are huge pages, where there are none, gets an access error and no harm."""
    here, there = a.region(64), Mapped(b, 1024, PAGED)
    there.memory.madvise(mmap.MADV_NOHUGEPAGE)
    there.write(b"small")
    with pair(a, b) as (qa, _):
        qa.read([here.sge()], there.at())
        check_equal(poll_for(qa.send_cq, 1)[0].status, STATUS.REM_ACCESS_ERR, "status")
    here.close()
    there.close()


def buffer(a, b):
    """A DMA-BUF that is made of huge pages."""
    fd = of_file(2 * HUGE, MFD_HUGETLB)
    here, there = a.region(2 * HUGE - 304), BufferRegion(b, fd, 2 * HUGE - 304, 104)
    for offset, length in ((0, 100), (HUGE - 1000, 3000), (0, here.length)):
        exchange(a, b, here, there, offset, length)
    for region in (here, there):
        region.close()
    there.memory.close()
    os.close(fd)


def fill_pool():
    """Have the kernel put huge pages aside; tells whether it has as many."""
    (VM / "compact_memory").write_text("1")
    (VM / "nr_hugepages").write_text(str(POOL))
    return int((VM / "nr_hugepages").read_text()) == POOL


def given_back(test, *args):
    """After the test all huge pages are free again."""
    test(*args)
    gc.collect()

    def free():
        counts = dict(re.findall(r"^(HugePages_\w+): +(\d+)", pathlib.Path("/proc/meminfo").read_text(), re.MULTILINE))
        return int(counts["HugePages_Free"]) == POOL

    eventually(free, "huge pages are still in use", 60)


def main():
    suite = ktap.Suite("hugepages", limit=180)
    eventually(fill_pool, "there are not enough huge pages", 60)
    with contextlib.ExitStack() as stack:
        fabric = stack.enter_context(Fabric())
        a, b = (stack.enter_context(fabric.open(side)) for side in "ab")
        tells_nothing = {"rxe_differs": "tells nothing of extents"}
        suite.add("explicit", given_back, contiguous, a, b, explicit, **tells_nothing)
        suite.add("explicit, of a file", given_back, contiguous, a, b, of_a_file, **tells_nothing)
        suite.add("transparent", contiguous, a, b, Transparent, **tells_nothing)
        suite.add("small pages", scattered, a, b, **tells_nothing)
        suite.add("all operations", given_back, all_operations, fabric)
        suite.add("paged on demand", given_back, paged, a, b, rxe_differs="brings in no huge pages")
        suite.add("paged on demand, and not huge", not_huge, a, b, rxe_differs="tries again until the peer gives up")
        suite.add("a buffer of a driver", given_back, buffer, a, b, rxe_differs="has none")
        suite.run()


if __name__ == "__main__":
    main()
