#!/usr/bin/env bash
# Write build/sbom.json (CycloneDX) from requirements/service.txt, and look its packages up in the Python advisories.
#
# The tools live in build/audit-tools, apart from what they check. Without a network the list is still written, if the
# tools are there; the advisories are then reported as not checked, with status 0. A known vulnerability gives status 1.
set -euo pipefail
cd "$(dirname "$0")/.."
tools=build/audit-tools
lock=requirements/service.txt
report=build/audit.json

offline() { grep -qiE 'connection|timed out|resolution' "$1"; }

if [ ! -x $tools/bin/pip-audit ] || [ ! -x $tools/bin/cyclonedx-py ]; then
    "${PYTHON:-python3}" -m venv $tools
    if ! $tools/bin/pip install --quiet 'pip-audit>=2.9,<3' 'cyclonedx-bom>=7,<8' 2>build/audit.log; then
        cat build/audit.log
        offline build/audit.log || exit 1
        echo "not audited: the tools cannot be installed without a network"
        exit 0
    fi
fi

# the list names no dependencies between packages, of which the tool warns
PYTHONWARNINGS=ignore $tools/bin/cyclonedx-py requirements $lock --pyproject pyproject.toml --output-reproducible --of JSON -o build/sbom.json
echo "build/sbom.json: $(grep -c '"purl"' build/sbom.json) packages"

rm -f $report
$tools/bin/pip-audit --requirement $lock --require-hashes --disable-pip --progress-spinner off --timeout 10 \
    --format json --output $report 2>build/audit.log && status=0 || status=$?
if [ ! -s $report ]; then
    if offline build/audit.log; then
        echo "the advisories were not checked: they cannot be reached, see build/audit.log"
        exit 0
    fi
    cat build/audit.log
    exit 1
fi
cat build/audit.log
[ $status -eq 0 ] || cat $report
exit $status
