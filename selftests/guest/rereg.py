#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
# vm: TMO=900
"""Regions that are registered anew: with other rights, for another protection domain, of other memory."""

import concurrent.futures
import contextlib
import copy
import errno
import itertools
import mmap
import os
import pathlib
import sys
import threading

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent / "lib"))

import ktap
import workload
from ktap import check, check_equal
from mapping import PAGE, Mapped, address_of, pinned
from pyverbs.pd import PD
from rdma import (
    ACCESS,
    ALL_ACCESS,
    MW_TYPE,
    SOON,
    STATUS,
    Device,
    Fabric,
    Region,
    Remote,
    pair,
    poll_for,
    refused,
)
from rdmatool import number, resource
from uverbs import CHANGE_ACCESS, CHANGE_PD, CHANGE_RANGE, RawPd, reregister

LOCAL, READ, WRITE, ATOMIC, BIND, ON_DEMAND = (
    ACCESS.LOCAL_WRITE,
    ACCESS.REMOTE_READ,
    ACCESS.REMOTE_WRITE,
    ACCESS.REMOTE_ATOMIC,
    ACCESS.MW_BIND,
    ACCESS.ON_DEMAND,
)
REMOTE = (READ, WRITE, ATOMIC)
NO_RANGE = {"rxe_differs": "changes no memory"}


def anew(device, region, **change):
    """Register a region anew. Its keys stay."""
    keys = reregister(device.ctx, region.mr.handle, **change)
    check_equal(keys, (region.mr.lkey, region.mr.rkey), "keys")


def status_of(a, b, request):
    """How a request ends that is alone on a connection."""
    with pair(a, b) as (qa, _):
        request(qa)
        return poll_for(qa.send_cq, 1)[0].status


def write_status(a, b, at, length=8):
    """How a WRITE to the second device ends."""
    with contextlib.closing(a.region(length)) as here:
        return status_of(a, b, lambda qa: qa.write([here.sge()], at))


def usable(a, b, at):
    """The rights that a peer has to memory of the second device, found by trying."""
    with contextlib.closing(a.region(8)) as here:
        requests = {
            READ: lambda qa: qa.read([here.sge()], at),
            WRITE: lambda qa: qa.write([here.sge()], at),
            ATOMIC: lambda qa: qa.fetch_add(here.sge(), at, 1),
        }
        ends = {right: status_of(a, b, request) for right, request in requests.items()}
    check(set(ends.values()) <= {STATUS.SUCCESS, STATUS.REM_ACCESS_ERR}, "statuses:", ends)
    return {right for right, end in ends.items() if end == STATUS.SUCCESS}


def everything(mapped):
    """The whole of mapped memory, called by its addresses."""
    return mapped.address, mapped.length, mapped.address


def rights(a, b):
    """Rights are given and taken away, one by one and together."""
    there = b.region(64)
    for access in (READ, LOCAL | WRITE, LOCAL | ATOMIC, 0, LOCAL, LOCAL | READ | WRITE, ALL_ACCESS):
        anew(b, there, access=access)
        check_equal(usable(a, b, there.at()), {r for r in REMOTE if r & access}, f"usable with {access!r}")
    there.close()


def local_rights(a, b):
    """So is the right of its owner to have it written to."""
    here, there = a.region(64), b.region(64)
    for access, wanted in ((0, STATUS.LOC_PROT_ERR), (LOCAL, STATUS.SUCCESS), (READ, STATUS.LOC_PROT_ERR)):
        anew(a, here, access=access)
        check_equal(status_of(a, b, lambda qa: qa.read([here.sge()], there.at())), wanted, f"READ with {access!r}")
        check_equal(status_of(a, b, lambda qa: qa.write([here.sge()], there.at())), STATUS.SUCCESS, "WRITE")
    here.close()
    there.close()


def constant(a, b):
    """Memory that was pinned to be read may be somebody else's: no right to write comes to it as it is."""
    file = os.memfd_create("constant")
    os.write(file, bytes(PAGE))
    there = Mapped(b, 1, READ, file, mmap.MAP_PRIVATE)
    for access in (LOCAL, ALL_ACCESS, READ | BIND):
        with refused(errno.EACCES):
            anew(b, there, access=access)
        check_equal(usable(a, b, there.at()), {READ}, f"usable after {access!r} was refused")
    anew(b, there, access=0)
    anew(b, there, access=READ)
    check_equal(usable(a, b, there.at()), {READ}, "usable then")
    anew(b, there, access=ALL_ACCESS, place=everything(there))
    check_equal(usable(a, b, there.at()), set(REMOTE), "usable when it was pinned to be written to")
    check(there.memory[:8] != bytes(8), "the memory of the process was not written to")
    check_equal(os.pread(file, PAGE, 0), bytes(PAGE), "the file")
    there.close()
    os.close(file)


