"""Puts a prompt into use: into a folder of prompts, with a record of why it may be there."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

from worker.domain.errors import PromptError, SettingsError
from worker.triage.prompt_files import load_prompt, parse_prompt

from .acceptance import AcceptanceResult
from .archive import write_report
from .number_text import known
from .prompt_files import PromptFile
from .results import Report

RECORD = "promotions.jsonl"
"""In the folder of prompts: one line for every prompt that was put into use."""

FORMER = "former"
"""Folder in it, for what was replaced; it is not looked into for prompts."""


@dataclass(frozen=True, slots=True)
class Promotion:
    """A prompt that may take the place of another: both, how they were evaluated, what the gate said, and the reason
    for which it was overruled, if it was."""

    new: PromptFile
    old: PromptFile
    before: Report
    after: Report
    verdict: AcceptanceResult
    forced: str | None

    @property
    def passes(self) -> bool:
        return self.verdict.passes or self.forced is not None


def check_successor(new: PromptFile, old: PromptFile) -> None:
    """Raises `PromptError` where a prompt is not a later version of the other, as far as both have one id."""
    if new.hash == old.hash:
        raise PromptError(f"{new.path}: this is the prompt in force already")
    if new.prompt.id == old.prompt.id and new.prompt.version <= old.prompt.version:
        raise PromptError(
            f"{new.path}: version {new.prompt.version} is not after {old.prompt.version}, which is in force; raise"
            " it, so that receipts tell the two apart"
        )


def check_place(new: PromptFile, old: PromptFile, folder: Path) -> None:
    """Raises `PromptError` where `folder` has another prompt by that name, or the same text would say something else
    there, since it extends what lies beside it."""
    target = _target(new, old, folder)
    try:
        taken = load_prompt(target).id if target.exists() else new.prompt.id
        there = parse_prompt(new.text, str(target), folder)
    except PromptError as error:
        raise PromptError(f"{new.path}: cannot be put into {folder}: {error}") from error
    if taken != new.prompt.id:
        raise PromptError(f"{new.path}: {target} is the file of another prompt, {taken!r}; rename that one")
    if there != new.prompt:
        raise PromptError(
            f"{new.path}: what it extends is another text in {folder} than beside it; put that there first"
        )


def _target(new: PromptFile, old: PromptFile, folder: Path) -> Path:
    """Where a prompt goes: in the place of its former version, where that is in the folder."""
    return folder / (old.path.name if _replaces(new, old, folder) else f"{new.prompt.id}.md")


def _replaces(new: PromptFile, old: PromptFile, folder: Path) -> bool:
    return old.prompt.id == new.prompt.id and old.path.parent.resolve() == folder.resolve()


def record_of(promotion: Promotion, at: datetime) -> dict[str, Any]:
    """What is noted of a promotion, for programs."""
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
        "measures": findings_of(promotion.verdict),
        "refused_for": list(promotion.verdict.reasons),
        "forced": promotion.forced,
    }


def findings_of(verdict: AcceptanceResult) -> Mapping[str, Any]:
    """Every measure with its difference and standing."""
    return {
        one.difference.measure.value: {
            "before": one.difference.before,
            "after": one.difference.after,
            "low": known(one.difference.low),
            "high": known(one.difference.high),
            "standing": one.standing.value,
        }
        for one in verdict.findings
    }


def install(promotion: Promotion, folder: Path, at: datetime) -> Path:
    """Put the prompt into the folder, with what it replaces kept aside and the record written first; its file.

    A service that watches the folder takes it over within a second. Raises `SettingsError` where that cannot be done.
    """
    target = _target(promotion.new, promotion.old, folder)
    if _replaces(promotion.new, promotion.old, folder):
        former = folder / FORMER / f"{promotion.old.prompt.name}-{promotion.old.hash[:8]}.md"
        write_report(former, promotion.old.text.encode())
    _note(folder / RECORD, record_of(promotion, at))
    write_report(target, promotion.new.text.encode())
    return target


def _note(path: Path, record: Mapping[str, Any]) -> None:
    try:
        lines = path.read_text(encoding="utf-8") if path.exists() else ""
    except (OSError, UnicodeDecodeError) as error:
        raise SettingsError(f"{path}: cannot be read: {error}") from error
    write_report(path, (lines + json.dumps(record, ensure_ascii=False) + "\n").encode())
