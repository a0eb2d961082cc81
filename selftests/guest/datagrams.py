#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
# vm: TMO=900
"""Datagrams: who may send to whom, what is dropped in silence, and a request that fails stops the send
queue only."""

import contextlib
import pathlib
import select
import struct
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent / "lib"))

import ktap
from datagram import GRH, QKEY, WITH_GRH, UdAttr, UdQp, address_handle, check_header
from ktap import check, check_equal, patient
from pyverbs.cq import CompChannel
from pyverbs.pd import PD
from rdma import ATTR, SEND, SOON, STATE, STATUS, WC_OPCODE, WR, Fabric, Peer, expect_none, poll_for, statuses
from rings import RingedQp

SIZE = 8192
UNTOUCHED = 0x5A
IMM = 0x12345678


def pattern(length, seed):
    """The contents of a message."""
    return bytes((7 * i + seed) & 0xFF for i in range(length))


class Scene:
    """Two queue pairs, with memory at both ends."""

    def __init__(self, ends, kind=UdQp, **attr):
        self.ends, self.kind, self.attr = ends, kind, UdAttr(**attr)
        self.stack = contextlib.ExitStack()

    def __enter__(self):
        self.qa, self.qb = self.qp(self.ends[0], self.kind), self.qp(self.ends[1])
        self.here, self.buffer = self.region(self.qa.device), self.region(self.qb.device)
        return self

    def __exit__(self, *why):
        self.stack.__exit__(*why)

    def qp(self, device, kind=UdQp, **changes):
        """A queue pair that goes with the scene."""
        qp = kind(device, self.attr.with_(**changes))
        self.stack.callback(qp.close)
        qp.connect()
        return qp

    def region(self, device):
        """A region that goes with the scene."""
        region = device.region(SIZE)
        self.stack.callback(region.close)
        region.fill(UNTOUCHED)
        return region

    def message(self, length, seed=1):
        """The local part of a message with contents of its own."""
        self.here.write(pattern(length, seed))
        return self.here.sge(0, length)

    def send(self, length, imm=None, qkey=QKEY, flags=SEND.SIGNALED):
        """Send from a to b, with success."""
        self.qa.send_to(self.qb.peer, [self.message(length, seed=length)], imm, qkey, flags)
        self.qa.sent(1)

    def arrived(self, recv_id, length, imm=None, sender=None):
        """What has been sent last is in the receive of that number."""
        sender = sender or self.qa
        (received,) = self.qb.received(1)
        check_equal(
            (received.wr_id, received.opcode, received.byte_len, received.imm, received.src_qp),
            (recv_id, WC_OPCODE.RECV, GRH + length, imm, sender.qp.qp_num),
            "receive",
        )
        check(received.flags & WITH_GRH, "no GRH flag")
        check_header(self.buffer.read(GRH), sender.device.gid, self.qb.device.gid)
        check_equal(self.buffer.read(length, GRH), pattern(length, length), "contents")
        check_equal(self.buffer.read(8, GRH + length), bytes([UNTOUCHED]) * 8, "memory behind the message")
        self.buffer.fill(UNTOUCHED)

    def is_dropped(self, post, capacity=SIZE):
        """What is posted is sent with success, does not arrive, and does no harm to what follows."""
        recv_id = self.qb.recv([self.buffer.sge(0, capacity)])
        post()
        self.qa.sent(1)
        expect_none(self.qb.recv_cq)
        check_equal((self.qa.state, self.qb.state), (STATE.RTS, STATE.RTS), "states")
        self.send(100)
        self.arrived(recv_id, 100)


def wrong_qkey(ends):
    """A packet with another key is dropped; the key can be changed."""
    with Scene(ends) as scene:
        before = ends[1].ctx.query_port(1)
        scene.is_dropped(lambda: scene.qa.send_to(scene.qb.peer, [scene.here.sge(0, 8)], qkey=QKEY + 1))
        after = ends[1].ctx.query_port(1)
        check_equal(after.qkey_viol_cntr - before.qkey_viol_cntr, 1, "violations of queue keys")
        check_equal(after.bad_pkey_cntr - before.bad_pkey_cntr, 0, "violations of partition keys")
        scene.qb.modify(ATTR.QKEY, qkey=QKEY + 1)
        check_equal(scene.qb.qp.query(ATTR.QKEY)[0].qkey, QKEY + 1, "queue key")
        recv_id = scene.qb.recv([scene.buffer.sge()])
        scene.send(8, qkey=QKEY + 1)
        scene.arrived(recv_id, 8)


