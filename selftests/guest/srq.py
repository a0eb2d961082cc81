#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
# vm: TMO=1200
"""Shared receive queues: who gets which request, what is left when a queue pair fails, the limit,
changes of size, and programs that corrupt them."""

import contextlib
import ctypes
import errno
import pathlib
import struct
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent / "lib"))

import ktap
import pyverbs.libibverbs_enums as e
from datagram import GRH, UdAttr, UdQp
from ktap import check, check_equal, patient
from lossy import spoiled
from pyverbs.cq import CQ
from pyverbs.pd import PD
from pyverbs.srq import SRQ, SrqInitAttrEx
from pyverbs.wr import SGE
from rdma import (
    ALL_ACCESS,
    ATTR,
    EVENT,
    SEND,
    SOON,
    STATE,
    STATUS,
    WC_OPCODE,
    Completion,
    Fabric,
    RcAttr,
    RcQp,
    Region,
    SharedQueue,
    UcQp,
    eventually,
    expect_none,
    in_order,
    on_one_processor,
    poll_for,
    refused,
    statuses,
)
from rings import CONSUMER, INDEX_MASK, PRODUCER, Ring, mappings

SIZE = 4096
NO_MORE = (errno.EINVAL, errno.ENOMEM, errno.ENOSPC)


def events(device, seconds=0.3):
    """The asynchronous events until none has come for a while."""
    found = []
    while (event := device.event(seconds)) is not None:
        found.append(event)
    return found


def event_comes(device, wanted, what):
    """The next event is this, and there is no other; a thread of the kernel tells of it when it gets to that."""
    check_equal([device.event(), *events(device)], [wanted], what)


def await_last(device):
    """The event that tells of the last request comes; what went wrong may be told first."""
    while (event := device.event()) != EVENT.QP_LAST_WQE_REACHED:
        check(event is not None, "no event")


def keeper(stack):
    """A function by which something is closed with a stack."""

    def keep(what):
        stack.callback(what.close)
        return what

    return keep


def slot_of(number):
    """Where the message of a receive request goes."""
    return (number - 1) % 64 * SIZE


class Scene:
    """Connections from A to B whose ends at B share one queue."""

    def __init__(self, ends, count=1, kind=RcQp, max_wr=64, pd=None, **attr):
        self.a, self.b = ends
        self.stack = contextlib.ExitStack()
        self.stack.enter_context(in_order(kind))
        self.attr = RcAttr(**{"rnr_retry": 7, "min_rnr_timer": 12, **attr})
        self.srq = self.keep(SharedQueue(self.b, max_wr, pd=pd))
        self.buffers = self.keep(Region(self.b, 64 * SIZE))
        self.here = self.keep(Region(self.a, 64 * SIZE))
        self.pairs = [self.connect(kind) for _ in range(count)]

    def __enter__(self):
        events(self.b, 0)
        events(self.a, 0)
        return self

    def __exit__(self, *why):
        self.stack.__exit__(*why)

    def keep(self, what):
        """Something to be closed with the scene."""
        self.stack.callback(what.close)
        return what

    def connect(self, kind=RcQp):
        """One more connection."""
        qa, qb = self.keep(kind(self.a, self.attr)), self.keep(kind(self.b, self.attr, srq=self.srq))
        qa.connect(qb.peer)
        qb.connect(qa.peer)
        return qa, qb

    def post(self, count=1, length=SIZE):
        """Post receives, each for its slot of the buffers; returns their numbers."""
        numbers = []
        for _ in range(count):
            numbers.append(self.srq.recv([self.buffers.sge(slot_of(self.srq.posted + 1), length)]))
        return numbers

    def message(self, seed, length):
        """The local part of a message with contents of its own."""
        offset = seed % 64 * SIZE
        self.here.write(pattern(seed, length), offset)
        return self.here.sge(offset, length)

    def arrived(self, number, seed, length):
        """What a receive has got must be the message of that seed."""
        check_equal(self.buffers.read(length, slot_of(number)), pattern(seed, length), f"message {seed}")


def pattern(seed, length):
    """The contents of a message."""
    return bytes((5 * i + 31 * seed) & 0xFF for i in range(length))


# The object.


