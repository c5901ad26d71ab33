"""Prompt files that are evaluated, looked through, and put into use."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from ..decision import check_decision_prompt
from ..errors import PromptError
from ..live_triage import DECISION_PROMPT, TRIAGE_PROMPT
from ..prompts import Prompt, default_prompts_dir, load_prompt
from ..service_settings import ServiceSettings
from ..triage_prompt import check_prompt
from .hashing import sha256

CHECKS: Mapping[str, Callable[[Prompt], None]] = {TRIAGE_PROMPT: check_prompt, DECISION_PROMPT: check_decision_prompt}
"""What a prompt that chooses memories must have, by its id; these can be evaluated."""


@dataclass(frozen=True, slots=True)
class PromptFile:
    """A prompt, checked, where it is, and the text that it was read from."""

    path: Path
    prompt: Prompt
    text: str

    @property
    def hash(self) -> str:
        return sha256(self.text)


def read_prompt(path: Path) -> PromptFile:
    """The prompt in a file. Raises `PromptError` for one that is wrong."""
    prompt = load_prompt(path)
    if prompt.id in CHECKS:
        CHECKS[prompt.id](prompt)
    return PromptFile(path, prompt, path.read_text(encoding="utf-8"))


def read_chooser(path: Path) -> PromptFile:
    """The prompt in a file, one by which memories are chosen. Raises `PromptError`."""
    file = read_prompt(path)
    if file.prompt.id not in CHECKS:
        known = " and ".join(CHECKS)
        raise PromptError(f"{path}: its id is {file.prompt.id!r}; memories are chosen by the prompts {known}")
    return file


def prompts_in(folder: Path) -> dict[str, PromptFile]:
    """The prompts of a folder by their ids, none where there is no such folder. Raises `PromptError`."""
    paths = [path for path in sorted(folder.glob("*.md")) if path.name.lower() != "readme.md"]
    found = [read_prompt(path) for path in paths]
    return {file.prompt.id: file for file in found}


def prompts_in_force(service: ServiceSettings) -> dict[str, PromptFile]:
    """The prompts that the service uses: those of its folder, and the shipped ones where that has none."""
    return {**prompts_in(default_prompts_dir()), **(prompts_in(service.prompts_dir) if service.prompts_dir else {})}


def with_first(prompts: Mapping[str, PromptFile], first: PromptFile) -> tuple[PromptFile, ...]:
    """`first`, in the place of the one by its id, and then the others."""
    return (first, *(file for name, file in sorted(prompts.items()) if name != first.prompt.id))
