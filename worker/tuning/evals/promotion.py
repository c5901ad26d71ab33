"""Promote prompts: install them in a folder of prompts and record why."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

from worker.domain.errors import PromptError, SettingsError
from worker.settings.atomic_file import locked
from worker.triage.prompt_files import load_prompt, parse_prompt

from .acceptance import AcceptanceResult, Finding
from .archive import write_file
from .number_text import known
from .prompt_files import PromptFile
from .results import Report

RECORD = "promotions.jsonl"
"""File in the folder of prompts with one line per promotion."""

FORMER = "former"
"""Subfolder for replaced prompts; it is not searched for prompts."""


@dataclass(frozen=True, slots=True)
class Promotion:
    """A prompt that may replace another; `forced` is the reason for promoting it although it does not pass."""

    new: PromptFile
    old: PromptFile
    before: Report
    after: Report
    acceptance: AcceptanceResult
    forced: str | None

    @property
    def passes(self) -> bool:
        return self.acceptance.passes or self.forced is not None


def check_successor(new: PromptFile, old: PromptFile) -> None:
    """Raise `PromptError` if the prompts are identical, or have one id and the version was not raised."""
    if new.hash == old.hash:
        raise PromptError(f"{new.path}: this prompt is already in force")
    if new.prompt.id == old.prompt.id and new.prompt.version <= old.prompt.version:
        raise PromptError(
            f"{new.path}: version {new.prompt.version} must be higher than {old.prompt.version}, which is in force"
        )


def check_place(new: PromptFile, old: PromptFile, folder: Path) -> None:
    """Raise `PromptError` if the file name is taken in `folder`, or if the prompt it extends differs there."""
    target = _target(new, old, folder)
    try:
        taken = load_prompt(target).id if target.exists() else new.prompt.id
        there = parse_prompt(new.text, str(target), folder)
    except PromptError as error:
        raise PromptError(f"cannot install {new.path} in {folder}: {error}") from error
    if taken != new.prompt.id:
        raise PromptError(f"{new.path}: {target} contains another prompt, {taken!r}; rename that file")
    if there != new.prompt:
        raise PromptError(f"{new.path}: the prompt it extends differs in {folder}; copy that prompt there first")


def _target(new: PromptFile, old: PromptFile, folder: Path) -> Path:
    return folder / (old.path.name if _replaces(new, old, folder) else f"{new.prompt.id}.md")


def _replaces(new: PromptFile, old: PromptFile, folder: Path) -> bool:
    return old.prompt.id == new.prompt.id and old.path.parent.resolve() == folder.resolve()


def record_of(promotion: Promotion, at: datetime) -> dict[str, Any]:
    """Return the record of a promotion as JSON values."""
    setup = promotion.after.setup
    return {
        "at": at.isoformat(),
        "prompt": promotion.new.prompt.name,
        "prompt_hash": promotion.new.hash,
        "replaces": promotion.old.prompt.name,
        "replaces_hash": promotion.old.hash,
        "model": setup.model,
        "settings": setup.settings,
        "worlds": setup.worlds,
        "evaluations": [promotion.before.id, promotion.after.id],
        "measures": {one.difference.measure.value: _finding_fields(one) for one in promotion.acceptance.findings},
        "refused_for": list(promotion.acceptance.reasons),
        "forced": promotion.forced,
    }


def _finding_fields(one: Finding) -> dict[str, Any]:
    return {
        "before": one.difference.before,
        "after": one.difference.after,
        "low": known(one.difference.low),
        "high": known(one.difference.high),
        "standing": one.standing.value,
    }


def install(promotion: Promotion, folder: Path, at: datetime) -> Path:
    """Install the prompt in the folder, back up the one it replaces, add a record, and return the new file's path.

    A service that watches the folder loads it within a second. Raise `SettingsError` if a file cannot be written.
    """
    target = _target(promotion.new, promotion.old, folder)
    if _replaces(promotion.new, promotion.old, folder):
        former = folder / FORMER / f"{promotion.old.prompt.name}-{promotion.old.hash[:8]}.md"
        write_file(former, promotion.old.text.encode())
    _note(folder / RECORD, record_of(promotion, at))
    write_file(target, promotion.new.text.encode())
    return target


def _note(path: Path, record: Mapping[str, Any]) -> None:
    try:
        with locked(path):
            lines = path.read_text(encoding="utf-8") if path.exists() else ""
            write_file(path, (lines + json.dumps(record, ensure_ascii=False) + "\n").encode())
    except (OSError, UnicodeDecodeError) as error:
        raise SettingsError(f"cannot read {path}: {error}") from error
