#!/usr/bin/env bash
# Feeds the parser mutated text for a short while. HEADROOM_FUZZ_SECONDS says how long; 20 where it is absent.
set -euo pipefail
seconds=${HEADROOM_FUZZ_SECONDS:-20}
build=$1/fuzz
skip() {
    echo "skipped: $1"
    exit 77
}
command -v clang >/dev/null || skip "clang is not installed"
echo 'int LLVMFuzzerTestOneInput(const char *d, unsigned long n) { return d && n > 9 ? 0 : 0; }' |
    clang -fsanitize=fuzzer -x c - -o /dev/null 2>/dev/null || skip "clang has no libFuzzer (package libclang-rt-dev)"

CC=clang cmake -G Ninja -S "$2" -B "$build" --log-level=WARNING -DHEADROOM_FUZZ=ON >/dev/null
for source in "$2"/test/fuzz/fuzz_*.c; do
    target=$(basename "$source" .c)
    ninja -C "$build" "$target" >"$build/ninja.log" || { cat "$build/ninja.log"; exit 1; }
    corpus=$build/corpus.$target
    mkdir -p "$corpus"
    cp "$2"/kernels/*.hr "$corpus/"
    cp "$2"/test/fuzz/corpus/* "$corpus/"
    program=$(find "$build" -name "$target" -type f -perm -u+x | head -1)
    "$program" -max_total_time="$seconds" -timeout=10 -max_len=8192 -rss_limit_mb=2048 -print_final_stats=1 \
        -dict="$2/test/fuzz/kernels.dict" -artifact_prefix="$build/" "$corpus"
done
