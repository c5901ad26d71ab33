"""Evaluations through the real service: real stores, the real embedder, a scripted model over real HTTP."""

import json
import shutil
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from hooks.contract import Engine, Outcome, Reason
from tests.support.oracle import adversary, oracle
from tests.support.stack import CONTRACT_S, NOISE_S
from tests.support.upstream import Mode, Responder, Upstream
from worker.bootstrap.core import open_core
from worker.domain.errors import SettingsError
from worker.domain.operation import AnyOperation
from worker.operations.client import OperationClient
from worker.operations.local_client import LocalOperationClient
from worker.operations.registry import INJECT
from worker.settings.injection import Settings, Strategy
from worker.triage.prompt_files import default_prompts_dir
from worker.tuning.evals.archive import EvaluationArchive
from worker.tuning.evals.measures import Measure, summary
from worker.tuning.evals.plan import EvaluationPlan, EvaluationRequest, plan_of
from worker.tuning.evals.prompt_files import prompts_in_force, read_chooser, with_first
from worker.tuning.evals.results import Report, read_report
from worker.tuning.evals.runner import evaluate
from worker.tuning.labelled_worlds import LabelledTask, LabelledWorld, read_cases, read_world

CASES = default_prompts_dir() / "cases"
WORLDS = sorted(path.parent.name for path in CASES.glob("*/tasks.jsonl"))
NOW = datetime(2026, 3, 20, tzinfo=UTC)
OPEN = {
    "contextual_min_score": -1.0,
    "recall_min_score": -1.0,
    "keyword_min_score": 0.0,
    "search_limit": 200,
    "pool_limit": 200,
    "triage_candidates": 50,
}
"""Settings by which nearly everything is shown to the model."""


def loaded(folder: Path) -> Settings:
    return Settings.load({"MEESEEKS_MODEL": "none", "MEESEEKS_OLLAMA_URL": "http://127.0.0.1:9"}, None, data_dir=folder)


@asynccontextmanager
async def service(settings: Settings) -> AsyncIterator[OperationClient]:
    async with open_core(settings, with_model=settings.service.model != "none") as core:
        yield LocalOperationClient(core.operations)


async def evaluated(plan: EvaluationPlan, archive: EvaluationArchive | None = None, **options: Any) -> Report:
    return await evaluate(plan, service, archive=archive, advance=lambda _: None, now=NOW, **options)


def measures(report: Report) -> dict[Measure, float]:
    found = summary(report.runs, np.random.default_rng(1), 50)
    return {measure: one.value for measure, one in found.items()}


@asynccontextmanager
async def asked(folder: Path, respond: Responder, **requested: Any) -> AsyncIterator[tuple[Upstream, EvaluationPlan]]:
    """A scripted model, and the plan of an evaluation that asks it."""
    async with Upstream(respond=respond) as upstream:
        fields = {"model": "openai/scripted", "settings": OPEN, "strategy": Strategy.LLM, **requested}
        wanted = EvaluationRequest(model_api_base=f"{upstream.url}/v1", **fields)
        yield upstream, await plan_of(loaded(folder), wanted)


def world_named(name: str) -> LabelledWorld:
    return read_world(CASES / name)


def with_all(world: LabelledWorld, telling: Callable[[LabelledTask], object]) -> LabelledWorld:
    """Keep every task that is telling, the first one of each user, and a third of the others."""
    firsts = {task.request.scope.user: task.key for task in reversed(world.tasks)}.values()
    kept = (one for n, one in enumerate(world.tasks) if telling(one) or one.key in firsts or n % 3 == 0)
    return replace(world, tasks=tuple(kept))


SUBJECTS = {
    "winch": "The winch is serviced every March by the harbour workshop",
    "ferry": "The ferry to Lindholm leaves at a quarter past seven",
    "locker": "Keys of the boat locker hang behind the kayak rack",
    "diesel": "Diesel is paid with the blue card, never with the black one",
    "buoy": "The green buoy at the inlet has been out of place since autumn",
    "radio": "The radio in the cabin listens on channel 16",
}


def small(folder: Path) -> Path:
    """A world that is asked about in a moment: one question for each of its memories."""
    memories = [{"id": key, "content": text, "created_at": "2026-01-10"} for key, text in SUBJECTS.items()]
    tasks = [{"id": f"q-{key}", "message": f"What about the {key}?", "essential": [key]} for key in SUBJECTS]
    return case_file(folder, *memories, *tasks)


