# SPDX-License-Identifier: GPL-2.0
"""Two connected RDMA devices for the tests, in one process.

The RDMA core is in its shared namespace mode, so one process can open the devices
of both network namespaces (see net.sh for the picture) and hold both ends of a
connection; whatever they exchange still crosses the veth pair.

    with Fabric() as fabric, fabric.open("a") as a, fabric.open("b") as b, pair(a, b) as (qa, qb):
        memory = b.region(4096)
        qb.recv()
        qa.write([a.region(64).sge()], memory.at(0), imm=0x12345678)
        qa.sent(1); qb.received(1)
"""

import contextlib
import dataclasses
import enum
import ipaddress
import itertools
import os
import pathlib
import random
import select
import socket
import subprocess
import time
import typing

import pyverbs.libibverbs_enums as e
from pyverbs.addr import AHAttr, GlobalRoute
from pyverbs.cq import CQ
from pyverbs.device import Context
from pyverbs.mr import MR, MW, MWBind, MWBindInfo
from pyverbs.pd import PD
from pyverbs.pyverbs_error import PyverbsRDMAError
from pyverbs.qp import QP, QPAttr, QPCap, QPEx, QPInitAttr, QPInitAttrEx
from pyverbs.srq import SRQ, SrqAttr, SrqInitAttr
from pyverbs.wr import SGE, RecvWR, SendWR

from dropper import Dropper
from ktap import PATIENCE, check, patient

LIB = pathlib.Path(__file__).resolve().parent


class Named(enum.IntEnum):
    """A number that prints as its name."""

    def __repr__(self):
        return self.name


def short(source, prefix):
    """An enum of libibverbs without the prefix that each of its names bears."""
    return Named(source.__name__, {m.name.removeprefix(prefix): m.value for m in source})


STATUS = short(e.ibv_wc_status, "IBV_WC_")
WC_OPCODE = short(e.ibv_wc_opcode, "IBV_WC_")
WR = short(e.ibv_wr_opcode, "IBV_WR_")
STATE = short(e.ibv_qp_state, "IBV_QPS_")
ATTR = short(e.ibv_qp_attr_mask, "IBV_QP_")
ACCESS = short(e.ibv_access_flags, "IBV_ACCESS_")
SEND = short(e.ibv_send_flags, "IBV_SEND_")
EVENT = short(e.ibv_event_type, "IBV_EVENT_")
MW_TYPE = short(e.ibv_mw_type, "IBV_MW_")
PLACEMENT = short(e.ibv_placement_type, "IBV_FLUSH_")
SELECTIVITY = short(e.ibv_selectivity_level, "IBV_FLUSH_")
SRQ_MAX_WR, SRQ_LIMIT = int(e.ibv_srq_attr_mask.IBV_SRQ_MAX_WR), int(e.ibv_srq_attr_mask.IBV_SRQ_LIMIT)
WITH_IMM = int(e.ibv_wc_flags.IBV_WC_WITH_IMM)
WITH_INV = int(e.ibv_wc_flags.IBV_WC_WITH_INV)

ALL_ACCESS = ACCESS.LOCAL_WRITE | ACCESS.REMOTE_WRITE | ACCESS.REMOTE_READ | ACCESS.REMOTE_ATOMIC
PSN_MASK = 0xFFFFFF
POLL_PAUSE = 0.0005
# Seconds in which what has to happen happens, however busy the machine is.
SOON = 60


# The network.


def shell(function, *args, timeout=300):
    """Run a function of net.sh; returns what it prints."""
    script = f'set -e; . "{LIB}/net.sh"; {function} "$@"'
    done = subprocess.run(
        ["bash", "-c", script, "net", *map(str, args)],
        capture_output=True, text=True, timeout=patient(timeout), check=False,
    )
    check(done.returncode == 0, f"{function}: {done.stdout}{done.stderr}".strip())
    return done.stdout