def domains(a, b):
    """A region that belongs to another protection domain is that one's, and not the former's."""
    other = copy.copy(b)
    other.pd = PD(b.ctx)
    there = b.region(64)
    for owner, stranger in ((other, b), (b, other)):
        anew(b, there, pd=owner.pd.handle)
        check_equal(usable(a, owner, there.at()), set(REMOTE), "usable by its own")
        check_equal(usable(a, stranger, there.at()), set(), "usable by the other")
        with contextlib.closing(a.region(64)) as here:
            for end, wanted in ((owner, STATUS.SUCCESS), (stranger, STATUS.LOC_PROT_ERR)):
                check_equal(status_of(end, a, lambda qp: qp.write([there.sge()], here.at())), wanted, "WRITE of it")
    anew(b, there, pd=other.pd.handle, access=LOCAL | READ)
    check_equal(usable(a, other, there.at()), {READ}, "usable after both have changed")
    there.close()
    other.pd.close()


def domains_in_use(_, b):
    """The new protection domain is in use, the former one is not."""
    first, second = RawPd(b.ctx), RawPd(b.ctx)
    there = b.region(64)
    anew(b, there, pd=first.handle)
    anew(b, there, pd=first.handle)
    with refused(errno.EBUSY):
        first.close()
    anew(b, there, pd=second.handle, access=LOCAL)
    first.close()
    with refused(errno.EBUSY):
        second.close()
    there.close()
    second.close()


def moved(a, b):
    """A region gets other memory, of any size and called as one likes; the former one is given back."""
    first, second = Mapped(b, 2), Mapped(b, 5, LOCAL)
    second.close()
    before = pinned(os.getpid())
    name = 0x7F_1234_5678_9000
    for start, pages, called in ((second, 5, second.address), (second, 3, name), (first, 1, 0), (first, 2, name)):
        anew(b, first, place=(start.address, pages * PAGE, called))
        check_equal(pinned(os.getpid()), before + (pages - 2) * PAGE, "bytes pinned")
        told = resource("mr", b, mrlen=pages * PAGE)
        # The tool shows no more of it in JSON.
        check_equal(number(told["iova"]) % (1 << 32), called % (1 << 32), "address told")
        for offset, wanted in ((0, STATUS.SUCCESS), (pages * PAGE - 8, STATUS.SUCCESS), (pages * PAGE - 4, STATUS.REM_ACCESS_ERR)):
            start.memory[:] = bytes(start.length)
            end = status_of(a, b, lambda qa: write(qa, a, b"anything", Remote(called + offset, first.mr.rkey)))
            check_equal(end, wanted, f"WRITE to {pages} pages at {offset}")
            place = bytes(start.memory[offset : offset + 8])
            check(end != STATUS.SUCCESS or place == b"anything", "what was written is", place)
    first.close()
    check_equal(pinned(os.getpid()), before - 2 * PAGE, "bytes pinned in the end")


def write(qa, device, data, at):
    """Post a WRITE of some bytes. What they are written from lives as long as the device."""
    here = device.region(len(data))
    here.write(data)
    qa.write([here.sge()], at)


def no_such_memory(a, b):
    """Memory that cannot be registered is no change."""
    there, gone = Mapped(b, 1), mmap.mmap(-1, 2 * PAGE)
    address = address_of(gone)
    places = {
        errno.EINVAL: ((address, 0, address), (address + 8, PAGE, address), (address, 2 * PAGE, (1 << 64) - PAGE)),
        errno.EFAULT: ((0, PAGE, 0), (1 << 56, PAGE, 1 << 56)),
    }
    for number_, bad in places.items():
        for start, length, called in bad:
            with refused(number_):
                anew(b, there, place=(start, length, called))
    check_equal(usable(a, b, there.at()), set(REMOTE), "usable")
    there.close()


def windowed(a, b, kind):
    """As long as a window is bound to it, a region is registered anew by nobody."""
    there, window = b.region(64, ALL_ACCESS | BIND), b.window(kind)
    with pair(a, b) as (_, qb):
        window.bind(qb, there)
        qb.sent(1)
        for change in ({"access": READ}, {"pd": RawPd(b.ctx).handle}, {"place": (there.mr.buf, 64, there.mr.buf)}):
            with refused(errno.EBUSY):
                anew(b, there, **change)
        check_equal(usable(a, b, there.at()), set(REMOTE), "usable")
        if kind == MW_TYPE.TYPE_1:
            window.bind(qb, there, length=0)
        else:
            qb.local_inv(window.key)
        qb.sent(1)
        anew(b, there, access=LOCAL | BIND)
        check_equal(usable(a, b, there.at()), set(), "usable")
        window.close()
    window = b.window(kind)
    with pair(a, b) as (qa, qb):
        window.bind(qb, there)
        qb.sent(1)
        write(qa, a, b"windowed", window.at(there.mr.buf))
        qa.sent(1)
        check_equal(there.read(8), b"windowed", "what was written")
        with refused(errno.EBUSY):
            anew(b, there, access=ALL_ACCESS)
    window.close()
    there.close()


