#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
# vm: TMO=1800
"""Programs that corrupt the rings they share with the kernel, and peers that send rubbish.

The device is open to every user, and its port to every host.  Whatever arrives, the
kernel survives and says nothing, nobody else is harmed, and good traffic flows
afterwards.  Each attack on rings runs in a process of its own, which may well crash.
"""

import contextlib
import ctypes
import errno
import os
import pathlib
import random
import signal
import struct
import sys
import threading
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent / "lib"))

import ktap
import roce
import workload
from ktap import check, check_equal, patient
from pyverbs.mr import MR
from pyverbs.pyverbs_error import PyverbsError
from rdma import (
    ALL_ACCESS,
    SEND,
    SOON,
    STATE,
    STATUS,
    WR,
    Completion,
    Fabric,
    RcAttr,
    RcQp,
    Remote,
    ack_timeout,
    comes_true,
    pair,
)
from rings import (
    CONSUMER,
    INDEX_MASK,
    LOG2_SIZE,
    POLL_CQ,
    POST_RECV,
    POST_SEND,
    PRODUCER,
    SIZEOF_SEND_WR,
    Wqe,
    ringed_pair,
)
from roce import NAMES, Bth, Path, reth

QUICK = RcAttr(timeout=ack_timeout(12), retry_cnt=1, rnr_retry=1, min_rnr_timer=1)
ACCEPTED = (0, errno.EINVAL)


def in_child(attack, fabric, may_crash, seconds):
    """Run an attack in a process of its own; it must end, one way or another."""
    child = os.fork()
    if child == 0:
        status = 1
        try:
            with fabric.open("a") as a, fabric.open("b") as b:
                attack(a, b)
            status = 0
        except BaseException as why:
            ktap.comment(f"{type(why).__name__}: {why}")
        os._exit(status)
    deadline = time.monotonic() + patient(seconds)
    while True:
        pid, status = os.waitpid(child, os.WNOHANG)
        if pid:
            break
        if time.monotonic() > deadline:
            os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)
            raise AssertionError(f"the attacker did not end in {seconds} s")
        time.sleep(0.02)
    if os.WIFSIGNALED(status):
        check(may_crash, f"the attacker was killed by signal {os.WTERMSIG(status)}")
    else:
        check_equal(os.WEXITSTATUS(status), 0, "status of the attacker")


def attacked(fabric, a, b, attack, may_crash=False, seconds=120):
    """An attack, beside a connection of somebody else; afterwards a new one must work as well."""
    with pair(a, b) as (qa, qb):
        in_child(attack, fabric, may_crash, seconds)
        workload.exercise(qa, qb, sizes=(0, 100, 5000))
    healthy(a, b)


def healthy(a, b):
    """New connections work between both and on each device."""
    for ends in ((a, b), (b, a), (a, a)):
        with pair(*ends) as (qa, qb):
            workload.exercise(qa, qb, sizes=(100, 5000))


# Rings.


class Attacker:
    """A connection whose rings are at our mercy; made anew after each error."""

    def __init__(self, a, b):
        self.here, self.there = a.region(65536), b.region(65536)
        self.a, self.b = a, b
        self.outside = b.region(4096)
        self.connect()

    def connect(self):
        self.qa, self.qb = ringed_pair(self.a, self.b, QUICK)
        for _ in range(8):
            self.qb.recv([self.there.sge(0, 4096)])

    def sge(self, length=64):
        return self.here.at().addr, length, self.here.mr.lkey

    def good(self, **changes):
        """An entry that would be all right but for the changes."""
        fields = {"wr_id": 1, "opcode": WR.RDMA_WRITE, "remote": self.there.at(), "sges": [self.sge()]}
        return Wqe(**{**fields, **changes})

    def attempt(self, wqe, must_fail=True, seconds=SOON):
        """Post one entry; it must be refused or complete (in error, if it must fail)."""
        self.qa.sq.post(wqe)
        error = self.qa.doorbell()
        check(error in ACCEPTED, f"doorbell: {os.strerror(error)}")
        done = None
        deadline = time.monotonic() + patient(seconds)
        while error == 0 and not done and time.monotonic() < deadline:
            done = [Completion.of(wc) for wc in self.qa.send_cq.poll(4)[1]]
            time.sleep(0.0005)
        check(error or done, f"neither refused nor completed: {wqe}")
        check_equal(self.outside.read(4096, 0), bytes(4096), "memory nobody wrote to")
        if done and done[0].status == STATUS.SUCCESS:
            check(not must_fail, f"succeeded: {wqe}")
        else:
            self.qa.close()
            self.qb.close()
            self.connect()


