#!/bin/sh
# The benchmark with its peers, in a Python of 3.11 or later that has NumPy and JAX: the system's, or one made in
# BUILD/venv.
#
# in:   BUILD with its python_package [options of bench/peers_cpu.py]
# out:  bench/results/cpu-DATE.csv and .md; exit 3 where there is no Python, or no way to install the peers
set -eu
build=$1
shift
root=$(cd "$(dirname "$0")/.." && pwd)

has_peers() { "$1" -c 'import numpy, jax, ml_dtypes' 2>/dev/null; }
stop() {
    echo "bench: $1" >&2
    exit 3
}

command -v python3 >/dev/null || stop 'the peers need Python 3. Please install it (Debian, Ubuntu: python3 and python3-venv).'
python=python3
if ! has_peers $python; then
    python=$build/venv/bin/python
    if ! has_peers "$python"; then
        echo "bench: installing NumPy and JAX into $build/venv"
        python3 -m venv "$build/venv" || stop 'python3 has no venv. Please install it (Debian, Ubuntu: python3-venv).'
        "$python" -m pip -q install numpy jax || stop 'NumPy and JAX could not be installed; pip says why above.'
    fi
fi
PYTHONPATH=$build/python_package exec "$python" "$root/bench/peers_cpu.py" "$@"
