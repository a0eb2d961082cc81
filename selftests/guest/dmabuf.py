#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
# vm: TMO=600
"""Regions of DMA-BUFs: buffers that drivers make, registered by their descriptors."""

import contextlib
import errno
import os
import pathlib
import random
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent / "lib"))

import ktap
import uverbs
import workload
from buffers import BufferDevice, BufferRegion, exists, of_file, of_heap
from children import Child
from ktap import check, check_equal
from mapping import PAGE, Mapped
from rdma import ACCESS, ALL_ACCESS, STATUS, Fabric, Remote, eventually, pair, poll_for, refused
from rdmatool import resource

LOCAL, READ = ACCESS.LOCAL_WRITE, ACCESS.REMOTE_READ
FROM = {"a file in memory": of_file, "the system's heap": of_heap}
METHODS = {"by its own method": uverbs.register_buffer, "by that for any memory": uverbs.register_descriptor}


@contextlib.contextmanager
def buffer(make, length, *options):
    """The descriptor of a buffer, for a while."""
    fd = make(length, *options)
    try:
        yield fd
    finally:
        os.close(fd)


def status_of(a, b, request):
    """How a request ends that is alone on a connection."""
    with pair(a, b) as (qa, _):
        request(qa)
        return poll_for(qa.send_cq, 1)[0].status


def all_operations(fabric, make):
    """Every operation, with all memory of both sides in buffers."""
    with contextlib.ExitStack() as stack:
        a, b = (stack.enter_context(BufferDevice(end.device, end.ip4, make)) for end in (fabric.a, fabric.b))
        qa, qb = stack.enter_context(pair(a, b))
        workload.exercise(qa, qb)


def part(a, b, make, register):
    """The part of a buffer that was registered can be used, to its ends, and nothing around it."""
    offset, length = 2 * PAGE + 100, 3 * PAGE - 300
    here = a.region(length + 1)
    with buffer(make, 8 * PAGE) as fd, contextlib.closing(BufferRegion(b, fd, length, offset, register=register)) as there:
        there.memory[:] = b"\x5a" * len(there.memory)
        check_equal(resource("mr", b, mrlen=length)["memory"], "dma-buf", "memory told")
        wanted = (there.lkey, there.rkey, there.iova, length)
        check_equal(uverbs.query_region(b.ctx, there.handle), wanted, "keys, address and length told")
        data = random.randbytes(length)
        here.write(data)
        with pair(a, b) as (qa, qb):
            qa.write([here.sge(0, length)], there.at())
            qa.sent(1)
            check_equal(there.read(length), data, "what was written")
            here.fill(0)
            qa.read([here.sge(0, length)], there.at())
            qa.sent(1)
            check_equal(here.read(length), data, "what was READ")
            there.set_word(40, 4)
            qa.fetch_add(here.sge(0, 8), there.at(4), 2)
            qa.sent(1)
            check_equal((here.word(), there.word(4)), (40, 42), "words after an atomic")
            qb.recv([there.sge()])
            here.write(data)
            qa.send([here.sge(0, length)])
            qa.sent(1)
            qb.received(1)
            check_equal(there.read(length), data, "what was received")
            qb.send([there.sge(1000, 2000)])
            qa.recv([here.sge()])
            qb.sent(1)
            qa.received(1)
            check_equal(here.read(2000), data[1000:3000], "what was sent")
        for at, size in ((-1, 1), (length, 1), (length - 1, 2), (0, length + 1), (-PAGE, 8)):
            remote = Remote(there.at().addr + at, there.rkey)
            for name in ("write", "read"):
                end = status_of(a, b, lambda qa: getattr(qa, name)([here.sge(0, size)], remote))
                check_equal(end, STATUS.REM_ACCESS_ERR, f"{name} of {size} bytes at {at}")
        around = there.memory[:offset] + there.memory[offset + length :]
        check_equal(around, b"\x5a" * (8 * PAGE - length), "what is around it")
    here.close()


