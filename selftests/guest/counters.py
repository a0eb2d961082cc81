#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
"""What a device counts: the names that rdma_rxe has and ours, each moved by what it counts.

A counter is also held against what did not happen: good traffic moves none of the bad ones.
"""

import contextlib
import json
import pathlib
import socket
import subprocess
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent / "lib"))

import ktap
from ktap import check, check_equal, patient
from rdma import SOON, STATUS, Fabric, RcAttr, RcQp, on_one_processor, pair, poll_for, statuses
from roce import NAMES, Bth, Path, reth

# The names of rdma_rxe, in its order.
COMMON = (
    "sent_pkts rcvd_pkts duplicate_request out_of_seq_request rcvd_rnr_err send_rnr_err rcvd_seq_err ack_deferred "
    "retry_exceeded_err retry_rnr_exceeded_err completer_retry_err send_err link_downed rdma_sends rdma_recvs "
    "sent_bytes rcvd_bytes"
).split()
OURS = (
    "rx_malformed rx_no_qp rx_bad_pkey rx_bad_qkey rx_icrc_errors rx_backlog_drops "
    "np_ecn_marked_roce_packets np_cnp_sent rp_cnp_handled rp_cnp_ignored"
).split()
TRAFFIC = {"sent_pkts", "rcvd_pkts", "sent_bytes", "rcvd_bytes", "rdma_sends", "rdma_recvs", "ack_deferred"}
# The core asks again after so long.
LIFESPAN = 0.03


def counters(device):
    """All counters of a device, by name."""
    time.sleep(LIFESPAN)
    directory = pathlib.Path(f"/sys/class/infiniband/{device.name}/ports/1/hw_counters")
    return {f.name: int(f.read_text()) for f in directory.iterdir() if f.name != "lifespan"}


def quiet(device, seconds=0.3):
    """Wait until what was on its way has come, and moves the counters of a device no more; returns since when."""
    seen, since = counters(device), time.monotonic()
    while time.monotonic() < since + patient(seconds):
        if (now := counters(device)) != seen:
            seen, since = now, time.monotonic()
    return since


class Watch:
    """How much the counters of a device move."""

    def __init__(self, device):
        self.device, self.before = device, counters(device)

    def moved(self):
        """What has been counted since, but for zeros."""
        after = counters(self.device)
        return {name: after[name] - self.before[name] for name in after if after[name] != self.before[name]}

    def until(self, name, at_least=1, seconds=SOON):
        """Wait for a counter to move."""
        deadline = time.monotonic() + patient(seconds)
        while (moved := self.moved()).get(name, 0) < at_least:
            check(time.monotonic() < deadline, f"{name} of {self.device.name} has moved by {moved.get(name, 0)}: {moved}")
        return moved


def names(a):
    """In the order that programs know, ours at the end."""
    shown = json.loads(subprocess.check_output(["rdma", "-j", "statistic", "show", "link", f"{a.name}/1"]))
    found = [name for name in shown[0] if name not in ("ifindex", "ifname", "port")]
    check_equal(found[: len(COMMON)], COMMON, "names")
    if ktap.LINK_TYPE == "rrxe":
        check_equal(found[len(COMMON) :], OURS, "names of our own")


def traffic(a, b):
    """Packets, bytes and messages of good traffic, and nothing bad."""
    messages = 20
    # Without a timer nothing is sent again that is neither lost nor overtaken, however slow the machine is.
    with on_one_processor(), pair(a, b, timeout=0) as (qa, qb):
        source, target = a.region(4096), b.region(4096)
        at_a, at_b = Watch(a), Watch(b)
        for _ in range(messages):
            qb.recv([target.sge()])
        for _ in range(messages):
            qa.send([source.sge(0, 3000)])
        qa.sent(messages)
        qb.received(messages)
        moved_a, moved_b = at_a.moved(), at_b.moved()
    check_equal(moved_a["rdma_sends"], messages, "messages sent")
    check_equal(moved_b["rdma_recvs"], messages, "messages received")
    # Three packets a message, each with BTH and ICRC.
    check_equal(moved_a["sent_pkts"], 3 * messages, "packets sent")
    check_equal(moved_b["rcvd_pkts"], 3 * messages, "packets received")
    check_equal(moved_a["sent_bytes"], messages * (3000 + 3 * 16), "bytes sent")
    check_equal(moved_b["rcvd_bytes"], moved_a["sent_bytes"], "bytes received")
    check_equal(moved_a["rcvd_pkts"], moved_b["sent_pkts"], "acknowledgements")
    for moved in (moved_a, moved_b):
        check(set(moved) <= TRAFFIC, "good traffic is counted as", sorted(set(moved) - TRAFFIC))


