#!/usr/bin/env bash
# tools/setup.sh: quiet where all is there; names exactly what is missing where it cannot install; asks apt for
# it where it can, once more after refreshing the lists.
set -euo pipefail
setup=$2/tools/setup.sh
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT

expect() { # expect WHAT EXPECTED GOT
    [ "$2" = "$3" ] || { printf '%s\nexpected: %s\ngot:      %s\n' "$1" "$2" "$3" >&2; exit 1; }
}

tools_for() { # a folder of commands: all that the script itself uses, and those named
    local folder=$1 name
    mkdir -p "$folder"
    for name in sh cut sed grep paste id "${@:2}"; do ln -s "$(command -v "$name")" "$folder/$name"; done
}

expect "all is there" "" "$("$setup" build)"

# A system without apt, where a library is missing.
tools_for "$scratch/foreign" cmake ninja
cat >"$scratch/foreign/cc" <<<'#!/bin/sh
exit 0'
cat >"$scratch/foreign/pkg-config" <<<'#!/bin/sh
[ "$2" != jansson ]'
chmod +x "$scratch"/foreign/*g "$scratch"/foreign/cc
code=0
message=$(PATH=$scratch/foreign "$setup" build 2>&1) || code=$?
expect "exit code where it cannot install" 3 $code
expect "what is missing" "setup: this system has no apt-get. Still missing:
  Jansson with its header
Please install these with the tool of your system and run this again." "$message"

# A Debian whose package lists are stale: the first install fails, the one after the refresh works.
cp -r "$scratch/foreign" "$scratch/debian"
cat >"$scratch/debian/sudo" <<<'#!/bin/sh
exec "$@"'
cat >"$scratch/debian/apt-get" <<EOF2
#!/bin/sh
for last; do case \$last in install | update) verb=\$last ;; esac; done
echo "\$verb \$last" >>$scratch/asked
[ \$verb = install ] && [ ! -e $scratch/fresh ] && exit 100
[ \$verb = update ] && exec /bin/sh -c ': >$scratch/fresh'
printf '#!/bin/sh\n' >$scratch/debian/pkg-config
EOF2
chmod +x "$scratch"/debian/sudo "$scratch"/debian/apt-get
PATH=$scratch/debian "$setup" build >/dev/null 2>&1
expect "what apt was asked" "install libjansson-dev update update install libjansson-dev" "$(paste -s -d ' ' "$scratch/asked")"

code=0
"$setup" everything >/dev/null 2>&1 || code=$?
expect "exit code of bad usage" 2 $code
