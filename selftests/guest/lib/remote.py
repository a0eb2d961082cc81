# SPDX-License-Identifier: GPL-2.0
"""Objects of another machine, used as if they were here.

What lives in one machine (a queue pair, a piece of memory) cannot travel.  So the
machine that has it serves it, and the other one holds a Proxy: what is asked of the
proxy, or called on it, is done over there.  Everything else (numbers, bytes, names,
completions) travels by value.  A proxy that is sent back means the object again.
"""

import contextlib
import enum
import functools
import pickle
import socket

# A machine that does not answer for so long is gone, at the latest (seconds).
KEEPALIVE = {socket.TCP_KEEPIDLE: 30, socket.TCP_KEEPINTVL: 10, socket.TCP_KEEPCNT: 9}


class Unreachable(Exception):
    """The other machine is gone."""


class Proxy:
    """Stands for an object of the other machine."""

    def __init__(self, home, number, cls):
        self.home, self.number, self.cls = home, number, cls

    def __getattr__(self, name):
        if callable(getattr(self.cls, name, None)):
            return functools.partial(self.home.call, self, name)
        return self.home.get(self, name)

    def __str__(self):
        return f"{self.cls.__name__} of the other machine"


def keep_alive(sock):
    """Have a connection end when the other machine is gone."""
    for option, value in KEEPALIVE.items():
        sock.setsockopt(socket.IPPROTO_TCP, option, value)
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)


class Wire:
    """Sends and receives objects; subclasses say which of them stay where they are."""

    def __init__(self, sock):
        keep_alive(sock)
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.reader, self.writer = sock.makefile("rb"), sock.makefile("wb")

    def send(self, message):
        """Send one object."""
        pickler = Pickler(self.writer)
        pickler.persistent_id = self.number_of
        pickler.dump(message)
        self.writer.flush()

    def receive(self):
        """The next object; EOFError when there will be none."""
        unpickler = pickle.Unpickler(self.reader)
        unpickler.persistent_load = self.numbered
        return unpickler.load()

    def close(self):
        """Say no more."""
        self.reader.close()
        self.writer.close()


class Pickler(pickle.Pickler):
    """Writes what travels by value."""

    def reducer_override(self, value):
        """Named numbers are numbers to the other machine, too."""
        return (int, (int(value),)) if isinstance(value, enum.IntEnum) else NotImplemented


class Server(Wire):
    """Answers what is asked of one object, and of those of the given classes that it leads to."""

    def __init__(self, sock, root, classes):
        super().__init__(sock)
        self.objects, self.classes = [root], classes

    def number_of(self, value):
        """The number and the class of what stays here."""
        if not isinstance(value, self.classes):
            return None
        self.objects.append(value)
        return len(self.objects) - 1, type(value)

    def numbered(self, number):
        """What the other machine means."""
        return self.objects[number]

    def serve(self):
        """Answer until nobody asks any more."""
        self.send(self.objects[0])
        with contextlib.suppress(EOFError, ConnectionError):
            while True:
                self.send(self.answer(*self.receive()))

    def answer(self, method, *args):
        """(True, result) or (False, what went wrong)."""
        try:
            return True, getattr(self, method)(*args)
        except Exception as why:  # whatever it is, it is the caller's
            return False, f"{type(why).__name__}: {why}"

    get = staticmethod(getattr)

    @staticmethod
    def call(target, name, args, kwargs):
        """Call a method."""
        return getattr(target, name)(*args, **kwargs)


class Client(Wire):
    """What the other machine serves, as `root`."""

    def __init__(self, sock):
        super().__init__(sock)
        self.root = self.receive()

    def number_of(self, value):
        """Proxies stand for their objects."""
        return value.number if isinstance(value, Proxy) else None

    def numbered(self, reference):
        """A stand-in for what stays over there."""
        return Proxy(self, *reference)

    def ask(self, *request):
        """Have something done over there; what fails there fails here."""
        try:
            self.send(request)
            done, value = self.receive()
        except (EOFError, OSError) as why:
            raise Unreachable(str(why)) from why
        if not done:
            raise AssertionError(f"on the other machine: {value}")
        return value

    def get(self, proxy, name):
        """An attribute of an object over there."""
        return self.ask("get", proxy, name)

    def call(self, proxy, name, *args, **kwargs):
        """Call a method of an object over there."""
        return self.ask("call", proxy, name, args, kwargs)