@pytest.mark.slow
@pytest.mark.parametrize("name", WORLDS)
async def test_a_model_that_knows_the_labels_makes_no_mistake(tmp_path: Path, name: str) -> None:
    """Nothing that is essential is out of reach of three searches, and nothing else is injected."""
    world = with_all(world_named(name), lambda task: task.essential)
    async with asked(tmp_path, oracle(world), only=(name,), settings=OPEN, deadline_ms=8000) as (upstream, plan):
        report = await evaluated(replace(plan, worlds=(world,)))
    sound = [run for run in report.runs if not run.degraded]
    assert len(sound) > 0.8 * len(report.runs), "a busy machine makes some embeddings late, but not so many"
    found = measures(report.model_copy(update={"runs": tuple(sound)}))
    exact = {Measure.PRECISION: 1.0, Measure.RECALL: 1.0, Measure.CLEAN: 1.0, Measure.FORBIDDEN: 0.0}
    assert {measure: found[measure] for measure in exact} == exact
    by_model = [run for run in sound if run.engine is Engine.LLM]
    assert all(run.input_tokens > 0 and 1 <= run.model_calls <= 3 for run in by_model)
    assert len(upstream.chats) >= len(by_model) > 0.5 * len(report.runs)


@pytest.mark.slow
@pytest.mark.parametrize("name", WORLDS)
async def test_a_model_that_chooses_the_worst_gets_nothing_past_the_filters(tmp_path: Path, name: str) -> None:
    """Only who understands a text can tell that it gives orders or is beside the point; filters stop the rest."""
    world = with_all(world_named(name), lambda task: task.forbidden)
    async with asked(tmp_path, adversary(world), only=(name,), settings={}) as (_, plan):
        report = await evaluated(replace(plan, worlds=(world,)))
    memories = {memory.id: memory for memory in world.memories}
    tasks = {task.key: task for task in world.tasks}
    for run in report.runs:
        request = tasks[run.task].request
        assert len(run.injected) <= 5
        assert run.model_calls <= 3
        assert run.elapsed_ms < plan.deadline_ms + 1000 * (CONTRACT_S + NOISE_S)
        for memory in (memories[key] for key in run.injected):
            assert memory.scope.user in (None, request.scope.user, *world.shared_users)
            assert request.now is not None
            assert memory.created_at is not None
            assert memory.created_at <= request.now
    assert max(run.model_calls for run in report.runs) > 1
    assert measures(report)[Measure.PRECISION] < 0.3


async def test_what_is_known_is_not_asked_again(tmp_path: Path) -> None:
    path, archive = small(tmp_path), EvaluationArchive(tmp_path / "evals")
    async with asked(tmp_path, oracle(read_cases(path)), worlds=path, repeat=2) as (upstream, plan):
        first = await evaluated(plan, archive)
        assert measures(first)[Measure.RECALL] == 1.0
        asked_for = len(upstream.chats)
        again = await evaluated(plan, archive)
        assert len(upstream.chats) == asked_for >= 12
        assert (first.cached, again.cached) == (0, 12)
        assert again.runs == first.runs
        assert again.id == first.id
        more = await evaluated(replace(plan, repeat=3), archive)
        assert (more.cached, len(more.runs)) == (12, 18)
        assert (await evaluated(plan, archive, fresh=True)).cached == 0
        other = tmp_path / "other.md"
        other.write_text(plan.prompts[0].text.replace("When in doubt", "In doubt"), encoding="utf-8")
        changed = replace(plan, prompts=with_first(prompts_in_force(plan.service), read_chooser(other)))
        assert (await evaluated(changed, archive)).cached == 0


@pytest.mark.parametrize(
    "change",
    [
        {"config": {"max_items": 1}},
        {"models": ("openai/other",)},
        {"deadline_ms": 1000},
        {"fitted": {"calibration.json": "{}"}},
        {"hashes": {"research-lab": "other"}},
        {"parallel": 9},
    ],
)
async def test_whatever_an_answer_depends_on_is_in_the_name_of_its_results(tmp_path: Path, change: Any) -> None:
    world = world_named("research-lab")
    plan = await plan_of(loaded(tmp_path), EvaluationRequest(only=(world.name,), strategy=Strategy.DETERMINISTIC))
    assert replace(plan).key_of(world) == plan.key_of(world)
    assert replace(plan, **change).key_of(world) != plan.key_of(world)


OWN = "---\nid: support\nversion: 1\nextends: triage\n---\n# Search\nLook once more.\n"


