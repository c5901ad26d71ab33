"""The documentation says what the code does."""

import importlib.util
import re
from datetime import UTC, datetime
from enum import StrEnum
from types import ModuleType

import pytest

from hooks.contract import (
    BlockFormat,
    Engine,
    InjectionRequest,
    InjectionResult,
    Mode,
    Outcome,
    Reason,
    Retention,
    WireModel,
)
from hooks.contract.usage import AnswerReport, AnswerReportResult
from tests.support.paths import ROOT
from worker.cli.memory.receipts import WHY
from worker.domain.kinds import ReceiptKeep
from worker.domain.memory import CandidateVerdict, Memory, MemoryType
from worker.domain.receipt import Receipt
from worker.receipts.case_models import Labels
from worker.receipts.cases import case_of
from worker.settings.injection import InjectionConfig
from worker.triage.prompt_files import default_prompts_dir, load_prompts

PROMPT_PAGES = {"usage": "feedback.md", "capture": "capture.md"}
DOCS = ROOT / "docs"


def generator() -> ModuleType:
    spec = importlib.util.spec_from_file_location("generate", DOCS / "generate.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def page(name: str) -> str:
    return (DOCS / name).read_text(encoding="utf-8")


@pytest.mark.parametrize("name", ["settings.md", "commands.md", "openapi.json"])
def test_generated_page_is_up_to_date(name: str) -> None:
    assert page(name) == generator().PAGES[name](), "run python docs/generate.py"


def test_every_heading_of_the_settings_begins_with_a_key() -> None:
    assert set(generator().SECTIONS) | set(generator().REQUEST_FIELDS) <= set(InjectionConfig.model_fields)


@pytest.mark.parametrize("enum", [Outcome, Reason, Engine, Mode, Retention, BlockFormat])
def test_every_word_of_the_contract_is_explained(enum: type[StrEnum]) -> None:
    missing = [member.value for member in enum if f"`{member.value}`" not in page("hook.md")]
    assert not missing


@pytest.mark.parametrize("model", [InjectionRequest, InjectionResult])
def test_every_field_of_the_contract_is_explained(model: type[InjectionRequest]) -> None:
    documented = page("hook.md")
    missing = [name for name in model.model_fields if f"`{name}`" not in documented]
    assert not missing


def test_every_field_and_type_of_a_memory_is_explained() -> None:
    names = [*Memory.model_fields, *(kind.value for kind in MemoryType)]
    assert not [name for name in names if f"`{name}`" not in page("memories.md")]


def test_every_prompt_variable_is_explained() -> None:
    for prompt in load_prompts(default_prompts_dir()).values():
        documented = page(PROMPT_PAGES.get(prompt.id, "triage.md"))
        assert not [name for name in prompt.variables if f"`{{{{{name}}}}}`" not in documented]


def test_every_verdict_is_explained() -> None:
    assert not [verdict for verdict in CandidateVerdict if f"`{verdict}`" not in page("receipts.md")]
    assert set(WHY) == set(CandidateVerdict)


@pytest.mark.parametrize("model", [AnswerReport, AnswerReportResult])
def test_every_field_of_a_report_is_explained(model: type[WireModel]) -> None:
    names = set(model.model_fields) - {"schema_version"}
    assert not [name for name in names if f"`{name}`" not in page("feedback.md")]


def test_every_field_of_a_case_is_explained() -> None:
    request = InjectionRequest(session_id="s", message="m")
    at = datetime(2026, 1, 1, tzinfo=UTC)
    receipt = Receipt(id="r", at=at, request=request, outcome=Outcome.INJECTED)
    case = case_of(receipt, [], Labels())
    assert not [name for name in case.task if f"`{name}`" not in page("receipts.md")]


def test_what_receipts_may_keep_is_explained() -> None:
    assert not [keep for keep in ReceiptKeep if f"`{keep}`" not in page("receipts.md")]


def test_every_variable_of_the_environment_is_explained() -> None:
    sources = [*(ROOT / "worker").rglob("*.py"), *(ROOT / "hooks").rglob("*.py")]
    used = {name for source in sources for name in re.findall(r"\bMEESEEKS_[A-Z_]+\b", source.read_text("utf-8"))}
    documented = "".join(path.read_text("utf-8") for path in [ROOT / "README.md", *DOCS.glob("*.md")])
    assert not {name for name in used if name not in documented}


def test_an_expression_is_not_shown_as_a_list_of_values() -> None:
    """The ids of prompts match an expression with `|` in it."""
    (row,) = re.findall(r"^\| `prompt` \|.*$", page("settings.md"), re.MULTILINE)
    assert row.startswith("| `prompt` | `triage` | string | ")
