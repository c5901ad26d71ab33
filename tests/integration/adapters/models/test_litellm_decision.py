"""Decision models through the real LiteLLM, against a faulty server and llama.cpp's."""

import asyncio
import logging
import os
import statistics
import time
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from hooks.contract import Engine, Reason
from tests.support.decision_gguf import make_decision_model
from tests.support.http_double import HttpDouble, running_http_double
from tests.support.local_llm import MISSING, SKIP_REASON, local_llm
from tests.support.triage import Memories, candidate, ids, many, task
from tests.support.upstream import Mode, Upstream
from worker.adapters.models.litellm_process import prepare_environment
from worker.domain.deadline import Deadline
from worker.domain.errors import ModelError
from worker.domain.memory import Recalled
from worker.domain.model_calls import DecisionRequest
from worker.ports.models import DecisionModel
from worker.settings.injection import InjectionConfig
from worker.triage.breaker import CircuitBreaker
from worker.triage.decision_scale import DecisionScale
from worker.triage.decision_selector import DecisionLimits, DecisionSelector
from worker.triage.prompt_files import default_prompts_dir, load_prompts

if TYPE_CHECKING:
    from tests.support.local_llm_server import LocalServer


PROMPT = load_prompts(default_prompts_dir())["decision"]
SECRET = "zebra-striped-sentinel"
TWO = DecisionRequest("The task", ("First?", "Second?"))
PROVIDERS = ["ollama", "hosted_vllm", "lm_studio"]


def answers(**nouls: Any) -> dict[str, Any]:
    given = {key: {"type": "noul", "noul": value} for key, value in nouls.items()}
    return {"model": "m", "answers": given, "usage": {"input_tokens": 40, "output_tokens": 0}}


@pytest.fixture
def double() -> Iterator[HttpDouble]:
    with running_http_double() as running:
        running.answer(answers(m0=0.9, m1=0.2))
        yield running


@pytest.fixture
async def model(double: HttpDouble, request: pytest.FixtureRequest) -> AsyncIterator[DecisionModel]:
    prepare_environment(os.environ)
    from worker.adapters.models.litellm_decision import LiteLLMDecisionModel

    provider = getattr(request, "param", "ollama")
    made = LiteLLMDecisionModel(f"{provider}/unheard-of", api_base=double.url)
    await made.decide(TWO, Deadline.after(60))
    double.seen.clear()
    yield made
    await made.aclose()


async def fails(model: DecisionModel, seconds: float = 20.0) -> ModelError:
    with pytest.raises(ModelError) as caught:
        await model.decide(TWO, Deadline.after(seconds))
    return caught.value


@pytest.mark.parametrize("model", PROVIDERS, indirect=True)
async def test_one_request_asks_every_question(model: DecisionModel, double: HttpDouble) -> None:
    reply = await model.decide(TWO, Deadline.after(20))
    assert reply.probabilities == (0.9, 0.2)
    assert reply.usage is not None
    assert (reply.usage.calls, reply.usage.input_tokens) == (1, 40)
    (seen,) = double.seen
    assert (seen.method, seen.path) == ("POST", "/v1/systemone")
    assert seen.body == {
        "model": "unheard-of",
        "state": "The task",
        "questions": {
            "m0": {"type": "noul", "instructions": "First?"},
            "m1": {"type": "noul", "instructions": "Second?"},
        },
    }


FAULTS: dict[str, tuple[Any, int, Reason]] = {
    "not a number": (
        b'{"answers":{"m0":{"type":"noul","noul":NaN},"m1":{"type":"noul","noul":0.2}}}',
        200,
        Reason.MODEL_UNPARSEABLE,
    ),
    "more than one": (answers(m0=1.01, m1=0.2), 200, Reason.MODEL_UNPARSEABLE),
    "less than nothing": (answers(m0=-0.01, m1=0.2), 200, Reason.MODEL_UNPARSEABLE),
    "a text": (answers(m0="yes", m1=0.2), 200, Reason.MODEL_UNPARSEABLE),
    "an answer is missing": (answers(m1=0.2), 200, Reason.MODEL_UNPARSEABLE),
    "every answer is missing": ({"answers": {}}, 200, Reason.MODEL_UNPARSEABLE),
    "no answers": ({}, 200, Reason.MODEL_UNPARSEABLE),
    "no JSON": (b"<html>secret-body", 200, Reason.MODEL_UNPARSEABLE),
    "no such model": ({"error": "secret-body"}, 404, Reason.MODEL_ERROR),
    "no decision model": (
        {"error": {"message": "This model is not a decision model secret-body"}},
        501,
        Reason.MODEL_ERROR,
    ),
    "a question it refuses": ({"error": "secret-body"}, 422, Reason.MODEL_ERROR),
    "no key": ({"error": "secret-body"}, 401, Reason.MODEL_ERROR),
    "too many": ({"error": "secret-body"}, 429, Reason.MODEL_RATE_LIMITED),
    "broken": ({"error": "secret-body"}, 500, Reason.MODEL_ERROR),
}


@pytest.mark.parametrize("fault", FAULTS)
async def test_a_failed_call_is_one_request_and_one_named_reason(
    model: DecisionModel, double: HttpDouble, fault: str
) -> None:
    body, status, reason = FAULTS[fault]
    double.answer(body, status)
    error = await fails(model)
    assert error.reason is reason
    assert "secret-body" not in f"{error!r} {error.__cause__!r}"
    await asyncio.sleep(0.2)
    assert len(double.seen) == 1


