#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# Mutation testing of the protocol core: mutants.sh [FILE]...
#
# cargo-mutants makes one small change after the other in rrxe/proto (FILE: only there, for
# example src/psn.rs) and runs the unit tests of the crate.  What they let pass has to be
# noticed by the tests below selftests/proto, or to be listed with a reason in
# selftests/proto/mutants-justified.txt.
#
# Runs in the chroot.  All results are in build/mutants.  RRXE_JOBS (2) mutants are tested
# at a time.

. "$(dirname "$0")/common.sh"

OUT=$RRXE_TREE/build/mutants
COPY=$OUT/tree
RESULTS=$OUT/mutants.out
JUSTIFIED=$RRXE_TREE/selftests/proto/mutants-justified.txt
export CARGO_NET_OFFLINE=true CARGO_PROFILE_DEV_DEBUG=0 CARGO_PROFILE_TEST_DEBUG=0
export RRXE_SCENARIOS=${RRXE_SCENARIOS:-300} PROPTEST_CASES=${PROPTEST_CASES:-64}

# Names of mutants outlive the numbers of their lines.
without_lines() { sed -E 's/:[0-9]+:[0-9]+:/:/' | LC_ALL=C sort; }

# usage: mutate [FILE]...
mutate() {
	local status=0
	# How a value is printed for us may be changed.
	cargo mutants --dir "$RRXE_TREE/rrxe/proto" --output "$OUT" --jobs "${RRXE_JOBS:-2}" --timeout 60 \
		--no-shuffle --colors never --exclude-re 'impl fmt::Debug' --cargo-arg=--lib "${@/#/--file=}" || status=$?
	# 2: some were missed. 3: some ran into the time limit, which is as good as a test that fails.
	[[ $status -eq 0 || $status -eq 2 || $status -eq 3 ]] || die "cargo mutants: status $status"
}

# Each missed mutant: name, file and difference, in a line.
missed() {
	jq -r '.outcomes[] | select(.summary == "MissedMutant") |
		[.scenario.Mutant.name, .scenario.Mutant.file, .diff_path] | @tsv' "$RESULTS/outcomes.json"
}

justified() { sed '/^#/d; /^$/d' "$JUSTIFIED" | LC_ALL=C sort; }

copy_tree() {
	mkdir -p "$COPY/rrxe" "$COPY/selftests"
	rsync -a --delete --exclude target --exclude Cargo.lock "$RRXE_TREE/rrxe/proto" "$COPY/rrxe"
	rsync -a --delete --exclude target --exclude Cargo.lock "$RRXE_TREE"/selftests/{proto,golden} "$COPY/selftests"
}

other_tests() {
	local crate
	for crate in proto proto/sim; do
		CARGO_TARGET_DIR=$OUT/target timeout 900 cargo test --quiet --release \
			--manifest-path "$COPY/selftests/$crate/Cargo.toml" || return 1
	done
}

# Whether the tests outside of the crate let a mutant pass.  usage: survives FILE DIFF
survives() {
	local status=0
	cp "$RRXE_TREE/rrxe/proto/$1" "$COPY/rrxe/proto/$1"
	patch --silent "$COPY/rrxe/proto/$1" "$RESULTS/$2"
	other_tests > "$OUT/other-tests.log" 2>&1 < /dev/null || status=$?
	cp "$RRXE_TREE/rrxe/proto/$1" "$COPY/rrxe/proto/$1"
	return "$status"
}

# Prints those of the missed mutants that no test notices and no line excuses.
survivors() {
	local name file diff excused
	mapfile -t excused < <(justified)
	while IFS=$'\t' read -r name file diff; do
		if excuse "$(without_lines <<< "$name")"; then continue; fi
		say "$name"
		if survives "$file" "$diff"; then echo "$name"; fi
	done < <(missed)
}

# Uses up a line of `excused`: it is for one mutant.
excuse() {
	local at
	for at in "${!excused[@]}"; do
		if [[ ${excused[at]} == "$1" ]]; then
			unset "excused[at]"
			return 0
		fi
	done
	return 1
}

# Lines that no missed mutant needs.
stale() { LC_ALL=C comm -13 <(missed | cut -f1 | without_lines) <(justified); }

mkdir -p "$OUT"
mutate "$@"
copy_tree
other_tests > "$OUT/other-tests.log" 2>&1 || die "the tests fail without a mutant: see $OUT/other-tests.log"
survivors > "$OUT/survivors.txt"
stale > "$OUT/stale.txt"
sed 's/^/survives: /' "$OUT/survivors.txt"
# Of some files only, most lines are for the others.
[[ $# -gt 0 ]] || sed 's/^/not needed in mutants-justified.txt: /' "$OUT/stale.txt"
say "$(wc -l < "$RESULTS/caught.txt") caught by unit tests, $(missed | wc -l) not, of which $(wc -l < "$OUT/survivors.txt") survive for no reason"
[[ ! -s $OUT/survivors.txt ]] && [[ $# -gt 0 || ! -s $OUT/stale.txt ]]
