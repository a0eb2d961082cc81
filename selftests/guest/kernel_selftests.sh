#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# vm: TMO=1800 ICOUNT=1
#
# The kernel's own tests of rdma_rxe (tools/testing/selftests/rdma of its source), unchanged, with
# the module in the place of rdma_rxe.
#
# They sleep a second where they wait for a server: by the clock of a machine that counts
# instructions that is long enough, however busy its host is.

cd "$(dirname "$0")" || exit 1
. lib/net.sh
. lib/ktap.sh
. lib/drop_in.sh

SCRIPTS=/usr/libexec/kselftests/rdma
LOADS=/sys/kernel/tracing/events/module/module_load
TRACE=/sys/kernel/tracing/trace

loaded() { [[ -d /sys/module/$1 ]]; }

# The drivers that have been loaded, of the two.
loaded_drivers() { grep -oE 'module_load: (rrxe|rdma_rxe)\b' "$TRACE" | cut -d' ' -f2 | sort -u; }

# usage: kernel_script NAME
kernel_script() {
	local rc=0
	echo > "$TRACE"
	within 600 "$SCRIPTS/$1" || rc=$?
	[[ $rc -eq 0 ]] || { echo "$1 ended with $rc"; return 1; }
	[[ $(loaded_drivers) == "$MODULE" ]] || { echo "it was to load $MODULE and has loaded: $(loaded_drivers)"; return 1; }
	! loaded "$MODULE" || { echo "it could not unload $MODULE"; return 1; }
}

# As udev has it on any system: who opens it has the module tun loaded.
mkdir -p /dev/net
[[ -e /dev/net/tun ]] || mknod /dev/net/tun c 10 200
[[ $LINK_TYPE == rxe ]] || drop_in
echo 1 > "$LOADS/enable" || exit 1
scripts=("$SCRIPTS"/rxe_*.sh)
[[ ${#scripts[@]} -ge 5 ]] || { echo "Bail out! of the kernel's scripts there are only: ${scripts[*]}"; exit 1; }
for script in "${scripts[@]##*/}"; do ktap_add "$script" kernel_script "$script"; done
ktap_run kernel_selftests "$@"
