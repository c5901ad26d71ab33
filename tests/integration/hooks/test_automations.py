"""The automation runner with real programs and entries."""

import asyncio
import json
import logging
import sqlite3
import subprocess
import sys
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from hooks.automations import Automation, AutomationRunner, HookOutcome, HookPoint, Kind, Lifetime, Registry, RunStatus
from hooks.automations.runner import MAX_BACKGROUND, MAX_HANGING
from hooks.automations.scripts import MAX_OUTPUT_BYTES, PASSED_ON
from tests.support.automation_entries import Counting
from tests.support.paths import ROOT
from tests.support.scripts import SAYS, script, shell
from tests.support.stack import NOISE_S

PRE = HookPoint.PRE_EXECUTION
ENTRIES = "tests.support.automation_entries"
EVENT = {"session_id": "s", "message": "hi"}


@pytest.fixture
def registry(tmp_path: Path) -> Registry:
    """A registry without memory injection, which needs a service."""
    registry = Registry(tmp_path / "automations.db")
    registry.remove("memory-injection")
    return registry


@pytest.fixture
async def runner(registry: Registry) -> AsyncIterator[AutomationRunner]:
    async with AutomationRunner(registry) as runner:
        yield runner


def add(registry: Registry, path: Path | str, name: str = "it", **fields: Any) -> None:
    kind = Kind.SCRIPT if isinstance(path, Path) else Kind.PYTHON
    entry = str(path) if isinstance(path, Path) else f"{ENTRIES}:{path}"
    registry.add(Automation(name, entry, kind=kind, **fields))


def told(outcome: HookOutcome) -> list[tuple[str, RunStatus, str]]:
    return [(run.name, run.status, run.detail) for run in outcome.runs]


async def test_automations_run_in_order_and_see_earlier_enrichments(
    registry: Registry, runner: AutomationRunner, tmp_path: Path
) -> None:
    echo = script(
        tmp_path,
        "echo",
        "import json, sys\nevent = json.load(sys.stdin)\n"
        "print(json.dumps({'fire': True, 'enrich': {'notes': [event], 'memory_context': '<b>'}}))",
    )
    add(registry, echo, "second")
    add(registry, "plain", "first", position=1)
    add(registry, "asynchronous", "third")
    outcome = await runner.run(PRE, EVENT)
    assert [run[:2] for run in told(outcome)] == [(name, RunStatus.FIRED) for name in ("first", "second", "third")]
    first, event, third = outcome.enrichment["notes"]
    assert first == "plain hi"
    assert 2000 < event.pop("timeout_ms") <= 3000
    assert event == {**EVENT, "hook_point": PRE, "enrichment": {"notes": ["plain hi"]}}
    assert third.startswith("asynchronous after ['plain hi', {")
    assert outcome.prefix("hi") == "<b>\n\nhi"
    assert outcome.fault == ""
    assert json.loads(json.dumps(outcome.as_dict()))["runs"][0]["status"] == "fired"


@pytest.mark.parametrize(
    ("body", "status", "detail"),
    [
        ("exit 0", RunStatus.SILENT, ""),
        ('echo \'{"fire": false, "reason": "none"}\'', RunStatus.SILENT, "none"),
        ("exit 3", RunStatus.FAILED, "exit status 3"),
        (f"echo '{SAYS}'; exit 1", RunStatus.FAILED, "exit status 1"),
        ("kill -9 $$", RunStatus.FAILED, "exit status -9"),
        ("echo no json", RunStatus.FAILED, "standard output is not JSON"),
        ("echo '[]'", RunStatus.FAILED, 'the output must be {"fire": true, "enrich": {...}} or empty'),
        ("cat /dev/zero", RunStatus.FAILED, "it printed too much"),
        ("cat /dev/zero >&2", RunStatus.TIMED_OUT, ""),
        ("sleep 30", RunStatus.TIMED_OUT, ""),
        ("trap '' TERM INT; while :; do sleep 1; done", RunStatus.TIMED_OUT, ""),
        ("exec >&- 2>&-; sleep 30", RunStatus.TIMED_OUT, ""),
    ],
)
async def test_the_result_of_a_script_is_reported(
    registry: Registry, runner: AutomationRunner, tmp_path: Path, body: str, status: RunStatus, detail: str
) -> None:
    timeout_ms = 400 if status is RunStatus.TIMED_OUT else 20_000
    add(registry, shell(tmp_path, "script", body), timeout_ms=timeout_ms)
    started = time.monotonic()
    outcome = await runner.run(PRE, EVENT)
    assert told(outcome) == [("it", status, detail)]
    assert outcome.enrichment == {}
    assert time.monotonic() - started < timeout_ms / 1000 + NOISE_S
    if status is RunStatus.TIMED_OUT:
        assert outcome.runs[0].elapsed_ms >= 300


