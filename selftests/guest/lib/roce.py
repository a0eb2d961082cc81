# SPDX-License-Identifier: GPL-2.0
"""RoCEv2 packets: taken apart, put together, and checked; independent of the module's own code."""

import dataclasses
import struct
import zlib

ROCE_PORT = 4791

# Extension headers and their sizes.
SIZES = {"deth": 8, "reth": 16, "atomic": 28, "aeth": 4, "atomic_ack": 8, "imm": 4, "ieth": 4, "feth": 4}

# Opcodes: name and extension headers.
OPCODES = {
    0x00: ("SEND_FIRST", ()),
    0x01: ("SEND_MIDDLE", ()),
    0x02: ("SEND_LAST", ()),
    0x03: ("SEND_LAST_IMM", ("imm",)),
    0x04: ("SEND_ONLY", ()),
    0x05: ("SEND_ONLY_IMM", ("imm",)),
    0x06: ("WRITE_FIRST", ("reth",)),
    0x07: ("WRITE_MIDDLE", ()),
    0x08: ("WRITE_LAST", ()),
    0x09: ("WRITE_LAST_IMM", ("imm",)),
    0x0A: ("WRITE_ONLY", ("reth",)),
    0x0B: ("WRITE_ONLY_IMM", ("reth", "imm")),
    0x0C: ("READ_REQUEST", ("reth",)),
    0x0D: ("READ_RESPONSE_FIRST", ("aeth",)),
    0x0E: ("READ_RESPONSE_MIDDLE", ()),
    0x0F: ("READ_RESPONSE_LAST", ("aeth",)),
    0x10: ("READ_RESPONSE_ONLY", ("aeth",)),
    0x11: ("ACKNOWLEDGE", ("aeth",)),
    0x12: ("ATOMIC_ACKNOWLEDGE", ("aeth", "atomic_ack")),
    0x13: ("CMP_SWAP", ("atomic",)),
    0x14: ("FETCH_ADD", ("atomic",)),
    0x16: ("SEND_LAST_INV", ("ieth",)),
    0x17: ("SEND_ONLY_INV", ("ieth",)),
    0x1C: ("FLUSH", ("feth", "reth")),
    0x1D: ("ATOMIC_WRITE", ("reth",)),
}
NAMES = {name: opcode for opcode, (name, _) in OPCODES.items()}
FULL = {code for name, code in NAMES.items() if name.endswith(("_FIRST", "_MIDDLE"))}
NO_PAYLOAD = {NAMES[n] for n in ("READ_REQUEST", "ACKNOWLEDGE", "ATOMIC_ACKNOWLEDGE", "CMP_SWAP", "FETCH_ADD", "FLUSH")}
WITH_IMM = {code for name, code in NAMES.items() if name.endswith("_IMM")}
RESPONSES = {NAMES[n] for n in NAMES if "RESPONSE" in n or "ACKNOWLEDGE" in n}

# The other services have some of them.
OPCODES |= {0x20 | code: (f"UC_{name}", headers) for code, (name, headers) in OPCODES.items() if code < 0x0C}
CNP = 0x81
OPCODES |= {0x64: ("UD_SEND_ONLY", ("deth",)), 0x65: ("UD_SEND_ONLY_IMM", ("deth", "imm")), CNP: ("CNP", ())}


def icrc(packet):
    """The invariant CRC of a packet (an IP packet without its last four bytes).

    CRC-32 over eight bytes of ones (in place of a local route header), then the packet
    with ones in whatever a router may change: in IPv4 type of service, time to live and
    checksum; in IPv6 traffic class, flow label and hop limit; the UDP checksum; and
    the reserved byte of the BTH.
    """
    masked = bytearray(packet)
    if packet[0] >> 4 == 4:
        udp = (packet[0] & 15) * 4
        for at in (1, 8, 10, 11):
            masked[at] = 0xFF
    else:
        udp = 40
        masked[0] |= 0x0F
        for at in (1, 2, 3, 7):
            masked[at] = 0xFF
    for at in (udp + 6, udp + 7, udp + 12):
        if at < len(masked):
            masked[at] = 0xFF
    return struct.pack("<I", zlib.crc32(b"\xff" * 8 + bytes(masked)))


