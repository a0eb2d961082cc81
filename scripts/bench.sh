#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# Compare rrxe with the kernel's own rdma_rxe: the same programs in the same VM, the two
# in turn, ROUNDS times (default 3).  Prints the medians and their ratio.
#
# With ICOUNT=1, the default, the VM's clock counts instructions: the figures are those of
# a machine with one processor that does 10^9 of them a second, whatever this one is busy
# with.  ICOUNT= measures time, on as many processors as the VM has.

. "$(dirname "$0")/common.sh"

ROUNDS=${ROUNDS:-3}
results=$(mktemp -d)
trap 'rm -rf "$results"' EXIT

# usage: run LINK_TYPE ROUND
run() {
	say "$1, round $2 of $ROUNDS"
	LINK_TYPE=$1 VM_ENV=LINK_TYPE NAME=bench-$1 ICOUNT=${ICOUNT-1} TMO=${TMO:-600} \
		"$RRXE_TREE/scripts/vm.sh" ./bench.sh | grep -a '|' >> "$results/$1" ||
		die "the benchmark failed on $1"
}

for ((round = 1; round <= ROUNDS; round++)); do
	run rxe "$round"
	run rrxe "$round"
done

for type in rxe rrxe; do sort -t'|' -k1,1 -k2,2g -o "$results/$type" "$results/$type"; done
awk -F'|' '
	# The values of a test come in ascending order.
	function median(list,    n, v) {
		n = split(list, v, " ")
		return v[int((n + 1) / 2)]
	}
	{ values[FILENAME, $1] = values[FILENAME, $1] " " $2; unit[$1] = $3 }
	FILENAME == ARGV[1] && !seen[$1]++ { order[++count] = $1 }
	END {
		printf "%-32s %12s %12s  %-6s %s\n", "test", "rdma_rxe", "rrxe", "unit", "rrxe is"
		for (i = 1; i <= count; i++) {
			test = order[i]
			c = median(values[ARGV[1], test])
			r = median(values[ARGV[2], test])
			# Of a latency less is better.
			gain = unit[test] ~ /^usec/ ? c / r : r / c
			printf "%-32s %12s %12s  %-6s %.2f times as fast\n", test, c, r, unit[test], gain
		}
	}' "$results/rxe" "$results/rrxe"
