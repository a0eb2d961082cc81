#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
# vm: TMO=1200
"""Multicast groups: who gets a datagram, that the network is told, and what the frames look like."""

import contextlib
import ipaddress
import itertools
import pathlib
import socket
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent / "lib"))

import ktap
from children import Child
from datagram import GRH, MULTICAST_QPN, QKEY, UdAttr, UdQp, check_header
from ktap import check, check_equal, patient
from pyverbs.addr import GID
from rdma import SOON, STATE, Fabric, Peer, eventually, expect_none, has_gid, on_one_processor, refused, shell
from roce import Bth, Packet, Path, is_roce

# Each test has groups of its own, so that none sees what another has left.
NUMBERS = itertools.count(1)


def group_address(family):
    """A group that no test has had yet."""
    number = next(NUMBERS)
    if family == 4:
        return ipaddress.ip_address(f"239.7.{number >> 8}.{number & 255}")
    return ipaddress.ip_address(f"ff15::77:{number:x}")


def as_gid(address):
    """An address as a GID."""
    if address.version == 4:
        return GID(f"0000:0000:0000:0000:0000:ffff:{address.packed[:2].hex()}:{address.packed[2:].hex()}")
    return GID(address.exploded)


def as_peer(address):
    """A group as the destination of a datagram."""
    return Peer(as_gid(address), MULTICAST_QPN, 0)


def ethernet(address):
    """The Ethernet address that a group's frames have."""
    packed = address.packed
    if address.version == 4:
        return bytes((0x01, 0x00, 0x5E, packed[1] & 0x7F)) + packed[2:]
    return b"\x33\x33" + packed[12:]


class Scene:
    """Queue pairs and their memory."""

    def __init__(self, family, **attr):
        self.family, self.attr = family, UdAttr(**attr)
        self.stack = contextlib.ExitStack()

    def __enter__(self):
        self.group = group_address(self.family)
        self.stack.enter_context(on_one_processor())
        return self

    def __exit__(self, *why):
        self.stack.__exit__(*why)

    def qp(self, device, **changes):
        """A queue pair with a receive posted, in `qp.buffer`."""
        qp = UdQp(device, self.attr.with_(**changes))
        self.stack.callback(qp.close)
        qp.connect()
        qp.buffer = device.region(512)
        self.stack.callback(qp.buffer.close)
        qp.recv([qp.buffer.sge()])
        return qp

    def member(self, device, address=None, **changes):
        """A queue pair that is attached to a group."""
        qp = self.qp(device, **changes)
        qp.attach(as_gid(address or self.group))
        return qp

    def send(self, qp, text, address=None, hop_limit=3, **options):
        """Send to a group."""
        address = address or self.group
        region = qp.device.region(64)
        region.write(text)
        qp.send_to(as_peer(address), [region.sge(0, len(text))], hop_limit=hop_limit, **options)
        qp.sent(1)
        region.close()

    def passes(self, sender, device):
        """Wait until what was sent so far has come to a device: until a datagram behind it has."""
        last = self.qp(device)
        sender.send_to(last.peer, [])
        sender.sent(1)
        last.received(1)

    def got(self, receiver, sender, text, address=None):
        """The receiver has got just that, from that sender."""
        (received,) = receiver.received(1)
        check_equal((received.byte_len, received.src_qp), (GRH + len(text), sender.qp.qp_num), "receive")
        check_equal(receiver.buffer.read(len(text), GRH), text, "contents")
        check_header(receiver.buffer.read(GRH), sender.device.gid, as_gid(address or self.group))
        receiver.recv([receiver.buffer.sge()])


def kernel_members(end, address):
    """How often the network device is a member of a group, by what the kernel says."""
    table = end.run("cat", "/proc/net/igmp" if address.version == 4 else "/proc/net/igmp6")
    if address.version == 6:
        rows = [line.split() for line in table.splitlines()]
        return sum(int(row[3]) for row in rows if row[1] == end.netdev and row[2] == address.packed.hex())
    members, device = 0, None
    for line in table.splitlines()[1:]:
        if not line.startswith("\t"):
            device = line.split()[1]
        elif device == end.netdev:
            group, users = line.split()[:2]
            members += int(users) if bytes.fromhex(group)[::-1] == address.packed else 0
    return members


def takes_frames(end, address):
    """Does the network device take frames with the group's Ethernet address?"""
    return ethernet(address).hex(":") in end.run("ip", "maddress", "show", "dev", end.netdev)