async def test_a_script_that_cannot_start_is_reported(
    registry: Registry, runner: AutomationRunner, tmp_path: Path
) -> None:
    no_program = tmp_path / "text"
    no_program.write_text("just text")
    no_program.chmod(0o600)
    add(registry, tmp_path / "missing", "missing")
    add(registry, no_program, "text")
    add(registry, shell(tmp_path, "good", f"echo '{SAYS}'"), "good")
    outcome = await runner.run(PRE, EVENT)
    missing, text, good = outcome.runs
    assert (missing.status, text.status, good.status) == (RunStatus.FAILED, RunStatus.FAILED, RunStatus.FIRED)
    assert "No such file" in missing.detail
    assert "Permission denied" in text.detail
    assert outcome.enrichment == {"notes": ["said"]}


def alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


async def gone(pid: int) -> bool:
    for _ in range(100):
        if not alive(pid):
            return True
        await asyncio.sleep(0.02)
    return False


@pytest.mark.parametrize("end", ["sleep 60", f"echo '{SAYS}'"], ids=["timed out", "ended"])
async def test_children_of_a_script_are_killed(
    registry: Registry, runner: AutomationRunner, tmp_path: Path, end: str
) -> None:
    pids = tmp_path / "pids"
    add(registry, shell(tmp_path, "script", f"sleep 50 & echo $! > {pids}\n{end}"), timeout_ms=800)
    outcome = await runner.run(PRE, EVENT)
    assert outcome.runs[0].status is (RunStatus.FIRED if "echo" in end else RunStatus.TIMED_OUT)
    assert await gone(int(pids.read_text()))


async def test_a_script_ends_when_its_caller_is_cancelled(
    registry: Registry, runner: AutomationRunner, tmp_path: Path
) -> None:
    pids = tmp_path / "pids"
    add(registry, shell(tmp_path, "script", f"echo $$ > {pids}; sleep 50"), timeout_ms=50_000)
    task = asyncio.create_task(runner.run(PRE, EVENT))
    while not pids.exists() or not pids.read_text().strip():
        await asyncio.sleep(0.01)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert await gone(int(pids.read_text()))


async def test_large_input_and_output_and_unread_input(
    registry: Registry, runner: AutomationRunner, tmp_path: Path
) -> None:
    size = MAX_OUTPUT_BYTES // 2
    back = "import json, sys\nprint(json.dumps({'enrich': {'text': json.load(sys.stdin)['message']}}))"
    add(registry, script(tmp_path, "back", back), "back", timeout_ms=20_000)
    add(registry, shell(tmp_path, "deaf", f"echo '{SAYS}'"), "deaf", timeout_ms=20_000)
    add(registry, shell(tmp_path, "closed", f"exec <&-; echo '{SAYS}'"), "closed", timeout_ms=20_000)
    outcome = await runner.run(PRE, {"session_id": "s", "message": "x" * size})
    assert [run.status for run in outcome.runs] == [RunStatus.FIRED] * 3
    assert len(outcome.enrichment["text"]) == size


