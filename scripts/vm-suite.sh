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
# (see vm.sh; the environment wins).  "# vm: manual" marks what is no suite.  With
# KERNEL among its settings a suite is for that kernel only, and not listed for others.

. "$(dirname "$0")/common.sh"

guest=$RRXE_TREE/selftests/guest

settings() { sed -nE '1,40s/^# vm: *//p' "$1"; }

# May a suite run on this kernel?
for_kernel() {
	local wanted
	wanted=$(settings "$1" | grep -oP '\bKERNEL=\K\S*') || return 0
	[[ $wanted == "$KERNEL" ]]
}

list() {
	local f
	for f in "$guest"/*.sh "$guest"/*.py; do
		[[ -x $f && $(settings "$f") != manual ]] && for_kernel "$f" && basename "$f"
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
NAME=${name%.*} VM_ENV="LINK_TYPE ${VM_ENV:-}" exec "$RRXE_TREE/scripts/vm.sh" "./$name ${*@Q}"
