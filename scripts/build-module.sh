#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# Build the module in the chroot for the kernel of the VM.  Arguments go to make.

. "$(dirname "$0")/common.sh"

cd "$RRXE_TREE"
exec "$RRXE_TREE/scripts/in-chroot.sh" make -s "-j$(nproc)" modules KDIR="$(kdir)" "$@"
