#!/usr/bin/env bash
# The checks that need a GPU: test_gpu.sh BUILD_FOLDER. Ends with 77 where there is none, and says so.
set -uo pipefail
build=$1
program=$build/test/gpu_library
failed=0
source=$(dirname "$0")/../..

# check COMMAND...: 0 is good, and so is 77, which says why it was skipped
check() {
    "$@"
    local code=$?
    [ $code -eq 0 ] || [ $code -eq 77 ] || failed=1
}

# check_in_python FRAMEWORK CONDITION TEST LEFT_OUT: where the framework sees a GPU
check_in_python() {
    if python3 -c "import sys, $1; sys.exit(not $2)" 2>/dev/null; then
        check python3 "$source/test/cli/python_package.py" "$build" "$source" "$3"
    else
        echo "$4"
    fi
}

"$program"
code=$?
[ $code -eq 77 ] && exit 77
[ $code -eq 0 ] || failed=1
"$build/test/gpu_lists" || failed=1
"$build/test/gpu_sequence" || failed=1
check "$build/test/gpu_tensor"
check python3 "$source/test/cli/generate_cuda.py" "$build" "$source"
check_in_python torch 'torch.cuda.is_available()' gpu_torch \
    "PyTorch with CUDA is not installed: calls with its tensors are left out"
check_in_python jax '(jax.default_backend() == "gpu")' test_jax \
    "JAX with CUDA is not installed: kernels in its programs are left out"

sanitizer=$(command -v compute-sanitizer || ls /usr/local/cuda*/bin/compute-sanitizer 2>/dev/null | head -n 1)
if [ -z "$sanitizer" ]; then
    echo "compute-sanitizer is not installed: memcheck and racecheck are left out"
else
    parts=8
    for tool in memcheck racecheck; do
        pids=()
        for ((part = 0; part < parts; part++)); do
            timeout 100 "$sanitizer" --tool $tool --error-exitcode 9 "$program" --small --jobs $parts --part $part \
                >"$build/$tool.$part.log" 2>&1 &
            pids+=($!)
        done
        wrong=0
        for ((part = 0; part < parts; part++)); do
            wait "${pids[part]}" || { wrong=1; grep -E '=========|wrong|differ' "$build/$tool.$part.log" | head -n 20; }
        done
        [ $wrong -eq 0 ] && echo "compute-sanitizer $tool: no errors, $(cat "$build/$tool".*.log | awk '/ kernels, / { n += $1 } END { print n }') kernels"
        [ $wrong -eq 0 ] || failed=1
    done
fi
exit $failed
