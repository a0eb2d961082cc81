# SPDX-License-Identifier: GPL-2.0
"""Two virtual machines on one cable, with an RDMA device in each.

    machine a                                 machine b
    rdma0 on cable 10.77.0.1, fd00::1  <--->  rdma0 on cable 10.77.0.2, fd00::2

Machine a runs a suite.  Machine b (peer.py) lends itself to the suite over TCP on the
same cable: for each connection there is a process of its own, and what was made through
a connection goes with it.  It ends when the first connection ends.
"""

import copyreg
import os
import pathlib
import select
import signal
import socket
import subprocess
import time
import typing

import ktap
import remote
from dropper import Dropper
from ktap import check, patient
from pyverbs.addr import GID
from pyverbs.wr import SGE
from rdma import Device, RcQp, Region, eventually, gid_index, has_gid

DEVICE = "rdma0"
NETDEV = "cable"
PORT = 7
PERFTEST_TIMEOUT = 18  # 4.096 us * 2^18: 1.1 s
BOOT_TIME = patient(600)  # seconds for the other machine to boot

copyreg.pickle(GID, lambda gid: (GID, (str(gid),)))


class Address(typing.NamedTuple):
    """Where a machine is."""

    ip4: str
    ip6: str
    mac: str


# The Ethernet addresses are those that scripts/vm-pair.sh gives.
ADDRESSES = {
    "a": Address("10.77.0.1", "fd00::1", "02:77:00:00:00:01"),
    "b": Address("10.77.0.2", "fd00::2", "02:77:00:00:00:02"),
}
OTHER = {"a": "b", "b": "a"}


def run(*command, timeout=120):
    """Run a command, which must succeed; returns what it prints."""
    done = subprocess.run(command, capture_output=True, text=True, timeout=patient(timeout), check=False)
    check(done.returncode == 0, f"{' '.join(command)}: {done.stdout}{done.stderr}".strip())
    return done.stdout


def listens(port):
    """Does anybody on this machine listen on a TCP port?"""
    return bool(run("ss", "-Hltn", f"sport = {port}"))


class Program:
    """A program that runs beside the test."""

    def __init__(self, command):
        self.command = command
        self.process = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
        )

    def is_over(self):
        """Has it ended?"""
        return self.process.poll() is not None

    def outcome(self, seconds):
        """(status, output) when it has ended; it is made to after so many seconds."""
        try:
            output, _ = self.process.communicate(timeout=patient(seconds))
        except subprocess.TimeoutExpired:
            self.process.kill()
            output, _ = self.process.communicate()
            output += f"\nnot finished after {seconds} s"
        return self.process.returncode, output


class Machine:
    """One of the two: its end of the cable, the RDMA device on it, its kernel's log."""

    def __init__(self, side, link_type):
        self.side, self.link_type, self.address = side, link_type, ADDRESSES[side]
        self.log = ktap.KernelLog()

    def up(self, mtu=4200):
        """Connect to the cable, and make the device."""
        run("modprobe", "virtio_net")
        (netdev,) = (p.parent.parent.name for p in pathlib.Path("/sys/class/net").glob("*/device/driver"))
        run("ip", "link", "set", netdev, "name", NETDEV, "mtu", str(mtu), "up")
        run("ip", "addr", "add", f"{self.address.ip4}/24", "dev", NETDEV)
        run("ip", "addr", "add", f"{self.address.ip6}/64", "dev", NETDEV, "nodad")
        run("rdma", "link", "add", DEVICE, "type", self.link_type, "netdev", NETDEV)
        for address in (self.address.ip4, self.address.ip6):
            eventually(lambda address=address: has_gid(DEVICE, address), f"a GID for {address}")
        # The core gives a machine one second to answer where it is.
        other = ADDRESSES[OTHER[self.side]]
        for address in (other.ip4, other.ip6):
            run("ip", "neigh", "replace", address, "lladdr", other.mac, "dev", NETDEV, "nud", "permanent")

    def ip(self, family):
        """Its address of a family."""
        return self.address.ip4 if family == 4 else self.address.ip6

    def open(self, family):
        """Open the device for the GID of a family."""
        return Device(DEVICE, self.ip(family))

    def program(self, *command):
        """Start a program."""
        return Program(command)

    def client(self, tool, family, *options):
        """Start a stock client of RDMA on the device."""
        gid = str(gid_index(DEVICE, self.ip(family)))
        # perftest waits longer for acknowledgments (-u) than one slow machine may take.
        common = ("-g", gid) if tool.startswith("ibv_") else ("-x", gid, "-F", "-u", str(PERFTEST_TIMEOUT))
        return Program((tool, "-d", DEVICE, *common, *options))

    def server(self, tool, family, port, *options):
        """Start a stock client as a server on a TCP port, and wait until it listens."""
        program = self.client(tool, family, "-p", str(port), *options)
        eventually(lambda: program.is_over() or listens(port), f"{tool} listens")
        return program

    def spoil(self, netem):
        """Have what this machine sends pass through netem."""
        run("tc", "qdisc", "replace", "dev", NETDEV, "root", "netem", "limit", "100000", *netem.split())

    def mend(self):
        """The end of that."""
        run("tc", "qdisc", "del", "dev", NETDEV, "root")

    def dropper(self):
        """What loses packets that come to this machine."""
        return Dropper(NETDEV)

    def complaints(self):
        """What a sound kernel would not have printed since this was asked last."""
        return self.log.complaints()

    def lend(self):
        """Serve the other machine until its first connection ends."""
        signal.signal(signal.SIGCHLD, signal.SIG_IGN)
        listener = socket.create_server(("", PORT))
        listener.settimeout(BOOT_TIME)
        first, _ = listener.accept()
        remote.keep_alive(first)
        while select.select([listener, first], [], [])[0] != [first]:
            borrower, _ = listener.accept()
            if os.fork() == 0:
                self.log = ktap.KernelLog()
                remote.Server(borrower, self, (Machine, Device, RcQp, Region, Program, SGE, Dropper)).serve()
                os._exit(0)
            borrower.close()
        first.recv(1)


class Other:
    """The other machine, from here."""

    def __init__(self, side):
        self.address = (ADDRESSES[side].ip4, PORT)
        deadline = time.monotonic() + BOOT_TIME
        while True:
            try:
                self.first = socket.create_connection(self.address, 5)
                remote.keep_alive(self.first)
                return
            except OSError:
                check(time.monotonic() < deadline, "the other machine does not answer")
                time.sleep(0.2)

    def borrow(self):
        """A connection to it, whose `root` is its Machine."""
        try:
            connection = socket.create_connection(self.address, patient(120))
        except OSError as why:
            raise remote.Unreachable(str(why)) from why
        # What is asked for may take as long as it likes, as long as the machine is there.
        connection.settimeout(None)
        return remote.Client(connection)
