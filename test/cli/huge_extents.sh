#!/usr/bin/env bash
# Any extent is planned, explained and written for every target, or refused with a sentence: never a signal.
set -uo pipefail
build=$1 source=$2
headroom=$build/headroom
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
export HEADROOM_CACHE=$work/cache NO_COLOR=1
failed=0 count=0

survives() {
    local code
    "$headroom" "$@" >"$work/out" 2>"$work/said" </dev/null
    code=$?
    count=$((count + 1))
    if [ $code -ne 0 ] && { [ $code -ne 2 ] || [ ! -s "$work/said" ]; }; then
        echo "headroom $*: exit code $code: $(head -c 300 "$work/said")"
        failed=1
    fi
}

cat >"$work/nested.hr" <<'END'
kernel k(x: f32[N, N]) -> (y: f32[N])
{
    y[n] = sum[i0 < N](sum[i1 < N](sum[i2 < N](sum[i3 < N](x[n, i0] * x[i3, i2]))))
}
END
cat >"$work/many.hr" <<'END'
kernel k(x: f32[N]) -> (y: f32[N])
{
    y[n] = sum[i0 < N, i1 < N, i2 < N, i3 < N, i4 < N, i5 < N](x[n] + i0 + i1 + i2 + i3 + i4 + i5)
}
END

# 2^31, 2^32 and 2^33 are 0 or negative in 32 bits, 2^62 is nearly beyond 64
sizes="2147483648 4294967296 8589934592 1000000000000 4611686018427387904"
for target in c cuda:sm_80 cuda:sm_90a; do
    for size in 1 64 4096 65536 $sizes; do
        survives emit "$work/nested.hr" "N=$size" --target $target
        survives emit "$work/many.hr" "N=$size" --target $target
    done
    survives emit "$source/kernels/softmax.hr" M=64 N=1000000000000 --target $target
done
for kernel in "$source"/kernels/*.hr; do
    for extent in $(grep -oE '\[[^]]*\]' "$kernel" | grep -oE '\b[A-Z][A-Z0-9]*\b' | sort -u); do
        for size in 4294967296 1000000000000; do
            survives emit "$kernel" "$extent=$size" --target cuda:sm_90a
        done
        survives emit "$kernel" "$extent=4294967296" --target c
    done
done
echo "$count command lines"
exit $failed
