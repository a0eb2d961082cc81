# SPDX-License-Identifier: GPL-2.0
"""Single operations of a connection or between datagram QPs, of which everything is known beforehand.

An operation is posted by one of the functions here, and says what has to complete.  A Scene compares:
each field of each completion of both ends, and each byte of the memory of both ends.

    scene = Scene(qa, qb, length)
    scene.finish([send(scene, 100, SEVERAL), read(scene, 5000, WHOLE)], "both")
"""

import random
import socket
import struct
import typing

from datagram import GRH, WITH_GRH, check_header
from ktap import check, check_equal
from rdma import (
    ACCESS,
    ALL_ACCESS,
    MW_TYPE,
    SELECTIVITY,
    SEND,
    STATUS,
    WC_OPCODE,
    WITH_IMM,
    WITH_INV,
    WR,
    Completion,
    UcQp,
    comes_true,
    expect_none,
)

# Of queue pairs and of memory.
RIGHTS = ALL_ACCESS | ACCESS.FLUSH_GLOBAL
MEMORY_RIGHTS = RIGHTS | ACCESS.MW_BIND

UNTOUCHED = 0x5A
# Between pieces of memory: what follows has another alignment.
GAP = 33
ALIGNMENT = 64
IMM = 0x12345678
MASK64 = (1 << 64) - 1


class Layout(typing.NamedTuple):
    """In how many pieces a message lies, at the end that posts and where it is received."""

    name: str
    local: int
    remote: int
    flags: int = SEND.SIGNALED


WHOLE = Layout("whole", 1, 1)
SEVERAL = Layout("in pieces", 4, 3)
INLINE = Layout("inline", 3, 2, SEND.SIGNALED | SEND.INLINE)


