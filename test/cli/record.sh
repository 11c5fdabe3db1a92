#!/usr/bin/env bash
# headroom record, on a CUPTI without a GPU: what is recorded, what survives a crash, a kill, a full disk; forks, threads,
# several processes, a rival profiler; the program's own exit code in every case.
set -uo pipefail
build=$1
headroom=$build/headroom program=$build/test/recorded_program show=$build/test/show_trace
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work" || exit 1
export HEADROOM_CUPTI=$build/test/libfake_cupti.so
failed=0

fail() {
    echo "$*"
    failed=1
}

# record CODE FLAGS... -- WORDS...: runs the program so, into run.hrt; its exit code and what was said (in $said)
record() {
    local code=$1 got
    shift
    local flags=()
    while [ "$1" != -- ]; do
        flags+=("$1")
        shift
    done
    shift
    rm -f ./*.hrt
    said=$("$headroom" record -o run.hrt "${flags[@]}" -- "$program" "$@" 2>&1)
    got=$?
    [ "$got" -eq "$code" ] || fail "$*: exit code $got, should be $code: $said"
}

# holds FILE LINE...: what show_trace prints has these lines
holds() {
    local file=$1 shown line
    shift
    shown=$("$show" "$file" 2>&1)
    for line; do
        grep -qxF -- "$line" <<<"$shown" || fail "$file lacks \"$line\":" "$shown"
    done
}

says() { grep -qF -- "$1" <<<"$said" || fail "nothing about \"$1\" in: $said"; }

# What the program does is in the file; calls of no interest are not.
record 3 -- cuda step 5 stream sleep 0.6 events
holds run.hrt "ranges 5" "kernels 50" "copies 5" "calls 59" "waits 2" "allocations 1" "threads 1" "streams 2" "rank -1 of 0"
says "run.hrt: 50 kernels, 59 calls, 5 ranges"

record 3 -- cuda events # without a stream of its own a program has no order to find out
holds run.hrt "calls 4" "streams 0"

record 3 -- cuda threads 8
holds run.hrt "ranges 800" "kernels 800" "threads 8"

record 3 -- step 4 # NVTX without CUDA
holds run.hrt "ranges 4"
record 3 -- sleep 0
says "neither CUDA nor NVTX"
record 3 -- end 0 # nothing recorded is no good end
says "had no memory to load the recorder"
[ ! -e run.hrt ] || fail "a file without anything in it"

# The window.
record 3 --from-range "step 2" --steps 1 -- cuda step 5
holds run.hrt "ranges 1" "kernels 10" "copies 1"
record 3 --from-range step --steps 3 -- cuda step 5
holds run.hrt "ranges 3" "kernels 30"
record 3 --steps 2 -- cuda step 5
holds run.hrt "ranges 2" "kernels 20"
record 3 --for 1 -- cuda step 2 sleep 2 step 3
holds run.hrt "ranges 2" "kernels 20"

# Counters: of the first two launches of each kernel, which have no times of their own; of the GPU over time.
record 3 --counters -- cuda step 5 sleep 0.6
holds run.hrt "ranges 5" "kernels 50" "copies 5" "overheads 2" "threads 1"
says "50 kernels (2 with counters)"
record 3 --counters --from-range "step 2" --steps 1 -- cuda step 5 flood 3
holds run.hrt "ranges 1" "kernels 10" "overheads 2"
record 3 --counters=replayed -- cuda step 5
holds run.hrt "kernels 50" "overheads 2"
record 3 --counters -- cuda threads 8
holds run.hrt "ranges 800" "kernels 800" "threads 8" "overheads 2"
record 3 --counters -- cuda flood 400 # the most is 600 launches
holds run.hrt "kernels 400" "overheads 400"
record 3 --counters -- cuda flood 700
holds run.hrt "kernels 700" "overheads 600"
says "counters were read for the first 600 launches"
record 139 --counters -- cuda step 3 sleep 1.6 crash
holds run.hrt "kernels 30" "overheads 2" "rank -1 of 0 killed"
record 3 --counters -- cuda step 2 fork step 1
holds run.hrt "kernels 30" "overheads 2"
record 3 --counters=sampled --from-range "step 3" -- cuda step 5
holds run.hrt "kernels 20"
record 3 --counters=sampled -- cuda step 2 sleep 1
says "samples of the GPU"
samples=$("$show" run.hrt | sed -n 's/^counters //p')
[ "${samples:-0}" -gt 4000 ] || fail "few samples in a second: ${samples:-0}"
holds run.hrt "kernels 20" "streams 2"

# Where counters are not to be had, the rest is recorded and a sentence says why.
without_counters() {
    says "$1"
    holds run.hrt "kernels 10"
}
for mode in --counters --counters=replayed --counters=sampled; do
    FAKE_CUPTI_COUNTERS=35 record 3 "$mode" -- cuda step 1 sleep 0.35
    without_counters "NVreg_RestrictProfilingToAdminUsers=0"
    FAKE_CUPTI_COUNTERS=26 record 3 "$mode" -- cuda step 1 sleep 0.35
    without_counters "another program or profiler uses the counters"
    FAKE_CUPTI_UNSUPPORTED=1 record 3 "$mode" -- cuda step 1 sleep 0.35
    without_counters "GPU 0 does not offer them: it is older than Volta"
    HEADROOM_CUPTI=$build/test/libfake_cupti_old.so record 3 "$mode" -- cuda step 1 sleep 0.35
    without_counters "CUDA 12.6 or later"
done
FAKE_CUPTI_LACKS=dram__bytes_read.sum record 3 --counters -- cuda step 1 # one metric less
holds run.hrt "kernels 10" "overheads 2"

# However it ends, what was written before counts.
record 139 -- cuda step 3 sleep 1.6 step 2 crash
holds run.hrt "ranges 3" "kernels 30" "rank -1 of 0 killed"
says "without leaving time"
record 137 -- cuda step 3 sleep 1.6 kill
holds run.hrt "ranges 3" "kernels 30" "rank -1 of 0 killed"
record 5 -- cuda step 3 sleep 1.6 exit 5
holds run.hrt "ranges 3" "kernels 30" "rank -1 of 0 killed"

# Children: a forked one has nothing to say, one that runs a program of its own has a file of its own.
record 3 -- cuda step 2 fork step 1
holds run.hrt "ranges 3" "kernels 30" "rank -1 of 0"
record 3 -- cuda step 1 spawn step
files=(run.*.hrt)
[ ${#files[@]} -eq 2 ] || fail "not two files: ${files[*]}"
RANK=1 WORLD_SIZE=4 record 3 -- cuda step 1
holds run.hrt "rank 1 of 4"

# Who stands in the way is named; the program runs on.
FAKE_CUPTI_RIVAL=Nsight record 3 -- cuda step 1
says "another profiler (Nsight)"
FAKE_CUPTI_CODE=35 record 3 -- cuda step 1
says "NVreg_RestrictProfilingToAdminUsers=0"
FAKE_CUPTI_VERSION=17 record 3 -- cuda step 1
says "older than CUDA 12"
FAKE_CUPTI_DROP=7 record 3 -- cuda step 1
says "7 records of process"
holds run.hrt "skipped 7 records that the recorder had no room for"

# A disk that fills up: whole chunks stay, and the reason.
said=$(bash -c "ulimit -f 64; trap '' XFSZ; exec '$headroom' record -o run.hrt -- '$program' cuda step 3 sleep 0.5 flood 60000" 2>&1)
[ $? -eq 3 ] || fail "a full disk: the program did not end well: $said"
says "could not be written"
holds run.hrt "ranges 3" "rank -1 of 0 killed"

# headroom's own kernels are ranges that say their floors, also without a GPU. Floors need the machine's roofs, which take
# longer to measure than all else here: they come from the test of the documents, or this waits for the next run.
own_kernels() {
    said=$(HEADROOM_CACHE=$build/roofs "$headroom" record -o run.hrt "$headroom" run "$2/kernels/layernorm.hr" M=64 N=64 --device cpu 2>&1)
    [ $? -eq 0 ] || fail "recording headroom run: $said"
    grep -aq 'layernorm T=f32 floor=[0-9.e+-]*us bound=[a-z]* bytes=[0-9]* flops=[0-9]*' run.hrt || fail "no range of layernorm"
    holds run.hrt "rank -1 of 0"
    said=$("$headroom" diagnose run.hrt 2>&1 | tr -s ' \n' '  ')
    grep -q "headroom's own kernels ran on the host: layernorm T=f32 [0-9]* launches of .* times its floor" <<<"$said" ||
        fail "headroom diagnose of our own run: $said"
}
compgen -G "$build/roofs/roof-*.json" >/dev/null && own_kernels "$@"

# Wrong command lines.
expect() {
    said=$("$headroom" record "${@:3}" 2>&1)
    [ $? -eq "$1" ] || fail "headroom record ${*:3}: not exit code $1: $said"
    says "$2"
}
expect 2 "which program?"
expect 2 "could not be started: No such file" -- no-such-program
expect 2 "there is no folder" -o no/such/run.hrt "$program"
expect 2 "seconds above 0" --for never "$program"
expect 2 "whole number of at least 1" --steps 0 "$program"
expect 2 "\"all\" is none of these" --counters=all "$program"
expect 3 "nothing was recorded" "$program" --steps 0 # flags behind the program are its own
exit $failed
