#!/usr/bin/env bash
# The C that is emitted of every kernel of the library compiles without a warning with the compilers that users have: gcc
# and clang, for x86-64-v3, v4, znver3 and aarch64, as C99 to C23. What it computes on aarch64 is what it computes here.
# What was emitted for some extents is right at others, or refuses them. `make test` takes a part of the compilations,
# HR_TEST_LONG=1 all.
set -uo pipefail
build=$1 source=$2
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
export HEADROOM_CACHE=$work/cache
failed=0
fail() {
    echo "$*"
    failed=1
}
note() { echo "not tested: $*"; }
warnings="-Wall -Wextra -Wconversion -Wsign-conversion -Werror"
long=${HR_TEST_LONG:-}

for lanes in 4 8 16; do
    mkdir "$work/$lanes"
    "$build/test/emit_c_library" "$work/$lanes" $lanes || exit 1
done

# ---- the matrix ----

number=0
# compile_all LANES COMPILER FLAGS...: of all kernels one in 37, another one each time
compile_all() {
    local lanes=$1 compiler=$2 file mode=-fsyntax-only
    shift 2
    [ -n "$long" ] && mode="-O1 -c -o $work/object.o"
    number=$((number + 1))
    local place=$number
    for file in "$work/$lanes"/*.c; do
        place=$((place + 1))
        [ -n "$long" ] || [ $((place % 37)) = 0 ] || continue
        # shellcheck disable=SC2086
        "$compiler" "$@" $warnings $mode "$file" >"$work/log" 2>&1 ||
            fail "$compiler $* $(basename "$file"):" "$(head -n 12 "$work/log")"
    done
}

compilers=""
for compiler in gcc clang; do
    if command -v $compiler >/dev/null; then compilers+=" $compiler"; else note "$compiler, which is not here"; fi
done
if [ "$(uname -m)" = x86_64 ]; then
    for compiler in $compilers; do
        openmp=
        echo '#include <omp.h>' | $compiler -fopenmp -x c -fsyntax-only - 2>/dev/null && openmp=-fopenmp
        compile_all 8 "$compiler" -std=c99 -march=x86-64-v3 $openmp
        compile_all 16 "$compiler" -std=c11 -march=x86-64-v4 $openmp
        compile_all 8 "$compiler" -std=c17 -march=znver3
        compile_all 16 "$compiler" -std=c2x -march=x86-64-v3 # planned for more lanes than there are
        compile_all 4 "$compiler" -std=gnu99 -march=x86-64
    done
else
    for compiler in $compilers; do compile_all 4 "$compiler" -std=c99; done
fi
cross=aarch64-linux-gnu-gcc
if command -v $cross >/dev/null; then
    compile_all 4 $cross -std=c99 -fopenmp
    compile_all 4 $cross -std=c2x
    case $compilers in *clang*) compile_all 4 clang -std=c11 --target=aarch64-linux-gnu -isystem /usr/aarch64-linux-gnu/include ;; esac
else
    note "aarch64: there is no $cross (tools/setup.sh test installs it)"
fi

# ---- values on aarch64 ----

# A number for each result: of softmax and a product, of values that are no multiples of anything.
cat >"$work/values.c" <<'END'
#include "kernel_linear_gelu_f32.h"
#include "kernel_softmax_f32.h"
#include <stdio.h>
#include <stdlib.h>
enum { M = 7, N = 133, K = 65 };
static float x[M * K], w[N * K], b[N], y[M * N], p[M * N];
_Alignas(64) static char scratch[1 << 24];
int main(void) {
    for (int i = 0; i < M * K; i++) x[i] = (float)(i * 37 % 101) / 50 - 1;
    for (int i = 0; i < N * K; i++) w[i] = (float)(i * 53 % 97) / 48 - 1;
    for (int i = 0; i < N; i++) b[i] = (float)(i % 7) / 7;
    if (CALL_LINEAR) return 1;
    if (kernel_softmax_f32(M, N, y, p, scratch, 2)) return 2;
    for (int m = 0; m < M; m++) printf("%.4f %.4f %.5f %.5f\n", (double)y[m * N], (double)y[m * N + N - 1], (double)p[m * N] * 100, (double)p[m * N + N - 1] * 100);
    return 0;
}
END
# The product's extents stand in the order of its text.
order=$(sed -n 's/^int kernel_linear_gelu_f32(\(.*\)void \*scratch.*/\1/p' "$work/4/kernel_linear_gelu_f32.h" |
    tr ',' '\n' | sed -n 's/.* \**\([nt]_[A-Za-z]*\)$/\1/p' | tr '\n' ' ')
