"""The client's models match the published schema of the HTTP API."""

import json
from typing import Any

import pytest
from pydantic import BaseModel

from hooks.contract import InjectionRequest, InjectionResult, SessionEvent, SessionEventResult
from hooks.contract.memories import ForgetResult, RecalledMemory, RecallRequest, RecallResult, RememberResult
from hooks.contract.usage import AnswerReport, AnswerReportResult
from tests.support.examples import DOCS

SCHEMA: dict[str, Any] = json.loads((DOCS / "openapi.json").read_text(encoding="utf-8"))

LEFT_OUT = {"stages", "size", "keyword_unit", "legs"}
"""Response fields for debugging that the client does not read."""


def resolved(schema: dict[str, Any]) -> dict[str, Any]:
    name = schema.get("$ref", "").rpartition("/")[2]
    found: dict[str, Any] = SCHEMA["components"]["schemas"][name] if name else schema
    return found


def body_of(path: str, method: str) -> dict[str, Any]:
    return resolved(SCHEMA["paths"][path][method]["requestBody"]["content"]["application/json"]["schema"])


def answer_of(path: str, method: str) -> dict[str, Any]:
    return resolved(SCHEMA["paths"][path][method]["responses"]["200"]["content"]["application/json"]["schema"])


def kinds(schema: dict[str, Any]) -> set[str]:
    """Return the JSON types of a schema; for an enum, those of its values."""
    schema = resolved(schema)
    if "anyOf" in schema:
        return set().union(*(kinds(part) for part in schema["anyOf"]))
    return {schema.get("type", "object")}


def local_kinds(model: type[BaseModel], name: str) -> set[str]:
    schema = model.model_json_schema()

    def look(part: dict[str, Any]) -> set[str]:
        if "$ref" in part:
            part = schema["$defs"][part["$ref"].rpartition("/")[2]]
        if "anyOf" in part:
            return set().union(*(look(inner) for inner in part["anyOf"]))
        return {part.get("type", "object")}

    return look(schema["properties"][name])


@pytest.mark.parametrize(
    ("model", "path"),
    [
        (InjectionRequest, "/v1/inject"),
        (RecallRequest, "/v1/recall"),
        (SessionEvent, "/v1/sessions/{session_id}/events"),
        (AnswerReport, "/v1/answers"),
    ],
)
def test_requests_match_the_schema(model: type[BaseModel], path: str) -> None:
    taken = body_of(path, "post")["properties"]
    sent = set(model.model_fields) - ({"session_id"} if model is SessionEvent else set())
    assert sent <= set(taken)
    assert [name for name in sent if not local_kinds(model, name) & kinds(taken[name]) - {"null"}] == []


@pytest.mark.parametrize(
    ("model", "path", "method"),
    [
        (InjectionResult, "/v1/inject", "post"),
        (SessionEventResult, "/v1/sessions/{session_id}/events", "post"),
        (AnswerReportResult, "/v1/answers", "post"),
        (RecallResult, "/v1/recall", "post"),
        (RememberResult, "/v1/memories", "post"),
        (ForgetResult, "/v1/memories/{memory_id}", "delete"),
    ],
)
def test_responses_match_the_schema(model: type[BaseModel], path: str, method: str) -> None:
    answered = answer_of(path, method)["properties"]
    assert set(answered) - LEFT_OUT <= set(model.model_fields)
    read = set(answered) & set(model.model_fields)
    assert [name for name in read if not kinds(answered[name]) <= local_kinds(model, name) | {"null"}] == []


def test_every_field_of_a_recalled_memory_is_read() -> None:
    fields = SCHEMA["components"]["schemas"]["FoundMemory"]["properties"]
    assert set(fields) - LEFT_OUT == set(RecalledMemory.model_fields)
    assert [
        name for name in RecalledMemory.model_fields if not kinds(fields[name]) <= local_kinds(RecalledMemory, name)
    ] == []


def test_memories_match_the_schema() -> None:
    body = body_of("/v1/memories", "post")
    assert set(body["properties"]) == {"tenant", "memory", "again"}
    assert "content" in resolved(body["properties"]["memory"])["properties"]
