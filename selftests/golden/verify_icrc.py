#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
"""Checks the ICRC of every RoCEv2 packet in pcap files, and counts them by opcode.

Shares no code with rrxe, so that the two can be held against each other.
"""
import collections
import struct
import sys
import zlib

UDP_PORT = 4791


def icrc(ip, version):
    """The ICRC of a packet, from IP header to ICRC."""
    masked = bytearray(ip[:-4])
    if version == 4:
        header = (ip[0] & 0x0F) * 4
        for at in (1, 8, 10, 11):
            masked[at] = 0xFF
    else:
        header = 40
        masked[0] |= 0x0F
        for at in (1, 2, 3, 7):
            masked[at] = 0xFF
    for at in (6, 7, 12):
        masked[header + at] = 0xFF
    return zlib.crc32(b"\xff" * 8 + bytes(masked)) & 0xFFFFFFFF


def packets(path):
    """Yields the RoCEv2 packets of a pcap file: IP version, IP header length, bytes from there."""
    with open(path, "rb") as file:
        data = file.read()
    at = 24
    while at + 16 <= len(data):
        length = struct.unpack_from("<I", data, at + 8)[0]
        frame = data[at + 16 : at + 16 + length]
        at += 16 + length
        ethertype = struct.unpack_from(">H", frame, 12)[0]
        if ethertype == 0x0800:
            version, header = 4, (frame[14] & 0x0F) * 4
            ip = frame[14 : 14 + struct.unpack_from(">H", frame, 16)[0]]
        elif ethertype == 0x86DD:
            version, header = 6, 40
            ip = frame[14 : 54 + struct.unpack_from(">H", frame, 18)[0]]
        else:
            continue
        if struct.unpack_from(">H", ip, header + 2)[0] == UDP_PORT:
            yield version, header, ip


def main(paths):
    for path in paths:
        count, wrong = collections.Counter(), collections.Counter()
        for version, header, ip in packets(path):
            opcode = ip[header + 8]
            count[opcode] += 1
            if struct.unpack("<I", ip[-4:])[0] != icrc(ip, version):
                wrong[opcode] += 1
        print(f"{path}: {count.total()} packets, {wrong.total()} with another ICRC")
        for opcode in sorted(count):
            print(f"  {opcode:#04x} {count[opcode]:5} {wrong[opcode] or ''}")


if __name__ == "__main__":
    main(sys.argv[1:])
