#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# Check the format of all Rust sources (runs in the chroot).  With --fix: repair it.

. "$(dirname "$0")/common.sh"

cd "$RRXE_TREE"
mode=--check
[[ ${1:-} == --fix ]] && mode=--emit=files
find rrxe selftests -name '*.rs' -not -path '*/target/*' -print0 | xargs -0r rustfmt --color never "$mode"
