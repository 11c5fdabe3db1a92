#!/usr/bin/env bash
# --help, the man page and the completion name the same flags; every kernel of the library stands in the bench's table;
# the completion offers what a text declares.
set -uo pipefail
build=$1 source=$2
failed=0
fail() {
    echo "$*"
    failed=1
}

flags() { grep -oE -- '--[a-z][a-z-]*' | sort -u; }
source "$source/completions/headroom.bash"

commands=$("$build/headroom" help | sed -n 's/^  \([a-z]*\)  .*/\1/p')
[ "$(wc -w <<<"$commands")" -ge 6 ] || fail "help lists too little: $commands"
for command in $commands; do
    help=$("$build/headroom" help "$command" | sed -n 's/^  \(..\) \(--[a-z-]*\).*/\2/p' | sort -u)
    [ "$command" = help ] && continue
    page=$source/docs/man/headroom-$command.1
    manual=$(sed 's/\\-/-/g; s/\\f[A-Z]//g' "$page" | grep -A1 '^\.TP' | flags)
    completion=$(_headroom_flags "$command" | flags)
    [ "$help" = "$manual" ] || fail "$command: --help and $page differ:" "$(diff <(echo "$help") <(echo "$manual"))"
    [ "$help" = "$completion" ] || fail "$command: --help and the completion differ:" \
        "$(diff <(echo "$help") <(echo "$completion"))"
    zsh=$(sed -n "s/^    $command) echo \\(.*\\) ;;/\\1/p" "$source/completions/headroom.zsh" | flags)
    fish=$(sed -n "s/.*_from $command\" -l \\([a-z-]*\\).*/--\\1/p" "$source/completions/headroom.fish" | flags)
    [ "$help" = "$zsh" ] || fail "$command: --help and zsh's completion differ:" "$(diff <(echo "$help") <(echo "$zsh"))"
    [ "$help" = "$fish" ] || fail "$command: --help and fish's completion differ:" "$(diff <(echo "$help") <(echo "$fish"))"
    grep -q "BR headroom-$command (1)" "$source/docs/man/headroom.1" || fail "headroom.1 does not refer to $command"
done

for file in "$source"/kernels/*.hr; do
    for kernel in $(_headroom_kernels "$file"); do
        grep -qE "^$(basename "$file"):$kernel " "$source/bench/cases.txt" || fail "$file:$kernel is not benched"
    done
done

# The GPU's cases name kernels that there are.
while IFS=: read -r file kernel; do
    _headroom_kernels "$source/kernels/$file" | grep -qx "$kernel" || fail "bench/cases_gpu.txt: $file has no $kernel"
done < <(grep -oE '^[a-z_0-9]+\.hr:[a-z_0-9]+' "$source/bench/cases_gpu.txt" | sort -u)

# complete LINE WORDS: what is offered at the end of LINE
complete_line() {
    COMP_LINE=$1 COMP_POINT=${#1}
    read -ra COMP_WORDS <<<"$1"
    [[ $1 == *' ' ]] && COMP_WORDS+=("")
    COMP_CWORD=$((${#COMP_WORDS[@]} - 1))
    _headroom
    [ "${COMPREPLY[*]}" = "$2" ] || fail "completing \"$1\": \"${COMPREPLY[*]}\", should be \"$2\""
}
cd "$source" || exit 1
complete_line "headroom " "run explain emit grad roof bench sweep ladder generate record diagnose help --help --version"
complete_line "headroom ex" "explain"
complete_line "headroom ladder s" "softmax"
complete_line "headroom run --tu" "--tune"
complete_line "headroom run kernels/softmax.hr:" "kernels/softmax.hr:softmax"
complete_line "headroom run kernels/sum.hr:c" "kernels/sum.hr:column_sum"
complete_line "headroom run kernels/sum.hr:row_sum " "x= T= M= N="
complete_line "headroom run kernels/linear_int4.hr " "q= scale= x= T= W= G= M= N="
complete_line "headroom run kernels/sum.hr:row_sum T=bf" "bf16"
complete_line "headroom run kernels/sum.hr:row_sum M=1" ""
complete_line "headroom run kernels/rope.hr F=i" "i64 i32 i16 i8"
complete_line "headroom run kernels/layernorm.hr " "x= weight= bias= eps= T= M= N="
complete_line "headroom run kernels/adamw.hr:adamw -o " "p= m= v= w="
complete_line "headroom run kernels/adamw.hr --tune " "none quick full"
PATH=$build:$PATH
complete_line "headroom bench --only softm" "softmax softmax_backward"
complete_line "headroom bench --only softmax,column" "softmax,column_sum"

# The same in the other shells, where they are installed: complete_in SHELL WANTED WORD...
complete_in() {
    local shell=$1 wanted=$2 offered
    shift 2
    if [ "$shell" = fish ]; then
        offered=$(fish --no-config -c "source $source/completions/headroom.fish; complete -C '$*'" | cut -f1)
    else
        offered=$(zsh -f -c 'compadd() { print -rl -- ${(M)@[2,-1]:#$PREFIX*} }
            compset() { local all=$PREFIX; PREFIX=${PREFIX##${~2}}; [[ $PREFIX != $all ]] }
            _files() { : }
            script=$1; shift; words=("$@"); CURRENT=$#; PREFIX=$words[-1]; source $script "$@"' \
            zsh "$source/completions/headroom.zsh" "$@")
    fi
    offered=$(sort <<<"$offered" | tr '\n' ' ')
    [ "$offered" = "$wanted " ] || fail "$shell, completing \"$*\": \"$offered\", should be \"$wanted\""
}
for shell in zsh fish; do
    command -v $shell >/dev/null || continue
    complete_in $shell "explain" headroom ex
    complete_in $shell "softmax" headroom ladder s
    complete_in $shell "--tune" headroom run --tu
    complete_in $shell "full none quick" headroom run softmax --tune ""
    complete_in $shell "tuning" headroom help tu
    complete_in $shell "softmax softmax_backward" headroom run softm
    complete_in $shell "softmax softmax_backward" headroom bench --only softm
done
! command -v zsh >/dev/null || complete_in zsh "column_sum" headroom bench --only softmax,column
! command -v fish >/dev/null || complete_in fish "softmax,column_sum" headroom bench --only softmax,column
cd "$build" || exit 1
complete_line "headroom run softm" "softmax softmax_backward"
complete_line "headroom run row_sum " "x= T= M= N="
exit $failed
