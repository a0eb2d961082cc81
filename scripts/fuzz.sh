#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# Fuzz what reads packets and work requests: fuzz.sh LIMIT [TARGET]...
#
# LIMIT is how long, in words of libFuzzer: -max_total_time=SECONDS, or -runs=COUNT,
# which does the same each time on a clean tree.
#
# Runs in the chroot, with the libFuzzer of its clang. Starts from the committed
# corpus (selftests/fuzz/corpus); what it finds on top is kept in build/fuzz.  An
# input that breaks a target is left in build/fuzz too, and
#
#	cargo run --manifest-path selftests/fuzz/Cargo.toml --bin TARGET FILE
#
# runs it again.  With RRXE_MERGE=1 the corpus is replaced by the smallest part of all
# that was found that runs through as much of the code.

. "$(dirname "$0")/common.sh"

FUZZ=$RRXE_TREE/selftests/fuzz
OUT=$RRXE_TREE/build/fuzz
TRIPLE=x86_64-unknown-linux-gnu
SEED=${RRXE_SEED:-1}

targets() { find "$FUZZ/fuzz_targets" -name '*.rs' -printf '%f\n' | sed 's/\.rs$//' | LC_ALL=C sort; }

# The coverage that libFuzzer steers by, as cargo-fuzz asks for it.
coverage() {
	local pass
	for pass in level=4 inline-8bit-counters pc-table trace-compares; do
		printf -- '-Cllvm-args=-sanitizer-coverage-%s ' "$pass"
	done
	echo -Cpasses=sancov-module -Ccodegen-units=1 --cfg fuzzing -Clinker=clang -Clink-arg=-fsanitize=fuzzer
}

build() {
	RUSTFLAGS=$(coverage) CARGO_TARGET_DIR=$OUT/target cargo build --quiet --release --target "$TRIPLE" \
		--manifest-path "$FUZZ/Cargo.toml" --config "resolver.lockfile-path='$OUT/Cargo.lock'" --bins
}

# usage: fuzz TARGET LIMIT
fuzz() {
	local target=$1 found=$OUT/found/$1
	mkdir -p "$found" "$OUT/crashes"
	"$OUT/target/$TRIPLE/release/$target" "$2" -seed="$SEED" -max_len=1500 -timeout=10 -verbosity=0 \
		-print_final_stats=1 -artifact_prefix="$OUT/crashes/$target-" "$found" "$FUZZ/corpus/$target"
}

# usage: merge TARGET
merge() {
	local target=$1 corpus=$FUZZ/corpus/$1
	mv "$corpus" "$OUT/old-$target"
	mkdir "$corpus"
	"$OUT/target/$TRIPLE/release/$target" -set_cover_merge=1 -use_counters=0 "$corpus" "$OUT/old-$target" "$OUT/found/$target"
	rm -rf "$OUT/old-$target"
}

limit=${1:?usage: fuzz.sh LIMIT [TARGET]...}
shift
[[ $# -gt 0 ]] || mapfile -t names < <(targets)
[[ $# -eq 0 ]] || names=("$@")
mkdir -p "$OUT"
build
for name in "${names[@]}"; do
	say "$name, $limit"
	fuzz "$name" "$limit"
	[[ -z ${RRXE_MERGE:-} ]] || merge "$name"
done