def controlled_qkey(ends):
    """The top bit in a request means: the key of the queue pair that sends."""
    with Scene(ends) as scene:
        for key in (0x80000000, 0xFFFFFFFF, QKEY | 1 << 31):
            recv_id = scene.qb.recv([scene.buffer.sge()])
            scene.send(8, qkey=key)
            scene.arrived(recv_id, 8)
        scene.qa.modify(ATTR.QKEY, qkey=0x22222222)
        scene.is_dropped(lambda: scene.qa.send_to(scene.qb.peer, [scene.here.sge(0, 8)], qkey=0x80000000))


def no_receive(ends):
    """There is no receive: the message is gone, and the sender does not know."""
    with Scene(ends) as scene:
        scene.send(64)
        expect_none(scene.qb.recv_cq, 0.05)
        recv_id = scene.qb.recv([scene.buffer.sge()])
        scene.send(65)
        scene.arrived(recv_id, 65)


def too_long_to_receive(ends):
    """A message longer than the receive, with or without its header."""
    with Scene(ends) as scene:
        for capacity, length in ((GRH + 100, 101), (GRH + 100, 4000), (GRH + 100, GRH + 100)):
            post = lambda: scene.qa.send_to(scene.qb.peer, [scene.message(length)])
            scene.is_dropped(post, capacity)


def no_room_for_header(ends):
    """A receive that cannot hold the header takes nothing, not even an empty message."""
    with Scene(ends) as scene:
        for capacity in (0, GRH - 1):
            scene.qb.recv([scene.buffer.sge(0, capacity)] if capacity else [])
            scene.send(0)
            expect_none(scene.qb.recv_cq, 0.05)
            check_equal(scene.qb.state, STATE.RTS, "state")
            scene.qb.go(STATE.ERR)
            poll_for(scene.qb.recv_cq, 1)
            scene.qb.go(STATE.RESET)
            scene.qb.connect()


def too_long_to_send(ends):
    """A message longer than the port's MTU is done and not sent."""
    with Scene(ends) as scene:
        for length in (4097, SIZE):
            scene.is_dropped(lambda: scene.qa.send_to(scene.qb.peer, [scene.here.sge(0, length)]))


def notifications(ends):
    """Who waits for solicited completions is woken by those only."""
    with contextlib.closing(CompChannel(ends[1].ctx)) as channel, Scene(ends) as scene:
        waiting = UdQp(ends[1], channels=(None, channel))
        waiting.connect()
        waiting.recv_cq.req_notify(True)
        for flags, seconds, woken in ((0, 0.3, False), (SEND.SOLICITED, patient(SOON), True)):
            for imm in (None, IMM):
                waiting.recv([scene.buffer.sge()])
                scene.qa.send_to(waiting.peer, [], imm, flags=SEND.SIGNALED | flags)
                scene.qa.sent(1)
                waiting.received(1)
                check_equal(bool(select.select([channel.fd], [], [], seconds)[0]), woken, f"event with flags {flags}")
                if woken:
                    channel.get_cq_event(waiting.recv_cq)
                    waiting.recv_cq.req_notify(True)
        waiting.close()


def many_senders(ends):
    """Several queue pairs of both devices send to one."""
    with Scene(ends, recv_wr=64) as scene:
        senders = [scene.qp(device) for device in ends for _ in range(5)]
        for number, sender in enumerate(senders * 3):
            recv_id = scene.qb.recv([scene.buffer.sge()])
            region = scene.here if sender.device is ends[0] else scene.region(sender.device)
            region.write(pattern(number, number))
            sender.send_to(scene.qb.peer, [region.sge(0, number)])
            sender.sent(1)
            scene.arrived(recv_id, number, sender=sender)


