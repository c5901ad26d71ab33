"""Evaluations that the service runs beside requests: one at a time, told how far, stopped, and of one tenant."""

import asyncio
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from worker.adapters.local.evaluation_processes import ENDED, EvaluationProcesses
from worker.bootstrap.evaluating import FOLDER, MODULE
from worker.bootstrap.opening import utc_now
from worker.domain.deadline import Deadline
from worker.domain.errors import NotFound, OperationError
from worker.operations.evaluations import EvaluationOperations
from worker.operations.requests import EvaluationRequest, EvaluationsRequest
from worker.ports.evaluations import EvaluationOrder, EvaluationPhase, EvaluationState
from worker.receipts.cases import case_file
from worker.settings.selection import Strategy
from worker.triage.prompt_files import default_prompts_dir
from worker.tuning.evals.archive import EvaluationArchive

LINES: list[dict[str, Any]] = [
    {"id": "m1", "content": "Deployments happen on Tuesdays after the stand-up", "created_at": "2026-01-10"},
    {"id": "q1", "message": "When may the next deployment happen?", "essential": ["m1"], "category": "single"},
    {"id": "q2", "message": "Write a limerick about rain"},
]
SEARCH = EvaluationOrder(cases="own", strategy=Strategy.DETERMINISTIC)
WITHOUT = {"model": "none"}
SAVED = {"strategy": "relevance", "max_items": 1}


def processes(home: Path, module: str = MODULE, **saved: Any) -> EvaluationProcesses:
    options = {**WITHOUT, "data_dir": str(home)}
    return EvaluationProcesses(home / FOLDER, module, None, options, lambda: saved, utc_now)


@pytest.fixture
async def running(tmp_path: Path) -> AsyncIterator[EvaluationProcesses]:
    made = processes(tmp_path, **SAVED)
    yield made
    await made.aclose()


@pytest.fixture
def cases(tmp_path: Path) -> Path:
    file = case_file(tmp_path / "cases", "acme")
    file.parent.mkdir()
    file.write_text("".join(json.dumps(line) + "\n" for line in LINES), encoding="utf-8")
    return file


async def ended(evaluations: EvaluationProcesses, tenant: str = "acme") -> EvaluationState:
    """Return the tenant's newest evaluation when it has ended."""
    async with asyncio.timeout(120):
        while (latest := (await evaluations.latest(tenant))[0]).phase is EvaluationPhase.RUNNING:
            await asyncio.sleep(0.05)
    return latest


def in_force(done: EvaluationState, home: Path) -> dict[str, Any]:
    """Return what an evaluation was run with of the keys that were saved."""
    assert done.result is not None
    assert done.saved == ("max_items", "strategy")
    used = EvaluationArchive(home / "evals").find(done.result.report).setup.settings
    return {key: used[key] for key in SAVED}


async def running_now(operations: EvaluationOperations) -> list[str]:
    request = EvaluationsRequest(tenant="acme", running=True)
    return [one.id for one in (await operations.latest(request, Deadline.after(5))).evaluations]


async def test_an_evaluation_runs_alone_and_ends_with_a_result(
    running: EvaluationProcesses, cases: Path, tmp_path: Path
) -> None:
    began = await running.start("acme", SEARCH, cases)
    with pytest.raises(OperationError, match="an evaluation is running"):
        await processes(tmp_path).start("other", SEARCH, cases)
    assert [one.phase for one in await processes(tmp_path).latest("acme")] == [EvaluationPhase.RUNNING]
    done = await ended(running)
    assert (done.id, done.phase, done.done, done.total) == (began.id, EvaluationPhase.DONE, 2, 2)
    assert done.result is not None
    while done.result.measures["fallback_rate"].value > 0.0:  # on a busy machine; only what was late is run again
        await running.start("acme", SEARCH, cases)
        done = await ended(running)
        assert done.result is not None
    assert done.result.measures["recall_essential"].value == 1.0
    assert set(done.result.categories) == {"case", "single"}
    assert {name.rpartition("/")[2] for name in done.result.faults} == {"q1", "q2"}
    assert set(done.result.worlds) == {name.partition("/")[0] for name in done.result.faults}
    assert in_force(done, tmp_path) == {"strategy": "deterministic", "max_items": 1}, "the order comes first"
    assert await running.latest("other") == [], "whose evaluation it is"