def attributes(a, _):
    """The device says what it grants, and grants it; it refuses more."""
    limits = a.ctx.query_device()
    check(limits.max_srq >= 1024 and limits.max_srq_wr >= 8192 and limits.max_srq_sge >= 16, "limits of the device")
    check(limits.device_cap_flags & e.ibv_device_cap_flags.IBV_DEVICE_SRQ_RESIZE, "resizing is not offered")
    for max_wr, max_sge in ((1, 1), (1, 0), (100, 3), (limits.max_srq_wr, limits.max_srq_sge)):
        queue = SharedQueue(a, max_wr, max_sge)
        got_wr, got_sge, limit = queue.query()
        check(got_wr >= max_wr and got_sge >= max_sge, f"{got_wr}, {got_sge}: less than {max_wr}, {max_sge}")
        check_equal(limit, 0, "limit of a new queue")
        queue.close()
    for max_wr, max_sge in ((0, 1), (limits.max_srq_wr + 1, 1), (1, limits.max_srq_sge + 1), (1 << 31, 1)):
        with refused(*NO_MORE):
            SharedQueue(a, max_wr, max_sge)


def other_types(a, _):
    """Only basic ones: no tag matching."""
    with CQ(a.ctx, 16) as cq:
        # pyverbs has no names for the bits of the mask (enum ibv_srq_init_attr_mask).
        of_type, of_pd, of_cq, of_tm = 1, 2, 8, 16
        init = SrqInitAttrEx(max_wr=16, max_sge=1)
        init.srq_type, init.pd, init.cq, init.comp_mask = e.ibv_srq_type.IBV_SRQT_TM, a.pd, cq, of_type | of_pd | of_cq | of_tm
        init.max_num_tags = init.max_ops = 4
        with refused(errno.EOPNOTSUPP, errno.EINVAL):
            SRQ(a.ctx, init)
        init = SrqInitAttrEx(max_wr=16, max_sge=1)
        init.srq_type, init.pd, init.comp_mask = e.ibv_srq_type.IBV_SRQT_BASIC, a.pd, of_type | of_pd
        SRQ(a.ctx, init).close()


def many(a, _):
    """They are cheap."""
    queues = [SharedQueue(a, 16) for _ in range(200)]
    for queue in queues:
        queue.close()


def in_use(a, b):
    """A queue that a queue pair uses stays; its protection domain too."""
    destroy = ctypes.CDLL("libibverbs.so.1").ibv_destroy_srq
    destroy.argtypes = [ctypes.c_void_p]
    with Scene((a, b)) as scene:
        check_equal(destroy(scene.srq.srq.srq), errno.EBUSY, "ibv_destroy_srq")
        qa, qb = scene.pairs[0]
        scene.post()
        qa.send([scene.message(1, 100)])
        qa.sent(1)
        qb.received(1)


def no_own_queue(a, b):
    """A queue pair on a shared queue has none of its own, whatever it asks for."""
    limits = b.ctx.query_device()
    with Scene((a, b)) as scene:
        huge = RcQp(b, scene.attr.with_(recv_wr=limits.max_qp_wr + 1), srq=scene.srq)
        cap = huge.qp.query(0)[0].cap
        check_equal((cap.max_recv_wr, cap.max_recv_sge), (0, 0), "sizes of the receive queue")
        huge.to_init()
        with refused(errno.EINVAL):
            huge.recv([])
        huge.close()


# Messages.


def oldest_first(a, b, kind):
    """Each message takes the oldest request, whichever queue pair it comes to."""
    with Scene((a, b), count=4, kind=kind) as scene:
        for round_ in range(3):
            numbers = scene.post(16)
            for seed, number in enumerate(numbers):
                qa, qb = scene.pairs[seed % 4]
                qa.send([scene.message(seed, 100 + 60 * seed)], imm=seed)
                qa.sent(1)
                (done,) = qb.received(1)
                check_equal(
                    (done.wr_id, done.byte_len, done.imm, done.qp_num),
                    (number, 100 + 60 * seed, seed, qb.qp.qp_num),
                    f"receive {seed} of round {round_}",
                )
                scene.arrived(number, seed, 100 + 60 * seed)


