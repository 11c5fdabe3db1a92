#!/usr/bin/env bash
# The unit tests again, under the address and undefined-behaviour sanitizers.
set -euo pipefail
build=$1/sanitize
cmake -G Ninja -S "$2" -B "$build" --log-level=WARNING -DHEADROOM_SANITIZE=ON \
    -DCMAKE_C_FLAGS_RELWITHDEBINFO="-O1 -g" >/dev/null
ninja -C "$build" >"$build/ninja.log" || { cat "$build/ninja.log"; exit 1; }
# libgomp keeps its threads for the life of the process; that is no leak.
export ASAN_OPTIONS=detect_leaks=1:abort_on_error=0 UBSAN_OPTIONS=print_stacktrace=1
ctest --test-dir "$build" -R '^test_' --parallel 2 --output-on-failure --no-tests=error
