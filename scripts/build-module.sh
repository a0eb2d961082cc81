#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# Build the module in the chroot for the kernel of the VM.  Arguments go to make.
# A kernel of our own gets the module with which its checks are tested as well.

. "$(dirname "$0")/common.sh"

cd "$RRXE_TREE"
[[ -z $KERNEL ]] || set -- FAULTY=m "$@"
exec "$RRXE_TREE/scripts/in-chroot.sh" make -s "-j$(nproc)" modules KDIR="$(kdir)" "$@"