async def test_results_with_a_partial_prompt_depend_on_what_it_extends(tmp_path: Path) -> None:
    """Wherever that lies, and it is what the model is asked with."""
    path, shipped = small(tmp_path), (default_prompts_dir() / "triage.md").read_text(encoding="utf-8")
    (tmp_path / "support.md").write_text(OWN, encoding="utf-8")
    rules = ("Rules:", "Other rules:", "Rules:")
    async with asked(tmp_path, oracle(read_cases(path)), worlds=path) as (upstream, plan):

        def with_base(words: str) -> EvaluationPlan:
            (tmp_path / "triage.md").write_text(shipped.replace("Rules:", words), encoding="utf-8")
            file = read_chooser(tmp_path / "support.md")
            return replace(plan, prompts=with_first(prompts_in_force(plan.service), file))

        first, other, again = (with_base(words) for words in rules)
        keys = [one.key_of(one.worlds[0]) for one in (first, other, again)]
        assert keys[0] == keys[2] != keys[1]
        assert other.setup().prompt == "support@1"
        other = replace(other, config={**other.config, "prompt": "support"})
        report = await evaluated(other)
    asked_with = [chat.body["messages"][0]["content"] for chat in upstream.chats]
    assert ["Other rules:" in text for text in asked_with].count(True) >= len(SUBJECTS)
    assert {run.engine for run in report.runs} == {Engine.LLM}


async def test_the_prompt_that_the_settings_name_is_the_one_that_is_evaluated(tmp_path: Path) -> None:
    path, own = small(tmp_path), tmp_path / "own"
    own.mkdir()
    shutil.copy(default_prompts_dir() / "triage.md", own)
    (own / "support.md").write_text(OWN, encoding="utf-8")
    settings = loaded(tmp_path)
    settings = replace(settings, service=settings.service.model_copy(update={"prompts_dir": own}))
    plan = await plan_of(settings, EvaluationRequest(worlds=path, settings={"prompt": "support"}))
    assert plan.setup().prompt == "support@1"
    plan = await plan_of(settings, EvaluationRequest(worlds=path), read_chooser(own / "support.md"))
    assert (plan.setup().prompt, plan.setup().settings["prompt"]) == ("support@1", "support")
    usual = await plan_of(
        settings, EvaluationRequest(worlds=path, settings={"prompt": "support"}), read_chooser(own / "triage.md")
    )
    assert (usual.setup().prompt, usual.setup().settings["prompt"]) == ("triage@2", "triage")


async def test_a_model_that_was_away_is_asked_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("worker.tuning.evals.runner.WARM_UP_TRIES", 1)
    path, archive = small(tmp_path), EvaluationArchive(tmp_path / "evals")
    async with asked(tmp_path, oracle(read_cases(path)), worlds=path) as (upstream, plan):
        upstream.mode = Mode.ERROR_500
        broken = await evaluated(plan, archive)
        upstream.mode = Mode.OK
        mended = await evaluated(plan, archive)
    assert measures(broken)[Measure.FALLBACK] == 1.0
    assert {run.reason for run in broken.runs} <= {Reason.MODEL_ERROR, Reason.MODEL_PAUSED}
    assert measures(mended)[Measure.FALLBACK] == 0.0
    assert mended.cached == 0


async def test_it_stops_when_the_money_is_spent(tmp_path: Path) -> None:
    path = small(tmp_path)
    requested = {"model": "openai/gpt-4o-mini", "worlds": path, "repeat": 5, "max_cost": 0.00002, "parallel": 2}
    async with asked(tmp_path, oracle(read_cases(path)), **requested) as (_, plan):
        report = await evaluated(plan)
    assert 0 < len(report.runs) < 30
    assert report.missing == 30 - len(report.runs)
    assert report.stopped
    assert "of 2e-05 dollars" in report.stopped
    assert sum(run.cost or 0.0 for run in report.runs) == pytest.approx(0.00002, rel=0.9)


