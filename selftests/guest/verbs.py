#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
# vm: TMO=1200
"""The objects: what can be made of them, what is refused, and what they report."""

import contextlib
import ctypes
import errno
import itertools
import mmap
import os
import pathlib
import pickle
import select
import socket
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent / "lib"))

import ktap
import pyverbs.libibverbs_enums as e
import workload
from ktap import check, check_equal, patient
from pyverbs.addr import AH, GID, AHAttr, GlobalRoute
from pyverbs.cq import CQ, CompChannel
from pyverbs.mr import MR
from pyverbs.pd import PD
from pyverbs.pyverbs_error import PyverbsError
from pyverbs.qp import QP, QPCap, QPInitAttr
from pyverbs.wr import SGE
from rdma import (
    ACCESS,
    ALL_ACCESS,
    ATTR,
    MTU,
    SEND,
    SOON,
    STATE,
    STATUS,
    Fabric,
    Peer,
    RcAttr,
    RcQp,
    Remote,
    eventually,
    has_gid,
    pair,
    poll_for,
    refused,
    statuses,
)
from rings import PRODUCER, ringed_pair

NO_MORE = (errno.EINVAL, errno.ENOMEM, errno.ENOSPC)


# Device and port.


def device_attributes(a, _):
    """Limits are positive and such that the usual programs run."""
    attr = a.ctx.query_device()
    for name, least in {
        "max_qp": 1024, "max_qp_wr": 8192, "max_sge": 16, "max_cq": 1024, "max_cqe": 32767, "max_mr": 1024,
        "max_pd": 1024, "max_qp_rd_atom": 16, "max_qp_init_rd_atom": 16, "max_ah": 100,
        "max_mr_size": 1 << 40, "max_pkeys": 1,
    }.items():  # fmt: skip
        check(getattr(attr, name) >= least, f"{name} is {getattr(attr, name)}, wanted at least {least}")
    check(attr.page_size_cap & 4096, f"page_size_cap {attr.page_size_cap:#x}")
    check(attr.atomic_caps in (e.ibv_atomic_cap.IBV_ATOMIC_HCA, e.ibv_atomic_cap.IBV_ATOMIC_GLOB), "no atomics")
    check_equal(a.ctx.query_port(1).state, e.ibv_port_state.IBV_PORT_ACTIVE, "port state")
    with refused(errno.EINVAL):
        a.ctx.query_port(2)


def port_mtu(a, _, fabric):
    """The active MTU is what fits in the netdev's."""
    try:
        for netdev, path in ((1500, 1024), (2300, 2048), (9000, 4096), (600, 512), (4200, 4096)):
            fabric.a.run("ip", "link", "set", fabric.a.netdev, "mtu", str(netdev))
            eventually(lambda p=path: a.ctx.query_port(1).active_mtu == MTU[p], f"MTU {path} on {netdev}")
    finally:
        fabric.a.run("ip", "link", "set", fabric.a.netdev, "mtu", "4200")


def gids(a, _, fabric):
    """GIDs come and go with addresses, and are those of RoCE version 2."""
    eventually(lambda: a.ctx.query_gid_type(1, a.gid_index) == e.ibv_gid_type_sysfs.IBV_GID_TYPE_SYSFS_ROCE_V2, "type")
    fabric.a.run("ip", "addr", "add", "10.77.9.9/24", "dev", fabric.a.netdev)
    eventually(lambda: has_gid(a.name, "10.77.9.9"), "GID of a new address")
    fabric.a.run("ip", "addr", "del", "10.77.9.9/24", "dev", fabric.a.netdev)
    eventually(lambda: not has_gid(a.name, "10.77.9.9"), "removal of the GID")
    with refused(errno.EINVAL, -1):
        a.ctx.query_gid_ex(1, 60000)


def pkeys(a, _):
    """One full member of the default partition."""
    check_equal(a.ctx.query_pkey(1, 0) & 0xFFFF, 0xFFFF, "P_Key 0")
    try:
        a.ctx.query_pkey(1, 20000)
    except PyverbsError:
        return
    raise AssertionError("P_Key 20000 exists")


# Protection domains and memory.


def many_pds(a, _):
    """They are cheap."""
    pds = [PD(a.ctx) for _ in range(500)]
    for pd in pds:
        pd.close()