def not_ready(a, b):
    """RNR NAKs on both sides, and the end of the retries."""
    memory = a.region(64)
    with pair(a, b, rnr_retry=2, min_rnr_timer=1, timeout=0) as (qa, _):
        at_a, at_b = Watch(a), Watch(b)
        number = qa.send([memory.sge()])
        check_equal(statuses(poll_for(qa.send_cq, 1)), [(number, STATUS.RNR_RETRY_EXC_ERR)], "completion")
        moved_a, moved_b = at_a.moved(), at_b.moved()
    check_equal(moved_b.get("send_rnr_err"), 3, "RNR NAKs sent")
    check_equal(moved_a.get("rcvd_rnr_err"), 3, "RNR NAKs received")
    check_equal(moved_a.get("retry_rnr_exceeded_err"), 1, "requests that failed")
    check("rdma_sends" not in moved_a, "a message that failed counts as sent")


def nobody_there(a, b):
    """Packets for a queue pair that is not there, sent again until the retries end."""
    qa, qb = RcQp(a, RcAttr(timeout=10, retry_cnt=3)), RcQp(b)
    qa.connect(qb.peer)
    qb.close()
    memory = a.region(64)
    quiet(b)
    at_a, at_b = Watch(a), Watch(b)
    number = qa.send([memory.sge()])
    check_equal(statuses(poll_for(qa.send_cq, 1)), [(number, STATUS.RETRY_EXC_ERR)], "completion")
    moved_a = at_a.moved()
    check_equal(moved_a.get("retry_exceeded_err"), 1, "requests that failed")
    # Retries, and reminders between them.
    again = moved_a.get("completer_retry_err")
    check(3 <= again <= 12, f"{again} packets sent again")
    check_equal(at_b.until("rx_no_qp", again + 1).get("rx_no_qp"), again + 1, "packets for nobody")
    qa.close()


@contextlib.contextmanager
def netem(end, *what):
    """One end of the cable while it does something to what it sends."""
    end.run("tc", "qdisc", "replace", "dev", end.netdev, "root", "netem", "limit", "10000", *what)
    try:
        yield
    finally:
        end.run("tc", "qdisc", "del", "dev", end.netdev, "root")


def writes(qa, region, target, count):
    """Many messages of several packets."""
    for _ in range(count):
        qa.write([region.sge()], target.at())
        qa.sent(1)


def loss(fabric, a, b):
    """Gaps at the receiver, sequence NAKs at the sender, and packets sent again."""
    with pair(a, b) as (qa, _), netem(fabric.a, "loss", "20%"):
        at_a, at_b = Watch(a), Watch(b)
        writes(qa, a.region(16000), b.region(16000), 30)
        at_a.until("completer_retry_err")
        at_a.until("rcvd_seq_err")
        at_b.until("out_of_seq_request")


def copies(fabric, a, b):
    """Requests that come twice."""
    with pair(a, b) as (qa, _), netem(fabric.a, "duplicate", "50%"):
        at_b = Watch(b)
        writes(qa, a.region(4000), b.region(4000), 20)
        at_b.until("duplicate_request", 10)


def rubbish(fabric, a, b):
    """Packets that are dropped, each by its own counter."""
    path = Path(fabric.b.mac, fabric.a.mac, fabric.b.ip4_bytes, fabric.a.ip4_bytes)
    wire = fabric.b.socket(socket.AF_PACKET, socket.SOCK_RAW)
    wire.bind((fabric.b.netdev, 0))
    quiet(a)
    with pair(a, b) as (qa, _):
        write = reth(0, 0, 0)

        def bth(**changes):
            return bytes(Bth(**{"opcode": NAMES["WRITE_ONLY"], "qpn": qa.qp.qp_num, "psn": 0, **changes}))

        for counter, frame in (
            ("rx_icrc_errors", path.frame(bth() + write, bad_icrc=1)),
            ("rx_no_qp", path.frame(bth(qpn=0xFFFFF0) + write)),
            ("rx_bad_pkey", path.frame(bth(pkey=0x7001) + write)),
            ("rx_malformed", path.frame(bth(version=1) + write)),
            ("rx_malformed", path.frame(bth()[:8])),
        ):
            watch = Watch(a)
            wire.send(frame)
            check_equal(watch.until(counter), {counter: 1}, f"counters after a frame for {counter}")
    wire.close()


def link_downed(fabric, a):
    """How often the link went down."""
    watch = Watch(a)
    for state in ("down", "up"):
        fabric.a.run("ip", "link", "set", fabric.a.netdev, state)
    check_equal(watch.until("link_downed")["link_downed"], 1, "link_downed")


def main():
    suite = ktap.Suite("counters")
    with contextlib.ExitStack() as stack:
        fabric = stack.enter_context(Fabric())
        a, b = (stack.enter_context(fabric.open(side)) for side in "ab")
        suite.add("names", names, a)
        suite.add("traffic", traffic, a, b, rxe_differs="counts bytes of whole frames")
        suite.add("receiver not ready", not_ready, a, b, rxe_differs="counts a message that failed as sent")
        suite.add("nobody there", nobody_there, a, b, rxe_differs="has no such counter")
        suite.add("loss", loss, fabric, a, b)
        suite.add("copies", copies, fabric, a, b)
        suite.add("rubbish", rubbish, fabric, a, b, rxe_differs="has no such counters")
        suite.add("link down", link_downed, fabric, a)
        suite.run()


if __name__ == "__main__":
    main()