async def test_the_environment_of_a_script_is_small(
    registry: Registry, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "secret")
    monkeypatch.setenv("MEESEEKS_URL", "http://127.0.0.1:1")
    body = "import json, os\nprint(json.dumps({'enrich': {'environment': dict(os.environ), 'folder': os.getcwd()}}))"
    workspace = tmp_path / "deep" / "workspace"
    add(registry, script(tmp_path, "script", body), workspace_dir=str(workspace), timeout_ms=20_000)
    async with AutomationRunner(registry, environment={"MINE": "1"}) as runner:
        outcome = await runner.run(PRE, EVENT)
    environment = outcome.enrichment["environment"]
    own = {"MEESEEKS_AUTOMATION": "it", "MEESEEKS_HOOK_POINT": PRE, "MEESEEKS_WORKSPACE_DIR": str(workspace)}
    assert own.items() <= environment.items()
    assert 10_000 < int(environment["MEESEEKS_TIMEOUT_MS"]) <= 20_000
    assert environment["MINE"] == "1"
    assert environment["MEESEEKS_URL"] == "http://127.0.0.1:1"
    assert set(environment) - set(own) - {"MINE", "MEESEEKS_TIMEOUT_MS", "LC_CTYPE"} <= set(PASSED_ON)
    assert outcome.enrichment["folder"] == str(workspace)
    assert workspace.stat().st_mode & 0o777 == 0o700


KEEPS = 'n=$(cat n 2>/dev/null || echo 0); n=$((n + 1)); echo $n > n; echo "{\\"enrich\\": {\\"n\\": $n}}"'


@pytest.mark.parametrize("workspace", [True, False])
@pytest.mark.parametrize(("mode", "seen"), [(Lifetime.PERSISTENT, [1, 2]), (Lifetime.EPHEMERAL, [1, 1])])
async def test_a_persistent_script_keeps_its_folder_and_an_ephemeral_one_does_not(
    registry: Registry,
    runner: AutomationRunner,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    mode: Lifetime,
    seen: list[int],
    workspace: bool,
) -> None:
    elsewhere = tmp_path / "current"
    elsewhere.mkdir()
    monkeypatch.chdir(elsewhere)
    folder = str(tmp_path / "workspace") if workspace else None
    add(registry, shell(tmp_path, "script", KEEPS), mode=mode, workspace_dir=folder, timeout_ms=20_000)
    found = [(await runner.run(PRE, EVENT)).enrichment["n"] for _ in range(2)]
    assert found == seen
    if folder is not None and mode is Lifetime.EPHEMERAL:
        assert list(Path(folder).iterdir()) == []


@pytest.mark.parametrize("workspace", [True, False])
@pytest.mark.parametrize(("mode", "seen"), [(Lifetime.PERSISTENT, [1, 2]), (Lifetime.EPHEMERAL, [1, 1])])
async def test_a_persistent_instance_is_reused_and_closed(
    registry: Registry, tmp_path: Path, mode: Lifetime, seen: list[int], workspace: bool
) -> None:
    Counting.closed.clear()
    folder = str(tmp_path / "workspace") if workspace else None
    add(registry, "Counting", mode=mode, workspace_dir=folder)
    async with AutomationRunner(registry) as runner:
        outcomes = [await runner.run(PRE, EVENT) for _ in range(2)]
    assert [outcome.enrichment["calls"] for outcome in outcomes] == seen
    assert Counting.closed == ([2] if mode is Lifetime.PERSISTENT else [1, 1])
    if mode is Lifetime.PERSISTENT:
        assert {outcome.enrichment["folder"] for outcome in outcomes} == {folder or ""}
    else:
        assert not any(Path(outcome.enrichment["folder"]).exists() for outcome in outcomes)


