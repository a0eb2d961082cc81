#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# vm: KERNEL=debug CHECKS=kasan_multi_shot TMO=600 DMESG_IGNORE=Call.Trace:
#
# Parts of other suites once more, with every check of the kernel on: memory that nobody
# knows of any more is found when they are done (guest-init), and a module that uses freed
# memory finds it overwritten.

cd "$(dirname "$0")" || exit 1
failed=0
./faults.py || failed=1
./traffic.sh pingpong "4194304 -n 5" || failed=1
./lifecycle.sh many "under load" killed "objects of" || failed=1
exit $failed
