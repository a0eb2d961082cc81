#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
# vm: TMO=1200
"""Memory that is paged on demand: nothing is pinned, and the process may do with it what it likes."""

import contextlib
import ctypes
import errno
import fcntl
import itertools
import mmap
import os
import pathlib
import select
import struct
import sys
import threading
import time
import warnings

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent / "lib"))

import ktap
import pyverbs.libibverbs_enums as e
import workload
from ktap import check, check_equal
from mapping import PAGE, Mapped, libc
from pyverbs.mr import MR
from rdma import (
    ACCESS,
    ALL_ACCESS,
    MW_TYPE,
    STATUS,
    Device,
    Fabric,
    RcQp,
    Region,
    Remote,
    UcQp,
    eventually,
    expect_none,
    pair,
    poll_for,
    refused,
)

PAGED = ALL_ACCESS | ACCESS.ON_DEMAND
READ, WRITE, NO_FAULT = (
    e._IBV_ADVISE_MR_ADVICE_PREFETCH,
    e._IBV_ADVISE_MR_ADVICE_PREFETCH_WRITE,
    e._IBV_ADVISE_MR_ADVICE_PREFETCH_NO_FAULT,
)
SUPPORT_IMPLICIT = int(e.ibv_odp_general_caps.IBV_ODP_SUPPORT_IMPLICIT)
FLUSH = int(e._IBV_ADVISE_MR_FLAG_FLUSH)
SENDS = ("send", "send_imm", "write", "write_imm")

USERFAULTFD, MEMFD_SECRET = 323, 447
UFFD_EVENT_PAGEFAULT = 0x12
UFFDIO_API, UFFDIO_REGISTER, UFFDIO_ZEROPAGE = 0xC018AA3F, 0xC020AA00, 0xC020AA04


class PagedDevice(Device):
    """A device all of whose regions are paged on demand."""

    def region(self, length, access=PAGED):
        return Region(self, length, access)


class WholeDevice(Device):
    """A device each of whose regions is the whole address space; what it has of it is a part of that."""

    def region(self, length, access=PAGED):
        region = Region.__new__(Region)
        region.mr = MR(self.pd, length, access, implicit=True)
        region.length = length
        region.fill(0)
        return region


class Mapping(Mapped):
    """Mapped memory that is paged on demand."""

    access = PAGED


class WholeMapping(Mapping):
    """Mapped memory that is registered with all the rest of the address space."""

    whole = True


def write(qa, qb, source, target, data, offset=0):
    """WRITE some bytes, and see them there."""
    source.write(data)
    qa.write([source.sge(0, len(data))], target.at(offset))
    qa.sent(1)
    check_equal(target.read(len(data), offset), data, "what was written")


def fail(poster, cq, status):
    """A request that must complete with an error."""
    poster()
    (completion,) = poll_for(cq, 1)
    check_equal(completion.status, status, "status")


def all_operations(a, b, kind, kinds, **options):
    """Every operation, with all memory of both sides paged on demand."""
    with pair(a, b, kind=kind) as (qa, qb):
        workload.exercise(qa, qb, kinds=kinds, **options)


def forking(a, b):
    """A process that forks all the time: its pages are copied under way, and the data goes to its own."""
    stop = threading.Event()

    def fork():
        while not stop.is_set():
            with warnings.catch_warnings(action="ignore"):  # that there are threads
                child = os.fork()
            if child == 0:
                time.sleep(0.01)
                os._exit(0)
            os.waitpid(child, 0)

    thread = threading.Thread(target=fork)
    thread.start()
    try:
        with pair(a, b) as (qa, qb):
            workload.exercise(qa, qb)
    finally:
        stop.set()
        thread.join()


def forgotten(a, b, mapping=Mapping):
    """Pages whose contents the process drops are not used any longer: the new ones are."""
    with pair(a, b) as (qa, qb):
        source, target = mapping(a, 4), mapping(b, 4)
        for round_ in range(20):
            write(qa, qb, source, target, bytes([round_ + 1]) * 3 * PAGE, 100)
            target.forget()
            qa.read([source.sge()], target.at())
            qa.sent(1)
            check_equal(source.read(source.length), bytes(source.length), "what is READ of dropped pages")
            source.forget()


