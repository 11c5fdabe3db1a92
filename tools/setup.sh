#!/bin/sh
# Installs what a bare Debian or Ubuntu with gcc and make lacks, and nothing else.
#
# in:   build  what the library and the command are built with (the default)
#       test   that, and what the tests use
# out:  0 all is there; 3 something is missing and could not be installed: its name is printed
#
# On a system without apt-get it only names what is missing. It runs apt-get through sudo when not root.
set -u

# package | how to tell that it is there | what it is called elsewhere
needed_to_build='
libc6-dev      | header stdio.h    | the C library headers
cmake          | command cmake     | CMake 3.20 or newer
ninja-build    | command ninja     | Ninja
pkg-config     | command pkg-config| pkg-config
libsqlite3-dev | module sqlite3    | SQLite 3 with its header
libjansson-dev | module jansson    | Jansson with its header
libxxhash-dev  | module libxxhash  | xxHash with its header
zlib1g-dev     | module zlib       | zlib with its header
'
needed_to_test='
libcmocka-dev  | module cmocka     | cmocka with its header
'
# Tests that need these are skipped without them.
useful_to_test='
g++            | command g++       | a C++ compiler
python3        | command python3   | Python 3
python3-numpy  | python numpy      | NumPy
python3-dev    | python_header Python.h | the headers of Python 3.11 or newer
clang          | command clang     | clang
gcc-aarch64-linux-gnu | command aarch64-linux-gnu-gcc | a C compiler for aarch64
libc6-dev-arm64-cross | file /usr/aarch64-linux-gnu/include/stdio.h | its C library
qemu-user      | command qemu-aarch64 | QEMU for programs of aarch64
'

has_module() { # has_module PYTHON NAME
    "$1" -c "import importlib.util, sys; sys.exit(importlib.util.find_spec('$2') is None)"
}

has_python_header() { # has_python_header PYTHON
    "$1" -c "import os, sysconfig; assert os.path.exists(sysconfig.get_path('include') + '/Python.h')"
}

is_there() { # is_there KIND NAME
    case $1 in
    command) command -v "$2" ;;
    file) [ -e "$2" ] ;;
    header) printf '#include <%s>\n' "$2" | cc -E - ;;
    module) pkg-config --exists "$2" ;;
    python_header) has_python_header python3 || has_python_header /usr/bin/python3 ;;
    python) has_module python3 "$2" || has_module /usr/bin/python3 "$2" ;;
    esac >/dev/null 2>&1
}

# The lines of a table whose thing is not there.
missing_of() {
    printf '%s' "$1" | while IFS='|' read -r package check title; do
        [ -n "$package" ] || continue
        # shellcheck disable=SC2086  # two words: kind and name
        is_there $check || printf '%s|%s|%s\n' "$package" "$check" "$title"
    done
}

column() { cut -d '|' -f "$1" | sed 's/^ *//; s/ *$//'; }

apt() {
    DEBIAN_FRONTEND=noninteractive $as_root apt-get -q -y -o DPkg::Lock::Timeout=300 "$@" </dev/null
}

# Package lists may be absent or stale: fetch them once and try again.
install() {
    apt install --no-install-recommends "$@" && return
    echo "setup: refreshing the package lists"
    apt update && apt install --no-install-recommends "$@"
}

give_up() { # give_up MISSING REASON
    {
        printf 'setup: %s. Still missing:\n' "$2"
        printf '%s\n' "$1" | column 3 | sed 's/^/  /'
        echo 'Please install these with the tool of your system and run this again.'
    } >&2
    exit 3
}

say_skipped() { # say_skipped REASON
    echo "setup: $1tests that need $(printf '%s\n' "$wanted" | column 3 | paste -s -d , -) will be skipped."
}

what=${1:-build}
case $what in
build) needed=$needed_to_build useful= ;;
test) needed=$needed_to_build$needed_to_test useful=$useful_to_test ;;
*)
    echo "usage: tools/setup.sh [build|test]" >&2
    exit 2
    ;;
esac

if ! command -v cc >/dev/null; then
    echo "setup: no C compiler. Please install one (on Debian and Ubuntu: the package gcc)." >&2
    exit 3
fi
missing=$(missing_of "$needed")
wanted=$(missing_of "$useful")
[ -n "$missing$wanted" ] || exit 0

reason=
as_root=
if ! command -v apt-get >/dev/null; then
    reason='this system has no apt-get'
elif [ "$(id -u)" != 0 ]; then
    as_root='sudo'
    command -v sudo >/dev/null || reason='not root, and there is no sudo'
fi
if [ -n "$reason" ]; then
    [ -z "$missing" ] || give_up "$missing" "$reason"
    say_skipped "$reason; "
    exit 0
fi

# Apart, so that what is only useful cannot stop what is needed.
for part in "$missing" "$wanted"; do
    packages=$(printf '%s\n' "$part" | column 1 | paste -s -d ' ' -)
    [ -n "$packages" ] || continue
    echo "setup: installing $packages"
    # shellcheck disable=SC2086  # a list of words
    install $packages || echo "setup: apt-get could not install all of $packages" >&2
done

missing=$(missing_of "$needed")
[ -z "$missing" ] || give_up "$missing" 'see what apt-get says above (on Ubuntu, the component universe is needed)'
wanted=$(missing_of "$useful")
[ -z "$wanted" ] || say_skipped ''
