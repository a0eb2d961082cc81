#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# vm: TMO=3600
#
# Devices and the module come and go, idle and under load: nothing hangs, nothing
# is left behind.

cd "$(dirname "$0")" || exit 1
. lib/net.sh
. lib/ktap.sh
. lib/perf.sh
. lib/busy.sh

cleanup() {
	fabric_down
	perf_done
	modprobe -q -r "$MODULE"
}
trap cleanup EXIT

RXE_WAITS="waits for the process that has the device open"

loaded() { [[ -d /sys/module/$MODULE ]]; }
refcount() { cat "/sys/module/$MODULE/refcnt"; }
unreferenced() { [[ $(refcount) -eq 0 ]]; }
nobody_refers() { wait_for unreferenced || { echo "reference count $(refcount)"; return 1; }; }
log_since() { dmesg | tail -n "+$(($1 + 1))"; }

# Nothing may be left in a name space once its devices are gone.
nothing_left() { wait_for nothing_there > /dev/null || nothing_there; }

nothing_there() {
	local ns
	for ns in "$NS_A" "$NS_B"; do
		[[ -e /run/netns/$ns ]] || continue
		if roce_port_open "$ns"; then
			echo "UDP port 4791 is still open in $ns"
			return 1
		fi
	done
	if rdma -j dev | grep -E "\"($DEV_A|$DEV_B)\""; then
		echo "a device is still there"
		return 1
	fi
}

unload() {
	within 60 modprobe -r "$MODULE" && ! loaded
}

# Run a removal while perftest runs.  It must return while the clients still hold
# the device open; a driver that waits for them is let go after a while.
remove_under_load() {
	local removal rc=0
	fabric_up && busy_start || return
	differs_on_rxe "$RXE_WAITS"
	"$@" &
	removal=$!
	if ! wait_for no_process $removal; then
		why "$* had not returned after $WAIT s with a client running"
		rc=1
	fi
	busy_stop
	wait_for no_process $removal || { why "$* never returned"; rc=1; }
	wait_for no_device "$DEV_A" || { why "$DEV_A is still there"; rc=1; }
	fabric_down
	nothing_left && return $rc
}

# The tests.

autoload() {
	cable_up
	unload
	link_add "$NS_A" "$DEV_A" "$IF_A" || return
	loaded || { echo "$MODULE is not loaded"; return 1; }
	roce_port_open "$NS_A" || { echo "UDP port 4791 is not open"; return 1; }
	fabric_down
	nothing_left
}

link_states() {
	fabric_up
	rdma -j link | grep -q "\"ifname\":\"$DEV_A\"" || return
	wait_for link_is "$DEV_A" ACTIVE || return
	in_a rdma link show "$DEV_A/1" | grep "netdev $IF_A" || return
	in_a ip link set "$IF_A" down
	wait_for link_is "$DEV_A" DOWN || return
	in_a ip link set "$IF_A" up
	wait_for link_is "$DEV_A" ACTIVE || return
	fabric_down
}

link_is() { rdma link show "$1/1" | grep -q "state $2"; }

second_on_netdev() {
	fabric_up
	! link_add "$NS_A" "${LINK_TYPE}9" "$IF_A" || return
	no_device "${LINK_TYPE}9" || return
	! link_add "$NS_B" "$DEV_A" "$IF_B" || return # the name is taken
	! link_add "$NS_A" "${LINK_TYPE}9" nosuchdev || return
	# The refused ones have not harmed the first.
	perf_run link 4 ib_write_bw -n 10 || return
	fabric_down
	nothing_left
}

refuse_beside_rxe() {
	local before
	[[ $LINK_TYPE == rrxe ]] || { why "only one of the two is being tested"; return 4; }
	unload
	modprobe rdma_rxe || return
	before=$(dmesg | wc -l)
	if modprobe "$MODULE" 2>/dev/null; then
		echo "loaded beside rdma_rxe"
		modprobe -r "$MODULE" rdma_rxe
		return 1
	fi
	modprobe -r rdma_rxe
	log_since "$before" | grep -i "$MODULE" | grep rdma_rxe || { echo "no message that names rdma_rxe"; log_since "$before"; return 1; }
	modprobe "$MODULE"
}

many_devices() {
	local i
	cable_up
	for i in {2..9}; do
		netns_up "rdma-$i"
		ip -n "rdma-$i" link add dummy0 type dummy
		ip -n "rdma-$i" link set dummy0 up
		ip -n "rdma-$i" addr add "10.78.$i.1/24" dev dummy0
		link_add "rdma-$i" "$LINK_TYPE$i" dummy0 || return
		wait_for have_gid "$LINK_TYPE$i" "10.78.$i.1" || return
		roce_port_open "rdma-$i" || return
	done
	within 60 ibv_devinfo > /dev/null || return
	[[ $(rdma dev | wc -l) -ge 8 ]] || return
	for i in {2..5}; do link_del "$LINK_TYPE$i"; done
	for i in {2..9}; do ip netns del "rdma-$i"; done
	for i in {2..9}; do wait_for no_device "$LINK_TYPE$i" || { echo "$LINK_TYPE$i is left"; return 1; }; done
	fabric_down
	nobody_refers
}

