"""Model profiles from names and settings."""

import pytest

from worker.domain.model_profile import ModelKind, ModelProfile, billions, kind_of, only_vetoes
from worker.settings.injection import Settings
from worker.settings.service import ServiceSettings


@pytest.mark.parametrize(
    ("name", "size"),
    [
        ("ollama_chat/qwen3:1.7b", 1.7),
        ("ollama_chat/qwen3:4b", 4.0),
        ("openai/smollm2-135m", 0.135),
        ("ollama_chat/gemma3n:e4b", 4.0),
        ("openai/Qwen2.5-0.5B-Instruct", 0.5),
        ("ollama_chat/qwen3:30b-a3b", 30.0),
        ("openai/gpt-5.4-nano", None),
        ("anthropic/claude-haiku-4.5", None),
        ("openai/o4-mini", None),
        ("gemini/gemini-2.5-flash-lite", None),
    ],
)
def test_a_size_is_read_from_the_name(name: str, size: float | None) -> None:
    assert billions(name) == size


@pytest.mark.parametrize(
    ("name", "vetoes"),
    [("ollama_chat/qwen3:1.7b", True), ("ollama_chat/qwen3:4b", False), ("openai/gpt-5.4-nano", False)],
)
def test_small_models_may_only_veto_unless_the_settings_say_otherwise(name: str, vetoes: bool) -> None:
    assert only_vetoes(ModelProfile(name=name)) is vetoes
    assert only_vetoes(ModelProfile(name=name, may_only_veto=not vetoes)) is not vetoes


@pytest.mark.parametrize("name", ["ollama/tev1:0.8b", "ollama/nimble", "ollama/clef-flash", "typesafe/jev-1"])
def test_decision_models_are_known_by_name(name: str) -> None:
    assert kind_of(ModelProfile(name=name)) is ModelKind.DECISION
    assert kind_of(ModelProfile(name=name, kind=ModelKind.CHAT)) is ModelKind.CHAT


@pytest.mark.parametrize("name", ["ollama_chat/qwen3:4b", "openai/nimbleness", "openai/gpt-5.4-nano"])
def test_other_models_chat(name: str) -> None:
    assert kind_of(ModelProfile(name=name)) is ModelKind.CHAT


def test_tables_of_models_come_from_the_file_and_as_json_from_a_variable() -> None:
    settings = Settings.load({"MEESEEKS_MODELS": '[{"name":"openai/x","output":"pattern"}]'})
    assert settings.service.profile("openai/x").output == "pattern"
    assert settings.service.profile("openai/y") == ModelProfile(name="openai/y")


def test_two_tables_for_one_model_are_refused() -> None:
    with pytest.raises(ValueError, match="two tables have the name 'a'"):
        ServiceSettings(models=(ModelProfile(name="a"), ModelProfile(name="a")))
