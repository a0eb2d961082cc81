#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
# vm: TMO=1200
"""Every operation of every service, over either address family, with each path MTU, in lengths around
those of packets: each byte of memory and each field of each completion, at both ends."""

import contextlib
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent / "lib"))

import ktap
import operations as op
from datagram import MULTICAST_QPN, UdAttr, UdQp
from ktap import check_equal
from operations import INLINE, RIGHTS, SEVERAL, WHOLE, Scene
from pyverbs.addr import GID
from rdma import MTU, ExRcQp, Fabric, Peer, UcQp, pair

# Headers between the MTU of a network device and that of a path; what IPv6 wants of a network device.
OVERHEAD = 84
IPV6_LEAST = 1280
INLINE_MOST = 512
SETTINGS = {"access": RIGHTS, "inline": INLINE_MOST}

UC_OPERATIONS = (op.send, op.send_imm, op.write, op.write_imm)
RC_OPERATIONS = (*UC_OPERATIONS, op.send_inv, op.read)
ATOMICS = (op.fetch_add, op.cmp_swp, op.cmp_swp_unequal)
# 239.7.9.1 and ff15::77:901, written in full, as pyverbs wants it.
GROUPS = {
    4: GID("0000:0000:0000:0000:0000:ffff:ef07:0901"),
    6: GID("ff15:0000:0000:0000:0000:0000:0077:0901"),
}


def lengths(mtu):
    """Nothing, and from one packet to four, full and not."""
    return 0, 1, mtu - 1, mtu, mtu + 1, 2 * mtu, 3 * mtu + 5


def layouts(operation, length):
    """How a message can lie in memory."""
    yield WHOLE
    yield SEVERAL
    if operation is not op.read and length <= INLINE_MOST:
        yield INLINE


def sized(scene, functions, mtu):
    """Operations that have a length."""
    for function in functions:
        for length in lengths(mtu):
            for layout in layouts(function, length):
                what = f"{function.__name__} of {length} bytes, {layout.name}"
                scene.finish([function(scene, length, layout)], what)


def words(scene):
    """Operations on eight bytes."""
    for function in ATOMICS:
        for layout in WHOLE, SEVERAL:
            scene.finish([function(scene, layout)], f"{function.__name__}, {layout.name}")
    scene.finish([op.atomic_write(scene)], "atomic_write")


def flushes(scene, mtu):
    """FLUSH."""
    for length in lengths(mtu):
        scene.finish([op.flush(scene, length)], f"flush of {length} bytes")
    scene.finish([op.flush_region(scene)], "flush of the region")


@contextlib.contextmanager
def connected(ends, kind, mtu):
    """A connection and its memory; nothing but what is expected completes meanwhile."""
    with pair(*ends, kind=kind, mtu=mtu, **SETTINGS) as qps, contextlib.closing(Scene(*qps, 8 * mtu + 1024)) as scene:
        yield scene
        scene.nothing_more()


def reliable(ends, mtu):
    """RC, in both directions."""
    for direction in (ends, ends[::-1]):
        with connected(direction, ExRcQp, mtu) as scene:
            sized(scene, RC_OPERATIONS, mtu)
            words(scene)
            flushes(scene, mtu)


def unreliable(ends, mtu):
    """UC, in both directions."""
    for direction in (ends, ends[::-1]):
        with connected(direction, UcQp, mtu) as scene:
            sized(scene, UC_OPERATIONS, mtu)


def datagrams(ends, fabric, netdev_mtu, mtu, group):
    """UD, in both directions: to a queue pair, and to a multicast group."""
    for end in (fabric.a, fabric.b):
        end.run("ip", "link", "set", end.netdev, "mtu", str(netdev_mtu))
    for a, b in (ends, ends[::-1]):
        check_equal(a.ctx.query_port(1).active_mtu, MTU[mtu], "MTU of the port")
        with contextlib.ExitStack() as stack:
            qa, qb = (stack.enter_context(contextlib.closing(UdQp(e, UdAttr(inline=INLINE_MOST)))) for e in (a, b))
            for qp in (qa, qb):
                qp.connect()
            qb.attach(group)
            scene = stack.enter_context(contextlib.closing(Scene(qa, qb, 8 * mtu + 1024)))
            for peer in (qb.peer, Peer(group, MULTICAST_QPN, 0)):
                for imm in (None, op.IMM):
                    for length in (0, 1, mtu - 1, mtu):
                        for layout in layouts(op.datagram, length):
                            what = f"datagram of {length} bytes to {peer.gid}, immediate {imm}, {layout.name}"
                            scene.finish([op.datagram(scene, peer, length, layout, imm)], what)
            scene.nothing_more()


def main():
    suite = ktap.Suite("opcodes")
    with Fabric() as fabric, contextlib.ExitStack() as stack:
        ends = {family: [stack.enter_context(fabric.open(side, family)) for side in "ab"] for family in (4, 6)}
        for name, test in (("RC", reliable), ("UC", unreliable)):
            for family in (4, 6):
                for mtu in MTU:
                    suite.add(f"{name}, IPv{family}, MTU {mtu}", test, ends[family], mtu)
                suite.add(f"{name}, IPv{family}, within a device", test, ends[family][:1] * 2, 1024)
        # The addresses of IPv6 are gone once the MTU is less than it wants.
        for family, least in ((6, IPV6_LEAST), (4, 0)):
            for mtu in sorted(MTU, reverse=True):
                netdev_mtu = max(mtu + OVERHEAD, least)
                if netdev_mtu < 2 * mtu + OVERHEAD:
                    name = f"UD, IPv{family}, MTU {mtu}"
                    suite.add(name, datagrams, ends[family], fabric, netdev_mtu, mtu, GROUPS[family])
        suite.run()


if __name__ == "__main__":
    main()
