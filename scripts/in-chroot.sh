#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# Run a command in the chroot: in-chroot.sh COMMAND [ARGUMENT]...
#
# The tree, the cache and /tmp are seen at the same paths as outside, and so is
# every directory in RRXE_BIND.  The working directory is kept.  Everything is
# mounted in a private mount namespace: nothing stays mounted, and any number of
# runs may go on at once.  The environment is fixed (the build must not depend
# on it) but for the names below and in RRXE_ENV.

. "$(dirname "$0")/common.sh"

[[ $# -gt 0 ]] || die "usage: in-chroot.sh COMMAND [ARGUMENT]..."
[[ -d $CHROOT/usr ]] || die "no chroot yet: run scripts/setup.sh"
need_root

pass="http_proxy https_proxy no_proxy TERM V RUST_BACKTRACE PROPTEST_CASES PROPTEST_RNG_SEED RRXE_CACHE RRXE_SUITE RRXE_KERNEL KERNEL ${RRXE_ENV:-}"
# Fixed build user and host keep this machine's names out of the objects.
env=(HOME=/root LANG=C.UTF-8 PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin
	KBUILD_BUILD_USER=rrxe KBUILD_BUILD_HOST=rrxe)
for name in $pass $(compgen -v RRXE_); do
	[[ -v $name ]] && env+=("$name=${!name}")
done

# shellcheck disable=SC2016,SC2086
exec unshare --mount --propagation private bash -euc '
	root=$1 cwd=$2
	shift 2
	for d in /proc /sys /dev; do mount --rbind "$d" "$root$d"; done
	while [[ $1 != -- ]]; do
		mkdir -p "$root$1"
		mount --bind "$1" "$root$1"
		shift
	done
	shift
	exec chroot "$root" env -i -C "$cwd" "$@"
' in-chroot "$CHROOT" "$PWD" /tmp "$RRXE_CACHE" "$RRXE_TREE" ${RRXE_BIND:-} -- "${env[@]}" "$@"
