"""All settings of a process: `ServiceSettings` are fixed, `InjectionConfig` can differ by agent and change at runtime.

An agent's `[[agents]]` table overrides `[memory_injection]` key by key; `worker.settings.live` adds saved settings.
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

from hooks.contract.capture import CaptureMode
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
    "Settings",
    "Strategy",
    "load_settings",
]


class OnCompaction(StrEnum):
    DROPPED = "dropped"
    RESET = "reset"
    KEEP = "keep"


class InjectionConfig(TriageSettings):
    """Settings of `[memory_injection]`; a request uses one frozen instance throughout."""

    context_window_depth: int = Field(
        default=10, ge=1, le=1000, description="Turns after which an injected memory may be injected again."
    )
    semantic_threshold: float | None = Field(
        default=None,
        ge=0.0,
        le=1.0,
        description="Cosine similarity from which two memories count as duplicates; default: fitted for the embedder.",
    )
    on_compaction: OnCompaction = Field(
        default=OnCompaction.DROPPED,
        description="What the ledger forgets when the context is compacted: dropped (memories no longer visible, or "
        "all if the caller does not say which are), reset (all) or keep (none).",
    )
    max_injected_blocks_in_history: int = Field(
        default=3,
        ge=0,
        le=100,
        description="Maximum number of memory blocks in the conversation history, including the newest. Returned to "
        "callers as `history_cap`. 0: callers remove each block after its turn, so a later turn may repeat its "
        "memories.",
    )
    briefing: bool = Field(
        default=False,
        description="Whether the first request of a session also gets a briefing: identity, goals, open todos and "
        "recent decisions, at most 500 words, see [briefing](sessions.md#briefing).",
    )
    receipt_keep: ReceiptKeep = Field(
        default=ReceiptKeep.EVERYTHING,
        description="What receipts store: everything, no_texts (no message, query or memory text) or numbers (only "
        "ids, scores, times and reasons). Secrets are always masked.",
    )
    receipt_model_texts: bool = Field(
        default=False,
        description="Whether receipts also store what a model was asked and its raw answer, if receipt_keep = "
        "everything, see [receipts](receipts.md#what-is-kept-and-how-long).",
    )

    learn_cues: bool = Field(
        default=True,
        description="Whether a message for which a chat model chose a memory, or whose answer used it, is kept as a "
        "cue of that memory, see [cues](cues.md).",
    )
    capture: CaptureMode = Field(
        default=CaptureMode.OFF,
        description="What becomes of memories that conversations contain: off (nothing is read), review (they wait "
        "until somebody accepts them) or auto (they are stored), see [capture](capture.md).",
    )

    @property
    def version(self) -> str:
        """A hash of all values."""
        return hashlib.sha256(self.model_dump_json().encode()).hexdigest()[:12]


@dataclass(frozen=True)
class Settings:
    """All settings of a process at startup; `reload` reads the same sources again.

    `service_layers` and `file` hold the unvalidated values with their locations.
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
        """Read the file, then the environment, then `overrides` of `[service]`; later ones take precedence.

        Raise `SettingsError` with file, line and key of every error.
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
        """Read only the settings of the service, as a client needs them; ignore a file that is invalid."""
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
    """Validate all tables before raising; agents inherit from `[memory_injection]` only if the rest is valid."""
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
    """Read the settings of this process."""
    return Settings.load(os.environ, path, **overrides)
