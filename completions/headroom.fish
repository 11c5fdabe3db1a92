# Fish completion of headroom: subcommands, their flags and values, and the library's kernels by name. Put it into
# share/fish/vendor_completions.d/headroom.fish, or ~/.config/fish/completions.

# The names of the library's kernels, of the installation or of the source tree.
function __headroom_kernels
    set -l base (realpath (command -s headroom) 2>/dev/null)
    while string match -q '*/*' -- $base
        set base (string replace -r '/[^/]*$' '' -- $base)
        for folder in $base/share/headroom/kernels $base/kernels
            if test -f $folder/layernorm.hr
                sed -n 's/^ *kernel *\([a-z0-9_]*\).*/\1/p' $folder/*.hr | sort
                return
            end
        end
    end
end

complete -c headroom -n __fish_use_subcommand -f -a "run explain emit grad roof bench sweep ladder generate record diagnose help"
complete -c headroom -n __fish_use_subcommand -l help
complete -c headroom -n __fish_use_subcommand -l version
complete -c headroom -n "__fish_seen_subcommand_from run explain emit grad sweep" -a "(__headroom_kernels)"
complete -c headroom -n "__fish_seen_subcommand_from help" -f -a "run explain emit grad roof bench sweep ladder generate record diagnose help tuning"
complete -c headroom -n "__fish_seen_subcommand_from run" -l output -s o -r
complete -c headroom -n "__fish_seen_subcommand_from run" -l device -x -a "cpu cuda"
complete -c headroom -n "__fish_seen_subcommand_from run" -l tune -x -a "none quick full"
complete -c headroom -n "__fish_seen_subcommand_from run" -l seed -r
complete -c headroom -n "__fish_seen_subcommand_from run" -l values -x -a "mean-0 mean-1 positive"
complete -c headroom -n "__fish_seen_subcommand_from run" -l threads -r
complete -c headroom -n "__fish_seen_subcommand_from run" -l repeat -r
complete -c headroom -n "__fish_seen_subcommand_from run" -l no-verify
complete -c headroom -n "__fish_seen_subcommand_from run" -l json
complete -c headroom -n "__fish_seen_subcommand_from run" -l html -r
complete -c headroom -n "__fish_seen_subcommand_from run" -l help -s h
complete -c headroom -n "__fish_seen_subcommand_from explain" -l device -x -a "cpu cuda"
complete -c headroom -n "__fish_seen_subcommand_from explain" -l json
complete -c headroom -n "__fish_seen_subcommand_from explain" -l help -s h
complete -c headroom -n "__fish_seen_subcommand_from emit" -l target -x -a "c c:x86-64 cuda cuda:sm_80 cuda:sm_90a cuda:sm_100a"
complete -c headroom -n "__fish_seen_subcommand_from emit" -l output -s o -r
complete -c headroom -n "__fish_seen_subcommand_from emit" -l name -x
complete -c headroom -n "__fish_seen_subcommand_from emit" -l fixed
complete -c headroom -n "__fish_seen_subcommand_from emit" -l device -x -a "cpu cuda"
complete -c headroom -n "__fish_seen_subcommand_from emit" -l help -s h
complete -c headroom -n "__fish_seen_subcommand_from grad" -l of -r
complete -c headroom -n "__fish_seen_subcommand_from grad" -l wrt -r
complete -c headroom -n "__fish_seen_subcommand_from grad" -l save -r
complete -c headroom -n "__fish_seen_subcommand_from grad" -l recompute -r
complete -c headroom -n "__fish_seen_subcommand_from grad" -l name -r
complete -c headroom -n "__fish_seen_subcommand_from grad" -l accumulate
complete -c headroom -n "__fish_seen_subcommand_from grad" -l forward
complete -c headroom -n "__fish_seen_subcommand_from grad" -l check
complete -c headroom -n "__fish_seen_subcommand_from grad" -l output -s o -r
complete -c headroom -n "__fish_seen_subcommand_from grad" -l help -s h
complete -c headroom -n "__fish_seen_subcommand_from roof" -l again
complete -c headroom -n "__fish_seen_subcommand_from roof" -l device -x -a "cpu cuda"
complete -c headroom -n "__fish_seen_subcommand_from roof" -l json
complete -c headroom -n "__fish_seen_subcommand_from roof" -l html -r
complete -c headroom -n "__fish_seen_subcommand_from roof" -l help -s h
complete -c headroom -n "__fish_seen_subcommand_from record" -l output -s o -r
complete -c headroom -n "__fish_seen_subcommand_from record" -l for -r
complete -c headroom -n "__fish_seen_subcommand_from record" -l from-range -r
complete -c headroom -n "__fish_seen_subcommand_from record" -l steps -r
complete -c headroom -n "__fish_seen_subcommand_from record" -l counters
complete -c headroom -n "__fish_seen_subcommand_from record" -l help -s h
complete -c headroom -n "__fish_seen_subcommand_from diagnose" -l ranks
complete -c headroom -n "__fish_seen_subcommand_from diagnose" -l compare
complete -c headroom -n "__fish_seen_subcommand_from diagnose" -l roof -r
complete -c headroom -n "__fish_seen_subcommand_from diagnose" -l json
complete -c headroom -n "__fish_seen_subcommand_from diagnose" -l html -r
complete -c headroom -n "__fish_seen_subcommand_from diagnose" -l perfetto -r
complete -c headroom -n "__fish_seen_subcommand_from diagnose" -l help -s h
complete -c headroom -n "__fish_seen_subcommand_from bench" -l only -x -a "(__fish_complete_list , __headroom_kernels)"
complete -c headroom -n "__fish_seen_subcommand_from bench" -l size -r
complete -c headroom -n "__fish_seen_subcommand_from bench" -l tune -x -a "none quick full"
complete -c headroom -n "__fish_seen_subcommand_from bench" -l repeat -r
complete -c headroom -n "__fish_seen_subcommand_from bench" -l device -x -a "cpu cuda"
complete -c headroom -n "__fish_seen_subcommand_from bench" -l no-verify
complete -c headroom -n "__fish_seen_subcommand_from bench" -l json
complete -c headroom -n "__fish_seen_subcommand_from bench" -l csv -r
complete -c headroom -n "__fish_seen_subcommand_from bench" -l help -s h
complete -c headroom -n "__fish_seen_subcommand_from sweep" -l html -s o -r
complete -c headroom -n "__fish_seen_subcommand_from sweep" -l device -x -a "cpu cuda"
complete -c headroom -n "__fish_seen_subcommand_from sweep" -l tune -x -a "none quick full"
complete -c headroom -n "__fish_seen_subcommand_from sweep" -l no-verify
complete -c headroom -n "__fish_seen_subcommand_from sweep" -l json
complete -c headroom -n "__fish_seen_subcommand_from sweep" -l help -s h
complete -c headroom -n "__fish_seen_subcommand_from ladder" -l list
complete -c headroom -n "__fish_seen_subcommand_from ladder" -l show -x
complete -c headroom -n "__fish_seen_subcommand_from ladder" -l html -s o -r
complete -c headroom -n "__fish_seen_subcommand_from ladder" -l tune -x -a "none quick full"
complete -c headroom -n "__fish_seen_subcommand_from ladder" -l device -x -a "cuda"
complete -c headroom -n "__fish_seen_subcommand_from ladder" -l json
complete -c headroom -n "__fish_seen_subcommand_from ladder" -l help -s h
complete -c headroom -n "__fish_seen_subcommand_from ladder" -f -a "gemm softmax attention"
complete -c headroom -n "__fish_seen_subcommand_from generate" -l chat
complete -c headroom -n "__fish_seen_subcommand_from generate" -l system -x
complete -c headroom -n "__fish_seen_subcommand_from generate" -l number -s n -x
complete -c headroom -n "__fish_seen_subcommand_from generate" -l temperature -x
complete -c headroom -n "__fish_seen_subcommand_from generate" -l top-k -x
complete -c headroom -n "__fish_seen_subcommand_from generate" -l top-p -x
complete -c headroom -n "__fish_seen_subcommand_from generate" -l min-p -x
complete -c headroom -n "__fish_seen_subcommand_from generate" -l seed -x
complete -c headroom -n "__fish_seen_subcommand_from generate" -l draft -r
complete -c headroom -n "__fish_seen_subcommand_from generate" -l requests -r
complete -c headroom -n "__fish_seen_subcommand_from generate" -l at-once -x
complete -c headroom -n "__fish_seen_subcommand_from generate" -l chunk -x
complete -c headroom -n "__fish_seen_subcommand_from generate" -l context -x
complete -c headroom -n "__fish_seen_subcommand_from generate" -l device -x -a "cpu"
complete -c headroom -n "__fish_seen_subcommand_from generate" -l threads -x
complete -c headroom -n "__fish_seen_subcommand_from generate" -l text -r
complete -c headroom -n "__fish_seen_subcommand_from generate" -l explain
complete -c headroom -n "__fish_seen_subcommand_from generate" -l json
complete -c headroom -n "__fish_seen_subcommand_from generate" -l help -s h
