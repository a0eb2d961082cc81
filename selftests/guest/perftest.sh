#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# vm: TMO=1800
#
# perftest as a matrix: each of its programs over each connection, with events, inline data, several
# queue pairs and a shared receive queue. Not how fast it is counts, but that client and server end
# well, and that as many messages of the right size have been measured as were asked for.

cd "$(dirname "$0")" || exit 1
. lib/net.sh
. lib/ktap.sh
. lib/perf.sh

trap 'fabric_down; perf_done' EXIT

# What follows an option in a command line.  usage: option NAME DEFAULT ARGUMENT...
option() {
	local name=$1 value=$2
	shift 2
	while [[ $# -gt 0 ]]; do
		[[ $1 != "$name" ]] || value=$2
		shift
	done
	echo "$value"
}

# How many messages a program counts. With -b it counts both directions, with -q all queue pairs.
expected_count() {
	local count pairs
	count=$(option -n 0 "$@")
	pairs=$(option -q 1 "$@")
	[[ $1 == *_bw ]] || pairs=1
	echo $((count * pairs))
}

# Both ends end well, and have measured all that was asked for.  usage: counted PATH FAMILY TOOL [OPTION]...
counted() {
	local size count bytes messages
	perf_run "$@" || return
	read -r bytes messages _ < <(perf_figures)
	size=$(option -s 8 "${@:3}")
	count=$(expected_count "${@:3}")
	[[ $bytes == "$size" && $messages == "$count" ]] && return
	echo "measured ${messages:-no} messages of ${bytes:-?} bytes, wanted $count of $size"
	cat "$PERF_CLIENT"
	return 1
}

# usage: add PATH FAMILY TOOL [OPTION]...
add() {
	ktap_add "$3 ${*:4} ($1, IPv$2)" counted "$@"
}

# Of what UC and UD send without a pause, no more than a turn: nothing makes good for a loss.
family=4
for tool in send write; do
	for connection in RC UC; do
		add link $family ib_${tool}_bw -c $connection -m 1024 -s 4096 -n 20
		add loop $family ib_${tool}_bw -c $connection -m 1024 -s 64 -n 40 -I 64
		add link $family ib_${tool}_bw -c $connection -m 4096 -s 16384 -n 10 -q 4
		# Its WRITE programs know no events.
		events=-e
		[[ $tool == send ]] || events=
		# shellcheck disable=SC2086
		add link $family ib_${tool}_bw -c $connection -m 1024 -s 2048 -n 20 $events
		# shellcheck disable=SC2086
		add link $family ib_${tool}_bw -c $connection -m 1024 -s 1024 -n 20 -q 3 $events -b
		add link $family ib_${tool}_lat -c $connection -m 1024 -s 64 -n 50 -I 64
		add loop $family ib_${tool}_lat -c $connection -m 1024 -s 4096 -n 50 -I 0
		family=$((10 - family))
	done
done
for connection in RC UC; do
	add link 6 ib_send_lat -c $connection -m 1024 -s 512 -n 50 -e
	add link 4 ib_write_bw -c $connection -m 1024 -s 8192 -n 20 --write_with_imm
	add link 6 ib_write_bw -c $connection -m 1024 -s 1024 -n 10 -q 4 --write_with_imm
	add link 4 ib_write_lat -c $connection -m 1024 -s 2048 -n 50 --write_with_imm
done
add link 6 ib_send_bw -c UD -s 2048 -n 20
add loop 4 ib_send_bw -c UD -s 64 -n 40 -I 64
add link 4 ib_send_bw -c UD -s 4096 -n 10 -q 4
add link 6 ib_send_bw -c UD -s 1024 -n 20 -e
add link 4 ib_send_bw -c UD -s 1024 -n 20 -q 3 -e -b
add link 6 ib_send_lat -c UD -s 64 -n 50 -I 64
add loop 4 ib_send_lat -c UD -s 4096 -n 50 -I 0
add link 4 ib_send_lat -c UD -s 512 -n 50 -e
for tool in read atomic; do
	size="-s 8192 -m 1024"
	[[ $tool == read ]] || size=
	# shellcheck disable=SC2086
	{
		add link 4 ib_${tool}_bw $size -n 30
		add loop 6 ib_${tool}_bw $size -n 20 -q 4
		add link 6 ib_${tool}_bw $size -n 20 -e
		add link 4 ib_${tool}_bw $size -n 20 -q 3 -b
		add link 4 ib_${tool}_lat $size -n 50
		add loop 6 ib_${tool}_lat $size -n 50
		add link 6 ib_${tool}_lat $size -n 30 -e
	}
done
add link 4 ib_atomic_bw -n 20 -A CMP_AND_SWAP -q 2
add link 6 ib_atomic_lat -n 50 -A FETCH_AND_ADD
add link 4 ib_read_bw -m 1024 -s 4096 -n 20 -o 1
add link 6 ib_read_bw -m 4096 -s 65536 -n 10 -o 16
add link 4 ib_send_bw -m 1024 -s 4096 -n 20 -q 4 --use-srq
add link 6 ib_send_bw -m 1024 -s 2048 -n 20 -q 8 --use-srq -e
add loop 4 ib_send_bw -m 1024 -s 1024 -n 50 -q 2 --use-srq -r 8
add link 6 ib_send_lat -m 1024 -s 256 -n 50 --use-srq
add link 4 ib_send_bw -m 4096 -s 1048576 -n 5 -b
add link 6 ib_write_bw -m 4096 -s 8388608 -n 5 -b
add link 4 ib_send_bw -m 256 -s 65535 -n 5
add link 4 ib_write_bw -m 2048 -s 1 -n 100 -l 10

fabric_up 4200 || { echo "Bail out! the network does not come up"; exit 1; }
ktap_run perftest "$@"
