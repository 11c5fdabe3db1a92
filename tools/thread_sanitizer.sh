#!/usr/bin/env bash
# The unit tests again, under ThreadSanitizer: those that run under sanitizers in `make test`.
#
# in: thread_sanitizer.sh BUILD SOURCE [REGULAR-EXPRESSION OF TESTS]
set -euo pipefail
build=$1/threads source=$2 tests=${3:-^test_}
echo 'int main(void) { return 0; }' | cc -fsanitize=thread -x c - -o /dev/null 2>/dev/null || {
    echo "skipped: the compiler has no ThreadSanitizer"
    exit 77
}
cmake -G Ninja -S "$source" -B "$build" --log-level=WARNING -DHEADROOM_SANITIZERS=thread >/dev/null
# What runs without sanitizers in `make test` does so here, too, and would show nothing.
without=$(sed -n '/^set(WITHOUT_SANITIZERS/,/)/p' "$source/test/CMakeLists.txt" | sed 's/set(WITHOUT_SANITIZERS//; s/)//' | tr -s ' \n' '|')
targets=$(ctest --test-dir "$build" -N -LE long -R "$tests" | sed -n 's/.*: \(test_[a-z0-9_]*\)$/\1/p' | grep -vE "^test_(${without#|}none)$")
ninja -C "$build" $targets >"$build/ninja.log" || { cat "$build/ninja.log"; exit 1; }
# The emulated GPU takes the sanitizer's calls for itself; it cannot see what OpenMP's threads wait for.
for target in $targets; do
    if nm "$build/test/$target" | grep -E '(T __tsan_read8|U GOMP_barrier|U GOMP_parallel)' >/dev/null; then # to its end, or nm fails
        echo "left out: $target"
        targets=$(grep -vx "$target" <<<"$targets")
    fi
done
# Nor the lock of the system's loader.
echo 'called_from_lib:ld-linux' >"$build/suppressions"
export TSAN_OPTIONS="suppressions=$build/suppressions halt_on_error=1 second_deadlock_stack=1 report_signal_unsafe=0 die_after_fork=0"
ctest --test-dir "$build" -R "^($(tr '\n' '|' <<<"$targets" | sed 's/|$//'))$" --output-on-failure --no-tests=error
