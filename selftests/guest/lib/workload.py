# SPDX-License-Identifier: GPL-2.0
"""Every operation of a connection in both directions, each result compared.

A Stream is one direction: operations leave one QP in batches; the memory of both
sides is divided into as many slots as a batch has operations.  Byte patterns differ
from operation to operation, slots are surrounded by guard bytes, and atomics are
checked against a model of the counter that predicts each returned value, so that an
operation that is lost, repeated, torn or misplaced cannot go unseen.
"""

import random
import time

from ktap import check, check_equal, patient
from rdma import POLL_PAUSE, SOON, STATUS, WC_OPCODE, WITH_IMM, RcQp

KINDS = ("send", "send_imm", "write", "write_imm", "read", "cmp_swp", "fetch_add")
SIZES = (0, 1, 3, 4, 64, 255, 1023, 1024, 1025, 3000, 4096, 4097, 10000, 32768)

GUARD = 16
GUARD_BYTE = 0xA5
MASK64 = (1 << 64) - 1

SENT_OPCODE = {
    "send": WC_OPCODE.SEND,
    "send_imm": WC_OPCODE.SEND,
    "write": WC_OPCODE.RDMA_WRITE,
    "write_imm": WC_OPCODE.RDMA_WRITE,
    "read": WC_OPCODE.RDMA_READ,
    "cmp_swp": WC_OPCODE.COMP_SWAP,
    "fetch_add": WC_OPCODE.FETCH_ADD,
}
RECEIVED_OPCODE = {
    "send": WC_OPCODE.RECV,
    "send_imm": WC_OPCODE.RECV,
    "write_imm": WC_OPCODE.RECV_RDMA_WITH_IMM,
}


def operations(sizes=SIZES, kinds=KINDS, repeat=1):
    """All kinds in all sizes (atomics have but one)."""
    for _ in range(repeat):
        for size in sizes:
            for kind in kinds:
                yield kind, 8 if kind in ("cmp_swp", "fetch_add") else size


class Stream:
    """One direction."""

    def __init__(self, sender, receiver, seed, window=16, largest=max(SIZES)):
        self.sender, self.receiver, self.window = sender, receiver, window
        self.random = random.Random(seed)
        self.pool = self.random.randbytes(largest + 65536)
        self.pitch = largest + 2 * GUARD
        self.local = sender.device.region(self.pitch * window)
        self.remote = receiver.device.region(self.pitch * window)
        self.counters = receiver.device.region(64)
        self.counter = self.random.getrandbits(64)
        self.counters.set_word(self.counter)

    def start(self, batch):
        """Post a batch of (kind, size)."""
        self.batch = [Operation(self, slot, kind, size) for slot, (kind, size) in enumerate(batch)]
        for operation in self.batch:
            operation.prepare()
        for operation in self.batch:
            operation.post()

    def finish(self, seconds):
        """Wait for the batch and compare everything."""
        for operation, completion in zip(self.batch, self.sender.sent(len(self.batch), seconds)):
            operation.check_sent(completion)
        receiving = [o for o in self.batch if o.kind in RECEIVED_OPCODE]
        for operation, completion in zip(receiving, self.receiver.received(len(receiving), seconds)):
            operation.check_received(completion)
        for operation in self.batch:
            operation.check_memory()
        check_equal(self.counters.word(), self.counter, "the counter of the atomics")

    def close(self):
        """Deregister the memory."""
        for region in (self.local, self.remote, self.counters):
            region.close()


