"""What is known of a model before it is asked: what it can do, where it is, and how far its judgement is trusted.

A profile says what the settings say; what they leave open follows from the model's name. Pure.
"""

import re
from dataclasses import dataclass
from enum import StrEnum

from pydantic import BaseModel, ConfigDict, Field

SMALL_BILLIONS = 2.0
"""Parameters, in billions, up to which a general model orders candidates worse than the search does."""

USUAL_CONTEXT = 8192
USUAL_QUESTIONS = 64


class ModelKind(StrEnum):
    """How a model is asked: with messages, or with yes/no questions about a state."""

    CHAT = "chat"
    DECISION = "decision"


class SchemaKind(StrEnum):
    """How a model can be held to a shape: a JSON schema, one string with a pattern (llama.cpp), or not at all."""

    JSON_SCHEMA = "json_schema"
    PATTERN = "pattern"
    NONE = "none"


class ModelProfile(BaseModel):
    """One `[[service.models]]` table; what is unset is known from the name."""

    model_config = ConfigDict(frozen=True, extra="forbid", protected_namespaces=())

    name: str = Field(min_length=1, description="The model in litellm's notation, as `model` and `models` name it.")
    kind: ModelKind | None = Field(
        default=None, description="chat or decision; unset: decision for the decision models that are known by name."
    )
    api_base: str | None = Field(default=None, description="Base address of its server; unset: `model_api_base`.")
    api_key_variable: str | None = Field(
        default=None, description="Variable of the environment that holds its key; unset: `model_api_key`."
    )
    context: int | None = Field(
        default=None, ge=1024, description="Tokens that its context holds; unset: `model_context`."
    )
    concurrent: int = Field(default=8, ge=1, le=1000, description="Calls that run at a time; others wait their turn.")
    tools: bool | None = Field(default=None, description="Whether it takes tools; without, it never searches itself.")
    output: SchemaKind | None = Field(
        default=None, description="How it is held to an answer's shape: json_schema, pattern (llama.cpp) or none."
    )
    stream: bool = Field(
        default=False, description="Whether answers are streamed, so that what has arrived at the deadline counts."
    )
    may_only_veto: bool | None = Field(
        default=None,
        description="Whether the search's order is kept, not its own; unset: for names of up to 2 billion parameters.",
    )
    threshold: float | None = Field(
        default=None,
        ge=0.0,
        le=1.0,
        description="Decision models: probability from which a memory is kept; unset: the fitted one, else 0.5.",
    )
    questions: int | None = Field(
        default=None, ge=1, le=128, description="Decision models: most questions of one request; unset: 64."
    )


@dataclass(frozen=True, slots=True)
class ModelAbilities:
    """What may be asked of a model."""

    tools: bool = True
    output: SchemaKind = SchemaKind.JSON_SCHEMA
    may_only_veto: bool = False


_DECISION = re.compile(r"(?:^|[/_-])(?:tev1|nimble|clef|jev|winnow)(?:[-:_.].*)?$", re.IGNORECASE)
_SIZE = re.compile(r"(?<![a-z0-9.])(?:e)?(\d+(?:\.\d+)?)\s?([bm])(?![a-z])", re.IGNORECASE)


def kind_of(profile: ModelProfile) -> ModelKind:
    """The kind that the settings say, else the one that the name does."""
    known = ModelKind.DECISION if _DECISION.search(profile.name) else ModelKind.CHAT
    return profile.kind or known


def billions(name: str) -> float | None:
    """Parameters that a name says, in billions: `qwen3:1.7b` 1.7, `smollm2-135m` 0.135; `None` where it does not."""
    found = _SIZE.findall(name)
    if not found:
        return None
    number, unit = found[-1]
    return float(number) / (1000.0 if unit.lower() == "m" else 1.0)


def only_vetoes(profile: ModelProfile) -> bool:
    """Whether the model may only leave out: what the settings say, else by its size."""
    if profile.may_only_veto is not None:
        return profile.may_only_veto
    size = billions(profile.name)
    return size is not None and size <= SMALL_BILLIONS