def bad_opcodes(a, b):
    """Operations that do not exist, or that only the kernel may use."""
    known = {WR.RDMA_WRITE, WR.RDMA_WRITE_WITH_IMM, WR.SEND, WR.SEND_WITH_IMM, WR.RDMA_READ, WR.ATOMIC_CMP_AND_SWP}
    known |= {WR.ATOMIC_FETCH_AND_ADD, WR.LOCAL_INV, WR.BIND_MW, WR.SEND_WITH_INV, WR.FLUSH, WR.ATOMIC_WRITE}
    attacker = Attacker(a, b)
    for opcode in [*range(64), 0xF0, 0xFE, 0xFF, 0x100, 0x7FFFFFFF, 0x80000000, 0xFFFFFFFF]:
        if opcode not in known:
            attacker.attempt(attacker.good(opcode=opcode))


def posted_by_commands(a, b):
    """Work requests and polls by the commands that lead to the calls of the kernel's own consumers."""
    attacker = Attacker(a, b)
    qa, lkey = attacker.qa, attacker.here.mr.lkey
    for addr in attacker.here.at().addr, 0xFFFF888000001000:
        sge = struct.pack("<QII", addr, 64, lkey)
        # The RDMA core itself knows nothing of LOCAL_INV and REG_MR here.
        for opcode, wanted in (
            (WR.SEND, errno.EOPNOTSUPP),
            (WR.RDMA_WRITE, errno.EOPNOTSUPP),
            (WR.LOCAL_INV, errno.EINVAL),
            (0x20, errno.EINVAL),
        ):
            for flags in SEND.SIGNALED, SEND.SIGNALED | SEND.INLINE:
                wr = struct.pack("<QIIII", 1, 1, opcode, flags, 0) + struct.pack("<QI", *attacker.there.at())
                wr = wr.ljust(SIZEOF_SEND_WR, b"\0")
                error = qa.command(POST_SEND, struct.pack("<IIII", qa.handle, 1, 1, len(wr)) + wr + sge)
                check_equal(error, wanted, f"post_send of {opcode}")
        wr = struct.pack("<QII", 1, 1, 0)
        error = qa.command(POST_RECV, struct.pack("<IIII", qa.handle, 1, 1, len(wr)) + wr + sge)
        check_equal(error, errno.EOPNOTSUPP, "post_recv")
    poll = struct.pack("<II", qa.send_cq_handle, 4)
    check_equal(qa.command(POLL_CQ, poll, 8 + 4 * 48), errno.EOPNOTSUPP, "poll_cq")
    attacker.attempt(attacker.good(), must_fail=False)


def bad_entries(a, b):
    """One field wrong, such that nothing sensible can be done."""
    attacker = Attacker(a, b)
    good, sge = attacker.good, attacker.sge
    for wqe in (
        good(num_sge=64),
        good(num_sge=0x7FFFFFFF),
        good(num_sge=0xFFFFFFFF),
        good(length=1 << 31, resid=1 << 31),
        good(length=0xFFFFFFFF, resid=0xFFFFFFFF),
        good(length=65, resid=65),
        good(sges=[sge(0x7FFFFFFF)]),
        good(sges=[sge(0xFFFFFFFF), sge(2)]),
        good(sges=[(2**64 - 32, 64, attacker.here.mr.lkey)]),
        good(sges=[(0, 64, 0)]),
        good(flags=SEND.SIGNALED | SEND.INLINE, length=1 << 20, resid=1 << 20),
        good(flags=SEND.SIGNALED | SEND.INLINE, length=0x7FFFFFFF, resid=0x7FFFFFFF),
        good(opcode=WR.ATOMIC_FETCH_AND_ADD, sges=[sge(4)]),
        good(opcode=WR.ATOMIC_FETCH_AND_ADD, sges=[]),
        good(opcode=WR.ATOMIC_CMP_AND_SWP, sges=[sge(8)], remote=(attacker.there.at().addr + 1, attacker.there.mr.rkey)),
        good(opcode=WR.RDMA_READ, flags=SEND.SIGNALED | SEND.INLINE),
        good(remote=attacker.there.at()._replace(rkey=0xFFFFFFFF)),
        good(remote=Remote(2**64 - 1, attacker.there.mr.rkey)),
        good(opcode=WR.BIND_MW),
        good(opcode=WR.LOCAL_INV, imm=attacker.here.mr.rkey ^ 0x5500),
    ):
        attacker.attempt(wqe)


