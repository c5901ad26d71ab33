"""The page about who chooses says what the code does."""

from enum import StrEnum

import pytest

from hooks.contract import Mode, Reason
from tests.support.paths import ROOT
from worker.domain.model_profile import ModelProfile, SchemaKind
from worker.settings.injection import Strategy
from worker.settings.selection import TriageSettings
from worker.triage.prompt_files import default_prompts_dir, load_prompts

DOCS = ROOT / "docs"
PAGE = (DOCS / "triage.md").read_text(encoding="utf-8")
SETTINGS = (DOCS / "settings.md").read_text(encoding="utf-8")

OWN = ("strategy", "models", "max_recalls")


@pytest.mark.parametrize("enum", [Strategy, SchemaKind, Mode])
def test_every_word_of_its_settings_is_explained(enum: type[StrEnum]) -> None:
    assert not [member.value for member in enum if f"`{member.value}`" not in PAGE]


def test_every_setting_of_it_is_named() -> None:
    assert set(OWN) <= set(TriageSettings.model_fields)
    assert not [name for name in OWN if f"`{name}" not in PAGE]


def test_every_reason_of_a_model_is_explained() -> None:
    reasons = [reason.value for reason in Reason if reason.value.startswith("model_")]
    assert not [reason for reason in reasons if f"| `{reason}` |" not in PAGE]


def test_every_key_of_a_model_s_table_is_in_the_settings() -> None:
    table = SETTINGS.partition("## `[[service.models]]`")[2]
    assert not [name for name in ModelProfile.model_fields if f"| `{name}` |" not in table]


def test_the_sections_that_are_named_are_those_of_the_prompts() -> None:
    prompts = load_prompts(default_prompts_dir())
    assert "state" in prompts["decision"].sections
