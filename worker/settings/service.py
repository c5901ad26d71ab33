"""What a process is built from: `[service]` of the settings file, and `MEESEEKS_*` variables, which win.

Every one of these settings is read once, when the process starts.
"""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, field_validator, model_validator

from worker.domain.model_profile import ModelProfile

from .file import Layer, Origin
from .former_keys import current_keys

ENV_PREFIX = "MEESEEKS_"


class SettingsModel(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")

    @model_validator(mode="before")
    @classmethod
    def _current_keys(cls, values: Any) -> Any:
        return current_keys(values) if isinstance(values, Mapping) else values


def _from_json(value: object) -> object:
    """A variable of the environment gives what is no text as JSON."""
    try:
        return json.loads(value) if isinstance(value, str) else value
    except ValueError as error:
        raise ValueError(f"not JSON: {error}") from error


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
    mask_secrets_at_write: bool = Field(
        default=False,
        description="Mask passwords, keys and tokens before a memory is stored; what was masked is lost.",
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
    models: Annotated[tuple[ModelProfile, ...], BeforeValidator(_from_json)] = Field(
        default=(),
        description="What models can do and where they are: `[[service.models]]` tables; as a variable, JSON.",
    )
    ollama_url: str = Field(default="http://127.0.0.1:11434", description="Where a local Ollama is looked for.")
    prompts_dir: Path | None = Field(default=None, description="Folder of prompt files that replaces the shipped one.")
    max_jobs: int = Field(default=20, ge=1, le=1000, description="Requests one worker serves at a time.")
    http_enabled: bool = Field(default=True, description="Whether `meeseeks up` serves HTTP, too.")
    http_host: str = Field(
        default="127.0.0.1",
        min_length=1,
        description="Address that HTTP is served at; one that other machines reach needs a token.",
    )
    http_port: int = Field(default=8787, ge=0, le=65_535, description="Port of HTTP; 0 takes any free one.")
    http_token: str | None = Field(
        default=None,
        repr=False,
        description="Token that HTTP requests must carry, for every tenant; at least 16 characters.",
    )
    http_token_file: Path | None = Field(
        default=None,
        description="File of further tokens, one a line, each followed by its tenant, or by none for every tenant.",
    )
    http_body_limit: int = Field(
        default=1 << 20, ge=1024, le=1 << 30, description="Most bytes of the body of an HTTP request."
    )
    http_import_limit: int = Field(
        default=1 << 28, ge=1024, le=1 << 36, description="Most bytes of a file that is imported over HTTP."
    )
    http_rate_limit: int = Field(
        default=6000,
        ge=0,
        le=10_000_000,
        description="HTTP requests a minute that one token may make, or one address without a token; 0 is no limit.",
    )
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

    @field_validator("models")
    @classmethod
    def _once_each(cls, models: tuple[ModelProfile, ...]) -> tuple[ModelProfile, ...]:
        names = [model.name for model in models]
        twice = next((name for name in names if names.count(name) > 1), None)
        if twice:
            raise ValueError(f"there are two tables for the model {twice!r}")
        return models

    def profile(self, name: str) -> ModelProfile:
        """What the settings say of a model; nothing but its name where they say nothing."""
        return next((model for model in self.models if model.name == name), ModelProfile(name=name))

    @property
    def home(self) -> Path:
        """`data_dir` with `~` resolved."""
        return self.data_dir.expanduser()


def service_layers(environ: Mapping[str, str], overrides: Mapping[str, Any]) -> tuple[Layer, ...]:
    names = {name: ENV_PREFIX + name.upper() for name in ServiceSettings.model_fields}
    places = {name: variable for name, variable in names.items() if environ.get(variable)}
    values = {name: environ[variable] for name, variable in places.items()}
    if environ.get("XDG_DATA_HOME") and "data_dir" not in values:
        values["data_dir"], places["data_dir"] = str(Path(environ["XDG_DATA_HOME"]) / "meeseeks"), "XDG_DATA_HOME"
    options = {name: value for name, value in overrides.items() if value is not None}
    said = {name: "--" + name.replace("_", "-") for name in options}
    return Layer(Origin.VARIABLE, values, places), Layer(Origin.OPTION, options, said)