# Two devices in one name space: the port closes with the last.
shared_port() {
	netns_up "$NS_A"
	ip -n "$NS_A" link add dummy1 type dummy
	ip -n "$NS_A" link add dummy2 type dummy
	link_add "$NS_A" "$DEV_A" dummy1 && link_add "$NS_A" "$DEV_B" dummy2 || return
	roce_port_open "$NS_A" || return
	link_del "$DEV_A"
	roce_port_open "$NS_A" || { echo "closed too early"; return 1; }
	link_del "$DEV_B"
	! roce_port_open "$NS_A" || { echo "still open"; return 1; }
	ip netns del "$NS_A"
}

unload_with_devices() {
	fabric_up
	unload && nothing_left || return
	fabric_down
}

# Refused at once, or done: both are right, but nothing in between.
unload_in_use() {
	local unloader
	fabric_up && busy_start || return
	rmmod "$MODULE" &
	unloader=$!
	if ! wait_for no_process $unloader; then
		why "rmmod has not returned after $WAIT s"
		busy_stop
		return 1
	fi
	if wait $unloader; then
		no_device "$DEV_A" && ! loaded || { why "unloaded, but not gone"; return 1; }
		busy_stop
	else
		wait_for busy_moves || { why "refused, but the traffic has stopped"; return 1; }
		busy_stop
		nobody_refers && unload || return
	fi
	nothing_left || return
	fabric_down
}

netdev_gone_idle() {
	fabric_up
	ip -n "$NS_A" link del "$IF_A"
	wait_for no_device "$DEV_A" && wait_for no_device "$DEV_B" && nothing_left || return
	fabric_down
}

netns_gone_idle() {
	fabric_up
	ip netns del "$NS_A"
	ip netns del "$NS_B"
	wait_for no_device "$DEV_A" && wait_for no_device "$DEV_B" || return
	nothing_left && nobody_refers
}

client_killed() {
	fabric_up && busy_start || return
	busy_stop
	wait_for no_objects || { rdma resource show; return 1; }
	perf_run link 4 ib_write_bw -n 10 || return
	fabric_down
}

# Only what the kernel itself keeps for each device is left.
no_objects() { [[ -z $(rdma resource show qp | grep "comm ib_write_bw") ]]; }

# What the kernel has for itself, in KiB.
kernel_memory() {
	sync
	echo 3 > /proc/sys/vm/drop_caches
	sleep 1
	awk '/^(SUnreclaim|VmallocUsed|Percpu):/ { sum += $2 } END { print sum }' /proc/meminfo
}

# The same when everything that is freed late has been freed: when it gets no less any more.
settled_memory() {
	local last now
	now=$(kernel_memory)
	while :; do
		last=$now
		now=$(kernel_memory)
		((now < last - 64)) || break
	done
	echo "$now"
}

# usage: memory_is_back MOST
memory_is_back() { (($(kernel_memory) < $1)); }

# KiB, noise of other users of memory.
BOUND=2048

# No more than BOUND more than before, when everything freed late has been freed.  usage: given_back BEFORE WHAT
given_back() {
	wait_for memory_is_back $(($1 + BOUND)) || { why "$(($(kernel_memory) - $1)) KiB more than before $2"; return 1; }
	note "memory before $1 KiB, after $(kernel_memory) KiB"
}

# usage: one_cycle [PERFTEST...]
one_cycle() {
	modprobe "$MODULE" && fabric_up || return
	[[ $# -eq 0 ]] || perf_run link "$@" -n 20 -s 16384 || return
	fabric_down
	nothing_left || return
	nobody_refers && unload
}

load_cycles() {
	local i before writing=(4 ib_write_bw) reading=(6 ib_read_bw)
	unload
	# The first rounds fill caches.
	one_cycle "${writing[@]}" && one_cycle "${reading[@]}" || return
	before=$(settled_memory)
	for i in {1..20}; do
		case $i in
		5 | 15) one_cycle "${writing[@]}" ;;
		10 | 20) one_cycle "${reading[@]}" ;;
		*) one_cycle ;;
		esac || { echo "cycle $i"; return 1; }
	done
	given_back "$before" "20 cycles"
}

# The same for what a process can allocate.
object_cycles() {
	local i before
	fabric_up
	for i in 1 2; do within 600 ./lib/churn.py "$DEV_A" "$IP4_A" 20 || return; done
	before=$(settled_memory)
	within 600 ./lib/churn.py "$DEV_A" "$IP4_A" 60 || return
	given_back "$before" "60 rounds" || return
	fabric_down
}

ktap_add "rdma link add loads the module" autoload
ktap_add "port state follows the link" link_states
ktap_add "a second device on a netdev is refused" second_on_netdev
ktap_add "loading beside rdma_rxe is refused" refuse_beside_rxe
ktap_add "many devices in many name spaces" many_devices
ktap_add "two devices in one name space share the port" shared_port
ktap_add "unload with devices present" unload_with_devices
ktap_add "unload while in use" unload_in_use
ktap_add "netdev removed, idle" netdev_gone_idle
ktap_add "name space removed, idle" netns_gone_idle
ktap_add "client killed" client_killed
ktap_add "link deleted under load" remove_under_load rdma link delete "$DEV_A"
ktap_add "netdev removed under load" remove_under_load ip -n "$NS_A" link del "$IF_A"
ktap_add "name space removed under load" remove_under_load ip netns del "$NS_A"
ktap_add "objects of a process leave no memory behind" object_cycles
ktap_add "20 times load, use, unload" load_cycles
ktap_run lifecycle "$@"
