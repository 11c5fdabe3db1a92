#!/usr/bin/env bash
# The checks that need a GPU: test_gpu.sh BUILD_FOLDER. Ends with 77 where there is none, and says so.
set -uo pipefail
program=$1/test/gpu_library
failed=0
"$program"
code=$?
[ $code -eq 77 ] && exit 77
[ $code -eq 0 ] || failed=1
"$1/test/gpu_lists" || failed=1

sanitizer=$(command -v compute-sanitizer || ls /usr/local/cuda*/bin/compute-sanitizer 2>/dev/null | head -n 1)
if [ -z "$sanitizer" ]; then
    echo "compute-sanitizer is not installed: memcheck and racecheck are left out"
else
    for tool in memcheck racecheck; do
        echo "compute-sanitizer $tool"
        timeout 200 "$sanitizer" --tool $tool --error-exitcode 9 "$program" --small --jobs 1 >"$1/sanitizer_$tool.log" 2>&1 ||
            { failed=1; grep -E '=========|wrong|differ' "$1/sanitizer_$tool.log" | head -n 40; }
        tail -n 2 "$1/sanitizer_$tool.log"
    done
fi
exit $failed