class Memory:
    """Registered memory, and what has to be in it."""

    def __init__(self, device, length):
        self.region = device.region(length, MEMORY_RIGHTS)
        self.clear()

    def clear(self):
        """Forget what is in it."""
        self.model = bytearray([UNTOUCHED]) * self.region.length
        self.region.write(self.model)
        self.used = ALIGNMENT
        self.headers = []

    def pieces(self, size, parts):
        """Offset and length of the next unused pieces that hold so many bytes."""
        marks = [size * part // parts for part in range(parts + 1)]
        start = self.used
        found = [(start + mark + GAP * part, marks[part + 1] - mark) for part, mark in enumerate(marks[:-1])]
        end = start + size + GAP * parts
        self.used = -(-end // ALIGNMENT) * ALIGNMENT
        check(self.used <= self.region.length, "test uses more memory than there is")
        return found

    def expect(self, data, pieces):
        """These bytes are to be there."""
        for offset, length in pieces:
            self.model[offset : offset + length], data = data[:length], data[length:]

    def hold(self, data, parts=1):
        """Store bytes; returns where."""
        pieces = self.pieces(len(data), parts)
        self.expect(data, pieces)
        for offset, length in pieces:
            self.region.write(self.model[offset : offset + length], offset)
        return pieces

    def await_(self, data, parts=1):
        """Have bytes arrive; returns where."""
        pieces = self.pieces(len(data), parts)
        self.expect(data, pieces)
        return pieces

    def await_header(self, source, target):
        """Have the header of a datagram arrive; returns where."""
        pieces = self.pieces(GRH, 1)
        self.headers.append((pieces[0][0], source, target))
        return pieces

    def sges(self, pieces):
        """The scatter/gather entries of pieces."""
        return [self.region.sge(*piece) for piece in pieces]

    def at(self, pieces):
        """The address of the first, for the peer."""
        return self.region.at(pieces[0][0])

    def is_filled(self):
        """Is all there that was to arrive?"""
        return self.region.read(self.region.length) == bytes(self.model)

    def compare(self, what):
        """It is as it has to be."""
        for offset, *ends in self.headers:
            header = self.region.read(GRH, offset)
            check_header(header, *ends)
            self.model[offset : offset + GRH] = header
        found = self.region.read(self.region.length)
        if found != bytes(self.model):
            first = next(i for i, (x, y) in enumerate(zip(found, self.model)) if x != y)
            check(False, f"{what}: memory differs from offset {first} on")

    def close(self):
        """Deregister it."""
        self.region.close()


class Scene:
    """Two QPs and their memory. Operations go from a to b."""

    def __init__(self, qa, qb, length, seed=1):
        self.qa, self.qb = qa, qb
        self.here, self.there = Memory(qa.device, length), Memory(qb.device, length)
        self.random = random.Random(seed)
        self.window = None

    def bytes(self, size):
        """Contents for a message."""
        return self.random.randbytes(size)

    def bound(self):
        """The key of a window on memory of b."""
        self.window = self.window or self.qb.device.window(MW_TYPE.TYPE_2)
        number = self.window.bind(self.qb, self.there.region)
        check_equal(self.qb.sent(1)[0].wr_id, number, "binding")
        return self.window.key

    def sends(self, number, opcode, size):
        """What completes at a."""
        return Completion(number, STATUS.SUCCESS, opcode, size, None, 0, self.qa.qp.qp_num, 0)

    def receives(self, number, opcode, size, imm=None, key=None):
        """What completes at b."""
        flags = (WITH_IMM if imm is not None else 0) | (WITH_INV if key is not None else 0)
        return Completion(number, STATUS.SUCCESS, opcode, size, imm, flags, self.qb.qp.qp_num, 0, key)

    def finish(self, posted, what):
        """Wait for what was posted, and compare everything."""
        sent, received = ([c for c in completions if c] for completions in zip(*posted))
        check_equal(self.qa.sent(len(sent)), sent, f"{what}: completions of the sender")
        check_equal(self.qb.received(len(received)), received, f"{what}: completions of the receiver")
        if self.qa.TYPE == UcQp.TYPE:
            # A WRITE that nobody answers is complete when it has been sent.
            comes_true(self.there.is_filled)
        for memory, whose in ((self.here, "sender"), (self.there, "receiver")):
            memory.compare(f"{what}: {whose}")
            memory.clear()

    def nothing_more(self):
        """Nothing completes that was not expected."""
        for cq in (self.qa.send_cq, self.qa.recv_cq, self.qb.send_cq, self.qb.recv_cq):
            expect_none(cq, 0.05)

    def close(self):
        """Deregister the memory."""
        for thing in (self.window, self.here, self.there):
            if thing:
                thing.close()


# Each returns what completes at a, and what at b.


def send(scene, size, layout, imm=None):
    """SEND."""
    data = scene.bytes(size)
    number = scene.qb.recv(scene.there.sges(scene.there.await_(data, layout.remote)))
    posted = scene.qa.send(scene.here.sges(scene.here.hold(data, layout.local)), imm, layout.flags)
    return scene.sends(posted, WC_OPCODE.SEND, size), scene.receives(number, WC_OPCODE.RECV, size, imm)


def send_imm(scene, size, layout):
    """SEND with immediate."""
    return send(scene, size, layout, IMM)


def send_inv(scene, size, layout):
    """SEND with invalidate."""
    key, data = scene.bound(), scene.bytes(size)
    number = scene.qb.recv(scene.there.sges(scene.there.await_(data, layout.remote)))
    local = scene.here.sges(scene.here.hold(data, layout.local))
    posted = scene.qa.post(WR.SEND_WITH_INV, local, imm=socket.ntohl(key), flags=layout.flags)
    return scene.sends(posted, WC_OPCODE.SEND, size), scene.receives(number, WC_OPCODE.RECV, size, key=key)


def write(scene, size, layout):
    """RDMA WRITE."""
    data = scene.bytes(size)
    remote = scene.there.at(scene.there.await_(data))
    posted = scene.qa.write(scene.here.sges(scene.here.hold(data, layout.local)), remote, flags=layout.flags)
    return scene.sends(posted, WC_OPCODE.RDMA_WRITE, size), None


def write_imm(scene, size, layout):
    """RDMA WRITE with immediate; the memory of the receive stays as it is."""
    data = scene.bytes(size)
    unused = scene.there.pieces(size, layout.remote)
    number = scene.qb.recv(scene.there.sges(unused))
    remote = scene.there.at(scene.there.await_(data))
    posted = scene.qa.write(scene.here.sges(scene.here.hold(data, layout.local)), remote, IMM, layout.flags)
    received = scene.receives(number, WC_OPCODE.RECV_RDMA_WITH_IMM, size, IMM)
    return scene.sends(posted, WC_OPCODE.RDMA_WRITE, size), received


def read(scene, size, layout):
    """RDMA READ."""
    data = scene.bytes(size)
    remote = scene.there.at(scene.there.hold(data))
    posted = scene.qa.read(scene.here.sges(scene.here.await_(data, layout.local)), remote)
    return scene.sends(posted, WC_OPCODE.RDMA_READ, size), None


def atomic(scene, layout, opcode, completed, operands, result):
    """An atomic on a word of its own, given what makes operands of the word, and the new word."""
    old = scene.random.getrandbits(64)
    numbers = operands(old)
    place = scene.there.hold(struct.pack("<Q", old))
    scene.there.expect(struct.pack("<Q", result(old, *numbers)), place)
    local = scene.here.sges(scene.here.await_(struct.pack("<Q", old), layout.local))
    posted = scene.qa.post(opcode, local, scene.there.at(place), atomic=numbers)
    return scene.sends(posted, completed, 8), None


def fetch_add(scene, layout):
    """FETCH & ADD."""
    return atomic(
        scene,
        layout,
        WR.ATOMIC_FETCH_AND_ADD,
        WC_OPCODE.FETCH_ADD,
        lambda old: (scene.random.getrandbits(64),),
        lambda old, add: old + add & MASK64,
    )


def cmp_swp(scene, layout, difference=0):
    """CMP & SWAP, of a word that differs from what it is compared with."""
    return atomic(
        scene,
        layout,
        WR.ATOMIC_CMP_AND_SWP,
        WC_OPCODE.COMP_SWAP,
        lambda old: (old ^ difference, scene.random.getrandbits(64)),
        lambda old, compare, swap: swap if old == compare else old,
    )


def cmp_swp_unequal(scene, layout):
    """CMP & SWAP that does not swap."""
    return cmp_swp(scene, layout, 1)


def atomic_write(scene):
    """ATOMIC WRITE."""
    data = scene.bytes(8)
    posted = scene.qa.atomic_write(scene.there.at(scene.there.await_(data)), data)
    return scene.sends(posted, WC_OPCODE.ATOMIC_WRITE, 8), None


def flush(scene, size):
    """FLUSH of a range."""
    place = scene.there.hold(scene.bytes(size))
    return scene.sends(scene.qa.flush(scene.there.at(place), size), WC_OPCODE.FLUSH, 0), None


def flush_region(scene):
    """FLUSH of all of a region."""
    posted = scene.qa.flush(scene.there.region.at(), 0, selectivity=SELECTIVITY.MR)
    return scene.sends(posted, WC_OPCODE.FLUSH, 0), None


def datagram(scene, peer, size, layout, imm=None):
    """SEND of a datagram to a QP or a group."""
    data = scene.bytes(size)
    pieces = scene.there.await_header(scene.qa.device.gid, peer.gid) + scene.there.await_(data, layout.remote)
    number = scene.qb.recv(scene.there.sges(pieces))
    local = scene.here.sges(scene.here.hold(data, layout.local))
    posted = scene.qa.send_to(peer, local, imm, flags=layout.flags)
    completed = scene.receives(number, WC_OPCODE.RECV, GRH + size, imm)
    received = completed._replace(flags=completed.flags | WITH_GRH, src_qp=scene.qa.qp.qp_num)
    return scene.sends(posted, WC_OPCODE.SEND, size), received