def region_sizes(a, b):
    """Any size, at any offset in a page; all of it can be reached and nothing more."""
    with pair(a, b) as (qa, qb):
        for length in (1, 7, 4095, 4096, 4097, 65536, 1 << 20):
            memory = b.region(length)
            source = a.region(8)
            source.fill(0x99)
            qa.write([source.sge(0, 1)], memory.at(length - 1))
            qa.sent(1)
            check_equal(memory.read(1, length - 1), b"\x99", f"last byte of {length}")
            memory.close()


def region_access(a, _):
    """Combinations of rights: remote write or atomic needs local write."""
    rights = (ACCESS.LOCAL_WRITE, ACCESS.REMOTE_WRITE, ACCESS.REMOTE_READ, ACCESS.REMOTE_ATOMIC)
    for chosen in itertools.product((0, 1), repeat=4):
        access = sum(r for r, on in zip(rights, chosen) if on)
        if access & (ACCESS.REMOTE_WRITE | ACCESS.REMOTE_ATOMIC) and not access & ACCESS.LOCAL_WRITE:
            with refused(errno.EINVAL):
                MR(a.pd, 4096, access)
        else:
            MR(a.pd, 4096, access).close()
    for unknown in (1 << 10, 1 << 19, 1 << 30):
        with refused(errno.EINVAL, errno.EOPNOTSUPP):
            MR(a.pd, 4096, ACCESS.LOCAL_WRITE | unknown)


def bad_memory(a, _):
    """What is not there, or may not be written, cannot be registered so."""
    address = mapped_at(8192, mmap.PROT_READ)
    MR(a.pd, 8192, 0, address).close()
    with refused(errno.EFAULT, errno.EINVAL):
        MR(a.pd, 8192, ACCESS.LOCAL_WRITE, address)
    libc().munmap(ctypes.c_void_p(address), ctypes.c_size_t(4096))
    for where, length in ((address, 8192), (address, 1), (1 << 60, 4096), ((1 << 64) - 4096, 8192)):
        with refused(errno.EFAULT, errno.EINVAL, errno.EOVERFLOW, errno.ENOMEM):
            MR(a.pd, length, ACCESS.LOCAL_WRITE, where)


def libc():
    """The C library, with error numbers."""
    library = ctypes.CDLL(None, use_errno=True)
    library.mmap.restype = ctypes.c_void_p
    library.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t] + [ctypes.c_int] * 3 + [ctypes.c_long]
    return library


def mapped_at(length, prot=mmap.PROT_READ | mmap.PROT_WRITE, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS, fd=-1, at=None):
    """Map memory; returns the address."""
    address = libc().mmap(at, length, prot, flags, fd, 0)
    check(address != ctypes.c_void_p(-1).value, f"mmap: {os.strerror(ctypes.get_errno())}")
    return address


def huge_region(a, b):
    """More than 1 GiB (the same 32 MiB over and over): the last byte can be reached."""
    piece, count = 32 << 20, 40
    no_access, fixed = 0, 0x10  # PROT_NONE, MAP_FIXED
    memory = os.memfd_create("piece")
    os.ftruncate(memory, piece)
    base = mapped_at(piece * count, no_access)
    for i in range(count):
        mapped_at(piece, flags=mmap.MAP_SHARED | fixed, fd=memory, at=base + i * piece)
    with MR(b.pd, piece * count, ALL_ACCESS, base) as mr, pair(a, b) as (qa, _):
        source = a.region(8)
        source.fill(0x99)
        qa.write([source.sge()], Remote(base + piece * count - 8, mr.rkey))
        qa.sent(1)
        check_equal(os.pread(memory, 8, piece - 8), b"\x99" * 8, "the last bytes")
    libc().munmap(ctypes.c_void_p(base), ctypes.c_size_t(piece * count))
    os.close(memory)


def many_regions(a, _):
    """All keys differ, also from those in use before."""
    regions = [a.region(4096) for _ in range(500)]
    check_equal(len({r.mr.rkey for r in regions}), 500, "different keys")
    for region in regions:
        region.close()


def pd_in_use(a, _):
    """A domain with a region in it stays."""
    pd = PD(a.ctx)
    region = MR(pd, 4096, ACCESS.LOCAL_WRITE)
    deallocate = ctypes.CDLL("libibverbs.so.1").ibv_dealloc_pd
    deallocate.argtypes = [ctypes.c_void_p]
    check_equal(deallocate(pd.pd), errno.EBUSY, "ibv_dealloc_pd")
    region.close()
    pd.close()