def across(ends, family):
    """From one device to a member of another; to nobody before and afterwards."""
    with Scene(family) as scene:
        sender = scene.qp(ends[0])
        receiver = scene.qp(ends[1])
        scene.send(sender, b"too early")
        scene.passes(sender, ends[1])
        expect_none(receiver.recv_cq, 0)
        receiver.attach(as_gid(scene.group))
        for text in (b"", b"hello", bytes(range(60))):
            scene.send(sender, text)
            scene.got(receiver, sender, text)
        receiver.detach(as_gid(scene.group))
        scene.send(sender, b"too late")
        scene.passes(sender, ends[1])
        expect_none(receiver.recv_cq, 0)
        expect_none(sender.recv_cq, 0)


def everybody(ends, family):
    """All members get a copy: on other devices, on the sender's, and the sender itself."""
    with Scene(family) as scene:
        members = [scene.member(device) for device in (*ends, *ends, *ends)]
        outsiders = [scene.qp(device) for device in ends]
        for sender in members[:2] + outsiders:
            text = f"from {sender.qp.qp_num}".encode()
            scene.send(sender, text)
            for receiver in members:
                scene.got(receiver, sender, text)
        for qp in members + outsiders:
            expect_none(qp.recv_cq, 0)


def joined_late(ends, family):
    """A handle that was used before anybody here was a member leads to members here as well."""
    with Scene(family) as scene:
        sender = scene.qp(ends[0])
        scene.send(sender, b"to nobody")
        receiver = scene.member(ends[0])
        scene.send(sender, b"to us")
        scene.got(receiver, sender, b"to us")
        receiver.detach(as_gid(scene.group))
        scene.send(sender, b"to nobody again")
        scene.passes(sender, ends[0])
        expect_none(receiver.recv_cq, 0)


def several_groups(ends, family):
    """A queue pair in several groups gets what is for any of them, and nothing twice."""
    with Scene(family) as scene:
        sender, receiver = scene.qp(ends[0]), scene.qp(ends[1])
        groups = [group_address(family) for _ in range(40)]
        for group in groups:
            receiver.attach(as_gid(group))
        for group in groups:
            scene.send(sender, b"x", group)
            scene.got(receiver, sender, b"x", group)
        for group in groups[::2]:
            receiver.detach(as_gid(group))
        for index, group in enumerate(groups):
            scene.send(sender, b"y", group)
            if index % 2:
                scene.got(receiver, sender, b"y", group)
        expect_none(receiver.recv_cq, 0.05)


def membership(fabric, ends, family):
    """The network device is a member exactly while queue pairs are attached."""
    end = fabric.a
    with Scene(family) as scene:
        group = scene.group
        check_equal((kernel_members(end, group), takes_frames(end, group)), (0, False), "before")
        first, second = scene.member(ends[0]), scene.member(ends[0])
        check_equal((kernel_members(end, group), takes_frames(end, group)), (1, True), "with members")
        first.detach(as_gid(group))
        check_equal(kernel_members(end, group), 1, "with one member")
        second.detach(as_gid(group))
        check_equal((kernel_members(end, group), takes_frames(end, group)), (0, False), "afterwards")
        scene.member(ends[0])
        check_equal(kernel_members(end, group), 1, "with a new member")
    check_equal((kernel_members(end, group), takes_frames(end, group)), (0, False), "after its end")


def reports(fabric, ends, family):
    """Routers are told when the first joins and when the last leaves."""
    with Scene(family) as scene, listening(fabric.b, family) as frames:
        receiver = scene.member(ends[0])
        packed = scene.group.packed
        check(waits(frames, lambda frame: packed in frame[34:]), "no report of a member")
        receiver.detach(as_gid(scene.group))
        check(waits(frames, lambda frame: packed in frame[34:]), "no report of the end")


@contextlib.contextmanager
def listening(end, family):
    """A socket with all frames that arrive at an end."""
    wire = end.socket(socket.AF_PACKET, socket.SOCK_RAW, 0)
    wire.bind((end.netdev, 0x0800 if family == 4 else 0x86DD))
    wire.settimeout(0.2)
    with wire:
        yield wire


def waits(wire, wanted):
    """The first frame that is wanted, if it comes in time."""
    deadline = time.monotonic() + patient(SOON)
    while time.monotonic() < deadline:
        with contextlib.suppress(TimeoutError):
            frame = wire.recv(1 << 16)
            if wanted(frame):
                return frame
    return None


def frames(fabric, ends, family):
    """The Ethernet address is that of the group, the hop limit that of the handle."""
    with Scene(family) as scene, listening(fabric.b, family) as wire:
        sender = scene.qp(ends[0])
        for hop_limit in (1, 77, 255):
            scene.send(sender, b"look at me", hop_limit=hop_limit)
            frame = waits(wire, is_roce)
            check(frame, "no frame")
            packet = Packet(frame)
            check_equal(frame[:6].hex(":"), ethernet(scene.group).hex(":"), "Ethernet address")
            check_equal(packet.target, scene.group.packed, "IP address")
            check_equal(frame[22] if family == 4 else frame[21], hop_limit, "hop limit")
            check_equal((packet.name, packet.qpn, packet.icrc_good), ("UD_SEND_ONLY", MULTICAST_QPN, True), "packet")


