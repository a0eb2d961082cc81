#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# vm: TMO=1800 MEM=3072
#
# The connection manager and what goes by it: the stock clients of librdmacm and
# perftest, between two devices and on one, IPv4 and IPv6; many connections at once;
# ends that disappear.

cd "$(dirname "$0")" || exit 1
PERF_LIMIT=${PERF_LIMIT:-180}
. lib/net.sh
. lib/ktap.sh
. lib/perf.sh

trap 'fabric_down; perf_done' EXIT

PORT=7471
GROUP=239.1.2.3
# What shows that a server can be talked to.
READY=listens

# usage: ends PATH FAMILY -- says where the server is: $NS_S, $DEV_S, $IP_S; and $IP_C, the client's
ends() {
	local server=B address
	[[ $1 != loop ]] || server=A
	address=IP${2}_$server NS_S=NS_$server DEV_S=DEV_$server
	NS_S=${!NS_S} DEV_S=${!DEV_S} IP_S=${!address}
	address=IP${2}_A
	IP_C=${!address}
	PORT=$((PORT + 1))
}

# How many objects of the connection manager are in that state on a device?  Who listens at any
# address has one without a port on each.
cm_ids() { rdma resource show cm_id link "$1" state "$2" 2>/dev/null | grep -c "$2"; }

listens() { [[ $(cm_ids "$DEV_S" LISTEN) -gt 0 ]]; }
# Does the server talk to those who are to be its clients, over TCP?
controls() { ip netns exec "$NS_S" ss -Hltn | grep -q .; }
# Is the server a member of the multicast group?
has_joined() { ip -n "$NS_S" maddr show | grep -qw "$GROUP"; }
ready_or_died() { ! kill -0 "$SERVER" 2>/dev/null || "$READY"; }

# Start the server of a pair, and wait until it is ready; its process is $SERVER.
serve() {
	ip netns exec "$NS_S" timeout -k 5 "$PERF_LIMIT" "$@" > "$PERF_SERVER" 2>&1 < /dev/null &
	SERVER=$!
	wait_for ready_or_died && kill -0 "$SERVER"
}

client() { in_a timeout -k 5 "$PERF_LIMIT" "$@" > "$PERF_CLIENT" 2>&1 < /dev/null; }

# usage: finish STATUS-OF-THE-CLIENT -- the server must end by itself, and well
finish() {
	local status=$1 server=0
	[[ $status -eq 0 ]] || kill "$SERVER" 2>/dev/null
	wait "$SERVER" || server=$?
	[[ $status -eq 0 && $server -eq 0 ]] && return
	echo "client $status, server $server"
	echo "== client"; tail -n 15 "$PERF_CLIENT"
	echo "== server"; tail -n 15 "$PERF_SERVER"
	return 1
}

# No program may leave an object of the kernel's behind.
nothing_left() {
	local now
	now=$(rdma resource | grep -E "$DEV_A|$DEV_B")
	[[ $now == "$BEFORE" ]] || { echo "$now"; return 1; }
}

# usage: leaves_nothing COMMAND... -- of the objects that it makes
leaves_nothing() {
	local BEFORE
	BEFORE=$(rdma resource | grep -E "$DEV_A|$DEV_B")
	# Whatever happens, no server may be in the way of the next test.
	trap 'kill $SERVER 2>/dev/null' EXIT
	"$@" || return
	wait_for nothing_left > /dev/null || { echo "left, of" "$BEFORE" ":"; nothing_left; }
}

# usage: pair PATH FAMILY SERVER-COMMAND -- CLIENT-COMMAND
# In the commands SERVER stands for its address, CLIENT for the client's and PORT for the port.
pair() {
	local server=() word status=0
	ends "$1" "$2"
	shift 2
	set -- "${@/#SERVER/$IP_S}"
	set -- "${@/#CLIENT/$IP_C}"
	set -- "${@/#PORT/$PORT}"
	for word; do
		shift
		[[ $word != -- ]] || break
		server+=("$word")
	done
	serve "${server[@]}" || { cat "$PERF_SERVER"; return 1; }
	client "$@" || status=$?
	finish "$status"
}