def datagrams(a, b):
    """Datagrams to several queue pairs: in order, behind their headers. One that is too long for its
    request leaves it to the next one for the same queue pair; one for which there is none is lost."""
    with contextlib.ExitStack() as stack:
        stack.enter_context(on_one_processor())
        keep = keeper(stack)
        queue, buffers, here, header = keep(SharedQueue(b, 16)), keep(Region(b, 16 * SIZE)), keep(Region(a, SIZE)), keep(Region(b, GRH))
        sender, witness = keep(UdQp(a)), keep(UdQp(b))
        ends = [keep(UdQp(b, UdAttr(), srq=queue)) for _ in range(3)]
        for qp in (sender, witness, *ends):
            qp.connect()
        events(b, 0)

        def post(length=SIZE):
            return queue.recv([buffers.sge(queue.posted % 16 * SIZE, length)])

        def send(to, length):
            here.write(pattern(length, length))
            sender.send_to(to.peer, [here.sge(0, length)], imm=length)
            sender.sent(1)

        def is_lost(to, length):
            send(to, length)
            # When a datagram behind it is there, it has been.
            witness.recv([header.sge()])
            sender.send_to(witness.peer, [])
            sender.sent(1)
            witness.received(1)
            expect_none(to.recv_cq, 0)

        def arrives(to, number, length):
            (done,) = to.received(1)
            check_equal((done.wr_id, done.byte_len, done.imm), (number, length + GRH, length), "completion")
            check_equal(buffers.read(length, (number - 1) % 16 * SIZE + GRH), pattern(length, length), "data")

        is_lost(ends[0], 10)
        for round_ in range(30):
            to = ends[round_ % 3]
            number = post()
            send(to, 900 - round_)
            arrives(to, number, 900 - round_)
        first, second = post(140), post(140)
        is_lost(ends[0], 101)
        send(ends[1], 100)
        arrives(ends[1], second, 100)
        expect_none(ends[0].recv_cq, 0)
        send(ends[0], 99)
        arrives(ends[0], first, 99)
        third = post(140)
        is_lost(ends[2], 101)
        ends[2].go(STATE.ERR)
        event_comes(b, EVENT.QP_LAST_WQE_REACHED, "events")
        check_equal(statuses(poll_for(ends[2].recv_cq, 1)), [(third, STATUS.WR_FLUSH_ERR)], "the request that was held")


def at_once(a, b, fabric, netem, kind):
    """Messages of many packets to many queue pairs at once: none gets another one's request."""
    rounds, count = 4, 8
    with contextlib.ExitStack() as stack:
        scene = stack.enter_context(Scene((a, b), count, kind, min_rnr_timer=4))
        if netem:
            stack.enter_context(spoiled(fabric, netem))
        scene.post(rounds * count)
        for round_ in range(rounds):
            for i, (qa, _) in enumerate(scene.pairs):
                seed = round_ * count + i
                qa.send([scene.message(seed, SIZE - seed)], imm=seed)
        seen = set()
        for i, (qa, qb) in enumerate(scene.pairs):
            qa.sent(rounds)
            for round_, done in enumerate(qb.received(rounds)):
                seed = round_ * count + i
                check_equal((done.imm, done.byte_len), (seed, SIZE - seed), "immediate and length")
                check(done.wr_id not in seen, f"request {done.wr_id} has completed twice")
                seen.add(done.wr_id)
                scene.arrived(done.wr_id, seed, SIZE - seed)
        check_equal(seen, set(range(1, rounds * count + 1)), "requests that completed")


def with_immediate(a, b):
    """A WRITE takes nothing, one with immediate one request at its last packet."""
    with Scene((a, b), count=2) as scene:
        (qa, qb), (other, other_end) = scene.pairs
        target = scene.keep(Region(b, 64 * SIZE))
        qa.write([scene.message(1, SIZE)], target.at())
        qa.sent(1)
        first = qa.write([scene.message(2, SIZE)], target.at(), imm=2)
        eventually(lambda: target.read(SIZE - 1024) == pattern(2, SIZE - 1024), "the packets before the last one")
        expect_none(qa.send_cq)
        # The request goes to whoever needs it first; both wait, so that two are needed.
        other.write([], target.at(), imm=3)
        numbers = scene.post(2)
        check_equal(qa.sent(1)[0].wr_id, first, "wr_id")
        other.sent(1)
        (done,), (also,) = qb.received(1), other_end.received(1)
        check_equal({done.wr_id, also.wr_id}, set(numbers), "requests taken")
        check_equal((done.imm, done.byte_len, done.opcode), (2, SIZE, WC_OPCODE.RECV_RDMA_WITH_IMM), "completion")
        check_equal((also.imm, also.byte_len, also.opcode), (3, 0, WC_OPCODE.RECV_RDMA_WITH_IMM), "completion")
        check_equal(target.read(SIZE), pattern(2, SIZE), "data")