# Completion queues.


def cq_sizes(a, _):
    """From one entry to the limit, and not beyond."""
    limit = a.ctx.query_device().max_cqe
    for size in (1, 2, 100, limit):
        with CQ(a.ctx, size) as cq:
            check(cq.cqe >= size, f"{cq.cqe} entries where {size} were asked for")
    for size in (0, limit + 1, 0x7FFFFFFF):
        with refused(*NO_MORE):
            CQ(a.ctx, size)


def cq_resize(a, b):
    """Entries survive, in order; what does not fit is refused."""
    qa, qb = ringed_pair(a, b)
    here, there = a.region(64), b.region(64)
    sent = [qa.write([here.sge()], there.at()) for _ in range(20)]
    eventually(lambda: any(ring.get(PRODUCER) == 20 for ring in qa.cqs), "completions in the ring")
    with refused(errno.EINVAL):
        qa.send_cq.resize(10)
    qa.send_cq.resize(30)
    done = poll_for(qa.send_cq, 5)
    qa.send_cq.resize(4000)
    sent += [qa.write([here.sge()], there.at()) for _ in range(30)]
    done += poll_for(qa.send_cq, 45)
    qa.send_cq.resize(1)
    check_equal(statuses(done), [(n, STATUS.SUCCESS) for n in sent], "completions")
    with refused(*NO_MORE):
        qa.send_cq.resize(a.ctx.query_device().max_cqe + 1)
    qa.close()
    qb.close()


def notifications(a, b):
    """One event for each arming, none without, solicited ones only if so armed."""
    channel = CompChannel(b.ctx)
    qa, qb = RcQp(a), RcQp(b, channels=(None, channel))
    qa.connect(qb.peer)
    qb.connect(qa.peer)
    here = a.region(64)

    def send(flags=0, **options):
        qb.recv([])
        qa.send([here.sge(0, 0)], flags=SEND.SIGNALED | flags, **options)
        qa.sent(1)
        qb.received(1)

    def notified(seconds=0.3):
        if not select.select([channel.fd], [], [], patient(seconds))[0]:
            return False
        channel.get_cq_event(qb.recv_cq)
        return True

    send()
    check(not notified(), "an event without arming")
    qb.recv_cq.req_notify()
    check(not notified(), "an event without completion")
    send()
    check(notified(SOON), "no event")
    send()
    check(not notified(), "a second event after one arming")
    qb.recv_cq.req_notify(True)
    send()
    check(not notified(), "an event for what was not solicited")
    send(SEND.SOLICITED)
    check(notified(SOON), "no event for what was solicited")
    qb.recv_cq.req_notify(True)
    there = b.region(64)
    qb.recv([])
    qa.write([here.sge()], there.at(), imm=1, flags=SEND.SIGNALED | SEND.SOLICITED)
    qa.sent(1)
    qb.received(1)
    check(notified(SOON), "no event for a solicited write with immediate")
    qa.close()
    qb.close()
    channel.close()


def solicited_by_error(a, b):
    """A completion in error counts as solicited."""
    channel = CompChannel(b.ctx)
    qa, qb = RcQp(a), RcQp(b, channels=(None, channel))
    qb.connect(qa.peer)
    qb.recv([])
    qb.recv_cq.req_notify(True)
    qb.go(STATE.ERR)
    check(select.select([channel.fd], [], [], patient(SOON))[0], "no event for a flushed receive")
    channel.get_cq_event(qb.recv_cq)
    qa.close()
    qb.close()
    channel.close()


# Queue pairs.


def qp_limits(a, _):
    """Capabilities as asked for or more; not beyond the limits."""
    limits = a.ctx.query_device()
    cq = CQ(a.ctx, 16)

    def create(**cap):
        init = QPInitAttr(qp_type=e.ibv_qp_type.IBV_QPT_RC, scq=cq, rcq=cq, cap=QPCap(**cap))
        return QP(a.pd, init), init

    basic = {"max_send_wr": 10, "max_recv_wr": 10, "max_send_sge": 3, "max_recv_sge": 3, "max_inline_data": 100}
    qp, _ = create(**basic)
    cap = qp.query(ATTR.CAP)[0].cap
    for name, value in basic.items():
        check(getattr(cap, name) >= value, f"{name}: {getattr(cap, name)}, asked for {value}")
    qp.close()
    create(**{**basic, "max_send_sge": limits.max_sge, "max_recv_sge": limits.max_sge})[0].close()
    for name, value in {
        "max_send_wr": limits.max_qp_wr + 1,
        "max_recv_wr": limits.max_qp_wr + 1,
        "max_send_sge": limits.max_sge + 1,
        "max_recv_sge": limits.max_sge + 1,
        "max_inline_data": 1 << 20,
    }.items():
        with refused(*NO_MORE):
            create(**{**basic, name: value})
    cq.close()


