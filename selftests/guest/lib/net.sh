# shellcheck shell=bash disable=SC2034
# SPDX-License-Identifier: GPL-2.0
#
# The network of the tests: two network namespaces joined by a veth pair, with one
# RDMA device on each end.
#
#	 namespace rdma-a                     namespace rdma-b
#	 $DEV_A on veth-a 10.77.0.1  <----->  $DEV_B on veth-b 10.77.0.2
#
# LINK_TYPE is the type for `rdma link add`: rrxe, or rxe to run on the kernel's own.

LINK_TYPE=${LINK_TYPE:-rrxe}
case $LINK_TYPE in
rxe) MODULE=rdma_rxe ;;
*) MODULE=$LINK_TYPE ;;
esac

NS_A=rdma-a NS_B=rdma-b
IF_A=veth-a IF_B=veth-b
DEV_A=${DEV_A:-${LINK_TYPE}0} DEV_B=${DEV_B:-${LINK_TYPE}1}
IP4_A=10.77.0.1 IP4_B=10.77.0.2
# Written in full, as the GID table shows them.
IP6_A=fd00:0000:0000:0000:0000:0000:0000:0001
IP6_B=fd00:0000:0000:0000:0000:0000:0000:0002
ROCE_PORT_HEX=12B7

in_a() { ip netns exec "$NS_A" "$@"; }
in_b() { ip netns exec "$NS_B" "$@"; }

# What all time limits are multiplied with, where all is slow.
PATIENCE=${PATIENCE:-1}

# Run a command with a time limit.  usage: within SECONDS COMMAND...
within() {
	local limit=$(($1 * PATIENCE))
	shift
	timeout -k 5 "$limit" "$@"
}

# Seconds after which nobody waits any more: longer than any delay of a machine that has other work.
WAIT=60

# Repeat a command until it succeeds, or for WAIT seconds.  usage: wait_for COMMAND...
wait_for() {
	local end=$((SECONDS + WAIT * PATIENCE))
	until "$@"; do
		[[ $SECONDS -lt $end ]] || return 1
		sleep 0.1
	done
}

# No address is looked for at others before it is used.  usage: netns_up NAMESPACE
netns_up() {
	ip netns add "$1"
	ip netns exec "$1" sysctl -qw net.ipv6.conf.default.accept_dad=0
	ip -n "$1" link set lo up
}

# usage: end_up NAMESPACE NETDEV MTU IPV4 IPV6
end_up() {
	ip -n "$1" link set "$2" mtu "$3" up
	ip -n "$1" addr add "$4/24" dev "$2"
	ip -n "$1" addr add "$5/64" dev "$2" nodad
}

# Has the network told everybody that a netdev is up?  usage: is_up NAMESPACE NETDEV
is_up() { [[ $(ip netns exec "$1" cat "/sys/class/net/$2/operstate") == up ]]; }

# Only the two namespaces and the cable.  usage: cable_up [MTU]
cable_up() {
	local mtu=${1:-4200}
	netns_up "$NS_A"
	netns_up "$NS_B"
	ip link add "$IF_A" netns "$NS_A" address 02:77:00:00:00:01 type veth \
		peer name "$IF_B" netns "$NS_B" address 02:77:00:00:00:02
	end_up "$NS_A" "$IF_A" "$mtu" "$IP4_A" "$IP6_A"
	end_up "$NS_B" "$IF_B" "$mtu" "$IP4_B" "$IP6_B"
	wait_for is_up "$NS_A" "$IF_A" && wait_for is_up "$NS_B" "$IF_B" || return
	# Fill the neighbour tables: what follows is to measure RDMA, not ARP.
	wait_for in_a ping -q -c 1 -W 1 "$IP4_B" > /dev/null &&
		wait_for in_a ping -q -c 1 -W 1 "$IP6_B" > /dev/null
}

# usage: link_add NAMESPACE DEVICE NETDEV
link_add() { within 60 ip netns exec "$1" rdma link add "$2" type "$LINK_TYPE" netdev "$3"; }

link_del() { within 60 rdma link delete "$1"; }

have_device() { [[ -e /sys/class/infiniband/$1 ]]; }
no_device() { ! have_device "$1"; }

# usage: gid_of_ip ADDRESS -- as the GID table shows it
gid_of_ip() {
	case $1 in
	*:*) echo "$1" ;;
	*) printf '0000:0000:0000:0000:0000:ffff:%02x%02x:%02x%02x\n' ${1//./ } ;;
	esac
}

# usage: gid_index DEVICE ADDRESS
gid_index() {
	local gid file
	gid=$(gid_of_ip "$2")
	for file in /sys/class/infiniband/"$1"/ports/1/gids/{0..15}; do
		[[ $(< "$file") == "$gid" ]] || continue
		echo "${file##*/}"
		return
	done
	return 1
}

have_gid() { gid_index "$@" > /dev/null; }

# usage: device_up NAMESPACE DEVICE NETDEV IPV4 IPV6
device_up() {
	link_add "$1" "$2" "$3" &&
		wait_for have_gid "$2" "$4" &&
		wait_for have_gid "$2" "$5"
}

# usage: device_up_4 NAMESPACE DEVICE NETDEV IPV4
device_up_4() {
	link_add "$1" "$2" "$3" && wait_for have_gid "$2" "$4"
}

# usage: fabric_up [MTU]
fabric_up() {
	fabric_down
	cable_up "$@" &&
		device_up "$NS_A" "$DEV_A" "$IF_A" "$IP4_A" "$IP6_A" &&
		device_up "$NS_B" "$DEV_B" "$IF_B" "$IP4_B" "$IP6_B"
}

# Remove what is there; never fails.
fabric_down() {
	local dev ns
	for dev in "$DEV_A" "$DEV_B"; do
		if have_device "$dev"; then link_del "$dev"; fi
	done
	for ns in "$NS_A" "$NS_B"; do
		if [[ -e /run/netns/$ns ]]; then ip netns del "$ns"; fi
	done
	return 0
}

# What the Python side needs to know, as NAME=VALUE lines.
fabric_describe() {
	local name
	for name in NS_A NS_B IF_A IF_B DEV_A DEV_B IP4_A IP4_B IP6_A IP6_B; do
		echo "$name=${!name}"
	done
}

# Is the RoCE port open in a namespace?  usage: roce_port_open NAMESPACE
roce_port_open() {
	ip netns exec "$1" grep -qhE "^ *[0-9]+: [0-9A-F]+:$ROCE_PORT_HEX " /proc/net/udp /proc/net/udp6
}
