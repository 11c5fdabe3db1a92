#!/usr/bin/env bash
# The backward passes of the library are what `headroom grad` writes today.
set -uo pipefail
build=$1 source=$2
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
"$source/tools/derive_kernels" "$build/headroom" "$work" || exit 1
failed=0
count=0
for derived in "$work"/*.hr; do
    diff -u "$source/kernels/$(basename "$derived")" "$derived" || failed=1
    count=$((count + 1))
done
[ "$count" -ge 13 ] || { echo "only $count files are derived" && failed=1; }
[ $failed = 0 ] || echo "tools/derive_kernels build/headroom writes them again"
exit $failed