def many_receivers(ends):
    """One queue pair sends to several, by one handle."""
    with Scene(ends) as scene:
        others = [scene.qp(ends[1]) for _ in range(5)]
        for number, other in enumerate(others):
            other.recv([scene.buffer.sge()])
            scene.qa.send_to(other.peer, [scene.message(number)])
            scene.qa.sent(1)
            (received,) = other.received(1)
            check_equal(received.byte_len, GRH + number, "length")


def burst(ends, count=192):
    """As many as one turn sends, in one list."""
    with Scene(ends, send_wr=count, recv_wr=count) as scene:
        numbers = [scene.qb.recv([scene.buffer.sge(0, GRH + 64)]) for _ in range(count)]
        for _ in range(count):
            scene.qa.send_to(scene.qb.peer, [scene.here.sge(0, 64)])
        scene.qa.sent(count)
        check_equal([done.wr_id for done in scene.qb.received(count)], numbers, "receives")


def bad_post(scene, kind):
    """A request that fails, and the status it fails with."""
    wrong = scene.message(100)
    wrong.lkey ^= 1
    good = scene.here.sge(0, 8)
    to = scene.qa.way_to(scene.qb.device.gid), scene.qb.qp.qp_num, QKEY
    posts = {
        "local protection": (lambda: scene.qa.send_to(scene.qb.peer, [wrong]), STATUS.LOC_PROT_ERR),
        "QP number of 25 bits": (
            lambda: scene.qa.post(WR.SEND, [good], datagram=(to[0], 1 << 24, QKEY)),
            STATUS.LOC_QP_OP_ERR,
        ),
        "WRITE": (lambda: scene.qa.post(WR.RDMA_WRITE, [good], datagram=to), STATUS.LOC_QP_OP_ERR),
    }
    post, status = posts[kind]
    return post(), status


def stalls(ends, kind):
    """The send queue stands in SQE, the receive queue goes on, and RTS brings all back."""
    with Scene(ends) as scene:
        qa, qb = scene.qa, scene.qb
        waiting = qa.recv([scene.here.sge(4096)])
        bad, status = bad_post(scene, kind)
        behind = [qa.send_to(qb.peer, [scene.here.sge(0, 8)]) for _ in range(3)]
        wanted = [(bad, status)] + [(number, STATUS.WR_FLUSH_ERR) for number in behind]
        check_equal(statuses(poll_for(qa.send_cq, 4)), wanted, "send completions")
        check_equal((qa.state, qb.state), (STATE.SQE, STATE.RTS), "states")

        number = qa.send_to(qb.peer, [scene.here.sge(0, 8)])
        check_equal(statuses(poll_for(qa.send_cq, 1)), [(number, STATUS.WR_FLUSH_ERR)], "posted in SQE")
        qb.send_to(qa.peer, [scene.buffer.sge(0, 100)])
        qb.sent(1)
        check_equal([done.wr_id for done in qa.received(1)], [waiting], "receive in SQE")

        qa.modify(ATTR.STATE | ATTR.CUR_STATE, qp_state=STATE.RTS, cur_qp_state=STATE.SQE)
        check_equal(qa.state, STATE.RTS, "state")
        recv_id = qb.recv([scene.buffer.sge()])
        scene.send(500)
        scene.buffer.fill(UNTOUCHED, offset=GRH + 500)
        scene.arrived(recv_id, 500)


def bad_receive(ends):
    """A receive at fault is its owner's mistake: its status, and the end of the queue pair."""
    with Scene(ends) as scene:
        sge = scene.buffer.sge()
        sge.lkey ^= 1
        number, behind = scene.qb.recv([sge]), scene.qb.recv()
        scene.send(64)
        wanted = [(number, STATUS.LOC_PROT_ERR), (behind, STATUS.WR_FLUSH_ERR)]
        check_equal(statuses(poll_for(scene.qb.recv_cq, 2)), wanted, "receives")
        check_equal((scene.qa.state, scene.qb.state), (STATE.RTS, STATE.ERR), "states")


def datagram_wqe(handle, qpn=1, wr_id=7):
    """A send queue entry without data, as librxe makes it."""
    wr = struct.pack("<QIIII", wr_id, 0, WR.SEND, SEND.SIGNALED, 0)
    wr += struct.pack("<IIHHI", qpn, QKEY, 0, 0, handle)
    return wr.ljust(208, b"\0")


