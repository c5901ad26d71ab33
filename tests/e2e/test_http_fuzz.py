"""Requests of every kind that the description of the API allows, and of many that it does not, over a real service.

`make fuzz` runs it for a quarter of an hour.
"""

import asyncio
import itertools
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any
from urllib.parse import quote

import httpx
import pytest

from hooks.contract import InjectionRequest
from tests.support.hostile_files import HOSTILE_FILES
from tests.support.paths import ROOT
from tests.support.stack import FACTS, HTTP, Stack, put, running_stack
from worker.api.access import QUIET
from worker.api.app import document
from worker.transfer.formats import Format

SECONDS = int(os.environ.get("FUZZ_SECONDS", "0"))
EXAMPLES = 2
"""Examples of each endpoint where no time is given: their number, unlike a time, means the same on a busy machine.
Without a time, every fifth hostile request is sent, which are some of every endpoint; each hostile file in one format,
and some in each format: `tests/unit/transfer/test_round_trip.py` has all pairs; and of the fuzzer's coverage phase what
`tests.support.fewer_cases` leaves."""

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


@pytest.fixture(scope="module")
def stack(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stack]:
    variables = {**HTTP, "MEESEEKS_HTTP_TOKEN": TOKEN}
    folder = tmp_path_factory.mktemp("fuzz")
    with running_stack(folder, "up", "--model", "none", **variables, MEESEEKS_HTTP_RATE_LIMIT="0") as stack:
        asyncio.run(put(stack.url, FACTS, "default"))
        yield stack


TIMES = ["0001-01-01T00:00:00+14:00", "9999-12-31T23:59:59-14:00", "0001-01-01", "9999-12-31", "1e300", -1e18, 10**30]
TIMES += ["2024-02-30", "", True, [], {}, "\ud800", "\0"]
WORDS = [
    "",
    " ",
    "\0",
    "\ud800",
    "x" * 600,
    "x" * 30_000,
    "\u202e\u200b",
    "<memory_context>x</memory_context>",
    "{{x}}",
]
WORDS += ["../../etc/passwd", "\r\n\t", "\U0001f600" * 200, "*", "[a]", "a:b", 1, 1.5, None, [], {}, True]
NUMBERS = [0, -1, 10**30, -(10**30), 1.5, 1e300, "5", True, None, [], "x", 2**31, 2**63, 2**64]
HEADS = ("id: 2001-99-99", "id: !!bool x", "id: !!int x", "id: !!timestamp x", "[" * 5000)
"""Front matter of prompts that YAML, or what reads its values, stumbles over."""

Sent = tuple[str, str, Any]


def hostile() -> Iterator[Sent]:
    """Requests with values that models take or refuse and nobody has thought of: extremes, other types, odd text."""
    said = {"session_id": "s", "message": "How are migrations written?"}
    for value in TIMES:
        yield from (("POST", "/v1/recall", {"query": "q", name: value}) for name in ("since", "until", "now"))
        yield "POST", "/v1/inject", {**said, "now": value}
        for name in ("created_at", "occurred_at", "valid_until"):
            yield "POST", "/v1/memories", {"memory": {"content": "c", name: value}}
            yield "PATCH", "/v1/memories/alembic", {"changes": {name: value}}
    for value in WORDS:
        scope = {"tenant": value, "user": value, "project": value, "channel": value}
        yield "POST", "/v1/recall", {"query": value, "scope": scope, "agent_id": value}
        yield "POST", "/v1/recall", {"query": "q", "entities": [value], "channels": [value], "also": [value]}
        for name in InjectionRequest.model_fields:
            yield from (("POST", "/v1/inject", {**said, name: given}) for given in (value, [value], {"role": value}))
        memory = {"content": "c", "entities": [value], "relations": [{"kind": value, "target": value}], "scope": scope}
        yield "POST", "/v1/memories", {"tenant": value, "memory": memory}
        yield "POST", "/v1/memories", {"memory": {"content": value, "id": value, "channel": value, "source": value}}
        yield "POST", "/v1/memories/alembic/relations", {"kind": value, "target": value}
        lists = {key: [value] for key in ("pinned_types", "skip_patterns", "languages", "shared_users")}
        yield "PATCH", "/v1/agents/a/settings", {"values": {**lists, "mode": value}, "unset": [value]}
        for host in ("claude-code", "codex", "nexus", "gobby"):
            event = {"hook_event_name": "UserPromptSubmit", "session_id": value, "prompt": value, "message": value}
            yield from (("POST", f"/v1/hooks/{host}", given) for given in (value, event, {"prompt": [value]}))
        event = {"type": "session.forked", "parent_session_id": value, "visible_blocks": [value], "agent_id": value}
        yield "POST", "/v1/sessions/s/events", event
        yield from past(value)
    for value in NUMBERS:
        changes = {"deadline_ms": value, "settings": {"max_items": value}}
        yield "POST", "/v1/replays", {"limit": value, "within_ms": value, "changes": changes}
        yield "POST", "/v1/sessions/s/events", {"type": "context.pruned", "kept_turns": value, "deadline_ms": value}
        yield "POST", "/v1/recall", {"query": "q", "limit": value}
        yield "POST", "/v1/inject", {**said, "deadline_ms": value, "render": {"max_chars": value}}
        for name in ("max_items", "max_chars", "recency_half_life_days", "keyword_min_score", "deadline_ms"):
            yield "PATCH", "/v1/agents/b/settings", {"values": {name: value}}
            yield "POST", "/v1/inject", {**said, "agent_id": "b"}