def not_ready(a, b):
    """An empty queue makes all senders wait; what is posted serves them."""
    with Scene((a, b), count=4) as scene:
        for i, (qa, _) in enumerate(scene.pairs):
            qa.send([scene.message(i, 3000)], imm=i)
        for qa, _ in scene.pairs:
            expect_none(qa.send_cq, 0.05)
        for served in range(1, 5):
            (number,) = scene.post()
            deadline = time.monotonic() + patient(SOON)
            while not (done := [c for _, qb in scene.pairs for c in map(Completion.of, qb.recv_cq.poll(1)[1])]):
                check(time.monotonic() < deadline, f"message {served} does not come")
            check_equal((done[0].wr_id, done[0].status), (number, STATUS.SUCCESS), "completion")
            scene.arrived(number, done[0].imm, 3000)
        for qa, _ in scene.pairs:
            qa.sent(1)


def retries_exhausted(a, b):
    """Without requests a sender that is not patient gives up; others do not care."""
    with Scene((a, b), count=2, rnr_retry=2, min_rnr_timer=1) as scene:
        (qa, _), (other, other_end) = scene.pairs
        number = qa.send([scene.message(1, 10)])
        check_equal(statuses(poll_for(qa.send_cq, 1)), [(number, STATUS.RNR_RETRY_EXC_ERR)], "completion")
        scene.post()
        other.send([scene.message(2, 10)])
        other.sent(1)
        other_end.received(1)


def busy_neighbours(a, b, busy, timer):
    """A program that posts one request at a time, and senders that always have more to say than the
    last one, and come again sooner when there was nothing: it is served as well."""
    with Scene((a, b), count=busy + 1, send_wr=16, min_rnr_timer=12) as scene:
        modest, modest_end = scene.pairs[-1]
        for _, qb in scene.pairs[:-1]:
            qb.modify(ATTR.MIN_RNR_TIMER, min_rnr_timer=timer)
        got = dict.fromkeys((qb.qp.qp_num for _, qb in scene.pairs), 0)
        under_way = dict.fromkeys(scene.pairs, 0)
        deadline = time.monotonic() + patient(2 * SOON)
        scene.post()
        while got[modest_end.qp.qp_num] < 20:
            check(time.monotonic() < deadline, f"messages received: {got}")
            for qa, qb in scene.pairs:
                while under_way[qa, qb] < (1 if qa is modest else 12):
                    qa.send([scene.here.sge(0, 8)])
                    under_way[qa, qb] += 1
                for done in map(Completion.of, qb.recv_cq.poll(16)[1]):
                    check_equal(done.status, STATUS.SUCCESS, "status")
                    got[qb.qp.qp_num] += 1
                    scene.post()
                for done in map(Completion.of, qa.send_cq.poll(16)[1]):
                    check_equal(done.status, STATUS.SUCCESS, "status")
                    under_way[qa, qb] -= 1
        ktap.comment(f"messages received: {list(got.values())}")


def domains(a, b):
    """Requests name memory of the queue's protection domain, the peer that of the queue pair's."""
    other = PD(b.ctx)
    with Scene((a, b), count=2, pd=other) as scene:
        (qa, qb), (bad, bad_end) = scene.pairs
        own = Region(b, SIZE)
        theirs = pd_region(b, other)
        scene.srq.recv([theirs.sge()])
        qa.send([scene.message(1, 100)])
        qa.sent(1)
        qb.received(1)
        check_equal(theirs.read(100), pattern(1, 100), "data")
        qa.write([scene.message(2, 100)], own.at())
        qa.sent(1)
        check_equal(own.read(100), pattern(2, 100), "data")
        number = scene.srq.recv([own.sge()])
        bad.send([scene.message(1, 100)])
        check_equal(statuses(poll_for(bad_end.recv_cq, 1)), [(number, STATUS.LOC_PROT_ERR)], "receive")
        check_equal(poll_for(bad.send_cq, 1)[0].status, STATUS.REM_OP_ERR, "send")
        own.close()
        theirs.close()
    other.close()


def pd_region(device, pd):
    """Memory of another protection domain of a device."""
    home, device.pd = device.pd, pd
    try:
        return Region(device, SIZE, ALL_ACCESS)
    finally:
        device.pd = home


