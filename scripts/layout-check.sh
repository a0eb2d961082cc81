#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# Check that Rust and C agree on the layout of every structure in the bindings
# (runs in the chroot, after a build): layout-check.sh OBJECTS
#
# The kernel runs bindgen without layout tests, and bindgen gets some structures
# wrong in silence.  So: generate the bindings once more with the tests, compare
# each size with what gcc wrote into the debug information of the C helpers, and
# let rustc compile the assertions.

. "$(dirname "$0")/common.sh"

objects=$(realpath "$1")
kdir=$(kdir)
work=$RRXE_TREE/build/layout
rm -rf "$work"

# The saved command, with layout tests and into another file.
generate() {
	local command
	command=$(sed -n '1s/^savedcmd_[^ ]* := //p' "$objects/.rdma_bindings.rs.cmd")
	[[ -n $command ]] || die "no saved bindgen command in $objects"
	command=${command%%;*}
	command=${command/--no-layout-tests/}
	command=${command//"$objects/rdma_bindings.rs"/"$work/layout.rs"}
	command=${command//\\#/#}
	mkdir -p "$work"
	(cd "$objects" && eval "$command")
	sed -Ei 's/pub const RUST_CONST_HELPER_([a-zA-Z0-9_]*)/pub const \1/g' "$work/layout.rs"
}

# usage: compare_sizes LAYOUT.RS PAHOLE-SIZES
compare_sizes() {
	python3 - "$1" "$2" <<-'END'
		import re, sys
		text = open(sys.argv[1]).read()
		clang = {m[1]: int(m[2]) for m in re.finditer(
		    r'\["Size of (\w+)"\]\[::core::mem::size_of::<\w+>\(\) - (\d+)usize\]', text)}
		offsets = len(re.findall(r'\["Offset of field', text))
		gcc = {}
		for line in open(sys.argv[2]):
		    name, size, _ = line.split("\t")
		    gcc[name] = int(size)
		both = clang.keys() & gcc.keys()
		wrong = [(n, clang[n], gcc[n]) for n in sorted(both) if clang[n] != gcc[n]]
		print(f"{len(clang)} sizes and {offsets} offsets asserted, {len(both)} sizes compared with gcc")
		for name, a, b in wrong:
		    print(f"{name}: {a} bytes in the bindings, {b} in C")
		sys.exit(bool(wrong) or not both or not offsets)
	END
}

# Build the module once more, from a copy, with the assertions in place of the bindings.
compile_assertions() {
	cp -a "$objects" "$work/objects"
	cp "$work/layout.rs" "$work/objects/rdma_bindings.rs"
	find "$work/objects" -name '*.cmd' -exec sed -i "s#$objects#$work/objects#g" {} +
	make -s -C "$RRXE_TREE" modules "KDIR=$kdir" "MO=$work/objects" RRXE_KEEP_BINDINGS=1
}

generate
pahole --sizes "$objects/rrxe/helpers.o" > "$work/sizes" 2>/dev/null
compare_sizes "$work/layout.rs" "$work/sizes"
