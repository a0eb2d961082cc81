#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
# vm: TMO=1200
"""Counters that queue pairs are bound to (`rdma statistic qp`): by hand, by themselves, while they run.

For the device nothing changes by that: what it shows is the sum.
"""

import contextlib
import pathlib
import sys
import threading
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent / "lib"))

import ktap
from datagram import UdQp
from ktap import check, check_equal
from pyverbs.pyverbs_error import PyverbsRDMAError
from rdma import STATUS, Device, Fabric, RcAttr, RcQp, pair, poll_for, shell, statuses
from rdmatool import rdma

NO_COUNTERS = "has none"
# Without a timer nothing is sent again that is not lost, however slow the machine is.
PATIENT = RcAttr(timeout=0)
# What sysfs shows may be 10 ms old, by a clock that a processor that stops can hold up.
LIFESPAN = 0.1


def link(device):
    """The port, as the program wants it."""
    return "link", f"{device.name}/1"


def total(device):
    """What the port shows: of all queue pairs, there or gone."""
    (shown,) = rdma("statistic", "show", *link(device))
    return {name: value for name, value in shown.items() if name not in ("ifindex", "ifname", "port")}


def counters(device):
    """The counters that queue pairs are bound to."""
    return rdma("statistic", "qp", "show", *link(device))


def bind(qp, counter=None):
    """Bind a queue pair to a counter, or to a new one; returns its number."""
    before = {entry["cntn"] for entry in counters(qp.device)}
    which = () if counter is None else ("cntn", counter)
    rdma("statistic", "qp", "bind", *link(qp.device), "lqpn", qp.qp.qp_num, *which)
    (number,) = {entry["cntn"] for entry in counters(qp.device)} - before or {counter}
    return number


def unbind(qp, counter):
    """Unbind it again."""
    rdma("statistic", "qp", "unbind", *link(qp.device), "cntn", counter, "lqpn", qp.qp.qp_num)


def of(device, number):
    """One counter."""
    (found,) = [entry for entry in counters(device) if entry["cntn"] == number]
    return found


@contextlib.contextmanager
def auto(device, what):
    """New queue pairs are bound by themselves."""
    rdma("statistic", "qp", "set", *link(device), "auto", what, "on")
    try:
        yield
    finally:
        rdma("statistic", "qp", "set", *link(device), "auto", "off")


@contextlib.contextmanager
def fails():
    """What is done inside must be refused."""
    try:
        yield
    except OSError:
        return
    raise AssertionError("accepted, though it must be refused")


def writes(qa, source, target, count, length=3000):
    """Messages of three packets."""
    for _ in range(count):
        qa.write([source.sge(0, length)], target.at())
        qa.sent(1)


def one_of_two(a, b):
    """The one that is bound counts there, the other does not; the port has both."""
    source, target = a.region(4096), b.region(4096)
    with pair(a, b, PATIENT) as (bound, _), pair(a, b, PATIENT) as (free, _):
        before = total(a)
        number = bind(bound)
        writes(bound, source, target, 4)
        writes(free, source, target, 7)
        shown, after = of(a, number), total(a)
        check_equal((shown["sent_pkts"], shown["rdma_sends"]), (12, 4), "packets and messages of the bound one")
        check_equal(shown["sent_bytes"], 4 * (3000 + 3 * 16 + 16), "bytes of the bound one")
        check(1 <= shown["rcvd_pkts"] <= 12, "acknowledgements:", shown)
        check_equal(after["sent_pkts"] - before["sent_pkts"], 33, "packets of both")
        unbind(bound, number)
        check_equal(counters(a), [], "counters after the last was unbound")
        writes(bound, source, target, 1)
        check_equal(total(a)["sent_pkts"] - before["sent_pkts"], 36, "packets after it was unbound")


def both_sides(a, b):
    """Receives count, and what goes wrong does."""
    source, target = a.region(64), b.region(64)
    with pair(a, b, PATIENT, rnr_retry=1, min_rnr_timer=1) as (qa, qb):
        at_a, at_b = bind(qa), bind(qb)
        qb.recv([target.sge()])
        qa.send([source.sge()])
        qa.sent(1)
        qb.received(1)
        check_equal(of(b, at_b)["rdma_recvs"], 1, "receives")
        number = qa.send([source.sge()])
        check_equal(statuses(poll_for(qa.send_cq, 1)), [(number, STATUS.RNR_RETRY_EXC_ERR)], "completion")
        check_equal(of(b, at_b)["send_rnr_err"], 2, "RNR NAKs sent")
        shown = of(a, at_a)
        check_equal((shown["rcvd_rnr_err"], shown["retry_rnr_exceeded_err"]), (2, 1), "RNR NAKs and failures")
        check_equal(shown["completer_retry_err"], 1, "packets sent again")


def two_on_one(a, b):
    """Queue pairs share a counter, which goes with the last."""
    source, target = a.region(4096), b.region(4096)
    with pair(a, b, PATIENT) as (first, _), pair(a, b, PATIENT) as (second, _):
        number = bind(first)
        check_equal(bind(second, number), number, "counter")
        check_equal(sorted(of(a, number)["lqpn"]), sorted(q.qp.qp_num for q in (first, second)), "queue pairs")
        writes(first, source, target, 1)
        writes(second, source, target, 2)
        check_equal(of(a, number)["rdma_sends"], 3, "messages of both")
        with fails():
            bind(first, number)  # it is bound already
        unbind(first, number)
        writes(first, source, target, 5)
        check_equal(of(a, number)["rdma_sends"], 3, "messages after one was unbound")


