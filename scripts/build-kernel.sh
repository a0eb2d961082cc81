#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# Build a kernel of our own configuration, scripts/kernel-$KERNEL.config, from the
# distribution's source.  Runs in the chroot:
#
#	build-kernel.sh RELEASE DIRECTORY
#
# DIRECTORY/build is the tree to build modules in (KDIR); the kernel and its modules
# are installed in the chroot, as the distribution's are.  Once all is done the tree
# holds the file .rrxe-ready.  An interrupted run is taken up where it ended.

. "$(dirname "$0")/common.sh"

release=$1 build=$2/build
source=$(KERNEL='' kernel_work)/source
moddir=/usr/lib/modules/$release

configure() {
	cp "$(kernel_config)" .config
	"${make[@]}" olddefconfig
	[[ $("${make[@]}" kernelrelease) == "$release" ]] ||
		die "$(kernel_config) configures $("${make[@]}" kernelrelease), not $release"
}

# A name that the source does not know, or a dependency that is not met, goes unnoticed otherwise.
check_config() {
	local missing
	missing=$(grep -E '^CONFIG_' "$(kernel_config)" | grep -vxFf .config) || return 0
	die "not to be had in this kernel: ${missing//$'\n'/ }"
}

install_kernel() {
	rm -rf "$moddir"
	"${make[@]}" modules_install
	cp arch/x86/boot/bzImage "$moddir/vmlinuz"
}

mkdir -p "$build"
cd "$build"
rm -f .rrxe-ready
# With clang for C: KASAN and Rust go together only so.
make=(make -s -C "$source" "O=$build" LLVM=1)
configure
check_config
say "building the kernel $release: about 45 minutes of processor time, once"
patiently "kernel $release" "${make[@]}" "-j$(nproc)" bzImage modules
install_kernel
kernel_state > .rrxe-ready
say "kernel ready: $release"
