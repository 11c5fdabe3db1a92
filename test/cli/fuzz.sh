#!/usr/bin/env bash
# Feeds every reader the committed corpus, then mutants of it: the whole library by fuzz_inputs (test/fuzz/fuzz_inputs.c).
# `make fuzz` and HR_TEST_LONG=1 let libFuzzer have the parser and the readers of traces and weights, too: it finds its way
# in minutes, and its programs are compiled first. HEADROOM_FUZZ_SECONDS says for how long in all; 60 where it is absent.
set -euo pipefail
seconds=${HEADROOM_FUZZ_SECONDS:-60} others=${HEADROOM_FUZZ_SECONDS:-}${HR_TEST_LONG:-}
[ -z "$others" ] || seconds=$((seconds / 3))
build=$1/fuzz
mkdir -p "$build"
[ -x "$1/test/fuzz_inputs" ] || { echo "skipped: there is no fuzz_inputs"; exit 77; }
found=$(mktemp -d "$build/inputs.XXXXXX")
(cd "$found" && export HEADROOM_CACHE=$found/cache && exec "$1/test/fuzz_inputs" "$2" "$seconds" all "${HEADROOM_FUZZ_SEED:-1}") ||
    { echo "the input that ended it lies in $found"; exit 1; }
rm -rf "$found"
[ -n "$others" ] || exit 0
skip() {
    echo "skipped: $1"
    exit 77
}
command -v clang >/dev/null || skip "clang is not installed"
echo 'int LLVMFuzzerTestOneInput(const char *d, unsigned long n) { return d && n > 9 ? 0 : 0; }' |
    clang -fsanitize=fuzzer -x c - -o /dev/null 2>/dev/null || skip "clang has no libFuzzer (package libclang-rt-dev)"

CC=clang cmake -G Ninja -S "$2" -B "$build" --log-level=WARNING -DHEADROOM_FUZZ=ON >/dev/null
fuzz() { # fuzz TARGET DICTIONARY SEED...
    local target=$1 dictionary=$2 corpus=$build/corpus.$1 program
    ninja -C "$build" "$target" >"$build/ninja.log" || { cat "$build/ninja.log"; exit 1; }
    mkdir -p "$corpus"
    for seed in "${@:3}"; do cp "$seed" "$corpus/$(basename "$(dirname "$seed")").$(basename "$seed")"; done
    program=$(find "$build" -name "$target" -type f -perm -u+x | head -1)
    "$program" -max_total_time="$seconds" -timeout=60 -max_len=8192 -rss_limit_mb=2048 -print_final_stats=1 \
        -dict="$dictionary" -artifact_prefix="$build/" "$corpus"
}
inputs=$2/test/fuzz
fuzz fuzz_parser "$inputs/kernels.dict" "$2"/kernels/*.hr "$inputs"/corpus/*
fuzz fuzz_trace "$inputs/traces.dict" "$inputs"/corpus_trace/*
fuzz fuzz_weights "$inputs/weights.dict" "$inputs"/corpus_weights/*
