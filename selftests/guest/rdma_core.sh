#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# vm: TMO=1800
#
# The test-suite of rdma-core, on one device: each result must be the one that is
# listed in rdma_core.expected.

cd "$(dirname "$0")" || exit 1
. lib/net.sh

trap fabric_down EXIT
fabric_up || { echo "Bail out! the network does not come up"; exit 1; }
sysctl -qw vm.nr_hugepages=64
in_a lib/rdma_core.py "$DEV_A" rdma_core.expected "$@"