def stale_fields(a, b):
    """What librxe leaves to chance, or always sets to the same, is not believed: succeed or fail, but do not break."""
    attacker = Attacker(a, b)
    for values in ((1, 1, 1), (0xFFFFFFFF,) * 3, (0x80000000, 7, 0x12345678)):
        first, second, third = values
        for wqe in (
            attacker.good(cur_sge=first),
            attacker.good(sge_offset=first),
            attacker.good(resid=second),
            attacker.good(cur_sge=first, sge_offset=second, resid=third),
            attacker.good(state=first),
            attacker.good(status=second, state=first, mask=third),
            attacker.good(first_psn=first, last_psn=second, mask=third),
            attacker.good(iova=third, opcode=WR.RDMA_READ),
            attacker.good(flags=0xFFFFFF00 | SEND.SIGNALED),
        ):
            attacker.attempt(wqe, must_fail=False)


def wild_indices(a, b):
    """Producer indices out of range, and going backwards."""
    for wild in (0xFFFFFFFF, 0x80000000, 1 << 16, 128, 63):
        attacker = Attacker(a, b)
        qa = attacker.qa
        for slot in range(qa.sq.slots):
            qa.sq.write(slot, bytes(attacker.good(flags=0)))
        for ring in (qa.sq, qa.rq):
            ring.set(PRODUCER, wild)
        check(qa.doorbell() in ACCEPTED, "doorbell")
        qa.sq.set(CONSUMER, wild)
        qa.rq.set(CONSUMER, wild)
        check(qa.doorbell() in ACCEPTED, "doorbell")
        attacker.qb.send([])
        time.sleep(0.05)
        qa.sq.set(PRODUCER, wild - 3)
        check(qa.doorbell() in ACCEPTED, "doorbell")
        time.sleep(0.05)
        qa.close()


def wild_headers(a, b):
    """Slot size and index mask are the kernel's own business."""
    for offset, value in ((LOG2_SIZE, 31), (LOG2_SIZE, 0xFFFFFFFF), (LOG2_SIZE, 0), (INDEX_MASK, 0xFFFFFFFF), (INDEX_MASK, 0)):
        attacker = Attacker(a, b)
        qa = attacker.qa
        for ring in (qa.sq, qa.rq, *qa.cqs):
            ring.set(offset, value)
        for _ in range(4):
            qa.sq.write(qa.sq.get(PRODUCER), bytes(attacker.good()))
            qa.sq.set(PRODUCER, qa.sq.get(PRODUCER) + 1)
            check(qa.doorbell() in ACCEPTED, "doorbell")
        attacker.qb.send([attacker.there.sge(0, 64)])
        time.sleep(0.1)
        qa.qp.close()


def random_slots(a, b):
    """Nothing but random bytes in all slots of all rings."""
    for seed in range(20):
        rng = random.Random(seed)
        attacker = Attacker(a, b)
        qa = attacker.qa
        for ring in (qa.sq, qa.rq):
            for slot in range(ring.slots):
                ring.write(slot, rng.randbytes(ring.slot_size))
        for _ in range(5):
            qa.sq.set(PRODUCER, rng.randrange(qa.sq.slots))
            qa.rq.set(PRODUCER, rng.randrange(qa.rq.slots))
            check(qa.doorbell() in ACCEPTED, "doorbell")
            with contextlib.suppress(PyverbsError):
                attacker.qb.send([attacker.there.sge(0, 64)])
        time.sleep(0.02)
        qa.close()


MUTATED = (WR.RDMA_WRITE, WR.SEND_WITH_IMM, WR.RDMA_READ, WR.ATOMIC_FETCH_AND_ADD)
MUTATED += (WR.BIND_MW, WR.LOCAL_INV, WR.SEND_WITH_INV, WR.FLUSH, WR.ATOMIC_WRITE)


