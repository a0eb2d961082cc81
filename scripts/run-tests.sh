#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# Run the tests and add them up: run-tests.sh all|check
#
# "check" is what needs no VM.  A failure does not end the run; the last line is
# "N passed, N failed, N skipped", and the status tells if something failed.
# RRXE_STEPS (a pattern) selects steps.  Logs: build/test/.

. "$(dirname "$0")/common.sh"

HERE=$RRXE_TREE/scripts
LOGS=$RRXE_TREE/build/test
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

# usage: step NAME COUNTER COMMAND...
step() {
	local name=$1 counter=$2 log began=$SECONDS status=0 p f s
	shift 2
	[[ $name =~ ${RRXE_STEPS:-.} ]] || return 0
	log=$LOGS/${name//[^a-zA-Z0-9._-]/-}.log
	"$@" > "$log" 2>&1 < /dev/null || status=$?
	read -r p f s < <("count_$counter" "$log" "$status")
	passed=$((passed + p)) failed=$((failed + f)) skipped=$((skipped + s))
	if [[ $f -eq 0 ]]; then
		printf 'ok      %-28s %4d s  %s passed, %s skipped\n' "$name" $((SECONDS - began)) "$p" "$s"
	else
		printf 'FAILED  %-28s %4d s  %s passed, %s failed, %s skipped (status %s, %s)\n' \
			"$name" $((SECONDS - began)) "$p" "$f" "$s" "$status" "${log#"$RRXE_TREE"/}"
		{ grep -E "^(not ok|failed:|error|.*(FAILED|panicked))" "$log" | head -n 20 || true; echo ...; tail -n 15 "$log"; } | sed 's/^/        /'
	fi
}

inside() { "$HERE/in-chroot.sh" "$@"; }

# ---- the steps ----

self_tests() {
	"$HERE/dmesg-check" --self-test
	"$HERE/self-test.sh"
}

shell_check() { inside sh -c 'grep -lE "^#!/bin/(ba)?sh" scripts/* .ci/* selftests/guest/*.sh | xargs shellcheck -S warning -x -P SCRIPTDIR'; }

# The lock file is left alone: the distribution's crates are of other versions than the registry's.
cargo_in() {
	local manifest=$1 command=$2
	shift 2
	RRXE_ENV="CARGO_TARGET_DIR" CARGO_TARGET_DIR=$RRXE_TREE/build/cargo \
		inside cargo "$command" --quiet --manifest-path "$manifest" \
		--config "resolver.lockfile-path='$RRXE_TREE/build/cargo/${manifest//\//-}/Cargo.lock'" "$@"
}

# The simulator's own profile has the checks of the kernel, at full speed.
cargo_test() {
	local profile=()
	grep -q '^\[profile.release\]' "$1" && profile=(--release)
	RRXE_SCENARIOS=${RRXE_SCENARIOS:-20000} cargo_in "$1" test "${profile[@]}"
}

build_module() { "$HERE/build-module.sh"; }
clippy_module() { "$HERE/build-module.sh" "MO=$RRXE_TREE/build/clippy" CLIPPY=1 W=e; }

no_vm_steps() {
	local manifest crate
	step self-test plain self_tests
	step shellcheck plain shell_check
	step format plain inside scripts/check-format.sh
	step lint plain "$HERE/lint.sh"
	for manifest in rrxe/proto/Cargo.toml selftests/proto/*/Cargo.toml selftests/ring/Cargo.toml; do
		crate=${manifest%/Cargo.toml}
		step "host:$crate" cargo cargo_test "$manifest"
		step "host-clippy:$crate" plain cargo_in "$manifest" clippy --all-targets -- -D warnings
	done
	step module plain build_module
	step clippy plain clippy_module
	step layout plain inside scripts/layout-check.sh "build/$(kernel_release)"
}

vm_steps() {
	local suite
	if [[ ! -e build/$(kernel_release)/rrxe.ko ]]; then
		step vm plain die "no module to test"
		return
	fi
	for suite in $("$HERE/vm-suite.sh" --list); do
		step "vm:$suite" ktap "$HERE/vm-suite.sh" "$suite"
	done
	step demo plain make -s demo
}

mkdir -p "$LOGS"
"$HERE/setup.sh"
no_vm_steps
[[ ${1:-all} == check ]] || vm_steps
echo "total $SECONDS s"
echo "$passed passed, $failed failed, $skipped skipped"
[[ $failed -eq 0 ]]
