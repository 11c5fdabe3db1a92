#!/usr/bin/env bash
# An installation is whole: a program finds the library by pkg-config and by CMake's find_package, and runs.
set -euo pipefail
build=$1
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
prefix=$scratch/prefix

cmake --install "$build" --prefix "$prefix" >/dev/null
library=$(dirname "$(find "$prefix" -name libheadroom.so)")
test -f "$prefix/share/headroom/kernels/layernorm.hr"
(cd "$scratch" && "$prefix/bin/headroom" emit softmax | grep -q kernel_softmax) # by its name, from there
test -f "$prefix/share/zsh/site-functions/_headroom"
test -f "$prefix/share/fish/vendor_completions.d/headroom.fish"

mkdir "$scratch/user"
cat >"$scratch/user/main.c" <<'END'
#include <headroom.h>
int main(void) { return puts(hr_version()) < 0; }
END
cat >"$scratch/user/CMakeLists.txt" <<'END'
cmake_minimum_required(VERSION 3.20)
project(user LANGUAGES C)
find_package(headroom 0.1 REQUIRED)
add_executable(main main.c)
target_link_libraries(main headroom::headroom)
END
version=$(sed -n 's/^project(headroom VERSION \([0-9.]*\).*/\1/p' "$2/CMakeLists.txt")

cmake -S "$scratch/user" -B "$scratch/user/build" -DCMAKE_PREFIX_PATH="$prefix" >/dev/null
cmake --build "$scratch/user/build" >/dev/null
[ "$("$scratch/user/build/main")" = "$version" ]

export PKG_CONFIG_PATH=$library/pkgconfig
[ "$(pkg-config --modversion headroom)" = "$version" ]
eval "cc '$scratch/user/main.c' $(pkg-config --cflags --libs headroom) -o '$scratch/user/main'"
[ "$(LD_LIBRARY_PATH=$library "$scratch/user/main")" = "$version" ]

# A program without a loader is told so; what it links is named where it is found at all.
if cc -static "$2/examples/layernorm.c" -I"$prefix/include" "$library/libheadroom.a" -lsqlite3 -ljansson -lxxhash -lz \
    -lpthread -ldl -lm -o "$scratch/static" 2>/dev/null; then
    code=0
    said=$(HEADROOM_CACHE=$scratch/cache "$scratch/static" "$prefix/share/headroom/kernels/layernorm.hr" 2>&1) || code=$?
    [[ $code = 3 && $said == *"linked with -static"* ]] || { echo "a static program: exit $code: $said" >&2; exit 1; }
else
    echo "no static program: one of its libraries has no archive here"
fi

# `make build` makes all that an installation takes (this one's is the tests' own build, which makes everything).
tree=$scratch/tree
mkdir -p "$tree/build"
(cd "$2" && tar -c --exclude=./build --exclude=./.git .) | tar -x -C "$tree"
touch "$tree/build/.setup"
targets=$(make --no-print-directory -C "$tree" build NINJA=echo | sed -n 's/^-C build//p')
# shellcheck disable=SC2086 # the targets are words
ninja -C "$tree/build" -t commands $targets >"$scratch/commands"
taken=$(grep -ohE '/build/(lib[^/"]*|headroom)"' "$tree/build/cmake_install.cmake" | sed 's,/build/,,; s,",,' | sort -u)
[ "$(wc -w <<<"$taken")" -ge 4 ] || { echo "what is installed is not found: $taken" >&2; exit 1; }
for file in $taken; do
    grep -qE " $file( |$)" "$scratch/commands" ||
        { echo "make build does not make $file, which is installed" >&2; exit 1; }
done

# Nothing but the public API leaves the library.
private=$(nm -D --defined-only "$library/libheadroom.so" | awk '$3 !~ /^hr_/ {print $3}')
[ -z "$private" ] || { echo "exported beside the API: $private" >&2; exit 1; }
