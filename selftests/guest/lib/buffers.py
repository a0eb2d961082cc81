# SPDX-License-Identifier: GPL-2.0
"""DMA-BUFs, as drivers of the kernel make them from memory, and regions of them."""

import fcntl
import mmap
import os
import pathlib
import struct

import ktap
import uverbs
from mapping import PAGE
from rdma import ALL_ACCESS, Device, Region

UDMABUF_CREATE, DMA_HEAP_ALLOC = 0x40187542, 0xC0184800
ADD_SEALS, SEAL_SHRINK = 1033, 2
MFD_HUGETLB = 4
BUFINFO = pathlib.Path("/sys/kernel/debug/dma_buf/bufinfo")


def opened(path):
    """A device that some kernels have."""
    if not pathlib.Path(path).exists():
        raise ktap.Skip(f"this kernel has no {path}")
    return os.open(path, os.O_RDWR | os.O_CLOEXEC)


def of_file(length, flags=0):
    """A buffer made of a file in memory; returns its descriptor."""
    device = opened("/dev/udmabuf")
    file = os.memfd_create("buffer", os.MFD_ALLOW_SEALING | flags)
    try:
        os.truncate(file, length)
        fcntl.fcntl(file, ADD_SEALS, SEAL_SHRINK)
        return fcntl.ioctl(device, UDMABUF_CREATE, bytearray(struct.pack("<IIQQ", file, 1, 0, length)))
    finally:
        os.close(file)
        os.close(device)


def of_heap(length, mode=os.O_RDWR):
    """A buffer from the system's heap; returns its descriptor."""
    device = opened("/dev/dma_heap/system")
    try:
        call = bytearray(struct.pack("<QIIQ", length, 0, mode | os.O_CLOEXEC, 0))
        fcntl.ioctl(device, DMA_HEAP_ALLOC, call)
        return struct.unpack("<QIIQ", call)[1]
    finally:
        os.close(device)


def exists(inode):
    """Whether the kernel has a buffer with that inode number."""
    if not BUFINFO.exists():
        raise ktap.Skip("this kernel does not list its buffers")
    return any(f"{inode:08}" in line.split() for line in BUFINFO.read_text().splitlines())


class BufferRegion(Region):
    """A registered part of a DMA-BUF. All of that is mapped here as well."""

    def __init__(self, device, fd, length, offset=0, access=ALL_ACCESS, register=uverbs.register_buffer):
        self.fd, self.length, self.offset = fd, length, offset
        self.memory = mmap.mmap(fd, os.lseek(fd, 0, os.SEEK_END))
        # Not the address of anything, but at the same place in a page.
        self.iova = (7 << 40) + offset % PAGE
        self.mr = self
        self.raw = register(device.ctx, device.pd.handle, fd, offset, length, self.iova, access)

    # As a region that is of the user library's has it.

    buf = property(lambda self: self.iova)
    handle = property(lambda self: self.raw.handle)
    lkey = property(lambda self: self.raw.lkey)
    rkey = property(lambda self: self.raw.rkey)

    def write(self, data, offset=0):
        self.memory[self.offset + offset : self.offset + offset + len(data)] = bytes(data)

    def read(self, length, offset=0):
        return self.memory[self.offset + offset : self.offset + offset + length]

    def close(self):
        self.raw.close()


class BufferDevice(Device):
    """A device all of whose regions are in DMA-BUFs."""

    def __init__(self, name, address, make):
        super().__init__(name, address)
        self.make = make

    def region(self, length, access=ALL_ACCESS):
        pages = -(-length // PAGE)
        fd = self.make((pages + 1) * PAGE)
        try:
            return BufferRegion(self, fd, length, 64, access)
        finally:
            os.close(fd)
