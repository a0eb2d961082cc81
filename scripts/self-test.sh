#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# Test the counting of results: a runner that miscounts would hide failures.

. "$(dirname "$0")/common.sh"

failures=0

# usage: expect COUNTS NAME; the KTAP is on standard input
expect() {
	local got
	got=$("$RRXE_TREE/scripts/ktap-count" 2>/dev/null)
	[[ $got == "$1" ]] && return
	echo "$2: counted '$got', should be '$1'"
	failures=$((failures + 1))
}

expect "2 0 1" "ordinary" <<< $'TAP version 13\n1..3\nok 1 - a\nok 2 - b # SKIP no device\nok 3 - c'
expect "1 1 0" "failure" <<< $'TAP version 13\n1..2\nok 1 - a\nnot ok 2 - b'
expect "1 1 0" "too few results" <<< $'TAP version 13\n1..2\nok 1 - a'
expect "1 1 0" "no plan" <<< $'TAP version 13\nok 1 - a'
expect "0 1 0" "nothing" <<< 'hello'
expect "2 0 0" "two scripts" <<< $'TAP version 13\n1..1\nok 1 - a\nTAP version 13\n1..1\nok 1 - b'
expect "1 1 0" "second script died" <<< $'TAP version 13\n1..1\nok 1 - a\nTAP version 13\n1..1\n'
expect "1 0 0" "plan last" <<< $'TAP version 13\nok 1 - a\n1..1'
expect "0 0 1" "all skipped" <<< $'TAP version 13\n1..0 # SKIP no module'
expect "0 1 0" "bail out" <<< $'TAP version 13\n1..0\nBail out! no memory'
expect "1 0 0" "carriage returns" <<< $'TAP version 13\r\n1..1\r\nok 1 - a\r'

[[ $failures -eq 0 ]]