def shared_file(a, b):
    """What is written to a shared mapping of a file is in the file."""
    with pair(a, b) as (qa, qb):
        fd = os.memfd_create("paging")
        os.truncate(fd, 2 * PAGE)
        source, target = Mapping(a, 2), Mapping(b, 2, fd=fd)
        data = os.urandom(PAGE + 1000)
        write(qa, qb, source, target, data, 500)
        check_equal(os.pread(fd, len(data), 500), data, "the file")
        os.pwrite(fd, b"changed", 600)
        qa.read([source.sge(0, 7)], target.at(600))
        qa.sent(1)
        check_equal(source.read(7), b"changed", "what is READ of the file")
        os.close(fd)


def unmapped_remotely(a, b, mapping=Mapping):
    """A WRITE to, and a READ of, memory that is not there any more: access error."""
    for operation in (RcQp.write, RcQp.read):
        with pair(a, b) as (qa, qb):
            source, target = mapping(a, 3), mapping(b, 3)
            write(qa, qb, source, target, b"before", PAGE)
            target.unmap(1)
            fail(lambda: operation(qa, [source.sge(0, 2 * PAGE)], target.at()), qa.send_cq, STATUS.REM_ACCESS_ERR)


def unmapped_locally(a, b, mapping=Mapping):
    """A SEND of, a READ into and a receive into memory that is not there: protection error."""
    with pair(a, b) as (qa, qb):
        source, target = mapping(a, 2), mapping(b, 2)
        source.unmap(1)
        fail(lambda: qa.write([source.sge()], target.at()), qa.send_cq, STATUS.LOC_PROT_ERR)
    with pair(a, b) as (qa, qb):
        source, target = mapping(a, 2), mapping(b, 2)
        source.unmap(1)
        fail(lambda: qa.read([source.sge()], target.at()), qa.send_cq, STATUS.LOC_PROT_ERR)
    with pair(a, b) as (qa, qb):
        source, target = mapping(a, 2), mapping(b, 2)
        target.unmap(1)
        qb.recv([target.sge()])
        fail(lambda: qa.send([source.sge()]), qb.recv_cq, STATUS.LOC_PROT_ERR)


def secret_memory(a, b):
    """Memory that the kernel itself does not see: refused in either direction, and nobody stumbles over it."""
    if ktap.LINK_TYPE == "rxe":
        raise ktap.Skip("the kernel would not survive it")

    def secret(device):
        fd = libc.syscall(MEMFD_SECRET, 0)
        check(fd >= 0, "memfd_secret:", os.strerror(ctypes.get_errno()))
        os.ftruncate(fd, 2 * PAGE)
        return Mapping(device, 2, fd=fd)

    for name in ("write", "read"):
        with pair(a, b) as (qa, qb):
            source, target = secret(a), Mapping(b, 2)
            fail(lambda: getattr(qa, name)([source.sge()], target.at()), qa.send_cq, STATUS.LOC_PROT_ERR)
        with pair(a, b) as (qa, qb):
            source, target = Mapping(a, 2), secret(b)
            fail(lambda: getattr(qa, name)([source.sge()], target.at()), qa.send_cq, STATUS.REM_ACCESS_ERR)


class UserFaults:
    """What provides the pages of memory, by userfaultfd."""

    def __init__(self, memory):
        self.memory = memory
        self.fd = libc.syscall(USERFAULTFD, os.O_CLOEXEC)
        if self.fd < 0 and ctypes.get_errno() == errno.ENOSYS:
            raise ktap.Skip("this kernel has no userfaultfd")
        check(self.fd >= 0, "userfaultfd:", os.strerror(ctypes.get_errno()))
        fcntl.ioctl(self.fd, UFFDIO_API, struct.pack("=3Q", 0xAA, 0, 0))
        fcntl.ioctl(self.fd, UFFDIO_REGISTER, struct.pack("=4Q", memory.address, memory.length, 1, 0))

    def __enter__(self):
        return self

    def __exit__(self, *_):
        os.close(self.fd)

    def asked(self):
        """The page that somebody waits for."""
        check(select.select([self.fd], [], [], ktap.patient(10))[0], "nobody asks for a page")
        event, address = struct.unpack_from("=B15xQ", os.read(self.fd, 32))
        check_equal(event, UFFD_EVENT_PAGEFAULT, "event")
        return (address - self.memory.address) // PAGE

    def put_zeros(self, page):
        """Provide a page."""
        fcntl.ioctl(self.fd, UFFDIO_ZEROPAGE, struct.pack("=4Q", self.memory.address + page * PAGE, PAGE, 0, 0))


