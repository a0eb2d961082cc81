#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# vm: TMO=900
#
# Drop-in mode: what is said to rdma_rxe and to the link type rxe reaches the module.

cd "$(dirname "$0")" || exit 1
. lib/net.sh
. lib/ktap.sh
. lib/perf.sh
. lib/drop_in.sh

cleanup() {
	fabric_down
	perf_done
	modprobe -q -r rrxe rdma_rxe
	no_drop_in
}
trap cleanup EXIT

loaded() { [[ -d /sys/module/$1 ]]; }
log_since() { dmesg | tail -n "+$(($1 + 1))"; }
unloaded() { modprobe -r "$1" 2>/dev/null && ! loaded "$1"; }
refused() { ! "$@" || { echo "succeeded: $*"; return 1; }; }

# usage: fresh drop_in|no_drop_in
fresh() {
	fabric_down
	wait_for unloaded rrxe && wait_for unloaded rdma_rxe || return
	"$1"
}

# Whose device is it?  usage: made_by DEVICE DRIVER
made_by() { [[ $(< "/sys/class/infiniband/$1/node_desc") == "$2" ]] || { cat "/sys/class/infiniband/$1/node_desc"; return 1; }; }

# usage: link_add_as TYPE NAMESPACE DEVICE NETDEV
link_add_as() { LINK_TYPE=$1 link_add "${@:2}"; }

# The tests.

by_name() {
	fresh drop_in || return
	modprobe rdma_rxe || return
	loaded rrxe && ! loaded rdma_rxe || return
	modprobe -r rdma_rxe || return
	! loaded rrxe
}

loads() {
	fresh drop_in || return
	cable_up
	link_add_as rxe "$NS_A" rxe0 "$IF_A" || return
	loaded rrxe && ! loaded rdma_rxe || return
	made_by rxe0 rrxe || return
	link_del rxe0
}

# The types differ in their name only.
both_types() {
	local DEV_A=rxe0 DEV_B=rrxe0
	fresh drop_in || return
	cable_up
	link_add_as rxe "$NS_A" rxe0 "$IF_A" && link_add_as rrxe "$NS_B" rrxe0 "$IF_B" || return
	made_by rxe0 rrxe && made_by rrxe0 rrxe || return
	refused link_add_as rrxe "$NS_A" rrxe1 "$IF_A" || return
	wait_for have_gid rxe0 "$IP4_A" && wait_for have_gid rrxe0 "$IP4_B" || return
	perf_run link 4 ib_write_bw -n 10 || return
	fabric_down
	! have_device rxe0 && ! have_device rrxe0
}

unload_with_devices() {
	fresh drop_in || return
	cable_up
	link_add_as rxe "$NS_A" rxe0 "$IF_A" || return
	within 60 modprobe -r rdma_rxe || return
	! have_device rxe0 && ! loaded rrxe || return
	link_add_as rxe "$NS_A" rxe0 "$IF_A" || { echo "not a second time"; return 1; }
	made_by rxe0 rrxe
}

# Without the parameter the type is left to rdma_rxe, which is kept out.
off_by_default() {
	local before
	fresh no_drop_in || return
	cable_up
	modprobe rrxe || return
	before=$(dmesg | wc -l)
	refused link_add_as rxe "$NS_A" rxe0 "$IF_A" || return
	log_since "$before" | grep 'rdma_rxe must not be loaded beside' || { log_since "$before"; return 1; }
	link_add_as rrxe "$NS_A" rrxe0 "$IF_A"
}

# With rdma_rxe there, which has the type, the module is not, and says why.
rival_was_first() {
	local before
	fresh no_drop_in || return
	cable_up
	link_add_as rxe "$NS_A" rxe0 "$IF_A" || return
	loaded rdma_rxe || return
	before=$(dmesg | wc -l)
	refused modprobe rrxe rxe_link_type=1 || return
	log_since "$before" | grep 'rrxe: rdma_rxe is loaded; unload it first' || { log_since "$before"; return 1; }
	link_del rxe0 && wait_for unloaded rdma_rxe && modprobe rrxe rxe_link_type=1 || return
	link_add_as rxe "$NS_A" rxe0 "$IF_A" && made_by rxe0 rrxe
}

bad_value() {
	local before value
	fresh no_drop_in || return
	before=$(dmesg | wc -l)
	for value in 2 255 256 -1 yes; do
		refused modprobe rrxe "rxe_link_type=$value" || return
	done
	log_since "$before" | grep 'rrxe: rxe_link_type is 0 or 1' || { log_since "$before"; return 1; }
	modprobe rrxe rxe_link_type=0
}

ktap_add "modprobe rdma_rxe loads the module" by_name
ktap_add "rdma link add type rxe loads the module" loads
ktap_add "both types make devices, which talk to each other" both_types
ktap_add "unload with devices present, and again" unload_with_devices
ktap_add "off by default" off_by_default
ktap_add "refused, with the reason, while rdma_rxe is loaded" rival_was_first
ktap_add "a bad value of the parameter is refused" bad_value
ktap_run drop_in "$@"
