#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# Prepare a kernel tree that external Rust modules can be built in, for exactly
# the kernel the distribution ships.  Runs in the chroot:
#
#	prepare-kdir.sh RELEASE DIRECTORY
#
# The headers package lacks the compiled metadata of the kernel's Rust crates, so
# they are built once from the source package with the stock configuration; the
# result is symbol for symbol the stock kernel's.  DIRECTORY/source is the
# unpacked source, DIRECTORY/build the tree to use (KDIR), which is complete once
# it holds the file .rrxe-ready.  An interrupted run is taken up where it ended.

. "$(dirname "$0")/common.sh"

release=$1 work=$2
headers=/usr/src/linux-headers-$release
tarball=/usr/src/linux-source-$(cut -d. -f1,2 <<<"$release").tar.xz
source=$work/source build=$work/build

unpack() {
	[[ -e $source/Makefile ]] && return
	say "unpacking the kernel source"
	rm -rf "$source.new"
	mkdir -p "$source.new"
	patiently unpacking tar -xf "$tarball" -C "$source.new" --strip-components=1
	mv "$source.new" "$source"
}

# Metadata of another compiler version could not be linked with the kernel's.
check_rustc() {
	local want have
	want=$(sed -nE 's/^CONFIG_RUSTC_VERSION_TEXT="(.*)"/\1/p' "$headers/.config")
	have=$(rustc --version)
	[[ $want == "$have" ]] || say "warning: the kernel was built by $want, here is $have"
}

configure() {
	grep -vE '^CONFIG_(BUILD_SALT|MODULE_SIG_ALL)=' "$headers/.config" > .config
	# The salt is part of every object's build id.
	echo "CONFIG_BUILD_SALT=\"$release\"" >> .config
	echo '# CONFIG_MODULE_SIG_ALL is not set' >> .config
	# The loader compares the full release, of which the source knows the first part.
	echo "${release#"$(make -s -C "$source" kernelversion)"}" > localversion
	cp "$headers/Module.symvers" .
	"${make[@]}" olddefconfig
}

unpack
check_rustc
say "preparing the kernel tree (some minutes, once)"
mkdir -p "$build"
cd "$build"
rm -f .rrxe-ready
cc=$(sed -nE 's/^CONFIG_CC_VERSION_TEXT="([^ ]+) .*/\1/p' "$headers/.config")
make=(make -s -C "$source" "O=$build" "CC=$cc" "HOSTCC=$cc")
configure
patiently "kernel tree" "${make[@]}" "-j$(nproc)" prepare modules_prepare
[[ $(cat include/config/kernel.release) == "$release" ]] ||
	die "the source package is $(cat include/config/kernel.release), the kernel $release"
touch .rrxe-ready
say "kernel tree ready: $build"
