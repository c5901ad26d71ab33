"""Settings lead to models: which are opened, tried in which order, as what they are; through the command line."""

import asyncio
import json
from collections.abc import Iterator
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import pytest

from tests.support.command_line import CommandLine, command_line
from tests.support.http_double import HttpDouble, Seen, running_http_double
from tests.support.ports import free_port
from tests.support.upstream import Upstream, keeping
from tests.support.upstream_thread import upstream_thread
from worker.bootstrap import opening
from worker.domain.errors import SettingsError
from worker.settings.injection import InjectionConfig, Strategy
from worker.settings.service import ServiceSettings
from worker.triage.prompt_files import default_prompts_dir, load_prompt

QUESTION = ("inject", "Who tunes the reed organ?", "--deadline-ms", "20000")


@pytest.fixture
def upstream() -> Iterator[Upstream]:
    with upstream_thread(keeping(["Pavel"])) as server:
        yield server


@pytest.fixture
def double() -> Iterator[HttpDouble]:
    with running_http_double() as server:
        server.respond = sure_of("Pavel")
        yield server


def sure_of(text: str) -> Any:
    def respond(seen: Seen) -> Any:
        questions = seen.body["questions"].items()
        answers = {
            key: {"type": "noul", "noul": 0.8 if text in question["instructions"] else 0.1}
            for key, question in questions
        }
        return {"model": "m", "answers": answers, "usage": {"input_tokens": 9, "output_tokens": 0}}

    return respond


def commands(folder: Path, config: str = "", **variables: str) -> CommandLine:
    """Commands on a store with two memories, and settings from a file."""
    (folder / "meeseeks.toml").write_text(config, encoding="utf-8")
    line = command_line(folder, MEESEEKS_CONFIG=str(folder / "meeseeks.toml"), **variables)
    quiet = command_line(folder)
    quiet.ok("remember", "The reed organ is tuned by Pavel Novak")
    quiet.ok("remember", "The key of the reed organ hangs in the vestry")
    return line


def texts(answer: Any) -> list[str]:
    return [item["text"] for item in answer["items"]]


def test_models_are_tried_in_the_order_of_the_settings(tmp_path: Path, upstream: Upstream) -> None:
    config = f"""
        [[service.models]]
        name = "openai/away"
        api_base = "http://127.0.0.1:{free_port()}/v1"
        [[service.models]]
        name = "openai/here"
        api_base = "{upstream.url}/v1"
        api_key_variable = "KEY_OF_HERE"
        output = "pattern"
        [memory_injection]
        models = ["openai/away", "openai/here"]
    """
    line = commands(tmp_path, config, KEY_OF_HERE="sk-of-here")
    answer = line.json(*QUESTION)
    assert (answer["engine"], answer["degraded"]) == ("llm", False)
    assert texts(answer) == ["The reed organ is tuned by Pavel Novak"]
    receipt = line.json("receipt", answer["receipt_id"])
    assert [(each["model"], each["reason"]) for each in receipt["attempts"]] == [
        ("openai/away", "model_unreachable"),
        ("openai/here", None),
    ]
    request = upstream.chats[-1]
    assert request.headers["authorization"] == "Bearer sk-of-here"
    assert request.body["response_format"]["json_schema"]["schema"]["type"] == "string"


def test_a_decision_model_is_known_by_its_name(tmp_path: Path, double: HttpDouble) -> None:
    line = commands(tmp_path, MEESEEKS_MODEL="ollama/tev1:0.8b", MEESEEKS_MODEL_API_BASE=double.url)
    answer = line.json(*QUESTION)
    assert (answer["engine"], texts(answer)) == ("decision", ["The reed organ is tuned by Pavel Novak"])
    assert {seen.path for seen in double.seen} == {"/v1/systemone"}
    considered = line.json("receipt", answer["receipt_id"])["considered"]
    assert [memory["probability"] for memory in considered if memory["verdict"] == "chosen"] == [0.8]


def test_a_chat_model_follows_a_decision_model_that_fails(
    tmp_path: Path, upstream: Upstream, double: HttpDouble
) -> None:
    double.respond = None
    double.answer({"error": "model 'tev1' not found"}, 404)
    config = f"""
        [[service.models]]
        name = "ollama/tev1"
        api_base = "{double.url}"
        [[service.models]]
        name = "openai/here"
        api_base = "{upstream.url}/v1"
        [memory_injection]
        models = ["ollama/tev1", "openai/here"]
    """
    line = commands(tmp_path, config)
    answer = line.json(*QUESTION)
    assert (answer["engine"], texts(answer)) == ("llm", ["The reed organ is tuned by Pavel Novak"])
    attempts = line.json("receipt", answer["receipt_id"])["attempts"]
    assert [(each["model"], each["reason"]) for each in attempts] == [
        ("ollama/tev1", "model_error"),
        ("openai/here", None),
    ]


def test_a_threshold_of_the_settings_goes_before_the_usual_one(tmp_path: Path, double: HttpDouble) -> None:
    table = json.dumps([{"name": "ollama/mine", "kind": "decision", "threshold": 0.9, "api_base": double.url}])
    line = commands(tmp_path, MEESEEKS_MODEL="ollama/mine", MEESEEKS_MODELS=table)
    answer = line.json(*QUESTION)
    assert (answer["engine"], answer["outcome"], texts(answer)) == ("decision", "none_relevant", [])