arguments=""
for name in $order; do
    case $name in n_M) v=M ;; n_N) v=N ;; n_K) v=K ;; t_x) v=x ;; t_w) v=w ;; t_b) v=b ;; t_y) v=y ;; *) v=0 ;; esac
    arguments+="$v, "
done
values() { # values COMPILER FLAGS...: prints them
    "$@" -std=c11 -O2 -fno-math-errno -fno-trapping-math -I"$work/4" -D"CALL_LINEAR=kernel_linear_gelu_f32(${arguments}scratch, 2)" \
        "$work/values.c" "$work/4/kernel_linear_gelu_f32.c" "$work/4/kernel_softmax_f32.c" -lm -o "$work/values" >"$work/log" 2>&1 ||
        fail "$*: $(head -n 12 "$work/log")"
}
values cc -fopenmp
"$work/values" >"$work/here" || fail "what was emitted for this machine returns $?"
if command -v $cross >/dev/null && command -v qemu-aarch64 >/dev/null; then
    values $cross -fopenmp -static
    qemu-aarch64 "$work/values" >"$work/there" || fail "what was emitted returns $? on aarch64"
    diff "$work/here" "$work/there" >"$work/log" || fail "aarch64 computes other values:" "$(head "$work/log")"
else
    note "values on aarch64: that takes $cross and qemu-aarch64"
fi

# ---- threads of the caller's ----

cat >"$work/parts.c" <<'END'
#include "kernel_column_sum_f32.h"
#include "kernel_linear_gelu_f32.h"
#include "kernel_softmax_f32.h"
#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
enum { M = 301, N = 1500, K = 65, PARTS = 3, CALLS = 5 };
static float x[M * N], w[N * K], b[N], y[M * N], p[M * N], s[N];
_Alignas(64) static char scratch[1 << 24], team[1 << 16];
static void *part_of(void *number) {
    const int part = (int)(intptr_t)number;
    for (int call = 0; call < CALLS; call++) {
        if (PART_LINEAR) return "linear";
        if (kernel_softmax_f32_part(M, N, y, p, scratch, team, part, PARTS)) return "softmax";
        if (kernel_column_sum_f32_part(M, N, x, s, scratch, team, part, PARTS)) return "sum";
    }
    return NULL;
}
int main(void) {
    static float y1[M * N], p1[M * N], s1[N];
    pthread_t threads[PARTS];
    for (int i = 0; i < M * N; i++) x[i] = (float)(i * 37 % 101) / 50 - 1;
    for (int i = 0; i < N * K; i++) w[i] = (float)(i * 53 % 97) / 48 - 1;
    if (kernel_linear_gelu_f32_team(PARTS) > (int64_t)sizeof team || kernel_softmax_f32_scratch(M, N, PARTS) > (int64_t)sizeof scratch) return 1;
    if (CALL_LINEAR || kernel_softmax_f32(M, N, y, p, scratch, 2) || kernel_column_sum_f32(M, N, x, s, scratch, 2)) return 2;
    memcpy(y1, y, sizeof y), memcpy(p1, p, sizeof p), memcpy(s1, s, sizeof s);
    memset(y, 0, sizeof y), memset(p, 0, sizeof p), memset(s, 0, sizeof s);
    for (int i = 0; i < PARTS; i++) pthread_create(&threads[i], NULL, part_of, (void *)(intptr_t)i);
    for (int i = 0; i < PARTS; i++) {
        void *failed;
        pthread_join(threads[i], &failed);
        if (failed) return printf("%s refuses\n", (char *)failed), 3;
    }
    for (int i = 0; i < M * N; i++)
        if (fabsf(y[i] - y1[i]) > 1e-5f || fabsf(p[i] - p1[i]) > 1e-6f) return printf("[%d] %g %g, %g %g\n", i, (double)y[i], (double)y1[i], (double)p[i], (double)p1[i]), 4;
    for (int i = 0; i < N; i++)
        if (fabsf(s[i] - s1[i]) > 1e-3f) return printf("[%d] %g %g\n", i, (double)s[i], (double)s1[i]), 5;
    if (kernel_softmax_f32_part(M, N, y, p, scratch, team, PARTS, PARTS) != -1) return 6;
    return 0;
}
END
for openmp in "" -fopenmp; do
    # shellcheck disable=SC2086
    cc -std=c11 -O1 -march=native $openmp -fno-math-errno -fno-trapping-math -I"$work/8" "-DCALL_LINEAR=kernel_linear_gelu_f32(${arguments}scratch, 2)" \
        "-DPART_LINEAR=kernel_linear_gelu_f32_part(${arguments}scratch, team, part, PARTS)" -Wno-overflow "$work/parts.c" \
        "$work"/8/kernel_{linear_gelu,softmax,column_sum}_f32.c -lm -lpthread -o "$work/parts" >"$work/log" 2>&1 || fail "$(head -n 12 "$work/log")"
    "$work/parts" || fail "parts on threads of the caller's${openmp:+, with OpenMP}: check $?"