def paged(a, b):
    """Memory that is paged on demand: rights and domain change; how it is there only with the memory."""
    there = Mapped(b, 2, ALL_ACCESS | ON_DEMAND)
    anew(b, there, access=READ | ON_DEMAND)
    check_equal(usable(a, b, there.at()), {READ}, "usable")
    anew(b, there, access=ALL_ACCESS | ON_DEMAND)
    check_equal(usable(a, b, there.at()), set(REMOTE), "usable")
    with refused(errno.EOPNOTSUPP):
        anew(b, there, access=ALL_ACCESS)
    before = pinned(os.getpid())
    anew(b, there, access=ALL_ACCESS, place=everything(there))
    check_equal(pinned(os.getpid()), before + 2 * PAGE, "bytes pinned")
    check_equal(usable(a, b, there.at()), set(REMOTE), "usable")
    with refused(errno.EOPNOTSUPP):
        anew(b, there, access=ALL_ACCESS | ON_DEMAND)
    anew(b, there, access=READ | ON_DEMAND, place=everything(there))
    check_equal(pinned(os.getpid()), before, "bytes pinned")
    with refused(errno.EACCES):
        anew(b, there, access=ALL_ACCESS | ON_DEMAND)
    check_equal(usable(a, b, there.at()), {READ}, "usable")
    # All that the process has.
    anew(b, there, access=ALL_ACCESS | ON_DEMAND, place=(0, (1 << 64) - 1, 0))
    elsewhere = mmap.mmap(-1, PAGE)
    check_equal(usable(a, b, Remote(address_of(elsewhere), there.mr.rkey)), set(REMOTE), "usable elsewhere")
    anew(b, there, access=READ | ON_DEMAND)
    check_equal(usable(a, b, Remote(address_of(elsewhere), there.mr.rkey)), {READ}, "usable elsewhere")
    anew(b, there, place=everything(there))
    check_equal(usable(a, b, Remote(address_of(elsewhere), there.mr.rkey)), set(), "usable elsewhere")
    check_equal(usable(a, b, there.at()), {READ}, "usable")
    there.close()


def nonsense(a, b):
    """What cannot be is refused, and changes nothing."""
    there = b.region(64, LOCAL | READ)
    handle, nobody = there.mr.handle, 0xFFFFFF
    for number_, change in (
        (errno.EINVAL, {}),
        (errno.EOPNOTSUPP, {"flags": 8, "access": 0}),
        (errno.EINVAL, {"access": WRITE}),
        (errno.EINVAL, {"access": 1 << 30}),
        (errno.EOPNOTSUPP, {"access": LOCAL | ACCESS.ZERO_BASED}),
        (errno.EINVAL, {"access": LOCAL | ACCESS.FLUSH_PERSISTENT}),
        (errno.ENOENT, {"access": ALL_ACCESS, "pd": nobody}),
        (errno.EINVAL, {"access": ALL_ACCESS, "place": (0, 0, 0)}),
        (errno.EOPNOTSUPP, {"access": LOCAL | ACCESS.ZERO_BASED, "place": (there.mr.buf, 64, there.mr.buf)}),
    ):
        with refused(number_):
            reregister(b.ctx, handle, **change)
        check_equal(usable(a, b, there.at()), {READ}, f"usable after {change}")
    for flags in (CHANGE_ACCESS, CHANGE_PD, CHANGE_RANGE):
        with refused(errno.ENOENT):
            reregister(b.ctx, nobody, flags=flags)
    there.close()


class Writer(threading.Thread):
    """WRITEs to every part of memory, one after the other, until that is refused."""

    def __init__(self, qa, at, length):
        super().__init__(daemon=True)
        self.qa, self.at, self.length = qa, at, length
        self.here = qa.device.region(length)
        self.written, self.status = 0, None
        self.running = threading.Semaphore(0)

    def run(self):
        for turn in itertools.count(1):
            self.here.fill(turn % 256)
            self.qa.write([self.here.sge()], self.at)
            (done,) = poll_for(self.qa.send_cq, 1)
            if done.status != STATUS.SUCCESS:
                self.status = done.status
                break
            self.written += 1
            self.running.release()

    def refused_after(self, change):
        """Have something changed while it runs; returns what `change` returns."""
        self.start()
        for _ in range(3):
            check(self.running.acquire(timeout=ktap.patient(SOON)), "nothing is written")
        result = change()
        self.join(ktap.patient(SOON))
        check(not self.is_alive(), "it is still written to")
        check_equal(self.status, STATUS.REM_ACCESS_ERR, f"status after {self.written} WRITEs")
        return result