@pytest.mark.parametrize(
    ("entry", "detail"),
    [
        ("crash", "KeyError"),
        ("crash_asynchronously", "KeyError"),
        ("leave", "RuntimeError"),
        ("leave_asynchronously", "it tried to exit the process"),
        ("stop", "RuntimeError"),
        ("cancel", "CancelledError"),
        ("text", 'the output must be {"fire": true, "enrich": {...}} or empty'),
        ("missing", f"{ENTRIES}:missing cannot be loaded: module '{ENTRIES}' has no attribute 'missing'"),
        ("NOT_CALLABLE", f"{ENTRIES}:NOT_CALLABLE is not callable"),
    ],
)
async def test_a_failing_entry_is_reported_and_the_next_one_runs(
    registry: Registry, runner: AutomationRunner, entry: str, detail: str, caplog: pytest.LogCaptureFixture
) -> None:
    add(registry, entry, "bad")
    add(registry, "plain", "good")
    with caplog.at_level(logging.DEBUG):
        outcome = await runner.run(PRE, EVENT)
    assert told(outcome) == [("bad", RunStatus.FAILED, detail), ("good", RunStatus.FIRED, "")]
    assert "private" not in caplog.text


@pytest.mark.parametrize("entry", ["hang", "hang_asynchronously", "stubborn"])
async def test_a_hanging_entry_times_out(registry: Registry, runner: AutomationRunner, entry: str) -> None:
    add(registry, entry, timeout_ms=200)
    started = time.monotonic()
    outcome = await runner.run(PRE, {**EVENT, "seconds": 1.5})
    assert told(outcome) == [("it", RunStatus.TIMED_OUT, "")]
    assert time.monotonic() - started < 0.2 + NOISE_S
    await asyncio.sleep(1.5)


async def test_the_deadline_covers_all_automations(
    registry: Registry, runner: AutomationRunner, tmp_path: Path
) -> None:
    add(registry, "hang_asynchronously", "first", timeout_ms=200)
    add(registry, shell(tmp_path, "script", "sleep 30"), "second", timeout_ms=5000)
    add(registry, "hang_asynchronously", "third")
    add(registry, "plain", "fourth")
    started = time.monotonic()
    outcome = await runner.run(PRE, EVENT, deadline=0.5)
    assert time.monotonic() - started < 0.5 + NOISE_S
    assert told(outcome) == [
        ("first", RunStatus.TIMED_OUT, ""),
        ("second", RunStatus.TIMED_OUT, ""),
        ("third", RunStatus.TIMED_OUT, ""),
        ("fourth", RunStatus.SKIPPED, "no time left"),
    ]


async def test_hanging_calls_are_limited(registry: Registry, runner: AutomationRunner) -> None:
    add(registry, "hang", timeout_ms=20)
    statuses = [(await runner.run(PRE, {**EVENT, "seconds": 2.0})).runs[0].status for _ in range(MAX_HANGING + 2)]
    assert statuses == [RunStatus.TIMED_OUT] * MAX_HANGING + [RunStatus.SKIPPED] * 2
    await asyncio.sleep(2.2)
    assert (await runner.run(PRE, {**EVENT, "seconds": 0})).runs[0].status is RunStatus.SILENT


async def test_non_blocking_automations_run_in_the_background(
    registry: Registry, runner: AutomationRunner, tmp_path: Path
) -> None:
    trace = tmp_path / "trace"
    add(registry, shell(tmp_path, "slow", f"sleep 0.4; echo done > {trace}"), "slow", blocking=False)
    add(registry, "plain", "next")
    started = time.monotonic()
    outcome = await runner.run(PRE, EVENT)
    assert time.monotonic() - started < 0.4
    assert told(outcome) == [("slow", RunStatus.STARTED, ""), ("next", RunStatus.FIRED, "")]
    assert not trace.exists()
    await runner.drain(10.0)
    assert trace.read_text() == "done\n"


async def test_the_background_is_bounded_and_ends_with_the_runner(registry: Registry, tmp_path: Path) -> None:
    pids = tmp_path / "pids"
    body = f"echo $$ >> {pids}; sleep 50"
    add(registry, shell(tmp_path, "slow", body), blocking=False, timeout_ms=60_000, hook_point=HookPoint.POST_EXECUTION)
    async with AutomationRunner(registry) as runner:
        runs = [(await runner.run(HookPoint.POST_EXECUTION, EVENT)).runs[0] for _ in range(MAX_BACKGROUND + 1)]
        assert [run.status for run in runs] == [RunStatus.STARTED] * MAX_BACKGROUND + [RunStatus.SKIPPED]
        while not pids.exists() or len(pids.read_text().split()) < MAX_BACKGROUND:
            await asyncio.sleep(0.02)
    assert all([await gone(int(pid)) for pid in pids.read_text().split()])


