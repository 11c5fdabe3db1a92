#!/usr/bin/env bash
# What a wrong command line says: the sentence names the flag or the name, lists what is possible, and exits 2 or 3.
set -uo pipefail
build=$1 source=$2
headroom=$build/headroom
kernel=$source/kernels/layernorm.hr
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
export HEADROOM_CACHE=$work/cache NO_COLOR=1
failed=0 count=0

# expect CODE WORDS ARGUMENT...: the exit code, and a sentence (or text) with these words
expect() {
    local code=$1 words=$2 got output
    shift 2
    output=$("$headroom" "$@" </dev/null 2>&1)
    got=$?
    count=$((count + 1))
    if [ $got -ne "$code" ]; then
        echo "headroom $*: exit code $got, should be $code: $output"
        failed=1
    elif ! grep -qF -- "$words" <<<"$output"; then
        printf 'headroom %s: lacks "%s":\n%s\n' "$*" "$words" "$output"
        failed=1
    fi
}

expect 2 "usage: headroom COMMAND"
expect 0 "usage: headroom COMMAND" --help
expect 0 "usage: headroom COMMAND" help
expect 0 "headroom 0." --version
expect 2 'no command "rnu"; did you mean run?' rnu
expect 2 "Possible are run explain emit grad roof bench sweep ladder generate record diagnose help" zzzzzz
expect 2 'no command "nope"' help nope
expect 2 "?a?b????c.hr: " run $'\xc2\x9ba\xe2\x80\xaeb\x1b\x07\xd8\x9c\xefc.hr' # what would drive a terminal, and no UTF-8
expect 0 "usage: headroom run FILE.hr" help run
expect 0 "usage: headroom roof" roof --help
expect 0 "usage: headroom run" run -h

