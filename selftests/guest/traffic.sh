#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# vm: TMO=1800
#
# The stock clients in many combinations: between two devices and on one, IPv4 and
# IPv6, path MTU 1024 and 4096, events, inline, several queue pairs, both directions.

cd "$(dirname "$0")" || exit 1
. lib/net.sh
. lib/ktap.sh
. lib/perf.sh

trap 'fabric_down; perf_done' EXIT

# A run that also must have measured something.
measured() {
	perf_run "$@" || return
	perf_figures | grep . || { echo "no figures:"; cat "$PERF_CLIENT"; return 1; }
}

# usage: add PATH FAMILY TOOL [OPTION]...
add() {
	ktap_add "$3 ${*:4} ($1, IPv$2)" measured "$@"
}

# usage: vlan_up NAMESPACE DEVICE NETDEV ADDRESS
vlan_up() {
	ip -n "$1" link add link "$3" name vlan5 type vlan id 5 &&
		ip -n "$1" addr add "$4/24" dev vlan5 &&
		ip -n "$1" link set vlan5 up &&
		wait_for have_gid "$2" "$4"
}

# Addresses of a VLAN are the device's below it, and its packets are tagged.
over_vlan() {
	local IP4_A=10.78.0.1 IP4_B=10.78.0.2 packets
	vlan_up "$NS_A" "$DEV_A" "$IF_A" "$IP4_A" && vlan_up "$NS_B" "$DEV_B" "$IF_B" "$IP4_B" || return
	perf_run link 4 "$@" || return
	packets=$(in_b cat /sys/class/net/vlan5/statistics/rx_packets)
	[[ $packets -gt 100 ]] || { echo "$packets packets have come over the VLAN"; return 1; }
}

for path in link loop; do
	add $path 4 ibv_rc_pingpong -n 50 -s 4096 -m 1024
	add $path 6 ibv_rc_pingpong -n 50 -s 4096 -m 1024 -e
	add $path 6 ib_send_bw -m 4096 -s 65536 -n 20 -b
	add $path 4 ib_send_bw -m 1024 -s 1024 -n 50 -q 4 -e
	add $path 4 ib_write_bw -m 1024 -s 8192 -n 50 -q 4
	add $path 6 ib_write_bw -m 4096 -s 4096 -n 50 --write_with_imm -q 4
	add $path 6 ib_read_bw -m 4096 -s 65536 -n 20 -b
	add $path 6 ib_atomic_bw -n 50 -A CMP_AND_SWAP -q 4
	add $path 4 ib_send_lat -s 64 -n 50 -I 64
done
add link 4 ib_send_bw -m 1024 -s 8192 -n 50
add link 6 ib_send_bw -m 4096 -s 2048 -n 50 -e
add link 6 ib_write_bw -m 4096 -s 65536 -n 20 -b
add link 4 ib_write_bw -m 1024 -s 8192 -n 50 --write_with_imm
add link 4 ib_write_bw -m 4096 -s 4194304 -n 5
add link 4 ib_read_bw -m 1024 -s 4096 -n 40 -q 4 -e
add link 6 ib_read_bw -m 1024 -s 1048576 -n 5
add link 4 ib_atomic_bw -n 50
add link 6 ib_send_lat -s 4096 -m 4096 -n 50 -I 0 -e
add link 4 ib_write_lat -s 64 -n 50 -I 64
add link 6 ib_write_lat -s 8192 -m 1024 -n 50 -I 0
add link 4 ib_write_lat -s 1024 -n 50 --write_with_imm
add link 4 ib_read_lat -s 4096 -n 50
add link 6 ib_atomic_lat -n 50

# Shared receive queues.
for path in link loop; do
	add $path 4 ibv_srq_pingpong -n 20 -s 4096 -m 1024 -q 8 -r 100 -c
	add $path 6 ib_send_bw -m 1024 -s 4096 -n 50 -q 4 --use-srq
done
add link 6 ibv_srq_pingpong -n 20 -s 1000 -m 1024 -q 4 -r 20 -e
add link 4 ib_send_bw -m 1024 -s 8192 -n 50 -q 4 --use-srq -e
add link 4 ib_send_bw -m 1024 -s 2048 -n 50 --use-srq -r 16
add link 4 ib_send_lat -s 64 -n 50 --use-srq

ktap_add "ibv_rc_pingpong over a VLAN" over_vlan ibv_rc_pingpong -n 50 -s 4096 -m 1024

# Of what the other side waits for, no more packets than one turn sends: nothing makes good for a loss.
for path in link loop; do
	add $path 4 ibv_uc_pingpong -n 50 -s 4096 -m 1024
	add $path 6 ib_send_bw -c UC -m 4096 -s 16384 -n 20
	add $path 4 ib_write_bw -c UC -m 1024 -s 8192 -n 50 -q 4
	add $path 6 ib_send_lat -c UC -s 4096 -m 1024 -n 50
done
add link 6 ib_send_bw -c UC -m 4096 -s 2048 -n 20 -e -b
add link 4 ib_write_bw -c UC -m 1024 -s 8192 -n 20 --write_with_imm
add link 6 ib_write_lat -c UC -s 64 -n 50 -I 64
add link 4 ib_write_lat -c UC -s 4096 -m 1024 -n 50 --write_with_imm

for path in link loop; do
	add $path 4 ibv_ud_pingpong -n 50 -s 1024
	add $path 6 ib_send_bw -c UD -s 2048 -n 50
	add $path 4 ib_send_lat -c UD -s 1024 -n 50
done
add link 6 ibv_ud_pingpong -n 50 -s 4096 -e
add link 4 ib_send_bw -c UD -s 1024 -n 50 -e -b
add link 4 ib_send_bw -c UD -s 512 -n 40 -q 4
add link 6 ib_send_lat -c UD -s 64 -n 50 -I 64

fabric_up 4200 || { echo "Bail out! the network does not come up"; exit 1; }
ktap_run traffic "$@"
