#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# vm: TMO=1800 MEM=3072
#
# NVMe over RDMA, target and host, as users inside the kernel: data, fast registration
# and remote invalidation, shared receive queues, and every way in which it ends.
#
# Both ends want the initial name space, so that they meet on one device.

cd "$(dirname "$0")" || exit 1
. lib/net.sh
. lib/ktap.sh

NQN=nqn.2026-01.org.example:rrxe
DEV=$DEV_A NETDEV=nvme-a ADDRESS=10.78.0.1
CONFIG=/sys/kernel/config/nvmet
BACKING=/dev/ram0
MIB=32

device_of_ours_up() {
	ip link add "$NETDEV" type veth peer name nvme-b
	ip link set nvme-b up
	ip link set "$NETDEV" mtu 4200 up
	ip addr add "$ADDRESS/24" dev "$NETDEV"
	rdma_up
}

rdma_up() {
	within 60 rdma link add "$DEV" type "$LINK_TYPE" netdev "$NETDEV" && wait_for have_gid "$DEV" "$ADDRESS"
}

target_up() {
	mkdir -p "$CONFIG/subsystems/$NQN/namespaces/1" "$CONFIG/ports/1" &&
		echo 1 > "$CONFIG/subsystems/$NQN/attr_allow_any_host" &&
		echo -n "$BACKING" > "$CONFIG/subsystems/$NQN/namespaces/1/device_path" &&
		echo 1 > "$CONFIG/subsystems/$NQN/namespaces/1/enable" &&
		echo rdma > "$CONFIG/ports/1/addr_trtype" &&
		echo ipv4 > "$CONFIG/ports/1/addr_adrfam" &&
		echo "$ADDRESS" > "$CONFIG/ports/1/addr_traddr" &&
		echo 4420 > "$CONFIG/ports/1/addr_trsvcid" &&
		target_offer
}

target_offer() { ln -s "$CONFIG/subsystems/$NQN" "$CONFIG/ports/1/subsystems/$NQN"; }
target_withdraw() { rm "$CONFIG/ports/1/subsystems/$NQN"; }

target_down() {
	[[ -d $CONFIG/ports/1 ]] || return 0
	rm -f "$CONFIG/ports/1/subsystems/$NQN"
	rmdir "$CONFIG/ports/1" "$CONFIG/subsystems/$NQN/namespaces/1" "$CONFIG/subsystems/$NQN"
}

controller() { compgen -G '/sys/class/nvme/nvme[0-9]*' | head -n 1; }
disk() { compgen -G '/dev/nvme[0-9]*n1' | head -n 1; }
have_disk() { [[ -b $(disk) ]]; }
no_controller() { [[ -z $(controller) ]]; }
is_live() { [[ $(cat "$(controller)/state" 2>/dev/null) == live ]]; }
is_not_live() { ! is_live; }

# Neither end gives the other up because it is slow.  usage: connect [OPTION=VALUE]...
connect() {
	local patience="keep_alive_tmo=$((60 * PATIENCE)),ctrl_loss_tmo=$((600 * PATIENCE))" option
	local options="transport=rdma,traddr=$ADDRESS,trsvcid=4420,nqn=$NQN,reconnect_delay=1,$patience"
	for option; do options+=",$option"; done
	echo "$options" > /dev/nvme-fabrics && wait_for have_disk && wait_for is_live
}

disconnect() {
	local path
	path=$(controller)
	[[ -z $path ]] || within 120 bash -c "echo 1 > '$path/delete_controller'" || return
	wait_for no_controller
}

# usage: write_and_verify BLOCK -- up to 500 requests of that size, and all of them back
write_and_verify() {
	local disk count=$((MIB * 1048576 / $1)) pattern=$KTAP_DIR/pattern
	[[ $count -le 500 ]] || count=500
	disk=$(disk)
	dd if=/dev/urandom of="$pattern" bs="$1" count="$count" status=none
	dd if="$pattern" of="$disk" bs="$1" count="$count" oflag=direct status=none || return
	dd if="$BACKING" of="$KTAP_DIR/there" bs="$1" count="$count" iflag=direct status=none || return
	cmp "$pattern" "$KTAP_DIR/there" || { echo "the target has other data"; return 1; }
	dd if="$disk" of="$KTAP_DIR/read" bs="$1" count="$count" iflag=direct status=none || return
	cmp "$pattern" "$KTAP_DIR/read" || { echo "other data was read"; return 1; }
}