async def test_what_was_saved_is_in_force(running: EvaluationProcesses, cases: Path, tmp_path: Path) -> None:
    await running.start("acme", EvaluationOrder(cases="own"), cases)
    assert in_force(await ended(running), tmp_path) == SAVED


async def test_an_evaluation_is_stopped_by_any_process(running: EvaluationProcesses, tmp_path: Path) -> None:
    operations = EvaluationOperations(running, tmp_path, tmp_path, tmp_path)
    began = await running.start("acme", SEARCH, None)
    assert await running_now(operations) == [began.id]
    with pytest.raises(NotFound):
        await running.stop("other", began.id)
    await processes(tmp_path).stop("acme", began.id)
    stopped = await ended(running)
    assert (stopped.phase, stopped.result) == (EvaluationPhase.STOPPED, None)
    assert await running_now(operations) == []
    again = await running.start("acme", SEARCH, tmp_path / "nowhere.jsonl")
    failed = await ended(running)
    assert (failed.id, failed.phase) == (again.id, EvaluationPhase.FAILED)
    assert "nowhere.jsonl" in str(failed.error)


async def test_what_ends_without_a_word_has_failed(cases: Path, tmp_path: Path) -> None:
    silent = processes(tmp_path, "worker.domain.evidence")
    await silent.start("acme", SEARCH, cases)
    assert "ended with the exit code" in str((await ended(silent)).error)
    service = processes(tmp_path)
    await service.start("acme", SEARCH, None)
    await service.aclose()
    assert (await processes(tmp_path).latest("acme"))[0].error == ENDED


async def test_sets_of_cases_are_listed_and_wrong_orders_refused(
    running: EvaluationProcesses, cases: Path, tmp_path: Path
) -> None:
    shipped = default_prompts_dir()
    operations = EvaluationOperations(running, cases.parent, shipped / "cases", shipped)
    listed = await operations.latest(EvaluationsRequest(tenant="acme"), Deadline.after(5))
    assert {one.name: one.tasks for one in listed.sets}["own"] == 2
    assert {one.name: one.tasks for one in listed.sets}["shipped"] > 200
    for tenant, order, words in (
        ("other", SEARCH, "label a request first"),
        ("acme", SEARCH.model_copy(update={"cases": "../acme"}), "choose one of the list"),
        ("acme", SEARCH.model_copy(update={"prompt": "no prompt"}), "not a prompt that selects memories"),
    ):
        with pytest.raises(OperationError, match=words):
            await operations.start(EvaluationRequest(tenant=tenant, order=order), Deadline.after(5))
    assert await running.latest("acme") == []


@pytest.mark.parametrize("tenant", ["..", "é" * 500])
async def test_every_name_of_a_tenant_has_a_folder_of_its_own(
    running: EvaluationProcesses, tmp_path: Path, tenant: str
) -> None:
    assert await running.latest(tenant) == []
    began = await running.start(tenant, SEARCH, None)
    await running.stop(tenant, began.id)
    assert (await ended(running, tenant)).id == began.id
    assert [path.parent.parent for path in tmp_path.rglob(f"{began.id}.json")] == [tmp_path / FOLDER]


def test_every_name_of_a_tenant_has_cases_of_its_own(tmp_path: Path) -> None:
    files = {case_file(tmp_path, tenant) for tenant in ("..", "é" * 500, "é" * 501, "a/b", "a_b")}
    for file in files:
        file.write_bytes(b"")
    assert len(list(tmp_path.iterdir())) == len(files) == 5


async def test_what_a_killed_service_left_does_not_run_again_with_the_next_evaluation(
    running: EvaluationProcesses, tmp_path: Path
) -> None:
    left = EvaluationState(id="left", tenant="acme", order=SEARCH, began=utc_now())
    await running._keep(left)
    began = await running.start("other", SEARCH, None)
    assert [(one.phase, one.error) for one in await running.latest("acme")] == [(EvaluationPhase.FAILED, ENDED)]
    assert [one.id for one in await running.latest("other") if one.phase is EvaluationPhase.RUNNING] == [began.id]
    await running.stop("other", began.id)
    await ended(running, "other")
