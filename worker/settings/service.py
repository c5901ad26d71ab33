"""Settings of `[service]`, read once at startup; `MEESEEKS_*` variables override the file."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, field_validator, model_validator

from hooks.contract import refuse_bool_as_number
from worker.domain.model_profile import ModelProfile
from worker.domain.upkeep import UpkeepMode

from .file import Layer, Origin
from .former_keys import current_keys

ENV_PREFIX = "MEESEEKS_"


class SettingsModel(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")

    _numbers = field_validator("*", mode="before")(refuse_bool_as_number)

    @model_validator(mode="before")
    @classmethod
    def _current_keys(cls, values: Any) -> Any:
        return current_keys(values) if isinstance(values, Mapping) else values


def _from_json(value: object) -> object:
    """Parse the text of an environment variable as JSON."""
    try:
        return json.loads(value) if isinstance(value, str) else value
    except ValueError as error:
        raise ValueError("must be valid JSON") from error


class ServiceSettings(SettingsModel):
    """Settings of `[service]`."""

    data_dir: Path = Field(
        default=Path("~/.local/share/meeseeks"), description="Folder for the embedded store and the embedded Valkey."
    )
    redis_url: str | None = Field(
        default=None,
        description="URL of Redis or Valkey: redis://, rediss://, unix:// or redis+sentinel://; default: the embedded "
        "Valkey that `meeseeks up` starts.",
    )
    qdrant_url: str | None = Field(default=None, description="URL of a Qdrant server; default: the embedded store.")
    qdrant_api_key: str | None = Field(default=None, repr=False, description="API key of the Qdrant server.")
    collection: str = Field(default="memories", min_length=1, description="Name of the collection on a Qdrant server.")
    language: str = Field(default="english", description="Language used for stemming in the keyword index.")
    embedder: str = Field(
        default="minilm", description="minilm, fastembed:<model>, litellm:<model>, or none for keyword search only."
    )
    embedder_api_base: str | None = Field(default=None, description="Base URL of the embedding server.")
    embedder_dimension: int | None = Field(
        default=None, ge=1, description="Vector dimension, for embedders that do not report it."
    )
    mask_secrets_at_write: bool = Field(
        default=True,
        description="Mask passwords, keys and tokens before storing a memory; the masked text cannot be recovered.",
    )
    model: str | None = Field(
        default=None,
        description="Chat model that selects memories, as named by LiteLLM; default: a local Ollama model, if any.",
    )
    cue_calls_per_day: int = Field(
        default=100,
        ge=0,
        le=1_000_000,
        description="Maximum calls of `model` per day that write cues for new memories in the background, for five "
        "memories each; 0: none. Without a configured `model`, there are none either.",
    )
    capture_calls_per_day: int = Field(
        default=200,
        ge=0,
        le=1_000_000,
        description="Maximum calls of `model` per day that read conversations, for agents with `capture`; 0: none. "
        "Without a configured `model`, only what people ask to be remembered is captured.",
    )
    capture_tokens_per_day: int = Field(
        default=1_000_000,
        ge=0,
        le=1_000_000_000,
        description="Maximum tokens per day that these calls read and write.",
    )
    capture_cost_per_day: float | None = Field(
        default=None,
        gt=0.0,
        le=1_000_000.0,
        description="US dollars per day after which these calls stop, if the price of `model` is known; default: no "
        "limit.",
    )
    upkeep: UpkeepMode = Field(
        default=UpkeepMode.OFF,
        description="What is done every night about duplicates, expired memories and changed values: off, report (they "
        "are only listed) or apply (see [upkeep](upkeep.md)).",
    )
    upkeep_hour: int = Field(
        default=3,
        ge=0,
        le=23,
        description="Hour from which `upkeep` runs, in the time zone of the setting `time_zone`.",
    )
    model_api_base: str | None = Field(default=None, description="Base URL of the model server.")
    model_api_key: str | None = Field(
        default=None, repr=False, description="API key of the model server; providers' own variables work too."
    )
    model_context: int = Field(
        default=8192, ge=1024, description="Context window of the model in tokens; prompts are shortened to fit."
    )
    models: Annotated[tuple[ModelProfile, ...], BeforeValidator(_from_json)] = Field(
        default=(),
        description="Capabilities and addresses of models: `[[service.models]]` tables, or JSON in the variable.",
    )
    ollama_url: str = Field(default="http://127.0.0.1:11434", description="URL of a local Ollama.")
    prompts_dir: Path | None = Field(default=None, description="Folder of prompt files, instead of the built-in one.")
    max_jobs: int = Field(
        default=20,
        ge=1,
        le=1000,
        description="Injections, and as many other requests, that a worker answers at once; more wait for their turn.",
    )
    http_enabled: bool = Field(default=True, description="Whether `meeseeks up` also serves the HTTP API.")
    http_host: str = Field(
        default="127.0.0.1",
        min_length=1,
        description="Address to bind the HTTP API to; an address that other machines can reach requires a token.",
    )
    http_port: int = Field(default=8787, ge=0, le=65_535, description="Port of the HTTP API; 0 chooses a free one.")
    http_token: str | None = Field(
        default=None,
        repr=False,
        description="Token that HTTP requests must send, valid for all tenants; at least 16 characters.",
    )
    http_token_file: Path | None = Field(
        default=None,
        description="File with more tokens, one per line, each optionally followed by the tenant it is limited to, and "
        "by `name=NAME` (who has it, for the history of settings) and `role=read-only`.",
    )
    http_body_limit: int = Field(
        default=1 << 20, ge=1024, le=1 << 30, description="Maximum size of an HTTP request body in bytes."
    )
    http_import_limit: int = Field(
        default=1 << 28, ge=1024, le=1 << 36, description="Maximum size of a file imported over HTTP in bytes."
    )
    http_rate_limit: int = Field(
        default=6000,
        ge=0,
        le=10_000_000,
        description="Maximum HTTP requests per minute for one token, or one address without a token; 0: no limit.",
    )
    receipt_ttl_s: int = Field(default=7 * 86_400, ge=60, description="How long receipts are kept, in seconds.")
    ledger_ttl_s: int = Field(
        default=2 * 86_400, ge=60, description="How long a session's ledger is kept after its last turn, in seconds."
    )
    log_level: str = Field(
        default="info", pattern="^(debug|info|warning|error)$", description="Minimum severity of log messages."
    )
    log_format: str = Field(
        default="auto",
        pattern="^(auto|console|json)$",
        description="console, json, or auto (console on a terminal, otherwise json).",
    )

    @field_validator("models")
    @classmethod
    def _once_each(cls, models: tuple[ModelProfile, ...]) -> tuple[ModelProfile, ...]:
        names = [model.name for model in models]
        twice = next((name for name in names if names.count(name) > 1), None)
        if twice:
            raise ValueError(f"two tables have the name {twice!r}")
        return models

    def profile(self, name: str) -> ModelProfile:
        """Return the configured profile of a model, or a profile with only its name."""
        return next((model for model in self.models if model.name == name), ModelProfile(name=name))

    @property
    def home(self) -> Path:
        """`data_dir` with `~` resolved."""
        return self.data_dir.expanduser()


def service_layers(environ: Mapping[str, str], overrides: Mapping[str, Any]) -> tuple[Layer, ...]:
    """Return the layers of environment variables and of command options."""
    names = {name: ENV_PREFIX + name.upper() for name in ServiceSettings.model_fields}
    places = {name: variable for name, variable in names.items() if environ.get(variable)}
    values = {name: environ[variable] for name, variable in places.items()}
    if environ.get("XDG_DATA_HOME") and "data_dir" not in values:
        values["data_dir"], places["data_dir"] = str(Path(environ["XDG_DATA_HOME"]) / "meeseeks"), "XDG_DATA_HOME"
    options = {name: value for name, value in overrides.items() if value is not None}
    said = {name: "--" + name.replace("_", "-") for name in options}
    return Layer(Origin.VARIABLE, values, places), Layer(Origin.OPTION, options, said)