# Requests without end, several at a time, until there is the file $NO_MORE.
load_start() {
	local i
	LOAD=() NO_MORE=$KTAP_DIR/no-more
	for i in 1 2 3; do
		keep_busy $((i * 64)) 5<> "$(disk)" &
		LOAD+=($!)
	done
	wait_for load_moves
}

# By descriptor 5, as under its name there would be a file when the disk has gone.
keep_busy() {
	while [[ ! -e $NO_MORE ]] && dd if=/dev/zero of=/dev/fd/5 bs=64k count=64 seek="$1" oflag=direct status=none &&
		dd if=/dev/fd/5 of=/dev/null bs=16k count=64 iflag=direct status=none; do :; done 2>/dev/null
}

# How many reads and writes have been done.
requests() { awk '{ print $1 + $5 }' "/sys/class/block/${1##*/}/stat"; }

load_moves() {
	local before
	before=$(requests "$(disk)")
	sleep 0.3
	[[ $(requests "$(disk)") -gt $((before + 5)) ]]
}

# And no request is on its way any more.
load_stop() {
	: > "$NO_MORE"
	wait "${LOAD[@]}" 2>/dev/null
	return 0
}

# No test leaves a controller to the next.
then_disconnected() {
	local status=0
	"$@" || status=$?
	disconnect || { echo "the controller does not go"; return 1; }
	return "$status"
}

data() {
	connect nr_io_queues=2 queue_size=32 || return
	write_and_verify "$1"
}

many_queues() {
	connect nr_io_queues=4 queue_size=128 || return
	write_and_verify 262144
}

disconnect_under_load() {
	connect && load_start || return
	disconnect || { echo "the controller does not go"; load_stop; return 1; }
	load_stop
}

# The host reconnects when the target is back, and nothing is lost.
target_returns() {
	connect && load_start || return
	target_withdraw
	wait_for is_not_live || { echo "the host does not notice"; target_offer; load_stop; return 1; }
	sleep 2
	target_offer
	wait_for is_live || { echo "the host does not come back"; load_stop; return 1; }
	load_stop
	write_and_verify 65536
}

device_deleted() {
	connect && load_start || return
	within 60 rdma link delete "$DEV" || { echo "the device does not go"; return 1; }
	load_stop
	target_down
	wait_for no_controller || return
	rdma_up && target_up
}

shared_receive_queue() {
	target_down
	wait_for modprobe -r nvmet-rdma && modprobe nvmet-rdma use_srq=1 && target_up || return
	data 65536 || return
	rdma resource show srq link "$DEV" 2>/dev/null | grep -q . || rdma resource show srq | grep "$DEV"
}

cleanup() {
	disconnect
	target_down
	ip link del "$NETDEV" 2>/dev/null
}
trap cleanup EXIT

for block in 4096 65536 1048576; do
	ktap_add "data in requests of $block bytes" then_disconnected data $block
done
ktap_add "four queues of 128 requests" then_disconnected many_queues
ktap_add "disconnect under load" then_disconnected disconnect_under_load
ktap_add "target goes and returns under load" then_disconnected target_returns
ktap_add "device deleted under load" then_disconnected device_deleted
ktap_add "data, by a shared receive queue" then_disconnected shared_receive_queue

modprobe -a configfs nvmet-rdma nvme-rdma && modprobe brd rd_nr=1 rd_size=$((MIB * 1024)) || exit 1
mountpoint -q /sys/kernel/config 2>/dev/null || mount -t configfs none /sys/kernel/config 2>/dev/null
device_of_ours_up && target_up || { echo "Bail out! no target"; exit 1; }
ktap_run nvme "$@"
