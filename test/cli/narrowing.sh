#!/usr/bin/env bash
# No size becomes a narrower number unseen: arithmetic on extents is in 64 bits, and what is taken from it goes through
# hr_saturate_int (base/saturate.h) or a cast that somebody wrote and limited.
set -uo pipefail
build=$1 source=$2
command -v clang >/dev/null || { echo "skipped: clang is not installed"; exit 77; }
cd "$source" || exit 1
said=$(find src -name '*.c' -not -path '*/templates/*' -not -path '*/inject/*' -print0 |
    xargs -0 -P 2 -n 16 clang -fsyntax-only -std=gnu11 -Iinclude -Isrc -I"$build/generated" -DHR_WITH_ZLIB \
        -DHR_INSTALL_LIBDIR='"lib"' -Wno-everything -Wshorten-64-to-32 2>&1 | grep -E 'warning|error')
[ -z "$said" ] || { echo "$said"; exit 1; }
