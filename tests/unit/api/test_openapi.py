"""The OpenAPI document is committed, complete and backwards compatible."""

import copy
import json
from collections.abc import Callable
from typing import Any

import pytest

from tests.support.api_compatibility import breaking_changes
from tests.support.paths import ROOT
from worker.api.app import REFUSALS, document

DOCS = ROOT / "docs"
HOW = "breaking change; add fields or endpoints instead"

Change = Callable[[dict[str, Any]], None]


@pytest.fixture(scope="module")
def current() -> dict[str, Any]:
    return document()


def operations(described: dict[str, Any]) -> list[tuple[str, str, dict[str, Any]]]:
    return [
        (method, path, operation)
        for path, methods in described["paths"].items()
        for method, operation in methods.items()
    ]


def test_the_api_is_compatible_with_the_last_release(current: dict[str, Any]) -> None:
    released = json.loads((DOCS / "openapi-released.json").read_text(encoding="utf-8"))
    assert breaking_changes(released, current) == [], HOW


def test_the_committed_document_is_up_to_date(current: dict[str, Any]) -> None:
    assert json.loads((DOCS / "openapi.json").read_text(encoding="utf-8")) == current, "run python docs/generate.py"


def test_every_endpoint_is_described_with_its_errors(current: dict[str, Any]) -> None:
    names = [operation["operationId"] for _, _, operation in operations(current)]
    assert len(names) == len(set(names))
    for method, path, operation in operations(current):
        assert operation["description"].strip(), (method, path)
        assert set(REFUSALS) <= set(operation["responses"]), (method, path)
        needs_none = path in {"/healthz", "/readyz"}
        assert operation["security"] == ([] if needs_none else [{"token": []}]), (method, path)


def test_every_reference_resolves(current: dict[str, Any]) -> None:
    text = json.dumps(current)
    for part in text.split('"$ref": "#/')[1:]:
        found: Any = current
        for step in part.partition('"')[0].split("/"):
            found = found[step]
        assert found


def test_the_same_document_is_compatible(current: dict[str, Any]) -> None:
    assert breaking_changes(current, copy.deepcopy(current)) == []


def schema(name: str) -> Callable[[dict[str, Any]], dict[str, Any]]:
    return lambda described: described["components"]["schemas"][name]


def drop_property(name: str, field: str) -> Change:
    return lambda described: schema(name)(described)["properties"].pop(field)


def require(name: str, field: str) -> Change:
    return lambda described: schema(name)(described).setdefault("required", []).append(field)


def set_field(name: str, field: str, **values: Any) -> Change:
    return lambda described: schema(name)(described)["properties"][field].update(values)


def drop_operation(path: str, method: str) -> Change:
    return lambda described: described["paths"][path].pop(method)


def no_longer_required(described: dict[str, Any]) -> None:
    schema("MemoryPage")(described)["required"].remove("memories")


def parameter_required(described: dict[str, Any]) -> None:
    described["paths"]["/v1/memories"]["get"]["parameters"][0]["required"] = True


def parameter_gone(described: dict[str, Any]) -> None:
    described["paths"]["/v1/memories"]["get"]["parameters"].pop(0)


def fewer_kinds(described: dict[str, Any]) -> None:
    schema("MemoryType")(described)["enum"].remove("todo")


def response_null(described: dict[str, Any]) -> None:
    schema("RememberResult")(described)["properties"]["id"] = {"anyOf": [{"type": "string"}, {"type": "null"}]}


def request_without_null(described: dict[str, Any]) -> None:
    schema("NewMemory")(described)["properties"]["source"] = {"type": "string"}


def token_needed(described: dict[str, Any]) -> None:
    described["paths"]["/healthz"]["get"]["security"] = [{"token": []}]


def closed(described: dict[str, Any]) -> None:
    schema("InjectionRequest")(described)["additionalProperties"] = False


