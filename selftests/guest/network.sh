#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# vm: TMO=1800
#
# The network below a device changes: names, MTU, link, VLANs, bonds, name spaces.

cd "$(dirname "$0")" || exit 1
. lib/net.sh
. lib/ktap.sh
. lib/perf.sh
. lib/busy.sh

# A third and a fourth name space.
NS_C=rdma-c NS_D=rdma-d

cleanup() {
	fabric_down
	spaces_down
	perf_done
}
trap cleanup EXIT

# The other name spaces, with what is in them.
spaces_down() {
	local dev ns
	for dev in "${LINK_TYPE}2" "${LINK_TYPE}3"; do
		if have_device "$dev"; then link_del "$dev"; fi
	done
	for ns in "$NS_C" "$NS_D"; do
		if [[ -e /run/netns/$ns ]]; then ip netns del "$ns"; fi
	done
}

no_gid() { ! have_gid "$@"; }

netdev_is() { in_a rdma link show "$1/1" | grep -qw "netdev $2"; }

port_is() { rdma link show "$1/1" | grep -q "state $2"; }

# The largest path MTU that the port has room for.
path_mtu_is() { ibv_devinfo -d "$1" | grep -q "active_mtu:.*$2"; }

# Retries of traffic that is interrupted last for longer than any interruption.
patient_traffic() {
	PERF_ACK_TIMEOUT=20
	fabric_up && busy_start
}

# Whose packets were lost may take a while until he tries again.
traffic_goes_on() { WAIT=120 wait_for busy_moves || { why "$1"; return 1; }; }

# The tests.

renamed() {
	patient_traffic || return
	ip -n "$NS_A" link set "$IF_A" name cable || return
	IF_A=cable
	traffic_goes_on "no traffic under the new name" || return
	netdev_is "$DEV_A" cable || { why "the device does not know the new name"; return 1; }
	busy_stop
	perf_run link 4 ib_write_bw -n 10
}

down_and_up() {
	patient_traffic || return
	ip -n "$NS_A" link set "$IF_A" down
	wait_for port_is "$DEV_A" DOWN || return
	wait_for port_is "$DEV_B" DOWN || return
	! busy_moves || { why "traffic over a device that is down"; return 1; }
	ip -n "$NS_A" link set "$IF_A" up
	wait_for port_is "$DEV_A" ACTIVE || return
	traffic_goes_on "no traffic after the interruption" || return
	busy_stop
	perf_run link 4 ib_write_bw -n 10
}

mtu_changed() {
	patient_traffic || return
	ip -n "$NS_A" link set "$IF_A" mtu 1500
	wait_for path_mtu_is "$DEV_A" 1024 || { why "the path MTU has not followed"; return 1; }
	ip -n "$NS_A" link set "$IF_A" mtu 4200
	wait_for path_mtu_is "$DEV_A" 4096 || { why "the path MTU has not come back"; return 1; }
	traffic_goes_on "no traffic after the change" || return
	busy_stop
	ip -n "$NS_A" link set "$IF_A" mtu 1500
	perf_run link 4 ib_write_bw -n 10 -m 1024
}

vlan_comes_and_goes() {
	patient_traffic || return
	ip -n "$NS_A" link add link "$IF_A" name vlan7 type vlan id 7 || return
	ip -n "$NS_A" addr add 10.79.0.1/24 dev vlan7
	ip -n "$NS_A" link set vlan7 up
	wait_for have_gid "$DEV_A" 10.79.0.1 || { why "no GID for the VLAN's address"; return 1; }
	ip -n "$NS_A" addr add 10.79.0.2/24 dev vlan7
	wait_for have_gid "$DEV_A" 10.79.0.2 || { why "no GID for the VLAN's second address"; return 1; }
	ip -n "$NS_A" link del vlan7
	wait_for no_gid "$DEV_A" 10.79.0.1 || { why "a GID is left of the VLAN"; return 1; }
	have_device "$DEV_A" && traffic_goes_on "no traffic after the end of a VLAN" || return
	busy_stop
}

