#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
# vm: TMO=900
"""What a device says of itself is so: each capability is used, and the port follows its network device."""

import ctypes
import errno
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent / "lib"))

import ktap
import pyverbs.libibverbs_enums as e
from ktap import check, check_equal
from rdma import (
    ACCESS,
    ALL_ACCESS,
    EVENT,
    MTU,
    MW_TYPE,
    PLACEMENT,
    Device,
    ExRcQp,
    Fabric,
    RcQp,
    Remote,
    SharedQueue,
    UcQp,
    ack_timeout,
    eventually,
    has_gid,
    pair,
    refused,
    shell,
)

LIBIBVERBS = ctypes.CDLL("libibverbs.so.1")
ACTIVE, DOWN = e.ibv_port_state.IBV_PORT_ACTIVE, e.ibv_port_state.IBV_PORT_DOWN


# Capabilities. Each test uses one.


def port_active_event(fabric, a, _):
    """The port that comes up raises an event."""
    for state, event in (("down", EVENT.PORT_ERR), ("up", EVENT.PORT_ACTIVE)):
        fabric.a.run("ip", "link", "set", fabric.a.netdev, state)
        events = iter(a.event, None)
        check(event in events, f"no event {event!r}")


def sys_image_guid(_, a, b):
    """There is one, and it is the device's own."""
    guids = [device.ctx.query_device().sys_image_guid for device in (a, b)]
    check(all(guids) and guids[0] != guids[1], "system image GUIDs", guids)


def rc_rnr_nak(_, a, b):
    """A message that finds no receive goes through when there is one."""
    source, target = a.region(64), b.region(64)
    with pair(a, b, rnr_retry=7, min_rnr_timer=1) as (qa, qb):
        qa.send([source.sge()])
        qb.recv([target.sge()])
        qa.sent(1)
        qb.received(1)


def srq_resize(_, a, __):
    """The size of a shared receive queue changes."""
    queue = SharedQueue(a, 10)
    queue.resize(200)
    check(queue.query()[0] >= 200, "size", queue.query())
    queue.close()


def window(kind):
    """A test of memory windows of a kind."""

    def use(_, a, b):
        """A peer writes through a window."""
        here = a.region(64)
        with pair(a, b) as (qa, qb):
            there, shown = b.region(4096, ALL_ACCESS | ACCESS.MW_BIND), b.window(kind)
            shown.bind(qb, there, 100, 200)
            qb.sent(1)
            qa.write([here.sge()], Remote(there.mr.buf + 100, shown.key))
            qa.sent(1)
            shown.close()
            there.close()

    return use


def mem_mgt_extensions(_, a, b):
    """Keys are made invalid by work requests, of this end and of the other."""
    with pair(a, b) as (qa, qb):
        there, shown = b.region(4096, ALL_ACCESS | ACCESS.MW_BIND), b.window(MW_TYPE.TYPE_2)
        shown.bind(qb, there)
        qb.local_inv(shown.key)
        shown.bind(qb, there)
        qb.sent(3)
        qb.recv()
        qa.send_inv([], shown.key)
        qa.sent(1)
        check_equal(qb.received(1)[0].invalidated, shown.key, "key")
        shown.close()
        there.close()


def flushing(ends_access, placement):
    """A test of FLUSH with a placement."""

    def use(_, a, b):
        """A FLUSH is done."""
        with pair(a, b, kind=ExRcQp, access=ends_access) as (qa, _):
            there = b.region(4096, ends_access)
            qa.flush(there.at(), 4096, placement)
            qa.sent(1)
            there.close()

    return use


def flush_persistent(_, a, __):
    """Memory that is lost with the power is not taken for more than it is; see placement.py for the other."""
    with refused(errno.EINVAL):
        a.region(4096, ALL_ACCESS | ACCESS.FLUSH_PERSISTENT)


def atomic_write(_, a, b):
    """Eight bytes at once."""
    with pair(a, b, kind=ExRcQp) as (qa, _):
        there = b.region(64)
        qa.atomic_write(there.at(8), b"12345678")
        qa.sent(1)
        check_equal(there.read(8, 8), b"12345678", "word")


