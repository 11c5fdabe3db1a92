#!/usr/bin/env bash
# This machine's roof is measured once, into a cache that the scripts which take figures beside it use or copy. One that
# is run by itself measures its own.
set -euo pipefail
export HEADROOM_CACHE=$1/roofs
"$1/headroom" roof --device cpu --json | grep -q '"copy"'
page=$(mktemp)
trap 'rm -f "$page"' EXIT
"$1/headroom" roof --device cpu --html "$page" >/dev/null
grep -q '<h2>' "$page" && grep -q 'copy' "$page"