# Both cables end in a bridge in B, and in a bond in A.
bond_up() {
	netns_up "$NS_A"
	netns_up "$NS_B"
	ip -n "$NS_A" link add bond0 address 02:77:00:00:00:01 type bond mode active-backup miimon 100 || return
	ip -n "$NS_B" link add bridge0 address 02:77:00:00:00:02 type bridge || return
	for cable in 1 2; do
		ip link add "leg$cable" netns "$NS_A" type veth peer name "port$cable" netns "$NS_B"
		ip -n "$NS_A" link set "leg$cable" mtu 4200 master bond0 || return
		ip -n "$NS_B" link set "port$cable" mtu 4200 up master bridge0 || return
	done
	end_up "$NS_A" bond0 4200 "$IP4_A" "$IP6_A"
	end_up "$NS_B" bridge0 4200 "$IP4_B" "$IP6_B"
	wait_for in_a ping -q -c 1 -W 1 "$IP4_B" > /dev/null &&
		device_up_4 "$NS_A" "$DEV_A" bond0 "$IP4_A" &&
		device_up_4 "$NS_B" "$DEV_B" bridge0 "$IP4_B"
}

active_leg() { in_a cat /sys/class/net/bond0/bonding/active_slave; }

active_leg_is_not() { [[ $(active_leg) != "$1" ]]; }

# Has the bond seen that a leg works?
leg_works() { [[ $(in_a cat "/sys/class/net/$1/bonding_slave/mii_status") == up ]]; }

# The leg that works breaks, and the other one takes over; then that one breaks.
bond_fails_over() {
	local leg _
	fabric_down
	modprobe -a bonding bridge && bond_up || return
	IF_A=bond0 PERF_ACK_TIMEOUT=20
	busy_start || return
	for _ in 1 2; do
		wait_for leg_works leg1 && wait_for leg_works leg2 || { why "a leg does not come up"; return 1; }
		leg=$(active_leg)
		note "breaking $leg"
		ip -n "$NS_A" link set "$leg" down
		wait_for active_leg_is_not "$leg" || { why "the bond has not changed over"; return 1; }
		have_gid "$DEV_A" "$IP4_A" || { why "the GID of the bond is gone"; return 1; }
		traffic_goes_on "no traffic over $(active_leg)" || return
		ip -n "$NS_A" link set "$leg" up
	done
	busy_stop
	wait_for port_is "$DEV_A" ACTIVE || { rdma link show; return 1; }
	perf_run link 4 ib_write_bw -n 10
}

# Devices have the same addresses; each talks to the one on its own cable.
same_addresses() {
	local before
	patient_traffic || return
	(
		NS_A=$NS_C NS_B=$NS_D DEV_A=${LINK_TYPE}2 DEV_B=${LINK_TYPE}3
		cable_up && device_up "$NS_A" "$DEV_A" "$IF_A" "$IP4_A" "$IP6_A" &&
			device_up "$NS_B" "$DEV_B" "$IF_B" "$IP4_B" "$IP6_B" || exit
		before=$(sent_packets)
		PERF_PORT=$((PERF_PORT + 1000))
		for family in 4 6; do
			perf_run link "$family" ib_write_bw -n 200 -s 4096 || exit
		done
		[[ $(sent_packets) -ge $((before + 400)) ]] || { why "the packets went elsewhere"; exit 1; }
	) || return
	traffic_goes_on "no traffic between the others" || return
	busy_stop
}

# The device goes away with its netdev, whoever uses it; a new one can be made where the netdev is.
netdev_moves() {
	fabric_up && busy_start || return
	netns_up "$NS_C"
	ip -n "$NS_A" link set "$IF_A" netns "$NS_C" || return
	wait_for no_device "$DEV_A" || { why "the device is still there"; return 1; }
	busy_stop
	NS_A=$NS_C
	end_up "$NS_A" "$IF_A" 4200 "$IP4_A" "$IP6_A"
	device_up "$NS_A" "$DEV_A" "$IF_A" "$IP4_A" "$IP6_A" || return
	wait_for in_a ping -q -c 1 -W 1 "$IP4_B" > /dev/null || return
	perf_run link 4 ib_write_bw -n 10 && perf_run link 6 ib_write_bw -n 10
}

# In the same way, with the name space that it comes from gone at once.
netdev_moves_out() {
	fabric_up && busy_start || return
	netns_up "$NS_C"
	ip -n "$NS_A" link set "$IF_A" netns "$NS_C" && ip netns del "$NS_A" || return
	wait_for no_device "$DEV_A" || { why "the device is still there"; return 1; }
	busy_stop
	NS_A=$NS_C
	end_up "$NS_A" "$IF_A" 4200 "$IP4_A" "$IP6_A"
	device_up "$NS_A" "$DEV_A" "$IF_A" "$IP4_A" "$IP6_A" || return
	wait_for in_a ping -q -c 1 -W 1 "$IP4_B" > /dev/null || return
	perf_run link 4 ib_write_bw -n 10
}

