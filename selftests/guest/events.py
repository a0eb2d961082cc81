#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
# vm: TMO=900
"""Asynchronous events: each when it is due, once, and none besides. Those of shared receive queues
are in srq.py, those of draining in states.py."""

import contextlib
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent / "lib"))

import ktap
import pyverbs.libibverbs_enums as e
from ktap import check_equal
from pyverbs.cq import CQ
from pyverbs.pyverbs_error import PyverbsRDMAError
from pyverbs.qp import QP, QPCap, QPInitAttr
from pyverbs.wr import SGE
from rdma import (
    EVENT,
    SOON,
    STATE,
    STATUS,
    Device,
    Fabric,
    RcAttr,
    RcQp,
    Remote,
    UcQp,
    ack_timeout,
    eventually,
    expect_none,
    pair,
    poll_for,
    shell,
)
from rings import Wqe, ringed_pair

ATOMIC_FETCH_AND_ADD = 6
PORT_ACTIVE, PORT_DOWN = e.ibv_port_state.IBV_PORT_ACTIVE, e.ibv_port_state.IBV_PORT_DOWN


def events(device, count=0, more=0.3):
    """All events until none has come for a while; so many are waited for longer.

    Changes of the GID table, which go with the addresses, are left out.
    """
    found = []
    while (event := device.event(more if len(found) >= count else SOON)) is not None:
        if event != EVENT.GID_CHANGE:
            found.append(event)
    return found


def quiet(*devices):
    """Forget what has happened so far."""
    for device in devices:
        while device.event(0) is not None:
            pass


def settled(device):
    """Wait until the network tells no more of the port's coming up, which it may do for a second."""
    events(device, more=1.5)


def await_up(end, netdev):
    """Wait until the network has told everybody that a network device is up."""
    up = lambda: end.run("cat", f"/sys/class/net/{netdev}/operstate").strip() == "up"
    eventually(up, f"{netdev} is up")


# Queue pairs.


def established(a, b, kind):
    """The first message to a queue pair in RTR is announced, the next ones are not; and so in its next
    life. One to a queue pair in RTS is no news."""
    qa, qb = kind(a), kind(b)
    quiet(a, b)
    for _ in range(2):
        qa.connect(qb.peer)
        qb.to_init()
        qb.to_rtr(qa.peer)
        check_equal(events(b), [], "events before a message")
        for _ in range(3):
            qb.recv()
            qa.send([])
        qa.sent(3)
        qb.received(3)
        check_equal(events(b, 1), [EVENT.COMM_EST], "events after some messages")
        qb.to_rts()
        qb.recv()
        qa.send([])
        qa.sent(1)
        qb.received(1)
        for qp in (qa, qb):
            qp.go(STATE.RESET)
    qa.connect(qb.peer)
    qb.connect(qa.peer)
    qb.recv()
    qa.send([])
    qa.sent(1)
    qb.received(1)
    check_equal(events(a) + events(b), [], "events in RTS")
    qa.close()
    qb.close()


def established_at_once(a, b):
    """A message that waits for the change to RTR is announced as well."""
    for _ in range(20):
        # It is sent again until then.
        qa, qb = RcQp(a), RcQp(b)
        quiet(b)
        qb.to_init()
        qb.recv()
        qa.connect(qb.peer)
        qa.send([])
        qb.to_rtr(qa.peer)
        qa.sent(1)
        qb.received(1)
        check_equal(events(b, 1, 0.02), [EVENT.COMM_EST], "events")
        qa.close()
        qb.close()


def request_error(a, b):
    """The peer asks for what makes no sense."""
    qa, qb = ringed_pair(a, b)
    here, there = a.region(8), b.region(64)
    quiet(a, b)
    for number in range(3):
        qa.sq.post(Wqe(wr_id=number, opcode=ATOMIC_FETCH_AND_ADD, remote=there.at(4), sges=[(here.mr.buf, 8, here.mr.lkey)]))
    qa.doorbell()
    check_equal(poll_for(qa.send_cq, 3)[0].status, STATUS.REM_INV_REQ_ERR, "atomic")
    check_equal(events(b, 1), [EVENT.QP_REQ_ERR], "events of the responder")
    check_equal(events(a), [], "events of the requester, whose completion tells")
    qa.close()
    qb.close()


