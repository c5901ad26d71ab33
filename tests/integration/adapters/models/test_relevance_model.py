"""The shipped relevance model: file, speed and use in the service, with the real store and embedder."""

import asyncio
import json
import shutil
import time
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
import pytest

from hooks.contract import Engine, Reason
from tests.support.paths import ROOT
from tests.support.scripted_model import Say, ScriptedModel, offered
from tests.support.service import fact, ids, open_service, shared_minilm
from tests.support.vectors import row
from worker.adapters.models.minilm import PROFILE
from worker.adapters.models.relevance_file import CARD, NUMBERS, RelevanceProcess, find_folder, read_relevance_model
from worker.domain.deadline import Deadline
from worker.domain.errors import RelevanceError
from worker.domain.kinds import RelevanceProfile, SearchKind
from worker.domain.memory import Candidate, CandidateVerdict, Memory, Recalled, RecallQuery, Selection, SelectionTask
from worker.injection.search_only import SearchOnlySelector
from worker.relevance.features import Column, RelevanceInput
from worker.relevance.model import Adjustment, RelevanceModel
from worker.relevance.selector import RelevanceSelector, worth_asking
from worker.settings.injection import InjectionConfig

NOW = datetime(2026, 3, 20, 12, tzinfo=UTC)
WORLDS = ROOT / "prompts/cases"
TEXTS = (
    "The cabin hold lapses after 12 minutes, operators complained about ghost-full sailings.",
    "The marina's bakery closes at noon on Sundays.",
    "Checkout colours follow the 2024 palette.",
)
MEMORIES = tuple(fact(f"m{place}", text) for place, text in enumerate(TEXTS))
MESSAGE = "countdown in the checkout should match how long the backend holds the cabin. what do i hardcode"


@pytest.fixture
def runner() -> Iterator[RelevanceProcess]:
    model = RelevanceProcess(read_relevance_model())
    yield model
    model.close()


async def pool(message: str, texts: tuple[str, ...] = TEXTS) -> tuple[SelectionTask, Recalled]:
    """Return candidates with real vectors and cosines."""
    minilm = shared_minilm()
    query = await minilm.embed_query(message)
    vectors = await minilm.embed_passages(texts)
    found = tuple(
        _candidate(place, text, vector, query) for place, (text, vector) in enumerate(zip(texts, vectors, strict=True))
    )
    task = SelectionTask(message, None, (), message, NOW)
    return task, Recalled(message, tuple(sorted(found, key=lambda one: -one.score)), size=len(texts))


def _candidate(place: int, text: str, vector: tuple[float, ...], query: tuple[float, ...]) -> Candidate:
    memory = Memory(id=f"m{place}", content=text, created_at=NOW - timedelta(days=place))
    cosine = sum(a * b for a, b in zip(vector, query, strict=True))
    return Candidate(memory, cosine, None, 0.6 * cosine, 0.6 * cosine, row(*vector), legs=(SearchKind.MESSAGE,))


async def no_recall(query: RecallQuery) -> Recalled:
    raise AssertionError(f"the relevance model searched for {query.query}")


async def select(
    selector: RelevanceSelector, message: str = MESSAGE, seconds: float = 30.0, **config: Any
) -> Selection:
    task, recalled = await pool(message)
    settings = InjectionConfig.model_validate(config)
    return await selector.select(task, recalled, no_recall, settings, Deadline.after(seconds))


def selector_of(runner: Any) -> RelevanceSelector:
    return RelevanceSelector(runner, shared_minilm(), SearchOnlySelector(PROFILE))


