# shellcheck shell=bash
# SPDX-License-Identifier: GPL-2.0
#
# What every script of the test bed shares: where things are and how to talk.
# Sourced, never run.  All state that can be rebuilt lives under RRXE_CACHE.

set -euo pipefail

RRXE_TREE=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd -P)
RRXE_CACHE=${RRXE_CACHE:-${HOME:-/root}/.cache/rrxe}
RRXE_SUITE=${RRXE_SUITE:-forky}

# The kernel to build for and to boot: either a series ("7.2": the newest of it
# that the suite offers) or one exact release ("7.2.12+deb14-amd64").
RRXE_KERNEL=${RRXE_KERNEL:-7.2}

# Empty for the kernel as the distribution ships it, or NAME for one that is built from
# the same source and scripts/kernel-NAME.config.
KERNEL=${KERNEL:-}

CHROOT=$RRXE_CACHE/chroot-$RRXE_SUITE
export RRXE_TREE RRXE_CACHE RRXE_SUITE RRXE_KERNEL KERNEL CHROOT

say() { printf '[%s] %s\n' "${0##*/}" "$*" >&2; }
die() { say "error: $*"; exit 1; }

# Run a command that may be silent for minutes, and tell meanwhile that it goes on.
# A function does not stop at its first failure here.  usage: patiently WHAT COMMAND...
patiently() {
	local what=$1 began=$SECONDS ticker status=0
	shift
	while sleep 45 > /dev/null 2>&1 && kill -0 $$ 2>/dev/null; do say "$what: $((SECONDS - began)) s so far"; done &
	ticker=$!
	"$@" || status=$?
	kill "$ticker"
	wait "$ticker" 2>/dev/null || true
	return "$status"
}

# Run a command up to five times until it succeeds, later and later: what it needs from the network may
# come back.  A function does not stop at its first failure here.  usage: persistently COMMAND...
persistently() {
	local pause
	for pause in 5 15 45 90; do
		! "$@" || return 0
		say "failed, and tried again in $pause s: $*"
		sleep "$pause"
	done
	"$@"
}

need_root() {
	[[ $EUID -eq 0 ]] || die "this step needs root (chroot and mounts): run it with sudo -E"
}

apt_on_host() { env DEBIAN_FRONTEND=noninteractive apt-get -qq -y -o DPkg::Lock::Timeout=300 "$@" >/dev/null; }

install_now() { apt_on_host install --no-install-recommends "$1"; }
install_newest() { apt_on_host update && install_now "$1"; }

install_on_host() {
	command -v apt-get >/dev/null || die "$1 is missing, and this is no Debian host: install it"
	need_root
	say "installing $1 on this machine"
	install_now "$1" 2>/dev/null || persistently install_newest "$1"
}

# usage: need_tool COMMAND PACKAGE
need_tool() { command -v "$1" >/dev/null || install_on_host "$2"; }

# Serialise what must not run twice at once.  usage: with_lock NAME COMMAND...
with_lock() {
	local name=$1; shift
	mkdir -p "$RRXE_CACHE"
	(
		flock -n 9 || { say "waiting for another run ($name)"; flock 9; }
		"$@" 9>&-
	) 9>"$RRXE_CACHE/$name.lock"
}

# The exact release of the kernel, and what belongs to it.
kernel_release() {
	local release
	release=$(cat "$CHROOT/.rrxe-kernel")
	[[ -z $KERNEL ]] || release=${release%%[+-]*}-$KERNEL
	echo "$release"
}
kernel_config() { echo "$RRXE_TREE/scripts/kernel-$KERNEL.config"; }

# What the kernel's tree is finished for: it says so in .rrxe-ready.
kernel_state() { [[ -z $KERNEL ]] || grep CONFIG_ "$(kernel_config)" | sha256sum; }
kernel_work() { echo "$RRXE_CACHE/kernel-$(kernel_release)"; }
kdir() { echo "$(kernel_work)/build"; }

# The guest's files: those for this chroot, kernel and way to put them together.
guest_dir() {
	local state
	state=$(cat "$CHROOT/.rrxe-packages" "$(kdir)/.rrxe-ready" \
		"$RRXE_TREE"/scripts/{guest-files.txt,guest-modules.txt,build-guest.sh,tsc-khz.c} | sha256sum)
	echo "$RRXE_CACHE/guest-$(kernel_release)-${state:0:12}"
}
