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
    committed=$source/kernels/$(basename "$derived")
    [ -f "$committed" ] || committed=$source/examples/$(basename "$derived")
    diff -u "$committed" "$derived" || failed=1
    count=$((count + 1))
done
[ "$count" -ge 29 ] || { echo "only $count files are derived" && failed=1; }
[ $failed = 0 ] || echo "make derive writes them again"
# explain says what a kernel was derived from, and nothing of others.
"$build/headroom" explain softmax_backward M=64 N=64 --device cpu | grep -qxF "text   the gradient of softmax for x, derived by \`headroom grad\`" ||
    { echo "explain does not say what softmax_backward was derived from" && failed=1; }
! "$build/headroom" explain softmax M=64 N=64 --device cpu | grep -q ^text || { echo "softmax was not derived" && failed=1; }
exit $failed