def mutated_entries(a, b):
    """Good entries with a few bytes changed: these get further than noise."""
    for seed in range(12):
        rng = random.Random(1000 + seed)
        attacker = Attacker(a, b)
        qa = attacker.qa
        for slot in range(qa.sq.slots):
            opcode = rng.choice(MUTATED)
            entry = bytearray(bytes(attacker.good(opcode=opcode, sges=[attacker.sge(8)] * rng.randrange(4))))
            for _ in range(rng.randrange(1, 5)):
                entry[rng.randrange(len(entry))] = rng.choice((0, 1, 0x7F, 0x80, 0xFF, rng.randrange(256)))
            qa.sq.write(slot, entry)
            receive = struct.pack("<QQQ", slot, 0, 0)[:16] + struct.pack("<IIIIII", 64, 64, 0, 1, 0, 0)
            qa.rq.write(slot, receive + struct.pack("<QII", rng.getrandbits(64), rng.getrandbits(32), rng.getrandbits(32)))
        for step in range(1, 20):
            qa.sq.set(PRODUCER, step % qa.sq.slots)
            qa.rq.set(PRODUCER, step % qa.rq.slots)
            check(qa.doorbell() in ACCEPTED, "doorbell")
            if qa.state == STATE.ERR:
                break
        time.sleep(0.02)
        qa.close()


def racing_thread(a, b):
    """A thread scribbles over the rings while the kernel works on them."""
    stop = threading.Event()
    attacker = Attacker(a, b)

    def scribble(qa, seed):
        rng = random.Random(seed)
        noise = rng.randbytes(1 << 16)
        while not stop.is_set():
            ring = rng.choice((qa.sq, qa.rq, *qa.cqs))
            at = ring.addr + 384 + rng.randrange(ring.slots * ring.slot_size - 16)
            start = rng.randrange(len(noise) - 16)
            ctypes.memmove(at, noise[start : start + 16], rng.choice((1, 2, 4, 8, 16)))
            if rng.random() < 0.1:
                ring.set(rng.choice((PRODUCER, CONSUMER)), rng.choice((0, 1, 5, 63, 64, 0xFFFFFFFF)))

    for round_ in range(4):
        qa = attacker.qa
        stop.clear()
        thread = threading.Thread(target=scribble, args=(qa, round_))
        thread.start()
        end = time.monotonic() + 0.7
        step = 0
        while time.monotonic() < end:
            step += 1
            qa.sq.write(step, bytes(attacker.good(sges=[attacker.sge(3000)])))
            qa.sq.set(PRODUCER, step % qa.sq.slots)
            qa.doorbell()
            with contextlib.suppress(PyverbsError):
                attacker.qb.send([attacker.there.sge(0, 64)])
        stop.set()
        thread.join()
        qa.qp.close()
        attacker.connect()


def consumer_garbage(a, b):
    """A CQ whose reader claims to have read what is not there."""
    for wild in (0xFFFFFFFF, 1 << 20, 90, 1):
        attacker = Attacker(a, b)
        qa = attacker.qa
        for cq in qa.cqs:
            cq.set(CONSUMER, wild)
            cq.set(PRODUCER, wild ^ 0x55)
        for _ in range(20):
            qa.sq.post(attacker.good())
            check(qa.doorbell() in ACCEPTED, "doorbell")
        attacker.qb.send([attacker.there.sge(0, 64)])
        time.sleep(0.1)
        qa.qp.close()


def unmapped(a, b):
    """The rings disappear from the process while the kernel uses them."""
    munmap = ctypes.CDLL(None).munmap
    munmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t]
    attacker = Attacker(a, b)
    qa = attacker.qa
    for _ in range(10):
        qa.sq.post(attacker.good(sges=[attacker.sge(20000)]))
    qa.doorbell()
    for ring in (qa.sq, qa.rq, *qa.cqs):
        check_equal(munmap(ring.addr, ring.size), 0, "munmap")
    for _ in range(5):
        qa.doorbell()
    attacker.qb.send([attacker.there.sge(0, 64)])
    time.sleep(0.2)
    os._exit(0)