def access_error(a, b):
    """The peer touches memory that it may not."""
    with pair(a, b) as (qa, qb):
        here = a.region(8)
        quiet(a, b)
        for _ in range(3):
            qa.write([here.sge()], Remote(here.mr.buf, 0x1234))
        check_equal(poll_for(qa.send_cq, 3)[0].status, STATUS.REM_ACCESS_ERR, "write")
        check_equal(events(b, 1), [EVENT.QP_ACCESS_ERR], "events of the responder")
        check_equal(events(a), [], "events of the requester, whose completion tells")


def told_by_completions(a, b):
    """What a completion tells, and what the consumer does itself, raises no event."""
    with pair(a, b) as (qa, qb):
        here = a.region(64)
        quiet(a, b)
        qa.send([SGE(here.mr.buf, 64, here.mr.lkey ^ 0x5A5A00)])
        check_equal(poll_for(qa.send_cq, 1)[0].status, STATUS.LOC_PROT_ERR, "send")
        qb.go(STATE.ERR)
        check_equal(events(a) + events(b), [], "events")
    with pair(a, b) as (qa, qb):
        quiet(a, b)
        short, here = b.region(8), a.region(64)
        number = qb.recv([short.sge()])
        qa.send([here.sge()])
        check_equal(poll_for(qb.recv_cq, 1)[0][:2], (number, STATUS.LOC_LEN_ERR), "receive that is too short")
        check_equal(events(a) + events(b), [], "events")


def ordinary_life(a, b):
    """Nothing happens: no events."""
    quiet(a, b)
    for kind in (RcQp, UcQp):
        with pair(a, b, kind=kind) as (qa, qb):
            here, there = a.region(4096), b.region(4096)
            for _ in range(5):
                qb.recv([there.sge()])
                qa.send([here.sge()])
                qa.write([here.sge()], there.at())
            qa.sent(10)
            qb.received(5)
            qa.go(STATE.SQD)
            qa.go(STATE.RTS)
            qa.go(STATE.RESET)
            qb.go(STATE.ERR)
    check_equal(events(a) + events(b), [], "events")


# Completion queues.


class Overrun:
    """Connections of A whose sends complete in one queue that is too small."""

    def __init__(self, a, b, count):
        self.stack = contextlib.ExitStack()
        self.small = self.keep(CQ(a.ctx, 1))
        self.other = self.keep(CQ(a.ctx, 64))
        self.pairs = []
        cap = QPCap(max_send_wr=64, max_recv_wr=16, max_send_sge=1, max_recv_sge=1)
        for _ in range(count):
            qa, qb = self.keep(RcQp(a)), self.keep(RcQp(b))
            qa.qp.close()
            qa.qp = QP(a.pd, QPInitAttr(qp_type=RcQp.TYPE, scq=self.small, rcq=self.other, cap=cap, sq_sig_all=1))
            qa.connect(qb.peer)
            qb.connect(qa.peer)
            self.pairs.append((qa, qb))
        quiet(a, b)

    def keep(self, what):
        """Something to be closed at the end."""
        self.stack.callback(what.close)
        return what

    def __enter__(self):
        return self

    def __exit__(self, *why):
        self.stack.__exit__(*why)


