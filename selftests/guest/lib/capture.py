# SPDX-License-Identifier: GPL-2.0
"""Captures of what crosses the cable, every packet examined.

They go to $OUT (in the VM: the result directory), where check_capture.py and tshark can
look at them again.
"""

import contextlib
import os
import pathlib
import socket
import struct
import tempfile
import time

import check_capture
import roce
from ktap import check, check_equal
from rdma import on_one_processor

OUT = pathlib.Path(os.environ.get("OUT") or ("/out" if os.path.ismount("/out") else tempfile.mkdtemp()))

SO_RCVBUFFORCE = 33
SOL_PACKET, PACKET_STATISTICS = 263, 6


@contextlib.contextmanager
def capture(fabric, name):
    """Capture one end of the cable; yields a list that holds the packets when it is over.

    Not with tcpdump: what happens is short, and the kernel can hold all of it until it
    is over, so that nothing is lost on a slow machine.
    """
    tap = fabric.a.socket(socket.AF_PACKET, socket.SOCK_RAW, 0)
    tap.setsockopt(socket.SOL_SOCKET, SO_RCVBUFFORCE, 256 << 20)
    tap.bind((fabric.a.netdev, 3))  # ETH_P_ALL
    packets = []
    with tap:
        # What is sent in order is to be seen in order.
        with on_one_processor():
            yield packets
        time.sleep(0.2)
        _, lost = struct.unpack("II", tap.getsockopt(SOL_PACKET, PACKET_STATISTICS, 8))
        check_equal(lost, 0, "packets the capture has lost")
        path = OUT / f"{name}.pcap"
        roce.write_pcap(path, filter(roce.is_roce, waiting(tap)))
    found, wrong = check_capture.examine(path)
    check(not wrong, f"{len(wrong)} wrong of {len(found)} packets:\n" + "\n".join(wrong[:5]))
    packets += found


def waiting(tap):
    """The frames that have arrived at a socket."""
    tap.setblocking(False)
    with contextlib.suppress(BlockingIOError):
        while True:
            yield tap.recv(1 << 17)
