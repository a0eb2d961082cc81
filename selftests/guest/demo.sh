#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# What the module does, shown with stock programs: two network namespaces joined by
# a veth pair, an RDMA device on each end, and real RDMA traffic between them.
#
# vm: manual

cd "$(dirname "$0")" || exit 1
. lib/net.sh
. lib/perf.sh

trap 'fabric_down; perf_done' EXIT

MTU=${MTU:-4200}
TABLE=()
FAILED=0

title() { printf '\n\033[1m%s\033[0m\n' "$*"; }

# Show a command and run it.
show() {
	echo "  \$ $*"
	"$@" 2>&1 | sed 's/^/    /'
	return "${PIPESTATUS[0]}"
}

row() { TABLE+=("$(printf '%-44s %-6s %8s %6s %18s  %s' "$@")"); }

# usage: demo PATH TOOL [OPTION]...
demo() {
	local path=$1 where="A -> B" size iterations value unit figures
	shift
	[[ $path == link ]] || where="A -> A"
	printf '  %-44s %s ... ' "$*" "$where"
	if perf_run "$path" 4 "$@" > "$PERF_DIR/why" && figures=$(perf_figures) && [[ -n $figures ]]; then
		read -r size iterations value unit <<< "$figures"
		echo "$value $unit"
		row "$*" "$where" "$size" "$iterations" "$value $unit" ok
	else
		FAILED=1
		echo "FAILED"
		sed 's/^/    /' "$PERF_DIR/why"
		row "$*" "$where" - - - FAILED
	fi
}

title "Two network namespaces, joined by a veth pair (MTU $MTU)"
cable_up "$MTU" || exit 1
show ip -n "$NS_A" -brief address show dev "$IF_A"
show ip -n "$NS_B" -brief address show dev "$IF_B"

title "An RDMA device of type $LINK_TYPE on each end"
show ip netns exec "$NS_A" rdma link add "$DEV_A" type "$LINK_TYPE" netdev "$IF_A" || exit 1
show ip netns exec "$NS_B" rdma link add "$DEV_B" type "$LINK_TYPE" netdev "$IF_B" || exit 1
wait_for have_gid "$DEV_A" "$IP4_A" && wait_for have_gid "$DEV_B" "$IP4_B" || exit 1
show in_a rdma link show "$DEV_A/1"
show in_b rdma link show "$DEV_B/1"
show ibv_devinfo -d "$DEV_A"

title "Stock clients of rdma-core and perftest, between the two"
demo link ibv_rc_pingpong -n 200 -s 4096
demo link ib_send_bw -n 200 -s 65536
demo link ib_write_bw -n 200 -s 65536
demo link ib_write_bw -n 200 -s 65536 --write_with_imm
demo link ib_read_bw -n 200 -s 65536
demo link ib_atomic_bw -n 200
demo link ib_send_lat -n 200 -s 64
demo link ib_write_lat -n 200 -s 64

title "The same on one device (loopback)"
demo loop ib_write_bw -n 200 -s 65536

fabric_down

title "RDMA WRITE with immediate, checked in every detail"
./write_with_imm.py > "$PERF_DIR/imm" 2>&1
imm=$?
sed 's/^/  /' "$PERF_DIR/imm"
passed=$(grep -c '^ok ' "$PERF_DIR/imm")
if [[ $imm -eq 0 ]]; then
	row "write_with_imm.py ($passed checks)" "both" - - - ok
else
	FAILED=1
	row "write_with_imm.py" "both" - - - FAILED
fi

title "Summary ($LINK_TYPE on $(uname -r))"
printf '  %-44s %-6s %8s %6s %18s  %s\n' test path bytes iter. result ""
printf '  %s\n' "${TABLE[@]}"
exit $FAILED