class RingedUdQp(UdQp, RingedQp):
    """A datagram QP with its rings."""


def hostile_handles(ends):
    """Numbers of handles that are not there, are gone, or belong to another protection domain."""
    with Scene(ends, kind=RingedUdQp) as scene, contextlib.closing(PD(ends[0].ctx)) as pd:
        scene.send(8)
        number = struct.unpack_from("<I", scene.qa.sq.read(0), 36)[0]
        check(number, "no number in the request of the user library")
        foreign = address_handle(ends[0], ends[1].gid, pd=pd)
        wrong = [0, number + 1, number + 1000, 0x7FFFFFFF, 0x80000000, 0xFFFFFFFF]
        for handle in wrong:
            scene.qa.sq.post(datagram_wqe(handle, scene.qb.qp.qp_num))
            check_equal(scene.qa.doorbell(), 0, "doorbell")
            check_equal(statuses(poll_for(scene.qa.send_cq, 1)), [(7, STATUS.LOC_QP_OP_ERR)], f"handle {handle:#x}")
            scene.qa.go(STATE.RTS)
        foreign.close()
        recv_id = scene.qb.recv([scene.buffer.sge()])
        scene.qa.sq.post(datagram_wqe(number, scene.qb.qp.qp_num))
        check_equal(scene.qa.doorbell(), 0, "doorbell")
        scene.qa.sent(1)
        scene.arrived(recv_id, 0)
        scene.qa.way_to(ends[1].gid).close()
        scene.qa.handles.clear()
        scene.qa.sq.post(datagram_wqe(number, scene.qb.qp.qp_num))
        check_equal(scene.qa.doorbell(), 0, "doorbell")
        check_equal(statuses(poll_for(scene.qa.send_cq, 1)), [(7, STATUS.LOC_QP_OP_ERR)], "handle that is gone")


def no_such_peer(ends):
    """Datagrams to a queue pair, or an address, that is not there are sent and lost."""
    with Scene(ends) as scene:
        scene.is_dropped(lambda: scene.qa.send_to(Peer(ends[1].gid, 0xFFFFF0, 0), [scene.here.sge(0, 8)]))


def other_services(ends):
    """Datagrams and connections do not mix."""
    with Scene(ends) as scene:
        to = scene.qa.way_to(scene.qb.device.gid), scene.qb.qp.qp_num, QKEY
        for opcode in (WR.RDMA_WRITE_WITH_IMM, WR.RDMA_READ, WR.ATOMIC_FETCH_AND_ADD, WR.SEND_WITH_INV):
            number = scene.qa.post(opcode, [scene.here.sge(0, 8)], datagram=to)
            check_equal(statuses(poll_for(scene.qa.send_cq, 1)), [(number, STATUS.LOC_QP_OP_ERR)], opcode.name)
            scene.qa.go(STATE.RTS)


def main():
    suite = ktap.Suite("datagrams")
    with Fabric() as fabric, contextlib.ExitStack() as stack:
        ends = [stack.enter_context(fabric.open(side, 6)) for side in "ab"]
        suite.add("wrong queue key", wrong_qkey, ends)
        suite.add("controlled queue key", controlled_qkey, ends, rxe_differs="sends the key of the request")
        suite.add("no receive", no_receive, ends)
        suite.add("SEND longer than the receive", too_long_to_receive, ends)
        suite.add("receive without room for the header", no_room_for_header, ends)
        suite.add("SEND longer than the MTU", too_long_to_send, ends)
        suite.add("solicited events", notifications, ends)
        suite.add("many senders", many_senders, ends)
        suite.add("many receivers", many_receivers, ends)
        suite.add("burst", burst, ends)
        for kind in ("local protection", "QP number of 25 bits", "WRITE"):
            suite.add(f"SQE and back: {kind}", stalls, ends, kind, rxe_differs="goes to ERR")
        suite.add("operations of connections", other_services, ends, rxe_differs="goes to ERR")
        suite.add("receive buffer with a bad lkey", bad_receive, ends, rxe_differs="LOC_QP_OP_ERR")
        suite.add("handles that are not there", hostile_handles, ends, rxe_differs="goes to ERR")
        suite.add("no such peer", no_such_peer, ends)
        suite.run()


if __name__ == "__main__":
    main()
