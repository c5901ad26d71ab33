"""Two kinds of settings: what the process is built from (fixed) and how memories are injected (per agent).

`ServiceSettings` come from `[service]` of `meeseeks.toml` and from `MEESEEKS_*` variables, which win.
`InjectionConfig` comes from `[memory_injection]`, overridden key by key by the agent's table in `[[agents]]`.
"""

import os
import tomllib
from collections.abc import Mapping
from enum import StrEnum
from pathlib import Path
from typing import Any, Self

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from hooks.contract import Mode

from .errors import SettingsError

ENV_PREFIX = "MEESEEKS_"


class SettingsModel(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class Fusion(StrEnum):
    WEIGHTED = "weighted"
    RRF = "rrf"


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
    shared_users: tuple[str, ...] = Field(
        default=(), description="Owners whose memories everybody of the tenant may see."
    )
    deadline_ms: int = Field(
        default=3000,
        gt=0,
        le=60_000,
        description="Most milliseconds an answer may take, whatever the caller allows.",
    )

    search_limit: int = Field(default=20, ge=1, le=100, description="Most memories each leg of a search brings.")
    contextual_min_score: float | None = Field(
        default=None,
        ge=-1.0,
        le=1.0,
        description="Cosine under which a memory is not a candidate; unset takes the embedder's measured floor.",
    )
    keyword_min_score: float = Field(
        default=6.0, ge=0.0, description="BM25 score from which a memory is a candidate whatever its cosine."
    )
    fusion: Fusion = Field(default=Fusion.WEIGHTED, description="How the two legs are combined: weighted or rrf.")
    dense_weight: float = Field(
        default=0.6, ge=0.0, le=1.0, description="Share of the dense leg in the weighted fusion."
    )
    rrf_k: int = Field(
        default=2, ge=0, le=60, description="Constant of reciprocal rank fusion; small is measurably better."
    )
    importance_weight: float = Field(default=0.1, ge=0.0, le=0.15, description="How much importance may raise a score.")
    recency_weight: float = Field(default=0.05, ge=0.0, le=0.1, description="How much recency may raise a score.")
    recency_half_life_days: float = Field(
        default=90.0, gt=0.0, description="Age in days at which half of the recency boost is left."
    )
    query_max_chars: int = Field(
        default=2000,
        ge=50,
        le=20_000,
        description="Most characters of a message that are searched with; the tail is kept.",
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


class ServiceSettings(SettingsModel):
    """What one process is built from."""

    data_dir: Path = Field(
        default=Path("~/.local/share/meeseeks"),
        description="Folder of the embedded store, of the embedded Valkey and of nothing else.",
    )
    redis_url: str | None = Field(
        default=None, description="Redis or Valkey to use; unset takes the embedded one that `meeseeks up` starts."
    )
    qdrant_url: str | None = Field(default=None, description="Qdrant server to use; unset takes the embedded store.")
    qdrant_api_key: str | None = Field(default=None, repr=False, description="Key of the Qdrant server.")
    collection: str = Field(default="memories", min_length=1, description="Name of the collection on a Qdrant server.")
    language: str = Field(default="english", description="Language whose stems are added to the keyword index.")
    embedder: str = Field(
        default="minilm", description="minilm, fastembed:<model>, litellm:<model>, or none for keyword search alone."
    )
    embedder_api_base: str | None = Field(default=None, description="Base address of the embedding server.")
    embedder_dimension: int | None = Field(
        default=None, ge=1, description="Length of the vectors, for embedders that do not say."
    )
    model: str | None = Field(
        default=None,
        description="Chat model that triages, in litellm's notation; unset: a local Ollama, else none.",
    )
    model_api_base: str | None = Field(default=None, description="Base address of the model server.")
    model_api_key: str | None = Field(
        default=None, repr=False, description="Key of the model server; providers' own variables work too."
    )
    model_context: int = Field(
        default=8192, ge=1024, description="Tokens that the model's context holds; prompts are cut to fit."
    )
    ollama_url: str = Field(default="http://127.0.0.1:11434", description="Where a local Ollama is looked for.")
    prompts_dir: Path | None = Field(default=None, description="Folder of prompt files that replaces the shipped one.")
    max_jobs: int = Field(default=20, ge=1, le=1000, description="Requests one worker serves at a time.")
    receipt_ttl_s: int = Field(default=7 * 86_400, ge=60, description="Seconds that receipts are kept.")
    ledger_ttl_s: int = Field(
        default=2 * 86_400, ge=60, description="Seconds after its last turn that a session's ledger is kept."
    )
    log_level: str = Field(
        default="info", pattern="^(debug|info|warning|error)$", description="Least severe log lines that are written."
    )
    log_format: str = Field(
        default="auto",
        pattern="^(auto|console|json)$",
        description="console, json, or auto: console on a terminal, else json.",
    )

    @property
    def home(self) -> Path:
        """`data_dir` with `~` resolved."""
        return self.data_dir.expanduser()


class Settings(SettingsModel):
    """Everything that a process needs to know."""

    service: ServiceSettings = ServiceSettings()
    memory_injection: InjectionConfig = InjectionConfig()
    agents: dict[str, InjectionConfig] = Field(default_factory=dict)

    def for_agent(self, agent_id: str) -> InjectionConfig:
        return self.agents.get(agent_id, self.memory_injection)

    @classmethod
    def load(cls, environ: Mapping[str, str], path: Path | None = None, **overrides: Any) -> Self:
        """Settings from the file, the environment and `overrides` (of the service), later ones winning.

        The file is `path`, else `MEESEEKS_CONFIG`, else `meeseeks.toml` in the working folder where there is one.
        Raises `SettingsError` naming the key.
        """
        table = _read_toml(_settings_file(environ, path))
        service = {**table.pop("service", {}), **_from_environ(environ)}
        service.update({key: value for key, value in overrides.items() if value is not None})
        defaults = table.pop("memory_injection", {})
        agents = {entry.pop("id", None): {**defaults, **entry} for entry in table.pop("agents", [])}
        if table:
            raise SettingsError(f"unknown table in the settings file: {', '.join(sorted(table))}")
        if None in agents:
            raise SettingsError("every [[agents]] table needs an id")
        try:
            return cls.model_validate({"service": service, "memory_injection": defaults, "agents": agents})
        except ValidationError as error:
            raise SettingsError(_first_fault(error)) from error


def _settings_file(environ: Mapping[str, str], path: Path | None) -> Path | None:
    named = path or (Path(environ["MEESEEKS_CONFIG"]) if environ.get("MEESEEKS_CONFIG") else None)
    if named is not None and not named.is_file():
        raise SettingsError(f"there is no settings file at {named}")
    here = Path("meeseeks.toml")
    return named or (here if here.is_file() else None)


def _read_toml(path: Path | None) -> dict[str, Any]:
    if path is None:
        return {}
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError, OSError) as error:
        raise SettingsError(f"{path}: {error}") from error


def _from_environ(environ: Mapping[str, str]) -> dict[str, str]:
    names = {ENV_PREFIX + name.upper(): name for name in ServiceSettings.model_fields}
    found = {names[key]: value for key, value in environ.items() if key in names and value != ""}
    if environ.get("XDG_DATA_HOME"):
        found.setdefault("data_dir", str(Path(environ["XDG_DATA_HOME"]) / "meeseeks"))
    return found


def _first_fault(error: ValidationError) -> str:
    fault = error.errors(include_url=False, include_input=False)[0]
    return f"{'.'.join(str(part) for part in fault['loc'])}: {fault['msg']}"


def load_settings(path: Path | None = None, **overrides: Any) -> Settings:
    """Settings of this process."""
    return Settings.load(os.environ, path, **overrides)
