"""Requests of every kind that the description of the API allows, and of many that it does not, over a real service.

`make fuzz` runs it for a quarter of an hour.
"""

import asyncio
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.stack import FACTS, Stack, put, running_stack
from worker.api.app import document
from worker.api.gate import QUIET

SECONDS = int(os.environ.get("FUZZ_SECONDS", "60"))
TOKEN = "a-token-for-the-fuzzer"

LENIENT = ("negative_data_rejection", "positive_data_acceptance")
"""Checks that are left out: models take numbers for times and words for numbers where those mean something, and refuse
what is well formed and senseless, such as a memory that is related to itself."""

CONFIGURATION = """\
[parameters]
"path.host" = "claude-code"

[checks]
not_a_server_error.expected-statuses = ["2xx", "3xx", "4xx", "504"]
"""
"""504 answers a deadline of a millisecond, which the fuzzer likes to set; without a host that there is, a hook does
nothing."""

CRASHES = ("http_crashed", "job_crashed", "http_ended", "background_work_failed", "Traceback")


@pytest.fixture
def stack(tmp_path: Path) -> Iterator[Stack]:
    variables = {"MEESEEKS_HTTP_ENABLED": "true", "MEESEEKS_HTTP_PORT": "0", "MEESEEKS_HTTP_TOKEN": TOKEN}
    with running_stack(tmp_path, "up", "--model", "none", **variables, MEESEEKS_HTTP_RATE_LIMIT="0") as stack:
        asyncio.run(put(stack.url, FACTS, "default"))
        yield stack


@pytest.mark.slow
@pytest.mark.timeout(SECONDS + 180)
def test_nothing_that_is_sent_breaks_the_service(stack: Stack, tmp_path: Path) -> None:
    configuration, report = tmp_path / "schemathesis.toml", tmp_path / "report.json"
    configuration.write_text(CONFIGURATION, encoding="utf-8")
    fuzzer = [str(Path(sys.executable).with_name("schemathesis")), "--no-color", "--config-file", str(configuration)]
    options = ["--max-time", str(SECONDS), "--continue-on-failure", "--no-shrink", "--generation-database", "none"]
    options += ["--checks", "all", "--exclude-checks", ",".join(LENIENT), "--request-timeout", "20"]
    options += ["--report-json-path", str(report), "--seed", os.environ.get("FUZZ_SEED", "1")]
    header = ["-H", f"Authorization: Bearer {TOKEN}"]
    line = [*fuzzer, "run", f"{stack.http}/openapi.json", *options, *header]
    done = subprocess.run(line, cwd=tmp_path, capture_output=True, text=True, check=False)

    assert done.returncode == 0, done.stdout[-20_000:] + done.stderr[-2_000:]
    assert [word for word in CRASHES if word in stack.log] == []
    answered = [json.loads(entry) for entry in stack.log.splitlines() if '"event": "http"' in entry]
    assert {500, 502} & {entry["status"] for entry in answered} == set()
    assert set(document()["paths"]) - QUIET <= {entry["route"] for entry in answered}, "every endpoint is asked"
    assert len(answered) > 500
    assert report.is_file()
