#!/usr/bin/env bash
# Update requirements/*.txt from pyproject.toml. Valid pins are kept; UPGRADE=1 updates them to the newest versions.
#
# This uses uv because it resolves for all platforms and Python versions (--universal); pip-compile resolves only for
# the current machine. uv is installed into build/lock-tools.
set -euo pipefail
cd "$(dirname "$0")/.."
tools=build/lock-tools
[ -x $tools/bin/uv ] || { "${PYTHON:-python3}" -m venv $tools && $tools/bin/pip install --quiet 'uv>=0.8,<1'; }

lock() {
    local output=$1
    shift
    $tools/bin/uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-annotate \
        --custom-compile-command 'make lock' ${UPGRADE:+--upgrade} --output-file "requirements/$output.txt" "$@"
    echo "requirements/$output.txt: $(grep -c == "requirements/$output.txt") packages"
}

# dev first, so that the service gets the versions that the tests use.
lock dev pyproject.toml --extra dev --extra fastembed --extra otel
lock service pyproject.toml --constraint requirements/dev.txt
lock build requirements/build.in --constraint requirements/dev.txt
lock local-llm requirements/local-llm.in --no-deps
lock peers requirements/peers.in
lock uv requirements/uv.in
