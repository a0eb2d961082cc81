# SPDX-License-Identifier: GPL-2.0
"""Datagram queue pairs for the tests."""

import ctypes
import dataclasses
import ipaddress

import pyverbs.libibverbs_enums as e
from pyverbs.addr import AH, AHAttr, GlobalRoute
from pyverbs.pyverbs_error import PyverbsRDMAError

from ktap import check_equal
from rdma import ATTR, SEND, STATE, WR, RcAttr, RcQp

QKEY = 0x11111111
GRH = 40
WITH_GRH = int(e.ibv_wc_flags.IBV_WC_GRH)
MULTICAST_QPN = 0xFFFFFF
# pyverbs does not know multicast groups.
LIBIBVERBS = ctypes.CDLL("libibverbs.so.1")


@dataclasses.dataclass(frozen=True)
class UdAttr(RcAttr):
    """What a datagram QP is created with."""

    qkey: int = QKEY


class UdQp(RcQp):
    """A datagram QP. What it sends goes where each request says."""

    TYPE = e.ibv_qp_type.IBV_QPT_UD

    def __init__(self, device, attr=UdAttr(), **options):
        super().__init__(device, attr, **options)
        self.handles = {}
        self.groups = []

    def to_init(self):
        """RESET to INIT."""
        self.modify(
            ATTR.STATE | ATTR.PKEY_INDEX | ATTR.PORT | ATTR.QKEY,
            qp_state=STATE.INIT,
            pkey_index=0,
            port_num=1,
            qkey=self.attr.qkey,
        )

    def to_rtr(self, peer=None):
        """INIT to RTR."""
        self.go(STATE.RTR)

    def to_rts(self):
        """RTR to RTS."""
        self.modify(ATTR.STATE | ATTR.SQ_PSN, qp_state=STATE.RTS, sq_psn=self.psn)

    def connect(self, peer=None):
        """RESET to RTS."""
        super().connect(peer)

    def way_to(self, gid, hop_limit=64):
        """An address handle for a GID; there is one for each."""
        key = str(gid), hop_limit
        if key not in self.handles:
            self.handles[key] = address_handle(self.device, gid, hop_limit)
        return self.handles[key]

    def send_to(self, peer, sges, imm=None, qkey=QKEY, flags=SEND.SIGNALED, hop_limit=64):
        """SEND, or SEND with immediate, to a Peer."""
        opcode = WR.SEND if imm is None else WR.SEND_WITH_IMM
        datagram = self.way_to(peer.gid, hop_limit), peer.qp_num, qkey
        return self.post(opcode, sges, imm=imm, flags=flags, datagram=datagram)

    def attach(self, gid):
        """Attach it to a multicast group."""
        self.change_group("ibv_attach_mcast", gid)
        self.groups.append(gid)

    def detach(self, gid):
        """Detach it from a multicast group."""
        self.change_group("ibv_detach_mcast", gid)
        self.groups = [group for group in self.groups if str(group) != str(gid)]

    def change_group(self, function, gid):
        """Call one of the two."""
        error = LIBIBVERBS[function](ctypes.c_void_p(self.qp.qp), ipaddress.ip_address(str(gid)).packed, 0)
        if error:
            raise PyverbsRDMAError(function, error)

    def close(self):
        """Destroy it, and the handles that it has made; a member of a group cannot be destroyed."""
        for group in {str(group): group for group in self.groups}.values():
            self.detach(group)
        for handle in self.handles.values():
            handle.close()
        super().close()


def address_handle(device, gid, hop_limit=64, pd=None):
    """A new address handle for a GID."""
    route = GlobalRoute(dgid=gid, sgid_index=device.gid_index, hop_limit=hop_limit)
    return AH(pd or device.pd, attr=AHAttr(port_num=1, is_global=1, gr=route))


def check_header(grh, source, target):
    """The area in front of a datagram has the IP header that it came with."""
    source, target = ipaddress.ip_address(str(source)), ipaddress.ip_address(str(target))
    if source.ipv4_mapped:
        check_equal(grh[:20], bytes(20), "before the IPv4 header")
        check_equal(grh[20], 0x45, "version and length")
        check_equal(grh[29], 17, "protocol")
        check_equal(grh[32:], source.ipv4_mapped.packed + target.ipv4_mapped.packed, "addresses")
    else:
        check_equal((grh[0] >> 4, grh[6]), (6, 17), "version, protocol")
        check_equal(grh[8:], source.packed + target.packed, "addresses")
