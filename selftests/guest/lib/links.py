# SPDX-License-Identifier: GPL-2.0
"""What `rdma link` does, by calls of this thread: to add and delete RDMA devices."""

import errno
import json
import os
import socket
import struct

from ktap import LINK_TYPE, check

NETLINK_RDMA = 20
NLDEV = 5
NEWLINK, DELLINK = 3, 4
DEV_INDEX, DEV_NAME, NDEV_NAME, LINK_TYPE_NAME = 1, 2, 51, 65
REQUEST_ACK = 0x5
HEADER = struct.Struct("=IHHII")
NLMSG_ERROR = 2


def attribute(kind, value):
    """One attribute of a message."""
    length = 4 + len(value)
    return struct.pack("=HH", length, kind) + value + bytes(-length % 4)


def text(value):
    """A string as an attribute's value."""
    return value.encode() + b"\0"


class Links:
    """The RDMA devices of one end of the cable."""

    def __init__(self, end):
        self.end = end
        self.socket = end.socket(socket.AF_NETLINK, socket.SOCK_RAW, NETLINK_RDMA)

    def request(self, command, *attributes):
        """Have a command carried out; raises what it fails with."""
        body = b"".join(attributes)
        header = HEADER.pack(HEADER.size + len(body), NLDEV << 10 | command, REQUEST_ACK, 1, 0)
        self.socket.send(header + body)
        answer = self.socket.recv(65536)
        check(HEADER.unpack_from(answer)[1] == NLMSG_ERROR, "no answer to a netlink request")
        (error,) = struct.unpack_from("=i", answer, HEADER.size)
        if error:
            raise OSError(-error, f"netlink: {errno.errorcode.get(-error, -error)}")

    def add(self, device, netdev):
        """rdma link add"""
        self.request(
            NEWLINK,
            attribute(DEV_NAME, text(device)),
            attribute(LINK_TYPE_NAME, text(LINK_TYPE)),
            attribute(NDEV_NAME, text(netdev)),
        )

    def delete(self, index):
        """rdma link delete"""
        self.request(DELLINK, attribute(DEV_INDEX, struct.pack("=I", index)))

    def index(self, device):
        """The number of a device, or None if there is none of that name."""
        if not os.path.exists(f"/sys/class/infiniband/{device}"):
            return None
        return json.loads(self.end.run("rdma", "-j", "dev", "show", device))[0]["ifindex"]

    def close(self):
        """Close the socket."""
        self.socket.close()