def own_qkey(ends, family):
    """Each member decides for itself by its queue key."""
    with Scene(family) as scene:
        sender = scene.qp(ends[0])
        right, wrong = scene.member(ends[1]), scene.member(ends[1], qkey=QKEY + 1)
        scene.send(sender, b"x")
        scene.got(right, sender, b"x")
        expect_none(wrong.recv_cq, 0.05)


def no_receive(ends, family):
    """A member without a receive misses the packet; the others do not."""
    with Scene(family) as scene:
        sender = scene.qp(ends[0])
        members = [scene.member(ends[1]) for _ in range(3)]
        scene.send(sender, b"1")
        for member in members:
            member.received(1)
        for member in members[::2]:
            member.recv([member.buffer.sge()])
        scene.send(sender, b"2")
        for member in members[::2]:
            scene.got(member, sender, b"2")
        expect_none(members[1].recv_cq, 0)
        check_equal(members[1].state, STATE.RTS, "state")


def refusals(ends):
    """What is no group, twice the same, not attached."""
    with Scene(4) as scene:
        qp = scene.qp(ends[0])
        for gid in (ends[1].gid, GID("fe80:0000:0000:0000:0000:0000:0000:0001")):
            with refused(22):
                qp.attach(gid)
        with refused(22):
            qp.detach(as_gid(scene.group))
        qp.attach(as_gid(scene.group))
        # The core does not count, and neither tells the driver of a second time.
        qp.attach(as_gid(scene.group))
        qp.detach(as_gid(scene.group))
        with refused(22):
            qp.detach(as_gid(scene.group))


def limits(ends):
    """As many members as the device says, and no more."""
    attr = ends[0].ctx.query_device()
    check(attr.max_mcast_grp and attr.max_mcast_qp_attach, "no groups")
    with Scene(4, send_wr=1, recv_wr=1) as scene:
        members = [scene.member(ends[0]) for _ in range(attr.max_mcast_qp_attach)]
        one_more = scene.qp(ends[0])
        with refused(28, 12):
            one_more.attach(as_gid(scene.group))
        sender = scene.qp(ends[1])
        scene.send(sender, b"x")
        for member in members:
            member.received(1)


def wrong_addresses(fabric, ends):
    """Only what goes to a group may name its members, and what goes to a group may name nobody else."""
    with Scene(4) as scene:
        member = scene.member(ends[0])
        plain = Path(fabric.b.mac, fabric.a.mac, fabric.b.ip4_bytes, fabric.a.ip4_bytes)
        group = Path(fabric.b.mac, ethernet(scene.group), fabric.b.ip4_bytes, scene.group.packed)

        def datagram(qpn):
            return bytes(Bth(0x64, qpn, 0)) + QKEY.to_bytes(4, "big") + (99).to_bytes(4, "big")

        with fabric.b.socket(socket.AF_PACKET, socket.SOCK_RAW) as wire:
            wire.bind((fabric.b.netdev, 0))
            wire.send(plain.frame(datagram(MULTICAST_QPN)))
            wire.send(group.frame(datagram(member.qp.qp_num)))
            wire.send(group.frame(bytes(Bth(0x24, MULTICAST_QPN, 0))))
            wire.send(group.frame(datagram(MULTICAST_QPN), bad_icrc=1))
            expect_none(member.recv_cq, 0.2)
            wire.send(group.frame(datagram(MULTICAST_QPN)))
            (received,) = member.received(1)
            check_equal((received.byte_len, received.src_qp), (GRH, 99), "receive")


@contextlib.contextmanager
def interrupted_ipv6(end):
    """The network device has no IPv6 for a moment, as its MTU is too small; it has lost its groups."""
    address = f"{end.ip6}/64"
    mtu = pathlib.Path(f"/sys/class/net/{end.netdev}/mtu")
    before = end.run("cat", str(mtu)).strip()
    end.run("ip", "link", "set", end.netdev, "mtu", "1200")
    try:
        yield
    finally:
        end.run("ip", "link", "set", end.netdev, "mtu", before)
        end.run("ip", "addr", "add", address, "dev", end.netdev, "nodad")
        eventually(lambda: has_gid(end.device, end.ip6), "the GID of IPv6")