def answer_of_another_type(described: dict[str, Any]) -> None:
    content = described["paths"]["/v1/recall"]["post"]["responses"]["200"]["content"]
    content["text/plain"] = content.pop("application/json")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (drop_operation("/v1/recall", "post"), "POST /v1/recall: gone"),
        (drop_property("InjectionResult", "text"), "POST /v1/inject 200.text: gone"),
        (drop_property("NewMemory", "source"), "POST /v1/memories body.memory.source: gone"),
        (require("InjectionRequest", "source"), "POST /v1/inject body.source: required now"),
        (no_longer_required, "GET /v1/memories 200.memories: may be missing now"),
        (parameter_required, "required now"),
        (parameter_gone, "GET /v1/memories query tenant: gone"),
        (set_field("InjectionRequest", "deadline_ms", maximum=1000), "body.deadline_ms: maximum is 1000 now"),
        (set_field("InjectionRequest", "deadline_ms", exclusiveMinimum=5), "exclusiveMinimum is 5 now"),
        (set_field("InjectionRequest", "message", maxLength=10), "body.message: maxLength is 10 now"),
        (set_field("InjectionRequest", "message", type="integer"), "body.message: string is integer now"),
        (set_field("RememberResult", "stored", type="integer"), "string is integer now"),
        (fewer_kinds, "todo refused now"),
        (response_null, "POST /v1/memories 200.id: null is new"),
        (request_without_null, "body.memory.source: null is refused now"),
        (token_needed, "GET /healthz: needs a token now"),
        (closed, "POST /v1/inject body: unknown names are refused now"),
        (answer_of_another_type, "POST /v1/recall 200 application/json: gone"),
    ],
)
def test_breaking_changes_are_found(current: dict[str, Any], change: Change, message: str) -> None:
    after = copy.deepcopy(current)
    change(after)
    assert any(message in line for line in breaking_changes(current, after)), breaking_changes(current, after)


def more_kinds(described: dict[str, Any]) -> None:
    schema("MemoryType")(described)["enum"].append("dream")


def new_operation(described: dict[str, Any]) -> None:
    described["paths"]["/v1/dreams"] = described["paths"]["/v1/recall"]


def new_optional_parameter(described: dict[str, Any]) -> None:
    parameter = {"in": "query", "name": "mood", "required": False, "schema": {"type": "string"}}
    described["paths"]["/v1/recall"]["post"]["parameters"].append(parameter)


def wider_number(described: dict[str, Any]) -> None:
    schema("SessionEventBody")(described)["properties"]["deadline_ms"]["type"] = "number"


def null_taken(described: dict[str, Any]) -> None:
    schema("NewMemory")(described)["properties"]["content"] = {"anyOf": [{"type": "string"}, {"type": "null"}]}


@pytest.mark.parametrize(
    "change",
    [
        more_kinds,
        new_operation,
        new_optional_parameter,
        wider_number,
        null_taken,
        set_field("InjectionRequest", "deadline_ms", maximum=10**6),
        lambda described: schema("InjectionResult")(described)["properties"].update(mood={"type": "string"}),
        lambda described: schema("InjectionRequest")(described)["properties"].update(mood={"type": "string"}),
        lambda described: schema("RecallRequest")(described)["required"].clear(),
    ],
)
def test_additions_are_compatible(current: dict[str, Any], change: Change) -> None:
    after = copy.deepcopy(current)
    change(after)
    assert after != current
    assert breaking_changes(current, after) == []


def test_a_recursive_schema_is_supported() -> None:
    tree = {"type": "object", "properties": {"below": {"$ref": "#/components/schemas/Tree"}}}
    content = {"application/json": {"schema": {"$ref": "#/components/schemas/Tree"}}}
    described = {
        "paths": {"/tree": {"get": {"responses": {"200": {"content": content}}}}},
        "components": {"schemas": {"Tree": tree}},
    }
    assert breaking_changes(described, described) == []
