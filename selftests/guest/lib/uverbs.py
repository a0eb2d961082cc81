# SPDX-License-Identifier: GPL-2.0
"""Commands of the RDMA core for which the user library has no call, or not with this driver."""

import ctypes
import os
import struct

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
