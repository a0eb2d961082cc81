#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# vm: TMO=1800
#
# Those tests of rdma-core that have traffic, on one device whose packets to itself do not go
# through the loopback device, but out to the cable, which returns them.

cd "$(dirname "$0")" || exit 1
. lib/net.sh

TRAFFIC=(test_atomic. test_buf.BufTraffic test_cq_events. test_cqex.CqEx test_mr.MWTest. test_odp. test_qpex.
	test_rdmacm. test_relaxed_ordering. test_srq.)

far() { in_b cat "/sys/class/net/$IF_B/address"; }

# Packets to an address of the near end go to the far end instead.  usage: send_out ADDRESS
send_out() {
	local address=$1 family=-4
	[[ $address != *:* ]] || family=-6
	ip -n "$NS_A" "$family" route add "$address" dev "$IF_A" table 100 &&
		ip -n "$NS_A" "$family" neigh replace "$address" lladdr "$(far)" dev "$IF_A" nud permanent &&
		ip -n "$NS_A" "$family" rule add pref 10 iif lo to "$address" lookup 100
}

# What is to be sent out is looked for before what is local.  usage: local_later FAMILY
local_later() {
	ip -n "$NS_A" "$1" rule add pref 20 lookup local &&
		ip -n "$NS_A" "$1" rule del pref 0
}

# Also the address that the netdev gives itself, which it does a while after it has come up.
have_link_address() { ip -n "$NS_A" -6 addr show dev "$IF_A" scope link -tentative | grep -q fe80; }
near_addresses() { ip -n "$NS_A" -j addr show dev "$IF_A" | jq -r '.[].addr_info[].local'; }

# The far end returns the frames that are for it alone to where they come from.
reflect() {
	in_b tc qdisc add dev "$IF_B" clsact &&
		in_b tc filter add dev "$IF_B" ingress flower dst_mac "$(far)" \
			action skbmod swap mac action mirred egress redirect dev "$IF_B"
}

cable_returns() {
	local address
	in_a sysctl -qw "net.ipv4.conf.$IF_A.accept_local=1" "net.ipv4.conf.$IF_A.rp_filter=0" net.ipv4.conf.all.rp_filter=0 &&
		local_later -4 && local_later -6 && reflect || return
	for address in $(near_addresses); do send_out "$address" || return; done
}

# How many packets a network device of the near end has sent.  usage: sent NETDEV
sent() { in_a cat "/sys/class/net/$1/statistics/tx_packets"; }

trap fabric_down EXIT
fabric_up && wait_for have_link_address && cable_returns || { echo "Bail out! the network does not come up"; exit 1; }
sysctl -qw vm.nr_hugepages=64
[[ $# -gt 0 ]] || set -- "${TRAFFIC[@]}"
by_cable=$(sent "$IF_A") by_loopback=$(sent lo)
status=0
in_a lib/rdma_core.py "$DEV_A" rdma_core.expected "$@" || status=$?
by_cable=$(($(sent "$IF_A") - by_cable)) by_loopback=$(($(sent lo) - by_loopback))
echo "# $by_cable packets by the cable, $by_loopback by the loopback device"
[[ $by_cable -gt 0 && $by_loopback -eq 0 ]] || { echo "Bail out! the traffic has not taken the cable"; exit 1; }
exit "$status"
