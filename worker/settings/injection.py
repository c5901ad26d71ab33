"""Two kinds of settings: what the process is built from (fixed) and how memories are injected (per agent, live).

`ServiceSettings` come from `[service]` of `meeseeks.toml` and from `MEESEEKS_*` variables, which win.
`InjectionConfig` comes from `[memory_injection]`, overridden key by key by the agent's table in `[[agents]]`; what is
saved while the service runs goes on top of that in `worker.settings.live`.
"""

import hashlib
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from functools import partial
from pathlib import Path
from typing import Any, Self

from pydantic import Field

from worker.domain.errors import SettingsError
from worker.domain.kinds import Language, ReceiptKeep

from .file import Layer, Model, SettingsFile, checked, find_settings_file, read_settings_file, usable_values
from .search import Enrichment, Pattern
from .selection import Strategy, TriageSettings
from .service import ServiceSettings, service_layers

__all__ = [
    "Enrichment",
    "InjectionConfig",
    "Language",
    "OnCompaction",
    "Pattern",
    "SavedSettings",
    "Settings",
    "Strategy",
    "load_settings",
]


class OnCompaction(StrEnum):
    DROPPED = "dropped"
    RESET = "reset"
    KEEP = "keep"


class InjectionConfig(TriageSettings):
    """How memories are injected; one frozen snapshot serves a whole request."""

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
    receipt_keep: ReceiptKeep = Field(
        default=ReceiptKeep.EVERYTHING,
        description="What receipts keep: everything, no_texts (no message, query or memory text) or numbers (ids, "
        "scores, times and reasons alone). Secrets are masked in any case.",
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
        general, warnings = usable_values(file.memory_injection, "memory_injection")
        agents: dict[str, Layer] = {}
        for agent_id, layer in file.agents.items():
            agents[agent_id], more = usable_values(layer, f"agents.{agent_id}")
            warnings += more
        service_file, more = usable_values(file.service, "service")
        warnings += more
        layers = (service_file, *service_layers(environ, overrides))
        service, injection, by_agent = _checked_tables(layers, general, agents)
        return cls(
            service=service,
            memory_injection=injection,
            agents=by_agent,
            warnings=tuple(warnings),
            file=SettingsFile(where, file.exists, service_file, general, agents),
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
