#!/bin/sh
# The documents' tables of figures are what the result files say, and a table that is not is seen.
#
# in:  BUILD SOURCE
set -eu
root=$2
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
"$root/tools/readme_tables.py" --check "$root/README.md"
"$root/tools/readme_tables.py" --check "$root/docs/benchmarks.md"

ln -s "$root/bench" "$folder/bench"
grep -q '× |' "$root/README.md"
sed '/^| rmsnorm /s/[0-9]\.[0-9]*× |/9.99× |/' "$root/README.md" >"$folder/README.md"
if "$root/tools/readme_tables.py" --check "$folder/README.md" 2>"$folder/said"; then
    echo "a wrong figure was not seen" >&2
    exit 1
fi
grep -q '9.99×' "$folder/said"
"$root/tools/readme_tables.py" "$folder/README.md"
cmp "$root/README.md" "$folder/README.md"

sed 's/^| softmax |/| sofmtax |/' "$root/README.md" >"$folder/README.md"
if "$root/tools/readme_tables.py" --check "$folder/README.md" 2>"$folder/said"; then
    echo "a row that no file has was not seen" >&2
    exit 1
fi
grep -q 'the files have no sofmtax' "$folder/said"
