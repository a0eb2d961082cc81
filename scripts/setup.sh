#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# Everything that is needed once: the chroot, the kernel tree, the guest's
# root file system.  Idempotent, and quick when there is nothing to do.  Prints nothing then.

. "$(dirname "$0")/common.sh"

HERE=$RRXE_TREE/scripts

setup_kdir() {
	local work
	work=$(kernel_work)
	[[ -e $work/build/.rrxe-ready ]] && return
	mkdir -p "$work"
	"$HERE/in-chroot.sh" "$HERE/prepare-kdir.sh" "$(kernel_release)" "$work"
}

# What the guest is made of: the chroot's packages, and how it is put together.
guest_state() {
	cat "$CHROOT/.rrxe-packages" "$CHROOT/.rrxe-kernel" "$HERE"/{guest-files.txt,guest-modules.txt,build-guest.sh} | sha256sum
}

setup_guest() {
	local guest
	guest=$RRXE_CACHE/guest-$(kernel_release)
	[[ -e $guest/state && $(guest_state) == "$(cat "$guest/state")" ]] && return
	say "building the guest's root file system"
	"$HERE/in-chroot.sh" "$HERE/build-guest.sh" "$(kernel_release)" "$guest.new"
	guest_state > "$guest.new/state"
	rm -rf "$guest"
	mv "$guest.new" "$guest"
}

"$HERE/setup-chroot.sh"
with_lock kdir setup_kdir
with_lock guest setup_guest
