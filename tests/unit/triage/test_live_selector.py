"""Several models in turn, each with its breaker; which strategy settings lead to."""

import asyncio
from time import monotonic

import pytest
from structlog.testing import capture_logs

from hooks.contract import Reason
from tests.support.scripted_model import Say, ScriptedModel
from tests.support.triage import Memories, ids, live_triage, many, task
from worker.domain.deadline import Deadline
from worker.domain.errors import ModelError, SettingsError
from worker.domain.memory import Candidate, Recalled, Selection
from worker.domain.model_profile import ModelAbilities, ModelProfile
from worker.injection.search_only import SearchOnlySelector
from worker.injection.strategies import Strategies
from worker.ports.models import ChatModel, Selector
from worker.settings.injection import InjectionConfig, Strategy
from worker.settings.service import ServiceSettings
from worker.triage.breaker import CircuitBreaker
from worker.triage.live_selector import LivePrompts
from worker.triage.model_pool import ModelNames, ModelPool
from worker.triage.prompt_files import default_prompts_dir

FIRST, SECOND = "first/model", "second/model"


async def select(
    triage: Selector, candidates: tuple[Candidate, ...] = many(4), seconds: float = 3.0, **config: object
) -> Selection:
    settings = InjectionConfig.model_validate(config)
    return await triage.select(task(), Recalled("organ", candidates), Memories(), settings, Deadline.after(seconds))


@pytest.mark.parametrize(
    "failure",
    [
        Say(error=Reason.MODEL_UNREACHABLE),
        Say(error=Reason.MODEL_RATE_LIMITED),
        Say("I cannot help with that."),
        Say('{"relevant":[', finish_reason="length"),
    ],
)
async def test_the_next_model_is_asked_when_one_fails(failure: Say) -> None:
    first, second = ScriptedModel([failure], FIRST), ScriptedModel(["[2]"], SECOND)
    selection = await select(live_triage([first, second]))
    assert ids(selection) == ["m2"]
    assert [attempt.model for attempt in selection.attempts] == [FIRST, SECOND]
    assert selection.attempts[0].reason is not None
    assert selection.attempts[1].reason is None
    assert selection.usage is not None
    assert selection.usage.model == SECOND


async def test_a_model_that_hangs_leaves_the_next_one_time() -> None:
    first, second = ScriptedModel([Say("[1]", delay=60)], FIRST), ScriptedModel(["[2]"], SECOND)
    started = monotonic()
    selection = await select(live_triage([first, second]), seconds=1.5)
    assert ids(selection) == ["m2"]
    assert selection.attempts[0].reason is Reason.MODEL_TIMEOUT
    assert monotonic() - started < 1.5


async def test_without_time_the_next_model_is_not_asked() -> None:
    first, second = ScriptedModel([Say("[1]", delay=60)], FIRST), ScriptedModel(["[2]"], SECOND)
    with pytest.raises(ModelError) as caught:
        await select(live_triage([first, second]), seconds=0.5)
    assert caught.value.reason is Reason.MODEL_TIMEOUT
    assert [attempt.model for attempt in caught.value.attempts] == [FIRST]
    assert second.requests == []


async def test_when_all_fail_the_first_reason_is_told_and_every_attempt() -> None:
    models = [
        ScriptedModel([Say(error=Reason.MODEL_ERROR)], FIRST),
        ScriptedModel([Say(error=Reason.MODEL_RATE_LIMITED)], SECOND),
    ]
    with pytest.raises(ModelError) as caught:
        await select(live_triage(models))
    assert caught.value.reason is Reason.MODEL_ERROR
    assert [attempt.reason for attempt in caught.value.attempts] == [Reason.MODEL_ERROR, Reason.MODEL_RATE_LIMITED]


async def test_every_model_has_a_breaker_of_its_own() -> None:
    first, second = ScriptedModel([Say(error=Reason.MODEL_ERROR)], FIRST), ScriptedModel(["[2]"], SECOND)
    triage = live_triage([first, second])
    for _ in range(CircuitBreaker().threshold + 2):
        selection = await select(triage)
        assert ids(selection) == ["m2"]
    assert selection.attempts[0].reason is Reason.MODEL_PAUSED
    assert len(first.requests) == CircuitBreaker().threshold


