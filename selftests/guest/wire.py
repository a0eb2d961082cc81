#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
# vm: TMO=1200
"""What is on the wire: each operation in both directions is captured, and every packet examined."""

import collections
import contextlib
import pathlib
import struct
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent / "lib"))

import ktap
import roce
import workload
from capture import capture
from counters import Watch
from datagram import QKEY, UdAttr, UdQp
from ktap import check, check_equal
from rdma import (
    ACCESS,
    ALL_ACCESS,
    MW_TYPE,
    PSN_MASK,
    SELECTIVITY,
    SEND,
    STATUS,
    ExRcQp,
    Fabric,
    RcAttr,
    RcQp,
    pair,
    poll_for,
    statuses,
)
from roce import NAMES

# On a clean link nothing is to be sent twice, however slow the machine is: there is no timeout.
PATIENT = {"timeout": 0}


def check_form(packets, mtu):
    """What each packet of a connection must look like by itself."""
    ports = collections.defaultdict(set)
    for p in packets:
        check_equal((p.target_port, p.version, p.pkey), (4791, 0, 0xFFFF), f"{p.name}: port, version, P_Key")
        check(len(p.payload) <= mtu, f"{p.name}: {len(p.payload)} bytes")
        if p.opcode in roce.FULL:
            check_equal(len(p.payload), mtu, f"{p.name}: payload")
        if p.name.endswith("_LAST") or p.name.endswith("_LAST_IMM"):
            check(p.payload, f"{p.name}: no payload")
        if p.opcode in roce.RESPONSES:
            check(not p.ack, f"{p.name}: a response asks for an acknowledgement")
        ports[p.source, p.qpn].add(p.source_port)
    check(all(len(found) == 1 for found in ports.values()), f"a flow changes its source port: {dict(ports)}")
    check(min(min(found) for found in ports.values()) >= 0xC000, "source port below 0xC000")