class Operation:
    """One operation in its slot."""

    def __init__(self, stream, slot, kind, size):
        self.stream, self.kind, self.size = stream, kind, size
        self.offset = slot * stream.pitch + GUARD
        start = stream.random.randrange(len(stream.pool) - size + 1)
        self.data = stream.pool[start : start + size]
        self.imm = stream.random.getrandbits(32)
        # Where the data comes from and goes to.
        self.source, self.target = stream.local, stream.remote
        if kind in ("read", "cmp_swp", "fetch_add"):
            self.source, self.target = self.target, self.source

    def __str__(self):
        return f"{self.kind} of {self.size} bytes"

    def prepare(self):
        """Set the memory of both sides, and post what receives."""
        self.target.fill(GUARD_BYTE, self.size + 2 * GUARD, self.offset - GUARD)
        self.source.write(self.data, self.offset)
        receiver = self.stream.receiver
        if self.kind in ("send", "send_imm"):
            self.recv_id = receiver.recv([self.target.sge(self.offset, self.size)])
        elif self.kind == "write_imm":
            self.recv_id = receiver.recv()

    def post(self):
        """Post it; for an atomic, first say what it must return."""
        stream, sender = self.stream, self.stream.sender
        here = stream.local.sge(self.offset, self.size)
        there = stream.remote.at(self.offset)
        if self.kind.startswith("send"):
            self.send_id = sender.send([here], imm=self.imm if self.kind == "send_imm" else None)
        elif self.kind.startswith("write"):
            self.send_id = sender.write([here], there, imm=self.imm if self.kind == "write_imm" else None)
        elif self.kind == "read":
            self.send_id = sender.read([here], there)
        else:
            self.data = stream.counter.to_bytes(8, "little")
            self.post_atomic(here, stream.counters.at())

    def post_atomic(self, here, there):
        stream, sender = self.stream, self.stream.sender
        operand = stream.random.getrandbits(64)
        if self.kind == "fetch_add":
            self.send_id = sender.fetch_add(here, there, operand)
            stream.counter = (stream.counter + operand) & MASK64
        elif stream.random.random() < 0.75:
            self.send_id = sender.cmp_swp(here, there, stream.counter, operand)
            stream.counter = operand
        else:  # one that compares unequal
            self.send_id = sender.cmp_swp(here, there, stream.counter ^ 1, operand)

    def check_sent(self, completion):
        """Compare the completion of the send queue."""
        check_equal(completion.wr_id, self.send_id, f"{self}: wr_id")
        check_equal(completion.status, STATUS.SUCCESS, f"{self}: status")
        check_equal(completion.opcode, SENT_OPCODE[self.kind], f"{self}: opcode")

    def check_received(self, completion):
        """Compare the completion of the receive queue."""
        check_equal(completion.wr_id, self.recv_id, f"{self}: wr_id of the receive")
        check_equal(completion.opcode, RECEIVED_OPCODE[self.kind], f"{self}: opcode of the receive")
        check_equal(completion.byte_len, self.size, f"{self}: byte_len")
        with_imm = WITH_IMM if self.kind.endswith("_imm") else 0
        check_equal(completion.flags & WITH_IMM, with_imm, f"{self}: WITH_IMM flag")
        if with_imm:
            check_equal(completion.imm, self.imm, f"{self}: immediate")

    def found(self):
        """The memory where the data goes, with the guards around it."""
        return self.target.read(self.size + 2 * GUARD, self.offset - GUARD)

    def arrive(self, wanted, seconds=SOON):
        """A WRITE that nobody answers is complete when it has been sent: wait until it is there."""
        if self.kind != "write" or self.stream.sender.TYPE == RcQp.TYPE:
            return
        deadline = time.monotonic() + patient(seconds)
        while self.found() != wanted and time.monotonic() < deadline:
            time.sleep(POLL_PAUSE)

    def check_memory(self):
        """Compare the data, and the guards around it."""
        guard = bytes([GUARD_BYTE]) * GUARD
        wanted = guard + self.data + guard
        self.arrive(wanted)
        found = self.found()
        if found != wanted:
            first = next(i for i, (x, y) in enumerate(zip(found, wanted)) if x != y) - GUARD
            check(False, f"{self}: bytes differ from offset {first} on")


def exercise(qa, qb, sizes=SIZES, kinds=KINDS, repeat=1, seed=1, window=16, seconds=SOON):
    """Run all operations in both directions of a connection at once; returns how many a direction did."""
    streams = [Stream(qa, qb, seed, window, max(sizes)), Stream(qb, qa, seed + 1, window, max(sizes))]
    todo = list(operations(sizes, kinds, repeat))
    random.Random(seed).shuffle(todo)
    try:
        for first in range(0, len(todo), window):
            batch = todo[first : first + window]
            for stream in streams:
                stream.start(batch)
            for stream in streams:
                stream.finish(seconds)
    finally:
        for stream in streams:
            stream.close()
    return len(todo)