class TestFile:
    def test_it_matches_its_card_and_is_small(self) -> None:
        folder = find_folder()
        assert folder is not None
        assert (folder / NUMBERS).stat().st_size <= 25 * 2**20
        file = read_relevance_model()
        assert file.relevance_model.fingerprint == PROFILE.fingerprint
        assert file.card["license"] == "Apache-2.0"
        assert file.card["fitted_to"]["worlds"] == 150
        points = [
            file.relevance_model.thresholds[point]
            for point in (RelevanceProfile.CAUTIOUS, RelevanceProfile.BALANCED, RelevanceProfile.GENEROUS)
        ]
        assert points[0].opens >= points[1].opens > points[2].opens > 0.0

    @pytest.mark.parametrize("fault", ["bytes", "card", "json", "format", "gone"])
    def test_faults_are_reported(self, tmp_path: Path, fault: str) -> None:
        folder = find_folder()
        assert folder is not None
        shutil.copytree(folder, tmp_path / "model")
        card = json.loads((tmp_path / "model" / CARD).read_text())
        numbers = tmp_path / "model" / NUMBERS
        if fault == "bytes":
            numbers.write_bytes(numbers.read_bytes()[:-1] + b"x")
        elif fault == "gone":
            numbers.unlink()
        elif fault == "json":
            (tmp_path / "model" / CARD).write_text("{")
        else:
            card |= {"format": 99} if fault == "format" else {"thresholds": {}}
            (tmp_path / "model" / CARD).write_text(json.dumps(card))
        with pytest.raises(RelevanceError, match=r"are damaged|update the service"):
            read_relevance_model(tmp_path / "model")

    async def test_a_closed_model_raises_an_error(self, runner: RelevanceProcess) -> None:
        task, recalled = await pool(MESSAGE)
        runner.close()
        with pytest.raises(RelevanceError, match="closed"):
            await runner.probabilities(RelevanceInput(task, recalled.candidates, 3, np.zeros(384, np.float32)))


class TestChoosing:
    async def test_relevant_memories_get_higher_probabilities(self, runner: RelevanceProcess) -> None:
        chosen = await select(selector_of(runner))
        assert chosen.engine is Engine.RELEVANCE_MODEL
        assert set(chosen.probabilities) == {"m0", "m1", "m2"}
        assert max(chosen.probabilities, key=lambda key: chosen.probabilities[key]) == "m0"
        assert all(0.0 <= likely <= 1.0 for likely in chosen.probabilities.values())
        assert {one.memory.id for one in chosen.chosen} | {one.candidate.memory.id for one in chosen.dropped} == {
            "m0",
            "m1",
            "m2",
        }

    async def test_nothing_is_selected_for_a_textbook_question(self, runner: RelevanceProcess) -> None:
        chosen = await select(selector_of(runner), "explain what a hash map is in two sentences")
        assert chosen.chosen == ()
        assert {one.verdict for one in chosen.dropped} == {CandidateVerdict.BELOW_CUT}

    async def test_profiles_select_more_or_fewer(self, runner: RelevanceProcess) -> None:
        selector = selector_of(runner)
        numbers = [
            len((await select(selector, relevance_profile=point)).chosen)
            for point in ("cautious", "balanced", "generous")
        ]
        assert numbers == sorted(numbers)

    async def test_an_adjustment_changes_the_selection(self) -> None:
        file = read_relevance_model()
        plain, shifted = RelevanceProcess(file), RelevanceProcess(file, Adjustment(shift=9.0))
        few, many = await select(selector_of(plain)), await select(selector_of(shifted))
        assert len(many.chosen) == 3 > len(few.chosen)
        plain.close()
        shifted.close()

    async def test_a_model_sees_the_most_probable_first(self, runner: RelevanceProcess) -> None:
        _, recalled = await pool(MESSAGE)
        settled = replace(await select(selector_of(runner)), probabilities={"m0": 0.1, "m1": 0.0001, "m2": 0.3})
        worth, beside = worth_asking(recalled, settled)
        assert [one.memory.id for one in worth.candidates] == ["m2", "m0"]
        assert [one.candidate.memory.id for one in beside] == ["m1"]
        plain = replace(settled, engine=Engine.DETERMINISTIC)
        assert worth_asking(recalled, plain) == (recalled, [])


class Slow:
    """A relevance model that is slow or fails."""

    def __init__(self, relevance_model: RelevanceModel, seconds: float = 0.0, fault: str | None = None) -> None:
        self.relevance_model = relevance_model
        self.seen: list[int] = []
        self._seconds = seconds
        self._fault = fault

    async def probabilities(self, inputs: RelevanceInput) -> Column:
        self.seen.append(len(inputs.candidates))
        await asyncio.sleep(self._seconds)
        if self._fault:
            raise RelevanceError(self._fault)
        return np.linspace(0.9, 0.1, len(inputs.candidates), dtype=np.float32)


