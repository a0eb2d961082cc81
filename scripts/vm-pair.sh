#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# Run a command in one of two virtual machines that a cable joins:
#
#	vm-pair.sh COMMAND PEER_COMMAND
#
# Both are run as by vm.sh, which see for the environment, at once, in a machine each.
# The output is that of COMMAND; so is the status, unless it is 0 and that of the
# other is not.  Each machine leaves a result directory, named NAME-a and NAME-b.
#
# The cable is an Ethernet link between the only network devices (virtio) of the two.

. "$(dirname "$0")/common.sh"

[[ $# -eq 2 ]] || die "usage: vm-pair.sh COMMAND PEER_COMMAND"

# Sockets have short names: not in the result directories.
cable=$(mktemp -d /tmp/rrxe-cable-XXXX)
trap 'rm -rf "$cable"' EXIT

# usage: machine SIDE OTHER_SIDE NUMBER COMMAND
machine() {
	NAME=${NAME:-run}-$1 \
	QEMU_ARGS="-netdev dgram,id=cable,local.type=unix,local.path=$cable/$1,remote.type=unix,remote.path=$cable/$2
		-device virtio-net-pci,netdev=cable,mac=02:77:00:00:00:0$3" \
		"$RRXE_TREE/scripts/vm.sh" "$4"
}

machine b a 2 "$2" > /dev/null &
status=0 peer_status=0
machine a b 1 "$1" || status=$?
wait $! || peer_status=$?
[[ $status -ne 0 ]] || status=$peer_status
exit "$status"