async def test_only_what_is_active_at_the_hook_point_runs(registry: Registry, runner: AutomationRunner) -> None:
    add(registry, "plain", "here")
    add(registry, "plain", "other")
    add(registry, "crash", "after", hook_point=HookPoint.POST_EXECUTION)
    assert [run.name for run in (await runner.run("worker:pre_execution", EVENT)).runs] == ["here", "other"]
    assert [run.name for run in (await runner.run(PRE, EVENT, only="other")).runs] == ["other"]
    assert (await runner.run("worker:someday", EVENT)).runs == ()


async def test_an_invalid_event_is_rejected(runner: AutomationRunner) -> None:
    assert (await runner.run(PRE, [])).fault == "the event must be a mapping"  # type: ignore[arg-type]


async def test_events_that_are_not_json(registry: Registry, runner: AutomationRunner, tmp_path: Path) -> None:
    add(registry, shell(tmp_path, "script", f"cat > {tmp_path}/event; echo '{SAYS}'"), timeout_ms=20_000)
    outcome = await runner.run(PRE, {"message": "a\ud800", "path": Path("/x"), "when": object})
    assert outcome.runs[0].status is RunStatus.FIRED
    assert json.loads((tmp_path / "event").read_text())["path"] == "/x"
    endless: dict[str, Any] = {}
    endless["again"] = endless
    assert told(await runner.run(PRE, endless)) == [("it", RunStatus.FAILED, "ValueError")]


async def test_an_unusable_registry_is_reported(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    async with AutomationRunner(Registry(tmp_path / "file" / "automations.db")) as runner:
        outcome = await runner.run(PRE, EVENT)
    assert outcome.runs == ()
    assert "cannot be used" in outcome.fault
    assert outcome.prefix("hi") == "hi"


async def test_a_hanging_registry_times_out(registry: Registry) -> None:
    class Hanging(Registry):
        def active(self, hook_point: str) -> tuple[Automation, ...]:
            time.sleep(1.5)
            return ()

    async with AutomationRunner(Hanging(registry.path)) as runner:
        started = time.monotonic()
        outcome = await runner.run(PRE, EVENT, deadline=0.3)
        assert time.monotonic() - started < 0.3 + NOISE_S
    assert outcome.fault == "the registry did not answer in time"


async def test_registry_changes_apply_immediately(registry: Registry, runner: AutomationRunner) -> None:
    assert (await runner.run(PRE, EVENT)).runs == ()
    add(registry, "plain")
    assert len((await runner.run(PRE, EVENT)).runs) == 1
    with sqlite3.connect(registry.path) as connection:
        connection.execute("UPDATE automations SET status = 'disabled'")
    connection.close()
    assert (await runner.run(PRE, EVENT)).runs == ()
    registry.remove("it")


async def test_many_concurrent_runs(registry: Registry, runner: AutomationRunner, tmp_path: Path) -> None:
    add(registry, "plain", "first")
    add(registry, shell(tmp_path, "script", f"echo '{SAYS}'"), "second", timeout_ms=30_000)
    outcomes = await asyncio.gather(*(runner.run(PRE, {"message": f"m{n}"}) for n in range(30)))
    assert [outcome.enrichment["notes"] for outcome in outcomes] == [[f"plain m{n}", "said"] for n in range(30)]


FIRST_USE = (
    "import sys, pathlib; from hooks.automations import Registry; print(len(Registry(pathlib.Path(sys.argv[1])).all()))"
)


def test_many_processes_can_create_it_at_once(tmp_path: Path) -> None:
    path = tmp_path / "data" / "automations.db"
    line = [sys.executable, "-c", FIRST_USE, str(path)]
    started = [subprocess.Popen(line, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE) for _ in range(6)]
    said = [process.communicate(timeout=50) for process in started]
    assert said == [(b"1\n", b"")] * 6
    assert list(path.parent.iterdir()) == [path]
