"""Model profiles: a model's abilities, server and limits, from the settings or guessed from its name."""

import re
from dataclasses import dataclass
from enum import StrEnum

from pydantic import BaseModel, ConfigDict, Field

SMALL_BILLIONS = 2.0
"""Billions of parameters up to which a general model ranks candidates worse than the search does."""

USUAL_CONTEXT = 8192
USUAL_QUESTIONS = 64


class ModelKind(StrEnum):
    """How to ask a model: with messages, or with yes/no questions about a state."""

    CHAT = "chat"
    DECISION = "decision"


class SchemaKind(StrEnum):
    """How to constrain a model's output: a JSON schema, one string with a pattern (llama.cpp), or not at all."""

    JSON_SCHEMA = "json_schema"
    PATTERN = "pattern"
    NONE = "none"


class ModelProfile(BaseModel):
    """One `[[service.models]]` table; unset values are guessed from the name."""

    model_config = ConfigDict(frozen=True, extra="forbid", protected_namespaces=())

    name: str = Field(min_length=1, description="Model name in LiteLLM's notation, as in `model` and `models`.")
    kind: ModelKind | None = Field(
        default=None, description="chat or decision; unset: decision for known decision models, else chat."
    )
    api_base: str | None = Field(default=None, description="Base URL of its server; unset: `model_api_base`.")
    api_key_variable: str | None = Field(
        default=None, description="Environment variable with its API key; unset: `model_api_key`."
    )
    context: int | None = Field(default=None, ge=1024, description="Context window in tokens; unset: `model_context`.")
    concurrent: int = Field(default=8, ge=1, le=1000, description="Maximum concurrent calls; others wait.")
    tools: bool | None = Field(default=None, description="Whether it supports tools, to search itself.")
    output: SchemaKind | None = Field(
        default=None, description="How to constrain its output: json_schema, pattern (llama.cpp) or none."
    )
    stream: bool = Field(
        default=False, description="Whether to stream answers, so that a partial answer counts at the deadline."
    )
    may_only_veto: bool | None = Field(
        default=None,
        description="Whether to keep the search's order; unset: if its name says up to 2 billion parameters.",
    )
    threshold: float | None = Field(
        default=None,
        ge=0.0,
        le=1.0,
        description="Decision models: minimum probability to keep a memory; unset: the fitted one, else 0.5.",
    )
    questions: int | None = Field(
        default=None, ge=1, le=128, description="Decision models: maximum questions per request; unset: 64."
    )


@dataclass(frozen=True, slots=True)
class ModelAbilities:
    """What a model supports."""

    tools: bool = True
    output: SchemaKind = SchemaKind.JSON_SCHEMA
    may_only_veto: bool = False


_DECISION = re.compile(r"(?:^|[/_-])(?:tev1|nimble|clef|jev|winnow)(?:[-:_.].*)?$", re.IGNORECASE)
_SIZE = re.compile(r"(?<![a-z0-9.])(?:e)?(\d+(?:\.\d+)?)\s?([bm])(?![a-z])", re.IGNORECASE)


def kind_of(profile: ModelProfile) -> ModelKind:
    """Return the configured kind, else the one its name suggests."""
    known = ModelKind.DECISION if _DECISION.search(profile.name) else ModelKind.CHAT
    return profile.kind or known


def billions(name: str) -> float | None:
    """Return the billions of parameters in a name (`qwen3:1.7b` 1.7, `smollm2-135m` 0.135), `None` if it has none."""
    found = _SIZE.findall(name)
    if not found:
        return None
    number, unit = found[-1]
    return float(number) / (1000.0 if unit.lower() == "m" else 1.0)


def only_vetoes(profile: ModelProfile) -> bool:
    """Return whether the model may only drop candidates: as configured, else by its size."""
    if profile.may_only_veto is not None:
        return profile.may_only_veto
    size = billions(profile.name)
    return size is not None and size <= SMALL_BILLIONS


@dataclass(frozen=True, slots=True)
class ModelState:
    """State of a model: consecutive failures, the last reason, and the seconds until the breaker's next try.

    `paused_s` is `None` if the model is not paused, and 0 if the next request tries it again. `loading` is true until
    the model is open and warm.
    """

    name: str
    failures: int
    last: str | None
    paused_s: float | None
    loading: bool = False
