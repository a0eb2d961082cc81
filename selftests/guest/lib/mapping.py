# SPDX-License-Identifier: GPL-2.0
"""Regions of memory that was mapped for them."""

import ctypes
import mmap
import pathlib

from ktap import check
from pyverbs.mr import MR
from rdma import ALL_ACCESS, Region

PAGE = mmap.PAGESIZE

libc = ctypes.CDLL(None, use_errno=True)


def address_of(memory):
    """Where memory is mapped."""
    return ctypes.addressof(ctypes.c_char.from_buffer(memory))


def pinned(pid):
    """Bytes that a process has pinned."""
    status = pathlib.Path(f"/proc/{pid}/status").read_text()
    return next(int(line.split()[1]) << 10 for line in status.splitlines() if line.startswith("VmPin:"))


class Mapped(Region):
    """Registered memory that was mapped for it, and that can be unmapped and mapped again."""

    access = ALL_ACCESS
    whole = False

    def __init__(self, device, pages, access=None, fd=-1, flags=None):
        self.length = pages * PAGE
        if flags is None:
            flags = mmap.MAP_SHARED if fd >= 0 else mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | mmap.MAP_NORESERVE
        self.memory = mmap.mmap(fd, self.length, flags)
        self.address = address_of(self.memory)
        self.mr = MR(device.pd, self.length, self.access if access is None else access, self.address, self.whole)

    def forget(self):
        """Have the contents of all pages dropped."""
        self.memory.madvise(mmap.MADV_DONTNEED)

    def unmap(self, page, count=1):
        """Take pages out of the address space."""
        start, length = ctypes.c_void_p(self.address + page * PAGE), ctypes.c_size_t(count * PAGE)
        check(libc.munmap(start, length) == 0, "munmap")

    def map_again(self, page):
        """Put a fresh page there."""
        address = self.address + page * PAGE
        flags = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | 0x10  # MAP_FIXED
        libc.mmap.restype = ctypes.c_void_p
        got = libc.mmap(ctypes.c_void_p(address), PAGE, mmap.PROT_READ | mmap.PROT_WRITE, flags, -1, 0)
        check(got == address, "mmap at a fixed address")
