#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
# vm: TMO=1200
"""What `rdma resource show ... -dd` tells of objects: how far queue pairs have come, how full queues are."""

import contextlib
import pathlib
import sys
import threading
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent / "lib"))

import ktap
from counters import Watch
from ktap import check, check_equal, patient
from pyverbs.cq import CQ, CompChannel
from rdma import ACCESS, ALL_ACCESS, MW_TYPE, PSN_MASK, SOON, STATE, Fabric, RcQp, SharedQueue, UcQp, eventually, pair
from rdmatool import number, of_driver, resource, resources

NOBODY = 65534
NO_DETAILS = "tells nothing of its own"


def of_qp(qp):
    """What is told of a queue pair."""
    return resource("qp", qp.device, lqpn=qp.qp.qp_num)


def until(qp, seconds=SOON, **wanted):
    """Wait until this is told of a queue pair."""
    deadline = time.monotonic() + patient(seconds)
    while not wanted.items() <= (told := of_qp(qp)).items():
        check(time.monotonic() < deadline, f"not after {seconds} s: {wanted}; it is {told}")
    return told


def psn_after(qp, packets):
    """The PSN so many packets after the first that a queue pair sends."""
    return (qp.psn + packets) & PSN_MASK


def unconnected(a, _):
    """Sizes and fill of the queues are told from the beginning, progress is not."""
    qp = RcQp(a)
    qp.to_init()
    told = of_qp(qp)
    check(told["sq_size"] >= qp.attr.send_wr and told["rq_size"] >= qp.attr.recv_wr, "sizes", told)
    check_equal((told["sq_pending"], told["rq_posted"]), (0, 0), "fill")
    check(not {"sending", "expected_psn"} & set(told), "progress of a queue pair that is not connected:", told)
    qp.recv()
    check_equal(of_qp(qp)["rq_posted"], 1, "receives posted")
    qp.close()


def progress(a, b):
    """PSNs, messages and receives move with the traffic."""
    source, target = a.region(3000), b.region(3000)
    with pair(a, b, mtu=1024) as (qa, qb):
        for _ in range(5):
            qb.recv([target.sge()])
        told = of_qp(qb)
        check_equal((told["expected_psn"], told["msn"], told["rq_posted"]), (qa.psn, 0, 5), "before")
        check_equal(of_qp(qa)["next_psn"], qa.psn, "first PSN")
        for _ in range(3):
            qa.send([source.sge()])
        qa.sent(3)
        qb.received(3)
        told = of_qp(qa)
        check_equal((told["unacked_psn"], told["next_psn"]), (psn_after(qa, 9),) * 2, "PSNs of the sender")
        check_equal((told["sq_pending"], told["sending"]), (0, "idle"), "send queue")
        told = of_qp(qb)
        check_equal(told["expected_psn"], psn_after(qa, 9), "expected PSN")
        check_equal((told["msn"], told["rq_posted"], told["early_packets"]), (3, 2, 0), "receiver")


def not_ready(a, b):
    """Who waits for a receive says so, and how often it has tried; then it may try as often again."""
    source, target = a.region(64), b.region(64)
    # Each wait lasts 655 ms.
    with pair(a, b, rnr_retry=7, min_rnr_timer=0) as (qa, qb):
        for _ in range(2):
            qa.send([source.sge()])
        told = until(qa, sending="peer-not-ready")
        check_equal((told["sq_pending"], told["unacked_psn"]), (2, qa.psn), "send queue")
        for _ in range(2):
            qb.recv([target.sge()])
        qa.sent(2)
        until(qa, sending="idle", sq_pending=0)
    with pair(a, b, rnr_retry=6, min_rnr_timer=0) as (qa, qb):
        at_b = Watch(b)
        qa.send([source.sge()])
        at_b.until("send_rnr_err")
        qb.recv([target.sge()])
        qa.sent(1)
        until(qa, sending="idle", rnr_retries=0)
        # For this one there is no receive.
        qa.send([source.sge()])
        eventually(lambda: 1 <= of_qp(qa)["rnr_retries"] <= 6, "retries")


def draining(a, b):
    """A queue that drains, and one that is flushed."""
    with pair(a, b) as (qa, _):
        qa.go(STATE.SQD)
        until(qa, sending="draining")
        qa.go(STATE.ERR)
        until(qa, sending="flushing")
        qa.go(STATE.RESET)
        check("sending" not in of_qp(qa), "progress of a queue pair that was reset")


def unreliable(a, b):
    """Nobody knows how far the peer of an unreliable connection has come."""
    source = a.region(64)
    with pair(a, b, kind=UcQp) as (qa, _):
        qa.send([source.sge()])
        qa.sent(1)
        told = of_qp(qa)
        check_equal(told["sq_pending"], 0, "requests")
        check(not {"unacked_psn", "expected_psn"} & set(told), "progress of an unreliable connection:", told)