async def test_a_small_model_leaves_out_and_never_reorders() -> None:
    small = ScriptedModel(["[4,1,3]"], FIRST, abilities=ModelAbilities(may_only_veto=True))
    assert ids(await select(live_triage([small]), max_items=2)) == ["m1", "m3"]


class Named(SearchOnlySelector):
    def __init__(self) -> None:
        super().__init__(None)


DETERMINISTIC, LLM, DECISION, RELEVANCE = Named(), Named(), Named(), Named()


def strategies(model: Strategy | None, relevance_model: Selector | None = None) -> Strategies:
    return Strategies(DETERMINISTIC, llm=LLM, decision=DECISION, relevance_model=relevance_model, usual=lambda _: model)


@pytest.mark.parametrize(
    ("wanted", "model", "relevance_model", "settles", "improves", "noted"),
    [
        (Strategy.AUTO, Strategy.LLM, None, DETERMINISTIC, LLM, False),
        (Strategy.AUTO, Strategy.DECISION, None, DETERMINISTIC, DECISION, False),
        (Strategy.AUTO, None, None, DETERMINISTIC, None, False),
        (Strategy.AUTO, None, RELEVANCE, RELEVANCE, None, False),
        (Strategy.AUTO, Strategy.LLM, RELEVANCE, RELEVANCE, LLM, False),
        (Strategy.LLM, Strategy.LLM, None, DETERMINISTIC, LLM, False),
        (Strategy.LLM, None, None, DETERMINISTIC, None, True),
        (Strategy.DECISION, Strategy.LLM, None, DETERMINISTIC, DECISION, False),
        (Strategy.DECISION, None, RELEVANCE, RELEVANCE, None, True),
        (Strategy.RELEVANCE, Strategy.LLM, RELEVANCE, RELEVANCE, None, False),
        (Strategy.RELEVANCE, Strategy.LLM, None, DETERMINISTIC, None, True),
        (Strategy.DETERMINISTIC, Strategy.LLM, RELEVANCE, DETERMINISTIC, None, False),
    ],
)
def test_a_strategy_is_what_is_there(
    wanted: Strategy,
    model: Strategy | None,
    relevance_model: Selector | None,
    settles: Selector,
    improves: Selector | None,
    noted: bool,
) -> None:
    plan = strategies(model, relevance_model).plan(InjectionConfig(strategy=wanted))
    assert (plan.settles, plan.improves, plan.note is not None) == (settles, improves, noted)
    said = strategies(model, relevance_model).in_words(InjectionConfig(strategy=wanted), "ollama_chat/qwen3:4b")
    without = "the relevance model" if settles is RELEVANCE else "the search score"
    assert said == ("ollama_chat/qwen3:4b" if improves else without)


def test_settings_name_models_and_their_kind_follows_from_the_name_or_its_table() -> None:
    table = ModelProfile.model_validate({"name": "openai/mine", "kind": "decision"})
    names = ModelNames(ServiceSettings(models=(table,)), "ollama_chat/qwen3:4b")
    assert names.of(InjectionConfig()) == ("ollama_chat/qwen3:4b",)
    assert names.of(InjectionConfig(models=("a/b", "c/d", "a/b"))) == ("a/b", "c/d")
    assert names.strategy(InjectionConfig()) is Strategy.LLM
    assert names.strategy(InjectionConfig(models=("ollama/tev1:0.8b",))) is Strategy.DECISION
    assert names.strategy(InjectionConfig(models=("openai/mine",))) is Strategy.DECISION
    assert ModelNames(ServiceSettings(), None).strategy(InjectionConfig()) is None