def rings_as_memory(a, b):
    """The rings are registered as memory, and a peer writes to them."""
    rng = random.Random(11)
    attacker = Attacker(a, b)
    for _ in range(10):
        qa = attacker.qa
        with contextlib.closing(RcQp(b, QUICK)) as writer, contextlib.closing(RcQp(a, QUICK)) as target:
            writer.connect(target.peer)
            target.connect(writer.peer)
            regions = [MR(a.pd, ring.size, ALL_ACCESS, address=ring.addr) for ring in (qa.sq, qa.rq, *qa.cqs)]
            for _ in range(40):
                attacker.there.write(rng.randbytes(128))
                region = rng.choice(regions)
                # The header, or somewhere in the slots.
                at = rng.choice((0, 128, 256, 384 + rng.randrange(2048)))
                writer.write([attacker.there.sge(0, rng.choice((1, 4, 8, 128)))], Remote(region.buf + at, region.rkey))
                writer.send_cq.poll(16)
                qa.doorbell()
            for region in regions:
                region.close()
        qa.qp.close()
        attacker.connect()


def die_in_the_middle(a, b):
    """Killed with everything outstanding."""
    attacker = Attacker(a, b)
    for _ in range(30):
        attacker.qa.sq.post(attacker.good(sges=[attacker.sge(60000)]))
    attacker.qa.doorbell()
    os.kill(os.getpid(), signal.SIGKILL)


def never_ready(a, b, pairs=30):
    """Receivers that are never ready, and senders that try again at once, without end: others get their share."""
    attr = QUICK.with_(timeout=1, retry_cnt=7, rnr_retry=7)
    ends = [(RcQp(a, attr), RcQp(b, attr)) for _ in range(pairs)]
    for qa, qb in ends:
        qa.connect(qb.peer)
        qb.connect(qa.peer)
    for qp in [qp for both in ends for qp in both]:
        for _ in range(8):
            qp.send([])
    longest = 0
    for _ in range(50):
        began = time.monotonic()
        time.sleep(0.01)
        longest = max(longest, time.monotonic() - began)
    ktap.comment(f"a sleep of 10 ms took {longest:.3f} s at most")


# Packets.


class Forger:
    """Sends frames from end b to end a, and watches a QP there.

    The QP of a is in RTS and connected to one of b that never sends anything, so
    that the sequence number a expects is known.
    """

    def __init__(self, fabric, a, b):
        self.path = Path(fabric.b.mac, fabric.a.mac, fabric.b.ip4_bytes, fabric.a.ip4_bytes)
        self.socket = fabric.b.socket(17, 3, 0)  # AF_PACKET, SOCK_RAW; sends only
        self.socket.bind((fabric.b.netdev, 0))
        self.a, self.b = a, b
        self.memory = a.region(4096)
        self.connect()

    def connect(self):
        self.qa, self.qb = RcQp(self.a), RcQp(self.b)
        self.qa.connect(self.qb.peer)
        self.qb.connect(self.qa.peer)
        self.psn = self.qb.psn
        self.receives = [self.qa.recv([self.memory.sge(0, 1024)]) for _ in range(16)]

    def renew(self):
        """Another victim."""
        self.qa.close()
        self.qb.close()
        self.connect()

    def close(self):
        self.qa.close()
        self.qb.close()
        self.memory.close()
        self.socket.close()

    def send(self, frame):
        """As it is."""
        self.socket.send(frame)

    def bth(self, name, **changes):
        """A header for the victim, with the sequence number it expects."""
        fields = {"opcode": NAMES[name], "qpn": self.qa.qp.qp_num, "psn": self.psn, "ack": 1}
        return Bth(**{**fields, **changes})

    def write(self, data, offset=0, **changes):
        """The transport part of an RDMA WRITE of one packet."""
        remote = self.memory.at(offset)
        return bytes(self.bth("WRITE_ONLY", **changes)) + reth(remote.addr, remote.rkey, len(data)) + data

    def took(self, data, offset=0, seconds=SOON):
        """Has the data arrived in memory?"""
        return comes_true(lambda: self.memory.read(len(data), offset) == data, seconds)


@contextlib.contextmanager
def forger(fabric, a, b):
    """A Forger; when it is done, good traffic must flow."""
    found = Forger(fabric, a, b)
    try:
        yield found
    finally:
        found.close()
    healthy(a, b)


