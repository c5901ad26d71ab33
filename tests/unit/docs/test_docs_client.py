"""The pages about the client and about automations name everything that there is."""

import inspect
import re
from enum import StrEnum

import pytest

import hooks
from hooks import MeeseeksClient, faults
from hooks.automations import (
    Automation,
    AutomationRun,
    AutomationStatus,
    HookOutcome,
    HookPoint,
    Kind,
    Lifetime,
    RunStatus,
)
from hooks.automations.outcome import DEEPEST
from hooks.automations.programs import printed_by
from hooks.automations.scripts import MAX_OUTPUT_BYTES, PASSED_ON, STDERR_BYTES
from hooks.contract import WireModel
from hooks.contract.memories import ForgetResult, RecallRequest, RecallResult, RememberResult
from hooks.http.client import FAILURES, PAUSE
from hooks.http.service import DEFAULT_URL, SHORT_PAUSE
from hooks.queue.guarded import FAILURES as REDIS_FAILURES
from tests.support.examples import DOCS

CLIENT = (DOCS / "client.md").read_text(encoding="utf-8")
AUTOMATIONS = (DOCS / "automations.md").read_text(encoding="utf-8")


def missing(names: list[str], page: str) -> list[str]:
    return [name for name in names if not re.search(rf"`[^`\n]*\b{re.escape(name)}\b[^`\n]*`", page)]


@pytest.mark.parametrize("enum", [HookPoint, Kind, Lifetime, AutomationStatus, RunStatus])
def test_every_word_of_automations_is_explained(enum: type[StrEnum]) -> None:
    assert missing([member.value for member in enum], AUTOMATIONS) == []


@pytest.mark.parametrize("kind", [Automation, AutomationRun])
def test_every_field_of_automations_is_explained(kind: type[Automation]) -> None:
    assert missing(list(kind.__dataclass_fields__), AUTOMATIONS) == []


def test_what_an_outcome_has_is_explained() -> None:
    names = set(HookOutcome.__dataclass_fields__) - {"hook_point", "elapsed_ms"}
    assert missing([*names, "prefix"], AUTOMATIONS) == []


def test_the_environment_and_the_limits_of_scripts_are_explained() -> None:
    own = re.findall(r"MEESEEKS_[A-Z_]+", inspect.getsource(printed_by))
    assert len(own) == 4
    assert missing([*PASSED_ON, *own], AUTOMATIONS) == []
    assert f"{MAX_OUTPUT_BYTES >> 20} MiB" in AUTOMATIONS
    assert f"{STDERR_BYTES >> 10} KiB" in AUTOMATIONS
    assert f"{DEEPEST} levels" in AUTOMATIONS


def test_every_call_and_class_of_the_client_is_explained() -> None:
    calls = [name for name in vars(MeeseeksClient) if not name.startswith("_")]
    classes = [name for name in hooks.__all__ if name.endswith(("Client", "Hook"))]
    assert missing([*(set(calls) - {"aclose"}), *classes, "find_blocks", "strip", DEFAULT_URL], CLIENT) == []


@pytest.mark.parametrize("model", [RecallRequest, RecallResult, RememberResult, ForgetResult])
def test_every_field_of_the_client_is_explained(model: type[WireModel]) -> None:
    assert missing([name for name in model.model_fields if name not in ("query", "without_vector")], CLIENT) == []


def test_every_error_of_the_client_is_named() -> None:
    errors = [
        name for name, kind in vars(faults).items() if isinstance(kind, type) and issubclass(kind, faults.ClientError)
    ]
    assert len(errors) == 6
    assert [name for name in errors if name not in CLIENT] == []


def test_the_numbers_of_the_breakers_are_those_that_are_told() -> None:
    assert (FAILURES, REDIS_FAILURES, PAUSE) == (3, 3, 5.0)
    assert "After three calls in a row" in CLIENT
    assert SHORT_PAUSE == 0.5
    assert "five seconds, or for half a second" in " ".join(CLIENT.split())
