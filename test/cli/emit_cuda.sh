#!/usr/bin/env bash
# headroom emit --target cuda needs no GPU; what it writes compiles with nvcc, links into a program that knows nothing of
# headroom, and is as good for C as for C++.
set -euo pipefail
build=$1 source=$2
headroom=$build/headroom
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
export HEADROOM_CACHE=$work/cache
fail() {
    echo "$*" >&2
    exit 1
}

# In bf16, a GPU's default. One of each shape: map, row, column beside row, gather, scatter, contract, several stages
emitted="bias_gelu layernorm layernorm_backward embedding embedding_backward linear softmax"
for kernel in $emitted; do
    "$headroom" emit "$source/kernels/$kernel.hr" --target cuda -o "$work" >"$work/log" || fail "$(cat "$work/log")"
    grep -qx "wrote $work/kernel_${kernel}_bf16.h" "$work/log" || fail "kernel_${kernel}_bf16.h is not announced"
    grep -qx "wrote $work/kernel_${kernel}_bf16.cu" "$work/log" || fail "kernel_${kernel}_bf16.cu is not announced"
    [ -s "$work/kernel_${kernel}_bf16.cu" ] && [ -s "$work/kernel_${kernel}_bf16.h" ] || fail "$kernel: an empty file"
    grep -qiE '#include *[<"]headroom' "$work"/kernel_"$kernel"_bf16.* && fail "$kernel needs a header of headroom"
    cc -std=c11 -Wall -Wextra -Werror -fsyntax-only -x c "$work/kernel_${kernel}_bf16.h" || fail "kernel_${kernel}_bf16.h is no C"
    c++ -std=c++17 -Wall -Werror -fsyntax-only -x c++ "$work/kernel_${kernel}_bf16.h" || fail "kernel_${kernel}_bf16.h is no C++"
done
"$headroom" emit "$source/kernels/softmax.hr" --target cuda >"$work/printed"
grep -q '__global__' "$work/printed" || fail "no kernel on standard output"

nvcc=$(command -v nvcc || ls /usr/local/cuda*/bin/nvcc 2>/dev/null | tail -n 1)
if [ -z "$nvcc" ]; then
    echo "skipped: no nvcc here to compile the sources with"
    exit 77
fi
objects=()
compile() { # compile KERNEL ARCHITECTURE OBJECT
    "$nvcc" -std=c++17 -gencode "arch=compute_${2#sm_},code=$2" -Xcompiler -Wall -c "$work/kernel_$1_bf16.cu" -o "$work/$3" >"$work/$3.log" 2>&1 ||
        fail "$1 for $2: $(head -n 20 "$work/$3.log")"
    [ ! -s "$work/$3.log" ] || fail "$1 for $2 has warnings: $(head -n 20 "$work/$3.log")"
}
for kernel in $emitted; do
    compile "$kernel" sm_90a "$kernel.o"
    objects+=("$work/$kernel.o")
done
for arch in sm_80 sm_100a; do
    "$headroom" emit "$source/kernels/layernorm.hr" --target cuda:$arch -o "$work" >"$work/log"
    compile layernorm $arch other.o
done

# The fast path alone; several extents in one file; a shape that divides.
"$headroom" emit "$source/kernels/layernorm.hr" --target cuda --fixed M=4096 N=1024 --name ln_1024 -o "$work" >"$work/log"
"$headroom" emit "$source/kernels/layernorm.hr" --target cuda M=4096 N=1000 --name ln_1000 -o "$work" >"$work/log"
grep -q '_general' "$work/ln_1024.cu" && fail "--fixed leaves a general path in"
grep -q 'N is 1000' "$work/ln_1000.h" || fail "ln_1000.h does not say what its fast path is for"
grep -q 't_mean: out f32\[M\], may be NULL' "$work/ln_1000.h" || fail "ln_1000.h does not say what may be NULL"
printf 'kernel half(x: f32[N]) -> (y: f32[N // 2])\n{\n    y[i] = x[2 * i] + x[2 * i + 1]\n}\n' >"$work/half.hr"
"$headroom" emit "$work/half.hr" --target cuda -o "$work" >"$work/log"
printf '#include "ln_1024.cu"\n#include "ln_1000.cu"\n#include "kernel_half.cu"\n' >"$work/several.cu"
"$nvcc" -std=c++17 -arch=sm_90a -Xcompiler -Wall -c "$work/several.cu" -o "$work/several.o" >"$work/log" 2>&1 || fail "$(head -n 20 "$work/log")"
[ ! -s "$work/log" ] || fail "several kernels in one file have warnings: $(head -n 20 "$work/log")"

# A C program that calls every launcher: the names and the linkage are right.
{
    for kernel in $emitted; do echo "#include \"kernel_${kernel}_bf16.h\""; done
    echo 'int main(void) {'
    echo '    void *functions[] = {'
    for kernel in $emitted; do
        name=$(grep -oE '[a-z_0-9]+\(' "$work/kernel_${kernel}_bf16.h" | grep -E "${kernel}_bf16" | tail -n 1)
        echo "        (void *)${name%(},"
    done
    echo '    };'
    echo '    for (unsigned i = 0; i < sizeof functions / sizeof *functions; i++)'
    echo '        if (!functions[i]) return 1;'
    echo '    return 0;'
    echo '}'
} >"$work/main.c"
cc -std=c11 -I"$work" -c "$work/main.c" -o "$work/main.o"
"$nvcc" -arch=sm_90a "$work/main.o" "${objects[@]}" -o "$work/program" >"$work/log" 2>&1 || fail "$(cat "$work/log")"
"$work/program" || fail "the program that was linked does not start"
