"""Two kinds of settings: what the process is built from (fixed) and how memories are injected (per agent, live).

`ServiceSettings` come from `[service]` of `meeseeks.toml` and from `MEESEEKS_*` variables, which win.
`InjectionConfig` comes from `[memory_injection]`, overridden key by key by the agent's table in `[[agents]]`; what is
saved while the service runs goes on top of that in `worker.config`.
"""

import hashlib
import os
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from functools import partial
from pathlib import Path
from typing import Annotated, Any, Self

from pydantic import AfterValidator, Field

from hooks.contract import Mode

from .errors import SettingsError
from .kinds import Budget, SortKey
from .models import MemoryType
from .service_settings import ServiceSettings, SettingsModel, service_layers
from .settings_file import (
    Layer,
    Model,
    SettingsFile,
    checked,
    find_settings_file,
    known_types_only,
    read_settings_file,
)


class Fusion(StrEnum):
    WEIGHTED = "weighted"
    RRF = "rrf"


class OnCompaction(StrEnum):
    DROPPED = "dropped"
    RESET = "reset"
    KEEP = "keep"


class Language(StrEnum):
    """Languages whose phrases and time expressions are known."""

    ENGLISH = "en"
    FRENCH = "fr"
    GERMAN = "de"
    SPANISH = "es"
    PORTUGUESE = "pt"
    ITALIAN = "it"
    JAPANESE = "ja"
    CHINESE = "zh"
    KOREAN = "ko"


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


class InjectionConfig(SettingsModel):
    """How memories are injected; one frozen snapshot serves a whole request."""

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
    fusion: Fusion = Field(default=Fusion.WEIGHTED, description="How the two legs are combined: weighted or rrf.")
    dense_weight: float = Field(
        default=0.6, ge=0.0, le=1.0, description="Share of the dense leg in the weighted fusion."
    )
    rrf_k: int = Field(
        default=2, ge=0, le=60, description="Constant of reciprocal rank fusion; small is measurably better."
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

    relative_cut: float = Field(
        default=0.8, ge=0.0, le=1.0, description="Without a model, a memory must reach this share of the best score."
    )
    confident_score: float | None = Field(
        default=None,
        ge=0.0,
        le=1.0,
        description="Relevance (0 to 1) from which a memory may be injected without a model; unset: the embedder's.",
    )
    max_items: int = Field(default=5, ge=1, le=50, description="Most memories in a block.")
    max_total: int = Field(default=25, ge=1, le=100, description="Hard cap on memories in a block, over every source.")
    max_chars: int = Field(default=6000, ge=200, le=100_000, description="Most characters of a block.")
    max_tokens: int | None = Field(
        default=None,
        ge=50,
        le=100_000,
        description="Most tokens of a block, by an estimate that errs upwards; unset: no such limit.",
    )
    max_item_chars: int = Field(
        default=600,
        ge=40,
        le=10_000,
        description="Longest memory that is injected whole; longer ones end in an ellipsis.",
    )
    mask_secrets: bool = Field(
        default=True, description="Mask passwords, keys and tokens in whatever leaves the store for a block or a model."
    )

    triage_candidates: int = Field(default=12, ge=1, le=50, description="Most candidates the model is shown.")
    max_recalls: int = Field(default=3, ge=1, le=3, description="Most searches per request, the first one included.")
    context_window_depth: int = Field(
        default=10, ge=1, le=1000, description="Turns after which a memory that was shown may be shown again."
    )
    semantic_threshold: float | None = Field(
        default=None,
        ge=0.0,
        le=1.0,
        description="Cosine from which two memories say the same; unset takes the value measured for the embedder.",
    )
    on_compaction: OnCompaction = Field(
        default=OnCompaction.DROPPED,
        description="What a compacted context makes the ledger forget: dropped (what is no longer visible; everything "
        "where the caller does not say what is), reset (everything) or keep (nothing).",
    )
    max_injected_blocks_in_history: int = Field(
        default=3,
        ge=0,
        le=100,
        description="Blocks that a conversation's history may hold, the newest included; 0 removes all of them after "
        "their turn. Callers get it as `history_cap`.",
    )

    @property
    def version(self) -> str:
        """A name for these very values: the same in every process that uses them."""
        return hashlib.sha256(self.model_dump_json().encode()).hexdigest()[:12]


@dataclass(frozen=True, slots=True)
class SavedSettings:
    """What was set while services ran: keys of `[memory_injection]`, for all agents and for single ones.

    Every change has a `version` one higher than the one before; 0 is nothing at all.
    """

    version: int = 0
    general: Mapping[str, Any] = field(default_factory=dict)
    agents: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)