# Errors.


def last_request(a, b, kind, why):
    """A queue pair that fails leaves the queue alone, and says once that it takes no more from it."""
    with Scene((a, b), count=2, kind=kind) as scene:
        (qa, qb), (other, other_end) = scene.pairs
        numbers = scene.post(3)
        why(scene, qa, qb)
        await_last(b)
        check(EVENT.QP_LAST_WQE_REACHED not in events(b), "told twice")
        check_equal(qb.state, STATE.ERR, "state")
        expect_none(qb.recv_cq)
        qb.go(STATE.ERR)
        check_equal(events(b), [], "events after a second change to ERR")
        for number in numbers:
            other.send([scene.message(number, 50)])
            other.sent(1)
            check_equal(other_end.received(1)[0].wr_id, number, "request")
        check_equal(events(b), [], "events of a queue pair that runs")
        # A second life, a second end.
        for qp in (qa, qb):
            qp.go(STATE.RESET)
            qp.renumber()
        check_equal(events(b), [], "events after RESET")
        qa.connect(qb.peer)
        qb.connect(qa.peer)
        (number,) = scene.post()
        qa.send([scene.message(9, 50)])
        qa.sent(1)
        check_equal(qb.received(1)[0].wr_id, number, "request")
        qb.go(STATE.ERR)
        event_comes(b, EVENT.QP_LAST_WQE_REACHED, "events of the second end")


def told(_scene, _qa, qb):
    """The consumer says so."""
    qb.go(STATE.ERR)


def peer_misbehaves(scene, qa, _qb):
    """The peer writes where it may not."""
    number = qa.write([scene.message(1, 8)], scene.buffers.at()._replace(rkey=0x12345600))
    check_equal(statuses(poll_for(qa.send_cq, 1)), [(number, STATUS.REM_ACCESS_ERR)], "write")


def own_send_fails(_scene, _qa, qb):
    """A send request of its own cannot be carried out."""
    number = qb.send([bad_sge(qb)])
    check_equal(statuses(poll_for(qb.send_cq, 1)), [(number, STATUS.LOC_PROT_ERR)], "send")


def bad_sge(qp):
    """An element with a key that is not there."""
    region = qp.device.region(64)
    return SGE(region.mr.buf, 64, region.mr.lkey ^ 0x5A5A00)


def from_init(a, b):
    """Also a queue pair that never received anything says so."""
    with Scene((a, b)) as scene:
        qp = scene.keep(RcQp(b, scene.attr, srq=scene.srq))
        scene.post()
        qp.to_init()
        qp.go(STATE.ERR)
        event_comes(b, EVENT.QP_LAST_WQE_REACHED, "events")
        expect_none(qp.recv_cq)


def held_is_flushed(a, b):
    """The request of a message that has begun is the queue pair's own: it is flushed, and the event
    comes after that."""
    with Scene((a, b), count=2) as scene:
        (qa, qb), (other, other_end) = scene.pairs
        scene.stack.enter_context(on_one_processor())
        held, next_ = scene.post(2)
        # The second half of the message can never be sent.
        source = scene.keep(Region(a, SIZE))
        number = qa.send([source.sge(0, 2048), bad_sge(qa)])
        check_equal(statuses(poll_for(qa.send_cq, 1)), [(number, STATUS.LOC_PROT_ERR)], "send")
        expect_none(qb.recv_cq)
        other.send([scene.message(1, 50)])
        other.sent(1)
        check_equal(other_end.received(1)[0].wr_id, next_, "request of the other")
        qb.go(STATE.ERR)
        check_equal(b.event(), EVENT.QP_LAST_WQE_REACHED, "event")
        # By then it has completed.
        done = [Completion.of(wc) for wc in qb.recv_cq.poll(4)[1]]
        check_equal(statuses(done), [(held, STATUS.WR_FLUSH_ERR)], "the request that was held")
        check_equal(events(b), [], "more events")


def too_short(a, b):
    """A message too long for its request costs that request and its queue pair only."""
    with Scene((a, b), count=2) as scene:
        (qa, qb), (other, other_end) = scene.pairs
        short, fine = scene.post(1, length=100) + scene.post(1)
        qa.send([scene.message(1, 101)])
        check_equal(poll_for(qa.send_cq, 1)[0].status, STATUS.REM_INV_REQ_ERR, "send")
        check_equal(statuses(poll_for(qb.recv_cq, 1)), [(short, STATUS.LOC_LEN_ERR)], "receive")
        await_last(b)
        other.send([scene.message(2, 101)])
        other.sent(1)
        check_equal(other_end.received(1)[0].wr_id, fine, "request of the other")