REQUIRED = {
    STATE.RTR: (ATTR.AV, ATTR.PATH_MTU, ATTR.DEST_QPN, ATTR.RQ_PSN, ATTR.MAX_DEST_RD_ATOMIC, ATTR.MIN_RNR_TIMER),
    STATE.RTS: (ATTR.SQ_PSN, ATTR.TIMEOUT, ATTR.RETRY_CNT, ATTR.RNR_RETRY, ATTR.MAX_QP_RD_ATOMIC),
}
BEFORE = {STATE.RTR: STATE.INIT, STATE.RTS: STATE.RTR}


def bad_values(a, _, name, mask, value):
    """One attribute out of range."""
    qp = RcQp(a)
    qp.to_init()
    new = STATE.RTS if name in ("timeout", "retry_cnt", "rnr_retry", "max_rd_atomic", "sq_psn") else STATE.RTR
    if new == STATE.RTS:
        qp.to_rtr(qp.peer)
    original = qp.modify
    qp.modify = lambda m, **values: original(m, **{**values, name: value})
    check(mask in REQUIRED[new], "test is wrong")
    with refused(errno.EINVAL):
        qp.to_rts() if new == STATE.RTS else qp.to_rtr(qp.peer)
    check_equal(qp.state, BEFORE[new], "state")
    qp.close()


def path_mtu_too_large(a, b, fabric):
    """The path MTU may not exceed the active one."""
    fabric.a.run("ip", "link", "set", fabric.a.netdev, "mtu", "1500")
    try:
        eventually(lambda: a.ctx.query_port(1).active_mtu == MTU[1024], "active MTU 1024")
        qp = RcQp(a, RcAttr(mtu=4096))
        qp.to_init()
        with refused(errno.EINVAL):
            qp.to_rtr(Peer(b.gid, 17, 0))
        qp.close()
    finally:
        fabric.a.run("ip", "link", "set", fabric.a.netdev, "mtu", "4200")


def query(a, b):
    """What was set comes back."""
    attr = RcAttr(mtu=2048, timeout=13, retry_cnt=5, rnr_retry=3, min_rnr_timer=9, rd_atomic=4)
    qa, qb = RcQp(a, attr, psn=0x123456), RcQp(b, psn=0xABCDEF)
    qa.connect(qb.peer)
    got, init = qa.qp.query(0x1FFFFF)
    for name, wanted in {
        "qp_state": STATE.RTS, "path_mtu": MTU[2048], "timeout": 13, "retry_cnt": 5, "rnr_retry": 3,
        "min_rnr_timer": 9, "max_rd_atomic": 4, "max_dest_rd_atomic": 4, "dest_qp_num": qb.qp.qp_num,
        "sq_psn": 0x123456, "rq_psn": 0xABCDEF, "qp_access_flags": ALL_ACCESS, "port_num": 1, "pkey_index": 0,
    }.items():  # fmt: skip
        check_equal(getattr(got, name), wanted, name)
    check_equal(got.ah_attr.dgid, str(b.gid), "dgid")
    check_equal(got.ah_attr.sgid_index, a.gid_index, "sgid_index")
    check_equal(init.cap.max_send_sge >= attr.sge, True, "max_send_sge")
    qa.close()
    qb.close()


def query_signalling(a, b):
    """Whether all sends are signalled is what it was created with."""
    for all_ in (True, False):
        with pair(a, b, signal_all=all_) as (qa, _):
            check_equal(bool(qa.qp.query(ATTR.STATE)[1].sq_sig_all), all_, "sq_sig_all")