def provided_by_user(a, b):
    """Pages that userfaultfd is to provide come when it does; those that are there are not asked for."""
    source, target = Mapping(a, 1), Mapping(b, 2)
    with UserFaults(target) as provider, pair(a, b, timeout=0) as (qa, qb):
        provider.put_zeros(0)
        write(qa, qb, source, target, b"provided")
        qa.write([source.sge(0, 8)], target.at(PAGE))
        check_equal(provider.asked(), 1, "page that is asked for")
        expect_none(qa.send_cq)
        provider.put_zeros(1)
        qa.sent(1)
        check_equal(target.read(8, PAGE), b"provided", "data")


def mapped_again(a, b, mapping=Mapping):
    """Memory that comes back can be used again; the failure was not for ever."""
    source, target = mapping(a, 3), mapping(b, 3)
    for _ in range(3):
        target.unmap(1)
        with pair(a, b) as (qa, qb):
            fail(lambda: qa.write([source.sge()], target.at()), qa.send_cq, STATUS.REM_ACCESS_ERR)
        target.map_again(1)
        with pair(a, b) as (qa, qb):
            write(qa, qb, source, target, os.urandom(2 * PAGE), 300)


def failed_together(a, b):
    """Many that miss a page at once fail once each, and those that go away meanwhile leave nothing behind."""
    source, target = Mapping(a, 32), Mapping(b, 32)

    def crowd(stack):
        pairs = [stack.enter_context(pair(a, b)) for _ in range(8)]
        for qa, _ in pairs:
            qa.write([source.sge()], target.at())
            qa.read([source.sge()], target.at())
        return pairs

    for round_ in range(6):
        memory, status = ((target, STATUS.REM_ACCESS_ERR), (source, STATUS.LOC_PROT_ERR))[round_ % 2]
        memory.unmap(1)
        with contextlib.ExitStack() as stack:
            for qa, _ in crowd(stack)[round_:]:
                check_equal(poll_for(qa.send_cq, 2)[0].status, status, "status of what meets the gap")
        memory.map_again(1)
        with contextlib.ExitStack() as stack:
            for qa, _ in crowd(stack):
                qa.sent(2)


def read_only(a, b):
    """Memory that is mapped for reading only can be read, and not be written to."""
    source, target = Mapping(a, 1), Mapping(b, 1)
    target.write(b"constant")
    check(libc.mprotect(ctypes.c_void_p(target.address), PAGE, mmap.PROT_READ) == 0, "mprotect")
    with pair(a, b) as (qa, qb):
        qa.read([source.sge(0, 8)], target.at())
        qa.sent(1)
        check_equal(source.read(8), b"constant", "what is READ")
        fail(lambda: qa.write([source.sge(0, 8)], target.at()), qa.send_cq, STATUS.REM_ACCESS_ERR)
    with pair(a, b) as (qa, qb):
        qa.read([source.sge(0, 8)], target.at())
        qa.sent(1)