@pytest.mark.parametrize(
    ("strategy", "asked"),
    [
        (Strategy.AUTO, {"ollama/tev1": "decision", "a/chat": "chat", "b/said": "chat"}),
        (Strategy.LLM, {"a/chat": "chat", "b/said": "chat"}),
        (Strategy.DECISION, {"ollama/tev1": "decision"}),
    ],
)
def test_models_of_both_kinds_may_follow_one_another_and_a_strategy_takes_its_own(
    strategy: Strategy, asked: dict[str, str]
) -> None:
    said = ModelProfile.model_validate({"name": "b/said", "kind": "chat"})
    names = ModelNames(ServiceSettings(models=(said,)), None)
    config = InjectionConfig(strategy=strategy, models=("ollama/tev1", "a/chat", "b/said"))
    assert {name: names.kind(name, config).value for name in names.of(config)} == asked


def test_a_strategy_takes_a_model_that_nothing_is_known_of_for_what_it_needs() -> None:
    said = ModelProfile.model_validate({"name": "b/said", "kind": "chat"})
    names = ModelNames(ServiceSettings(models=(said,)), None)
    config = InjectionConfig(strategy=Strategy.DECISION, models=("hosted_vllm/mine", "b/said"))
    assert names.of(config) == ("hosted_vllm/mine",)
    assert names.strategy(config) is Strategy.DECISION


async def test_a_model_is_opened_once_and_a_failed_one_is_tried_again() -> None:
    loads: list[str] = []

    def load(profile: ModelProfile) -> ChatModel:
        loads.append(profile.name)
        if len(loads) == 1:
            raise SettingsError("the variable MY_KEY is not set")
        return ScriptedModel([], profile.name)

    now = [100.0]
    pool = ModelPool[ChatModel](load, lambda name: ModelProfile(name=name), lambda: now[0])
    for _ in range(3):
        with pytest.raises(ModelError, match="MY_KEY") as caught:
            await pool.get(FIRST, Deadline.after(1))
        assert caught.value.reason is Reason.MODEL_ERROR
    assert loads == [FIRST], "a model that cannot be opened is not opened again at each request"
    now[0] += 30.0
    opened = await asyncio.gather(*(pool.get(FIRST, Deadline.after(1)) for _ in range(5)))
    assert len({id(each.breaker) for each in opened}) == 1
    assert loads == [FIRST, FIRST]
    await pool.warmed()
    await pool.aclose()


@pytest.mark.parametrize("fault", [ImportError("no module"), ValueError("sk-secret"), KeyError("x"), OSError("gone")])
async def test_whatever_a_model_raises_while_it_opens_the_next_one_is_asked(fault: Exception) -> None:
    second = ScriptedModel(["[2]"], SECOND)

    def load(profile: ModelProfile) -> ChatModel:
        if profile.name == FIRST:
            raise fault
        return second

    pool = ModelPool[ChatModel](load, lambda name: ModelProfile(name=name))
    with pytest.raises(ModelError) as caught:
        await pool.get(FIRST, Deadline.after(1))
    assert str(caught.value) == f"{FIRST}: cannot be opened: {type(fault).__name__}"
    assert (await pool.get(SECOND, Deadline.after(1))).model is second
    await pool.warmed()
    await pool.aclose()


def test_an_unknown_prompt_is_logged_once() -> None:
    prompts = LivePrompts(default_prompts_dir()).with_prompt(None)
    with capture_logs() as logs:
        for name in ("gone", "gone", "other", "triage"):
            assert prompts.triage_for(InjectionConfig(prompt=name)) is prompts.triage
    assert [(entry["event"], entry["prompt"]) for entry in logs] == [
        ("prompt_unknown", "gone"),
        ("prompt_unknown", "other"),
    ]


async def test_a_model_that_still_opens_or_warms_up_is_said_to_load() -> None:
    model, warm = ScriptedModel([], FIRST), asyncio.Event()
    model.warm = warm.wait  # type: ignore[method-assign,assignment]
    pool = ModelPool[ChatModel](lambda _: model, lambda name: ModelProfile(name=name))
    opening = pool.open(FIRST)
    assert [(state.name, state.loading) for state in pool.states(0.0)] == [(FIRST, True)]
    await opening
    assert [state.loading for state in pool.states(0.0)] == [True], "open, not warm"
    warm.set()
    await pool.warmed()
    assert [state.loading for state in pool.states(0.0)] == [False]
    await pool.aclose()