async def test_a_hung_model_is_a_fallback_within_the_deadline(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("worker.tuning.evals.runner.WARM_UP_TRIES", 1)
    path = small(tmp_path)
    async with asked(tmp_path, oracle(read_cases(path)), worlds=path, deadline_ms=400) as (upstream, plan):
        upstream.mode = Mode.HANG
        report = await evaluated(plan)
    assert all(run.degraded for run in report.runs)
    assert {run.reason for run in report.runs} <= {Reason.MODEL_TIMEOUT, Reason.MODEL_PAUSED, Reason.MODEL_NO_TIME}
    assert max(run.elapsed_ms for run in report.runs) < 600


async def test_each_task_is_a_session_of_its_own_and_private_memories_stay_private(tmp_path: Path) -> None:
    plan = await plan_of(
        loaded(tmp_path), EvaluationRequest(only=("backend-team",), strategy=Strategy.DETERMINISTIC, repeat=2)
    )
    report = await evaluated(plan)
    by_task: dict[str, set[tuple[str, ...]]] = {}
    for run in report.runs:
        if not run.degraded:  # on a busy machine the embedder may be late
            by_task.setdefault(run.task, set()).add(run.injected)
        assert run.outcome is not Outcome.ALL_DUPLICATE
    assert all(len(answers) == 1 for answers in by_task.values())
    assert read_report(report.model_dump_json(), "here") == report


CASE_LINES = (
    {"id": "m1", "content": "Deployments happen on Tuesdays after the stand-up", "created_at": "2026-01-10"},
    {"id": "m2", "content": "Mia's locker is number 7", "scope": {"user": "mia"}, "created_at": "2026-01-10"},
    {"id": "q1", "message": "When may the next deployment happen?", "essential": ["m1"]},
    {"id": "q2", "message": "thanks!"},
)


def case_file(folder: Path, *lines: Any) -> Path:
    path = folder / "own-cases.jsonl"
    path.write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")
    return path


async def test_a_file_of_cases_is_a_world(tmp_path: Path) -> None:
    path = case_file(tmp_path, *CASE_LINES)
    plan = await plan_of(loaded(tmp_path), EvaluationRequest(worlds=path, strategy=Strategy.DETERMINISTIC))
    report = await evaluated(plan)
    assert {run.task: run.injected for run in report.runs} == {"q1": ("m1",), "q2": ()}
    assert report.messages["own-cases"]["q2"] == "thanks!"
    assert report.memories["own-cases"] == {"m1": "Deployments happen on Tuesdays after the stand-up"}


@pytest.mark.parametrize(
    ("lines", "expected"),
    [
        (CASE_LINES, ["own-cases/q1/-1", "own-cases/q1/0", "own-cases/q2/0"]),
        (CASE_LINES[3:], ["own-cases/q2/-1", "own-cases/q2/0"]),
    ],
)
async def test_the_first_answer_of_a_service_which_takes_longer_is_not_measured(
    tmp_path: Path, lines: Any, expected: list[str]
) -> None:
    sessions: list[str] = []

    class Recorded(LocalOperationClient):
        async def call(self, operation: AnyOperation, payload: dict[str, Any], *, budget: float = 10.0) -> Any:
            if operation is INJECT:
                sessions.append(payload["session_id"])
            return await super().call(operation, payload, budget=budget)

    @asynccontextmanager
    async def recorded(settings: Settings) -> AsyncIterator[OperationClient]:
        async with open_core(settings, with_model=False) as core:
            yield Recorded(core.operations)

    wanted = EvaluationRequest(worlds=case_file(tmp_path, *lines), strategy=Strategy.DETERMINISTIC)
    plan = await plan_of(loaded(tmp_path), wanted)
    report = await evaluate(plan, recorded, archive=None, advance=lambda _: None, now=NOW)
    assert sessions == expected
    assert [f"{run.world}/{run.task}/{run.repeat}" for run in report.runs] == expected[1:]


@pytest.mark.parametrize(
    ("lines", "words"),
    [
        (CASE_LINES[:2], "no line has a message"),
        ([{"message": "hello"}], "'id' is missing"),
        ([*CASE_LINES[:1], {"id": "q", "message": 5}], "message"),
        ([{"id": "m", "content": " "}, CASE_LINES[2]], "content: must not be blank"),
    ],
)
async def test_what_is_wrong_with_cases_is_said(tmp_path: Path, lines: Any, words: str) -> None:
    with pytest.raises(SettingsError, match=words):
        await plan_of(loaded(tmp_path), EvaluationRequest(worlds=case_file(tmp_path, *lines)))


@pytest.mark.parametrize(
    ("requested", "words"),
    [
        ({"settings": {"max_itms": 3}}, "did you mean max_items"),
        ({"settings": {"max_items": "many"}}, "max_items"),
        ({"only": ("atlantis",)}, "unknown world 'atlantis'"),
        ({"strategy": Strategy.LLM}, "there is no model to ask"),
        ({"worlds": Path("/nowhere")}, "no labelled world"),
    ],
)
async def test_what_is_wrong_with_a_request_is_said(tmp_path: Path, requested: dict[str, Any], words: str) -> None:
    with pytest.raises(SettingsError, match=words):
        await plan_of(loaded(tmp_path), EvaluationRequest(**requested))
