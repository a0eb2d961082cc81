# shellcheck shell=bash
# SPDX-License-Identifier: GPL-2.0
#
# Run the stock clients (perftest, ibverbs-utils) as pairs of server and client.
#
#	perf_run PATH FAMILY TOOL [OPTION]...
#
# PATH is `link` (client on device A, server on device B) or `loop` (both on A);
# FAMILY (4 or 6) selects the GIDs.  The clients exchange their parameters over TCP
# and IPv4 in any case.  Needs net.sh.  Afterwards $PERF_CLIENT and $PERF_SERVER
# are the logs, and perf_figures prints what was measured.

PERF_DIR=$(mktemp -d)
PERF_CLIENT=$PERF_DIR/client PERF_SERVER=$PERF_DIR/server
# 1.1 s, 4.096 us * 2^18, and with the retries half a minute: a peer may stop for a while, and is not given up.
PERF_ACK_TIMEOUT=$(awk -v patience="$PATIENCE" 'BEGIN { print 18 + int(log(patience) / log(2)) }')
PERF_LIMIT=$((${PERF_LIMIT:-180} * PATIENCE))
PERF_PORT=$((20000 + BASHPID % 10000))

perf_done() { rm -rf "$PERF_DIR"; }

# Does a process (its namespace, that is) listen on a TCP port, or is it gone?
perf_listens_or_died() {
	local hex
	hex=$(printf '%04X' "$2")
	kill -0 "$1" 2>/dev/null || return 0
	grep -qhE "^ *[0-9]+: [0-9A-F]+:$hex [0-9A-F:]+ 0A" "/proc/$1/net/tcp" "/proc/$1/net/tcp6" 2>/dev/null
}

# The options by which a tool is told device, GID and port.
perf_common() {
	local tool=$1 device=$2 gid=$3
	case $tool in
	ibv_*) echo "-d $device -g $gid -p $PERF_PORT" ;;
	*) echo "-d $device -x $gid -p $PERF_PORT -F -u $PERF_ACK_TIMEOUT" ;;
	esac
}

# Start the server of a pair; PERF_PID is its process, PERF_ADDRESS where it listens.
perf_serve() {
	local path=$1 family=$2 tool=$3 ns=$NS_B device=$DEV_B address=IP${2}_B
	shift 3
	PERF_ADDRESS=$IP4_B
	if [[ $path == loop ]]; then ns=$NS_A device=$DEV_A address=IP${family}_A PERF_ADDRESS=$IP4_A; fi
	PERF_PORT=$((PERF_PORT + 1))
	# shellcheck disable=SC2046
	ip netns exec "$ns" timeout -k 5 "$PERF_LIMIT" "$tool" \
		$(perf_common "$tool" "$device" "$(gid_index "$device" "${!address}")") "$@" \
		> "$PERF_SERVER" 2>&1 < /dev/null &
	PERF_PID=$!
	wait_for perf_listens_or_died "$PERF_PID" "$PERF_PORT"
}

# Run the client of the pair that perf_serve began.
perf_client() {
	local family=$2 tool=$3 address=IP${2}_A
	shift 3
	# shellcheck disable=SC2046
	in_a timeout -k 5 "$PERF_LIMIT" "$tool" \
		$(perf_common "$tool" "$DEV_A" "$(gid_index "$DEV_A" "${!address}")") "$@" "$PERF_ADDRESS" \
		> "$PERF_CLIENT" 2>&1 < /dev/null
}

perf_run() {
	local client=0 server=0
	perf_serve "$@" || { cat "$PERF_SERVER"; return 1; }
	perf_client "$@" || client=$?
	[[ $client -eq 0 ]] || kill "$PERF_PID" 2>/dev/null
	wait "$PERF_PID" || server=$?
	[[ $client -eq 0 && $server -eq 0 ]] && return
	echo "$*: client $client, server $server"
	echo "== client"; tail -n 15 "$PERF_CLIENT"
	echo "== server"; tail -n 15 "$PERF_SERVER"
	return 1
}

# What the client measured: SIZE ITERATIONS VALUE UNIT
perf_figures() {
	awk '
		/^[0-9]+ bytes in .* Mbit\/sec/ { bytes = $1 }
		/^[0-9]+ iters in .* usec\/iter/ { print bytes / $1 / 2, $1, $(NF - 1), "usec/iter"; exit }
		/#bytes/ { header = $0 }
		header && $1 ~ /^[0-9]+$/ {
			if (header ~ /BW/) print $1, $2, $4, "MiB/s"
			else print $1, $2, $6, "usec"
			exit
		}' "$PERF_CLIENT"
}
