#!/usr/bin/env bash
# What the documents show is true: their blocks are extracted word for word and run in a scratch copy of the tree.
#
#   ```sh test             is run, in the order of the document
#   ```hr                  holds whole kernels: each is explained, so it is read, checked and planned
#   ```LANGUAGE file=NAME  is written to NAME for the blocks after it, and where the language is hr, explained as well
#
# Blocks with other words are only shown.
set -euo pipefail
build=$1 source=$2
[ -x "$build/headroom" ] || { echo "the command is not built" >&2; exit 1; }
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
export HEADROOM_CACHE=$build/docs_cache # kept: measuring the roofs takes longer than all the rest

# A document as one shell script: files are written, commands run, kernels explained.
script_of() {
    awk '
        function quote_to(name) { print "cat >" name " <<'\''END_OF_BLOCK'\''" }
        /^```/ && inside { if (inside != "shown") print inside == "sh" ? "" : "END_OF_BLOCK"
                           if (inside == "hr") print "explain_all " name
                           inside = ""; next }
        /^```/ {
            blocks++; language = $1; sub(/^```/, "", language); words = $0; name = ""
            if (match(words, /file=[^ ]+/)) { name = substr(words, RSTART + 5, RLENGTH - 5); inside = "file"; quote_to(name) }
            else if (language == "sh" && words ~ / test( |$)/) { inside = "sh"; print ": line " NR }
            else if (language == "hr") { inside = "hr"; name = "block_" blocks ".hr"; quote_to(name) }
            else inside = "shown"
            if (inside == "file" && language == "hr") inside = "hr"
            next
        }
        inside && inside != "shown"' "$1"
}

explain_all() {
    local kernel
    for kernel in $(sed -n 's/^kernel  *\([a-z_0-9]*\).*/\1/p' "$1"); do
        build/headroom explain "$1:$kernel" >/dev/null || { echo "$1:$kernel is not understood" >&2; return 1; }
    done
}
export -f explain_all

total=0
for document in "$source"/README.md "$source"/docs/*.md; do
    folder=$scratch/$(basename "$document" .md)
    mkdir -p "$folder/build"
    cp -r "$source"/{include,kernels,examples,README.md,docs} "$folder/"
    mkdir "$folder/test" && cp -r "$source"/test/recordings "$folder/test/"
    ln -s "$build"/headroom "$build"/libheadroom.* "$folder/build/"
    script_of "$document" >"$folder.sh"
    commands=$(grep -cE '^(: line|explain_all)' "$folder.sh") || continue
    (cd "$folder" && bash -euo pipefail -x "$folder.sh") >"$folder.log" 2>&1 </dev/null || {
        echo "$document: a block failed; the last lines of its run:" >&2
        tail -30 "$folder.log" >&2
        exit 1
    }
    total=$((total + commands))
done
echo "$total blocks of the documents ran"
[ "$total" -gt 0 ]
