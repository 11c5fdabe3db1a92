#!/usr/bin/env bash
# Every C file that a person writes is as clang-format leaves it.
set -euo pipefail
cd "$2"
command -v clang-format >/dev/null || {
    echo "skipped: clang-format is not installed"
    exit 77
}
# Another major version breaks lines elsewhere.
version=$(clang-format --version | sed 's/.*version \([0-9]*\).*/\1/')
[ "$version" = 14 ] || {
    echo "skipped: clang-format is version $version, the tree is formatted with 14"
    exit 77
}
find . \( -name build\* -o -path ./test/golden \) -prune -o -name '*.[ch]' -print0 | xargs -0 clang-format --dry-run -Werror
