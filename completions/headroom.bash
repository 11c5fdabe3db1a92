# Bash completion of headroom: subcommands, their flags, kernels after FILE.hr: and the names that a kernel takes.
# Put it where bash-completion looks (share/bash-completion/completions/headroom), or source it.

_headroom_flags() {
    case $1 in
    run) echo --output --device --tune --seed --values --threads --repeat --no-verify --json --html --help ;;
    explain) echo --device --json --help ;;
    emit) echo --target --output --name --fixed --device --help ;;
    grad) echo --of --wrt --save --recompute --name --accumulate --forward --check --output --help ;;
    roof) echo --again --device --json --html --help ;;
    record) echo --output --for --from-range --steps --counters --help ;;
    diagnose) echo --ranks --compare --roof --json --html --perfetto --help ;;
    bench) echo --only --size --tune --repeat --device --no-verify --json --csv --help ;;
    sweep) echo --html --device --tune --no-verify --json --help ;;
    ladder) echo --list --show --html --tune --device --json --help ;;
    generate) echo --chat --system --number --temperature --top-k --top-p --min-p --seed --draft --requests --at-once --chunk --context --device --threads --text --explain --json --help ;;
    esac
}

_headroom_dtypes="f64 f32 f16 bf16 f8e4m3 f8e5m2 i64 i32 i16 i8 u8 bool"