printf 'kernel k(x: T[N], a: T = 0.5) -> (y: T[N])\n{\n    y[n] = a * x[n]\n}\n' >"$work/default.hr"
printf 'kernel k(x: T[N]) -> (y: T[N]) where T: f32 | bf16\n{\n    y[n] = x[n]\n}\n' >"$work/narrow.hr"
printf 'kernel k(x: T[T]) -> (y: T[T])\n{\n    y[n] = x[n]\n}\n' >"$work/roles.hr"
expect 2 "which kernel? Give its file" run
expect 2 "which kernel? Give its file" run M=3
expect 2 "absent.hr" run absent.hr
expect 2 "absent.hr" run absent.hr:kernel
expect 2 "it holds: layernorm" run "$kernel:softmax"
expect 2 "--tun; did you mean --tune?" run "$kernel" --tun quick
expect 2 "--tune is none, quick or full, not \"fast\"" run "$kernel" --tune fast
expect 2 "--json takes no value" run "$kernel" --json=yes
expect 2 "--device needs a value: --device NAME" run "$kernel" --device
expect 2 "--seed is a whole number of at least 0, not \"-1\"" run "$kernel:layernorm" --seed=-1
expect 2 "MM\"; did you mean M?" run "$kernel:layernorm" MM=3
expect 2 "weigth\"; did you mean weight?" run "$kernel:layernorm" weigth=w.npy
expect 2 "It has x, weight, bias, eps, y, mean, rstd, M, N, T." run "$kernel:layernorm" zzzzzz=1
expect 2 "M=x: an extent is a whole number" run "$kernel:layernorm" M=x
expect 2 "M=-1: an extent is a whole number" run "$kernel:layernorm" M=-1
expect 2 "M=99999999999999999999: an extent" run "$kernel:layernorm" M=99999999999999999999
expect 2 "M is given twice" run "$kernel:layernorm" M=1 M=2
expect 2 "M=bf16: an extent is a whole number" run "$kernel" M=bf16
expect 2 "T=8: T is a dtype of kernel layernorm, and there is none of that name" run "$kernel" T=8
expect 2 "T=bf61: T is a dtype of kernel layernorm, and there is none of that name; did you mean bf16?" run "$kernel" T=bf61
expect 2 "the default of a whole-number" run "$work/default.hr" T=i8
expect 2 "the dtype T of kernel k ($work/narrow.hr, line 1) cannot be i8: it is f32 or bf16" run "$work/narrow.hr" T=i8
expect 2 "T is a dtype (on line 1) and an extent here" run "$work/roles.hr"
expect 2 "\"abc\" is no number" run "$kernel:layernorm" eps=abc
expect 2 '"nothing" is no NAME=VALUE' run "$kernel:layernorm" nothing
expect 2 "y is a result; to save it, say -o y=a.npy" run "$kernel:layernorm" y=a.npy
expect 2 "x:f32=...: the kernel declares x as bf16" run "$kernel:layernorm" x:f32=a.npy T=bf16
expect 2 "absent.npy: cannot open it: No such file" run "$kernel:layernorm" x=absent.npy
expect 2 "x is an input. What can be saved: y mean rstd" run "$kernel:layernorm" -o x=a.npy
expect 2 "say which result goes where" run "$kernel:layernorm" -o y
expect 2 "bf16 can be written as V2 or u2" run "$kernel:layernorm" T=bf16 -o y:u1=a.npy
expect 2 "mean is f32, which NumPy has" run "$kernel:layernorm" -o mean:u2=a.npy
expect 2 "cannot write into its folder /absent" run "$kernel:layernorm" -o y=/absent/a.npy
expect 2 "cannot write into its folder /absent" run "$kernel:layernorm" --html /absent/a.html
expect 2 "cannot write into its folder /absent" roof --html /absent/a.html
expect 2 "cannot write into its folder /absent" bench --csv /absent/a.csv
expect 2 "$work: is a folder; give the name of a file" run "$kernel:layernorm" -o "y=$work"
expect 2 "a.npy is to be written twice" run "$kernel:layernorm" -o y=a.npy -o mean=a.npy
expect 2 "a.html is to be written twice" run "$kernel:layernorm" -o y=a.html --html a.html
# One file by two spellings, by a link, or one that is read: nothing is written and the input stays.
mkdir -p "$work/same" && cp "$kernel" "$work/same/k.hr" && cp "$kernel" "$work/same/x.array" && cp "$work/same/x.array" "$work/same/before.array"
ln -s x.array "$work/same/link.array"
ln -s . "$work/same/here"
expect 2 "is to be written twice" run "$kernel:layernorm" -o "y=$work/same/new.npy" --html "$work/same/../same/./new.npy"
expect 2 "is to be written twice" run "$kernel:layernorm" -o "y=$work/same/new.npy" -o "mean=$work/same/here/new.npy"
expect 2 "is to be written twice" run "$kernel:layernorm" -o "y=$work/same/x.array" --html "$work/same/link.array"
expect 2 "is read here, and writing would replace it" run "$work/same/k.hr:layernorm" -o "y=$work/same/here/k.hr"
expect 2 "is read here, and writing would replace it" run "$work/same/k.hr:layernorm" --html "$work/same/k.hr"
expect 2 "is read here, and writing would replace it" diagnose "$work/same/x.array" --html "$work/same/link.array"
expect 2 "is to be written twice" diagnose "$work/same/x.array" --html "$work/same/new" --perfetto "$work/same/here/new"
python3 -c 'import numpy' 2>/dev/null && { python3 - "$work/same/array.npy" <<'END'
import numpy, sys
numpy.save(sys.argv[1], numpy.ones((4, 8), numpy.float32))
END
    expect 2 "is read here, and writing would replace it" run "$kernel:layernorm" T=f32 "x=$work/same/array.npy" -o "y=$work/same/here/array.npy"
    rm "$work/same/array.npy" || failed=1; }
cmp -s "$kernel" "$work/same/k.hr" && cmp -s "$work/same/x.array" "$work/same/before.array" || { echo "an input was written"; failed=1; }
expect 2 'there is no flag -q. Possible are' run "$kernel:layernorm" -q
expect 2 'has no "zzzzzz". It has' run "$kernel:layernorm" zzzzzz=1
expect 2 'no command "zzzzzz". Possible are' zzzzzz
expect 2 "cannot open ?[31mred.hr" run $'\e[31mred.hr'
expect 2 "--target is c, c:x86-64, cuda, cuda:sm_80" emit "$kernel:layernorm" --target fortran
expect 2 "takes flags alone" roof now

