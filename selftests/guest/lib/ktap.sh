# shellcheck shell=bash
# SPDX-License-Identifier: GPL-2.0
#
# A small KTAP runner for shell suites; the twin of ktap.py.
#
#	ktap_add NAME FUNCTION [ARGUMENT]...	declare a test
#	ktap_run SUITE [FILTER]...		run those whose name contains a filter (all without)
#
# A test fails by a non-zero status, and whenever the kernel complained meanwhile.
# What it prints is kept, and shown only if it failed.  `return 4` skips.
# Inside a test: `why TEXT` explains a failure or a skip, `note TEXT` is shown in any case.

# The one list of what a sound kernel never prints (beside the suites in the guest).
for DMESG_CHECK in "${BASH_SOURCE[0]%/*}"/../../{dmesg-check,../scripts/dmesg-check}; do
	[[ ! -e $DMESG_CHECK ]] || break
done

KTAP_NAMES=()
KTAP_COMMANDS=()

ktap_add() {
	KTAP_NAMES+=("$1")
	shift
	KTAP_COMMANDS+=("${*@Q}")
}

# C rxe is known to fail the running test: say why.
differs_on_rxe() {
	[[ $LINK_TYPE == rxe ]] || return 0
	echo "$*" > "$KTAP_DIR/expected"
}

why() { echo "$*" > "$KTAP_DIR/why"; }

note() { echo "$*" >> "$KTAP_DIR/notes"; }

ktap_comment() { sed 's/^/# /'; }

# What the kernel printed, and should not have, since the log had so many lines.
ktap_complaints() { dmesg | tail -n "+$(($1 + 1))" | "$DMESG_CHECK" -; }

ktap_selected() {
	local name=$1 filter
	shift
	[[ $# -eq 0 ]] && return 0
	for filter; do [[ $name == *"$filter"* ]] && return 0; done
	return 1
}

ktap_run() {
	local suite=$1 i rc before began number=0 failed=0 run=()
	shift
	for i in "${!KTAP_NAMES[@]}"; do
		ktap_selected "${KTAP_NAMES[i]}" "$@" && run+=("$i")
	done
	KTAP_DIR=$(mktemp -d)
	echo "TAP version 13"
	echo "1..${#run[@]}"
	for i in "${run[@]}"; do
		rm -f "$KTAP_DIR"/*
		before=$(dmesg | wc -l)
		began=$EPOCHREALTIME
		rc=0
		# In a subshell: a test may cd, set traps and exit as it likes.
		(eval "${KTAP_COMMANDS[i]}") > "$KTAP_DIR/log" 2>&1 < /dev/null || rc=$?
		ktap_complaints "$before" > "$KTAP_DIR/complaints" || rc=99
		number=$((number + 1))
		ktap_report "$suite: ${KTAP_NAMES[i]}" "$number" "$rc" "$began" || failed=$((failed + 1))
	done
	echo "# $suite on $LINK_TYPE: $((number - failed)) of $number as they should be, $SECONDS s"
	rm -rf "$KTAP_DIR"
	[[ $failed -eq 0 && $number -gt 0 ]]
}

# The result line of one test.  Returns non-zero if it failed.
ktap_report() {
	local name=$1 number=$2 rc=$3 took
	took=$(awk -v a="$4" -v b="$EPOCHREALTIME" 'BEGIN { printf "(%.1f s)", b - a }')
	ktap_comment < <(cat "$KTAP_DIR/notes" 2>/dev/null)
	if [[ $rc -eq 0 ]]; then
		echo "ok $number - $name $took"
	elif [[ $rc -eq 4 ]]; then
		echo "ok $number - $name # SKIP $(cat "$KTAP_DIR/why" 2>/dev/null)"
	elif [[ -e $KTAP_DIR/expected ]]; then
		tail -n 5 "$KTAP_DIR/log" | ktap_comment
		echo "ok $number - $name # XFAIL $(< "$KTAP_DIR/expected")"
	else
		{ cat "$KTAP_DIR"/{why,complaints} 2>/dev/null; echo "status $rc"; tail -n 40 "$KTAP_DIR/log"; } | ktap_comment
		echo "not ok $number - $name"
		return 1
	fi
}
