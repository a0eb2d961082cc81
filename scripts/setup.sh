#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# Everything that is needed once: the chroot, the kernel tree, the guest's
# root file system.  Idempotent, quick and silent when there is nothing to do,
# and may be interrupted at any time: what is complete is kept.

. "$(dirname "$0")/common.sh"

HERE=$RRXE_TREE/scripts

setup_kdir() {
	local work
	work=$(kernel_work)
	[[ -e $work/build/.rrxe-ready ]] && return
	mkdir -p "$work"
	"$HERE/in-chroot.sh" "$HERE/prepare-kdir.sh" "$(kernel_release)" "$work"
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

"$HERE/setup-chroot.sh"
with_lock kdir setup_kdir
with_lock guest setup_guest
