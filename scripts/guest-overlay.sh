#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# What changes from run to run, as a cpio archive on top of the guest's root file
# system.  In the chroot:
#
#	guest-overlay.sh GUEST RELEASE STAGE MODULE OUT
#
# STAGE already holds the command and its environment.  The module (if the file
# exists) is installed such that it is loaded by its aliases, and with it the one that is
# faulty, if it was built beside it.

. "$(dirname "$0")/common.sh"

guest=$1 release=$2 stage=$3 module=$4 out=$5
moddir=usr/lib/modules/$release
faulty=${module%/*}/selftests/faulty/faulty.ko

add_module() {
	[[ -e $module ]] || return 0
	mkdir -p "$stage/usr/lib/modules"
	cp -a "$guest/modules/$release" "$stage/usr/lib/modules/"
	rm -f "$stage/$moddir"/modules.{dep,alias,symbols,softdep,weakdep,devname,builtin.alias}*
	strip --strip-debug -o "$stage/$moddir/rrxe.ko" "$module"
	[[ ! -e $faulty ]] || strip --strip-debug -o "$stage/$moddir/faulty.ko" "$faulty"
	ln -s usr/lib "$stage/lib"
	depmod -b "$stage" "$release"
	rm "$stage/lib"
	find "$stage/$moddir" -name '*.ko' ! -name rrxe.ko ! -name faulty.ko -delete
}

install -m 755 "$RRXE_TREE/scripts/guest-init" "$stage/init"
install -m 755 "$RRXE_TREE"/scripts/{dmesg-check,guest-verdict} "$stage/rrxe/"
[[ -d $RRXE_TREE/selftests/guest ]] && cp -a "$RRXE_TREE/selftests/guest" "$stage/rrxe/"
cp -a "$RRXE_TREE/Documentation/modprobe.d" "$stage/rrxe/"
for extra in ${VM_FILES:-}; do cp -a "$extra" "$stage/rrxe/"; done
add_module
(cd "$stage" && find . -mindepth 1 | cpio -o -H newc -R 0:0 --quiet) > "$out"