def nothing_pinned(a, b):
    """A large region costs no memory until it is used, and none is locked."""

    def status(field):
        lines = pathlib.Path("/proc/self/status").read_text().splitlines()
        return next(int(line.split()[1]) for line in lines if line.startswith(field + ":"))

    before = status("VmRSS")
    memory = Mapping(b, 65536)  # 256 MiB
    memory.memory.madvise(mmap.MADV_NOHUGEPAGE)
    check_equal(status("VmPin"), 0, "kB pinned")
    check(status("VmRSS") - before < 8192, f"{status('VmRSS') - before} kB came in at the registration")
    with pair(a, b) as (qa, qb):
        source = Mapping(a, 4)
        for offset in range(0, memory.length, memory.length // 16):
            write(qa, qb, source, memory, b"here and there", offset)
    check(status("VmRSS") - before < 16384, f"{status('VmRSS') - before} kB came in")


def advice(a, b, mapping=Mapping):
    """Prefetching brings pages in, and says what is wrong."""
    memory = mapping(b, 16)

    def advise(what, sge, flags=FLUSH):
        b.pd.advise_mr(what, flags, [sge])

    for what in (READ, WRITE, NO_FAULT):
        for flags in (FLUSH, 0):
            advise(what, memory.sge(), flags)
    with refused(errno.EFAULT):
        advise(READ, memory.sge(PAGE, 1 << 31))
    memory.unmap(3)
    for what in (READ, WRITE):
        with refused(errno.EFAULT):
            advise(what, memory.sge())
    advise(NO_FAULT, memory.sge(0, 3 * PAGE))
    constant, pinned = mapping(b, 1, ACCESS.ON_DEMAND | ACCESS.REMOTE_READ), Mapping(b, 1, ALL_ACCESS)
    with refused(errno.EPERM):
        advise(WRITE, constant.sge())
    with refused(errno.EINVAL):
        advise(READ, pinned.sge())


def offers_all(a, _b):
    """The device says that all of an address space can be registered, and huge pages of it cannot."""
    check(a.ctx.query_device_ex().odp_caps.general_caps & SUPPORT_IMPLICIT, "not offered")
    memory = Mapping(a, 1)
    with refused(errno.EINVAL):
        MR(a.pd, PAGE, PAGED | ACCESS.HUGETLB, memory.address, True)


def nowhere(a, b):
    """Addresses where a process has nothing, or cannot have anything."""
    for address in (0, 8, 1 << 40, (1 << 47) - PAGE, 1 << 47, 1 << 56, 0xFFFF888000000000, (1 << 64) - 8):
        with pair(a, b) as (qa, _):
            source, target = Mapping(a, 1), WholeMapping(b, 1)
            place = Remote(address, target.mr.rkey)
            fail(lambda: qa.write([source.sge(0, 8)], place), qa.send_cq, STATUS.REM_ACCESS_ERR)
        with pair(a, b) as (qa, _):
            fail(lambda: qa.read([source.sge(0, 8)], place), qa.send_cq, STATUS.REM_ACCESS_ERR)
    with pair(a, b) as (qa, _):
        here = WholeMapping(a, 1)
        sge = here.sge(0, 8)
        sge.addr = 1 << 40
        fail(lambda: qa.write([sge], target.at()), qa.send_cq, STATUS.LOC_PROT_ERR)


def unreclaimable():
    """Memory that the kernel keeps for itself, in bytes."""
    lines = pathlib.Path("/proc/meminfo").read_text().splitlines()
    return next(int(line.split()[1]) << 10 for line in lines if line.startswith("SUnreclaim:"))


def far_and_wide(a, b):
    """A little here and there in a large address space, and what the kernel has needed for it comes back."""
    stretch, count = 16 << 20, 1100
    with pair(a, b) as (qa, _):
        source, target = Mapping(a, 1), WholeMapping(b, count * stretch // PAGE)
        target.memory.madvise(mmap.MADV_NOHUGEPAGE)
        before = unreclaimable()
        batches = list(itertools.batched(range(1, count + 1), 44))
        for batch in batches:
            for slot, number in enumerate(batch):
                source.set_word(number, 8 * slot)
                qa.write([source.sge(8 * slot, 8)], target.at(number * stretch - 8))
            qa.sent(len(batch))
        check(unreclaimable() - before > 32 << 20, "the kernel needs no memory for that?")
        for batch in batches:
            for slot, number in enumerate(batch):
                qa.read([source.sge(8 * slot, 8)], target.at(number * stretch - 8))
            qa.sent(len(batch))
            words = [source.word(8 * slot) for slot in range(len(batch))]
            check_equal(words, list(batch), "the words at the ends of stretches")
        target.unmap(0, count * stretch // PAGE)
        eventually(lambda: unreclaimable() - before < 16 << 20, "the memory that the kernel needed comes back")
        fail(lambda: qa.read([source.sge(0, 8)], target.at(stretch)), qa.send_cq, STATUS.REM_ACCESS_ERR)


def across_stretches(a, b):
    """A message across the border of two stretches; and the same memory in windows."""
    stretch = 16 << 20
    source, target = Mapping(a, 4), WholeMapping(b, 2 * stretch // PAGE, PAGED | ACCESS.MW_BIND)
    border = -target.address % stretch or stretch
    with pair(a, b) as (qa, qb):
        write(qa, qb, source, target, os.urandom(3 * PAGE), border - PAGE - 100)
        window = b.window(MW_TYPE.TYPE_2)
        window.bind(qb, target, border - PAGE, 2 * PAGE)
        qb.sent(1)
        target.forget()
        source.write(b"through a window")
        at = window.at(target.address + border - 8)
        qa.write([source.sge(0, 16)], at)
        qa.sent(1)
        check_equal(target.read(16, border - 8), b"through a window", "what was written")
        target.unmap(border // PAGE)
        fail(lambda: qa.write([source.sge(0, 16)], at), qa.send_cq, STATUS.REM_ACCESS_ERR)
        window.close()


TESTS = (
    ("pages the process forgets", forgotten, None),
    ("a shared file", shared_file, None),
    ("peers use unmapped memory", unmapped_remotely, "tries again until the peer gives up"),
    ("requests name unmapped memory", unmapped_locally, "tells other errors"),
    ("secret memory", secret_memory, None),
    ("pages that userfaultfd provides", provided_by_user, "tries again until the peer gives up"),
    ("memory unmapped and mapped again", mapped_again, "tries again until the peer gives up"),
    ("memory that may only be read", read_only, "tries again until the peer gives up"),
    ("nothing is pinned", nothing_pinned, None),
    ("prefetch", advice, "other errors"),
)


WHOLE_TESTS = (
    ("pages the process forgets", forgotten),
    ("peers use unmapped memory", unmapped_remotely),
    ("requests name unmapped memory", unmapped_locally),
    ("memory unmapped and mapped again", mapped_again),
    ("prefetch", advice),
)
LACKS = {"rxe_differs": "does not have it"}


def main():
    suite = ktap.Suite("paging")
    with contextlib.ExitStack() as stack:
        fabric = stack.enter_context(Fabric())
        ends = (fabric.a, fabric.b)
        a, b = (stack.enter_context(PagedDevice(end.device, end.ip4)) for end in ends)
        suite.add("all operations of RC", all_operations, a, b, RcQp, workload.KINDS)
        # One packet at a time: what goes on by another processor, when its page has come, may overtake.
        alone = {"sizes": (0, 8, 100, 1000), "window": 1}
        suite.add("all operations of UC", all_operations, a, b, UcQp, SENDS, rxe_differs="has no UC paging", **alone)
        suite.add("a process that forks", forking, a, b)
        suite.add("memory that many miss at once", failed_together, a, b, rxe_differs="tries again until the peer gives up")
        for name, func, differs in TESTS:
            suite.add(name, func, a, b, rxe_differs=differs)
        whole = [stack.enter_context(WholeDevice(end.device, end.ip4)) for end in ends]
        suite.add("all operations of RC on a whole address space", all_operations, *whole, RcQp, workload.KINDS, **LACKS)
        suite.add("a process that forks, registered as a whole", forking, *whole, **LACKS)
        for name, func in WHOLE_TESTS:
            suite.add(f"whole address space: {name}", func, a, b, WholeMapping, **LACKS)
        suite.add("whole address space: offered", offers_all, a, b, **LACKS)
        suite.add("whole address space: nowhere", nowhere, a, b, **LACKS)
        suite.add("whole address space: across stretches", across_stretches, a, b, **LACKS)
        suite.add("whole address space: far and wide", far_and_wide, a, b, **LACKS)
        suite.run()


if __name__ == "__main__":
    main()
