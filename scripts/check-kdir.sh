#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# Explain what is wrong with a kernel tree, if a Rust module cannot be built in it.
# usage: check-kdir.sh KDIR

. "$(dirname "$0")/common.sh"

kdir=$1
hint="'make vm-modules' builds for a stock Debian kernel in a chroot; 'make help' tells more"
[[ -n $kdir ]] ||
	die "no kernel tree for $(uname -r) that Rust modules can be built in: try 'make kdir', or give KDIR=...; $hint"
[[ -e $kdir/include/config/auto.conf ]] || die "$kdir is no prepared kernel tree; $hint"
grep -q '^CONFIG_RUST=y' "$kdir/include/config/auto.conf" || die "the kernel of $kdir has no Rust support (CONFIG_RUST); $hint"
grep -qE '^CONFIG_INFINIBAND=[ym]' "$kdir/include/config/auto.conf" || die "the kernel of $kdir has no RDMA support (CONFIG_INFINIBAND); $hint"
[[ -e $kdir/rust/libkernel.rmeta ]] || die "$kdir lacks the Rust metadata: run 'make kdir', or 'make prepare' in the kernel tree; $hint"

want=$(sed -nE 's/^CONFIG_RUSTC_VERSION_TEXT="(.*)"/\1/p' "$kdir/.config")
have=$(rustc --version 2>/dev/null || echo none)
[[ $want == "$have" ]] || say "warning: the kernel was built by $want, here is $have: expect errors about metadata"
command -v bindgen >/dev/null || die "bindgen is missing"