@pytest.mark.parametrize(
    ("mode", "reason"),
    [("hang", Reason.MODEL_TIMEOUT), ("trickle", Reason.MODEL_TIMEOUT), ("close", Reason.MODEL_UNREACHABLE)],
)
async def test_a_server_that_hangs_or_hangs_up_is_named(
    model: DecisionModel, double: HttpDouble, mode: str, reason: Reason
) -> None:
    double.mode = mode
    started = time.monotonic()
    assert (await fails(model, 0.4 if reason is Reason.MODEL_TIMEOUT else 20.0)).reason is reason
    assert time.monotonic() - started < 5


async def test_the_deadline_is_kept(model: DecisionModel, double: HttpDouble) -> None:
    double.mode = "hang"
    late = []
    for _ in range(5):
        deadline = Deadline.after(0.3)
        await fails(model, deadline.remaining())
        late.append(time.monotonic() - deadline.at)
    assert statistics.median(late) < 0.15


@pytest.mark.parametrize("provider", PROVIDERS)
async def test_cancelling_closes_the_connection_at_once(provider: str) -> None:
    prepare_environment(os.environ)
    from worker.adapters.models.litellm_decision import LiteLLMDecisionModel

    delays = []
    async with Upstream(mode=Mode.HANG) as upstream:
        asked = LiteLLMDecisionModel(f"{provider}/m", api_base=upstream.url)
        for number in range(1, 6):
            call = asyncio.create_task(asked.decide(TWO, Deadline.after(60)))
            while len(upstream.requests) < number:
                await asyncio.sleep(0.005)
            cancelled_at = time.monotonic()
            call.cancel()
            await asyncio.gather(call, return_exceptions=True)
            async with asyncio.timeout(5):
                while len(upstream.disconnects) < number:
                    await asyncio.sleep(0.005)
            delays.append(upstream.disconnects[-1] - cancelled_at)
        await asked.aclose()
    assert statistics.median(delays) < 0.1
    assert {request.path for request in upstream.requests} == {"/v1/systemone"}


async def test_no_text_of_a_question_is_logged_even_at_debug(
    model: DecisionModel, double: HttpDouble, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    for status in (200, 500, 422):
        double.answer(answers(m0=0.5, m1=0.5), status)
        try:
            await model.decide(DecisionRequest(SECRET, (SECRET, SECRET)), Deadline.after(20))
        except ModelError:
            continue
    await asyncio.sleep(0.1)
    assert SECRET in str(double.seen)
    assert SECRET not in caplog.text


async def test_a_whole_selection_over_http(model: DecisionModel, double: HttpDouble) -> None:
    double.answer(answers(m0=0.3, m1=0.97, m2=0.6))
    chooser = DecisionSelector(
        model, PROMPT, CircuitBreaker(), present=str, limits=DecisionLimits(DecisionScale(threshold=0.55))
    )
    selection = await chooser.select(
        task(), Recalled("organ", many(3)), Memories(), InjectionConfig(), Deadline.after(20)
    )
    assert ids(selection) == ["m2", "m3"]
    assert selection.engine is Engine.DECISION


NOTES = ("The regatta starts at pier 6", "Dana is lactose intolerant", "Staging moved to port 9443")


@pytest.fixture(scope="module")
def decision_server(tmp_path_factory: pytest.TempPathFactory) -> "Iterator[LocalServer]":
    """Run llama.cpp with a chat model as a decision model."""
    from tests.support.local_llm_server import find_weights

    weights: Path = tmp_path_factory.mktemp("weights") / "decision.gguf"
    make_decision_model(find_weights(), weights)
    with local_llm(weights) as running:
        yield running
    weights.unlink()


@pytest.mark.local_llm
@pytest.mark.skipif(bool(MISSING), reason=SKIP_REASON)
async def test_llama_cpp_decides_for_real(decision_server: "LocalServer") -> None:
    """Check the protocol only; this model's probabilities are meaningless."""
    prepare_environment(os.environ)
    from worker.adapters.models.litellm_decision import LiteLLMDecisionModel

    model = LiteLLMDecisionModel("hosted_vllm/smollm2-135m", api_base=decision_server.url)
    candidates = tuple(candidate(f"m{n}", text) for n, text in enumerate(NOTES))
    chooser = DecisionSelector(
        model, PROMPT, CircuitBreaker(), present=str, limits=DecisionLimits(DecisionScale(threshold=0.0), questions=2)
    )
    selection = await chooser.select(
        task("Where does the regatta start?"),
        Recalled("q", candidates),
        Memories(),
        InjectionConfig(),
        Deadline.after(90),
    )
    assert set(ids(selection)) == {"m0", "m1", "m2"}
    assert all(0.0 < value < 1.0 for value in selection.probabilities.values())
    assert [selection.probabilities[key] for key in ids(selection)] == sorted(
        selection.probabilities.values(), reverse=True
    )
    assert selection.usage is not None
    assert selection.usage.calls == 2
    assert selection.usage.input_tokens > 100
    await model.aclose()


@pytest.mark.local_llm
@pytest.mark.skipif(bool(MISSING), reason=SKIP_REASON)
async def test_a_chat_model_of_llama_cpp_is_no_decision_model() -> None:
    prepare_environment(os.environ)
    from worker.adapters.models.litellm_decision import LiteLLMDecisionModel

    with local_llm() as server:
        model = LiteLLMDecisionModel("hosted_vllm/smollm2-135m", api_base=server.url)
        error = await fails(model, 60.0)
        await model.aclose()
    assert error.reason is Reason.MODEL_ERROR
    assert "501" in str(error)