def taken_away(a, b, change):
    """When the call returns nothing more is written to memory that is not to be written to any more."""
    there = Mapped(b, 16)
    for _ in range(5):
        anew(b, there, access=ALL_ACCESS, pd=b.pd.handle)
        with pair(a, b) as (qa, _):
            writer = Writer(qa, there.at(), there.length)

            def take_away():
                change(b, there)
                return bytes(there.memory)

            then = writer.refused_after(take_away)
            check_equal(bytes(there.memory) == then, True, "memory is as it was when the call returned")
    there.close()


def without_right(b, there):
    """Take the right to write away."""
    anew(b, there, access=LOCAL | READ)


def without_domain(b, there):
    """Take it away from the protection domain of the connection."""
    anew(b, there, pd=RawPd(b.ctx).handle)


def without_memory(a, b):
    """When the call returns nothing more is written to the former memory."""
    for _ in range(5):
        there, other = Mapped(b, 16), mmap.mmap(-1, PAGE)
        with pair(a, b) as (qa, _):
            writer = Writer(qa, there.at(), there.length)

            def move():
                anew(b, there, place=(address_of(other), PAGE, 0))
                return bytes(there.memory)

            then = writer.refused_after(move)
            check_equal(bytes(there.memory) == then, True, "memory is as it was when the call returned")
        check_equal(bytes(other), bytes(PAGE), "the other memory")
        there.close()


class Churned(Region):
    """A region that somebody registers anew all the time, until it is closed."""

    def __init__(self, device, length, access):
        super().__init__(device, length, access)
        self.device, self.access = device, access
        with device.lock:
            device.regions.append(self)

    def close(self):
        with self.device.lock:
            self.device.regions.remove(self)
        super().close()


class ChurningDevice(Device):
    """A device whose regions are registered anew all the time."""

    def __init__(self, *where):
        super().__init__(*where)
        self.lock, self.regions = threading.Lock(), []

    def region(self, length, access=ALL_ACCESS):
        return Churned(self, length, access)


def churn(device, stop):
    """Register the regions of a device anew until it is told to stop; returns how often that was done."""
    changes = itertools.cycle(
        (
            lambda region: {"access": region.access | BIND},
            lambda region: {"access": region.access},
            lambda region: {"place": (region.mr.buf, region.length, region.mr.buf)},
        )
    )
    times = 0
    while not stop.is_set():
        change = next(changes)
        with device.lock:
            for region in device.regions:
                anew(device, region, **change(region))
                times += 1
    return times


def unnoticed(a, b):
    """Traffic does not notice that its regions are registered anew with what it needs."""
    stop = threading.Event()
    with concurrent.futures.ThreadPoolExecutor() as pool, pair(a, b) as (qa, qb):
        churning = [pool.submit(churn, device, stop) for device in (a, b)]
        try:
            workload.exercise(qa, qb)
        finally:
            stop.set()
        times = [work.result() for work in churning]
    ktap.comment(f"{times} times")
    check(min(times) > 0, "nothing was registered anew")


def main():
    suite = ktap.Suite("rereg", limit=120)
    with contextlib.ExitStack() as stack:
        fabric = stack.enter_context(Fabric())
        a, b = (stack.enter_context(fabric.open(side)) for side in "ab")
        suite.add("rights of peers", rights, a, b)
        suite.add("rights of its owner", local_rights, a, b)
        suite.add("memory that was pinned to be read", constant, a, b, **NO_RANGE)
        suite.add("another protection domain", domains, a, b)
        suite.add("protection domains in use", domains_in_use, a, b)
        suite.add("other memory", moved, a, b, **NO_RANGE)
        suite.add("no such memory", no_such_memory, a, b, **NO_RANGE)
        for name, kind in (("type 1", MW_TYPE.TYPE_1), ("type 2", MW_TYPE.TYPE_2)):
            suite.add(f"windows of {name}", windowed, a, b, kind, rxe_differs="does not look for windows")
        suite.add("memory paged on demand", paged, a, b, **NO_RANGE)
        suite.add("nonsense", nonsense, a, b, rxe_differs="takes rights that it does not know")
        suite.add("rights taken away under load", taken_away, a, b, without_right)
        suite.add("protection domain changed under load", taken_away, a, b, without_domain)
        suite.add("memory changed under load", without_memory, a, b, **NO_RANGE)
        churning = [
            stack.enter_context(ChurningDevice(end.device, end.ip4)) for end in (fabric.a, fabric.b)
        ]
        suite.add("registered anew under load", unnoticed, *churning, limit=300, **NO_RANGE)
        suite.run()


if __name__ == "__main__":
    main()
