#!/usr/bin/env bash
# An engine's project against an installation: headroom.hpp from several threads, shared, static and by pkg-config; kernels
# that CMake compiles into the program; what headroom_add_kernel says where it cannot.
set -euo pipefail
build=$1 source=$2
if ! command -v c++ >/dev/null; then
    echo "skipped: there is no C++ compiler"
    exit 77
fi
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
prefix=$scratch/prefix
export HEADROOM_CACHE=$scratch/cache
cmake --install "$build" --prefix "$prefix" >"$scratch/install.log" || { cat "$scratch/install.log"; exit 1; }
cd "$scratch"
mkdir project
cat >project/twice.hr <<'END'
kernel twice(x: f32[N]) -> (y: f32[N])
{
    y[n] = 2 * x[n]
}
kernel halve(x: f32[N]) -> (y: f32[N])
{
    y[n] = x[n] / 2
}
END
cat >project/main.cpp <<'END'
#include "kernel_twice.h"
#include "my_halve.h"
#include "rows.h"
#include <cstdint>
#include <cstdio>
#include <vector>
int main() {
    float x[3] = {1, 2, 3}, y[3], z[3];
    if (kernel_twice(3, x, y, nullptr, 1) || my_halve(3, y, z, nullptr, 1)) return 1;
    std::vector<float> in(2 * 4, 1), out(in.size());
    std::vector<char> scratch(static_cast<std::size_t>(rows_scratch(2, 4, 1)) + 64);
    auto at = reinterpret_cast<std::uintptr_t>(scratch.data()) + 63;
    if (rows(2, 4, in.data(), out.data(), reinterpret_cast<void *>(at - at % 64), 1)) return 1;
    std::printf("%g %g %g, %g\n", y[2], z[2], out[7], out[0]);
}
END
cat >project/wrapper.cpp <<'END'
#include <headroom.hpp>
#include <cstdio>
#define CHECK(it) ((it) ? (void)0 : (void)(std::printf("%d: %s\n", __LINE__, #it), wrong++))
static int wrong;
template <typename Call> static hr_status status_of(Call call) {
    try {
        call();
    } catch (const headroom::error &failed) {
        CHECK(failed.what()[0]);
        return failed.status();
    }
    return HR_OK;
}
int main() {
    static_assert(headroom::dtype_of<const float>() == HR_F32 && headroom::dtype_of<std::int8_t>() == HR_I8 &&
                  headroom::dtype_of<long>() == HR_I64 && headroom::dtype_of<unsigned char>() == HR_U8);
    headroom::device cpu("cpu");
    CHECK(cpu.kind() == "cpu" && !cpu.name().empty());
    CHECK(status_of([] { headroom::device("no such"); }) == HR_BAD_INPUT);
    CHECK(status_of([&] { headroom::kernel::from_text(cpu, "kernel"); }) == HR_BAD_INPUT);
    headroom::kernel made = headroom::kernel::from_text(
        cpu, "kernel scale(x: f32[2 * N, M], a: f32) -> (y: f32[2 * N, M], most: f32[M])\n"
             "{\n    y[n, m] = a * x[n, m]\n    most[m] = max[n](x[n, m])\n}\n");
    headroom::kernel scale = std::move(made); // handles are moved
    float x[4] = {1, 2, 3, 4}, most[2];
    headroom::memory room(cpu, sizeof x);
    room.upload(x);
    float *y = room.data<float>();
    const std::vector<headroom::array> arrays = {headroom::array(x, {2, 2}, {1, 2}), 3, headroom::array(y, {2, 2}), nullptr};
    scale.execute(arrays);
    CHECK(y[0] == 3 && y[1] == 9 && y[2] == 6 && y[3] == 12);
    scale.execute({headroom::array(HR_F32, x, std::vector<std::int64_t>{2, 2}, std::vector<std::int64_t>{}), 2.0, headroom::array(y, {2, 2}),
                   headroom::array(most, {2})});
    CHECK(y[3] == 8 && most[0] == 3 && most[1] == 4);
    CHECK(status_of([&] { scale.execute({headroom::array(x, {2, 2})}); }) == HR_BAD_INPUT);
    CHECK(status_of([&] { scale.bind("z", headroom::array(x, {2, 2})); }) == HR_BAD_INPUT);
    CHECK(status_of([&] { scale.prepare(HR_TUNE_NONE, -3); }) == HR_BAD_INPUT);
    scale.bind("x", headroom::array(x, {2, 2})).bind("y", headroom::array(y, {2, 2})).bind("most", headroom::array(most, {2}));
    scale.bind_scalar("a", 5).prepare(HR_TUNE_NONE, 1);
    scale.launch();
    CHECK(y[3] == 20);
    const auto arguments = scale.arguments();
    CHECK(arguments.size() == 4 && arguments[0].name == "x" && arguments[2].role == HR_ARGUMENT_RESULT);
    CHECK(arguments[0].shape.size() == 2 && arguments[0].shape[0].size() == 3 && arguments[1].shape.empty());
    CHECK(arguments[0].shape[0][2].op == HR_SHAPE_MUL);
    bool refused = false;
    try {
        headroom::array(x, {1, 1, 1, 1, 1, 1, 1, 1, 1});
    } catch (const std::invalid_argument &) {
        refused = true;
    }
    CHECK(refused);
    return wrong;
}
END
cat >project/CMakeLists.txt <<END
cmake_minimum_required(VERSION 3.20)
project(engine LANGUAGES C CXX)
set(CMAKE_CXX_STANDARD 17)
find_package(headroom 0.1 REQUIRED)
find_package(Threads REQUIRED)
add_executable(shared $source/examples/engine.cpp)
target_link_libraries(shared PRIVATE headroom::headroom Threads::Threads)
add_executable(static $source/examples/engine.cpp)
target_link_libraries(static PRIVATE headroom::static Threads::Threads)
add_executable(wrapper wrapper.cpp)
target_link_libraries(wrapper PRIVATE headroom::headroom)
target_compile_options(wrapper PRIVATE -Wall -Wextra -Wpedantic -Werror)
add_executable(own main.cpp)
headroom_add_kernel(own twice.hr)
headroom_add_kernel(own twice.hr KERNEL halve NAME my_halve MARCH x86-64-v2)
headroom_add_kernel(own softmax.hr NAME rows ARGUMENTS T=f32)
if(REFUSED)
  headroom_add_kernel(own \${REFUSED})
