"""The `meeseeks` command: through the running service, on the store itself, and with bad input."""

import asyncio
import json
import subprocess
import time
from pathlib import Path
from typing import Any

import pytest

from hooks import Engine, Outcome, PreExecutionHook
from tests.support.command_line import command_line
from tests.support.forked import Forked
from tests.support.stack import (
    FACTS,
    INVOICES,
    MIGRATION,
    MODEL,
    MODEL_KEY,
    READY_WITHIN_S,
    STOPPED_WITHIN_S,
    ModelServer,
    Stack,
    ask,
    assert_discreet,
    command,
    environment,
)

TENANT = ("--tenant", "cli")
DIRECT = {"MEESEEKS_MODEL": "none"}
LINES = (
    '{"content": "The printer on the third floor is out of order", "type": "fact"}',
    "not JSON",
    '{"content": "Lunch is at noon", "importance": 7}',
    '{"text": "Lunch is at half past twelve on Fridays"}',
)


def said(ran: "subprocess.CompletedProcess[str]", status: int = 0) -> Any:
    """The JSON that a command has printed."""
    assert ran.returncode == status, ran
    assert "Traceback" not in ran.stderr
    return json.loads(ran.stdout)


async def through(service: Stack, *arguments: str) -> "subprocess.CompletedProcess[str]":
    return await asyncio.to_thread(service.command, *arguments)


async def said_here(service: Stack, *arguments: str, status: int = 0) -> Any:
    """The JSON that a command has printed in this process."""
    ran = await service.command_here(*arguments, "--json")
    assert ran.exit_code == status, ran.output
    return json.loads(ran.stdout)


async def test_commands_work_through_the_service_that_owns_the_store(service: Stack, tmp_path: Path) -> None:
    file = tmp_path / "lines.jsonl"
    file.write_text("\n".join(LINES), encoding="utf-8")
    made = said(await through(service, "remember", "The wiki moved to a new host in May", *TENANT, "--json"))
    assert made["stored"] == "created"
    again, imported = await asyncio.gather(
        through(service, "remember", "The wiki moved to a new host in May", *TENANT, "--json"),
        through(service, "import", str(file), *TENANT, "--json"),
    )
    assert {name: said(again)[name] for name in ("id", "stored")} == {"id": made["id"], "stored": "unchanged"}
    counts = said(imported, 1)
    assert counts["created"] == 3
    assert [rejected["line"] for rejected in counts["rejected"]] == [2]
    assert counts["changed"] == 1
    found = await said_here(service, "recall", "where is the wiki", *TENANT)
    assert found["memories"][0]["id"] == made["id"]
    contents = [json.loads(line)["content"] for line in (await through(service, "export", *TENANT)).stdout.splitlines()]
    assert len(contents) == 4
    assert "Lunch is at half past twelve on Fridays" in contents
    forgotten = await said_here(service, "forget", made["id"], *TENANT)
    unknown = await said_here(service, "forget", "nothing-like-that", *TENANT, status=1)
    assert forgotten == {"forgotten": 1, "undo_s": 600}
    assert unknown == {"forgotten": 0, "undo_s": 0}
    assert made["id"] not in (await service.command_here("export", *TENANT)).stdout
    restored = said(await through(service, "undo", *TENANT, "--json"))["restored"]
    assert [memory["id"] for memory in restored] == [made["id"]]
    assert made["id"] in (await service.command_here("export", *TENANT)).stdout
    assert "nothing to undo" in (await said_here(service, "undo", *TENANT, status=1))["error"]


async def test_an_injection_is_explained_by_its_receipt(service: Stack, model: ModelServer) -> None:
    model.behave(keep=["Alembic"])
    scope = ("--tenant", "acme", "--session", "explained", "--json")
    result = said(await through(service, "inject", f"{MIGRATION} {INVOICES}", *scope))
    assert (result["outcome"], result["engine"]) == (Outcome.INJECTED, Engine.LLM)
    kept = await through(service, "receipt", result["receipt_id"], "--tenant", "acme", "--json")
    listed = await said_here(service, "receipt", "--tenant", "acme")
    shown = await service.command_here("receipt", result["receipt_id"], "--tenant", "acme")
    receipt = said(kept)
    fates = {entry["id"]: entry["verdict"] for entry in receipt["considered"]}
    assert fates["alembic"] == "chosen"
    assert fates["invoices"] == "not_selected"
    assert receipt["model"]["name"] == MODEL
    assert receipt["model"]["calls"] == 1
    assert receipt["block_id"] == result["block_id"]
    assert MODEL_KEY not in kept.stdout
    assert result["receipt_id"] in [entry["id"] for entry in listed["receipts"]]
    assert "chosen" in shown.stdout
    assert "alembic" in shown.stdout