def query_rd_atomic(a, b):
    """A depth that is no power of two comes back as it was set."""
    with pair(a, b, rd_atomic=3) as (qa, _):
        got = qa.qp.query(ATTR.MAX_QP_RD_ATOMIC | ATTR.MAX_DEST_RD_ATOMIC)[0]
        check_equal((got.max_rd_atomic, got.max_dest_rd_atomic), (3, 3), "rd_atomic depths")


def post_too_early(a, _):
    """Work requests before the state for them."""
    qp = RcQp(a)
    here = a.region(64)
    with refused(errno.EINVAL):
        qp.recv([here.sge()])
    with refused(errno.EINVAL):
        qp.send([here.sge()])
    qp.to_init()
    qp.recv([here.sge()])
    with refused(errno.EINVAL):
        qp.send([here.sge()])
    qp.to_rtr(qp.peer)
    with refused(errno.EINVAL):
        qp.send([here.sge()])
    qp.close()


def queue_full(a, b):
    """A queue holds what was promised, and says so when it is full."""
    with pair(a, b, rnr_retry=7, min_rnr_timer=20) as (qa, qb):
        here = a.region(8)
        posted = 0
        with refused(errno.ENOMEM):
            while posted < 10000:
                qa.send([here.sge()])
                posted += 1
        check(posted >= qa.attr.send_wr, f"only {posted} fit")
        received = 0
        with refused(errno.ENOMEM):
            while received < 10000:
                qb.recv([])
                received += 1
        check(received >= qb.attr.recv_wr, f"only {received} fit")


# Work requests.


def gather_scatter(a, b):
    """As many entries as the device has; pieces of odd sizes."""
    count = min(a.ctx.query_device().max_sge, 32)
    with pair(a, b, sge=count) as (qa, qb):
        here, there = a.region(count * 300), b.region(count * 300)
        here.write(bytes(i * 7 & 0xFF for i in range(count * 300)))
        pieces = [here.sge(300 * i, (37 * i) % 290) for i in range(count)]
        wanted = b"".join(here.read((37 * i) % 290, 300 * i) for i in range(count))
        slots = [there.sge(300 * i, (41 * i) % 293 + 1) for i in range(count)]
        qb.recv(slots)
        qa.send(pieces)
        qa.sent(1)
        (done,) = qb.received(1)
        check_equal(done.byte_len, len(wanted), "byte_len")
        found = b"".join(there.read((41 * i) % 293 + 1, 300 * i) for i in range(count))
        check_equal(found[: len(wanted)], wanted, "scattered data")
        check_equal(found[len(wanted) :], bytes(len(found) - len(wanted)), "the rest of the buffers")
        qa.read(pieces, there.at())
        qa.sent(1)
        joined = b"".join(here.read((37 * i) % 290, 300 * i) for i in range(count))
        check_equal(joined, there.read(len(joined), 0), "data read into pieces")
        with refused(errno.EINVAL):
            qa.send(pieces + [here.sge(0, 1)] * 64)


def inline_data(a, b):
    """Inline data is taken when it is posted, needs no key, and has a limit."""
    with pair(a, b, inline=256) as (qa, qb):
        here, there = a.region(4096), b.region(4096)
        for length in (0, 1, 63, 256):
            here.fill(0x31)
            qb.recv([there.sge()])
            qa.send([SGE(here.mr.buf, length, 0)], flags=SEND.SIGNALED | SEND.INLINE)
            here.fill(0x32)
            qa.sent(1)
            check_equal(qb.received(1)[0].byte_len, length, "byte_len")
            check_equal(there.read(length, 0), b"\x31" * length, "inline data")
        with refused(errno.EINVAL):
            qa.send([here.sge(0, 4096)], flags=SEND.SIGNALED | SEND.INLINE)


def fence(a, b):
    """A fenced write sends what the READ before it has fetched."""
    with pair(a, b) as (qa, qb):
        here, there = a.region(16384), b.region(32768)
        for round_ in range(20):
            there.fill(round_ + 1, 16384)
            qa.read([here.sge()], there.at())
            qa.write([here.sge()], there.at(16384), flags=SEND.SIGNALED | SEND.FENCE)
            qa.sent(2)
            check_equal(there.read(16384, 16384), bytes([round_ + 1]) * 16384, f"data in round {round_}")


def few_credits(a, b):
    """Many READs and atomics where only one may be outstanding."""
    with pair(a, b, rd_atomic=1) as (qa, qb):
        workload.exercise(qa, qb, sizes=(8, 3000), kinds=("read", "cmp_swp", "fetch_add"), repeat=4)