@dataclasses.dataclass
class End:
    """One end of the cable."""

    device: str
    netns: str
    netdev: str
    ip4: str
    ip6: str

    @property
    def mac(self):
        """The Ethernet address of its netdev."""
        return bytes.fromhex(self.run("cat", f"/sys/class/net/{self.netdev}/address").strip().replace(":", ""))

    @property
    def ip4_bytes(self):
        """Its IPv4 address as on the wire."""
        return socket.inet_aton(self.ip4)

    def run(self, *command, timeout=120):
        """Run a command in the network namespace of this end."""
        return subprocess.run(
            ["ip", "netns", "exec", self.netns, *command],
            capture_output=True, text=True, timeout=patient(timeout), check=True,
        ).stdout

    @contextlib.contextmanager
    def inside(self):
        """The network namespace of this end, for this thread."""
        home = os.open("/proc/self/ns/net", os.O_RDONLY)
        there = os.open(f"/run/netns/{self.netns}", os.O_RDONLY)
        try:
            os.setns(there)
            yield
        finally:
            os.setns(home)
            os.close(there)
            os.close(home)

    def socket(self, *args):
        """A socket that lives in the network namespace of this end."""
        with self.inside():
            return socket.socket(*args)

    def dropper(self):
        """What loses packets that come to this end."""
        with self.inside():
            return Dropper(self.netdev)


class Fabric:
    """Both ends, up while the object is."""

    def __init__(self, mtu=4200):
        try:
            shell("fabric_up", mtu)
        except BaseException:
            shell("fabric_down")
            raise
        names = dict(line.split("=", 1) for line in shell("fabric_describe").splitlines())
        self.a, self.b = (
            End(*(names[f"{what}_{side}"] for what in ("DEV", "NS", "IF", "IP4", "IP6"))) for side in "AB"
        )

    def __enter__(self):
        return self

    def __exit__(self, *_):
        shell("fabric_down")

    def open(self, side, family=4):
        """Open the device of one end for the GID of its address of a family."""
        end = getattr(self, side)
        return Device(end.device, end.ip4 if family == 4 else end.ip6)


def gid_index(device, address):
    """The index in a device's GID table of an IP address."""
    wanted = ipaddress.ip_address(address)
    if wanted.version == 4:
        wanted = ipaddress.ip_address(f"::ffff:{address}")
    gids = pathlib.Path(f"/sys/class/infiniband/{device}/ports/1/gids")
    for index in range(16):
        if ipaddress.ip_address((gids / str(index)).read_text().strip()) == wanted:
            return index
    raise AssertionError(f"{device} has no GID for {address}")


def has_gid(device, address):
    """Is an address in a device's GID table?"""
    try:
        gid_index(device, address)
    except AssertionError:
        return False
    return True


# Memory.


class Remote(typing.NamedTuple):
    """A place in the memory of the peer."""

    addr: int
    rkey: int


class Region:
    """A registered piece of memory."""

    def __init__(self, device, length, access=ALL_ACCESS):
        self.mr = MR(device.pd, length, access)
        self.length = length
        self.fill(0, length)

    def sge(self, offset=0, length=None):
        """A scatter/gather entry of a part of it."""
        return SGE(self.mr.buf + offset, self.length - offset if length is None else length, self.mr.lkey)

    def at(self, offset=0):
        """The address of a part of it, for the peer."""
        return Remote(self.mr.buf + offset, self.mr.rkey)

    def write(self, data, offset=0):
        """Set its contents."""
        check(offset + len(data) <= self.length, "test writes outside of its region")
        self.mr.write(bytes(data), len(data), offset)

    def fill(self, byte, length=None, offset=0):
        """Set a part of it to one value."""
        self.write(bytes([byte]) * (self.length - offset if length is None else length), offset)

    def read(self, length, offset=0):
        """Its contents."""
        return self.mr.read(length, offset)

    def word(self, offset=0):
        """The 64-bit number at an offset, as the machine stores it."""
        return int.from_bytes(self.read(8, offset), "little")

    def set_word(self, value, offset=0):
        """Store a 64-bit number."""
        self.write(value.to_bytes(8, "little"), offset)

    def close(self):
        """Deregister."""
        self.mr.close()


class Window:
    """A memory window. Once it is bound, `key` is what peers show."""

    def __init__(self, device, kind):
        self.kind = kind
        self.mw = MW(device.pd, kind)
        self.key = self.mw.rkey

    def bind(self, qp, region, offset=0, length=None, access=ACCESS.REMOTE_WRITE | ACCESS.REMOTE_READ):
        """Post that it show a part of a region; returns the number of the work request."""
        number = next(qp.numbers)
        length = region.length - offset if length is None else length
        info = MWBindInfo(region.mr, region.mr.buf + offset, length, access)
        if self.kind == MW_TYPE.TYPE_1:
            qp.qp.bind_mw(self.mw, MWBind(info, SEND.SIGNALED, number))
            self.key = self.mw.rkey
        else:
            wr = SendWR(number, WR.BIND_MW, send_flags=SEND.SIGNALED)
            wr.set_bind_wr(self.mw, info)
            qp.qp.post_send(wr)
            self.key = wr.rkey
        return number

    def at(self, addr):
        """An address, to be used with the key of the window."""
        return Remote(addr, self.key)

    def close(self):
        """Free it."""
        self.mw.close()