def completion_queue(a, b):
    """How full a queue is, and what its consumer waits for."""
    channel = CompChannel(a.ctx)
    with pair(a, b) as (qa, qb):
        cq = CQ(a.ctx, 1000, channel=channel)
        told = resource("cq", a, cqe=cq.cqe)
        check_equal((told["size"], told["pending"]), (cq.cqe, 0), "an empty queue")
        check_equal((told["armed"], told["state"]), ("no", "good"), "a new queue")
        cq.req_notify(True)
        check_equal(resource("cq", a, cqe=cq.cqe)["armed"], "solicited", "armed")
        cq.req_notify()
        check_equal(resource("cq", a, cqe=cq.cqe)["armed"], "next", "armed")
        cq.close()
        source, target = a.region(64), b.region(64)
        for _ in range(7):
            qa.write([source.sge()], target.at())
        until(qa, sq_pending=0)
        fill = [of_driver(entry)["pending"] for entry in resources("cq", a) if entry["cqe"] == qa.send_cq.cqe]
        check_equal(sorted(fill)[-1], 7, f"completions that wait, of {fill}")
        qa.sent(7)
    channel.close()


def shared_queue(a, _):
    """How full a shared receive queue is, and its limit."""
    queue = SharedQueue(a, 50, 3)

    def told():
        found = [of_driver(entry) for entry in resources("srq", a)]
        check_equal(len(found), 1, "shared queues")
        return found[0]

    size, max_sge, _ = queue.query()
    check_equal(told(), {"size": size, "max_sge": max_sge, "posted": 0, "limit": 0}, "a new queue")
    for _ in range(3):
        queue.recv()
    queue.arm(2)
    check_equal((told()["posted"], told()["limit"]), (3, 2), "posted and limit")
    queue.close()


def regions(a, b):
    """What memory it is, where it starts, what may be done with it, what is bound to it."""

    def told(region):
        return resource("mr", a, mrlen=region.length)

    pinned = a.region(12345)
    found = told(pinned)
    check_equal((found["memory"], found["windows"]), ("pinned", 0), "memory")
    check_equal(number(found["iova"]), pinned.mr.buf, "address")
    check_equal(number(found["access"]), int(ALL_ACCESS), "rights")
    paged = a.region(23456, ALL_ACCESS | ACCESS.ON_DEMAND)
    check_equal(told(paged)["memory"], "paged", "memory")
    paged.close()
    with pair(a, b) as (qa, _):
        bindable = a.region(34567, ALL_ACCESS | ACCESS.MW_BIND)
        window = a.window(MW_TYPE.TYPE_1)
        window.bind(qa, bindable)
        qa.sent(1)
        check_equal(told(bindable)["windows"], 1, "windows")
        window.close()
        check_equal(told(bindable)["windows"], 0, "windows")
        bindable.close()
    pinned.close()


def not_for_everybody(a, b):
    """Who is no administrator sees the objects, and neither PSNs nor addresses nor keys."""
    region = a.region(45678)
    with pair(a, b):
        for kind in ("qp", "cq", "mr"):
            check(any(map(of_driver, resources(kind, a))), f"nothing is told of any {kind}")
            seen = resources(kind, a, user=NOBODY)
            check(seen, f"no {kind} is seen")
            told = [entry for entry in seen if of_driver(entry)]
            check(not told, f"told to everybody: {told}")
    region.close()


def many(a, _):
    """More of them than fit into one message."""
    qps = [RcQp(a) for _ in range(60)]
    for qp in qps:
        qp.to_init()  # it has a port from then on
    memory = [a.region(4096) for _ in range(200)]
    numbers = {entry["lqpn"] for entry in resources("qp", a) if "drv_sq_size" in entry}
    check({qp.qp.qp_num for qp in qps} <= numbers, f"{len(numbers)} of {len(qps)} queue pairs are told of")
    told = [entry for entry in resources("mr", a) if "drv_memory" in entry]
    check(len(told) >= len(memory), f"{len(told)} of {len(memory)} regions are told of")
    for thing in (*qps, *memory):
        thing.close()


def coming_and_going(a, b):
    """They are told of while they are made, used and destroyed."""
    done = threading.Event()

    def look():
        while not done.is_set():
            for kind in ("qp", "cq", "mr"):
                with contextlib.suppress(OSError):  # one may go while it is looked at
                    resources(kind, a)

    watcher = threading.Thread(target=look)
    watcher.start()
    try:
        for _ in range(30):
            with pair(a, b) as (qa, qb):
                source, target = a.region(4096), b.region(4096)
                qb.recv([target.sge()])
                qa.send([source.sge()])
                qa.sent(1)
                qb.received(1)
                source.close()
                target.close()
    finally:
        done.set()
        watcher.join()


def main():
    suite = ktap.Suite("resources")
    with Fabric() as fabric, fabric.open("a") as a, fabric.open("b") as b:
        for name, test in (
            ("queue pair that is not connected", unconnected),
            ("progress of a connection", progress),
            ("peer not ready", not_ready),
            ("draining and flushing", draining),
            ("unreliable connection", unreliable),
            ("completion queue", completion_queue),
            ("shared receive queue", shared_queue),
            ("regions", regions),
            ("not for everybody", not_for_everybody),
            ("many objects", many),
        ):
            suite.add(name, test, a, b, rxe_differs=NO_DETAILS)
        suite.add("objects that come and go", coming_and_going, a, b)
        suite.run()


if __name__ == "__main__":
    main()