# a kernel of the library by its name, from any folder; a file of the current folder comes first
cd "$work" || exit 1
expect 0 "kernel_softmax_f32" emit softmax
expect 0 "kernel_row_sum_f32" emit row_sum M=4k
expect 0 "kernel_column_sum_f32" emit sum:column_sum
expect 2 "sum.hr holds 3 kernels" emit sum
expect 2 "a kernel of the library of that name; did you mean softmax?" run sofmax
expect 2 "A file is named with its ending" run zzzzzzzz
expect 2 "holds no kernel 'mean'" explain softmax:mean
mkdir here && cd here || exit 1
printf 'kernel own(x: f32[N]) -> (y: f32[N])\n{\n    y[n] = x[n]\n}\n' >softmax
expect 0 "kernel_own" emit softmax
mv softmax softmax.hr
expect 0 "kernel_own" emit softmax
mkdir layernorm
expect 0 "kernel_layernorm_f32" emit layernorm
cd "$work" || exit 1
for text in 0 4k 4K 2^20 1m 2^40 3g; do expect 0 "kernel_softmax" emit softmax M=$text N=2; done
for text in 4kk k 2^63 3^2 2^ 9223372036854775808 9999999999g 4.5k -1k; do
    expect 2 "M=$text: an extent is a whole number" emit softmax M=$text
done
got=$("$headroom" emit - <here/softmax.hr) && grep -q kernel_own <<<"$got" || { echo "emit -: $got" && failed=1; }
got=$("$headroom" emit -:row_sum <"$source/kernels/sum.hr") && grep -q kernel_row_sum <<<"$got" ||
    { echo "emit -:row_sum: $got" && failed=1; }
expect 2 "<stdin>" run -
expect 2 "<stdin>" run -:softmax

# the nearest name is one of the same kind
expect 2 'has no "m"; did you mean M?' emit softmax m=3
expect 2 'has no "K"; did you mean M?' emit softmax K=3
expect 2 'has no "X"; did you mean x?' emit softmax X=3
expect 2 'has no "a"; did you mean x?' emit softmax a=3

# a scalar is a number or a .npy without axes
printf 'kernel k(x: f32[N], loss: f32) -> (y: f32[N])\n{\n    y[n] = x[n] * loss\n}\n' >chain.hr
expect 2 "is no number and no 0-d .npy" emit chain.hr loss=half
expect 2 "loss.npy: cannot open it" emit chain.hr loss=loss.npy

expect 2 "which trace? Give a file of" diagnose
expect 2 "--ranks and --compare exclude each other" diagnose a b --ranks --compare
expect 2 "a comparison takes two files, before and after, not 1" diagnose a --compare
expect 2 "absent.json" diagnose absent.json
expect 2 "roofs are what" diagnose absent.json --roof absent.roof
expect 2 "no kernel of that name" bench --only nothing
expect 2 "no kernel of that name is in the table; did you mean softmax?" bench --only softmx
expect 2 "one folder of kernels at a time" bench a b
expect 2 "--repeat is a whole number of at least 1" bench --repeat 0
expect 2 "--repeat is at most 1000" bench --repeat 1001
expect 2 "--repeat is at most 1000" run softmax --repeat 1001
expect 2 "--threads is a whole number of at least 1" run softmax --threads 0
expect 2 "--size is a whole number of at least 1" bench --size 0
printf 'kernel k(x: f32[N], lr: f32) -> (y: f32[N])\n{\n    y[i] = lr * z[i]\n}\n' >"$work/wrong.hr"
expect 2 "wrong.hr:3:17: error:" run "$work/wrong.hr"
sed 's/z\[i\]/x[i]/' "$work/wrong.hr" >"$work/scalar.hr"
expect 2 "lr" run "$work/scalar.hr" N=8
printf 'kernel k(x: f32[N], n: i32, q: i64, u: u8, b: bool) -> (y: f32[N])\n{\n    y[i] = where(b, n + u, q) * x[i]\n}\n' >"$work/whole.hr"
expect 2 "and 3.7 is no such number" run "$work/whole.hr" n=3.7
expect 2 "q=9007199254740993: a scalar is handed over as an f64" run "$work/whole.hr" q=9007199254740993
expect 2 "is u8, a scalar, and -1 is no such number" run "$work/whole.hr" u=-1
expect 2 "is u8, a scalar, and nan is no such number" run "$work/whole.hr" u=nan
expect 2 "is bool, a scalar, and 2 is no such number" run "$work/whole.hr" b=2
expect 2 "scalars with neither value nor default: q" run "$work/whole.hr" n=-2147483648 u=255 b=true
"$headroom" run "$kernel" --device cuda >/dev/null 2>"$work/said"
code=$?
[ $code -eq 3 ] || [ $code -eq 0 ] || { echo "--device cuda: exit code $code" && failed=1; }
expect 2 "mars" run "$kernel" --device mars

[ -z "$(find "$work" -name '*.npy' -o -name '*.html')" ] || { echo "a failed command left a file" && failed=1; }
echo "$count command lines"
exit $failed