def check_messages(packets, mtu):
    """Requests follow each other without a gap, and are as long as they say."""
    expected, left = {}, {}
    for p in packets:
        if p.opcode in roce.RESPONSES:
            continue
        flow = p.source, p.qpn
        check_equal(p.psn, expected.get(flow, p.psn), f"{p.name}: PSN")
        reth = p.headers.get("reth")
        length = struct.unpack("!QII", reth)[2] if reth else None
        taken = max(1, -(-length // mtu)) if p.opcode == NAMES["READ_REQUEST"] else 1
        expected[flow] = (p.psn + taken) & PSN_MASK
        if p.name.startswith("WRITE"):
            left[flow] = (length if reth else left[flow]) - len(p.payload)
            check(left[flow] >= 0, f"{p.name}: more than the RETH says")
            if not p.name.endswith(("_FIRST", "_MIDDLE")):
                check_equal(left[flow], 0, f"{p.name}: bytes missing at the end")
        if not p.name.endswith(("_FIRST", "_MIDDLE")) and p.opcode != NAMES["READ_REQUEST"]:
            check(p.ack or p.name in ("CMP_SWAP", "FETCH_ADD"), f"{p.name}: the end of a message without AckReq")


def check_responses(packets):
    """Acknowledgements are positive, and the message sequence number never goes back."""
    last = {}
    for p in packets:
        if "aeth" not in p.headers:
            continue
        syndrome, msn = p.headers["aeth"][0], int.from_bytes(p.headers["aeth"][1:], "big")
        check_equal(syndrome >> 5, 0, f"{p.name}: not an ACK: syndrome")
        flow = p.source, p.qpn
        check((msn - last.get(flow, msn)) & PSN_MASK < 1 << 23, f"{p.name}: MSN goes back to {msn}")
        last[flow] = msn


# What a clean link must show of the operations; responses beyond these are at the responder's liberty.
EXPECTED = {name for name in NAMES if not name.endswith("_INV") and name not in ("FLUSH", "ATOMIC_WRITE")}


def all_operations(fabric, ends, family, mtu):
    """Every operation in both directions: form, sequence and coverage."""
    with capture(fabric, f"operations-v{family}-{mtu}") as packets, pair(*ends, mtu=mtu, **PATIENT) as (qa, qb):
        workload.exercise(qa, qb, window=8)
    check_form(packets, mtu)
    check_messages(packets, mtu)
    check_responses(packets)
    for source in {p.source for p in packets}:
        seen = {p.name for p in packets if p.source == source}
        check(EXPECTED <= seen, f"not seen from {source.hex()}: {EXPECTED - seen}")
    check_equal(len({p.source for p in packets}), 2, "senders")


def psn_wrap(fabric, ends):
    """The packet sequence number has 24 bits."""
    attr = RcAttr(**PATIENT)
    with capture(fabric, "psn-wrap") as packets:
        qa, qb = RcQp(ends[0], attr, psn=0xFFFFF0), RcQp(ends[1], attr, psn=0xFFFFFF)
        qa.connect(qb.peer)
        qb.connect(qa.peer)
        workload.exercise(qa, qb, sizes=(0, 100, 5000))
        qa.close()
        qb.close()
    check_messages(packets, attr.mtu)
    check(any(p.psn == 0 for p in packets) and any(p.psn >= 0xFFFFF0 for p in packets), "no wrap seen")


def immediate_bytes(fabric, ends):
    """0x12345678 is 12 34 56 78 on the wire, and the solicited bit is where it belongs."""
    with capture(fabric, "immediate") as packets, pair(*ends, **PATIENT) as (qa, qb):
        here, there = qa.device.region(3000), qb.device.region(3000)
        for flags in (0, SEND.SOLICITED):
            for length in (10, 3000):
                qb.recv([there.sge()])
                qa.send([here.sge(0, length)], imm=0x12345678, flags=SEND.SIGNALED | flags)
                qb.recv()
                qa.write([here.sge(0, length)], there.at(), imm=0x12345678, flags=SEND.SIGNALED | flags)
        qa.sent(8)
        qb.received(8)
    ends_of_messages = [p for p in packets if "imm" in p.headers]
    check_equal(len(ends_of_messages), 8, "packets with immediate")
    check_equal({p.headers["imm"].hex() for p in ends_of_messages}, {"12345678"}, "immediate")
    check_equal([p.solicited for p in ends_of_messages], [0] * 4 + [1] * 4, "solicited bits")
    others = [p for p in packets if "imm" not in p.headers]
    check(not any(p.solicited for p in others), "solicited bit on a packet that is not the last")


def placement(fabric, ends):
    """FLUSH, ATOMIC WRITE and SEND with invalidate: their headers, and how the first two are answered."""
    access = ALL_ACCESS | ACCESS.FLUSH_GLOBAL
    with capture(fabric, "placement") as packets, pair(*ends, kind=ExRcQp, access=access, **PATIENT) as (qa, qb):
        here, there = qa.device.region(64), qb.device.region(4096, access | ACCESS.MW_BIND)
        window = qb.device.window(MW_TYPE.TYPE_2)
        window.bind(qb, there)
        qb.sent(1)
        qa.atomic_write(there.at(8), b"12345678")
        qa.flush(there.at(16), 100)
        qa.flush(there.at()._replace(addr=0), 0, selectivity=SELECTIVITY.MR)
        qb.recv()
        qa.send_inv([], window.key)
        qa.sent(4)
        qb.received(1)
        window.close()
    check_form(packets, 1024)
    by_name = collections.defaultdict(list)
    for p in packets:
        by_name[p.name].append(p)
    (written,), (ranged, whole) = by_name["ATOMIC_WRITE"], by_name["FLUSH"]
    (invalidating,) = by_name["SEND_ONLY_INV"]
    check_equal(written.payload, b"12345678", "payload of the ATOMIC WRITE")
    check_equal(written.headers["reth"], roce.reth(there.mr.buf + 8, there.mr.rkey, 8), "RETH of the ATOMIC WRITE")
    check_equal(ranged.headers["feth"].hex(), "00000001", "FETH of a range")
    check_equal(ranged.headers["reth"], roce.reth(there.mr.buf + 16, there.mr.rkey, 100), "RETH of a range")
    check_equal(whole.headers["feth"].hex(), "00000011", "FETH of a region")
    check_equal(invalidating.headers["ieth"], struct.pack("!I", window.key), "IETH")
    answers = [(p.psn, p.payload) for p in by_name["READ_RESPONSE_ONLY"]]
    check_equal(answers, [(p.psn, b"") for p in (written, ranged, whole)], "answers")


def migration_bit(fabric, ends):
    """Where there is no path migration, a path is always in the migrated state."""
    with capture(fabric, "migration") as packets, pair(*ends, **PATIENT) as (qa, qb):
        workload.exercise(qa, qb, sizes=(8, 3000))
    check_equal({p.name for p in packets if not p.migrated}, set(), "packets without MigReq")


def datagrams(fabric, ends, family):
    """Each is a packet that names sender and key; the queue pair that is controlled shows its own."""
    sizes = (0, 1, 2, 3, 1024, 4096)
    own = 0x0ABCDEF1
    with capture(fabric, f"datagrams-v{family}") as packets, contextlib.ExitStack() as stack:
        qa, qb = UdQp(ends[0], UdAttr(qkey=own), psn=0xFFFFFE), UdQp(ends[1])
        here = ends[0].region(4096)
        for qp in (qa, qb):
            stack.callback(qp.close)
            qp.connect()
        for size in sizes:
            qa.send_to(qb.peer, [here.sge(0, size)])
            qa.send_to(qb.peer, [here.sge(0, size)], imm=0x12345678, flags=SEND.SIGNALED | SEND.SOLICITED)
        qa.send_to(qb.peer, [here.sge(0, 4)], qkey=0x80000000)
        qa.sent(2 * len(sizes) + 1)
        names = [name for _ in sizes for name in ("UD_SEND_ONLY", "UD_SEND_ONLY_IMM")] + ["UD_SEND_ONLY"]
        keys = [QKEY] * (2 * len(sizes)) + [own]
        number, target = qa.qp.qp_num, qb.qp.qp_num
    check_form(packets, 4096)
    check_equal([p.name for p in packets], names, "packets")
    check_equal([p.psn for p in packets], [0xFFFFFE + i & PSN_MASK for i in range(len(names))], "PSNs")
    check_equal({(p.qpn, p.migrated, p.ack) for p in packets}, {(target, 1, 0)}, "target, MigReq, AckReq")
    check_equal([p.solicited for p in packets], [0, 1] * len(sizes) + [0], "solicited bits")
    shown = [struct.unpack("!II", p.headers["deth"]) for p in packets]
    check_equal(shown, [(key, number) for key in keys], "keys and senders")
    check_equal([len(p.payload) for p in packets], [size for size in sizes for _ in "ab"] + [4], "lengths")
    check_equal({p.headers["imm"].hex() for p in packets if "imm" in p.headers}, {"12345678"}, "immediate")


def negative(fabric, ends):
    """What is refused is refused on the wire as specified."""
    with capture(fabric, "refused") as packets:
        with pair(*ends, min_rnr_timer=22, rnr_retry=7, **PATIENT) as (qa, qb):
            here, there = qa.device.region(64), qb.device.region(64)
            at_b = Watch(ends[1])
            qa.send([here.sge()])
            at_b.until("send_rnr_err")
            qb.recv([there.sge()])
            qa.sent(1)
            bad = qa.write([here.sge()], there.at()._replace(rkey=0))
            check_equal(statuses(poll_for(qa.send_cq, 1)), [(bad, STATUS.REM_ACCESS_ERR)], "send completion")
    syndromes = [p.headers["aeth"][0] for p in packets if "aeth" in p.headers]
    check(0x20 | 22 in syndromes, f"no RNR NAK with timer 22: {list(map(hex, syndromes))}")
    check(0x62 in syndromes, f"no NAK for remote access: {list(map(hex, syndromes))}")
    check_equal(syndromes.count(0x62), 1, "NAKs for remote access")


def retransmission(fabric, ends):
    """On a bad link, too, every packet is well-formed; what is sent again is the same as before."""
    fabric.b.run("tc", "qdisc", "add", "dev", fabric.b.netdev, "root", "netem", "loss", "10%")
    fabric.a.run("tc", "qdisc", "add", "dev", fabric.a.netdev, "root", "netem", "loss", "10%")
    try:
        with capture(fabric, "retransmission") as packets, pair(*ends) as (qa, qb):
            workload.exercise(qa, qb, kinds=("send", "send_imm", "write", "write_imm"))
    finally:
        for end in (fabric.a, fabric.b):
            end.run("tc", "qdisc", "del", "dev", end.netdev, "root")
    check_form(packets, 1024)
    payloads = {}
    for p in packets:
        if p.opcode not in roce.RESPONSES:
            key = p.source, p.qpn, p.psn
            check_equal((p.name, p.payload), payloads.setdefault(key, (p.name, p.payload)), f"PSN {p.psn:#x} again")
    repeats = len([p for p in packets if p.opcode not in roce.RESPONSES]) - len(payloads)
    check(repeats > 0, "nothing was sent again, so this proves nothing")


def main():
    suite = ktap.Suite("wire")
    with contextlib.ExitStack() as stack:
        fabric = stack.enter_context(Fabric())
        for end in (fabric.a, fabric.b):
            end.run("ethtool", "-K", end.netdev, "tx-udp-segmentation", "off")
        v4, v6 = ([stack.enter_context(fabric.open(side, f)) for side in "ab"] for f in (4, 6))
        for mtu in (256, 1024, 4096):
            suite.add(f"all operations, IPv4, MTU {mtu}", all_operations, fabric, v4, 4, mtu)
            suite.add(f"all operations, IPv6, MTU {mtu}", all_operations, fabric, v6, 6, mtu)
        suite.add("PSN wrap", psn_wrap, fabric, v4)
        suite.add("immediate and solicited bit", immediate_bytes, fabric, v4)
        suite.add("FLUSH, ATOMIC WRITE, SEND with invalidate", placement, fabric, v4)
        suite.add("MigReq bit", migration_bit, fabric, v4, rxe_differs="never sets it")
        for family, ends in ((4, v4), (6, v6)):
            suite.add(f"datagrams, IPv{family}", datagrams, fabric, ends, family, rxe_differs="MigReq, own key")
        suite.add("RNR and access NAKs", negative, fabric, v4)
        suite.add("retransmission", retransmission, fabric, v4)
        suite.run()


if __name__ == "__main__":
    main()
