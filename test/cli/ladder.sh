#!/usr/bin/env bash
# headroom ladder and headroom sweep: what they say without a device, wrong words, and the whole way on a GPU that is
# none: its kernels leave nothing, so that each step is told to be wrong.
set -uo pipefail
build=$1 source=$2
headroom=$build/headroom
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
export HEADROOM_CACHE=$work/cache NO_COLOR=1 LC_ALL=C.UTF-8
failed=0

# expect CODE WORDS ARGUMENT...
expect() {
    local code=$1 words=$2 got
    shift 2
    "$headroom" "$@" </dev/null >"$work/out" 2>&1
    got=$?
    if [ $got -ne "$code" ] || ! grep -qF -- "$words" "$work/out"; then
        printf 'headroom %s: exit code %s, should be %s and say "%s":\n' "$*" "$got" "$code" "$words"
        head -c 2000 "$work/out"
        failed=1
    fi
}

# ---- the ladder's steps ----
for ladder in gemm softmax attention; do
    files=("$source"/src/ladder/steps/$ladder/[0-9]*.cu)
    steps=${#files[@]}
    expect 0 "  $steps  as planned" ladder $ladder --list
    for number in $(seq "$steps"); do
        expect 0 "" ladder $ladder --show "$number"
        grep -qxF -f "$work/out" "${files[number - 1]}" || { echo "$ladder: --show $number shows another file"; failed=1; }
        diff <(tail -n "$(wc -l <"${files[number - 1]}")" "$work/out") "${files[number - 1]}" >/dev/null || {
            echo "$ladder: --show $number does not end with ${files[number - 1]}"
            failed=1
        }
    done
    expect 2 "$ladder has steps 1 to $steps, and no $((steps + 1))" ladder $ladder --show $((steps + 1))
done
expect 2 "which ladder? Possible are gemm, softmax, attention." ladder
expect 2 'there is no ladder "gem"; did you mean gemm?' ladder gem
expect 2 '"0" is neither a size (M=4096) nor the number of one step' ladder gemm 0
expect 2 '"3" is neither a size (M=4096) nor the number of one step' ladder gemm 2 3
expect 2 "--show takes the number of a step" ladder gemm --show last
expect 2 "cannot write into its folder /absent" ladder gemm -o /absent/a.html
expect 2 "kernel matmul has no \"Q\"" ladder gemm Q=4 --device cpu
expect 3 "the steps of a ladder are CUDA" ladder gemm --device cpu

# ---- on a device that computes nothing ----
fake=$build/test/fake_cuda.so
export HEADROOM_LIBCUDA=$fake HEADROOM_NVRTC=$fake
expect 2 "M = 77: the steps of gemm take multiples of 128" ladder gemm M=77 --device cuda
expect 2 "N = 65536: the steps of softmax take multiples of 8 up to 32768" ladder softmax M=4 N=64k --device cuda
expect 1 "step 8 gives a wrong result" ladder gemm 8 M=128 N=256 K=64 --device cuda -o "$work/page.html"
[ "$(grep -c '^ *[0-9]\{1,2\}  [a-z].*WRONG' "$work/out")" = 1 ] || { echo "one step was asked for:"; cat "$work/out"; failed=1; }
grep -q "<svg class='bars'" "$work/page.html" && grep -q 'rows_as_they_lie layout' "$work/page.html" ||
    { echo "the page lacks its bars or its source"; failed=1; }

# ---- ranges of a sweep ----
expect 2 "which kernel?" sweep
expect 2 "which extent? Give one a range" sweep softmax M=4
for range in 1.. 4..1 0..4 1..8:0 1..x 1,,2 1,x; do
    expect 2 "N=$range: a range is FROM..TO" sweep softmax M=4 "N=$range"
done
expect 2 "M=1..2 and N=1,2: one extent at a time" sweep softmax M=1..2 N=1,2
expect 2 "kernel softmax has no \"Q\"" sweep softmax Q=1..2
expect 2 "can be read once" sweep - M=1..2

# values RANGE LIST: the values that are measured
values() {
    expect 0 '"points"' sweep softmax M=2 "N=$1" --device cuda --no-verify --json
    local got
    got=$(sed -n 's/^ *"value": \([0-9]*\),/\1/p' "$work/out" | tr '\n' ' ')
    [ "$got" = "$2 " ] || { echo "N=$1 measures $got, should be $2"; failed=1; }
}
values 1..8 "1 2 3 4 6 8"
values 5..20:7 "5 12 19 20"
values 9,3,9 "3 9"
expect 0 "◂ knee" sweep softmax M=2 N=4,8 --device cuda --no-verify -o "$work/sweep.html"
grep -q "<polyline" "$work/sweep.html" || { echo "the sweep's page has no plot"; failed=1; }

# ---- Ctrl-C keeps what was measured; a slow machine gets more time for its first point ----
for seconds in 1 4 16 64; do
    timeout --preserve-status -s INT $seconds "$headroom" sweep softmax M=2 N=8..4096:8 --device cuda --no-verify >"$work/out" 2>&1
    code=$?
    rows=$(grep -c "  launch" "$work/out")
    [ "$rows" -gt 0 ] && break
done
[ $code = 130 ] && [ "$rows" -gt 0 ] && [ "$rows" -lt 512 ] && grep -q "knee" "$work/out" || {
    echo "a sweep that was stopped: exit code $code, $rows rows"
    tail -3 "$work/out"
    failed=1
}
exit $failed
