#!/usr/bin/env bash
# Texts at the depth that the language allows, and hostile ones, are done or refused in 512 KB of stack.
set -uo pipefail
# The environment lies on the stack, too: with a small one the result is the same everywhere.
[ -n "${HR_SMALL-}" ] || exec env -i HR_SMALL=1 PATH="$PATH" HOME="${HOME-/}" TMPDIR="${TMPDIR-/tmp}" \
    ${LD_LIBRARY_PATH+"LD_LIBRARY_PATH=$LD_LIBRARY_PATH"} "$0" "$@"
build=$1 source=$2
headroom=$build/headroom
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
export HEADROOM_CACHE=$work/cache NO_COLOR=1
failed=0
ulimit -s 512 || { echo "skipped: the limit of the stack cannot be set"; exit 77; }

"$build/test/test_parser" >"$work/out" 2>&1 || { echo "test_parser in 512 KB: exit code $?: $(tail -n 5 "$work/out")"; failed=1; }

# deep KIND LEVELS: one expression of so many levels: operators, parentheses, calls of functions, defs of defs
deep() {
    awk -v kind="$1" -v levels="$2" 'BEGIN {
        if (kind == "defs") {
            print "def d0(x) = x + 1"
            for (i = 1; i < levels; i++) printf "def d%d(x) = d%d(x) + 1\n", i, i - 1
        }
        printf "kernel k(x: f32[N]) -> (y: f32[N])\n{\n    y[i] = "
        if (kind == "defs") printf "d%d(x[i])", levels - 1
        else {
            open = kind == "calls" ? "tanh(" : kind == "right" ? "(1 + " : "("
            for (i = 0; i < levels; i++) printf "%s", open
            printf "x[i]"
            for (i = 0; i < levels; i++) printf "%s", kind == "left" ? " * 2)" : ")"
        }
        printf "\n}\n"
    }'
}

for kind in calls right left defs; do
    for levels in 190 5000; do
        deep $kind $levels >"$work/deep.hr"
        for command in "emit --target c" "emit --target cuda:sm_90a" "explain"; do
            "$headroom" ${command%% *} "$work/deep.hr" $([ "$command" = explain ] || echo "${command#* }") >"$work/out" 2>"$work/said"
            code=$?
            if [ $code -ne 0 ] && { [ $code -ne 2 ] || [ ! -s "$work/said" ]; }; then
                echo "$command, $kind, $levels levels: exit code $code"
                failed=1
            fi
        done
    done
done
exit $failed