def overrun(a, b):
    """One event of the queue, one of each queue pair that cannot report any more; then silence."""
    here, there = a.region(8), b.region(8)
    with Overrun(a, b, 3) as scene:
        for qa, _ in scene.pairs:
            for _ in range(8):
                with contextlib.suppress(PyverbsRDMAError):
                    qa.write([here.sge()], there.at())
        found = events(a, 4)
        check_equal(found.count(EVENT.CQ_ERR), 1, f"CQ_ERR among {found}")
        check_equal(found.count(EVENT.QP_FATAL), 3, f"QP_FATAL among {found}")
        check_equal(len(found), 4, f"all of {found}")
        for qa, _ in scene.pairs:
            check_equal(qa.state, STATE.ERR, "state")
        # What fitted can be polled, and nothing comes after it, though there is room now.
        while scene.small.poll(16)[0]:
            pass
        for qa, _ in scene.pairs:
            for _ in range(4):
                with contextlib.suppress(PyverbsRDMAError):
                    qa.write([here.sge()], there.at())
        expect_none(scene.small)
        # Receives complete elsewhere, and are flushed.
        qa = scene.pairs[0][0]
        number = qa.recv([])
        check_equal(poll_for(scene.other, 1)[0][:2], (number, STATUS.WR_FLUSH_ERR), "receive")
        check_equal(events(a), [], "more events")


def overrun_of_receives(a, b):
    """Messages that cannot be reported: the same, and the peer is not told lies for long."""
    small = CQ(b.ctx, 1)
    qa, qb = RcQp(a, RcAttr(timeout=ack_timeout(18), retry_cnt=2)), RcQp(b)
    qb.qp.close()
    cap = QPCap(max_send_wr=16, max_recv_wr=64, max_send_sge=1, max_recv_sge=1)
    qb.qp = QP(b.pd, QPInitAttr(qp_type=RcQp.TYPE, scq=qb.send_cq, rcq=small, cap=cap, sq_sig_all=1))
    qa.connect(qb.peer)
    qb.connect(qa.peer)
    quiet(a, b)
    for _ in range(8):
        qb.recv()
    for _ in range(8):
        qa.send([])
    found = events(b, 2)
    check_equal(sorted(found), sorted([EVENT.CQ_ERR, EVENT.QP_FATAL]), "events")
    check_equal(qb.state, STATE.ERR, "state")
    check_equal(poll_for(qa.send_cq, 8)[-1].status, STATUS.WR_FLUSH_ERR, "the last send")
    qa.close()
    qb.close()
    small.close()


# The port and the device.


def port_events(a, b, fabric):
    """One event for each change of the link, to everybody who has the device open."""
    with fabric.open("a") as another:

        def change(end, *command):
            quiet(a, b, another)
            end.run("ip", "link", "set", end.netdev, *command)

        def told(event, state):
            check_equal(events(a, 1), [event], "events")
            check_equal(events(another, 1), [event], "events of another process")
            check_equal(a.ctx.query_port(1).state, state, "state of the port")

        # The other end of the cable goes down: no carrier.
        change(fabric.b, "down")
        told(EVENT.PORT_ERR, PORT_DOWN)
        check_equal(events(b, 1), [EVENT.PORT_ERR], "events of the end that is down")
        change(fabric.a, "down")
        check_equal(events(a), [], "events of a port that was down")
        change(fabric.b, "up")
        check_equal(events(a) + events(b), [], "events while this end is down")
        change(fabric.a, "up")
        told(EVENT.PORT_ACTIVE, PORT_ACTIVE)
        check_equal(events(b, 1), [EVENT.PORT_ACTIVE], "events of the other end")
        for _ in range(3):
            change(fabric.a, "down")
            told(EVENT.PORT_ERR, PORT_DOWN)
            change(fabric.a, "up")
            told(EVENT.PORT_ACTIVE, PORT_ACTIVE)
        change(fabric.a, "mtu", "3000")
        change(fabric.a, "mtu", "4200")
        quiet(b)
        check_equal([x for x in events(a) if x in (EVENT.PORT_ERR, EVENT.PORT_ACTIVE)], [], "events of the MTU")


