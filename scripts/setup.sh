#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# Everything that is needed once: the chroot, the kernel tree, a kernel of our own
# if KERNEL names one, the guest's root file system.  Idempotent, quick and silent
# when there is nothing to do, and may be interrupted at any time: what is complete
# is kept.

. "$(dirname "$0")/common.sh"

HERE=$RRXE_TREE/scripts

kernel_ready() {
	local stamp
	stamp=$(kdir)/.rrxe-ready
	[[ -e $stamp && $(cat "$stamp") == "$(kernel_state)" && -e $CHROOT/usr/lib/modules/$(kernel_release)/vmlinuz ]]
}

# usage: setup_kernel SCRIPT
setup_kernel() {
	local work
	kernel_ready && return
	work=$(kernel_work)
	mkdir -p "$work"
	"$HERE/in-chroot.sh" "$HERE/$1" "$(kernel_release)" "$work"
}

setup_guest() {
	local guest
	guest=$(guest_dir)
	if [[ ! -d $guest ]]; then
		say "building the guest's root file system"
		patiently guest "$HERE/in-chroot.sh" "$HERE/build-guest.sh" "$(kernel_release)" "$guest.new"
		mv "$guest.new" "$guest"
	fi
	# Forget what no branch has used for days.
	touch "$guest"
	find "$RRXE_CACHE" -maxdepth 1 -name 'guest-*' -type d -mmin +4320 -exec rm -rf {} +
}

[[ -z $KERNEL || -e $(kernel_config) ]] || die "no kernel $KERNEL: there is no $(kernel_config)"
"$HERE/setup-chroot.sh"
KERNEL='' with_lock kdir setup_kernel prepare-kdir.sh
[[ -z $KERNEL ]] || with_lock "kernel-$KERNEL" setup_kernel build-kernel.sh
with_lock guest setup_guest