# Devices and queue pairs.


def event_files():
    """The descriptors of this process for verbs events; pyverbs does not show the asynchronous one."""
    return {fd for fd in map(int, os.listdir("/proc/self/fd")) if fd_target(fd) == "anon_inode:[infinibandevent]"}


def fd_target(fd):
    """What a descriptor is, or None if it is gone (as the one that listed the others is)."""
    try:
        return os.readlink(f"/proc/self/fd/{fd}")
    except FileNotFoundError:
        return None


class Device:
    """An open device with a protection domain, and one of its GIDs."""

    def __init__(self, name, address):
        self.name = name
        before = event_files()
        self.ctx = Context(name=name)
        (self.async_fd,) = event_files() - before
        self.pd = PD(self.ctx)
        self.gid_index = gid_index(name, address)
        self.gid = self.ctx.query_gid(1, self.gid_index)

    def region(self, length, access=ALL_ACCESS):
        """Allocate and register memory."""
        return Region(self, length, access)

    def window(self, kind):
        """Allocate a memory window."""
        return Window(self, kind)

    def qp(self, kind, attr):
        """Make one end of a connection."""
        return kind(self, attr)

    def event(self, seconds=SOON):
        """The next asynchronous event, or None if there is none in time."""
        if not select.select([self.async_fd], [], [], patient(seconds))[0]:
            return None
        event = self.ctx.get_async_event()
        event.ack()
        return EVENT(event.event_type)

    def close(self):
        """Close it with everything that was made on it."""
        self.ctx.close()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()


class Completion(typing.NamedTuple):
    """A work completion with names for its numbers."""

    wr_id: int
    status: STATUS
    opcode: int
    byte_len: int
    imm: int
    flags: int
    qp_num: int
    src_qp: int
    invalidated: int = None
    vendor_err: int = 0
    pkey_index: int = 0
    slid: int = 0
    sl: int = 0
    path_bits: int = 0

    @classmethod
    def of(cls, wc):
        """Translate one of pyverbs."""
        opcode = WC_OPCODE(wc.opcode) if wc.opcode in list(WC_OPCODE) else wc.opcode
        imm = socket.ntohl(wc.imm_data) if wc.wc_flags & WITH_IMM else None
        invalidated = wc.imm_data if wc.wc_flags & WITH_INV else None
        source = wc.pkey_index, wc.slid, wc.sl, wc.dlid_path_bits
        numbers = wc.qp_num, wc.src_qp
        return cls(
            wc.wr_id, STATUS(wc.status), opcode, wc.byte_len, imm, wc.wc_flags, *numbers, invalidated, wc.vendor_err, *source
        )


def comes_true(condition, seconds=SOON):
    """Whether it becomes true in that time."""
    deadline = time.monotonic() + patient(seconds)
    while not (now := condition()) and time.monotonic() < deadline:
        time.sleep(0.01)
    return bool(now)


def eventually(condition, what, seconds=SOON):
    """Wait until it is true."""
    check(comes_true(condition, seconds), f"not after {seconds} s: {what}")


def poll_for(cq, count, seconds=SOON):
    """Exactly `count` completions of a CQ, or an error that says how many came."""
    found = []
    deadline = time.monotonic() + patient(seconds)
    while len(found) < count:
        found += map(Completion.of, cq.poll(count - len(found))[1])
        if len(found) < count:
            check(time.monotonic() < deadline, f"{len(found)} of {count} completions after {seconds} s: {found[-3:]}")
            time.sleep(POLL_PAUSE)
    return found


def expect_none(cq, seconds=0.2):
    """Nothing (more) may complete."""
    deadline = time.monotonic() + seconds
    while True:
        extra = [Completion.of(wc) for wc in cq.poll(16)[1]]
        check(not extra, "unexpected completions:", extra)
        if time.monotonic() >= deadline:
            return
        time.sleep(POLL_PAUSE)