done

# ---- other extents than those that it was emitted for ----

cat >"$work/pick.hr" <<'END'
kernel pick(x: f32[N]) -> (w: f32[M])
{
    w[m] = sum[n](where((m * N + n) % 5 == 0, x[n], 0))
}

kernel far(x: f32[N]) -> (w: f32[M])
{
    w[m] = sum[n](where((m * 40000 * N + n) % 5 == 0, x[n], 0))
}

kernel am(x: bf16[M, N]) -> (a: i64[N])
{
    a[n] = argmax[m](x[m, n])
}
END
cat >"$work/other.c" <<'END'
#include "made/by/name.h"
#include "made/kernel_am.h"
#include "made/kernel_far.h"
#include <stdio.h>
#include <stdlib.h>
_Alignas(64) static char scratch[1 << 22];
static float x[50000], w[50000];
/* N % 5 = 0, and x is 1 at each fifth place: a row's sum is N / 5 in each row. */
static int pick(int (*of)(int64_t, int64_t, const float *, float *, void *, int), int64_t n, int64_t m) {
    for (int64_t i = 0; i < n; i++) x[i] = i % 5 == 0;
    for (int64_t i = 0; i < m; i++) w[i] = -1;
    int code = of(n, m, x, w, scratch, 2);
    for (int64_t i = 0; i < m; i++)
        if (w[i] != (code ? -1 : (float)(n / 5))) return printf("pick of %lld, %lld: code %d, w[%lld] = %g\n", (long long)n, (long long)m, code, (long long)i, (double)w[i]), 99;
    return code;
}
static int am(int64_t rows) {
    enum { N = 2 };
    uint16_t *of = calloc((size_t)rows, N * sizeof *of);
    int64_t at[N] = {-9, -9}, want[N] = {rows - 1, rows / 2};
    if (!of) return 98;
    for (int n = 0; n < N; n++) of[want[n] * N + n] = 0x3f80; /* 1 */
    int code = kernel_am(rows, N, of, at, scratch, 2);
    for (int n = 0; n < N; n++)
        if (at[n] != (code ? -9 : want[n])) return printf("argmax of %lld: code %d, a[%d] = %lld\n", (long long)rows, code, n, (long long)at[n]), 99;
    free(of);
    return code;
}
int main(void) {
    if (name_scratch(50000, 50000, 2) != -1) return 1;
    if (pick(name, 1000, 4) != 0 || pick(name, 50000, 300) != 0) return 2;
    if (pick(name, 50000, 50000) != -1) return 3; /* for its extents alone */
    if (pick(name, -1, 4) != -1) return 4;
    if (pick(kernel_far, 1000, 4) != 0 || pick(kernel_far, 5000, 300) != 0) return 5; /* past 32 bits */
    if (pick(kernel_far, -1, 4) != -1 || kernel_far_scratch(5000, 300, 2) > (int64_t)sizeof scratch) return 6;
    if (am(16384) != 0 || am((1 << 24) - 1) != 0) return 7;
    if (am((1 << 24) + 1001) != 0) return 8;
    return 0;
}
END
cd "$work" || exit 1
"$build/headroom" emit pick.hr:pick N=1000 M=4 --name name --fixed -o made/by/ >log && "$build/headroom" emit pick.hr:far N=1000 M=4 -o made >>log && "$build/headroom" emit pick.hr:am M=16384 N=4096 -o made/kernel_am.c >>log ||
    fail "$(cat log)"