# Where devices belong to one name space each, they are seen in that one only.
seen_in() { ip netns exec "$1" rdma dev | grep -qw "$2"; }
unseen_in() { ! seen_in "$@"; }
seen_at_home() { rdma dev | grep -qw "$1"; }
sharing_is() { rdma system | grep -qw "netns $1"; }
share() { rdma system set netns "$1" 2>/dev/null; }

exclusive() {
	local rc
	fabric_down
	spaces_down
	# It takes a moment until they are quite gone.
	WAIT=300 wait_for share exclusive || { why "other name spaces are in the way"; return 1; }
	sharing_is exclusive || return
	exclusively
	rc=$?
	for ns in "$NS_A" "$NS_B" "$NS_C"; do
		if [[ -e /run/netns/$ns ]]; then ip netns del "$ns"; fi
	done
	for dev in "$DEV_A" "$DEV_B"; do
		wait_for home_without "$dev" || { why "$dev is left"; rc=1; }
	done
	WAIT=300 wait_for share shared || { why "devices cannot be shared again"; rc=1; }
	return $rc
}

# What came back from a name space that has ended goes with its netdev, or is deleted.
home_without() {
	! seen_at_home "$1" || { rdma link delete "$1" 2>/dev/null && ! seen_at_home "$1"; }
}

# Where a device is.
home_of() {
	local ns
	for ns in "$NS_A" "$NS_B" "$NS_C"; do
		if [[ -e /run/netns/$ns ]] && seen_in "$ns" "$1"; then echo "$ns"; fi
	done
}

exclusively() {
	# shellcheck disable=SC2317
	gid_index() { ip netns exec "$(home_of "$1")" bash -c '. lib/net.sh; gid_index "$@"' - "$@"; }
	netns_up "$NS_C"
	cable_up
	device_up "$NS_A" "$DEV_A" "$IF_A" "$IP4_A" "$IP6_A" &&
		device_up "$NS_B" "$DEV_B" "$IF_B" "$IP4_B" "$IP6_B" || return
	seen_in "$NS_A" "$DEV_A" && unseen_in "$NS_A" "$DEV_B" && ! seen_at_home "$DEV_A" || {
		why "a device is seen where it is not"
		return 1
	}
	busy_start || return
	within 60 ip netns exec "$NS_A" rdma dev set "$DEV_A" netns "$NS_C" || {
		why "the device cannot be moved with a client running"
		return 1
	}
	busy_stop
	seen_in "$NS_C" "$DEV_A" && unseen_in "$NS_A" "$DEV_A" || { why "the device is not where it belongs"; return 1; }
	ip netns exec "$NS_C" ibv_devinfo -d "$DEV_A" > /dev/null || { why "the device cannot be opened"; return 1; }
	within 60 ip netns exec "$NS_C" rdma dev set "$DEV_A" netns "$NS_A" || return
	wait_for have_gid "$DEV_A" "$IP4_A" && perf_run link 4 ib_write_bw -n 100 || return
	# With its name space it does not end.
	within 60 ip netns exec "$NS_A" rdma dev set "$DEV_A" netns "$NS_C" && ip netns del "$NS_C" || return
	wait_for seen_at_home "$DEV_A" || { why "the device has gone with the name space"; return 1; }
}

# usage: network_test FUNCTION -- and everything is taken down
network_test() {
	local rc
	"$1"
	rc=$?
	busy_stop
	fabric_down
	spaces_down
	return $rc
}

# The first: connections that were cut off keep their name spaces for minutes, which are in its way.
ktap_add "devices that belong to a name space" network_test exclusive
ktap_add "netdev renamed" network_test renamed
ktap_add "netdev down and up" network_test down_and_up
ktap_add "MTU changed" network_test mtu_changed
ktap_add "a VLAN comes and goes" network_test vlan_comes_and_goes
ktap_add "a bond fails over" network_test bond_fails_over
ktap_add "the same addresses in other name spaces" network_test same_addresses
ktap_add "netdev moves to another name space" network_test netdev_moves
ktap_add "netdev moves out of a name space that ends" network_test netdev_moves_out
ktap_run network "$@"
