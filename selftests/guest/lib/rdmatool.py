# SPDX-License-Identifier: GPL-2.0
"""What the program `rdma` of iproute2 shows, as data."""

import json
import subprocess

from ktap import patient

DRIVER = "drv_"


def rdma(*arguments, user=0):
    """Have a user run it; what it prints is read as JSON, if it prints anything."""
    command = ["rdma", "-j", *map(str, arguments)]
    done = subprocess.run(command, user=user, capture_output=True, text=True, timeout=patient(120), check=False)
    if done.returncode != 0:
        raise OSError(f"rdma {' '.join(map(str, arguments))}: {done.stderr.strip()}")
    return [entry for entry in json.loads(done.stdout or "[]") if entry]


def resources(kind, device, user=0):
    """All objects of a kind, with what the driver tells a user of them."""
    where = ("link", f"{device.name}/1") if kind == "qp" else ("dev", device.name)
    return rdma("-dd", "resource", "show", kind, *where, user=user)


def of_driver(entry):
    """What of that the driver tells."""
    return {name.removeprefix(DRIVER): value for name, value in entry.items() if name.startswith(DRIVER)}


def resource(kind, device, **wanted):
    """What the driver tells of the one object whose entry has these values."""
    found = [entry for entry in resources(kind, device) if wanted.items() <= entry.items()]
    assert len(found) == 1, f"{len(found)} of kind {kind} with {wanted}: {found or resources(kind, device)}"
    return of_driver(found[0])


def number(value):
    """A number, however it is shown."""
    return value if isinstance(value, int) else int(value, 0)
