#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# How fast the devices of $LINK_TYPE are: one line "TEST|VALUE|UNIT" each, measured by
# perftest over a veth pair. The programs wait for events, so that what they do while they
# wait does not count.
#
# vm: manual

cd "$(dirname "$0")" || exit 1
. lib/net.sh
. lib/perf.sh

trap 'fabric_down; perf_done' EXIT

# usage: bench NAME TOOL [OPTION]...
bench() {
	local name=$1 value unit
	shift
	perf_run link 4 "$@" > "$PERF_DIR/why" || { cat "$PERF_DIR/why"; exit 1; }
	read -r _ _ value unit <<< "$(perf_figures)"
	echo "$name|$value|$unit"
}

# The first seconds after the boot disturb what follows.
sleep 3
for mtu in 4200 1500; do
	fabric_up "$mtu" || exit 1
	bench "SEND 64 KiB, MTU $mtu" ib_send_bw -e -n 200 -s 65536
	bench "READ 64 KiB, MTU $mtu" ib_read_bw -e -n 200 -s 65536
	bench "SEND 64 B, MTU $mtu" ib_send_bw -e -n 1000 -s 64
	bench "SEND 64 B latency, MTU $mtu" ib_send_lat -e -n 300 -s 64
	fabric_down
done