def no_credits(a, b):
    """Without depth there are no READs, but everything else."""
    with pair(a, b, rd_atomic=0) as (qa, qb):
        workload.exercise(qa, qb, sizes=(8, 3000), kinds=("send", "write", "write_imm"))


def long_messages(a, b):
    """8 MiB in one message."""
    size = 8 << 20
    with pair(a, b, mtu=4096) as (qa, qb):
        workload.exercise(qa, qb, sizes=(size,), kinds=("write", "read", "send"), window=1)


def write_then_send(a, b):
    """When a SEND has arrived, the WRITEs before it have."""
    with pair(a, b) as (qa, qb):
        here, there = a.region(10000), b.region(10000)
        for round_ in range(1, 30):
            here.fill(round_)
            qb.recv([])
            qa.write([here.sge()], there.at(), flags=0)
            qa.send([], flags=SEND.SIGNALED)
            qb.received(1)
            check_equal(there.read(10000, 0), bytes([round_]) * 10000, f"data in round {round_}")
            qa.sent(2 if qa.attr.signal_all else 1)


# Address handles, mappings, processes.


def address_handles(a, b):
    """Good ones, many, and what is refused."""

    def create(**route):
        return AH(a.pd, attr=AHAttr(port_num=1, is_global=1, gr=GlobalRoute(**{"hop_limit": 64, **route})))

    handles = [create(dgid=b.gid, sgid_index=a.gid_index) for _ in range(200)]
    for handle in handles:
        handle.close()
    with refused(errno.EINVAL, errno.ENODATA, errno.ENOENT):
        create(dgid=b.gid, sgid_index=200)
    for attr in (AHAttr(port_num=1), AHAttr(port_num=7, is_global=1, gr=GlobalRoute(dgid=b.gid))):
        with refused(errno.EINVAL):
            AH(a.pd, attr=attr)


def bad_path(a, b):
    """A connection over a GID that is not there is refused."""
    qp = RcQp(a)
    qp.to_init()
    index, a.gid_index = a.gid_index, 200
    try:
        with refused(errno.EINVAL, errno.ENODATA, errno.ENOENT):
            qp.to_rtr(Peer(b.gid, 17, 0))
    finally:
        a.gid_index = index
    check_equal(qp.state, STATE.INIT, "state")
    qp.close()


def foreign_mappings(a, b, fabric):
    """No offset of a ring can be mapped a second time, from anywhere, nor anything else."""
    with pair(a, b):
        offsets = set(range(0, 64 * 4096, 4096)) | ring_offsets()
        with fabric.open("a") as stranger:
            for fd in (a.ctx.cmd_fd, stranger.ctx.cmd_fd):
                for offset in offsets:
                    for size in (4096, 1 << 20):
                        try:
                            mmap.mmap(fd, size, offset=offset)
                        except (OSError, ValueError):
                            continue
                        raise AssertionError(f"mapped {size} bytes at offset {offset:#x}")


def ring_offsets():
    """At which offsets the rings of this process are mapped."""
    with open("/proc/self/maps", encoding="ascii") as maps:
        return {int(line.split()[2], 16) for line in maps if "uverbs" in line or "[infiniband" in line}