# usage: add PATH FAMILY SERVER-COMMAND -- CLIENT-COMMAND
add() { ktap_add "$(sed 's/.* -- //; s/ -[spab] [A-Z]*//g' <<< "$*") ($1, IPv$2)" leaves_nothing pair "$@"; }

# Who receives is no server that listens.
multicast() {
	READY=has_joined
	pair link 4 mckey -m "$GROUP" -b SERVER -C 5 -- mckey -m "$GROUP" -b CLIENT -C 5 -s
}

queue_pair_1() {
	rdma resource show qp link "$1/1" | grep -E 'lqpn 1 .*type GSI .*state RTS' && return
	rdma resource show qp
	return 1
}

both_have_queue_pair_1() { queue_pair_1 "$DEV_A" && queue_pair_1 "$DEV_B"; }

# A file arrives as it was.
copies_a_file() {
	ends "$1" "$2"
	dd if=/dev/urandom of="$PERF_DIR/file" bs=64k count=100 status=none
	serve rcopy -p "$PORT" || return
	client rcopy "$PERF_DIR/file" "$IP_S:$PERF_DIR/copy" -p "$PORT" || { cat "$PERF_CLIENT" "$PERF_SERVER"; return 1; }
	kill "$SERVER"
	wait "$SERVER"
	cmp "$PERF_DIR/file" "$PERF_DIR/copy"
}

perftest_by_cm() {
	local status=0 path=$1 family=$2
	shift 2
	ends "$path" "$family"
	[[ $family == 4 ]] || set -- "$@" --ipv6 --ipv6-addr
	serve "$@" -R -F -p "$PORT" -x "$(gid_index "$DEV_S" "$IP_S")" -d "$DEV_S" || { cat "$PERF_SERVER"; return 1; }
	client "$@" -R -F -p "$PORT" -x "$(gid_index "$DEV_A" "$IP_C")" -d "$DEV_A" "$IP_S" || status=$?
	finish "$status"
}

# A server for one client after the other, and several clients at once.
persistent() {
	local i clients=() failed=0
	ends link 4
	serve rping -s -P -a "$IP_S" -p "$PORT" -V -S 2000 || return
	for i in {1..8}; do
		in_a timeout -k 5 "$PERF_LIMIT" rping -c -a "$IP_S" -p "$PORT" -C 50 -V -S 2000 > "$PERF_DIR/client.$i" 2>&1 < /dev/null &
		clients+=($!)
	done
	for i in "${!clients[@]}"; do
		wait "${clients[i]}" || { failed=1; cat "$PERF_DIR/client.$((i + 1))"; }
	done
	kill "$SERVER"
	wait "$SERVER"
	return "$failed"
}

# The connection manager refuses what nobody listens for, at once.
refused() {
	local began=$SECONDS
	ends link 4
	if client rping -c -a "$IP_S" -p "$PORT" -C 1; then echo "connected"; return 1; fi
	grep -q REJECTED "$PERF_CLIENT" || { cat "$PERF_CLIENT"; return 1; }
	[[ $((SECONDS - began)) -le $((WAIT * PATIENCE)) ]]
}

established() { [[ $(cm_ids "$DEV_S" CONNECT) -ge $1 ]]; }
none_established() { [[ $(cm_ids "$DEV_S" CONNECT) -eq 0 ]]; }

# usage: rping_of END -- its process
rping_of() {
	local line
	for line in /proc/[0-9]*/cmdline; do
		[[ $(tr '\0' ' ' < "$line") != "rping $1 "* ]] || echo "${line//[^0-9]/}"
	done 2>/dev/null
}

no_rping() { [[ -z $(rping_of -s)$(rping_of -c) ]]; }

# usage: killed END -- one end of a connection that is busy is killed: the other learns of it
killed() {
	local rping
	ends link 4
	serve rping -s -a "$IP_S" -p "$PORT" -C 0 -S 4000 || return
	client rping -c -a "$IP_S" -p "$PORT" -C 0 -S 4000 &
	rping=$!
	wait_for established 1 || { cat "$PERF_SERVER" "$PERF_CLIENT"; return 1; }
	sleep 1
	kill -KILL "$(rping_of "$1")" || return
	# The other one ends by itself.
	wait_for none_established || return
	wait "$rping" "$SERVER" 2>/dev/null
	no_rping
}