def forged_write(fabric, a, b):
    """The tool works: a forged packet with all fields right is obeyed (and would be, from anyone)."""
    with forger(fabric, a, b) as f:
        f.send(f.path.frame(f.write(b"forgery!")))
        check(f.took(b"forgery!"), "a correct packet was not accepted")


def ip_options(fabric, a, b):
    """The ICRC covers the IP header as it was sent, options and all."""
    with forger(fabric, a, b) as f:
        for count, options in enumerate((b"\x01\x01\x01\x00", b"\x94\x04\x00\x00", b"\x01" * 39 + b"\x00"), 1):
            data = bytes([count]) * 8
            f.send(f.path.frame(f.write(data), options=options))
            check(f.took(data), f"a packet with {len(options)} bytes of options was not accepted")
            f.psn += 1


def past_a_gap(fabric, a, b):
    """What comes past a gap is kept for some seconds, and not for ever if nobody fills the gap."""
    with forger(fabric, a, b) as f:
        for wait, is_kept in ((0, True), (15, False)):
            first, second = b"before %d" % is_kept, b"behind %d" % is_kept
            f.send(f.path.frame(f.write(second, 8, psn=f.psn + 1 & 0xFFFFFF)))
            time.sleep(wait)
            f.send(f.path.frame(f.write(first)))
            check(f.took(first), "the packet that was due was not accepted")
            check_equal(f.took(second, 8, SOON if is_kept else 1), is_kept, f"obeyed after {wait} s")
            f.psn = f.psn + 2 & 0xFFFFFF


def fragments(fabric, a, b):
    """A packet in fragments of all sizes, the smallest of which hold the UDP header only, and some that are too large."""
    with forger(fabric, a, b) as f:
        for count, size in enumerate((8, 16, 24, 32, 40, 64), 1):
            data = bytes([count]) * 64
            for frame in f.path.fragments(f.write(data), size, count):
                f.send(frame)
            check(f.took(data), f"a packet in fragments of {size} bytes was not accepted")
            f.psn += 1
        for count, size in enumerate((4100, 9000, 65000), 100):
            for frame in f.path.fragments(bytes(f.bth("SEND_FIRST")) + bytes(size), 4000, count):
                f.send(frame)


def bad_icrc(fabric, a, b):
    """Any bit of the ICRC wrong, or a bit of what it covers: dropped."""
    with forger(fabric, a, b) as f:
        for bit in range(32):
            f.send(f.path.frame(f.write(b"forgery!"), bad_icrc=1 << bit))
        good = f.path.frame(f.write(b"forgery!"))
        for byte in [*range(14 + 28, len(good))]:
            if byte != 14 + 28 + 4:  # the one byte that is not covered
                f.send(good[:byte] + bytes([good[byte] ^ 0x10]) + good[byte + 1 :])
        check(not f.took(b"forgery!", seconds=0.3), "a packet with a wrong ICRC was accepted")
        check_equal(f.qa.state, STATE.RTS, "state of the victim")
        f.send(good)
        check(f.took(b"forgery!"), "the good packet was not accepted any more")


def truncated(fabric, a, b):
    """Cut off after each byte, with the right ICRC for what is left, and lengths that lie."""
    with forger(fabric, a, b) as f:
        full = f.write(bytes(64))
        for length in range(len(full)):
            f.send(f.path.frame(full[:length]))
        for lie in (0, 1, 7, 8, 11, 12, 19, 20, 23, 24, 40, 0x7FFF, 0xFFFF):
            f.send(f.path.frame(full, udp_length=lie))
            f.send(f.path.frame(full, total_length=lie))
            f.send(f.path.frame(full, total_length=lie, udp_length=max(0, lie - 20)))
        frame = f.path.frame(full)
        for length in range(14, len(frame)):
            f.send(frame[:length])
        f.send(f.path.frame(full, tail=bytes(100)))


def each_opcode(fabric, a, b):
    """All 256 opcodes with different amounts behind the header, to live, unknown and special QPs."""
    with forger(fabric, a, b) as f:
        for opcode in range(256):
            for qpn in (f.qa.qp.qp_num, 0x123456, 0, 1, 0xFFFFFF):
                for size in (0, 4, 16, 28, 64) if qpn == f.qa.qp.qp_num else (0, 64):
                    f.send(f.path.frame(bytes(f.bth("SEND_ONLY", opcode=opcode, qpn=qpn)) + bytes(range(size))))
            if f.qa.state != STATE.RTS:
                f.renew()


