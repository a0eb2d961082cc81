#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
"""Check captures of RoCEv2 traffic: check_capture.py FILE...

Every packet must be well-formed and bear the right ICRC; if tshark is there, it
must find nothing malformed either.  Prints what was found; fails if anything is wrong.
"""

import collections
import pathlib
import shutil
import subprocess
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))

from roce import Malformed, Packet, is_roce, read_pcap


def examine(path):
    """The packets of a capture, and what is wrong with them."""
    packets, wrong = [], []
    for number, frame in enumerate(read_pcap(path), 1):
        if not is_roce(frame):
            continue
        try:
            packet = Packet(frame)
        except Malformed as why:
            wrong.append(f"packet {number}: {why}: {frame.hex()}")
            continue
        if not packet.icrc_good:
            wrong.append(f"packet {number}: {packet.name}: wrong ICRC: {frame.hex()}")
        packets.append(packet)
    if not packets:
        wrong.append("no RoCE packets at all")
    return packets, wrong


def guesses():
    """The dissectors that tshark tries on any payload; those of ours are nothing it knows."""
    listing = subprocess.run(["tshark", "-G", "heuristic-decodes"], capture_output=True, text=True, check=False).stdout
    for fields in map(str.split, listing.splitlines()):
        if fields and fields[0] == "infiniband.payload":
            yield fields[4]


def tshark(path):
    """What tshark holds to be malformed."""
    command = ["tshark", "-n", "-r", str(path), "-Y", "_ws.malformed"]
    for guess in guesses():
        command += ["--disable-heuristic", guess]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        return [f"tshark failed: {done.stderr.strip()}"]
    return [f"tshark: {line}" for line in done.stdout.splitlines()]


def main(paths):
    failed = not paths
    for path in paths:
        packets, wrong = examine(path)
        judges = "ICRC"
        if shutil.which("tshark"):
            wrong += tshark(path)
            judges = "ICRC and tshark"
        print(f"{path}: {len(packets)} packets, {len(wrong)} wrong ({judges})")
        for name, count in sorted(collections.Counter(p.name for p in packets).items()):
            print(f"  {count:6} {name}")
        for line in wrong[:20]:
            print(f"  {line}")
        failed = failed or bool(wrong)
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main(sys.argv[1:])
