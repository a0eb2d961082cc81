#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# Create (or complete) the Debian chroot that holds the compiler, the kernel and
# the guest's user space.  Idempotent; may be interrupted at any time.
#
# RRXE_MIRROR  Debian archive to use; default: the one this machine's apt uses.

. "$(dirname "$0")/common.sh"

HERE=$RRXE_TREE/scripts
STAMP=$CHROOT/.rrxe-packages
UNWANTED='Acquire::(IndexTargets|CompressionTypes|Changelogs|Languages|GzipIndexes|cdrom)'

wanted_packages() { sed -E 's/#.*//; /^\s*$/d' "$HERE/chroot-packages.txt"; }

# What the chroot must hold, and what the stamp says that it holds: the kernel, then packages.
# One that holds more, for another branch say, will do.
wanted_state() { echo "kernel=$RRXE_KERNEL"; wanted_packages; }
held_packages() { [[ ! -e $STAMP ]] || tail -n +2 "$STAMP"; }
is_complete() {
	[[ -e $STAMP && $(head -n 1 "$STAMP") == "kernel=$RRXE_KERNEL" &&
		-z $(wanted_packages | grep -vxFf <(held_packages)) ]]
}

# shellcheck disable=SC2016 # apt expands it
apt_archives() { apt-get indextargets --format '$(REPO_URI)' 'Identifier: Packages' | awk '!seen[$0]++'; }

# The first archive of this machine's apt sources that serves the suite.
look_for_mirror() {
	local uri probe
	probe=$(mktemp)
	while read -r uri; do
		case $uri in *security*) continue ;; esac
		if /usr/lib/apt/apt-helper download-file "${uri%/}/dists/$RRXE_SUITE/InRelease" "$probe" >/dev/null 2>&1; then
			rm -f "$probe"
			echo "$uri"
			return
		fi
	done < <(apt_archives)
	rm -f "$probe"
	return 1
}

find_mirror() {
	persistently look_for_mirror ||
		die "no apt source of this machine serves Debian $RRXE_SUITE: set RRXE_MIRROR to an archive that does"
}

# This machine's proxy, certificate and validity settings, for apt in the chroot.
apt_settings() {
	apt-config dump Acquire | grep -vE "^$UNWANTED" | grep -v '^Acquire ""' || true
	echo 'Acquire::Check-Valid-Until "false";'
	echo 'Acquire::Retries "5";'
	echo 'Acquire::Languages "none";'
	echo 'APT::Install-Recommends "false";'
}

find_keyring() {
	local keyring=/usr/share/keyrings/debian-archive-keyring
	[[ -e $keyring.gpg || -e $keyring.pgp ]] || install_on_host debian-archive-keyring
	[[ -e $keyring.gpg ]] && echo "$keyring.gpg" || echo "$keyring.pgp"
}

bootstrap() {
	local mirror keyring settings new=$CHROOT.new
	[[ -e $CHROOT/etc/debian_version ]] && return
	need_tool mmdebstrap mmdebstrap
	keyring=$(find_keyring)
	mirror=${RRXE_MIRROR:-$(find_mirror)}
	say "bootstrapping Debian $RRXE_SUITE into $CHROOT"
	settings=$(mktemp)
	apt_settings > "$settings"
	persistently make_root
	rm -f "$settings"
	mv "$new" "$CHROOT"
	say "bootstrapped"
}

# For bootstrap, which has the variables.
make_root() {
	rm -rf --one-file-system "$new" &&
		patiently bootstrapping mmdebstrap --mode=root --variant=apt --quiet \
		--aptopt="$settings" \
		--keyring="$keyring" \
		--dpkgopt='force-unsafe-io' \
		--dpkgopt='path-exclude=/usr/share/man/*' \
		--dpkgopt='path-exclude=/usr/share/locale/*' \
		--dpkgopt='path-exclude=/usr/share/info/*' \
		--dpkgopt='path-exclude=/usr/share/doc/*' \
		--dpkgopt='path-include=/usr/share/doc/rdma-core/*' \
		--include="$(wanted_packages | paste -sd,)" \
		"$RRXE_SUITE" "$new" "$mirror"
}

# Let apt inside the chroot find the network as it is found outside: name service,
# certificates, and the files that its settings name.
share_network() {
	local file
	while read -r file; do
		[[ -f $file ]] || continue
		mkdir -p "$CHROOT${file%/*}"
		cp -L "$file" "$CHROOT$file"
	done < <(printf '%s\n' /etc/resolv.conf /etc/hosts /etc/ssl/certs/ca-certificates.crt
		apt_settings | sed -nE 's/.*"(\/[^"]+)";$/\1/p')
}

apt_in_chroot() {
	patiently "apt-get $1" "$HERE/in-chroot.sh" env DEBIAN_FRONTEND=noninteractive INITRD=No apt-get -qq -y -o Dpkg::Use-Pty=0 "$@" > /dev/null
}

# The releases on offer, oldest first (not the real-time and cloud flavours).
offered_kernels() {
	"$HERE/in-chroot.sh" apt-cache pkgnames linux-headers- |
		sed -nE 's/^linux-headers-([0-9.]+[^-]*-amd64)$/\1/p' | sort -V
}

# The exact release meant by RRXE_KERNEL, among those on standard input.
pick_kernel() { grep -E "^${RRXE_KERNEL//[.+]/\\&}([.+].*)?\$" | tail -n 1; }

install_kernel() {
	local offered release series wanted=() p
	offered=$(offered_kernels)
	release=$(pick_kernel <<<"$offered") ||
		die "Debian $RRXE_SUITE offers no kernel '$RRXE_KERNEL'; RRXE_KERNEL may be one of: ${offered//$'\n'/ }"
	series=$(cut -d. -f1,2 <<<"$release")
	say "kernel $release"
	# The split packages hold the image and the modules without asking for an initramfs generator.
	for p in "linux-binary-$release" "linux-modules-$release" "linux-headers-$release" "linux-source-$series"; do
		"$HERE/in-chroot.sh" apt-cache show "$p" >/dev/null 2>&1 && wanted+=("$p")
	done
	[[ " ${wanted[*]} " == *" linux-binary-"* ]] || wanted+=("linux-image-$release")
	persistently apt_in_chroot install --no-install-recommends "${wanted[@]}"
	echo "$release" > "$CHROOT/.rrxe-kernel"
}

# Cargo takes crates from the distribution's packages, so that it needs no network.
configure_cargo() {
	mkdir -p "$CHROOT/root/.cargo"
	cat > "$CHROOT/root/.cargo/config.toml" <<-END
		[source.crates-io]
		replace-with = "distribution"
		[source.distribution]
		directory = "/usr/share/cargo/registry"
		[net]
		offline = true
	END
}

complete() {
	is_complete && return
	need_root
	bootstrap
	say "completing the packages"
	"$HERE/in-chroot.sh" dpkg --configure -a
	share_network
	persistently apt_in_chroot update --error-on=any
	# shellcheck disable=SC2046
	persistently apt_in_chroot install --no-install-recommends $(wanted_packages)
	install_kernel
	configure_cargo
	rm -f "$CHROOT"/var/cache/apt/archives/*.deb
	{ wanted_state; held_packages; } | awk '!seen[$0]++' > "$STAMP.new"
	mv "$STAMP.new" "$STAMP"
	say "chroot ready: $CHROOT"
}

with_lock chroot complete