# A device goes away under connections that are busy, and the programs learn of it.
deleted() {
	local rping
	ends link 4
	serve rping -s -P -a "$IP_S" -p "$PORT" -S 4000 || return
	client rping -c -a "$IP_S" -p "$PORT" -C 0 -S 4000 &
	rping=$!
	wait_for established 1 || { cat "$PERF_SERVER" "$PERF_CLIENT"; return 1; }
	sleep 1
	link_del "$DEV_S" || { echo "deletion took too long"; return 1; }
	kill "$(rping_of -c)" "$SERVER" 2>/dev/null
	wait "$rping" "$SERVER" 2>/dev/null
	wait_for no_rping || { echo "a program does not end"; return 1; }
	device_up "$NS_B" "$DEV_B" "$IF_B" "$IP4_B" "$IP6_B"
}

many() {
	local milliseconds=$((120000 * PATIENCE)) READY=controls
	PERF_LIMIT=$((600 * PATIENCE)) pair link 4 \
		cmtime -L -b SERVER -C SERVER -c "$1" -t $milliseconds -- cmtime -b CLIENT -C SERVER -c "$1" -t $milliseconds || return
	note "$(grep -E 'full connect|connect *:|disconnect' "$PERF_CLIENT" | head -n 6)"
}

ktap_add "queue pair 1" both_have_queue_pair_1
for path in link loop; do
	for family in 4 6; do
		add $path $family rping -s -a SERVER -p PORT -C 100 -V -S 4000 -- rping -c -a SERVER -p PORT -C 100 -V -S 4000
		add $path $family ucmatose -b SERVER -p PORT -c 10 -C 10 -S 2000 -- ucmatose -s SERVER -p PORT -c 10 -C 10 -S 2000
	done
	add $path 4 udaddy -b SERVER -c 4 -C 10 -S 512 -- udaddy -s SERVER -c 4 -C 10 -S 512
	add $path 4 rstream -b SERVER -p PORT -T v -S 4096 -I 20 -C 5 -- rstream -s SERVER -p PORT -T v -S 4096 -I 20 -C 5
done
add link 6 udaddy -b SERVER -c 4 -C 10 -S 512 -- udaddy -s SERVER -c 4 -C 10 -S 512
add link 4 rping -s -a SERVER -p PORT -C 500 -V -- rping -c -a SERVER -p PORT -C 500 -V
add link 4 rping -s -a SERVER -p PORT -C 20 -q -V -- rping -c -a SERVER -p PORT -C 20 -q -V
add link 6 rstream -b SERVER -p PORT -T v -S 65536 -I 10 -C 2 -- rstream -s SERVER -p PORT -T v -S 65536 -I 10 -C 2
add link 4 riostream -b SERVER -p PORT -T v -S 4096 -I 20 -C 5 -- riostream -s SERVER -p PORT -T v -S 4096 -I 20 -C 5
add link 4 rdma_server -s SERVER -p PORT -- rdma_client -s SERVER -p PORT
ktap_add "mckey (link, IPv4)" leaves_nothing multicast
ktap_add "rcopy (link, IPv4)" leaves_nothing copies_a_file link 4
for tool in "ib_send_bw -s 8192 -n 50" "ib_write_bw -s 65536 -n 20" "ib_read_lat -s 64 -n 50" "ib_send_lat -c UD -s 512 -n 50"; do
	# shellcheck disable=SC2086
	ktap_add "$tool -R (link, IPv4)" leaves_nothing perftest_by_cm link 4 $tool
done
ktap_add "ib_send_bw -R (link, IPv6)" leaves_nothing perftest_by_cm link 6 ib_send_bw -s 8192 -n 50
ktap_add "several clients of one server" leaves_nothing persistent
ktap_add "nobody listens" leaves_nothing refused
ktap_add "client killed under load" leaves_nothing killed -c
ktap_add "server killed under load" leaves_nothing killed -s
ktap_add "device deleted under load" deleted
ktap_add "100 connections at once" leaves_nothing many 100
ktap_add "500 connections at once" leaves_nothing many 500

fabric_up 4200 || { echo "Bail out! the network does not come up"; exit 1; }
modprobe rdma_ucm
ktap_run rdma_cm "$@"