def statuses(completions):
    """The (wr_id, status) pairs."""
    return [(c.wr_id, c.status) for c in completions]


def ack_timeout(exponent):
    """A retransmission timeout (4.096 us * 2^n) as long as this machine and kernel need it."""
    return exponent + PATIENCE.bit_length() - 1


@dataclasses.dataclass(frozen=True)
class RcAttr:
    """What a connected QP is created and connected with. An UC QP has no use for some of it."""

    mtu: int = 1024
    # 0.5 s. With the retries it takes a quarter of a minute until a peer is given up that has stopped.
    timeout: int = ack_timeout(17)
    retry_cnt: int = 7
    rnr_retry: int = 7
    min_rnr_timer: int = 12  # 0.64 ms
    rd_atomic: int = 8
    access: int = ALL_ACCESS
    send_wr: int = 64
    recv_wr: int = 64
    sge: int = 4
    inline: int = 64
    signal_all: bool = True

    def with_(self, **changes):
        """The same with some changes."""
        return dataclasses.replace(self, **changes)


class Peer(typing.NamedTuple):
    """What one end must know about the other."""

    gid: object
    qp_num: int
    psn: int


MTU = {size: value for value, size in enumerate((256, 512, 1024, 2048, 4096), 1)}


class RcQp:
    """One end of a reliable connection.

    Its work requests are numbered; the posting functions return the number.
    """

    TYPE = e.ibv_qp_type.IBV_QPT_RC
    # What the transitions to RTR and RTS need besides what every connection has.
    RTR = ATTR.MAX_DEST_RD_ATOMIC | ATTR.MIN_RNR_TIMER
    RTS = ATTR.TIMEOUT | ATTR.RETRY_CNT | ATTR.RNR_RETRY | ATTR.MAX_QP_RD_ATOMIC

    def __init__(self, device, attr=RcAttr(), psn=None, channels=(None, None), vector=0, srq=None):
        self.device, self.attr = device, attr
        self.psn = random.getrandbits(24) if psn is None else psn
        self.send_cq = CQ(device.ctx, attr.send_wr + 16, channel=channels[0], comp_vector=vector)
        self.recv_cq = CQ(device.ctx, attr.recv_wr + 16, channel=channels[1], comp_vector=vector)
        cap = QPCap(
            max_send_wr=attr.send_wr,
            max_recv_wr=attr.recv_wr,
            max_send_sge=attr.sge,
            max_recv_sge=attr.sge,
            max_inline_data=attr.inline,
        )
        self.qp = self.create(
            qp_type=self.TYPE,
            scq=self.send_cq,
            rcq=self.recv_cq,
            srq=srq and srq.srq,
            cap=cap,
            sq_sig_all=attr.signal_all,
        )
        self.numbers = itertools.count(1)

    def create(self, **init):
        """Make the QP itself."""
        return QP(self.device.pd, QPInitAttr(**init))

    # States.

    @property
    def peer(self):
        """What the other end must know about this one."""
        return Peer(self.device.gid, self.qp.qp_num, self.psn)

    @property
    def state(self):
        """The state the kernel says the QP is in."""
        return STATE(self.qp.query(ATTR.STATE)[0].qp_state)

    def modify(self, mask, **values):
        """ibv_modify_qp() with just the attributes named."""
        attr = QPAttr()
        for name, value in values.items():
            setattr(attr, name, value)
        self.qp.modify(attr, mask)

    def go(self, state):
        """A transition that needs no attributes (to RESET, ERR, SQD and back)."""
        self.modify(ATTR.STATE, qp_state=state)

    def to_init(self):
        """RESET to INIT."""
        self.modify(
            ATTR.STATE | ATTR.PKEY_INDEX | ATTR.PORT | ATTR.ACCESS_FLAGS,
            qp_state=STATE.INIT,
            pkey_index=0,
            port_num=1,
            qp_access_flags=self.attr.access,
        )

    def path_to(self, gid):
        """The address vector of a peer."""
        route = GlobalRoute(dgid=gid, sgid_index=self.device.gid_index, hop_limit=64)
        return AHAttr(port_num=1, is_global=1, gr=route)

    def to_rtr(self, peer):
        """INIT to RTR."""
        self.modify(
            ATTR.STATE | ATTR.AV | ATTR.PATH_MTU | ATTR.DEST_QPN | ATTR.RQ_PSN | self.RTR,
            qp_state=STATE.RTR,
            ah_attr=self.path_to(peer.gid),
            path_mtu=MTU[self.attr.mtu],
            dest_qp_num=peer.qp_num,
            rq_psn=peer.psn,
            max_dest_rd_atomic=self.attr.rd_atomic,
            min_rnr_timer=self.attr.min_rnr_timer,
        )

    def to_rts(self):
        """RTR to RTS."""
        self.modify(
            ATTR.STATE | ATTR.SQ_PSN | self.RTS,
            qp_state=STATE.RTS,
            sq_psn=self.psn,
            timeout=self.attr.timeout,
            retry_cnt=self.attr.retry_cnt,
            rnr_retry=self.attr.rnr_retry,
            max_rd_atomic=self.attr.rd_atomic,
        )

    def renumber(self):
        """Have other PSNs in the next life: packets of this one may still be on their way."""
        self.psn = (self.psn + PSN_MASK // 4) & PSN_MASK

    def connect(self, peer):
        """RESET to RTS."""
        self.to_init()
        self.to_rtr(peer)
        self.to_rts()

    # Work requests.

    def post(self, opcode, sges, remote=None, imm=None, atomic=None, datagram=None, flags=SEND.SIGNALED):
        """Post one send work request."""
        number = next(self.numbers)
        wire_imm = 0 if imm is None else socket.htonl(imm)
        sges = sges or [SGE(0, 0, 0)]  # pyverbs wants one
        wr = SendWR(number, opcode, len(sges), wire_imm, sges, flags)
        if datagram:
            wr.set_wr_ud(*datagram)
        elif atomic:
            wr.set_wr_atomic(remote.rkey, remote.addr, *atomic)
        elif remote:
            wr.set_wr_rdma(remote.rkey, remote.addr)
        self.qp.post_send(wr)
        return number

    def send(self, sges, imm=None, flags=SEND.SIGNALED):
        """SEND, or SEND with immediate."""
        return self.post(WR.SEND if imm is None else WR.SEND_WITH_IMM, sges, imm=imm, flags=flags)

    def send_inv(self, sges, key):
        """SEND that has the receiver invalidate a key of its own."""
        return self.post(WR.SEND_WITH_INV, sges, imm=socket.ntohl(key))

    def local_inv(self, key):
        """Invalidate a key of this end."""
        number = next(self.numbers)
        self.qp.post_send(SendWR(number, WR.LOCAL_INV, imm_data=key, send_flags=SEND.SIGNALED))
        return number

    def write(self, sges, remote, imm=None, flags=SEND.SIGNALED):
        """RDMA WRITE, or RDMA WRITE with immediate."""
        opcode = WR.RDMA_WRITE if imm is None else WR.RDMA_WRITE_WITH_IMM
        return self.post(opcode, sges, remote, imm=imm, flags=flags)

    def read(self, sges, remote, flags=SEND.SIGNALED):
        """RDMA READ."""
        return self.post(WR.RDMA_READ, sges, remote, flags=flags)

    def cmp_swp(self, sge, remote, compare, swap):
        """Compare and swap."""
        return self.post(WR.ATOMIC_CMP_AND_SWP, [sge], remote, atomic=(compare, swap))

    def fetch_add(self, sge, remote, add):
        """Fetch and add."""
        return self.post(WR.ATOMIC_FETCH_AND_ADD, [sge], remote, atomic=(add,))

    def recv(self, sges=()):
        """Post one receive work request."""
        number = next(self.numbers)
        self.qp.post_recv(RecvWR(number, len(sges), list(sges)))
        return number

    # Completions.

    def sent(self, count, seconds=SOON):
        """The next completions of the send queue, all of which must be good."""
        return good(poll_for(self.send_cq, count, seconds))

    def received(self, count, seconds=SOON):
        """The next completions of the receive queue, all of which must be good."""
        return good(poll_for(self.recv_cq, count, seconds))

    def close(self):
        """Destroy it."""
        self.qp.close()
        self.send_cq.close()
        self.recv_cq.close()


class SharedQueue:
    """A shared receive queue."""

    def __init__(self, device, max_wr=64, max_sge=4, pd=None):
        self.srq = SRQ(pd or device.pd, SrqInitAttr(SrqAttr(max_wr, max_sge)))
        self.posted = 0

    def recv(self, sges=()):
        """Post one receive work request; returns its number."""
        self.srq.post_recv(RecvWR(self.posted + 1, len(sges), list(sges)))
        self.posted += 1
        return self.posted

    def query(self):
        """Its sizes, and the limit that is armed."""
        attr = self.srq.query()
        return attr.max_wr, attr.max_sge, attr.srq_limit

    def arm(self, limit):
        """Ask for a warning when there are fewer."""
        self.srq.modify(SrqAttr(srq_limit=limit), SRQ_LIMIT)

    def resize(self, max_wr, limit=None):
        """Change how many fit, and perhaps the limit."""
        mask = SRQ_MAX_WR if limit is None else SRQ_MAX_WR | SRQ_LIMIT
        self.srq.modify(SrqAttr(max_wr=max_wr, srq_limit=limit or 0), mask)

    def close(self):
        """Destroy it."""
        self.srq.close()


class ExRcQp(RcQp):
    """One that is posted to by ibv_wr_*() as well, which alone know FLUSH and ATOMIC WRITE."""

    def create(self, **init):
        """Make the QP itself."""
        kinds = e.ibv_qp_create_send_ops_flags
        ops = kinds.IBV_QP_EX_WITH_FLUSH | kinds.IBV_QP_EX_WITH_ATOMIC_WRITE
        mask = e.ibv_qp_init_attr_mask.IBV_QP_INIT_ATTR_PD | e.ibv_qp_init_attr_mask.IBV_QP_INIT_ATTR_SEND_OPS_FLAGS
        return QPEx(self.device.ctx, QPInitAttrEx(pd=self.device.pd, comp_mask=mask, send_ops_flags=ops, **init))

    @contextlib.contextmanager
    def posting(self, flags):
        """What is done inside posts a work request; yields its number."""
        number = next(self.numbers)
        self.qp.wr_start()
        self.qp.wr_id, self.qp.wr_flags = number, flags
        yield number
        self.qp.wr_complete()

    def flush(self, remote, length, placement=PLACEMENT.GLOBAL, selectivity=SELECTIVITY.RANGE, flags=SEND.SIGNALED):
        """FLUSH."""
        with self.posting(flags) as number:
            self.qp.wr_flush(remote.rkey, remote.addr, length, placement, selectivity)
        return number

    def atomic_write(self, remote, data, flags=SEND.SIGNALED):
        """ATOMIC WRITE of eight bytes."""
        with self.posting(flags) as number:
            self.qp.wr_atomic_write(remote.rkey, remote.addr, bytes(data))
        return number


class UcQp(RcQp):
    """One end of an unreliable connection."""

    TYPE = e.ibv_qp_type.IBV_QPT_UC
    RTR = RTS = 0


def good(completions):
    """Completions, after it was seen that none is an error."""
    bad = [pair for pair in statuses(completions) if pair[1] != STATUS.SUCCESS]
    check(not bad, f"{len(bad)} of {len(completions)} completed in error: {bad[:4]}")
    return completions


@contextlib.contextmanager
def on_one_processor():
    """What this thread sends arrives in that order: each processor has a queue of packets that come in."""
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {min(before)})
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)


def in_order(kind):
    """What the packets of such QPs need: of what overtakes a reliable connection makes good."""
    return contextlib.nullcontext() if kind.TYPE == RcQp.TYPE else on_one_processor()


@contextlib.contextmanager
def pair(a, b, attr=RcAttr(), attr_b=None, kind=RcQp, **changes):
    """Two connected QPs, of two devices or twice of the same one."""
    attr = attr.with_(**changes)
    qa, qb = a.qp(kind, attr), b.qp(kind, attr_b or attr)
    try:
        with in_order(kind):
            qa.connect(qb.peer)
            qb.connect(qa.peer)
            yield qa, qb
    finally:
        qa.close()
        qb.close()


@contextlib.contextmanager
def refused(*errnos):
    """What is done inside must fail with one of these error numbers."""
    try:
        yield
    except (PyverbsRDMAError, OSError) as error:
        number = error.errno if isinstance(error, OSError) else error.error_code
        check(number in errnos, f"refused with {os.strerror(number)}, wanted {errnos}")
    else:
        raise AssertionError("accepted, though it must be refused")
