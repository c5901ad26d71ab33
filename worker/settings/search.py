"""Settings of `[memory_injection]` for searching memories."""

from enum import StrEnum
from typing import Annotated

from pydantic import AfterValidator, Field

from hooks.contract import Mode
from worker.domain.kinds import Budget, ChannelMemories, Language, SortKey
from worker.domain.memory import MemoryType
from worker.domain.patterns import bounded_pattern
from worker.domain.zones import DEFAULT_ZONE, ZoneName

from .service import SettingsModel

PATTERN_KEYS = frozenset({"skip_patterns", "force_patterns", "strip_patterns"})
"""Settings that are lists of regular expressions."""


class Enrichment(StrEnum):
    """When a query includes earlier turns: for messages that need them, never, or for every message."""

    ON = "on"
    OFF = "off"
    ALWAYS = "always"


def _compiles(pattern: str) -> str:
    bounded_pattern(pattern)
    return pattern


Pattern = Annotated[str, AfterValidator(_compiles)]
"""A regular expression of RE2, without lookaround and references to groups."""


class SearchSettings(SettingsModel):
    """When memories are injected, and how they are found."""

    enabled: bool = Field(default=True, description="Enable memory injection.")
    mode: Mode = Field(
        default=Mode.ALWAYS,
        description="When to use the model: always, escalate, deterministic (never) or off (inject nothing).",
    )
    skip_sources: tuple[str, ...] = Field(
        default=("retrigger", "heartbeat"),
        description="Request sources that never get memories. Add system if your orchestrator uses that source only "
        "for internal messages; scheduled tasks often use it for real work.",
    )
    languages: tuple[Language, ...] = Field(
        default=tuple(Language),
        description="Languages for recognizing greetings, acknowledgements, follow-ups and time expressions.",
    )
    time_zone: ZoneName = Field(
        default=DEFAULT_ZONE,
        description='Time zone of "yesterday", of dates without a zone and of shown dates, such as Europe/Zurich; a '
        "request's own `tz` takes precedence.",
    )
    skip_small_talk: bool = Field(
        default=True, description="Skip greetings, acknowledgements and messages without words."
    )
    skip_patterns: tuple[Pattern, ...] = Field(
        default=(
            r"(?i)\s*(heartbeat|ping|\[session (started|resumed|ended)\]|keep-?alive)[.!]?\s*",
            r"(?i)\s*\S+ (joined|left) (the )?(channel|room|server|group)[.!]?\s*",
            r"(?i)\s*\S+ reacted with \S+ to (your|a) message[.!]?\s*",
        ),
        description="Regular expressions; a message is skipped if one of them matches all of it.",
    )
    force_patterns: tuple[Pattern, ...] = Field(
        default=(), description="Regular expressions; a message is never skipped if one of them matches any part of it."
    )
    shared_users: tuple[str, ...] = Field(
        default=(), description="Owners whose memories are visible to everyone in the tenant, with the owner's name."
    )
    channel_memories: ChannelMemories = Field(
        default=ChannelMemories.CHANNEL,
        description="Where a memory is told that has a channel and no user: channel (only in that channel, never in a "
        "private conversation or another channel) or everywhere.",
    )
    deadline_ms: int = Field(
        default=3000,
        gt=0,
        le=60_000,
        description="Maximum time for an answer in milliseconds; callers can only shorten it.",
    )

    search_limit: int = Field(default=30, ge=1, le=200, description="Maximum number of memories from each search.")
    pool_limit: int = Field(
        default=30, ge=1, le=200, description="Maximum number of candidates of a recall, from all searches together."
    )
    recall_budget: Budget = Field(
        default=Budget.MID,
        description="Searches of a recall: low (the message only), mid, or high (also each part of the message).",
    )
    recall_history: bool = Field(
        default=True, description="For a message about the past, also find memories that have since been superseded."
    )
    contextual_min_score: float | None = Field(
        default=None,
        ge=-1.0,
        le=1.0,
        description="Minimum cosine similarity of a candidate; default: fitted for the embedder.",
    )
    recall_min_score: float | None = Field(
        default=None,
        ge=-1.0,
        le=1.0,
        description="Cosine similarity that the best candidate must reach, unless a keyword score reaches "
        "keyword_min_score; otherwise nothing is injected. Default: fitted for the embedder.",
    )
    keyword_min_score: float | None = Field(
        default=None,
        ge=0.0,
        description="Keyword score from which a memory is a candidate regardless of its cosine similarity, in units "
        "of the logarithm of the store's size (about one rare word each); default: fitted for the embedder.",
    )
    dense_weight: float = Field(
        default=0.6, ge=0.0, le=1.0, description="Weight of vector search relative to keyword search."
    )
    importance_weight: float = Field(default=0.3, ge=0.0, le=1.0, description="Weight of importance in the ranking.")
    recency_weight: float = Field(default=0.02, ge=0.0, le=1.0, description="Weight of recency in the ranking.")
    recency_half_life_days: float = Field(
        default=90.0, gt=0.0, description="Age in days at which the recency of a memory has halved."
    )
    channel_weight: float = Field(
        default=0.06, ge=0.0, le=1.0, description="Ranking bonus for memories from the request's channel."
    )
    dated_weight: float = Field(
        default=0.1, ge=0.0, le=1.0, description="Ranking bonus for memories from the time the message refers to."
    )
    graph_limit: int = Field(
        default=20, ge=0, le=200, description="Maximum number of memories found by links and shared names; 0: none."
    )
    graph_seed_threshold: float = Field(
        default=0.8, ge=0.0, le=1.0, description="Minimum importance for following the links of a memory."
    )
    graph_seed_limit: int = Field(
        default=20, ge=0, le=200, description="Maximum number of memories whose links are followed for importance."
    )
    relation_weight: float = Field(
        default=0.3, ge=0.0, le=1.0, description="Ranking bonus for a link to a fully relevant memory."
    )
    entity_weight: float = Field(
        default=0.15, ge=0.0, le=1.0, description="Maximum ranking bonus for names shared with relevant memories."
    )
    ambient_enabled: bool = Field(default=False, description="Inject memories of pinned types with every message.")
    pinned_types: tuple[MemoryType, ...] = Field(default=(), description="Memory types that are always injected.")
    pinned_limit: int = Field(
        default=3,
        ge=1,
        le=50,
        description="Maximum number of memories per pinned type; those pinned one by one are bounded by the budget.",
    )
    pinned_sort: SortKey = Field(
        default=SortKey.RECENT, description="Which pinned memories to prefer: recent or importance."
    )
    query_max_chars: int = Field(
        default=2000,
        ge=50,
        le=20_000,
        description="Maximum length of a query in characters; questions, the beginning and the end are kept.",
    )
    strip_patterns: tuple[Pattern, ...] = Field(
        default=(
            (
                r"(?im)^(?:[^\n`]{0,60}\b(?:details|metadata|info|context|trusted)\b[^\n`]{0,20}:[ \t]*\n)?```json\n"
                r"[^`]*\"(?:message_?id|sender|chat_?id|conversation_?(?:id|label))\"[^`]*\n"
                r"```[ \t]*$"
            ),
            r"(?m)^\[(?:[A-Z][a-z]{2} )?\d{4}-\d{2}-\d{2}[ T]\d{2}:\d{2}[^\]\n]{0,20}\][ \t]*",
            r"(?im)^(?:sender|channel|chat|room|message[ _-]?id|timestamp|conversation)[ \t]?:[ \t][^\n]{0,200}$",
            r"<system-reminder>(?:[^<]|<[^s]|<s[^y])*?</system-reminder>",
        ),
        description="Regular expressions for text that hosts add to a message; removed from the query, never from the "
        "message itself.",
    )
    query_enrichment: Enrichment = Field(
        default=Enrichment.ON,
        description="Add earlier turns to the query: on (for messages that are unclear on their own), off, or always.",
    )
    query_task: bool = Field(
        default=True, description="Add the task description to the query if it differs from the message."
    )
    query_context_chars: int = Field(
        default=400, ge=50, le=4000, description="Maximum number of characters from earlier turns in a query."
    )

    def channels_told(self, *here: str | None) -> tuple[str, ...] | None:
        """Return the channels whose own memories a request may see that is made in `here`, `None` for all."""
        if self.channel_memories is ChannelMemories.EVERYWHERE:
            return None
        return tuple(channel for channel in here if channel)
