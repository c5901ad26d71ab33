"""A real language model over HTTP through the real LiteLLM, whatever it answers."""

import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Iterator
from dataclasses import replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import httpx
import pytest

from hooks.contract import Reason
from tests.support.local_llm import MISSING, SKIP_REASON, local_llm
from tests.support.ports import free_port
from worker.adapters.models.litellm_process import prepare_environment
from worker.domain.deadline import Deadline
from worker.domain.errors import ModelError
from worker.domain.memory import Candidate, Memory, Recalled, RecallQuery, SelectionTask
from worker.domain.model_calls import ChatRequest
from worker.domain.model_profile import SchemaKind
from worker.ports.models import ChatModel
from worker.settings.injection import InjectionConfig
from worker.triage.answer_parsing import Choice, parse_choice
from worker.triage.breaker import CircuitBreaker
from worker.triage.chat_prompt import AnswerShape, Conversation
from worker.triage.chat_selector import LlmSelector
from worker.triage.prompt_files import default_prompts_dir, load_prompts

if TYPE_CHECKING:
    from tests.support.local_llm_server import LocalServer

pytestmark = [pytest.mark.local_llm, pytest.mark.skipif(bool(MISSING), reason=SKIP_REASON)]

NOTES = (
    "The regatta starts at pier 6 at ten in the morning",
    "Salary list lives in the red binder",
    "Dana is lactose intolerant",
    "The sign printer nozzle is 0.6",
    "Reed organ tuner: Pavel, every autumn",
    "Spare fuse box key: second hook, blue tag",
    "Bolt torque is 18 Nm",
    "Staging moved to port 9443",
    "Dentist for the twins: Dr. Okonjo, Wednesday 16:10",
    "The price list is sorted by region",
)
TASK = SelectionTask("Where does the regatta start?", None, (), "regatta start", datetime(2026, 3, 1, tzinfo=UTC))
CANDIDATES = tuple(
    Candidate(
        Memory(id=f"m{n}", content=text, created_at=datetime(2026, 1, 10, tzinfo=UTC)),
        cosine=0.5,
        keyword=1.0,
        relevance=0.5,
        score=0.5,
    )
    for n, text in enumerate(NOTES, 1)
)


@pytest.fixture(scope="module")
def server() -> "Iterator[LocalServer]":
    with local_llm() as running:
        yield running


@pytest.fixture
async def model(server: "LocalServer") -> AsyncIterator[ChatModel]:
    prepare_environment(os.environ)
    from tests.support.local_llm_server import MODEL_NAME
    from worker.adapters.models.litellm_chat import LiteLLMModel

    chat = LiteLLMModel(MODEL_NAME, api_base=server.url)
    yield chat
    await chat.aclose()


async def no_recall(query: RecallQuery) -> Recalled:
    return Recalled(query.query)


async def test_the_answer_has_the_shape_of_the_schema_or_the_pattern(server: "LocalServer") -> None:
    """llama.cpp compiles both to a grammar; a pattern leaves no room for anything but numbers, also of two digits."""
    prepare_environment(os.environ)
    from tests.support.local_llm_server import MODEL_NAME
    from worker.adapters.models.litellm_chat import LiteLLMModel

    held = LiteLLMModel(MODEL_NAME, api_base=server.url, output=SchemaKind.PATTERN)
    free = LiteLLMModel(MODEL_NAME, api_base=server.url)
    usual = load_prompts(default_prompts_dir())["triage"]
    prompt = replace(usual, system="Name the notes that help to answer the message.", examples=())
    copies = (replace(c, memory=c.memory.model_copy(update={"id": f"n{c.memory.id}"})) for c in CANDIDATES)
    offered = (*CANDIDATES, *copies)
    replies = []
    for model in (free, held):
        shape = AnswerShape(window=2048, most=5, output=model.abilities.output)
        asked = Conversation(prompt, TASK, offered, lambda text: text, shape)
        reply = await model.complete(asked.choice_request(), Deadline.after(120))
        assert reply.usage is not None
        assert reply.usage.input_tokens > 500
        replies.append((reply, reply.usage.output_tokens))
        await model.aclose()
    (by_schema, more), (by_pattern, fewer) = replies
    assert by_schema.finish_reason != "stop" or isinstance(parse_choice(by_schema.text, len(offered)), Choice)
    assert re.fullmatch(r'"(none|\d\d?(,\d\d?){0,4})"', by_pattern.text)
    assert isinstance(parse_choice(by_pattern.text, len(offered)), Choice)
    assert more > fewer > 0


async def test_a_whole_triage_ends_in_a_selection_or_a_named_reason(model: ChatModel) -> None:
    prompt = load_prompts(default_prompts_dir())["triage"]
    selector = LlmSelector(model, prompt, CircuitBreaker(), present=lambda text: text, window=1024)
    recalled = Recalled("regatta start", CANDIDATES)
    chosen: tuple[Candidate, ...] = ()
    reason: Reason | None = None
    try:
        selection = await selector.select(TASK, recalled, no_recall, InjectionConfig(), Deadline.after(120))
        chosen = selection.chosen
    except ModelError as error:
        reason = error.reason
    assert reason in {None, Reason.MODEL_UNPARSEABLE, Reason.MODEL_TRUNCATED}
    assert {c.memory.id for c in chosen} <= {c.memory.id for c in CANDIDATES}
    assert len(chosen) <= 5


async def test_a_call_that_takes_too_long_ends_at_the_deadline_and_the_server_serves_again(model: ChatModel) -> None:
    endless = ChatRequest(messages=({"role": "user", "content": "Count to ten thousand."},), max_tokens=1500)
    started = time.monotonic()
    with pytest.raises(ModelError) as caught:
        await model.complete(endless, Deadline.after(0.5))
    assert caught.value.reason is Reason.MODEL_TIMEOUT
    assert time.monotonic() - started < 0.5 + 0.5  # the deadline, and slack for the model's own load on the machine
    await model.complete(ChatRequest(messages=({"role": "user", "content": "Hi"},), max_tokens=1), Deadline.after(60))


def test_the_server_runs_as_a_program_and_ends_when_told() -> None:
    port = free_port()
    command = [sys.executable, "-m", "tests.support.local_llm_server", str(port)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            assert f"http://127.0.0.1:{port}/v1" in process.stdout.readline()
            assert httpx.get(f"http://127.0.0.1:{port}/v1/models", timeout=10).status_code == 200
        finally:
            process.send_signal(signal.SIGTERM)
        assert process.wait(30) == 0