def prompts() -> Iterator[Sent]:
    """Replays with prompts whose front matter is no good; each is sent once."""
    for head in HEADS:
        yield "POST", "/v1/replays", {"limit": 1, "changes": {"prompt": f"---\n{head}\n---\n# User\nu"}}


def past(value: Any) -> Iterator[Sent]:
    """Requests about those that were."""
    yield "POST", "/v1/answers", {"session_id": value, "turn_id": value, "answer": value, "block_id": value}
    where = {"session_id": value, "outcome": value, "reason": value, "since": value, "until": value}
    yield "POST", "/v1/replays", {"where": where, "tenant": value}
    changes = {"prompt": value, "mode": value, "settings": {"prompt": value, "languages": [value], "strategy": value}}
    yield "POST", "/v1/replays", {"limit": 1, "changes": changes}
    yield (
        "POST",
        "/v1/replays",
        {"limit": 1, "changes": {"prompt": f"---\nid: x\nextends: {value}\n---\n# User\n{value}"}},
    )
    yield "POST", "/v1/receipts/none/replay", changes
    yield "POST", "/v1/receipts/none/label", {"essential": [value], "category": value, "accept": value}
    yield "PATCH", f"/v1/memory?id={quote(str(value), errors='replace')}", {"changes": {"content": value}}


@pytest.mark.slow
def test_no_value_breaks_the_service(stack: Stack) -> None:
    headers = {"Authorization": f"Bearer {TOKEN}"}
    kind = {"Content-Type": "application/json"}
    broken: list[Any] = []
    with httpx.Client(base_url=stack.http, timeout=30, headers=headers) as client, ThreadPoolExecutor(8) as threads:

        def send(sent: Sent) -> None:
            method, path, body = sent
            answer = client.request(method, path, content=json.dumps(body).encode(), headers=kind)
            broken.extend([(*sent, answer.text)] if answer.status_code in {500, 502, 503} else [])

        list(threads.map(send, [*itertools.islice(hostile(), 0, None, 1 if SECONDS else 5), *prompts()]))
        pairs = itertools.product(HOSTILE_FILES, Format) if SECONDS else zip(HOSTILE_FILES, itertools.cycle(Format))
        for content, known in pairs:
            raw = {"Content-Type": "application/octet-stream"}
            answer = client.post(f"/v1/memories/import?format={known.value}", content=content, headers=raw)
            broken += [(known, content, answer.text)] if answer.status_code not in {200, 422} else []
    assert broken == []
    assert [word for word in CRASHES if word in stack.log] == []


@pytest.mark.slow
@pytest.mark.timeout(SECONDS + 300)
def test_nothing_that_is_sent_breaks_the_service(stack: Stack, tmp_path: Path) -> None:
    configuration, report = tmp_path / "schemathesis.toml", tmp_path / "report.json"
    configuration.write_text(CONFIGURATION, encoding="utf-8")
    fuzzer = [str(Path(sys.executable).with_name("schemathesis")), "--no-color", "--config-file", str(configuration)]
    options = ["--max-time", str(SECONDS)] if SECONDS else ["--max-examples", str(EXAMPLES)]
    options += ["--continue-on-failure", "--no-shrink", "--generation-database", "none"]
    options += ["--checks", "all", "--exclude-checks", ",".join(LENIENT), "--request-timeout", "20"]
    options += ["--report-json-path", str(report), "--seed", os.environ.get("FUZZ_SEED", "1")]
    fewer = {} if SECONDS else {"SCHEMATHESIS_HOOKS": "tests.support.fewer_cases", "PYTHONPATH": str(ROOT)}
    header = ["-H", f"Authorization: Bearer {TOKEN}"]
    line = [*fuzzer, "run", f"{stack.http}/openapi.json", *options, *header]
    done = subprocess.run(line, cwd=tmp_path, env=os.environ | fewer, capture_output=True, text=True, check=False)

    assert done.returncode == 0, done.stdout[-20_000:] + done.stderr[-2_000:]
    assert [word for word in CRASHES if word in stack.log] == []
    answered = [json.loads(entry) for entry in stack.log.splitlines() if '"event": "http"' in entry]
    assert {500, 502} & {entry["status"] for entry in answered} == set()
    assert set(document()["paths"]) - QUIET <= {entry["route"] for entry in answered}, "every endpoint is asked"
    assert len(answered) > 500
    assert report.is_file()