def lost(fabric, ends):
    """A group that the network device has lost is joined again."""
    end = fabric.a
    with Scene(6) as scene:
        sender, receiver = scene.qp(ends[1]), scene.member(ends[0])
        with interrupted_ipv6(end):
            check_equal(kernel_members(end, scene.group), 0, "members without IPv6")
        eventually(lambda: kernel_members(end, scene.group) == 1, "the group is not joined again")
        scene.send(sender, b"again")
        scene.got(receiver, sender, b"again")
        receiver.detach(as_gid(scene.group))
        check_equal(kernel_members(end, scene.group), 0, "members afterwards")


def lost_and_left(fabric, ends):
    """Who leaves a group that the network device had lost meanwhile leaves others' memberships alone."""
    end = fabric.a
    with Scene(6) as scene, end.socket(socket.AF_INET6, socket.SOCK_DGRAM) as other:
        stays, goes = scene.member(ends[0]), scene.member(ends[0])
        with interrupted_ipv6(end):
            goes.detach(as_gid(scene.group))
        eventually(lambda: kernel_members(end, scene.group) == 1, "the group is not joined again")
        index = int(end.run("cat", f"/sys/class/net/{end.netdev}/ifindex"))
        other.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_JOIN_GROUP, scene.group.packed + index.to_bytes(4, "little"))
        check_equal(kernel_members(end, scene.group), 2, "members with another one")
        stays.detach(as_gid(scene.group))
        check_equal(kernel_members(end, scene.group), 1, "members but for ours")
        with interrupted_ipv6(end):
            pass


# How often a user's queue pairs may be attached.
SHARE = 1024


def shares(fabric):
    """A user may not take all groups: others can join then, and it can again when it has left some."""

    def take_one():
        qp = UdQp(fabric.open("a"))
        qp.attach(as_gid(group_address(4)))
        yield

    def take_all():
        qp = UdQp(fabric.open("a"))
        groups = [as_gid(group_address(4)) for _ in range(SHARE)]
        for group in groups:
            qp.attach(group)
        with refused(28):
            qp.attach(as_gid(group_address(4)))
        yield
        qp.detach(groups[0])
        qp.attach(groups[0])
        yield

    with Child(take_all, uid=1000) as first, Child(take_one, uid=1001) as second:
        first.step()
        second.step()
        first.step()
    # What the first process had has been given back.
    with Child(take_all, uid=1000) as again:
        again.step()


@contextlib.contextmanager
def process_in(fabric, group):
    """A process whose queue pair is attached to a group, until it is killed."""

    def join():
        qp = UdQp(fabric.open("a"))
        qp.attach(as_gid(group))
        yield

    with Child(join) as child:
        child.step()
        check_equal(kernel_members(fabric.a, group), 1, "members")
        yield


def killed(fabric):
    """A process that is killed leaves no membership."""
    group = group_address(4)
    with process_in(fabric, group):
        pass
    check_equal(kernel_members(fabric.a, group), 0, "members after the end")


def device_gone(fabric):
    """A device that is deleted under a member leaves no membership."""
    for family in (4, 6):
        group = group_address(family)
        with process_in(fabric, group):
            shell("link_del", fabric.a.device)
            check_equal(kernel_members(fabric.a, group), 0, "members after the end")
        shell("device_up", fabric.a.netns, fabric.a.device, fabric.a.netdev, fabric.a.ip4, fabric.a.ip6)


def main():
    suite = ktap.Suite("multicast")
    with Fabric() as fabric, contextlib.ExitStack() as stack:
        for family in (4, 6):
            ends = [stack.enter_context(fabric.open(side, family)) for side in "ab"]
            for name, test in (
                ("between devices", across),
                ("a copy for each", everybody),
                ("joined after the first use", joined_late),
                ("several groups", several_groups),
                ("queue keys", own_qkey),
                ("no receive", no_receive),
            ):
                suite.add(f"IPv{family}: {name}", test, ends, family, rxe_differs="joins no group of IP")
            for name, test in (("membership", membership), ("reports", reports), ("frames", frames)):
                suite.add(f"IPv{family}: {name}", test, fabric, ends, family, rxe_differs="joins no group of IP")
        ends = [stack.enter_context(fabric.open(side)) for side in "ab"]
        suite.add("refusals", refusals, ends)
        suite.add("limits", limits, ends, rxe_differs="joins no group of IP")
        suite.add("wrong addresses", wrong_addresses, fabric, ends, rxe_differs="joins no group of IP")
        ends = [stack.enter_context(fabric.open(side, 6)) for side in "ab"]
        for name, test in (("lost", lost), ("lost and left", lost_and_left)):
            suite.add(name, test, fabric, ends, rxe_differs="joins no group of IP")
        suite.add("shares of users", shares, fabric, rxe_differs="has no shares")
        suite.add("process killed", killed, fabric, rxe_differs="joins no group of IP")
        suite.add("device deleted", device_gone, fabric, rxe_differs="waits for the process")
        suite.run()


if __name__ == "__main__":
    main()
