#!/usr/bin/env bash
# examples/ as a user builds them: against an installation, shared and static and by CMake. Each computes what plain
# arithmetic says, and layernorm.c tells its floor.
set -euo pipefail
build=$1 source=$2
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
prefix=$scratch/prefix
export HEADROOM_CACHE=$scratch/cache
if [ -d "$build/roofs" ]; then cp -r "$build/roofs" "$scratch/cache"; fi # the test of that name measures them
cmake --install "$build" --prefix "$prefix" >"$scratch/install.log" || { cat "$scratch/install.log"; exit 1; }
PKG_CONFIG_PATH=$(dirname "$(find "$prefix" -name headroom.pc)")
library=$(pkg-config --with-path="$PKG_CONFIG_PATH" --variable=libdir headroom)
export PKG_CONFIG_PATH
cd "$scratch"

# shellcheck disable=SC2046 # the flags are words
{
    cc -std=c11 -Wall -Wextra -Wpedantic -Werror "$source/examples/layernorm.c" $(pkg-config --cflags --libs headroom) \
        -o shared
    cc -std=c11 "$source/examples/layernorm.c" $(pkg-config --cflags headroom) "$library/libheadroom.a" \
        $(pkg-config --static --libs headroom | sed 's/-lheadroom//') -o static
}
if ldd static | grep -q libheadroom; then
    echo "the static build needs libheadroom.so" >&2
    exit 1
fi
mkdir project
cat >project/CMakeLists.txt <<END
cmake_minimum_required(VERSION 3.20)
project(user LANGUAGES C)
find_package(headroom 0.1 REQUIRED)
add_executable(user $source/examples/layernorm.c)
target_link_libraries(user PRIVATE headroom::headroom)
END
cmake -S project -B project/build -DCMAKE_PREFIX_PATH="$prefix" >project.log 2>&1 &&
    cmake --build project/build >>project.log 2>&1 || { cat project.log >&2; exit 1; }

row=$(awk 'BEGIN { N = 1024; for (n = 0; n < N; n++) { x = ((5 * N + n) % 2003) / 1000; s += x; q += x * x }
    m = s / N; r = 1 / sqrt(q / N - m * m + 1e-5); x = ((5 * N + 7) % 2003) / 1000
    printf "y[5, 7] = %.4f, mean[5] = %.4f, rstd[5] = %.4f", (x - m) * r, m, r }')
kernel=$(pkg-config --variable=kernels headroom)/layernorm.hr
for program in "env LD_LIBRARY_PATH=$library ./shared" ./static project/build/user; do
    got=$($program "$kernel")
    printf '%s\n' "$got"
    [ "$(head -1 <<<"$got")" = "$row" ] || { echo "expected: $row" >&2; exit 1; }
    grep -qE '^[0-9.]+ ms; the floor is [0-9.]+ ms \([a-z]+\): [0-9.]+x$' <<<"$got" ||
        { echo "no line about the floor" >&2; exit 1; }
done

# A list of arrays: 3 and 4 have the norm 5, and are scaled by a fifth.
# shellcheck disable=SC2046
cc -std=c11 -Wall -Wextra -Wpedantic -Werror "$source/examples/clip.c" $(pkg-config --cflags --libs headroom) -o clip
got=$(LD_LIBRARY_PATH=$library ./clip "$(pkg-config --variable=kernels headroom)/clip_norm.hr")
[ "$got" = "norm 5.000, clipped to 0.600 and 0.800" ] || { echo "clip: $got" >&2; exit 1; }

# A file that is not there is a sentence and exit code 2.
code=0
message=$(./static nothing.hr 2>&1) || code=$?
[ "$code" = 2 ] && grep -q 'nothing.hr' <<<"$message" || { echo "exit $code: $message" >&2; exit 1; }
