#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# Run the tests and add them up: run-tests.sh all|check|vm
#
# "check" is what needs no VM, "vm" what depends on the kernel (see KERNEL in vm.sh).
# Cheap steps come first, and a failure does not end the run; the last line is
# "N passed, N failed, N skipped", and the status tells if something failed.  RRXE_STEPS (a pattern) selects steps.  Logs: build/test/, or
# build/test-$KERNEL/.

. "$(dirname "$0")/common.sh"

HERE=$RRXE_TREE/scripts
LOGS=$RRXE_TREE/build/test${KERNEL:+-$KERNEL}
cd "$RRXE_TREE"

passed=0 failed=0 skipped=0

# ---- counting: print "PASSED FAILED SKIPPED" for a log and a status ----

count_plain() { [[ $2 -eq 0 ]] && echo 1 0 0 || echo 0 1 0; }

count_cargo() {
	awk -v status="$2" '
		/^test result:/ { p += $4; f += $6; s += $8 }
		END { if (status && !f) f = 1; print p + 0, f + 0, s + 0 }' "$1"
}

# A suite whose VM died or whose kernel complained has failed, whatever it printed.
count_ktap() {
	local p f s
	read -r p f s < <("$HERE/ktap-count" "$1" 2> "$1.failed")
	cat "$1.failed" >> "$1" && rm "$1.failed"
	[[ $2 -eq 0 || $f -gt 0 ]] || f=1
	echo "$p" "$f" "$s"
}

# Where a step leaves its output.
log_of() { echo "$LOGS/${1//[^a-zA-Z0-9._-]/-}.log"; }

# The lines of a log that are likely to tell why.
explain() {
	{
		grep -E "^(not ok|failed:|error|.*(FAILED|panicked))" "$1" | head -n 20 || true
		echo ...
		tail -n 15 "$1"
	} | sed 's/^/        /'
}

# usage: logged LOG COMMAND...
logged() {
	local log=$1
	shift
	"$@" > "$log" 2>&1 < /dev/null
}

# usage: step NAME COUNTER COMMAND...
step() {
	local name=$1 counter=$2 log began=$SECONDS status=0 p f s
	shift 2
	[[ $name =~ ${RRXE_STEPS:-.} ]] || return 0
	log=$(log_of "$name")
	patiently "$name" logged "$log" "$@" || status=$?
	read -r p f s < <("count_$counter" "$log" "$status")
	passed=$((passed + p)) failed=$((failed + f)) skipped=$((skipped + s))
	if [[ $f -eq 0 ]]; then
		printf 'ok      %-32s %4d s  %s passed, %s skipped\n' "$name" $((SECONDS - began)) "$p" "$s"
	else
		printf 'FAILED  %-32s %4d s  %s passed, %s failed, %s skipped (status %s, %s)\n' \
			"$name" $((SECONDS - began)) "$p" "$f" "$s" "$status" "${log#"$RRXE_TREE"/}"
		explain "$log"
	fi
}

inside() { "$HERE/in-chroot.sh" "$@"; }

# ---- the steps ----

self_tests() { "$HERE/dmesg-check" --self-test && "$HERE/self-test.sh"; }

shell_check() { inside sh -c 'grep -lE "^#!/bin/(ba)?sh" scripts/* .ci/* selftests/guest/*.sh | xargs shellcheck -S warning -x -P SCRIPTDIR'; }

# Every crate there is, so that a new one is not forgotten.
crates() { find rrxe selftests -name Cargo.toml -not -path '*/target/*' -printf '%h\n' | LC_ALL=C sort; }

# usage: cargo_in CRATE COMMAND [ARGUMENT]...
# The lock file is left alone: the distribution's crates are of other versions than the registry's.
cargo_in() {
	local crate=$1 command=$2
	shift 2
	RRXE_ENV="CARGO_TARGET_DIR" CARGO_TARGET_DIR=$RRXE_TREE/build/cargo \
		inside cargo "$command" --quiet --manifest-path "$crate/Cargo.toml" \
		--config "resolver.lockfile-path='$RRXE_TREE/build/cargo/${crate//\//-}/Cargo.lock'" "$@"
}

# The simulator's own profile has the checks of the kernel, at full speed.
cargo_test() {
	local profile=()
	grep -q '^\[profile.release\]' "$1/Cargo.toml" && profile=(--release)
	RRXE_SCENARIOS=${RRXE_SCENARIOS:-20000} PROPTEST_RNG_SEED=${PROPTEST_RNG_SEED:-1} \
		cargo_in "$1" test --no-fail-fast "${profile[@]}"
}

build_module() { "$HERE/build-module.sh"; }

# Some seconds for each target, and always the same: a longer run is `make fuzz`.
fuzz() { inside "$HERE/fuzz.sh" "-runs=${RRXE_FUZZ_RUNS:-100000}"; }

# Here what the compilers warn of is an error, in Rust and in C.
clippy_module() { "$HERE/build-module.sh" "MO=$RRXE_TREE/build/clippy" CLIPPY=1 W=e; }

check_layout() { inside scripts/layout-check.sh "build/$(kernel_release)"; }

no_vm_steps() {
	local crate
	step self-test plain self_tests
	step shellcheck plain shell_check
	step lint plain "$HERE/lint.sh"
	step format plain inside scripts/check-format.sh
	step module plain build_module
	step clippy:module plain clippy_module
	step layout plain check_layout
	for crate in $(crates); do
		step "clippy:$crate" plain cargo_in "$crate" clippy --all-targets -- -D warnings
		step "host:$crate" cargo cargo_test "$crate"
	done
	step fuzz plain fuzz
}

# Never with an older module than the sources make.
vm_suite() { build_module && "$HERE/vm-suite.sh" "$1"; }

# What a suite has captured, judged once more on this side, where there is tshark too.
check_captures() {
	local results
	results=$(sed -n 's/.*; results in //p' "$(log_of "vm:$1")" | tail -n 1)
	inside selftests/guest/lib/check_capture.py "$results"/out/*.pcap
}

vm_steps() {
	local suite
	step demo plain vm_suite demo.sh
	for suite in $("$HERE/vm-suite.sh" --list); do
		step "vm:$suite" ktap vm_suite "$suite"
	done
	for suite in wire.py congestion.py; do
		step "captures:$suite" plain check_captures "$suite"
	done
}

kernel_steps() {
	step module plain build_module
	step layout plain check_layout
	vm_steps
}

summary() {
	echo "total $SECONDS s"
	echo "$passed passed, $failed failed, $skipped skipped"
}

mkdir -p "$LOGS"
if "$HERE/setup.sh"; then
	case ${1:-all} in
	all) no_vm_steps; vm_steps ;;
	check) no_vm_steps ;;
	vm) kernel_steps ;;
	esac
else
	echo 'FAILED  setup'
	failed=1
fi
summary
[[ $failed -eq 0 && $((passed + skipped)) -gt 0 ]]