async def test_the_doctor_finds_a_healthy_service(service: Stack, model: ModelServer) -> None:
    found = said(await through(service, "doctor", "--json"))
    checks = {check["name"]: check for check in found["checks"]}
    assert found["healthy"]
    assert checks["model"]["detail"] == MODEL
    assert checks["test injection"]["ok"]
    assert MODEL_KEY not in json.dumps(found)


async def test_the_log_holds_no_text_and_no_secret(service: Stack, hook: PreExecutionHook, model: ModelServer) -> None:
    await ask(hook, MIGRATION)
    model.behave(mode="error_500")
    await ask(hook, f"{INVOICES} {MIGRATION}")
    model.behave(mode="ok")
    await ask(hook, INVOICES)
    assert '"event": "answered"' in service.log
    assert_discreet(service.log)


async def test_commands_open_the_store_themselves_where_no_service_runs(tmp_path: Path) -> None:
    async def run(*arguments: str) -> "subprocess.CompletedProcess[str]":
        return await asyncio.to_thread(command, tmp_path, *arguments, variables=DIRECT)

    file = tmp_path / "facts.jsonl"
    file.write_text("".join(json.dumps(memory) + "\n" for memory in FACTS), encoding="utf-8")
    assert said(await run("import", str(file), "--json"))["created"] == len(FACTS)
    result = said(await run("inject", MIGRATION, "--json"))
    assert [item["id"] for item in result["items"]] == ["alembic"]
    shell = command_line(tmp_path, MEESEEKS_EMBEDDER="minilm")
    receipt = await asyncio.to_thread(shell.json, "receipt", result["receipt_id"])
    assert receipt["outcome"] == Outcome.INJECTED
    assert said(await run("forget", "tuesday", "--json")) == {"forgotten": 1, "undo_s": 0}
    exported = await asyncio.to_thread(shell.run, "export")
    assert {json.loads(line)["id"] for line in exported.stdout.splitlines()} == {"alembic", "invoices"}


BAD_INPUT: tuple[tuple[tuple[str, ...], dict[str, str], str], ...] = (
    (("remember", "   "), {}, "content: must not be blank"),
    (("up",), {"MEESEEKS_MAX_JOBS": "many"}, "max_jobs"),
)
"""More of it is in `tests/integration/cli/test_bad_input.py`."""


@pytest.mark.parametrize(("arguments", "variables", "words"), BAD_INPUT)
def test_bad_input_is_named(tmp_path: Path, arguments: tuple[str, ...], variables: dict[str, str], words: str) -> None:
    ran = command(tmp_path, *arguments, variables={**DIRECT, "MEESEEKS_EMBEDDER": "none", **variables})
    told = " ".join((ran.stdout + ran.stderr).split())
    assert ran.returncode == 1, told
    assert words in told
    assert "Traceback" not in told
    assert len(told) < 600


def test_nothing_is_written_outside_the_data_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The library that runs the embedder would note a device id in the home folder, and report to its maker."""
    monkeypatch.delenv("ORT_DISABLE_TELEMETRY")
    home = tmp_path / "home"
    home.mkdir()
    done = command(tmp_path, "remember", "Lunch is at noon", variables={**DIRECT, "HOME": str(home)})
    assert done.returncode == 0, done.stderr
    assert list(home.rglob("*")) == []


@pytest.mark.parametrize(
    ("strategy", "embedder", "told"),
    [
        ("auto", "minilm", "none: the relevance model decides (set MEESEEKS_MODEL to use one)"),
        ("auto", "none", "none: the search score decides (set MEESEEKS_MODEL to use one)"),
        ("deterministic", "minilm", "none: the search score decides"),
    ],
)
def test_a_start_says_what_decides_and_suggests_a_model_only_where_one_would_be_asked(
    tmp_path: Path, strategy: str, embedder: str, told: str
) -> None:
    (tmp_path / "meeseeks.toml").write_text(f'[memory_injection]\nstrategy = "{strategy}"\n', encoding="utf-8")
    out, log = tmp_path / "out", tmp_path / "log"
    variables = environment(MEESEEKS_MODEL="none", MEESEEKS_EMBEDDER=embedder)
    process = Forked(["--data-dir", str(tmp_path / "data"), "up"], tmp_path, variables, out=out, log=log)
    try:
        end = time.monotonic() + READY_WITHIN_S
        while "  model" not in (said := out.read_text(encoding="utf-8") if out.exists() else ""):
            assert process.poll() is None, log.read_text(encoding="utf-8")
            assert time.monotonic() < end, said
            time.sleep(0.02)
        process.terminate()
        assert process.wait(STOPPED_WITHIN_S) == 0
    finally:
        process.kill()
    assert f"  model     {told}\n" in out.read_text(encoding="utf-8")