def wrong_headers(fabric, a, b):
    """Version, P_Key, padding and flags: what must be dropped is, and does not move the sequence number."""
    with forger(fabric, a, b) as f:
        for version in range(1, 16):
            f.send(f.path.frame(f.write(b"forgery!", version=version)))
        for pkey in (0, 0x7FFE, 0x8001, 0x1234):
            f.send(f.path.frame(f.write(b"forgery!", pkey=pkey)))
        for pad in (1, 2, 3):
            f.send(f.path.frame(bytes(f.bth("SEND_MIDDLE", pad=pad, psn=f.psn + 100))))
        check(not f.took(b"forgery!", seconds=0.3), "accepted")
        check_equal(f.qa.state, STATE.RTS, "state of the victim")


def wild_requests(fabric, a, b):
    """Well-formed requests for what may not be: the QP may die of them, the kernel may not."""
    with forger(fabric, a, b) as f:
        remote = f.memory.at()
        for name in ("WRITE_ONLY", "WRITE_FIRST", "WRITE_ONLY_IMM", "READ_REQUEST"):
            for addr, rkey, length in (
                (remote.addr, remote.rkey, 0xFFFFFFFF),
                (remote.addr, remote.rkey, 1 << 31),
                (2**64 - 1, remote.rkey, 2),
                (2**64 - 1, remote.rkey, 0),
                (remote.addr, 0xFFFFFFFF, 8),
                (remote.addr + 4096, remote.rkey, 1),
                (0, 0, 8),
            ):
                f.send(f.path.frame(bytes(f.bth(name)) + reth(addr, rkey, length) + bytes(8)))
                time.sleep(0.002)
                if f.qa.state != STATE.RTS:
                    f.renew()
                    remote = f.memory.at()
        for name in ("CMP_SWAP", "FETCH_ADD"):
            for addr in (remote.addr + 1, remote.addr + 4092, 2**64 - 8, 2**64 - 4):
                f.send(f.path.frame(bytes(f.bth(name)) + struct.pack("!QIQQ", addr, remote.rkey, 1, 2)))
                time.sleep(0.002)
                if f.qa.state != STATE.RTS:
                    f.renew()
                    remote = f.memory.at()


def wild_responses(fabric, a, b):
    """Responses that nobody asked for, and such as cannot be, while requests are outstanding."""
    with forger(fabric, a, b) as f:
        rng = random.Random(5)
        names = ("ACKNOWLEDGE", "ATOMIC_ACKNOWLEDGE", "READ_RESPONSE_ONLY", "READ_RESPONSE_FIRST", "READ_RESPONSE_LAST")
        for round_ in range(60):
            with contextlib.suppress(PyverbsError):
                f.qa.read([f.memory.sge(0, 3000)], f.memory.at())
                f.qa.send([f.memory.sge(0, 64)])
            for _ in range(8):
                aeth = bytes([rng.choice((0x1F, 0x20, 0x60, 0x62, 0x40, 0x7F, 0xFF, 0x9F))]) + rng.randbytes(3)
                psn = f.qa.psn + rng.choice((-1, 0, 1, 2, 3, 5, 1000, 1 << 23))
                bth = f.bth(rng.choice(names), psn=psn, ack=0, pad=rng.randrange(4))
                f.send(f.path.frame(bytes(bth) + aeth + rng.randbytes(rng.choice((0, 4, 8, 1024, 2000)))))
            f.qa.send_cq.poll(64)
            if f.qa.state != STATE.RTS:
                f.renew()


def mutated_packets(fabric, a, b, count=1500):
    """Good packets of all kinds with some bytes changed and the ICRC made good again."""
    with forger(fabric, a, b) as f:
        rng = random.Random(9)
        for number in range(count):
            opcode, (name, headers) = rng.choice(sorted(roce.OPCODES.items()))
            body = b""
            for header in headers:
                body += reth(*f.memory.at(), 8) if header == "reth" else rng.randbytes(roce.SIZES[header])
            body += rng.randbytes(rng.choice((0, 4, 8, 64, 1024, 1028, 4000)))
            transport = bytearray(bytes(f.bth("SEND_ONLY", opcode=opcode)) + body)
            for _ in range(rng.choice((0, 1, 1, 2, 4))):
                transport[rng.randrange(min(len(transport), 40))] = rng.randrange(256)
            f.send(f.path.frame(bytes(transport), options=bytes(rng.choice((0, 0, 0, 4, 40)))))
            if number % 20 == 19 and f.qa.state != STATE.RTS:
                f.renew()


