#compdef headroom
# Zsh completion of headroom: subcommands, their flags and values, and the library's kernels by name. Put it into a folder
# of $fpath as _headroom.

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

# The folder of the library's kernels, of the installation or of the source tree.
_headroom_library() {
    local base=${commands[headroom]:A}
    while [[ $base == */* ]]; do
        base=${base%/*}
        [[ -f $base/share/headroom/kernels/layernorm.hr ]] && echo $base/share/headroom/kernels && return
        [[ -f $base/kernels/layernorm.hr ]] && echo $base/kernels && return
    done
}

_headroom_kernels() {
    local folder=$(_headroom_library)
    [[ -n $folder ]] && sed -n 's/^ *kernel *\([a-z0-9_]*\).*/\1/p' $folder/*.hr | sort
}

_headroom() {
    local command=$words[2]
    if (( CURRENT == 2 )); then
        compadd -- run explain emit grad roof bench sweep ladder generate record diagnose help --help --version
        return
    fi
    case $words[CURRENT-1] in
    --device) compadd -- cpu cuda; return ;;
    --tune) compadd -- none quick full; return ;;
    --values) compadd -- mean-0 mean-1 positive; return ;;
    --target) compadd -- c c:x86-64 cuda cuda:sm_80 cuda:sm_90a cuda:sm_100a; return ;;
    --only) compset -P '*,'; compadd -- ${(f)"$(_headroom_kernels)"}; return ;;
    --html|--csv|--roof|--perfetto) _files; return ;;
    esac
    if [[ $PREFIX == -* ]]; then
        compadd -- ${=$(_headroom_flags $command)}
        return
    fi
    case $command in
    help) compadd -- run explain emit grad roof bench sweep ladder generate record diagnose help tuning ;;
    ladder) (( CURRENT == 3 )) && compadd -- gemm softmax attention ;;
    run|explain|emit|grad|sweep)
        if (( CURRENT == 3 )); then
            compadd -- ${(f)"$(_headroom_kernels)"}
            _files -g '*.hr'
        elif compset -P '*='; then
            _files -g '*.npy'
        fi
        ;;
    generate) _files ;;
    bench) _files -/ ;;
    record|diagnose) _files ;;
    esac
}

_headroom "$@"
