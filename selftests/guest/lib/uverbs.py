# SPDX-License-Identifier: GPL-2.0
"""Commands of the RDMA core for which the user library has no call, or not with this driver."""

import ctypes
import fcntl
import os
import struct
import typing

# enum ib_uverbs_write_cmds
ALLOC_PD, DEALLOC_PD, REREG_MR = 3, 4, 11
# enum ib_mr_rereg_flags
CHANGE_RANGE, CHANGE_PD, CHANGE_ACCESS = 1, 2, 4


def command(context, number, body, response_size=0):
    """Give a command of the write interface, one that has a response; returns that."""
    response = ctypes.create_string_buffer(response_size)
    words = (8 + 8 + len(body)) // 4
    head = struct.pack("<IHHQ", number, words, response_size // 4, ctypes.addressof(response))
    os.write(context.cmd_fd, head + body)
    return response.raw


class RawPd:
    """A protection domain that the user library does not know of."""

    def __init__(self, context):
        self.context = context
        (self.handle,) = struct.unpack("<I", command(context, ALLOC_PD, b"", 4))

    def close(self):
        """Give it back."""
        # No response, and no address for it.
        os.write(self.context.cmd_fd, struct.pack("<IHHI", DEALLOC_PD, 3, 0, self.handle))


def reregister(context, mr, pd=None, access=None, place=None, flags=0):
    """Register the region with the handle `mr` anew; `place` is an address, a length, and what the former is called.

    What is None stays, unless `flags` say that it changes. Returns both keys.
    """
    flags |= CHANGE_RANGE * (place is not None) | CHANGE_PD * (pd is not None) | CHANGE_ACCESS * (access is not None)
    body = struct.pack("<IIQQQII", mr, flags, *(place or (0, 0, 0)), pd or 0, access or 0)
    return struct.unpack("<II", command(context, REREG_MR, body, 8))


# The other interface: RDMA_VERBS_IOCTL. Numbers of an object, its methods, and their attributes.
RDMA_VERBS_IOCTL = 0xC0181B01
DRIVER_RXE = 14
MANDATORY = 1
OBJECT_MR, METHOD_DESTROY, METHOD_QUERY, METHOD_REG_DMABUF, METHOD_REG = 7, 1, 3, 4, 5


class RawRegion(typing.NamedTuple):
    """A region that the user library does not know of."""

    context: object
    handle: int
    lkey: int
    rkey: int

    def close(self):
        """Deregister it."""
        method(self.context, OBJECT_MR, METHOD_DESTROY, [(0, 0, self.handle)])


def query_region(context, handle):
    """What the RDMA core says of a region: its keys, what its first byte is called, its length."""
    lkey, rkey, length, iova = ctypes.c_uint32(), ctypes.c_uint32(), ctypes.c_uint64(), ctypes.c_uint64()
    responses = [(number, ctypes.sizeof(to), ctypes.addressof(to)) for number, to in enumerate((lkey, rkey, length, iova), 1)]
    method(context, OBJECT_MR, METHOD_QUERY, [(0, 0, handle), *responses])
    return lkey.value, rkey.value, iova.value, length.value


def method(context, object_id, method_id, attributes):
    """Call a method with attributes (number, length, value); returns their values afterwards."""
    packed = b"".join(struct.pack("<HHHHQ", number, length, MANDATORY, 0, value) for number, length, value in attributes)
    head = struct.pack("<HHHHQII", 24 + len(packed), object_id, method_id, len(attributes), 0, DRIVER_RXE, 0)
    call = bytearray(head + packed)
    fcntl.ioctl(context.cmd_fd, RDMA_VERBS_IOCTL, call)
    return [struct.unpack_from("<Q", call, 24 + 16 * index + 8)[0] for index in range(len(attributes))]


def register(context, method_id, attributes, first_response):
    """Make a region by a method whose attribute 0 is its handle, and whose last ones are its keys."""
    keys = (ctypes.c_uint32 * 2)()
    responses = [(first_response + index, 4, ctypes.addressof(keys) + 4 * index) for index in range(2)]
    handle, *_ = method(context, OBJECT_MR, method_id, [(0, 0, 0), *attributes, *responses])
    return RawRegion(context, handle, *keys)


def register_buffer(context, pd, fd, offset, length, iova, access):
    """Register a part of a DMA-BUF."""
    attributes = [(1, 0, pd), (2, 8, offset), (3, 8, length), (4, 8, iova), (5, 4, fd % (1 << 32)), (6, 4, access)]
    return register(context, METHOD_REG_DMABUF, attributes, 7)


def register_descriptor(context, pd, fd, offset, length, iova, access):
    """The same by the method that is for any memory."""
    attributes = [(1, 0, pd), (3, 8, iova), (5, 8, length), (6, 4, access), (7, 0, fd % (1 << 64)), (8, 8, offset)]
    return register(context, METHOD_REG, attributes, 9)
