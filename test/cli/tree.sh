#!/usr/bin/env bash
# The tree keeps its own rules: unique file names, files and functions of a size to read, nothing left undone.
set -euo pipefail
cd "$2"
longest_file=600     # lines; tests, and the one public header:
longest_list=800
longest_header=1200
longest_function=100 # lines, outside of tests, whose functions may be tables; those over 50 are listed
failed=0
complain() {
    echo "$1:"
    sed 's/^/  /'
    failed=1
}

texts() { git ls-files --cached --others --exclude-standard 2>/dev/null || find . -path ./build -prune -o -type f -print; }
sources() { texts | grep '\.[ch]$'; }

# Lines of each function of clang-formatted C: from the line that opens it in column 0 to its brace.
functions() {
    sources | xargs awk '
        FNR == 1 { start = body = 0 }
        !body && /^[A-Za-z_].*\(/ { start = FNR; name = $0; sub(/\(.*/, "", name); sub(/.*[ *]/, "", name) }
        !body && /;$/ { start = 0 }
        start && /\{$/ { body = 1 }
        body && /^}/ { print FNR - start + 1, FILENAME ":" start, name; start = body = 0 }' | sort -rn
}

same=$(sources | sed 's|.*/||' | sort | uniq -d)
[ -z "$same" ] || complain "file names that are not unique" <<<"$same"

long=$(sources | xargs wc -l | awk -v limit=$longest_file -v list=$longest_list -v header=$longest_header '
    $2 != "total" && $1 > ($2 ~ /^include\// ? header : $2 ~ /^test\// ? list : limit)')
[ -z "$long" ] || complain "files over $longest_file lines, tests over $longest_list" <<<"$long"

long=$(functions | awk -v limit=$longest_function '$1 > limit && $2 !~ /^test\//')
[ -z "$long" ] || complain "functions over $longest_function lines" <<<"$long"

undone=$(texts | grep -v '^test/cli/tree.sh$' | xargs grep -nIwE 'TODO|FIXME|XXX|HACK|not implemented( yet)?' || true)
[ -z "$undone" ] || complain "marks of unfinished work" <<<"$undone"

gone=$(texts | grep '\.md$' | xargs grep -noE '`(src|include|cmd|kernels|tools|bench|test|docs|examples)/[a-z0-9_/.-]*`' /dev/null |
    sed 's/`//g' | while IFS=: read -r document line path; do [ -e "$path" ] || echo "$document:$line: $path"; done)
[ -z "$gone" ] || complain "documents that name files which do not exist" <<<"$gone"

functions | awk '
    { total++; if ($1 > 50) { over++; list = list "\n  " $0 } }
    END { printf "%d functions, %d of them over 50 lines%s\n", total, over, list }'
exit $failed
