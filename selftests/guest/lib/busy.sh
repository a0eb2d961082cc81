# shellcheck shell=bash
# SPDX-License-Identifier: GPL-2.0
#
# Traffic that goes on while a test changes something. Needs net.sh and perf.sh.

# A client and a server that do not stop by themselves.
busy_start() {
	local PERF_LIMIT=86400 busy=(link 4 ib_write_bw -D 86400 -s 4096)
	perf_serve "${busy[@]}" || return
	perf_client "${busy[@]}" &
	wait_for busy_moves || { cat "$PERF_CLIENT"; return 1; }
}

sent_packets() { in_a cat "/sys/class/net/$IF_A/statistics/tx_packets" 2>/dev/null || echo 0; }

# Does the traffic flow?
busy_moves() {
	local before
	before=$(sent_packets)
	sleep 0.3
	[[ $(sent_packets) -gt $((before + 20)) ]]
}

busy_stop() {
	local comm name
	for comm in /proc/[0-9]*/comm; do
		name=
		{ read -r name < "$comm"; } 2>/dev/null
		[[ $name != ib_write_bw ]] || kill -KILL "${comm//[^0-9]/}"
	done
	wait 2>/dev/null
}

no_process() { ! kill -0 "$1" 2>/dev/null; }
