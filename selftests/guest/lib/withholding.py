#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
"""A file system with one file, whose pages are withheld until somebody says so.

Run as a program it is the file system: it says how many pages have been asked for, and gives them
out when it reads a line. With `Withholding` a test runs it.
"""

import contextlib
import ctypes
import os
import pathlib
import select
import stat
import struct
import subprocess
import sys
import tempfile

from ktap import Skip, check, patient

PAGE = 4096
NAME = "withheld"
ROOT, FILE = 1, 2

LOOKUP, FORGET, GETATTR, STATFS, INTERRUPT, BATCH_FORGET = 1, 2, 3, 17, 36, 42
OPEN, READ, RELEASE, FLUSH, INIT = 14, 15, 18, 25, 26
NO_ANSWER = {FORGET, INTERRUPT, BATCH_FORGET}


class FileSystem:
    """The server: one request after the other, as the kernel's fuse.h has them."""

    def __init__(self, fd, pages):
        self.fd, self.size = fd, pages * PAGE
        self.withheld = []
        self.is_open = False

    def run(self):
        """Serve until nobody speaks to us any more."""
        while True:
            ready = select.select([self.fd, sys.stdin], [], [])[0]
            if self.fd in ready:
                self.serve(os.read(self.fd, 1 << 20))
            if sys.stdin in ready:
                if not sys.stdin.readline():
                    return
                self.give_out()

    def give_out(self):
        """Answer what was withheld, and withhold nothing any more."""
        self.is_open = True
        for unique, offset, size in self.withheld:
            self.answer(unique, self.content(offset, size))
        self.withheld = []

    def content(self, offset, size):
        """Each page is full of its number."""
        pages = range(offset // PAGE, (min(offset + size, self.size) + PAGE - 1) // PAGE)
        return b"".join(bytes([page & 0xFF]) * PAGE for page in pages)

    def answer(self, unique, body=b"", error=0):
        """Answer one request."""
        os.write(self.fd, struct.pack("=IiQ", 16 + len(body), -error, unique) + body)

    def attr(self, node):
        """The attributes of a node."""
        mode, size = (stat.S_IFDIR | 0o755, 0) if node == ROOT else (stat.S_IFREG | 0o666, self.size)
        return struct.pack("=6Q10I", node, size, size // 512, 0, 0, 0, 0, 0, 0, mode, 1, 0, 0, 0, PAGE, 0)

    def serve(self, request):
        """Answer one request, or withhold the answer."""
        _, opcode, unique, node = struct.unpack_from("=IIQQ", request)
        body = request[40:]
        if opcode == INIT:
            self.answer(unique, struct.pack("=4I2H2I2H2I24x", 7, 31, 0, 0, 64, 48, PAGE, 1, 1, 0, 0, 0))
        elif opcode == LOOKUP and body.rstrip(b"\0") == NAME.encode():
            self.answer(unique, struct.pack("=4Q2I", FILE, 0, 3600, 3600, 0, 0) + self.attr(FILE))
        elif opcode == LOOKUP:
            self.answer(unique, error=2)
        elif opcode == GETATTR:
            self.answer(unique, struct.pack("=Q2I", 3600, 0, 0) + self.attr(node))
        elif opcode == OPEN:
            self.answer(unique, struct.pack("=Q2I", 0, 0, 0))
        elif opcode == READ:
            _, offset, size = struct.unpack_from("=QQI", body)
            if self.is_open:
                self.answer(unique, self.content(offset, size))
            else:
                self.withheld.append((unique, offset, size))
                print(len(self.withheld), flush=True)
        elif opcode in (RELEASE, FLUSH):
            self.answer(unique)
        elif opcode not in NO_ANSWER:
            self.answer(unique, error=38)


class Withholding:
    """Such a file, `path`, as long as the object is open."""

    def __init__(self, pages):
        if not os.path.exists("/dev/fuse"):
            raise Skip("this kernel has no FUSE")
        self.directory = tempfile.mkdtemp()
        self.path = pathlib.Path(self.directory, NAME)
        # Nothing of this may be in the process that waits for the pages: it could not end.
        # Without a buffer, in which lines could wait that select() does not see.
        self.server = subprocess.Popen(
            [sys.executable, __file__, self.directory, str(pages)],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, bufsize=0,
        )
        self.await_line("mounted")

    def await_line(self, line, seconds=60):
        """Wait until the file system says that."""
        said = None
        while said != line:
            check(select.select([self.server.stdout], [], [], patient(seconds))[0], f"{said}, not yet {line}")
            said = self.server.stdout.readline().decode().strip()
            check(said, "the file system has ended")

    def await_pages(self, count):
        """Wait until so many pages are withheld."""
        self.await_line(str(count))

    def says_more(self):
        """Whether more are, by now."""
        return bool(select.select([self.server.stdout], [], [], 0)[0])

    def give_out(self):
        """Withhold nothing any more."""
        self.server.stdin.write(b"\n")

    def close(self):
        """Unmount. What is withheld is refused."""
        self.server.stdin.close()
        self.server.wait()
        self.server.stdout.close()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()


def main():
    """Mount, serve, unmount."""
    directory, pages = sys.argv[1], int(sys.argv[2])
    libc = ctypes.CDLL(None, use_errno=True)
    fd = os.open("/dev/fuse", os.O_RDWR)
    options = f"fd={fd},rootmode=40000,user_id=0,group_id=0"
    if libc.mount(b"withholding", directory.encode(), b"fuse", 0, options.encode()) != 0:
        sys.exit(f"mount: {os.strerror(ctypes.get_errno())}")
    print("mounted", flush=True)
    try:
        FileSystem(fd, pages).run()
    finally:
        with contextlib.suppress(OSError):
            os.close(fd)
        libc.umount2(directory.encode(), 2)  # MNT_DETACH
        os.rmdir(directory)


if __name__ == "__main__":
    main()
