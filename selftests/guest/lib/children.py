# SPDX-License-Identifier: GPL-2.0
"""Processes beside the test that do one thing after the other, when they are told to."""

import os
import signal
import sys
import traceback

from ktap import check


class Child:
    """A process of a user that runs a generator function: one step of it for each step() here.

    What it does ends with the process: nothing is closed, the kernel has to clean up.
    """

    def __init__(self, body, *args, uid=0):
        self.name = body.__name__
        commands, self.commands = os.pipe()
        self.answers, answers = os.pipe()
        self.pid = os.fork()
        if self.pid == 0:
            os.close(self.commands)
            run(body, args, uid, commands, answers)
        os.close(commands)
        os.close(answers)

    def step(self):
        """Let it go on to its next `yield`, or to its end."""
        os.write(self.commands, b"x")
        check(os.read(self.answers, 1) == b"x", f"{self.name} has failed")

    def kill(self):
        """End it, and wait until all that it had is given back."""
        if self.pid:
            os.kill(self.pid, signal.SIGKILL)
            os.waitpid(self.pid, 0)
            os.close(self.commands)
            os.close(self.answers)
            self.pid = 0

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.kill()


def run(body, args, uid, commands, answers):
    """What the process does; it does not return."""
    try:
        os.setuid(uid)
        steps = body(*args)
        while os.read(commands, 1):
            next(steps, None)
            os.write(answers, b"x")
    except BaseException:
        print(f"# {traceback.format_exc()}".replace("\n", "\n# "), flush=True)
    finally:
        sys.stdout.flush()
        os._exit(1)
