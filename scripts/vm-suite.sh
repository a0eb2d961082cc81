#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# Run one guest suite, or list them:
#
#	vm-suite.sh --list
#	vm-suite.sh NAME [ARGUMENT]...
#
# Every executable selftests/guest/*.sh and *.py is a suite: it gets a VM of its
# own, and prints KTAP.  Settings of the VM stand in its head, as in
#
#	# vm: TMO=900 SMP=1 ICOUNT=1
#
# (see vm.sh; the environment wins).  "# vm: manual" marks what is no suite, and
# "# vm: pair" one that needs a second machine, which runs peer.py.  With KERNEL among
# its settings a suite is for that kernel only, and not listed for others.

. "$(dirname "$0")/common.sh"

guest=$RRXE_TREE/selftests/guest

settings() { sed -nE '1,40s/^# vm: *//p' "$1"; }

# usage: is SUITE MARK
is() { settings "$1" | grep -qw -- "$2"; }

# May a suite run on this kernel?
for_kernel() { ! is "$1" 'KERNEL=\S*' || is "$1" "KERNEL=$KERNEL"; }

list() {
	local f
	for f in "$guest"/*.sh "$guest"/*.py; do
		[[ -x $f ]] && ! is "$f" manual && for_kernel "$f" && basename "$f"
	done
	return 0
}

if [[ ${1:-} == --list ]]; then
	list
	exit
fi

name=${1:?usage: vm-suite.sh NAME [ARGUMENT]...}
shift
[[ -x $guest/$name ]] || die "no suite $name; there are: $(list | paste -sd' ')"
for_kernel "$guest/$name" || die "$name is not for this kernel: its head says for which KERNEL it is"
for setting in $(settings "$guest/$name"); do
	[[ $setting == *=* && ! -v ${setting%%=*} ]] && export "${setting?}"
done
export NAME=${name%.*} VM_ENV="LINK_TYPE PEER_TYPE ${VM_ENV:-}"
if is "$guest/$name" pair; then
	exec "$RRXE_TREE/scripts/vm-pair.sh" "./$name ${*@Q}" "./peer.py ${PEER_TYPE:-rxe}"
fi
exec "$RRXE_TREE/scripts/vm.sh" "./$name ${*@Q}"
