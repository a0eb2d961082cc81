# SPDX-License-Identifier: GPL-2.0
"""The rings that librxe shares with the kernel, past librxe.

A ring begins with a header (log2 of the slot size, index mask, producer, consumer);
the slots follow.  See rdma_user_rxe.h of the kernel for the layouts.
"""

import ctypes
import dataclasses
import re
import struct

import uverbs
from ktap import check
from rdma import SEND, RcAttr, RcQp

POLL_CQ, POST_SEND, POST_RECV = 21, 28, 29  # IB_USER_VERBS_CMD_...
SIZEOF_SEND_WR = 128
HEADER = 384
LOG2_SIZE, INDEX_MASK, PRODUCER, CONSUMER = 0, 4, 128, 256


def mappings():
    """Where this process has mapped something of a verbs device: {(address, size)}."""
    found = set()
    with open("/proc/self/maps", encoding="ascii") as maps:
        for line in maps:
            if re.search(r"/uverbs\d+|\[infiniband", line):
                first, last = (int(x, 16) for x in line.split()[0].split("-"))
                found.add((first, last - first))
    return found


class Ring:
    """One ring."""

    def __init__(self, addr, size):
        self.addr, self.size = addr, size
        self.slot_size = 1 << self.get(LOG2_SIZE)
        self.slots = self.get(INDEX_MASK) + 1
        check(HEADER + self.slots * self.slot_size <= size, "ring does not fit in its mapping")

    def get(self, offset):
        """A word of the header."""
        return ctypes.c_uint32.from_address(self.addr + offset).value

    def set(self, offset, value):
        """Set a word of the header."""
        ctypes.c_uint32.from_address(self.addr + offset).value = value & 0xFFFFFFFF

    def read(self, index):
        """The bytes of a slot."""
        return ctypes.string_at(self.addr + HEADER + index % self.slots * self.slot_size, self.slot_size)

    def write(self, index, data):
        """Overwrite (the beginning of) a slot."""
        data = bytes(data[: self.slot_size])
        ctypes.memmove(self.addr + HEADER + index % self.slots * self.slot_size, data, len(data))

    def post(self, wqe):
        """Put an entry in the next slot, as librxe does."""
        producer = self.get(PRODUCER)
        self.write(producer, bytes(wqe))
        self.set(PRODUCER, (producer + 1) % self.slots)


@dataclasses.dataclass
class Wqe:
    """A send queue entry, every field of which may be wrong."""

    wr_id: int = 0
    opcode: int = 0
    flags: int = SEND.SIGNALED
    imm: int = 0
    remote: tuple = (0, 0)  # address, key
    sges: list = dataclasses.field(default_factory=list)  # (address, length, key)
    inline: bytes = b""
    # What librxe computes from the above.
    length: int = None
    resid: int = None
    cur_sge: int = 0
    num_sge: int = None
    sge_offset: int = 0
    iova: int = None
    # What the kernel keeps here, or might.
    status: int = 0
    state: int = 0
    mask: int = 0
    first_psn: int = 0
    last_psn: int = 0
    atomic: tuple = (0, 0)  # compare or add, swap
    flush: tuple = (1, 0)  # placement, selectivity
    binding: tuple = (0, 0, 0, 0, 0, 0)  # address, length, key of the region, of the window, new key, access

    def union(self):
        """The part that depends on the operation; atomics have their key elsewhere, bindings more of it all."""
        addr, key = self.remote
        if self.opcode in (5, 6):
            return struct.pack("<QQQI", addr, *self.atomic, key)
        if self.opcode == 14:
            return struct.pack("<QIIBB", addr, 0, key, *self.flush)
        if self.opcode == 8:
            return struct.pack("<QQIIII", *self.binding)
        return struct.pack("<QI", addr, key)

    def __bytes__(self):
        length = (len(self.inline) or sum(sge[1] for sge in self.sges)) % 2**32
        length = length if self.length is None else self.length
        wr = struct.pack("<QIIII", self.wr_id, 0, self.opcode, self.flags, self.imm) + self.union()
        head = struct.pack(
            "<IIQIIIIIIII",
            self.status,
            self.state,
            self.remote[0] if self.iova is None else self.iova,
            self.mask,
            self.first_psn,
            self.last_psn,
            0,  # ack_length
            0,  # ssn
            0,  # has_rd_atomic
            length,
            length if self.resid is None else self.resid,
        )
        head += struct.pack(
            "<IIII", self.cur_sge, len(self.sges) if self.num_sge is None else self.num_sge, self.sge_offset, 0
        )
        data = self.inline or b"".join(struct.pack("<QII", *sge) for sge in self.sges)
        return wr.ljust(144, b"\0") + head + data


class RingedQp(RcQp):
    """A QP with its rings: `sq`, `rq`, and those of its two completion queues in `cqs`."""

    def __init__(self, device, attr=RcAttr(), **options):
        before = mappings()
        # With so many entries the slots of each kind of queue differ in size.
        super().__init__(device, attr.with_(sge=8), **options)
        rings = sorted((Ring(*m) for m in mappings() - before), key=lambda r: r.slot_size)
        check(len(rings) == 4, f"found {len(rings)} rings of a QP and two CQs")
        *self.cqs, self.rq, self.sq = rings
        check(self.cqs[-1].slot_size < self.rq.slot_size < self.sq.slot_size, "cannot tell the rings apart")

    @property
    def handle(self):
        """The kernel's handle of the QP (struct ibv_qp: six pointers, then this)."""
        return ctypes.c_uint32.from_address(self.qp.qp + 48).value

    def doorbell(self):
        """Tell the kernel to look at the send queue; returns 0 or the error number."""
        return self.command(POST_SEND, struct.pack("<IIII", self.handle, 0, 0, SIZEOF_SEND_WR))

    @property
    def send_cq_handle(self):
        """The kernel's handle of the send CQ (struct ibv_cq: three pointers, then this)."""
        cq = ctypes.c_uint64.from_address(self.qp.qp + 24).value
        return ctypes.c_uint32.from_address(cq + 24).value

    def command(self, number, body, response_size=4):
        """Give the kernel a command of the write interface; returns 0 or the error number."""
        try:
            uverbs.command(self.device.ctx, number, body, response_size)
        except OSError as error:
            return error.errno
        return 0


def ringed_pair(a, b, attr=RcAttr(), **changes):
    """A connection, the first QP of which shows its rings."""
    attr = attr.with_(**changes)
    qa, qb = RingedQp(a, attr), RcQp(b, attr)
    qa.connect(qb.peer)
    qb.connect(qa.peer)
    return qa, qb