def ones_complement_sum(data):
    """The checksum of the Internet."""
    if len(data) % 2:
        data += b"\0"
    total = sum(struct.unpack(f"!{len(data) // 2}H", data))
    while total >> 16:
        total = (total & 0xFFFF) + (total >> 16)
    return ~total & 0xFFFF


# Putting together.


@dataclasses.dataclass
class Bth:
    """A base transport header; everything may be wrong."""

    opcode: int
    qpn: int
    psn: int
    solicited: int = 0
    migrated: int = 1
    pad: int = 0
    version: int = 0
    pkey: int = 0xFFFF
    reserved: int = 0
    ack: int = 0

    def __bytes__(self):
        flags = self.solicited << 7 | self.migrated << 6 | (self.pad & 3) << 4 | (self.version & 15)
        words = (self.reserved << 24 | self.qpn & 0xFFFFFF, self.ack << 31 | self.psn & 0xFFFFFF)
        return struct.pack("!BBHII", self.opcode, flags, self.pkey, *words)


def reth(addr, rkey, length):
    """An RDMA extended transport header."""
    return struct.pack("!QII", addr & (1 << 64) - 1, rkey & 0xFFFFFFFF, length & 0xFFFFFFFF)


@dataclasses.dataclass
class Path:
    """From where to where packets are forged."""

    source_mac: bytes
    target_mac: bytes
    source_ip: bytes
    target_ip: bytes
    source_port: int = 0xC123

    def frame(self, transport, options=b"", bad_icrc=0, udp_length=None, total_length=None, tail=b""):
        """An Ethernet frame with an IPv4 packet of everything from the BTH on.

        options go in the IP header; bad_icrc is XORed to the right ICRC; the lengths
        may be lied about; the tail follows what the IP header says is the end.
        """
        options += b"\0" * (-len(options) % 4)
        header = 20 + len(options)
        length = header + 8 + len(transport) + 4
        ip = struct.pack(
            "!BBHHHBBH4s4s",
            0x40 | header // 4,
            0,
            length if total_length is None else total_length,
            0x1234,
            0x4000,
            64,
            17,
            0,
            self.source_ip,
            self.target_ip,
        )
        ip += options
        ip = ip[:10] + struct.pack("!H", ones_complement_sum(ip)) + ip[12:]
        size = 8 + len(transport) + 4 if udp_length is None else udp_length
        packet = ip + struct.pack("!HHHH", self.source_port, ROCE_PORT, size, 0) + transport
        crc = struct.unpack("<I", icrc(packet))[0] ^ bad_icrc
        return self.target_mac + self.source_mac + b"\x08\x00" + packet + struct.pack("<I", crc) + tail

    def fragments(self, transport, size, identification):
        """The same as several frames with fragments of `size` bytes (a multiple of 8) of the IP packet."""
        length = 20 + 8 + len(transport) + 4
        ends = (self.source_ip, self.target_ip)

        def header(total, where):
            ip = struct.pack("!BBHHHBBH4s4s", 0x45, 0, total, identification, where, 64, 17, 0, *ends)
            return ip[:10] + struct.pack("!H", ones_complement_sum(ip)) + ip[12:]

        udp = struct.pack("!HHHH", self.source_port, ROCE_PORT, length - 20, 0)
        # The ICRC is that of the whole packet.
        whole = udp + transport + icrc(header(length, 0) + udp + transport)
        for at in range(0, len(whole), size):
            part = whole[at : at + size]
            more = 0x2000 if at + size < len(whole) else 0
            yield self.target_mac + self.source_mac + b"\x08\x00" + header(20 + len(part), more | at // 8) + part


# Taking apart.


class Malformed(Exception):
    """A packet that no RNIC may send."""


def require(condition, *what):
    """Or it is malformed."""
    if not condition:
        raise Malformed(" ".join(str(w) for w in what))


class Packet:
    """A RoCEv2 packet, from the Ethernet header on; raises Malformed if it is that."""

    def __init__(self, frame):
        ethertype = struct.unpack_from("!H", frame, 12)[0]
        ip = frame[14:]
        if ethertype == 0x0800:
            self.family, udp, length = 4, (ip[0] & 15) * 4, struct.unpack_from("!H", ip, 2)[0]
            self.source, self.target, protocol = ip[12:16], ip[16:20], ip[9]
            self.traffic_class = ip[1]
        else:
            self.family, udp, length = 6, 40, struct.unpack_from("!H", ip, 4)[0] + 40
            self.source, self.target, protocol = ip[8:24], ip[24:40], ip[6]
            self.traffic_class = (ip[0] << 4 | ip[1] >> 4) & 0xFF
        ip = ip[:length]
        require(protocol == 17, "not UDP")
        self.source_port, self.target_port, udp_length, checksum = struct.unpack_from("!HHHH", ip, udp)
        require(udp_length == length - udp, f"UDP length {udp_length} in {length - udp} bytes")
        if self.family == 4:
            require(ones_complement_sum(ip[:udp]) == 0, "IP checksum")
        if checksum:
            require(self.udp_sum(ip, udp, protocol) == 0, "UDP checksum")
        self.icrc_good = icrc(ip[:-4]) == ip[-4:]
        self.transport(ip[udp + 8 : -4])

    def udp_sum(self, ip, udp, protocol):
        """Zero if the checksum is right."""
        pseudo = self.source + self.target + struct.pack("!IHBB", len(ip) - udp, 0, 0, protocol)
        return ones_complement_sum(pseudo + ip[udp:])

    def transport(self, data):
        """BTH, extension headers, payload and padding."""
        self.opcode, flags, self.pkey, qpn, psn = struct.unpack_from("!BBHII", data)
        self.solicited, self.migrated, self.pad, self.version = flags >> 7, flags >> 6 & 1, flags >> 4 & 3, flags & 15
        self.fecn, self.becn = qpn >> 31, qpn >> 30 & 1
        self.qpn, self.ack, self.psn = qpn & 0xFFFFFF, psn >> 31, psn & 0xFFFFFF
        require(self.opcode in OPCODES, f"opcode {self.opcode:#x}")
        self.name, headers = OPCODES[self.opcode]
        at = 12
        self.headers = {}
        for header in headers:
            self.headers[header] = data[at : at + SIZES[header]]
            require(len(self.headers[header]) == SIZES[header], f"{self.name} is too short")
            at += SIZES[header]
        require(len(data) - at >= self.pad, "padding is not there")
        self.payload = data[at : len(data) - self.pad]
        require(not any(data[len(data) - self.pad :]), "padding is not zero")
        require((len(self.payload) + self.pad) % 4 == 0, "payload and padding are no multiple of 4")
        if self.opcode in NO_PAYLOAD:
            require(not self.payload and not self.pad, f"{self.name} with payload")


def read_pcap(path):
    """The frames of a capture in the classic format."""
    with open(path, "rb") as file:
        data = file.read()
    order = "<" if data[:4] in (b"\xd4\xc3\xb2\xa1", b"\x4d\x3c\xb2\xa1") else ">"
    at = 24
    while at + 16 <= len(data):
        size = struct.unpack_from(f"{order}I", data, at + 8)[0]
        yield data[at + 16 : at + 16 + size]
        at += 16 + size


def write_pcap(path, frames):
    """A capture in the classic format; times are not recorded."""
    with open(path, "wb") as file:
        file.write(struct.pack("<IHHiIII", 0xA1B2C3D4, 2, 4, 0, 0, 1 << 18, 1))
        for frame in frames:
            file.write(struct.pack("<IIII", 0, 0, len(frame), len(frame)) + frame)


def is_roce(frame):
    """Is it a UDP packet for the port of RoCE?"""
    if len(frame) < 14 + 28:
        return False
    ethertype = struct.unpack_from("!H", frame, 12)[0]
    udp = {0x0800: 14 + (frame[14] & 15) * 4, 0x86DD: 54}.get(ethertype)
    protocol = {0x0800: 23, 0x86DD: 20}.get(ethertype)
    return udp is not None and frame[protocol] == 17 and struct.unpack_from("!H", frame, udp + 2)[0] == ROCE_PORT
