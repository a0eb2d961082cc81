#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# Test the counting of results, as a runner that miscounts would hide failures, and the check of the
# protocol's document.

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

# usage: finds WHAT SED-SCRIPT: the check of the protocol's document tells of a change to it
finds() {
	local changed
	changed=$(mktemp)
	sed "$2" "$RRXE_TREE/Documentation/protocol.md" > "$changed"
	if "$RRXE_TREE/scripts/protocol-check" "$changed" > /dev/null; then
		echo "a protocol document with $1 is accepted"
		failures=$((failures + 1))
	fi
	rm -f "$changed"
}

finds "a unit test that is not there" 's/`one_nak_per_gap`/`two_naks_per_gap`/'
finds "a simulator test that is not there" 's/`rule_04_\*`/`rule_94_*`/'
finds "a suite that is not there" 's/`wire.py`/`wires.py`/'
finds "a title that is not there" 's/recovery through RESET/recovery by RESET/'
finds "code that is not there" 's/`go_back`/`go_forth`/'
finds "no row for a rule" '/^| 9 |/d'
finds "no test for a rule" 's/^\(| 21 |.*|.*|\).*|$/\1 |/'

[[ $failures -eq 0 ]]