# shellcheck disable=SC2086
cc -std=c11 -O1 -march=native -fopenmp -fno-math-errno -fno-trapping-math -fno-strict-aliasing -Wall -Wextra -Werror other.c made/by/name.c made/kernel_{am,far}.c -lm -o other >log 2>&1 ||
    fail "$(head -n 20 log)"
./other || fail "called at other extents: check $?"

# ---- every processor: each level that this one has computes the same ----

"$build/headroom" emit "$source/kernels/softmax.hr" T=f32 M=64 N=4096 --target c:x86-64 -o levels >log || fail "$(cat log)"
"$build/headroom" emit "$source/kernels/sum.hr:column_sum" T=bf16 M=64 N=4096 --target c:x86-64 -o levels >>log || fail "$(cat log)"
grep -h '#pragma omp' levels/*.c made/*.c | sort -u >log
grep -vE '^ *#pragma omp (barrier|simd( .*)?|parallel( .*)?|atomic( .*)?|for( .*)?|critical( .*)?)$' log && fail "OpenMP does not know these"
# FUNCTION of X, R rows of results: softmax rows, sums one.
cat >levels.c <<'END'
#include SOURCE
#include <stdio.h>
enum { ROWS = 37, LONG = 4099 };
_Alignas(64) static char memory[1 << 24];
static float x[ROWS * LONG], y[4][ROWS * LONG];
static uint16_t z[ROWS * LONG];
static int differs(int a, int b) {
    for (int i = 0; i < ROWS * LONG; i++)
        if (fabsf(y[a][i] - y[b][i]) > 1e-5f * (fabsf(y[a][i]) + 1)) return 1;
    return 0;
}
#define JOIN(a, b) a##b
#define OF(name, level, to) JOIN(name, level)(ROWS, LONG, X, y[to], memory, 2)
int main(void) {
    const int level = JOIN(FUNCTION, _level)();
    for (int i = 0; i < ROWS * LONG; i++) x[i] = (float)(i * 37 % 101) / 9, z[i] = (uint16_t)(0x3f80 + i % 90);
    if (OF(FUNCTION, _plain, 0)) return 1;
#if defined __x86_64__
    if (level <= 1 && (OF(FUNCTION, _avx2, 1) || differs(0, 1))) return 2;
    if (level == 0 && (OF(FUNCTION, _avx512, 2) || differs(0, 2))) return 3;
#endif
    if (OF(FUNCTION, , 3) || differs(0, 3)) return 4;
    if (FUNCTION(-1, LONG, X, y[2], memory, 2) != -1) return 5;
    return printf("level %d, %d\n", level, (int)(sizeof x + sizeof z) == 0) < 0;
}
END
sed -i 's/#define JOIN(a, b) a##b/#define JOIN_(a, b) a##b\n#define JOIN(a, b) JOIN_(a, b)/' levels.c
level_test() { # level_test RUN COMPILER FLAGS...
    local run=$1
    shift
    for of in softmax_f32:x column_sum_bf16:z; do
        # shellcheck disable=SC2086
        "$@" $openmp -std=c11 -O1 -fno-math-errno -fno-trapping-math "-DFUNCTION=kernel_${of%:*}" -DX=${of#*:} "-DSOURCE=\"levels/kernel_${of%:*}.c\"" \
            levels.c -lm -o levels_test >log 2>&1 || fail "$*: $(head -n 20 log)"
        $run ./levels_test >log || fail "levels of ${of%:*} with $*: check $?"
    done
}
for compiler in $compilers; do
    openmp=
    echo '#include <omp.h>' | $compiler -fopenmp -x c -fsyntax-only - 2>/dev/null && openmp=-fopenmp
    level_test "" "$compiler" -D_FORTIFY_SOURCE=2 # as Ubuntu's does where nobody asks
    # shellcheck disable=SC2086
    $compiler -std=c11 $warnings -O1 -c levels/kernel_softmax_f32.c -o levels.o >log 2>&1 || fail "$compiler: $(head -n 20 log)"
done
if command -v $cross >/dev/null && command -v qemu-aarch64 >/dev/null; then openmp= level_test qemu-aarch64 $cross -static; fi

# ---- results that may be NULL: what a backward pass reads ----

# Rows that go side by side, through a pipeline, and pass after pass.
for columns in 64 1000 70000; do
    "$build/headroom" emit "$source/kernels/layernorm.hr" T=f32 M=64 N=$columns --name ln_$columns -o made >log || fail "$(cat log)"
    grep -q 't_mean: out f32\[M\], may be NULL' made/ln_$columns.h || fail "ln_$columns.h does not say what may be NULL"
    grep -q 't_y: out f32\[M, N\]$' made/ln_$columns.h || fail "ln_$columns.h says that y may be NULL"
done
cat >null.c <<'END'
#include "made/ln_1000.h"
#include "made/ln_64.h"
#include "made/ln_70000.h"
#include <stdlib.h>
#include <string.h>
enum { M = 9, MOST = 70000 };
_Alignas(64) static char scratch[1 << 24];
static float x[M * MOST], w[MOST], b[MOST], y[M * MOST], alone[M * MOST], mean[M], rstd[M];
#define SAME(n)                                                                                          \
    (memset(y, 0, sizeof y), memset(alone, 1, sizeof alone),                                             \
     ln_##n(M, n, x, w, b, 1e-5f, y, mean, rstd, scratch, 2) == 0 &&                                     \
         ln_##n(M, n, x, w, b, 1e-5f, alone, NULL, NULL, scratch, 2) == 0 &&                             \
         memcmp(y, alone, sizeof(float) * M * n) == 0 && rstd[M - 1] != 0)
/* Of rows so short that each statement is a stage of its own. */
#define SHORT 3
int main(void) {
    for (int i = 0; i < M * MOST; i++) x[i] = (float)(i * 37 % 101) / 50 - 1;
    for (int i = 0; i < MOST; i++) w[i] = (float)(i % 7), b[i] = (float)(i % 5);
    if (ln_1000_scratch(M, SHORT, 2) > (int64_t)sizeof scratch) return 4;
    memset(alone, 1, sizeof alone);
    if (ln_1000(M, SHORT, x, w, b, 1e-5f, y, mean, rstd, scratch, 2) || ln_1000(M, SHORT, x, w, b, 1e-5f, alone, NULL, NULL, scratch, 2)) return 5;
    if (memcmp(y, alone, sizeof(float) * M * SHORT) || rstd[M - 1] == 0) return 6;
    return SAME(64) ? SAME(1000) ? SAME(70000) ? 0 : 3 : 2 : 1;
}
END
# shellcheck disable=SC2086
cc -std=c11 -O1 -march=native -fopenmp -fno-math-errno -fno-trapping-math null.c made/ln_*.c -lm -o null >log 2>&1 || fail "$(head -n 20 log)"
./null || fail "results that are NULL: check $?"

# The line that says how to build a file names it.
"$build/headroom" emit pick.hr:pick -o made/own.c >log && grep -q -e '-c own\.c -lm \*/$' made/own.c made/own.h || fail "own.c says how to build another file"
"$build/headroom" emit pick.hr:pick --name other --target cuda -o made/own.cu >log && grep -q -e '-c own\.cu \*/$' made/own.cu made/own.h || fail "own.cu says how to build another file"

"$build/headroom" emit pick.hr:pick --name 2bad >log 2>&1 && fail "a name that no function can have is taken"
grep -q 'is no name for a function' log || fail "nothing says so: $(cat log)"
exit $failed
