"""Read the prompt files to evaluate, lint and promote."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from worker.domain.errors import PromptError
from worker.settings.service import ServiceSettings
from worker.triage.chat_prompt import check_prompt
from worker.triage.decision_selector import check_decision_prompt
from worker.triage.live_selector import DECISION_PROMPT, TRIAGE_PROMPT
from worker.triage.prompt_files import Prompt, default_prompts_dir, whole_prompt

from .results import sha256

CHECKS: Mapping[str, Callable[[Prompt], None]] = {TRIAGE_PROMPT: check_prompt, DECISION_PROMPT: check_decision_prompt}
"""Checks of the default prompts by id."""


@dataclass(frozen=True, slots=True)
class PromptFile:
    """A checked prompt, its path and text; `whole` is the text with everything that it inherits."""

    path: Path
    prompt: Prompt
    text: str
    whole: str

    @property
    def hash(self) -> str:
        """Return the hash of the whole text, including what it inherits."""
        return sha256(self.whole)


def read_prompt(path: Path, *folders: Path) -> PromptFile:
    """Read and check a prompt; see `whole_prompt` for `folders`. Raise `PromptError` if it is invalid."""
    prompt, whole = whole_prompt(path, *folders)
    if prompt.id in CHECKS:
        CHECKS[prompt.id](prompt)
    return PromptFile(path, prompt, path.read_text(encoding="utf-8"), whole)


def read_chooser(path: Path, *folders: Path) -> PromptFile:
    """Read a prompt that selects memories: a default one, or an agent's own with another id."""
    file = read_prompt(path, *folders)
    if file.prompt.id not in CHECKS:
        try:
            check_prompt(file.prompt)
        except PromptError as error:
            raise PromptError(f"{path}: not a prompt that selects memories: {error}") from error
    return file


def prompts_in(folder: Path) -> dict[str, PromptFile]:
    """Read the prompts of a folder by id; a missing folder has none. Raise `PromptError` if one is invalid."""
    paths = [path for path in sorted(folder.glob("*.md")) if path.name.lower() != "readme.md"]
    found = [read_prompt(path, folder) for path in paths]
    return {file.prompt.id: file for file in found}


def prompts_in_force(service: ServiceSettings) -> dict[str, PromptFile]:
    """Return the service's prompts: the shipped ones, overridden by those of its folder."""
    return {**prompts_in(default_prompts_dir()), **(prompts_in(service.prompts_dir) if service.prompts_dir else {})}


def chooser_in_force(known: Mapping[str, PromptFile], wanted: str) -> PromptFile:
    """Return the prompt with that id, or the default one, as the service does."""
    return known.get(wanted) or known[TRIAGE_PROMPT]


def with_first(prompts: Mapping[str, PromptFile], first: PromptFile) -> tuple[PromptFile, ...]:
    """Return `first` followed by the prompts with other ids."""
    return (first, *(file for name, file in sorted(prompts.items()) if name != first.prompt.id))