def test_a_streamed_answer_that_stalls_counts_as_far_as_it_came(tmp_path: Path, upstream: Upstream) -> None:
    table = json.dumps([{"name": "openai/slow", "stream": True, "api_base": f"{upstream.url}/v1"}])
    line = commands(tmp_path, MEESEEKS_MODEL="openai/slow", MEESEEKS_MODELS=table)
    upstream.stall_after = len('{"relevant":[1]') // 2 + 1
    answer = line.json("inject", "Who tunes the reed organ?", "--deadline-ms", "3000")
    assert (answer["engine"], answer["degraded"], answer["reason"]) == ("llm", True, "model_timeout")
    assert texts(answer) == ["The reed organ is tuned by Pavel Novak"]
    assert "the partial answer was used" in line.json("receipt", answer["receipt_id"])["notes"][0]


def test_an_agent_has_a_prompt_of_its_own_that_says_only_what_differs(tmp_path: Path, upstream: Upstream) -> None:
    prompts = tmp_path / "prompts"
    prompts.mkdir()
    shipped = (default_prompts_dir() / "triage.md").read_text(encoding="utf-8")
    (prompts / "triage.md").write_text(shipped, encoding="utf-8")
    (prompts / "organist.md").write_text(
        "---\nid: organist\nversion: 4\nextends: triage\n---\n# System\nYou serve an organist.\n", encoding="utf-8"
    )
    config = f"""
        [service]
        prompts_dir = "{prompts}"
        [[service.models]]
        name = "openai/here"
        api_base = "{upstream.url}/v1"
        [memory_injection]
        models = ["openai/here"]
        [[agents]]
        id = "organist"
        prompt = "organist"
        [[agents]]
        id = "stray"
        prompt = "nowhere"
    """
    line = commands(tmp_path, config)
    used = {}
    for agent in ("organist", "main", "stray"):
        answer = line.json(*QUESTION, "--agent", agent)
        assert (answer["engine"], texts(answer)) == ("llm", ["The reed organ is tuned by Pavel Novak"])
        system = upstream.chats[-1].body["messages"][0]["content"]
        used[agent] = (line.json("receipt", answer["receipt_id"])["model"]["prompt_id"], system[:22])
    usual = load_prompt(prompts / "triage.md")
    assert used["organist"] == ("organist@4", "You serve an organist.")
    assert used["main"] == used["stray"] == (usual.name, usual.system[:22])


def test_a_key_that_is_not_set_is_told_at_the_start(tmp_path: Path) -> None:
    table = json.dumps([{"name": "openai/mine", "api_key_variable": "NO_SUCH_KEY"}])
    line = commands(tmp_path, MEESEEKS_MODEL="openai/mine", MEESEEKS_MODELS=table)
    result = line.run(*QUESTION)
    assert result.exit_code == 1
    assert "the environment variable NO_SUCH_KEY is not set" in result.output


def test_a_table_that_is_wrong_is_told_with_its_line(tmp_path: Path) -> None:
    line = commands(tmp_path)
    (tmp_path / "meeseeks.toml").write_text('[service]\n[[service.models]]\nname = "a/b"\noutput = "yaml"\n')
    result = line.run(*QUESTION)
    assert result.exit_code == 1
    assert "meeseeks.toml:2: service.models.0.output" in result.output.replace("\n", "")


async def test_a_service_opens_its_models_once_it_is_ready(upstream: Upstream) -> None:
    service = ServiceSettings(model="openai/scripted", model_api_base=f"{upstream.url}/v1")
    async with AsyncExitStack() as stack:
        models = await opening.find_models(service, ("openai/other", "openai/scripted"), stack)
        assert models.states() == []
        await models.opened()
        await models.warm()
        assert [(state.name, state.loading) for state in models.states()] == [
            ("openai/scripted", False),
            ("openai/other", False),
        ]


async def test_a_service_does_not_start_without_the_key_of_its_model() -> None:
    table = [{"name": "openai/mine", "api_key_variable": "NO_SUCH_KEY"}]
    service = ServiceSettings.model_validate({"model": "openai/mine", "models": table})
    async with AsyncExitStack() as stack:
        with pytest.raises(SettingsError, match="NO_SUCH_KEY is not set"):
            await opening.find_models(service, (), stack)


async def test_a_local_model_that_comes_later_is_used(double: HttpDouble, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(opening, "LOOK_AGAIN", 0.02)
    double.respond = lambda seen: {"models": []}
    async with AsyncExitStack() as stack:
        models = await opening.find_models(ServiceSettings(ollama_url=double.url), (), stack)
        assert (models.names.usual, models.states()) == (None, [])
        double.respond = lambda seen: {"models": [{"name": "nomic-embed-text"}, {"name": "qwen3:1.7b"}]}
        async with asyncio.timeout(60):
            while models.names.usual is None:
                await asyncio.sleep(0.02)
    assert models.names.usual == "ollama_chat/qwen3:1.7b"
    assert models.names.strategy(InjectionConfig()) is Strategy.LLM


async def test_no_local_model_is_looked_for_if_the_settings_want_none(double: HttpDouble) -> None:
    async with AsyncExitStack() as stack:
        models = await opening.find_models(ServiceSettings(ollama_url=double.url, model="none"), (), stack)
    assert (models.names.usual, double.seen) == (None, [])
