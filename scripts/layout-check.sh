#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# Check that Rust and C agree on the layout of every structure in the bindings
# (runs in the chroot, after a build): layout-check.sh OBJECTS
#
# The kernel runs bindgen without layout tests, and bindgen gets some structures
# wrong in silence.  So: generate the bindings once more with the tests, compare
# each size with what the kernel's C compiler says of the same headers, and let rustc
# compile the assertions.

. "$(dirname "$0")/common.sh"

objects=$(realpath "$1")
work=$RRXE_TREE/build/layout

# The command that the build has saved for a target, without what follows it.
saved_command() {
	local command
	command=$(sed -n '1s/^savedcmd_[^ ]* := //p' "$objects/$1")
	[[ -n $command ]] || die "no saved command $1 in $objects: build the module first"
	command=${command//\\#/#}
	echo "${command%%;*}"
}

generate() {
	local command
	command=$(saved_command .rdma_bindings.rs.cmd)
	[[ $command == *" --no-layout-tests"* && $command == *" -o rdma_bindings.rs"* ]] || die "bindgen's command has changed: $command"
	command=${command/ --no-layout-tests/}
	command=${command/ -o rdma_bindings.rs/ -o $work/rdma_bindings.rs}
	(cd "$objects" && eval "$command")
	sed -Ei 's/pub const RUST_CONST_HELPER_([a-zA-Z0-9_]*)/pub const \1/g' "$work/rdma_bindings.rs"
	cp "$objects/rdma_helpers.rs" "$work/"
}

# What the C compiler makes of the same headers, used or not.
c_sizes() {
	local command
	command=$(saved_command rrxe/.helpers.o.cmd)
	command=${command/ -o rrxe\/helpers.o/ -g -fno-eliminate-unused-debug-types -include $RRXE_TREE/include/rrxe/bindings_helper.h -o $work/types.o}
	(cd "$objects" && eval "$command")
	pahole --sizes "$work/types.o" > "$work/sizes" 2>/dev/null
}

# usage: compare_sizes LAYOUT.RS PAHOLE-SIZES
compare_sizes() {
	python3 - "$1" "$2" <<-'END'
		import re, sys
		text = open(sys.argv[1]).read()
		rust = {m[1]: int(m[2]) for m in re.finditer(
		    r'\["Size of (\w+)"\]\[::core::mem::size_of::<\w+>\(\) - (\d+)usize\]', text)}
		offsets = len(re.findall(r'\["Offset of field', text))
		c = {}
		for line in open(sys.argv[2]):
		    name, size, _ = line.split("\t")
		    c[name] = int(size)
		both = rust.keys() & c.keys()
		wrong = [(n, rust[n], c[n]) for n in sorted(both) if rust[n] != c[n]]
		print(f"{len(rust)} sizes and {offsets} offsets asserted, {len(both)} sizes compared with C")
		for name, a, b in wrong:
		    print(f"{name}: {a} bytes in the bindings, {b} in C")
		sys.exit(bool(wrong) or not both or not offsets)
	END
}

# Compile the module's crate around these bindings, as far as needed to evaluate the assertions.
compile_assertions() {
	local command
	command=$(saved_command rrxe/.main.o.cmd)
	command=$(sed -E "s# --out-dir [^ ]+# --out-dir $work#; s# --emit=dep-info=[^ ]+##; s# --emit=obj=[^ ]+# --emit=metadata=$work/main.rmeta#" <<<"$command")
	(cd "$objects" && export RUSTC_BOOTSTRAP=1 "RRXE_OBJ=$work" && eval "$command")
}

rm -rf "$work"
mkdir -p "$work"
generate
c_sizes
compare_sizes "$work/rdma_bindings.rs" "$work/sizes"
compile_assertions
say "the assertions hold"