@dataclass(frozen=True)
class Settings:
    """Everything that a process is told when it starts; `reload` reads the same sources again.

    `service_layers` and `file` hold the values as they were given, with their places.
    """

    service: ServiceSettings = field(default_factory=ServiceSettings)
    memory_injection: InjectionConfig = field(default_factory=InjectionConfig)
    agents: Mapping[str, InjectionConfig] = field(default_factory=dict)
    warnings: tuple[str, ...] = ()
    file: SettingsFile = field(default=SettingsFile(Path()), repr=False)
    service_layers: tuple[Layer, ...] = field(default=(), repr=False)
    reload: "Callable[[], Settings] | None" = field(default=None, repr=False, compare=False)

    def for_agent(self, agent_id: str) -> InjectionConfig:
        return self.agents.get(agent_id, self.memory_injection)

    @classmethod
    def load(cls, environ: Mapping[str, str], path: Path | None = None, **overrides: Any) -> Self:
        """Settings from the file, the environment and `overrides` (of the service), later ones winning.

        The file is `path`, else `MEESEEKS_CONFIG`, else `meeseeks.toml` in the working folder where there is one.
        Raises `SettingsError` naming file, line and key of everything that is wrong.
        """
        where, required = find_settings_file(environ, path)
        file = read_settings_file(where, required=required)
        general, warnings = known_types_only(file.memory_injection, "memory_injection")
        agents: dict[str, Layer] = {}
        for agent_id, layer in file.agents.items():
            agents[agent_id], more = known_types_only(layer, f"agents.{agent_id}")
            warnings += more
        layers = (file.service, *service_layers(environ, overrides))
        service, injection, by_agent = _checked_tables(layers, general, agents)
        return cls(
            service=service,
            memory_injection=injection,
            agents=by_agent,
            warnings=tuple(warnings),
            file=SettingsFile(where, file.exists, file.service, general, agents),
            service_layers=layers,
            reload=partial(cls.load, dict(environ), where if file.exists else None, **overrides),
        )

    @classmethod
    def load_service(cls, environ: Mapping[str, str], path: Path | None = None, **overrides: Any) -> Self:
        """Settings of the service alone, for whoever looks for it; a file that is wrong counts as far as it can."""
        where, _ = find_settings_file(environ, path)
        layers = service_layers(environ, overrides)
        try:
            layers = (read_settings_file(where, required=False).service, *layers)
            return cls(service=checked(ServiceSettings, "service", layers), service_layers=layers)
        except SettingsError:
            layers = service_layers(environ, overrides)
            return cls(service=checked(ServiceSettings, "service", layers), service_layers=layers)


def _checked_tables(
    service_layers: tuple[Layer, ...], general: Layer, agents: Mapping[str, Layer]
) -> tuple[ServiceSettings, InjectionConfig, dict[str, InjectionConfig]]:
    """Every table checked; the error names what is wrong in all of them. Agents wait for `[memory_injection]`."""
    wrong: list[str] = []

    def check(model: type[Model], name: str, layers: tuple[Layer, ...]) -> Model:
        try:
            return checked(model, name, layers)
        except SettingsError as error:
            wrong.append(str(error))
            return model.model_construct()

    service = check(ServiceSettings, "service", service_layers)
    injection = check(InjectionConfig, "memory_injection", (general,))
    base = () if wrong else (general,)
    by_agent = {name: check(InjectionConfig, f"agents.{name}", (*base, layer)) for name, layer in agents.items()}
    if wrong:
        raise SettingsError("\n".join(wrong))
    return service, injection, by_agent


def load_settings(path: Path | None = None, **overrides: Any) -> Settings:
    """Settings of this process."""
    return Settings.load(os.environ, path, **overrides)
