#!/usr/bin/env bash
# The unit tests again, under the address and undefined-behaviour sanitizers. Left out are those that compile
# kernel upon kernel: their time is the compiler's, and random programs walk the same code.
set -euo pipefail
build=$1/sanitize
cmake -G Ninja -S "$2" -B "$build" --log-level=WARNING -DHEADROOM_SANITIZE=ON \
    -DCMAKE_C_FLAGS_RELWITHDEBINFO="-O1 -g1" >/dev/null
ninja -C "$build" >"$build/ninja.log" || { cat "$build/ninja.log"; exit 1; }
export ASAN_OPTIONS=detect_leaks=1:abort_on_error=0 UBSAN_OPTIONS=print_stacktrace=1
ctest --test-dir "$build" -R '^test_' -E '^test_(kernels|library|contract|floor|attend|few_rows|guards|shapes|strips|split_axes|rows|row_ends|maps|cuda_library|cuda_user|cuda_compile|cuda_gemm|cuda_attention|cuda_backward|cuda_general|values|cuda_values|shares)$' --parallel 2 --output-on-failure --no-tests=error -LE long