# The limit.


def limit(a, b):
    """One event when fewer requests are left than the limit, then none until it is set again."""
    with Scene((a, b)) as scene:
        qa, qb = scene.pairs[0]

        def message():
            qa.send([scene.message(1, 8)])
            qa.sent(1)
            qb.received(1)

        scene.post(10)
        scene.srq.arm(8)
        check_equal(scene.srq.query()[2], 8, "limit")
        message()
        message()
        check_equal(events(b), [], "events with 8 left")
        message()
        event_comes(b, EVENT.SRQ_LIMIT_REACHED, "events with 7 left")
        check_equal(scene.srq.query()[2], 0, "limit after the event")
        message()
        check_equal(events(b), [], "events after the first")
        # Set while there are fewer already: the next request that is taken tells.
        scene.srq.arm(20)
        check_equal(events(b), [], "events before anything is taken")
        message()
        event_comes(b, EVENT.SRQ_LIMIT_REACHED, "events with 5 left")
        scene.srq.arm(3)
        scene.srq.arm(0)
        for _ in range(5):
            message()
        check_equal(events(b), [], "events without a limit")
        with refused(errno.EINVAL):
            scene.srq.arm(scene.srq.query()[0] + 1)


# Changes of size.


def resize(a, b):
    """What is posted stays, in order, wherever in the ring it is; too small a size is refused."""
    with Scene((a, b), max_wr=15) as scene:
        qa, qb = scene.pairs[0]

        def message(number):
            qa.send([scene.message(number, 100)])
            qa.sent(1)
            check_equal(qb.received(1)[0].wr_id, number, "request")
            scene.arrived(number, number, 100)

        numbers = scene.post(12)
        for size in (15, 40, 9, 1000, 7, 31):
            for _ in range(5):
                message(numbers.pop(0))
            scene.srq.resize(size)
            check(scene.srq.query()[0] >= size, f"{scene.srq.query()[0]} fit, asked for {size}")
            numbers += scene.post(5 if len(numbers) + 5 <= scene.srq.query()[0] else 0)
            check(len(numbers) >= 5, "test is wrong")
        capacity = scene.srq.query()[0]
        numbers += scene.post(capacity - len(numbers))
        with refused(errno.ENOMEM):
            scene.post()
        with refused(errno.EINVAL):
            scene.srq.resize(len(numbers) // 2)
        check_equal(scene.srq.query()[0], capacity, "size after the refusal")
        for size in (0, b.ctx.query_device().max_srq_wr + 1):
            with refused(errno.EINVAL):
                scene.srq.resize(size)
        scene.srq.resize(100, limit=50)
        check_equal(scene.srq.query()[2], 50, "limit")
        with refused(errno.EINVAL):
            scene.srq.resize(31)
        with refused(errno.EINVAL):
            scene.srq.resize(100, limit=500)
        check_equal(scene.srq.query()[2], 50, "limit after the refusal")
        for number in numbers:
            message(number)


def resize_in_traffic(a, b):
    """Requests are taken while the queue changes: none is lost, none is used twice."""
    with Scene((a, b), count=4, max_wr=63, min_rnr_timer=2) as scene:
        todo = 240
        sent = posted = 0
        seen = []
        deadline = time.monotonic() + patient(2 * SOON)
        while len(seen) < todo:
            check(time.monotonic() < deadline, f"{len(seen)} of {todo}")
            while posted < todo and posted - len(seen) < 40:
                posted += len(scene.post())
            while sent < todo and sent - len(seen) < 32:
                scene.pairs[sent % 4][0].send([scene.here.sge(0, 3000)])
                sent += 1
            scene.srq.resize(63 + len(seen) % 200)
            for qa, qb in scene.pairs:
                qa.send_cq.poll(16)
                done = [Completion.of(wc) for wc in qb.recv_cq.poll(16)[1]]
                check(all(c.status == STATUS.SUCCESS for c in done), f"completions {done}")
                seen += [c.wr_id for c in done]
        check_equal(sorted(seen), list(range(1, todo + 1)), "requests that completed")


# Hostile programs.


class RingedQueue(SharedQueue):
    """A queue with its ring."""

    def __init__(self, device, max_wr=15, max_sge=4):
        before = mappings()
        super().__init__(device, max_wr, max_sge)
        ((address, size),) = mappings() - before
        self.ring = Ring(address, size)


def receive_wqe(wr_id, sges, num_sge=None):
    """An element of a receive queue (struct rxe_recv_wqe)."""
    length = sum(sge[1] for sge in sges)
    head = struct.pack("<QII", wr_id, 0, 0)
    dma = struct.pack("<IIIIII", length, length, 0, len(sges) if num_sge is None else num_sge, 0, 0)
    return head + dma + b"".join(struct.pack("<QII", *sge) for sge in sges)


def hostile_ring(a, b):
    """Rubbish in the ring costs the queue pair that takes it, and nobody else."""
    attr = RcAttr(rnr_retry=7, min_rnr_timer=2)
    with contextlib.ExitStack() as stack:
        keep = keeper(stack)
        queue, memory, source = keep(RingedQueue(b)), keep(Region(b, SIZE)), keep(Region(a, SIZE))
        good_sge = (memory.mr.buf, SIZE, memory.mr.lkey)
        for element, status in (
            (receive_wqe(1, [good_sge], num_sge=0xFFFFFFFF), STATUS.LOC_QP_OP_ERR),
            (receive_wqe(1, [good_sge], num_sge=5), STATUS.LOC_QP_OP_ERR),
            (receive_wqe(1, [(memory.mr.buf, SIZE, 0xDEADBEEF)]), STATUS.LOC_PROT_ERR),
            (receive_wqe(1, [(1 << 63, SIZE, memory.mr.lkey)]), STATUS.LOC_PROT_ERR),
            (receive_wqe(1, [(memory.mr.buf + SIZE - 50, SIZE, memory.mr.lkey)]), STATUS.LOC_PROT_ERR),
        ):
            bad = keep(RcQp(a, attr)), keep(RcQp(b, attr, srq=queue))
            fine = keep(RcQp(a, attr)), keep(RcQp(b, attr, srq=queue))
            for one, other in (bad, bad[::-1], fine, fine[::-1]):
                one.connect(other.peer)
            queue.ring.post(element)
            bad[0].send([source.sge(0, 100)])
            check_equal(statuses(poll_for(bad[1].recv_cq, 1)), [(1, status)], "receive")
            queue.recv([memory.sge()])
            fine[0].send([source.sge(0, 100)])
            fine[0].sent(1)
            fine[1].received(1)


def hostile_indices(a, b):
    """Any producer index means some requests; the kernel's own index cannot be moved."""
    attr = RcAttr(rnr_retry=7, min_rnr_timer=2)
    with contextlib.ExitStack() as stack:
        keep = keeper(stack)
        queue, memory, source = keep(RingedQueue(b)), keep(Region(b, SIZE)), keep(Region(a, SIZE))
        qa, qb = keep(RcQp(a, attr)), keep(RcQp(b, attr, srq=queue))
        qa.connect(qb.peer)
        qb.connect(qa.peer)
        for index in range(queue.ring.slots):
            queue.ring.write(index, receive_wqe(index, [(memory.mr.buf, SIZE, memory.mr.lkey)]))
        taken = 0
        for producer in (0xFFFFFFFF, 0x80000003, 5, 0x7FFFFFFF, 16, 1 << 20):
            queue.ring.set(PRODUCER, producer)
            queue.ring.set(CONSUMER, 0xABCDEF01)
            queue.ring.set(INDEX_MASK, 0xFFFFFFFF)
            left = (producer - taken) % 16
            for _ in range(left):
                qa.send([source.sge(0, 10)], flags=SEND.SIGNALED)
                qa.sent(1)
                check_equal(qb.received(1)[0].wr_id, taken % 16, "request")
                taken += 1
        queue.ring.set(INDEX_MASK, 15)
        queue.ring.set(PRODUCER, taken % 16)


def hostile_during_resize(a, b):
    """The old ring, if a program keeps it, does nothing any more."""
    queue = RingedQueue(b)
    libc = ctypes.CDLL(None)
    libc.mremap.restype = ctypes.c_void_p
    size, private = queue.ring.size, ctypes.c_size_t
    # Another mapping of the same pages, which the library does not know of.
    fixed = libc.mremap(ctypes.c_void_p(queue.ring.addr), private(0), private(size), 1)
    kept = fixed not in (None, ctypes.c_void_p(-1).value)
    qa, qb = RcQp(a, RcAttr(rnr_retry=7, min_rnr_timer=2)), RcQp(b, srq=queue)
    qa.connect(qb.peer)
    qb.connect(qa.peer)
    memory = b.region(64)
    queue.recv([memory.sge()])
    queue.resize(100)
    if kept:
        Ring(fixed, size).post(receive_wqe(77, [(memory.mr.buf, 64, memory.mr.lkey)]))
    qa.send([])
    qa.sent(1)
    check_equal(qb.received(1)[0].wr_id, 1, "request")
    number = qa.send([])
    expect_none(qa.send_cq)
    queue.recv([memory.sge()])
    check_equal(qa.sent(1)[0].wr_id, number, "send")
    check_equal(qb.received(1)[0].wr_id, 2, "request")
    for what in (qa, qb, queue, memory):
        what.close()


def bad_resize_address(a, _):
    """A change of size whose answer cannot be delivered changes nothing."""
    queue = SharedQueue(a, 15)
    before = queue.query()
    # struct ib_uverbs_modify_srq and the driver's mmap_info_addr, past the library.
    modify_srq = 33  # IB_USER_VERBS_CMD_MODIFY_SRQ
    handle = ctypes.c_uint32.from_address(queue.srq.srq + 24).value
    for address in (0, 8, 1 << 47, (1 << 64) - 8):
        command = struct.pack("<IHHIIIIQ", modify_srq, 8, 0, handle, 1, 100, 0, address)
        libc = ctypes.CDLL(None, use_errno=True)
        check_equal(libc.write(a.ctx.cmd_fd, command, len(command)), -1, "write")
        check_equal(ctypes.get_errno(), errno.EFAULT, f"error for address {address:#x}")
        check_equal(queue.query(), before, "attributes")
    short = struct.pack("<IHHIIII", modify_srq, 6, 0, handle, 1, 100, 0)
    check_equal(libc.write(a.ctx.cmd_fd, short, len(short)), -1, "write without an address")
    check_equal(queue.query(), before, "attributes")
    queue.close()


def main():
    suite = ktap.Suite("srq")
    with Fabric() as fabric, fabric.open("a") as a, fabric.open("b") as b:

        def add(name, func, *args, **options):
            suite.add(name, func, a, b, *args, **options)

        add("attributes", attributes)
        add("other types", other_types)
        add("many", many)
        add("in use", in_use)
        add("no receive queue besides", no_own_queue, rxe_differs="reports what was asked for")
        add("requests in order, RC", oldest_first, RcQp)
        add("requests in order, UC", oldest_first, UcQp)
        add("datagrams", datagrams, rxe_differs="fails on a datagram that is too long")
        add("long messages at once, RC", at_once, fabric, None, RcQp)
        add("long messages at once over a bad link", at_once, fabric, "loss 3% duplicate 2% delay 1ms reorder 5%", RcQp)
        add("write with immediate", with_immediate)
        add("not ready", not_ready)
        add("retries exhausted", retries_exhausted)
        add("a busy neighbour", busy_neighbours, 1, 12)
        add("busy neighbours in a hurry", busy_neighbours, 8, 1)
        add("protection domains", domains, rxe_differs="looks in the QP's domain")
        for kind in (RcQp, UcQp):
            name = kind.__name__[:2].upper()
            add(f"last request: told to, {name}", last_request, kind, told, rxe_differs="says so each time")
        add("last request: the peer misbehaves", last_request, RcQp, peer_misbehaves, rxe_differs="says so each time")
        add("last request: a send fails", last_request, RcQp, own_send_fails, rxe_differs="flushes what fails")
        add("last request: from INIT", from_init)
        add("a request that is held is flushed", held_is_flushed, rxe_differs="flushes what fails")
        add("a request that is too short", too_short, rxe_differs="calls it an operation error")
        add("limit", limit)
        add("resize", resize, rxe_differs="compares the limit with the old size")
        add("resize in traffic", resize_in_traffic)
        if ktap.LINK_TYPE == "rrxe":
            add("hostile requests", hostile_ring)
            add("hostile indices", hostile_indices)
            add("the ring from before a resize", hostile_during_resize)
            add("resize to a bad address", bad_resize_address)
        suite.run()


if __name__ == "__main__":
    main()
