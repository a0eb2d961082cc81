# shellcheck shell=bash
# SPDX-License-Identifier: GPL-2.0
#
# The module in the place of rdma_rxe, set up by the file that administrators are given.

DROP_IN_CONF=/etc/modprobe.d/rrxe-drop-in.conf

# From the next loading of the module on.
drop_in() {
	mkdir -p "${DROP_IN_CONF%/*}"
	cp ../modprobe.d/rrxe-drop-in.conf "$DROP_IN_CONF"
}

no_drop_in() { rm -f "$DROP_IN_CONF"; }
