# SPDX-License-Identifier: GPL-2.0
"""Loss that is no matter of chance: chosen RoCE packets of those that arrive at a network device.

A BPF program numbers the RoCE packets, from 1 on, and drops those whose number is wanted.  It does so
where they come in: of a packet that is dropped on its way out the sender may learn.
"""

import ctypes
import mmap
import os
import socket
import struct

from roce import ROCE_PORT

LIBC = ctypes.CDLL(None, use_errno=True)
SYS_BPF = 321

# What of bpf(2) is needed.
MAP_CREATE, PROG_LOAD, LINK_CREATE = 0, 5, 28
MAP_TYPE_ARRAY, MAP_MMAPABLE = 2, 1 << 10
PROG_TYPE_SCHED_CLS, TCX_INGRESS = 3, 46
NEXT, DROP = -1, 2

# What the program and its user share: words of 64 bits.
SEEN, START, STOP, STEP, LOST = range(5)
WORD = 8

# Instructions.
LOAD_HALF, LOAD_BYTE = 0x28, 0x30  # of the packet, to R0
LOAD_WORD, LOAD_MAP = 0x79, 0x18
SET, COPY, ADD, SUBTRACT, MODULO = 0xB7, 0xBF, 0x07, 0x1F, 0x9F
ATOMIC, PLAIN_ADD, FETCH_ADD = 0xDB, 0, 1
GO, GO_IF, GO_UNLESS, GO_IF_LESS, GO_UNLESS_LESS, LEAVE = 0x05, 0x15, 0x55, 0xAD, 0x3D, 0x95
MAP_VALUE = 2
R0, R1, R2, _, _, _, CONTEXT, WORDS = range(8)

ETHERTYPE, IPV4, IPV6, UDP = 12, 0x0800, 0x86DD, 17
# Where protocol and target port are behind an Ethernet header and an IP header without options.
PROTOCOL_4, PORT_4 = 14 + 9, 14 + 20 + 2
PROTOCOL_6, PORT_6 = 14 + 6, 14 + 40 + 2


def program(words):
    """Lines of (code, target register, source register, offset or label, constant); a string is a label."""
    return (
        (COPY, CONTEXT, R1),
        (LOAD_MAP, WORDS, MAP_VALUE, 0, words),
        (0,),
        (LOAD_HALF, R0, 0, 0, ETHERTYPE),
        (GO_IF, R0, 0, "IPv4", IPV4),
        (GO_UNLESS, R0, 0, "pass", IPV6),
        (LOAD_BYTE, R0, 0, 0, PROTOCOL_6),
        (GO_UNLESS, R0, 0, "pass", UDP),
        (LOAD_HALF, R0, 0, 0, PORT_6),
        (GO, 0, 0, "port"),
        "IPv4",
        (LOAD_BYTE, R0, 0, 0, PROTOCOL_4),
        (GO_UNLESS, R0, 0, "pass", UDP),
        (LOAD_HALF, R0, 0, 0, PORT_4),
        "port",
        (GO_UNLESS, R0, 0, "pass", ROCE_PORT),
        (SET, R1, 0, 0, 1),
        (ATOMIC, WORDS, R1, SEEN * WORD, FETCH_ADD),
        (ADD, R1, 0, 0, 1),
        (LOAD_WORD, R2, WORDS, START * WORD),
        (GO_IF_LESS, R1, R2, "pass"),
        (SUBTRACT, R1, R2),
        (LOAD_WORD, R0, WORDS, STOP * WORD),
        (SUBTRACT, R0, R2),
        (GO_UNLESS_LESS, R1, R0, "pass"),
        (LOAD_WORD, R2, WORDS, STEP * WORD),
        (MODULO, R1, R2),
        (GO_UNLESS, R1, 0, "pass", 0),
        (SET, R1, 0, 0, 1),
        (ATOMIC, WORDS, R1, LOST * WORD, PLAIN_ADD),
        (SET, R0, 0, 0, DROP),
        (LEAVE,),
        "pass",
        (SET, R0, 0, 0, NEXT),
        (LEAVE,),
    )


def assemble(lines):
    """The bytes of a program."""
    labels, code = {}, []
    for line in lines:
        if isinstance(line, str):
            labels[line] = len(code)
        else:
            code.append((*line, 0, 0, 0, 0)[:5])
    return b"".join(
        struct.pack("<BBhi", op, target | source << 4, labels[to] - at - 1 if isinstance(to, str) else to, constant)
        for at, (op, target, source, to, constant) in enumerate(code)
    )


def bpf(command, form, *values):
    """bpf(2); returns a descriptor."""
    attr = struct.pack(form, *values).ljust(128, b"\0")
    found = LIBC.syscall(SYS_BPF, command, attr, len(attr))
    if found < 0:
        raise OSError(ctypes.get_errno(), f"bpf command {command}")
    return found


class Dropper:
    """Loses packets that arrive at a network device of the present name space, while it is open."""

    def __init__(self, netdev):
        words = bpf(MAP_CREATE, "IIIII", MAP_TYPE_ARRAY, 4, mmap.PAGESIZE, 1, MAP_MMAPABLE)
        self.words = mmap.mmap(words, mmap.PAGESIZE)
        code, licence = (ctypes.create_string_buffer(text) for text in (assemble(program(words)), b"GPL"))
        instructions = len(code) // WORD
        addresses = ctypes.addressof(code), ctypes.addressof(licence)
        loaded = bpf(PROG_LOAD, "IIQQ", PROG_TYPE_SCHED_CLS, instructions, *addresses)
        self.link = bpf(LINK_CREATE, "IIII", loaded, socket.if_nametoindex(netdev), TCX_INGRESS, 0)
        os.close(loaded)
        os.close(words)

    def __getitem__(self, word):
        return struct.unpack_from("<Q", self.words, word * WORD)[0]

    def __setitem__(self, word, value):
        struct.pack_into("<Q", self.words, word * WORD, value)

    def lose(self, numbers):
        """Lose the packets with the numbers of a range, from now on; the next packet is number 1."""
        self[STOP] = 0
        self[START], self[STEP] = numbers.start, numbers.step
        self[SEEN] = self[LOST] = 0
        self[STOP] = numbers.stop

    @property
    def seen(self):
        """How many packets have come since then, those lost among them."""
        return self[SEEN]

    @property
    def lost(self):
        """How many of them were lost."""
        return self[LOST]

    def close(self):
        """Lose nothing any more."""
        os.close(self.link)
        self.words.close()
