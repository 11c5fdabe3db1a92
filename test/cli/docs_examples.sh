#!/usr/bin/env bash
# What the documents show is true. In a clone, as a reader would: each block of commands runs as it stands, one after the
# other; the README first, which installs the command, then docs/ in the order of their names.
#
#   ```sh    is run
#   ```hr    holds whole kernels: each is explained, so it is read, checked and planned
#
# Other blocks show what is printed, or what takes a GPU or a program of the reader's.
set -euo pipefail
build=$1 source=$2
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
export HEADROOM_CACHE=$build/roofs # the test of that name measures them
export HOME=$scratch/home
mkdir -p "$HOME" "$scratch/headroom"
cd "$source"
{ git ls-files -z 2>/dev/null || find . -path ./build -prune -o -type f -print0; } | tar -c --null -T - | tar -x -C "$scratch/headroom"
cd "$scratch/headroom"
# What `make install` compiles there was compiled here before, of the same text.
export CMAKE_C_COMPILER_LAUNCHER=$source/test/support/cc_compiled HR_COMPILED=$build HR_COMPILED_SOURCE=$source

# A document as one shell script: commands as they stand, kernels written to files and explained.
script_of() {
    awk '
        { line = $0; match(line, /^ */) }
        line ~ /^ *```/ && inside {
            if (inside == "hr") print "END_OF_BLOCK\nexplain_all " name
            inside = ""; next
        }
        line ~ /^ *```/ {
            indent = RLENGTH; language = line; sub(/^ *```/, "", language)
            inside = language == "sh" || language == "hr" ? language : "shown"
            if (inside == "sh") print ": line " NR
            if (inside == "hr") { name = "block_" NR ".hr"; print "cat >" name " <<'\''END_OF_BLOCK'\''" }
            next
        }
        inside && inside != "shown" { print substr(line, 1, indent) ~ /^ *$/ ? substr(line, indent + 1) : line }' "$1"
}

explain_all() {
    local kernel
    for kernel in $(sed -n 's/^kernel  *\([a-z_0-9]*\).*/\1/p' "$1"); do
        headroom explain "$1:$kernel" >/dev/null || { echo "$1:$kernel is not understood" >&2; return 1; }
    done
}
export -f explain_all

total=0
for document in README.md docs/*.md; do
    script_of "$document" >"$scratch/script"
    commands=$(grep -cE '^(: line|explain_all)' "$scratch/script") || continue
    bash -euo pipefail -x "$scratch/script" >"$scratch/log" 2>&1 </dev/null || {
        echo "$document: a block failed; the last lines of its run:" >&2
        tail -30 "$scratch/log" >&2
        exit 1
    }
    export PATH="$HOME/.local/bin:$PATH" # as the README says
    total=$((total + commands))
done
echo "$total blocks of the documents ran"
[ "$total" -gt 0 ]