FLAGS = {
    "PORT_ACTIVE_EVENT": (1 << 10, port_active_event),
    "SYS_IMAGE_GUID": (1 << 11, sys_image_guid),
    "RC_RNR_NAK_GEN": (1 << 12, rc_rnr_nak),
    "SRQ_RESIZE": (1 << 13, srq_resize),
    "MEM_WINDOW": (1 << 17, window(MW_TYPE.TYPE_1)),
    "MEM_MGT_EXTENSIONS": (1 << 21, mem_mgt_extensions),
    "MEM_WINDOW_TYPE_2B": (1 << 24, window(MW_TYPE.TYPE_2)),
    "FLUSH_GLOBAL": (1 << 38, flushing(ALL_ACCESS | ACCESS.FLUSH_GLOBAL, PLACEMENT.GLOBAL)),
    "FLUSH_PERSISTENT": (1 << 39, flush_persistent),
    "ATOMIC_WRITE": (1 << 40, atomic_write),
}


def flags(device):
    """All that the device has, of either command."""
    attr = device.ctx.query_device_ex()
    return attr.device_cap_flags_ex | attr.orig_attr.device_cap_flags


def no_other(_, a, __):
    """There is a test for each capability, and none for what is not there."""
    known = sum(bit for bit, _ in FLAGS.values())
    check_equal(hex(flags(a)), hex(known), "capabilities")


def has_and_does(fabric, a, b, bit, use):
    """The capability is there, and can be used."""
    check(flags(a) & bit, "not announced")
    use(fabric, a, b)


def atomics(_, a, b):
    """They are atomic for all who use this device."""
    check_equal(a.ctx.query_device().atomic_caps, e.ibv_atomic_cap.IBV_ATOMIC_HCA, "atomics")
    here, there = a.region(64), b.region(64)
    with pair(a, b) as (qa, _), pair(a, b) as (qb, _):
        for _ in range(50):
            for qp in (qa, qb):
                qp.fetch_add(here.sge(0, 8), there.at(), 1)
            for qp in (qa, qb):
                qp.sent(1)
    check_equal(there.word(), 100, "sum")


# Bits of enum ibv_odp_transport_cap_bits, and what shows each.
PAGED = ALL_ACCESS | ACCESS.ON_DEMAND | ACCESS.FLUSH_GLOBAL
ODP = {
    "SEND": (1, lambda q, here, there: q.send([here.sge()])),
    "RECV": (2, lambda q, here, there: q.send([here.sge()])),
    "WRITE": (4, lambda q, here, there: q.write([here.sge()], there.at())),
    "READ": (8, lambda q, here, there: q.read([here.sge()], there.at())),
    "ATOMIC": (16, lambda q, here, there: q.fetch_add(here.sge(0, 8), there.at(), 1)),
    "FLUSH": (64, lambda q, here, there: q.flush(there.at(), 4096)),
    "ATOMIC_WRITE": (128, lambda q, here, there: q.atomic_write(there.at(), b"12345678")),
}
SRQ_RECV = 32


def paging(_, a, b):
    """Each operation that may be done with memory that is paged on demand is done with such memory."""
    caps = a.ctx.query_device_ex().odp_caps
    check(caps.general_caps & 1, "no paging on demand")
    everything = sum(bit for bit, _ in ODP.values()) | SRQ_RECV
    check_equal(caps.rc_odp_caps, everything, "on reliable connections")
    for name, (bit, use) in ODP.items():
        if caps.rc_odp_caps & bit:
            operation(a, b, ExRcQp, name, use)
        if caps.uc_odp_caps & bit:
            operation(a, b, UcQp, name, use)
    check(caps.ud_odp_caps & 3 == 3, "datagrams", caps.ud_odp_caps)


def operation(a, b, kind, name, use):
    """One of them."""
    options = {"access": PAGED & ~ACCESS.ON_DEMAND} if kind is ExRcQp else {}
    here, there = a.region(4096, PAGED), b.region(4096, PAGED)
    with pair(a, b, kind=kind, **options) as (qa, qb):
        qb.recv([there.sge()])
        use(qa, here, there)
        qa.sent(1)
        if name in ("SEND", "RECV"):
            qb.received(1)
    here.close()
    there.close()


# The port.


def speed(device):
    """In units of 100 Mbit/s. The library of the device does not ask for it, so ask past it."""
    qp = RcQp(device)
    context = ctypes.c_uint64.from_address(qp.qp.qp).value  # the first member of struct ibv_qp
    value = ctypes.c_uint64()
    error = LIBIBVERBS.ibv_cmd_query_port_speed(ctypes.c_void_p(context), 1, ctypes.byref(value))
    check_equal(error, 0, "error")
    qp.close()
    return value.value