class Scripted:
    """A relevance model with given probabilities for the first candidates and 0 for the others."""

    def __init__(self, relevance_model: RelevanceModel, likely: tuple[float, ...]) -> None:
        self.relevance_model = relevance_model
        self._likely = likely

    async def probabilities(self, inputs: RelevanceInput) -> Column:
        number = len(inputs.candidates)
        return np.array([*self._likely, *[0.0] * number][:number], dtype=np.float32)


class TestLimits:
    async def test_without_time_search_scores_decide(self) -> None:
        slow = Slow(read_relevance_model().relevance_model)
        chosen = await select(selector_of(slow), seconds=0.01)
        assert chosen.engine is Engine.DETERMINISTIC
        assert slow.seen == []
        assert "no time" in chosen.notes[0]

    async def test_a_hanging_model_times_out(self) -> None:
        begun = time.monotonic()
        chosen = await select(selector_of(Slow(read_relevance_model().relevance_model, seconds=30.0)), seconds=0.6)
        assert chosen.engine is Engine.DETERMINISTIC
        assert "not done in time" in chosen.notes[0]
        assert time.monotonic() - begun < 5.0

    async def test_a_busy_machine_gets_a_third_of_the_time_that_is_left(self) -> None:
        slow = Slow(read_relevance_model().relevance_model, seconds=0.4)
        assert (await select(selector_of(slow), seconds=3.0)).engine is Engine.RELEVANCE_MODEL

    async def test_a_failing_model_falls_back_to_search_scores(self) -> None:
        chosen = await select(selector_of(Slow(read_relevance_model().relevance_model, fault="out of numbers")))
        assert chosen.engine is Engine.DETERMINISTIC
        assert chosen.notes == ("relevance model: out of numbers",)

    async def test_candidates_without_time_are_not_scored(self) -> None:
        slow = Slow(read_relevance_model().relevance_model)
        task, recalled = await pool(MESSAGE)
        many = tuple(
            replace(recalled.candidates[0], memory=Memory(id=f"n{n}", content=f"note {n}")) for n in range(2000)
        )
        chosen = await selector_of(slow).select(
            task, replace(recalled, candidates=many), no_recall, InjectionConfig(), Deadline.after(30)
        )
        assert chosen.engine is Engine.RELEVANCE_MODEL
        assert 1 <= slow.seen[0] <= 200
        assert {one.candidate.memory.id for one in chosen.dropped if one.verdict is CandidateVerdict.NOT_SELECTED} >= {
            "n1999"
        }

    async def test_without_vectors_search_scores_decide(self, runner: RelevanceProcess) -> None:
        task, recalled = await pool(MESSAGE)
        blind = tuple(replace(one, cosine=None, vector=None) for one in recalled.candidates)
        chosen = await selector_of(runner).select(
            task, replace(recalled, candidates=blind), no_recall, InjectionConfig(), Deadline.after(3)
        )
        assert chosen.engine is Engine.DETERMINISTIC
        assert "no vectors" in chosen.notes[0]

    async def test_thirty_candidates_are_scored_in_time(self, runner: RelevanceProcess) -> None:
        texts = tuple(f"{text} Note {number} of team {number % 7}." for number in range(10) for text in TEXTS)
        task, recalled = await pool(MESSAGE, texts)
        vector = np.array(await shared_minilm().embed_query(MESSAGE), dtype=np.float32)
        inputs = RelevanceInput(task, recalled.candidates, 30, vector)
        spent = []
        for _ in range(15):
            begun = time.perf_counter()
            await runner.probabilities(inputs)
            spent.append(time.perf_counter() - begun)
        assert median(spent) < 0.1


