#!/bin/sh
# SPDX-License-Identifier: GPL-2.0
#
# usage: bindgen-blocklist.sh BINDINGS_GENERATED_RS
#
# Prints the names of the types that the kernel's bindings crate defines completely:
# our own bindings re-use them. Left out are types that it only declares (bindgen
# writes an empty `_unused` body), and those that it lays out wrongly.
awk '
/^ *pub (struct|union|enum|type) / {
	name = $3; gsub(/[^A-Za-z0-9_].*/, "", name)
	if ($2 == "type") print name; else open = name
	next
}
open != "" && /_unused: \[u8; 0\]/ { open = ""; next }
open != "" && (/^ *pub / || /^ *_/) { print open; open = ""; next }
open != "" && /^ *}/ { print open; open = "" }
' "$1" |
	grep -Ev '^(_bindgen_ty_|ns_common|ib_user_mad_reg_req$|(pid|user|cgroup)_namespace|__Bindgen|__Incomplete)' |
	sort -u