# The folder of the library's kernels, of the installation or of the source tree.
_headroom_library() {
    local base
    base=$(readlink -f "$(type -P headroom)" 2>/dev/null)
    while [[ $base == */* ]]; do
        base=${base%/*}
        [ -f "$base/share/headroom/kernels/layernorm.hr" ] && echo "$base/share/headroom/kernels" && return
        [ -f "$base/kernels/layernorm.hr" ] && echo "$base/kernels" && return
    done
}

# The names of the library's kernels.
_headroom_library_kernels() {
    local folder
    folder=$(_headroom_library)
    [ -n "$folder" ] && cat "$folder"/*.hr | _headroom_kernels /dev/stdin | sort
}

# The file of a kernel of the library.
_headroom_library_file() {
    local folder
    folder=$(_headroom_library)
    [ -n "$folder" ] && grep -lE "^ *kernel +$1\(" "$folder"/*.hr 2>/dev/null | head -1
}

# Names of the kernels of a text.
_headroom_kernels() {
    sed -n 's/^[[:space:]]*kernel[[:space:]]\{1,\}\([a-z0-9_]\{1,\}\).*/\1/p' "$1" 2>/dev/null
}

# bench --only softmax,layer: the kernels behind the last comma.
_headroom_only() {
    local before=
    [[ $1 == *,* ]] && before=${1%,*},
    compgen -P "$before" -W "$(_headroom_library_kernels)" -- "${1##*,}"
}

# The declaration of a kernel of a text ($2 empty: of the first), from `kernel` to the brace.
_headroom_declaration() {
    sed 's/#.*//' "$1" 2>/dev/null |
        awk -v name="${2:-}" '$1 == "kernel" && (name == "" || index($2, name "(") == 1) { on = 1 }
                          on { print }  on && /\{/ { exit }'
}

# The dtype variables of a kernel: T.
_headroom_variables() {
    _headroom_declaration "$1" "$2" | grep -o ': *\(inout *\|const *\)\{0,1\}[A-Z][A-Za-z0-9_]*' | sed 's/.*[: ]//' | sort -u
}

# x= weight= T= M= ... : its parameters, dtype variables and extents. $3 = results: what -o takes.
_headroom_names() {
    local declaration
    declaration=$(_headroom_declaration "$1" "$2")
    if [ "${3:-}" = results ]; then
        {
            grep -o '[a-z][a-z0-9_]*: *inout' <<<"$declaration"
            tr -d '\n' <<<"$declaration" | sed -n 's/.*->//p' | grep -o '[a-z][a-z0-9_]*:'
        } | sed 's/:.*/=/'
    else
        {
            tr -d '\n' <<<"$declaration" | sed 's/->.*//' | grep -o '[a-z][a-z0-9_]*:'
            _headroom_variables "$1" "$2"
            grep -o '\[[^]]*\]' <<<"$declaration" | grep -o '[A-Z][A-Za-z0-9_]*' | sort -u
        } | sed 's/:*$/=/'
    fi
}

_headroom() {
    local word=${COMP_WORDS[COMP_CWORD]} command=${COMP_WORDS[1]} line=${COMP_LINE:0:COMP_POINT}
    local commands="run explain emit grad roof bench sweep ladder generate record diagnose help" current=${line##* } before file kernel prefix
    before=${line% *}
    before=${before##* }
    COMPREPLY=()
    if [ "$COMP_CWORD" -eq 1 ]; then
        mapfile -t COMPREPLY < <(compgen -W "$commands --help --version" -- "$word")
        return
    fi
    case $before in
    --device) mapfile -t COMPREPLY < <(compgen -W "cpu cuda" -- "$word") && return ;;
    --tune) mapfile -t COMPREPLY < <(compgen -W "none quick full" -- "$word") && return ;;
    --values) mapfile -t COMPREPLY < <(compgen -W "mean-0 mean-1 positive" -- "$word") && return ;;
    --target) mapfile -t COMPREPLY < <(compgen -W "c cuda" -- "$word") && return ;;
    --only) mapfile -t COMPREPLY < <(_headroom_only "$word") && return ;;
    --html | --csv | --roof) mapfile -t COMPREPLY < <(compgen -f -- "$word") && return ;;
    esac
    # the kernel's file is the third word; bash may have split it at its colon
    file=$(sed -n 's/^ *[^ ]*headroom  *[a-z]*  *\([^ ]*\.hr\).*/\1/p' <<<"$line")
    kernel=$(sed -n 's/^ *[^ ]*headroom  *[a-z]*  *[^ ]*\.hr:\([a-z0-9_]*\) .*/\1/p' <<<"$line")
    if [ -z "$file" ]; then
        kernel=$(sed -n 's/^ *[^ ]*headroom  *[a-z]*  *\([a-z][a-z0-9_]*\) .*/\1/p' <<<"$line")
        [ -n "$kernel" ] && file=$(_headroom_library_file "$kernel")
    fi
    case $command:$current in
    help:*) mapfile -t COMPREPLY < <(compgen -W "$commands tuning" -- "$word") ;;
    *:-*) mapfile -t COMPREPLY < <(compgen -W "$(_headroom_flags "$command")" -- "$word") ;;
    roof:*) ;;
    ladder:*) [ "$COMP_CWORD" -eq 2 ] && mapfile -t COMPREPLY < <(compgen -W "gemm softmax attention" -- "$word") ;;
    diagnose:*) mapfile -t COMPREPLY < <(compgen -f -- "$word") ;;
    record:*) mapfile -t COMPREPLY < <(compgen -c -- "$word"; compgen -f -- "$word") ;;
    bench:*) mapfile -t COMPREPLY < <(compgen -d -- "$word") ;;
    *:*.hr:*)
        [ "$word" = : ] && word=
        prefix=
        [[ $word == *.hr:* ]] && prefix=${word%:*}: && word=${word##*:}
        mapfile -t COMPREPLY < <(compgen -P "$prefix" -W "$(_headroom_kernels "$file")" -- "$word")
        ;;
    *:*=*)
        [ "$word" = = ] && word=
        if [ -n "$file" ] && [[ $current == [A-Z]* ]]; then
            if _headroom_variables "$file" "$kernel" | grep -qxF "${current%%=*}"; then
                mapfile -t COMPREPLY < <(compgen -W "$_headroom_dtypes" -- "${word#*=}")
            fi
            return
        fi
        mapfile -t COMPREPLY < <(compgen -f -X '!*.npy' -- "${word#*=}"; compgen -d -- "${word#*=}")
        ;;
    *)
        if [ -z "$file" ] || [ "$file" = "$current" ]; then
            mapfile -t COMPREPLY < <(compgen -f -X '!*.hr' -- "$word"; compgen -d -- "$word"
                compgen -W "$(_headroom_library_kernels)" -- "$word")
        elif [ "$before" = -o ] || [ "$before" = --output ]; then
            mapfile -t COMPREPLY < <(compgen -W "$(_headroom_names "$file" "$kernel" results)" -- "$word")
            compopt -o nospace 2>/dev/null
        else
            mapfile -t COMPREPLY < <(compgen -W "$(_headroom_names "$file" "$kernel")" -- "$word")
            compopt -o nospace 2>/dev/null
        fi
        ;;
    esac
}

complete -o filenames -F _headroom headroom
