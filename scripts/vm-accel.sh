#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# Print the accelerator to use: kvm if it really boots the kernel here, else tcg.
# A /dev/kvm that is there but does not work is common in nested machines, so it is
# tried once, with a hard time limit; the answer is kept.

. "$(dirname "$0")/common.sh"

# The stock kernel is quick to boot.
KERNEL=
answer=$RRXE_CACHE/accel-$(kernel_release)

try_kvm() {
	[[ -e $answer ]] && return
	if [[ ! -w /dev/kvm ]]; then
		echo tcg > "$answer"
	elif ACCEL=kvm NAME=kvm-probe TMO=10 BOOT_TMO=10 MODULE=/nonexistent "$RRXE_TREE/scripts/vm.sh" true >/dev/null 2>&1; then
		echo kvm > "$answer"
	else
		echo tcg > "$answer"
	fi
	say "accelerator: $(cat "$answer")"
}

with_lock accel try_kvm
cat "$answer"