endif()
END
[ "$(uname -m)" = x86_64 ] || sed -i 's/ MARCH x86-64-v2//' project/CMakeLists.txt
cmake -S project -B project/build -DCMAKE_PREFIX_PATH="$prefix" >project.log 2>&1 &&
    cmake --build project/build >>project.log 2>&1 || { cat project.log >&2; exit 1; }
kernel=$prefix/share/headroom/kernels/layernorm.hr
for program in shared static; do
    got=$("project/build/$program" "$kernel")
    [ "$got" = "4 threads, rows of 1 to 64: normalised" ] || { echo "$program: $got" >&2; exit 1; }
done
if ldd project/build/static | grep -q libheadroom || ldd project/build/own | grep -q libheadroom; then
    echo "a program that has all of it needs libheadroom.so" >&2
    exit 1
fi
project/build/wrapper || { echo "headroom.hpp" >&2; exit 1; }
got=$(project/build/own)
[ "$got" = "6 3 0.25, 0.25" ] || { echo "kernels of the project: $got" >&2; exit 1; }

# A text that changed is compiled anew.
sed -i 's/2 \* x/5 * x/' project/twice.hr
cmake --build project/build >>project.log 2>&1 || { cat project.log >&2; exit 1; }
got=$(project/build/own)
[ "$got" = "15 7.5 0.25, 0.25" ] || { echo "after a change of the text: $got" >&2; exit 1; }

# What it cannot do is a sentence of CMake's.
refused() {
    local said
    if said=$(cmake -S project -B project/refused -DCMAKE_PREFIX_PATH="$prefix" -DREFUSED="$1" 2>&1); then
        echo "headroom_add_kernel took $1" >&2
        exit 1
    fi
    tr -s ' \n' ' ' <<<"$said" | grep -q "$2" || { echo "$said" >&2; exit 1; }
}
refused nothing.hr "neither a file here nor a kernel"
refused "twice.hr;NAMES;x" "not: NAMES;x"

# By pkg-config, which names the folders of kernels and examples.
PKG_CONFIG_PATH=$(dirname "$(find "$prefix" -name headroom.pc)")
export PKG_CONFIG_PATH
library=$(pkg-config --with-path="$PKG_CONFIG_PATH" --variable=libdir headroom)
for file in layernorm.c clip.c engine.cpp; do
    test -f "$(pkg-config --variable=examples headroom)/$file"
done
# shellcheck disable=SC2046 # the flags are words
c++ -std=c++17 -Wall -Wextra -Wpedantic -Wconversion -Werror "$(pkg-config --variable=examples headroom)/engine.cpp" \
    $(pkg-config --cflags --libs headroom) -pthread -o engine
got=$(LD_LIBRARY_PATH=$library ./engine "$(pkg-config --variable=kernels headroom)/layernorm.hr")
[ "$got" = "4 threads, rows of 1 to 64: normalised" ] || { echo "by pkg-config: $got" >&2; exit 1; }
code=0
got=$(LD_LIBRARY_PATH=$library ./engine nothing.hr 2>&1) || code=$?
[ "$code" = 2 ] && grep -q "nothing.hr" <<<"$got" || { echo "exit $code: $got" >&2; exit 1; }