def refused(a, b):
    """What is not there cannot be bound, nor can be set to auto what is bound by hand."""
    with pair(a, b, PATIENT) as (qa, _):
        number = bind(qa)
        with fails():
            rdma("statistic", "qp", "bind", *link(a), "lqpn", 0xFFFFF0)
        with fails():
            bind(qa, number + 1000)
        with fails():
            rdma("statistic", "qp", "set", *link(a), "auto", "type", "on")
        with fails():
            unbind(qa, number + 1000)


def by_type(a, b):
    """One counter for each type."""
    source, target = a.region(4096), b.region(4096)
    with auto(a, "type"):
        with pair(a, b, PATIENT) as (first, _), pair(a, b, PATIENT) as (second, _):
            datagrams = UdQp(a)
            datagrams.to_init()
            writes(first, source, target, 2)
            writes(second, source, target, 3)
            shown = {entry["qp-type"]: entry for entry in counters(a)}
            check_equal(sorted(shown), ["RC", "UD"], "types")
            check_equal((shown["RC"]["rdma_sends"], shown["UD"]["rdma_sends"]), (5, 0), "messages")
            datagrams.close()
        check_equal(counters(a), [], "counters of queue pairs that are gone")


def by_process(a, b):
    """One counter for each process."""
    source, target = a.region(4096), b.region(4096)
    with auto(a, "pid"):
        with pair(a, b, PATIENT) as (first, _), pair(a, b, PATIENT) as (second, _):
            writes(first, source, target, 1)
            writes(second, source, target, 1)
            (shown,) = counters(a)
            check_equal(shown["rdma_sends"], 2, "messages of this process")


def gone(a, b):
    """What a queue pair has counted stays with the port when it goes, bound as it is."""
    source, target = a.region(4096), b.region(4096)
    before = total(a)
    for _ in range(5):
        with pair(a, b, PATIENT) as (qa, _):
            bind(qa)
            writes(qa, source, target, 2)
    check_equal(counters(a), [], "counters of queue pairs that are gone")
    check_equal(total(a)["rdma_sends"] - before["rdma_sends"], 10, "messages")
    time.sleep(LIFESPAN)
    data = int(pathlib.Path(f"/sys/class/infiniband/{a.name}/ports/1/hw_counters/rdma_sends").read_text())
    check_equal(data, total(a)["rdma_sends"], "messages in sysfs")


def while_it_runs(a, b):
    """Binding and unbinding under load loses nothing."""
    source, target = a.region(4096), b.region(4096)
    messages = 300
    with pair(a, b, PATIENT) as (qa, _):
        before = total(a)
        done = threading.Event()
        rounds = []

        def rebind():
            while not done.is_set():
                unbind(qa, bind(qa))
                rounds.append(1)

        binder = threading.Thread(target=rebind)
        binder.start()
        try:
            while len(rounds) < 3 or messages > 0:
                writes(qa, source, target, 1)
                messages -= 1
        finally:
            done.set()
            binder.join()
        after = total(a)
        check_equal(after["rdma_sends"] - before["rdma_sends"], 300 - messages, "messages")
        check_equal(after["sent_pkts"] - before["sent_pkts"], 3 * (300 - messages), "packets")


def many(a, _):
    """Many counters at once, each with its own queue pair."""
    qps = [RcQp(a) for _ in range(15)]
    for qp in qps:
        qp.to_init()
    numbers = [bind(qp) for qp in qps]
    check_equal(len(set(numbers)), len(qps), "counters")
    check_equal(len(counters(a)), len(qps), "counters shown")
    for qp in qps:
        qp.close()
    check_equal(counters(a), [], "counters of queue pairs that are gone")


def device_gone(fabric):
    """A device is removed whose queue pairs are bound."""
    end = fabric.a
    end.run("ip", "link", "add", "short", "type", "dummy")
    end.run("ip", "link", "set", "short", "up")
    end.run("ip", "addr", "add", "10.80.0.1/24", "dev", "short")
    shell("device_up_4", end.netns, "doomed", "short", "10.80.0.1")
    device = Device("doomed", "10.80.0.1")
    qps = [RcQp(device) for _ in range(3)]
    for qp in qps:
        qp.to_init()
        bind(qp)
    shell("link_del", "doomed")
    check_equal([entry for entry in rdma("dev") if entry["ifname"] == "doomed"], [], "devices")
    with contextlib.suppress(PyverbsRDMAError):
        device.close()  # the kernel has destroyed its objects
    end.run("ip", "link", "del", "short")


def main():
    suite = ktap.Suite("qp_counters")
    with Fabric() as fabric, fabric.open("a") as a, fabric.open("b") as b:
        for name, test in (
            ("one of two queue pairs", one_of_two),
            ("both sides, and errors", both_sides),
            ("two queue pairs on one counter", two_on_one),
            ("refusals", refused),
            ("bound by type", by_type),
            ("bound by process", by_process),
            ("queue pairs that go", gone),
            ("while it runs", while_it_runs),
            ("many counters", many),
        ):
            suite.add(name, test, a, b, rxe_differs=NO_COUNTERS)
        suite.add("device removed", device_gone, fabric, rxe_differs=NO_COUNTERS)
        suite.run()


if __name__ == "__main__":
    main()
