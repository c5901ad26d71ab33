"""How memories are searched for: the first settings of `[memory_injection]`, each for all agents or for one."""

import re
from enum import StrEnum
from typing import Annotated

from pydantic import AfterValidator, Field

from hooks.contract import Mode
from worker.domain.kinds import Budget, Language, SortKey
from worker.domain.memory import MemoryType

from .service import SettingsModel


class Enrichment(StrEnum):
    """When a query takes in earlier turns: for messages that need them, never, or for every message."""

    ON = "on"
    OFF = "off"
    ALWAYS = "always"


def _compiles(pattern: str) -> str:
    try:
        re.compile(pattern)
    except re.error as error:
        raise ValueError(f"{pattern!r} is not a regular expression: {error}") from error
    return pattern


Pattern = Annotated[str, AfterValidator(_compiles)]
"""A regular expression of Python's `re`."""


class SearchSettings(SettingsModel):
    """When memories are injected, and how they are found."""

    enabled: bool = Field(default=True, description="Inject memories at all.")
    mode: Mode = Field(
        default=Mode.ALWAYS,
        description="When the model is asked: always, escalate, deterministic or off (off injects nothing).",
    )
    skip_sources: tuple[str, ...] = Field(
        default=("retrigger", "heartbeat"), description="Sources of a request that never get memory."
    )
    languages: tuple[Language, ...] = Field(
        default=tuple(Language),
        description="Languages in which greetings, acknowledgements, follow-ups and times are understood.",
    )
    skip_small_talk: bool = Field(
        default=True, description="Search nothing for greetings, acknowledgements and messages without a word."
    )
    skip_patterns: tuple[Pattern, ...] = Field(
        default=(
            r"(?i)\s*(heartbeat|ping|\[session (started|resumed|ended)\]|keep-?alive)[.!]?\s*",
            r"(?i)\s*\S+ (joined|left) (the )?(channel|room|server|group)[.!]?\s*",
            r"(?i)\s*\S+ reacted with \S+ to (your|a) message[.!]?\s*",
        ),
        description="Regular expressions; a message that one of them matches as a whole is not searched with.",
    )
    force_patterns: tuple[Pattern, ...] = Field(
        default=(),
        description="Regular expressions; a message in which one of them is found is searched with, whatever its "
        "source and its wording.",
    )
    shared_users: tuple[str, ...] = Field(
        default=(), description="Owners whose memories everybody of the tenant may see."
    )
    deadline_ms: int = Field(
        default=3000,
        gt=0,
        le=60_000,
        description="Most milliseconds an answer may take, whatever the caller allows.",
    )

    search_limit: int = Field(default=30, ge=1, le=200, description="Most memories each leg of a search brings.")
    pool_limit: int = Field(
        default=30, ge=1, le=200, description="Most candidates of a recall, once repeats are out; the best of all legs."
    )
    recall_budget: Budget = Field(
        default=Budget.MID,
        description="Legs of a recall: low (the message alone), mid, or high (also each part of the message).",
    )
    recall_history: bool = Field(
        default=True, description="For a message about the past, bring what was superseded since, too."
    )
    contextual_min_score: float | None = Field(
        default=None,
        ge=-1.0,
        le=1.0,
        description="Cosine under which a memory is not a candidate; unset takes the embedder's measured floor.",
    )
    recall_min_score: float | None = Field(
        default=None,
        ge=-1.0,
        le=1.0,
        description="Cosine that the best candidate must reach for any to count, unless a keyword score reaches "
        "keyword_min_score; unset takes the embedder's measured gate.",
    )
    keyword_min_score: float | None = Field(
        default=None,
        ge=0.0,
        description="Keyword score, in units of the logarithm of the store's size (about one rare word each), from "
        "which a memory counts whatever its cosine; unset takes the embedder's.",
    )
    dense_weight: float = Field(
        default=0.6, ge=0.0, le=1.0, description="Share of the dense leg in the weighted fusion."
    )
    importance_weight: float = Field(
        default=0.3, ge=0.0, le=1.0, description="What full importance adds to the order of candidates."
    )
    recency_weight: float = Field(
        default=0.02, ge=0.0, le=1.0, description="What being new adds to the order of candidates."
    )
    recency_half_life_days: float = Field(
        default=90.0, gt=0.0, description="Age in days at which half of what being new adds is left."
    )
    channel_weight: float = Field(
        default=0.06, ge=0.0, le=1.0, description="What having been said in the request's channel adds to the order."
    )
    dated_weight: float = Field(
        default=0.1, ge=0.0, le=1.0, description="What being of the time that the message speaks of adds to the order."
    )
    graph_limit: int = Field(
        default=20, ge=0, le=200, description="Most memories that links and shared names bring; 0 follows none."
    )
    graph_seed_threshold: float = Field(
        default=0.8, ge=0.0, le=1.0, description="Importance from which a memory's neighbours are looked at."
    )
    graph_seed_limit: int = Field(
        default=20, ge=0, le=200, description="Most memories whose neighbours are looked at for their importance."
    )
    relation_weight: float = Field(
        default=0.3, ge=0.0, le=1.0, description="What a link to a memory of full relevance adds to the order."
    )
    entity_weight: float = Field(
        default=0.15, ge=0.0, le=1.0, description="What names shared with relevant memories add to the order at most."
    )
    ambient_enabled: bool = Field(
        default=False, description="Bring memories of the pinned types whatever the message is about."
    )
    pinned_types: tuple[MemoryType, ...] = Field(default=(), description="Types of memories that are always brought.")
    pinned_limit: int = Field(default=3, ge=1, le=50, description="Most memories per pinned type.")
    pinned_sort: SortKey = Field(
        default=SortKey.RECENT, description="Which of a pinned type come first: recent or importance."
    )
    query_max_chars: int = Field(
        default=2000,
        ge=50,
        le=20_000,
        description="Most characters that are searched with; the questions, the beginning and the end are kept.",
    )
    strip_patterns: tuple[Pattern, ...] = Field(
        default=(
            (
                r"(?im)^(?:[^\n`]{0,60}\b(?:details|metadata|info|context|trusted)\b[^\n`]{0,20}:[ \t]*\n)?```json\n"
                r"(?=[^`]{0,4000}\"(?:message_?id|sender|chat_?id|conversation_?(?:id|label))\")[^`]{0,4000}\n"
                r"```[ \t]*$"
            ),
            r"(?m)^\[(?:[A-Z][a-z]{2} )?\d{4}-\d{2}-\d{2}[ T]\d{2}:\d{2}[^\]\n]{0,20}\][ \t]*",
            r"(?im)^(?:sender|channel|chat|room|message[ _-]?id|timestamp|conversation)[ \t]?:[ \t][^\n]{0,200}$",
            r"(?s)<system-reminder>(?:(?!<system-reminder>).){0,8000}?</system-reminder>",
        ),
        description="Regular expressions of what a host wraps around a message; left out of the query, never out of "
        "the message itself.",
    )
    query_enrichment: Enrichment = Field(
        default=Enrichment.ON,
        description="Earlier turns in the query: on (for a message that says too little by itself), off, or always.",
    )
    query_task: bool = Field(
        default=True, description="Search with the task description, too, where it says more than the message."
    )
    query_context_chars: int = Field(
        default=400, ge=50, le=4000, description="Most characters of earlier turns that a query takes in."
    )
