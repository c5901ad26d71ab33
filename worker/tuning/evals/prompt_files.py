"""Prompt files that are evaluated, looked through, and put into use."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from worker.domain.errors import PromptError
from worker.settings.service import ServiceSettings
from worker.triage.chat_prompt import check_prompt
from worker.triage.decision_selector import check_decision_prompt
from worker.triage.live_selector import DECISION_PROMPT, TRIAGE_PROMPT
from worker.triage.prompt_files import Prompt, default_prompts_dir, whole_prompt

from .hashing import sha256

CHECKS: Mapping[str, Callable[[Prompt], None]] = {TRIAGE_PROMPT: check_prompt, DECISION_PROMPT: check_decision_prompt}
"""What the usual prompts that choose memories must have, by their ids."""


@dataclass(frozen=True, slots=True)
class PromptFile:
    """A prompt, checked, where it is, and its text; `whole` also has what it takes from a prompt that it extends."""

    path: Path
    prompt: Prompt
    text: str
    whole: str

    @property
    def hash(self) -> str:
        """Of everything that the prompt says, wherever it is written."""
        return sha256(self.whole)


def read_prompt(path: Path, *folders: Path) -> PromptFile:
    """The prompt in a file; `folders` are where what it extends is looked for, see `whole_prompt`.

    Raises `PromptError` for one that is wrong.
    """
    prompt, whole = whole_prompt(path, *folders)
    if prompt.id in CHECKS:
        CHECKS[prompt.id](prompt)
    return PromptFile(path, prompt, path.read_text(encoding="utf-8"), whole)


def read_chooser(path: Path, *folders: Path) -> PromptFile:
    """The same for a prompt by which memories are chosen: a usual one, or one of an agent's own, by another id."""
    file = read_prompt(path, *folders)
    if file.prompt.id not in CHECKS:
        try:
            check_prompt(file.prompt)
        except PromptError as error:
            raise PromptError(f"{path}: no prompt that chooses memories: {error}") from error
    return file


def prompts_in(folder: Path) -> dict[str, PromptFile]:
    """The prompts of a folder by their ids, none where there is no such folder. Raises `PromptError`."""
    paths = [path for path in sorted(folder.glob("*.md")) if path.name.lower() != "readme.md"]
    found = [read_prompt(path, folder) for path in paths]
    return {file.prompt.id: file for file in found}


def prompts_in_force(service: ServiceSettings) -> dict[str, PromptFile]:
    """The prompts that the service uses: those of its folder, and the shipped ones where that has none."""
    return {**prompts_in(default_prompts_dir()), **(prompts_in(service.prompts_dir) if service.prompts_dir else {})}


def chooser_in_force(known: Mapping[str, PromptFile], wanted: str) -> PromptFile:
    """The prompt by that id, the usual one where there is none, as a service does it."""
    return known.get(wanted) or known[TRIAGE_PROMPT]


def with_first(prompts: Mapping[str, PromptFile], first: PromptFile) -> tuple[PromptFile, ...]:
    """`first`, in the place of the one by its id, and then the others."""
    return (first, *(file for name, file in sorted(prompts.items()) if name != first.prompt.id))