def constant(a, b, make):
    """Without the right to write it is not written to, neither by peers nor for its owner."""
    here = a.region(64)
    with buffer(make, PAGE) as fd, contextlib.closing(BufferRegion(b, fd, PAGE, access=READ)) as there:
        there.write(b"constant")
        check_equal(status_of(a, b, lambda qa: qa.read([here.sge(0, 8)], there.at())), STATUS.SUCCESS, "READ")
        check_equal(here.read(8), b"constant", "what was READ")
        end = status_of(a, b, lambda qa: qa.write([here.sge(8, 8)], there.at()))
        check_equal(end, STATUS.REM_ACCESS_ERR, "WRITE")
        end = status_of(b, a, lambda qb: qb.read([there.sge(0, 8)], here.at(8)))
        check_equal(end, STATUS.LOC_PROT_ERR, "READ into it")
        check_equal(there.read(8), b"constant", "memory")
        with refused(errno.EACCES):
            uverbs.reregister(b.ctx, there.handle, access=ALL_ACCESS)
    here.close()


def descriptors(_, b):
    """The descriptor must be one of a buffer, and open for what is to be done."""
    given = b.ctx, b.pd.handle
    for register in METHODS.values():
        with buffer(os.memfd_create, "no buffer") as fd:
            os.truncate(fd, PAGE)
            with refused(errno.EINVAL):
                register(*given, fd, 0, PAGE, 0, ALL_ACCESS)
        for fd in (1000, -1):
            with refused(errno.EBADF):
                register(*given, fd, 0, PAGE, 0, ALL_ACCESS)
        with buffer(of_heap, PAGE, os.O_RDONLY) as fd:
            for access in (ALL_ACCESS, LOCAL):
                with refused(errno.EACCES):
                    register(*given, fd, 0, PAGE, 0, access)
            register(*given, fd, 0, PAGE, 0, READ).close()
        with buffer(of_heap, PAGE, os.O_WRONLY) as fd, refused(errno.EACCES):
            register(*given, fd, 0, PAGE, 0, LOCAL)


def limits(_, b, make):
    """What is registered must be in the buffer, be something, and have addresses."""
    size, end = 4 * PAGE, 1 << 64
    with buffer(make, size) as fd:
        for register in METHODS.values():
            for offset, length, iova in (
                (0, 0, 0),
                (0, size + 1, 0),
                (PAGE, size, 0),
                (size, 1, 0),
                (size, 0, 0),
                (end - PAGE, 2 * PAGE, 0),
                (PAGE, end - PAGE, 0),
                (PAGE, end - 1, 0),
                (0, 2 * PAGE, end - PAGE),
                (100, PAGE, 0),
                (PAGE, PAGE, 8),
            ):
                with refused(errno.EINVAL):
                    register(b.ctx, b.pd.handle, fd, offset, length, iova, ALL_ACCESS)
            for access in (ACCESS.REMOTE_WRITE, LOCAL | ACCESS.ON_DEMAND, LOCAL | ACCESS.MW_BIND, LOCAL | ACCESS.FLUSH_GLOBAL):
                with refused(errno.EINVAL, errno.EOPNOTSUPP):
                    register(b.ctx, b.pd.handle, fd, 0, PAGE, 0, access)
            with refused(errno.ENOENT):
                register(b.ctx, 0xFFFFFF, fd, 0, PAGE, 0, ALL_ACCESS)
            for offset, length, iova in ((0, size, 0), (size - 1, 1, PAGE - 1), (0, PAGE, end - PAGE)):
                register(b.ctx, b.pd.handle, fd, offset, length, iova, ALL_ACCESS).close()


def gone(inode):
    """A buffer is not there any more, soon."""
    eventually(lambda: not exists(inode), "the buffer is gone")


