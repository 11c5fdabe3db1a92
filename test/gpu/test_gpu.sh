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
"$1/test/gpu_sequence" || failed=1
"$1/test/gpu_tensor"
code=$?
[ $code -eq 0 ] || [ $code -eq 77 ] || failed=1

python3 "$(dirname "$0")/../cli/generate_cuda.py" "$1" "$(dirname "$0")/../.."
code=$?
[ $code -eq 0 ] || [ $code -eq 77 ] || failed=1

if python3 -c 'import sys, torch; sys.exit(not torch.cuda.is_available())' 2>/dev/null; then
    source=$(dirname "$0")/../..
    python3 "$source/test/cli/python_package.py" "$1" "$source" gpu_torch
    code=$?
    [ $code -eq 0 ] || [ $code -eq 77 ] || failed=1
else
    echo "PyTorch with CUDA is not installed: calls with its tensors are left out"
fi

if python3 -c 'import sys, jax; sys.exit(jax.default_backend() != "gpu")' 2>/dev/null; then
    source=$(dirname "$0")/../..
    python3 "$source/test/cli/python_package.py" "$1" "$source" test_jax
    code=$?
    [ $code -eq 0 ] || [ $code -eq 77 ] || failed=1
else
    echo "JAX with CUDA is not installed: kernels in its programs are left out"
fi

sanitizer=$(command -v compute-sanitizer || ls /usr/local/cuda*/bin/compute-sanitizer 2>/dev/null | head -n 1)
if [ -z "$sanitizer" ]; then
    echo "compute-sanitizer is not installed: memcheck and racecheck are left out"
else
    parts=8
    for tool in memcheck racecheck; do
        pids=()
        for ((part = 0; part < parts; part++)); do
            timeout 100 "$sanitizer" --tool $tool --error-exitcode 9 "$program" --small --jobs $parts --part $part \
                >"$1/$tool.$part.log" 2>&1 &
            pids+=($!)
        done
        wrong=0
        for ((part = 0; part < parts; part++)); do
            wait "${pids[part]}" || { wrong=1; grep -E '=========|wrong|differ' "$1/$tool.$part.log" | head -n 20; }
        done
        [ $wrong -eq 0 ] && echo "compute-sanitizer $tool: no errors, $(cat "$1/$tool".*.log | awk '/ kernels, / { n += $1 } END { print n }') kernels"
        [ $wrong -eq 0 ] || failed=1
    done
fi
exit $failed