def each_state(fabric, a, b):
    """Packets for a QP in every state it can be in, and for one that is being destroyed."""
    with forger(fabric, a, b) as f:
        for _ in range(3):
            for state in (STATE.RESET, STATE.INIT, STATE.RTR, STATE.ERR):
                f.qa.go(STATE.RESET)
                if state != STATE.RESET:
                    f.qa.to_init()
                if state == STATE.RTR:
                    f.qa.to_rtr(f.qb.peer)
                if state == STATE.ERR:
                    f.qa.go(STATE.ERR)
                for name in ("SEND_ONLY", "SEND_FIRST", "ACKNOWLEDGE", "READ_RESPONSE_ONLY"):
                    for _ in range(5):
                        f.send(f.path.frame(bytes(f.bth(name)) + bytes(1024)))
                f.send(f.path.frame(f.write(b"forgery!")))
            f.renew()


def flood_and_destroy(fabric, a, b):
    """Destroyed while packets for it pour in."""
    with forger(fabric, a, b) as f:
        for _ in range(10):
            stop = threading.Event()
            frames = [f.path.frame(f.write(b"forgery!", psn=f.psn + i)) for i in range(32)]

            def pour(frames=frames, stop=stop):
                while not stop.is_set():
                    for frame in frames:
                        f.send(frame)

            thread = threading.Thread(target=pour)
            thread.start()
            time.sleep(0.05)
            f.qa.close()
            stop.set()
            thread.join()
            f.qb.close()
            f.connect()


def main():
    suite = ktap.Suite("hostile")
    with Fabric() as fabric, fabric.open("a") as a, fabric.open("b") as b:

        def ring(name, attack, fatal_to_rxe=True, **options):
            # HOSTILE=1 in the environment tries those as well.
            spare = fatal_to_rxe and ktap.LINK_TYPE == "rxe" and not os.environ.get("HOSTILE")
            suite.add(f"rings: {name}", too_dangerous if spare else attacked, fabric, a, b, attack, **options)

        def packets(name, attack, **options):
            suite.add(f"packets: {name}", attack, fabric, a, b, **options)

        ring("operations that do not exist", bad_opcodes)
        ring("entries that make no sense", bad_entries)
        ring("calls that are the kernel's", posted_by_commands)
        ring("fields that are not the user's", stale_fields)
        ring("wild indices", wild_indices)
        ring("wild headers", wild_headers, may_crash=True)
        ring("random slots", random_slots)
        ring("mutated entries", mutated_entries)
        ring("a thread that scribbles", racing_thread, may_crash=True)
        ring("garbage from the reader of a CQ", consumer_garbage)
        ring("rings as memory for a peer", rings_as_memory, may_crash=True)
        ring("rings unmapped in use", unmapped, False, may_crash=True)
        ring("receivers that are never ready", never_ready, False, seconds=SOON)
        ring("killed in the middle", die_in_the_middle, False, may_crash=True)
        packets("a forged one is obeyed if all is right", forged_write)
        packets("past a gap", past_a_gap, rxe_differs="keeps nothing")
        packets("IP options", ip_options, rxe_differs="leaves the options out of the ICRC")
        packets("fragments", fragments)
        packets("wrong ICRC", bad_icrc)
        packets("truncated", truncated)
        packets("each opcode", each_opcode)
        packets("wrong version, P_Key, padding", wrong_headers)
        packets("wild requests", wild_requests, rxe_differs="warns")
        packets("wild responses", wild_responses, rxe_differs="warns")
        packets("mutated", mutated_packets, rxe_differs="warns")
        packets("for QPs in each state", each_state)
        packets("a flood while it is destroyed", flood_and_destroy)
        suite.run()


def too_dangerous(*_, **__):
    """The kernel of this VM would not survive it."""
    raise ktap.Skip("C rxe believes what is in the ring")


if __name__ == "__main__":
    main()