def port_speed(fabric, a, _):
    """Speed and width are those of the network device: of one whose speed can be set."""
    check_equal(speed(a), 100, "speed of a veth, 10 Gbit/s")
    netns, tun = fabric.a.netns, "tun-speed"
    fabric.a.run("modprobe", "tun")
    fabric.a.run("ip", "tuntap", "add", "mode", "tun", tun)
    try:
        fabric.a.run("ip", "addr", "add", "10.99.0.1/24", "dev", tun)
        fabric.a.run("ip", "link", "set", tun, "up")
        shell("link_add", netns, "speed0", tun)
        eventually(lambda: has_gid("speed0", "10.99.0.1"), "GID")
        with Device("speed0", "10.99.0.1") as device:
            for mbps, wanted in ((10000, 100), (25000, 250), (40000, 400), (100000, 1000), (1000, 25)):
                fabric.a.run("ethtool", "-s", tun, "speed", str(mbps), "duplex", "full")
                # SDR, 2.5 Gbit/s, is the slowest there is.
                check_equal(speed(device), wanted, f"speed of {mbps} Mbit/s")
        shell("link_del", "speed0")
    finally:
        fabric.a.run("ip", "link", "del", tun)


def port_state(fabric, a, b):
    """Down and up again, with a connection that outlives it."""
    source, target = a.region(4096), b.region(4096)
    with pair(a, b, timeout=ack_timeout(19)) as (qa, _):
        for _ in range(3):
            fabric.a.run("ip", "link", "set", fabric.a.netdev, "down")
            eventually(lambda: a.ctx.query_port(1).state == DOWN, "port down")
            check_equal(a.ctx.query_port(1).phys_state, 3, "physical state: disabled")
            qa.write([source.sge()], target.at())
            fabric.a.run("ip", "link", "set", fabric.a.netdev, "up")
            eventually(lambda: a.ctx.query_port(1).state == ACTIVE, "port up")
            check_equal(a.ctx.query_port(1).phys_state, 5, "physical state: link up")
            qa.sent(1)


def sent_again(device):
    """Packets that the device has sent again."""
    return int(pathlib.Path(f"/sys/class/infiniband/{device.name}/ports/1/hw_counters/completer_retry_err").read_text())


def port_mtu(fabric, a, b):
    """MTU 1500, 4200, 1000 and 1500 again, while messages flow."""
    source, target = a.region(8192), b.region(8192)

    def set_mtu(netdev, path):
        fabric.a.run("ip", "link", "set", fabric.a.netdev, "mtu", str(netdev))
        eventually(lambda: a.ctx.query_port(1).active_mtu == MTU[path], f"MTU {path}")

    def flows(qp, length=8192):
        for _ in range(10):
            qp.write([source.sge(0, length)], target.at())
            qp.sent(1)

    try:
        set_mtu(1500, 1024)
        # Seven times 4 s, and reminders in between.
        with pair(a, b, mtu=1024, timeout=ack_timeout(20)) as (old, _):
            flows(old)
            set_mtu(4200, 4096)
            flows(old)
            with pair(a, b, mtu=4096) as (large, _):
                flows(large)
            set_mtu(1000, 512)
            flows(old, 700)
            before = sent_again(a)
            old.write([source.sge()], target.at())
            eventually(lambda: sent_again(a) > before, "packets that are too large are sent again")
            late = RcQp(a)
            with refused(errno.EINVAL):
                late.connect(old.peer)
            late.close()
            with pair(a, b, mtu=512) as (small, _):
                flows(small)
            set_mtu(1500, 1024)
            old.sent(1, seconds=120)
            flows(old)
    finally:
        fabric.a.run("ip", "link", "set", fabric.a.netdev, "mtu", "4200")


def main():
    suite = ktap.Suite("device")
    with Fabric() as fabric, fabric.open("a") as a, fabric.open("b") as b:
        other = "has other capabilities"
        for name, (bit, use) in FLAGS.items():
            suite.add(f"capability {name}", has_and_does, fabric, a, b, bit, use, rxe_differs=other)
        suite.add("no other capabilities", no_other, fabric, a, b, rxe_differs=other)
        suite.add("atomics", atomics, fabric, a, b)
        suite.add("paging on demand", paging, fabric, a, b, rxe_differs=other)
        suite.add("port speed", port_speed, fabric, a, b, rxe_differs="cannot be asked for it")
        suite.add("port state", port_state, fabric, a, b)
        suite.add("port MTU", port_mtu, fabric, a, b, rxe_differs="does not refuse a path MTU that does not fit")
        suite.run()


if __name__ == "__main__":
    main()