def bond_events(a, _, fabric):
    """A bond: it goes down with the last of its links, and comes up with the first."""
    end = fabric.a
    run = end.run

    def sees(leg, state):
        """Wait until the bond has seen it."""
        path = f"/sys/class/net/{leg}/bonding_slave/mii_status"
        eventually(lambda: run("cat", path).strip() == state, f"the bond sees {leg} {state}")

    def set_leg(leg, state):
        run("ip", "link", "set", f"{leg}x", state)
        sees(leg, state)

    run("ip", "link", "add", "bond0", "type", "bond", "mode", "active-backup", "miimon", "50")
    try:
        for leg in ("leg0", "leg1"):
            run("ip", "link", "add", leg, "type", "veth", "peer", "name", f"{leg}x")
            run("ip", "link", "set", leg, "master", "bond0")
            run("ip", "link", "set", f"{leg}x", "up")
        run("ip", "link", "set", "bond0", "up")
        for leg in ("leg0", "leg1"):
            sees(leg, "up")
        run("ip", "addr", "add", "10.79.0.1/24", "dev", "bond0")
        shell("device_up_4", end.netns, "bonded", "bond0", "10.79.0.1")
        with Device("bonded", "10.79.0.1") as device:
            eventually(lambda: device.ctx.query_port(1).state == PORT_ACTIVE, "the bond comes up")
            await_up(end, "bond0")
            settled(device)
            set_leg("leg0", "down")
            check_equal(events(device, more=1), [], "events of a fail-over")
            set_leg("leg1", "down")
            check_equal(events(device, 1), [EVENT.PORT_ERR], "events of the last link")
            check_equal(device.ctx.query_port(1).state, PORT_DOWN, "state of the port")
            set_leg("leg0", "up")
            check_equal(events(device, 1), [EVENT.PORT_ACTIVE], "events of the first link")
            set_leg("leg1", "up")
            check_equal(events(device, more=1), [], "events of the second link")
            run("ip", "link", "set", "bond0", "down")
            check_equal(events(device, 1), [EVENT.PORT_ERR], "events of the bond going down")
            run("ip", "link", "set", "bond0", "up")
            check_equal(events(device, 1), [EVENT.PORT_ACTIVE], "events of the bond coming up")
        shell("link_del", "bonded")
    finally:
        for netdev in ("bond0", "leg0", "leg1"):
            with contextlib.suppress(Exception):
                run("ip", "link", "del", netdev)


def device_gone(a, _, fabric):
    """The device is removed: everybody who has it open is told, once."""
    end = fabric.a
    end.run("ip", "link", "add", "short", "type", "dummy")
    end.run("ip", "link", "set", "short", "up")
    end.run("ip", "addr", "add", "10.80.0.1/24", "dev", "short")
    shell("device_up_4", end.netns, "doomed", "short", "10.80.0.1")
    with contextlib.ExitStack() as stack:
        opened = [Device("doomed", "10.80.0.1") for _ in range(2)]
        for device in opened:
            stack.callback(lambda device=device: close_gone(device))
            device.qp = RcQp(device)
            events(device)
        shell("link_del", "doomed")
        for device in opened:
            check_equal(events(device, 1), [EVENT.DEVICE_FATAL], "events")
    end.run("ip", "link", "del", "short")


def close_gone(device):
    """Give up what is left of a device; the kernel has destroyed its objects."""
    with contextlib.suppress(PyverbsRDMAError):
        device.close()


def main():
    suite = ktap.Suite("events")
    with Fabric() as fabric, fabric.open("a") as a, fabric.open("b") as b:
        for device in (a, b):
            settled(device)

        def add(name, func, *args, **options):
            suite.add(name, func, a, b, *args, **options)

        for kind in (RcQp, UcQp):
            add(f"communication established, {kind.__name__[:2].upper()}", established, kind, rxe_differs="never says so")
        add("communication established at once", established_at_once, rxe_differs="never says so")
        add("request error", request_error, rxe_differs="may raise other events")
        add("access error", access_error, rxe_differs="may raise other events")
        add("what completions tell", told_by_completions, rxe_differs="may raise other events")
        add("ordinary life", ordinary_life, rxe_differs="tells of draining unasked")
        add("CQ overrun", overrun, rxe_differs="tells of each completion that is lost")
        add("CQ overrun by receives", overrun_of_receives, rxe_differs="tells of each completion that is lost")
        add("port", port_events, fabric)
        add("bond", bond_events, fabric, rxe_differs="leaves bonds to others")
        add("device removed", device_gone, fabric, rxe_differs="waits until everybody has closed it")
        suite.run()


if __name__ == "__main__":
    main()