def two_processes(a, _, fabric):
    """The two ends in two processes, as it is in life."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    child = os.fork()
    if child == 0:
        status = 1
        try:
            with fabric.open("b") as device:
                serve(device, theirs)
            status = 0
        except BaseException as why:
            ktap.comment(f"child: {why!r}")
        os._exit(status)
    theirs.close()
    with ours:
        qp = RcQp(a)
        here = a.region(4096)
        here.fill(0x77)
        tell(ours, qp)
        peer, remote = hear(ours)
        qp.connect(peer)
        check_equal(ours.recv(16), b"ready", "the other process")
        qp.write([here.sge()], remote, imm=0x12345678)
        qp.sent(1)
        qp.close()
    check_equal(os.waitpid(child, 0)[1], 0, "status of the other process")


def tell(link, qp, memory=Remote(0, 0)):
    """What the other process must know."""
    link.send(pickle.dumps((str(qp.peer.gid), qp.peer.qp_num, qp.peer.psn, *memory)))


def hear(link):
    """What the other process has told."""
    gid, number, psn, addr, rkey = pickle.loads(link.recv(4096))
    return Peer(GID(gid), number, psn), Remote(addr, rkey)


def serve(device, link):
    """The other process: receive one write with immediate."""
    qp = RcQp(device)
    memory = device.region(4096)
    tell(link, qp, memory.at())
    qp.connect(hear(link)[0])
    qp.recv([])
    link.send(b"ready")
    (done,) = qp.received(1)
    check_equal((done.imm, done.byte_len), (0x12345678, 4096), "immediate and length")
    check_equal(memory.read(4096, 0), b"\x77" * 4096, "data")


def many_qps(a, b):
    """A hundred connections at once, each with traffic."""
    with contextlib.ExitStack() as stack:
        pairs = [stack.enter_context(pair(a, b, send_wr=4, recv_wr=4)) for _ in range(100)]
        here, there = a.region(800), b.region(800)
        for i, (qa, qb) in enumerate(pairs):
            qb.recv([])
            here.set_word(i, 8 * i)
            qa.write([here.sge(8 * i, 8)], there.at(8 * i), imm=i)
        for i, (qa, qb) in enumerate(pairs):
            qa.sent(1)
            check_equal(qb.received(1)[0].imm, i, "immediate")
        check_equal(there.read(800, 0), here.read(800, 0), "data")


BAD_VALUES = (
    ("path_mtu", ATTR.PATH_MTU, 0, "accepts it"),
    ("path_mtu", ATTR.PATH_MTU, 6, None),
    ("max_dest_rd_atomic", ATTR.MAX_DEST_RD_ATOMIC, 255, "accepts it"),
    ("max_rd_atomic", ATTR.MAX_QP_RD_ATOMIC, 255, None),
    ("timeout", ATTR.TIMEOUT, 32, None),
    ("retry_cnt", ATTR.RETRY_CNT, 8, "accepts it"),
    ("rnr_retry", ATTR.RNR_RETRY, 8, "accepts it"),
    ("min_rnr_timer", ATTR.MIN_RNR_TIMER, 32, "accepts it"),
    ("dest_qp_num", ATTR.DEST_QPN, 1 << 24, "accepts it"),
)


def main():
    suite = ktap.Suite("verbs")
    with Fabric() as fabric, fabric.open("a") as a, fabric.open("b") as b:

        def add(name, func, *args, **options):
            suite.add(name, func, a, b, *args, **options)

        add("device attributes", device_attributes)
        add("active MTU follows the netdev", port_mtu, fabric)
        add("GIDs follow the addresses", gids, fabric)
        add("P_Keys", pkeys)
        add("many protection domains", many_pds)
        add("protection domain in use", pd_in_use)
        add("regions of all sizes", region_sizes)
        add("regions: access rights", region_access)
        add("regions: bad memory", bad_memory)
        add("regions: more than 1 GiB", huge_region, rxe_differs="needs one contiguous allocation")
        add("regions: many", many_regions)
        add("CQ sizes", cq_sizes)
        add("CQ resize", cq_resize)
        add("CQ notifications, solicited and not", notifications)
        add("CQ notification by error", solicited_by_error, rxe_differs="does not count an error as solicited")
        add("QP limits", qp_limits)
        for name, mask, value, rxe_differs in BAD_VALUES:
            add(f"QP {name} of {value}", bad_values, name, mask, value, rxe_differs=rxe_differs)
        add("QP path MTU beyond the active one", path_mtu_too_large, fabric, rxe_differs="accepts it")
        add("QP query", query)
        add("QP query of signalling", query_signalling)
        add("QP query of rd_atomic depths", query_rd_atomic, rxe_differs="rounds them up")
        add("post too early", post_too_early)
        add("queue full", queue_full)
        add("gather and scatter", gather_scatter)
        add("inline data", inline_data)
        add("fence", fence)
        add("one READ at a time", few_credits)
        add("no READs at all", no_credits)
        add("messages of 8 MiB", long_messages)
        add("a SEND is behind the WRITEs before it", write_then_send)
        add("address handles", address_handles)
        add("a path over a GID that is not there", bad_path)
        add("mappings that are not one's own", foreign_mappings, fabric)
        add("two processes", two_processes, fabric)
        add("a hundred connections", many_qps)
        suite.run()


if __name__ == "__main__":
    main()
