#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# Build what a VM boots, except for what changes from run to run.  In the chroot:
#
#	build-guest.sh RELEASE DIRECTORY
#
# DIRECTORY gets vmlinux (the kernel, unpacked if it can start so: it boots faster),
# base.cpio (the root file system: guest-files.txt, guest-modules.txt), modules/ (the
# same modules for depmod, when one is added to them), and tsc-khz (see tsc-khz.c).

. "$(dirname "$0")/common.sh"

release=$1 out=$2
here=$RRXE_TREE/scripts
root=$out/root
moddir=/usr/lib/modules/$release

listed() { sed -E 's/#.*//; /^\s*$/d' "$1"; }

# Everything below is named by its path in the root; links are followed to their
# targets, so that a name and what it means both come in.
add_path() {
	local path=$1 real
	[[ -e $root$path ]] && return
	mkdir -p "$root${path%/*}"
	if [[ -d $path ]]; then
		cp -a "$path" "$root${path%/*}/"
	else
		real=$(readlink -f "$path")
		cp -pL "$path" "$root$path"
		[[ $real == "$path" || -e $root$real ]] || { mkdir -p "$root${real%/*}"; ln -s "$path" "$root$real"; }
	fi
}

add_program() {
	local where
	where=$(command -v "$1") || die "the guest's $1 is not in the chroot"
	cp -pL "$where" "$root/usr/bin/$1"
}

add_files() {
	local name
	while read -r name; do
		# shellcheck disable=SC2086
		case $name in
		/*) for path in $name; do add_path "$path"; done ;;
		*) add_program "$name" ;;
		esac
	done < <(listed "$here/guest-files.txt")
}

# Programs and plug-ins need the closure of their shared libraries.
add_libraries() {
	local lib
	find "$root/usr" -type f \( -path '*/bin/*' -o -name '*.so*' \) -print0 |
		xargs -0 -n 50 ldd 2>/dev/null | sed -nE 's/^[^/]*(\/[^ ]+) \(0x.*/\1/p' | sort -u |
		while read -r lib; do
			cp -pLn "$lib" "$root/usr/${lib#/usr/}" 2>/dev/null || cp -pL "$lib" "$root/usr$lib"
		done
}

add_busybox() {
	local applet
	busybox --list | while read -r applet; do
		[[ -e $root/usr/bin/$applet || -L $root/usr/bin/$applet ]] || ln -s busybox "$root/usr/bin/$applet"
	done
	for applet in modprobe insmod rmmod lsmod modinfo depmod; do ln -sf kmod "$root/usr/bin/$applet"; done
}

# Every megabyte costs boot time: leave out of Python what no test of ours imports.
trim_python() {
	rm -rf "$root"/usr/lib/python3.*/{test,ensurepip,idlelib,lib2to3,tkinter,turtle*,pydoc_data,config-*,sqlite3,dbm,curses,venv,wsgiref,xmlrpc,xml,email,http,__phello__,_pyrepl,distutils}
	rm -f "$root"/usr/lib/python3.*/lib-dynload/_{sqlite3,dbm,gdbm,curses,curses_panel,remote_debugging,testcapi,interpreters}.*
	
}

# The tests of rdma-core are shipped compressed.
unpack_tests() {
	local tests=$root/usr/share/doc/rdma-core/tests
	gunzip -qr "$tests" || true
	rm -f "$tests"/test_mlx5_* "$tests"/test_efa*
	python3 -m compileall -q -s "$root" "$tests" "$root/usr/lib/python3/dist-packages/pyverbs"
}

# The kernel's own tests of rdma_rxe, and what they share with others.
add_kernel_selftests() {
	local source
	source=$(KERNEL='' kernel_work)/source/tools/testing/selftests
	mkdir -p "$root/usr/libexec/kselftests"
	cp -a "$source"/{rdma,kselftest} "$root/usr/libexec/kselftests/"
}

# A kernel of our own may lack some of the modules; who needs one of them will notice.
show_dependencies() { modprobe -S "$release" --show-depends -a "$@" || [[ -n $KERNEL ]]; }

# Without their signatures: the emulated check of one takes longer than loading the
# module, and the kernel accepts unsigned modules (ours is one).
add_modules() {
	local names module
	mapfile -t names < <(listed "$here/guest-modules.txt")
	mkdir -p "$root$moddir"
	show_dependencies "${names[@]}" | awk '$1 == "insmod" { print $2 }' | sort -u |
		while read -r module; do
			case $module in
			*.xz) xz -dc "$module" > "$root$moddir/$(basename "$module" .xz)" ;;
			*) cp "$module" "$root$moddir/" ;;
			esac
		done
	strip --strip-debug "$root$moddir"/*.ko
	cp "$moddir"/modules.{builtin,builtin.modinfo,order} "$root$moddir/"
	depmod -b "$root" "$release"
}

add_kernel() {
	if grep -q '^CONFIG_PVH=y' "$(kdir)/.config"; then
		"$(kdir)/source/scripts/extract-vmlinux" "$moddir/vmlinuz" 2>/dev/null > "$out/vmlinux"
	else
		cp "$moddir/vmlinuz" "$out/vmlinux"
	fi
}

make_root() {
	local d
	for d in dev proc sys run/netns tmp etc root var/tmp out usr/bin usr/lib64 usr/lib/x86_64-linux-gnu; do mkdir -p "$root/$d"; done
	ln -s bin "$root/usr/sbin"
	for d in bin sbin lib lib64; do ln -s "usr/$d" "$root/$d"; done
	ln -s ../run "$root/var/run"
	# tcpdump gives up root for this user, which must be able to write results.
	printf '%s:x:%d:%d::/root:/bin/bash\n' root 0 0 tcpdump 0 0 nobody 65534 65534 > "$root/etc/passwd"
	printf '%s:x:%d:\n' root 0 tcpdump 0 nogroup 65534 > "$root/etc/group"
	echo '127.0.0.1 localhost' > "$root/etc/hosts"
	ln -s /proc/mounts "$root/etc/mtab"
}

rm -rf "$out"
mkdir -p "$root"
make_root
add_files
trim_python
unpack_tests
add_kernel_selftests
add_libraries
add_busybox
add_modules
add_kernel
(cd "$root" && find . -mindepth 1 | LC_ALL=C sort | cpio -o -H newc -R 0:0 --quiet) > "$out/base.cpio"
gcc -O2 -Wall -Werror -o "$out/tsc-khz" "$here/tsc-khz.c"
mkdir -p "$out/modules"
mv "$root$moddir" "$out/modules/$release"
rm -rf "$root"
