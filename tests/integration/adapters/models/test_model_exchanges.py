"""Whole selections in the formats of five vendors, replayed through the real LiteLLM: tools, choices, refusals.

The exchanges in `tests/data/exchanges` are written by hand from the documented formats, each with its source.
"""

import json
import os
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from hooks.contract import Reason
from tests.support.http_double import HttpDouble, running_http_double
from tests.support.paths import ROOT
from tests.support.triage import Memories, candidate, ids, selector, task
from worker.adapters.models.litellm_process import prepare_environment
from worker.domain.deadline import Deadline
from worker.domain.errors import ModelError
from worker.domain.memory import Recalled, Selection
from worker.domain.model_profile import SchemaKind
from worker.ports.models import ChatModel
from worker.settings.injection import InjectionConfig

FOLDER = ROOT / "tests" / "data" / "exchanges"
EXCHANGES: dict[str, dict[str, Any]] = {
    path.stem: json.loads(path.read_text(encoding="utf-8")) for path in sorted(FOLDER.glob("*.json"))
}
NOTES = (candidate("m1", "Salary list lives in the red binder"),)
FOUND = candidate("m2", "The regatta starts at pier 6")
BOTH = (*NOTES, FOUND)


@pytest.fixture
def double() -> Iterator[HttpDouble]:
    with running_http_double() as running:
        yield running


@asynccontextmanager
async def vendor(double: HttpDouble, exchange: dict[str, Any], **options: Any) -> AsyncIterator[ChatModel]:
    prepare_environment(os.environ)
    from worker.adapters.models.litellm_chat import LiteLLMModel

    model = LiteLLMModel(exchange["model"], api_base=double.url + exchange["base"], api_key="sk-test", **options)
    yield model
    await model.aclose()


async def choose(model: ChatModel, notes: tuple[Any, ...] = NOTES) -> tuple[Selection, Memories]:
    recall = Memories({"pier": Recalled("pier", (FOUND,))})
    selection = await selector(model).select(
        task("Where does the regatta start?"),
        Recalled("regatta", notes),
        recall,
        InjectionConfig(),
        Deadline.after(60),
    )
    return selection, recall


def at(body: Any, pointer: str) -> Any:
    """Return the value at a JSON pointer, `None` if there is none."""
    for step in pointer.strip("/").split("/"):
        try:
            body = body[int(step)] if isinstance(body, list) else body[step]
        except (KeyError, IndexError):
            return None
    return body


def turns(double: HttpDouble, exchange: dict[str, Any]) -> list[tuple[bool, bool]]:
    """Return for each request whether it has a schema and whether it has the tool."""
    return [
        (at(seen.body, exchange["schema_at"]) is not None, at(seen.body, exchange["tool_at"]) == "recall")
        for seen in double.seen
    ]


@pytest.mark.parametrize("name", EXCHANGES)
async def test_an_exchange_says_where_its_format_is_documented(name: str) -> None:
    assert EXCHANGES[name]["source"].startswith("https://")
    assert "by hand" in EXCHANGES[name]["note"]


@pytest.mark.parametrize("name", EXCHANGES)
async def test_something_is_missing_it_is_searched_for_and_chosen(double: HttpDouble, name: str) -> None:
    exchange = EXCHANGES[name]
    double.queue = [exchange["choice_insufficient"], exchange["search"], exchange["choice"]]
    async with vendor(double, exchange) as model:
        selection, recall = await choose(model)
    assert ids(selection) == ["m2"]
    assert [query.query for query in recall.asked] == ["pier"]
    assert [seen.path.partition("?")[0] for seen in double.seen] == [exchange["path"]] * 3
    assert turns(double, exchange) == [(True, False), (False, True), (True, False)]
    usage = selection.usage
    assert usage is not None
    assert [usage.input_tokens, usage.output_tokens, usage.cached_tokens] == [3 * n for n in exchange["tokens"]]


@pytest.mark.parametrize(
    ("name", "reason"), [(name, reason) for name in EXCHANGES for reason in EXCHANGES[name]["faults"]]
)
async def test_a_fault_has_its_name(double: HttpDouble, name: str, reason: str) -> None:
    exchange = EXCHANGES[name]
    double.answer(exchange["faults"][reason])
    async with vendor(double, exchange) as model:
        with pytest.raises(ModelError) as caught:
            await choose(model, BOTH)
    assert caught.value.reason is Reason(reason)


async def test_llama_cpp_can_be_held_to_a_pattern(double: HttpDouble) -> None:
    exchange = EXCHANGES["llama_cpp"]
    double.answer(exchange["choice_pattern"])
    async with vendor(double, exchange, output=SchemaKind.PATTERN) as model:
        selection, _ = await choose(model, BOTH)
    assert ids(selection) == ["m2"]
    schema = at(double.seen[0].body, exchange["schema_at"])
    assert schema == {"type": "string", "pattern": "^(none|[1-2](,[1-2]){0,1})$"}
    examples = [message["content"] for message in double.seen[0].body["messages"] if message["role"] == "assistant"]
    assert examples == ['"1,3,5"', '"none"', '"2"', '"2,1"', '"none"']


@pytest.mark.parametrize(
    ("options", "turn"),
    [({"output": SchemaKind.NONE}, (False, False)), ({"tools": False}, (True, False))],
    ids=["no schema", "no tools"],
)
async def test_what_a_model_cannot_do_is_not_asked_of_it(
    double: HttpDouble, options: dict[str, Any], turn: tuple[bool, bool]
) -> None:
    exchange = EXCHANGES["openai"]
    double.answer(exchange["choice"] if "output" in options else exchange["choice_insufficient"])
    async with vendor(double, exchange, **options) as model:
        await choose(model, BOTH)
    assert turns(double, exchange) == [turn]


KNOWN: list[tuple[str, Callable[[ChatModel], bool]]] = [
    ("anthropic/claude-haiku-4-5", lambda model: model.abilities.output is SchemaKind.JSON_SCHEMA),
    ("anthropic/claude-3-5-haiku-20241022", lambda model: model.abilities.output is SchemaKind.NONE),
    ("ollama_chat/anything", lambda model: model.abilities.tools),
    ("openai/of-my-own", lambda model: model.abilities.output is SchemaKind.JSON_SCHEMA and model.abilities.tools),
]


@pytest.mark.parametrize(("name", "holds"), KNOWN, ids=[name for name, _ in KNOWN])
async def test_what_models_can_do_is_known(name: str, holds: Callable[[ChatModel], bool]) -> None:
    prepare_environment(os.environ)
    from worker.adapters.models.litellm_chat import LiteLLMModel

    assert holds(LiteLLMModel(name, api_key="sk-test"))
