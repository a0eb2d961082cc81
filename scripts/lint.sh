#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# The rules of this tree that no compiler checks.

. "$(dirname "$0")/common.sh"

cd "$RRXE_TREE"
problems=0
problem() { echo "$1"; problems=$((problems + 1)); }

# Report each line on standard input (FILE:LINE:TEXT) under a heading.
report() {
	local line
	while read -r line; do problem "$1: $line"; done
}

# All files of the tree, also those not yet committed.
sources() {
	git ls-files -co --exclude-standard 2>/dev/null || find . -type f -not -path './build/*' -not -path '*/target/*' -printf '%P\n'
}
code() { sources | grep '^rrxe/.*\.rs$'; }

# 1. Unsafe code and the raw bindings stay behind kapi.
unsafe_outside() {
	code | grep -v '^rrxe/kapi/' | xargs -r grep -nE '\bunsafe\b|\bbindings::|\bmod bindings\b' /dev/null |
		grep -vE '^[^:]+:[0-9]+: *//|forbid\(unsafe_code\)|deny\(unsafe|unsafe_op_in_unsafe_fn' || true
}

# 2. Each unsafe block and impl says why it is sound.
unsafe_unexplained() {
	code | xargs -r awk '
		FNR == 1 { explained = 0 }
		/^[ \t]*\/\// { if (/SAFETY:/) explained = 1; next }
		/^[ \t]*(#!?\[.*\])?[ \t]*$/ { next }
		{
			line = $0
			sub(/\/\/.*/, "", line)
			if (line ~ /(^|[^a-zA-Z_])unsafe[ \t]*(\{|impl)/ && !explained)
				print FILENAME ":" FNR ":" $0
			if (line ~ /[;{}][ \t]*$/) explained = 0
		}'
}

# 3. Every file names its licence.
unlicensed() {
	local f
	sources | grep -vE '\.(pcap|pcapng|bin|json|txt|md|svg|png|proptest-regressions)$|^COPYING$|^selftests/fuzz/corpus/|\.lock$|proptest-regressions/' |
		while read -r f; do
			head -n 5 "$f" | grep -q 'SPDX-License-Identifier: GPL-2.0' || echo "$f"
		done
}

# 4. Nothing knows where this tree lies, or who worked on it.
machine_paths() {
	local pattern
	pattern="(^|[^A-Za-z0-9_/}])($RRXE_TREE|${HOME:-/root}|/home/[a-z]+|/work)/"
	sources | grep -v '^scripts/lint.sh$' | xargs -r grep -nIE "$pattern" || true
}

# 5. The protocol's rules have tests, and those that are named exist.
protocol_gaps() { "$RRXE_TREE/scripts/protocol-check" || true; }

# How much unsafe code there is, by folder.
count_unsafe() {
	echo "unsafe blocks:"
	code | xargs -r grep -cE '(^|[^a-zA-Z_])unsafe *(\{|impl)' /dev/null |
		awk -F: '$2 { n = split($1, d, "/"); folder = n > 2 ? d[1] "/" d[2] : d[1]; sum[folder] += $2; all += $2 }
			END { for (f in sum) printf "  %-16s %d\n", f, sum[f]; printf "  %-16s %d\n", "total", all }' | sort
}

report "unsafe or bindings outside rrxe/kapi" < <(unsafe_outside)
report "unsafe without SAFETY comment" < <(unsafe_unexplained)
report "no SPDX line" < <(unlicensed)
report "path of this machine" < <(machine_paths)
report "rules of the protocol" < <(protocol_gaps)
count_unsafe
[[ $problems -eq 0 ]] || die "$problems problems"