def outlives(a, b, make):
    """A region keeps its buffer when nobody else does, and gives it up when it is deregistered."""
    fd = make(4 * PAGE)
    inode = os.fstat(fd).st_ino
    first, second = (BufferRegion(b, fd, 4 * PAGE) for _ in range(2))
    for there in (first, second):
        there.memory.close()
    os.close(fd)
    check(exists(inode), "the buffer is gone")
    here = a.region(4 * PAGE)
    for there in (first, second):
        data = random.randbytes(4 * PAGE)
        with pair(a, b) as (qa, _):
            here.write(data)
            qa.write([here.sge()], there.at())
            qa.sent(1)
            here.fill(0)
            qa.read([here.sge()], there.at())
            qa.sent(1)
            check_equal(here.read(4 * PAGE), data, "what was READ back")
        there.close()
        end = status_of(a, b, lambda qa: qa.read([here.sge()], there.at()))
        check_equal(end, STATUS.REM_ACCESS_ERR, "READ when it is deregistered")
    gone(inode)
    here.close()


def dies(fabric, make):
    """A buffer whose only user is killed goes as well."""

    def registers():
        device = fabric.open("b")
        fd = make(4 * PAGE)
        region = BufferRegion(device, fd, 4 * PAGE)
        region.memory.close()
        pathlib.Path("/tmp/inode").write_text(str(os.fstat(fd).st_ino))
        os.close(fd)
        yield

    with Child(registers) as child:
        child.step()
        inode = int(pathlib.Path("/tmp/inode").read_text())
        check(exists(inode), "the buffer is gone")
        child.kill()
    gone(inode)


def registered_anew(a, b, make):
    """Its rights and its memory can be changed as those of any region."""
    here, other = a.region(8), Mapped(b, 1)
    fd = make(PAGE)
    inode = os.fstat(fd).st_ino
    there = BufferRegion(b, fd, PAGE)
    uverbs.reregister(b.ctx, there.handle, access=READ)
    end = status_of(a, b, lambda qa: qa.write([here.sge()], there.at()))
    check_equal(end, STATUS.REM_ACCESS_ERR, "WRITE without the right")
    uverbs.reregister(b.ctx, there.handle, access=ALL_ACCESS)
    here.write(b"anything")
    check_equal(status_of(a, b, lambda qa: qa.write([here.sge()], there.at())), STATUS.SUCCESS, "WRITE")
    check_equal(there.read(8), b"anything", "what was written")
    uverbs.reregister(b.ctx, there.handle, place=(other.address, PAGE, 0))
    at = Remote(0, there.rkey)
    check_equal(status_of(a, b, lambda qa: qa.write([here.sge()], at)), STATUS.SUCCESS, "WRITE to other memory")
    check_equal(other.read(8), b"anything", "what was written")
    there.memory.close()
    os.close(fd)
    gone(inode)
    there.close()
    other.close()


def main():
    suite = ktap.Suite("dmabuf", limit=120)
    with contextlib.ExitStack() as stack:
        fabric = stack.enter_context(Fabric())
        a, b = (stack.enter_context(fabric.open(side)) for side in "ab")
        lacks = {"rxe_differs": "does not have it"}
        for name, make in FROM.items():
            suite.add(f"{name}: all operations", all_operations, fabric, make, **lacks)
            for how, register in METHODS.items():
                suite.add(f"{name}: a part, {how}", part, a, b, make, register, **lacks)
            suite.add(f"{name}: memory that may only be read", constant, a, b, make, **lacks)
            suite.add(f"{name}: limits", limits, a, b, make, **lacks)
            suite.add(f"{name}: the region outlives the descriptor", outlives, a, b, make, **lacks)
            suite.add(f"{name}: the process dies", dies, fabric, make, **lacks)
            suite.add(f"{name}: registered anew", registered_anew, a, b, make, **lacks)
        suite.add("descriptors", descriptors, a, b, **lacks)
        suite.run()


if __name__ == "__main__":
    main()
