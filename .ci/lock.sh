#!/usr/bin/env bash
# Write requirements/*.txt anew from pyproject.toml. Pins that still fit are kept; UPGRADE=1 takes the newest.
#
# uv makes them because it resolves for every platform and Python version at once (--universal); pip-compile resolves
# for the machine that it runs on. Only this script needs uv. It is installed into a folder of its own.
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

# dev first: what the tests ran with is what the service gets.
lock dev pyproject.toml --extra dev --extra fastembed
lock service pyproject.toml --constraint requirements/dev.txt
lock build requirements/build.in --constraint requirements/dev.txt
lock local-llm requirements/local-llm.in --no-deps