class TestService:
    async def test_it_selects_and_the_receipt_has_the_probabilities(
        self, tmp_path: Path, runner: RelevanceProcess
    ) -> None:
        async with open_service(tmp_path, relevance_model=selector_of(runner)) as service:
            await service.put(MEMORIES)
            result = await service.ask(MESSAGE)
            assert result.engine in (Engine.RELEVANCE_MODEL, Engine.NONE)
            assert set(ids(result)) <= {"m0"}
            receipt = await service.receipt(result)
            likely = {one.id: one.probability for one in receipt.considered}
            assert likely["m0"] is not None
            threshold = read_relevance_model().relevance_model.thresholds[RelevanceProfile.BALANCED]
            assert receipt.required in (threshold.opens, threshold.keeps)
            for one in receipt.considered:
                if one.verdict is CandidateVerdict.CHOSEN:
                    assert one.probability >= receipt.required
                if one.verdict is CandidateVerdict.BELOW_CUT and not receipt.chosen:
                    assert one.probability < receipt.required

    async def test_strategy_deterministic_does_not_use_it(self, tmp_path: Path, runner: RelevanceProcess) -> None:
        async with open_service(tmp_path, relevance_model=selector_of(runner), strategy="deterministic") as service:
            await service.put(MEMORIES)
            receipt = await service.receipt(await service.ask(MESSAGE))
            assert all(one.probability is None for one in receipt.considered)


class TestWithAnotherModel:
    """Scripted probabilities, for candidates from the best search score down."""

    @staticmethod
    def relevance_model(*likely: float) -> RelevanceSelector:
        return selector_of(Scripted(read_relevance_model().relevance_model, likely))

    async def test_a_model_sees_probable_candidates_in_order(self, tmp_path: Path) -> None:
        model = ScriptedModel(['{"relevant":[1]}'])
        async with open_service(tmp_path, model=model, relevance_model=self.relevance_model(0.1, 0.6, 0.0)) as service:
            await service.put(MEMORIES)
            result = await service.ask(MESSAGE)
            receipt = await service.receipt(result)
        assert result.engine is Engine.LLM
        shown = offered(model.requests[0])
        assert len(shown) == 2
        likely = {one.id: one.probability for one in receipt.considered}
        assert likely[result.items[0].id] == 0.6
        assert sorted(value for value in likely.values() if value is not None) == [0.0, 0.1, 0.6]

    async def test_no_model_is_called_without_probable_candidates(self, tmp_path: Path) -> None:
        model = ScriptedModel(['{"relevant":[1]}'])
        async with open_service(tmp_path, model=model, relevance_model=self.relevance_model(0.0, 0.0, 0.0)) as service:
            await service.put(MEMORIES)
            result = await service.ask(MESSAGE)
        assert result.items == ()
        assert model.requests == []

    @pytest.mark.parametrize(("best", "asked"), [(0.05, 0), (0.5, 1), (0.97, 0)])
    async def test_escalate_calls_the_model_if_unsure(self, tmp_path: Path, best: float, asked: int) -> None:
        model = ScriptedModel(['{"relevant":[]}'])
        async with open_service(
            tmp_path, model=model, relevance_model=self.relevance_model(best, 0.01), mode="escalate"
        ) as service:
            await service.put(MEMORIES)
            await service.ask(MESSAGE)
        assert len(model.requests) == asked

    async def test_a_failing_model_falls_back_to_the_relevance_model(self, tmp_path: Path) -> None:
        model = ScriptedModel([Say(error=Reason.MODEL_ERROR)])
        async with open_service(tmp_path, model=model, relevance_model=self.relevance_model(0.95, 0.1, 0.1)) as service:
            await service.put(MEMORIES)
            result = await service.ask(MESSAGE)
        assert (result.engine, result.degraded, result.reason) == (Engine.RELEVANCE_MODEL, True, Reason.MODEL_ERROR)
        assert len(result.items) == 1

    async def test_mode_deterministic_calls_no_model(self, tmp_path: Path) -> None:
        model = ScriptedModel(['{"relevant":[1]}'])
        async with open_service(
            tmp_path, model=model, relevance_model=self.relevance_model(0.95), mode="deterministic"
        ) as service:
            await service.put(MEMORIES)
            receipt = await service.receipt(await service.ask(MESSAGE))
        assert model.requests == []
        assert all(one.probability is None for one in receipt.considered)
