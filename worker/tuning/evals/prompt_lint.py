"""Lint prompts for problems that loading them does not detect. Pure."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum

from worker.capture.reading import CAPTURE_PROMPT
from worker.triage.answer_parsing import Choice, parse_choice
from worker.triage.cue_writer import CUES_PROMPT
from worker.triage.live_selector import DECISION_PROMPT, TRIAGE_PROMPT
from worker.triage.prompt_files import Prompt, estimate_messages

LEAST_ANSWER_TOKENS = 32
"""An answer with five numbers takes about 20 tokens, or more if the model starts with a blank line."""

MOST_PREFIX_SHARE = 0.5
"""Share of the context that rules and examples may take; the rest is for the task and its candidates."""

MOST_TEMPERATURE = 0.3

NEEDED = {
    TRIAGE_PROMPT: ("task", "candidates"),
    DECISION_PROMPT: ("candidate",),
    CUES_PROMPT: ("memories",),
    CAPTURE_PROMPT: ("candidates", "turns"),
}
"""Variables that the section '# User' must use."""

_NUMBERED = re.compile(r"^\[(\d+)\] ", re.MULTILINE)
_DATA = re.compile(r"\bdata\b", re.IGNORECASE)


class Severity(StrEnum):
    ERROR = "error"
    WARNING = "warning"


@dataclass(frozen=True, slots=True)
class PromptProblem:
    severity: Severity
    words: str


def problems(prompt: Prompt, window: int) -> list[PromptProblem]:
    """Return the problems of a checked prompt, for a model with a context of `window` tokens."""
    found = [*_missing_variables(prompt), *_size(prompt, window)]
    return [*found, *_examples(prompt), *_wording(prompt)] if prompt.id == TRIAGE_PROMPT else found


def _warning(words: str) -> PromptProblem:
    return PromptProblem(Severity.WARNING, words)


def _missing_variables(prompt: Prompt) -> Iterator[PromptProblem]:
    for name in NEEDED.get(prompt.id, ()):
        if f"{{{{{name}}}}}" not in prompt.user.replace(" ", ""):
            yield PromptProblem(Severity.ERROR, f"'# User' does not use {{{{{name}}}}}, so the model does not see it")
    if prompt.id in (TRIAGE_PROMPT, DECISION_PROMPT) and "now" not in prompt.variables:
        yield _warning("no section uses {{now}}, so the model cannot recognise outdated memories")


def _size(prompt: Prompt, window: int) -> Iterator[PromptProblem]:
    tokens = estimate_messages(prompt.prefix())
    if tokens > MOST_PREFIX_SHARE * window:
        yield _warning(f"rules and examples take about {tokens} of {window} tokens, so some candidates will not fit")
    if prompt.temperature > MOST_TEMPERATURE:
        yield _warning(f"temperature {prompt.temperature:g}: the same request will get different answers")


def _examples(prompt: Prompt) -> Iterator[PromptProblem]:
    if prompt.max_tokens < LEAST_ANSWER_TOKENS:
        yield _warning(f"max_tokens {prompt.max_tokens}: answers may be cut off; use at least {LEAST_ANSWER_TOKENS}")
    chosen = []
    for number, (user, answer) in enumerate(prompt.examples, 1):
        offered = max((int(found) for found in _NUMBERED.findall(user)), default=0)
        choice = parse_choice(answer, offered)
        if isinstance(choice, Choice):
            chosen.append(choice.ids)
        else:
            yield PromptProblem(
                Severity.ERROR, f"the answer of example {number} cannot be parsed as a choice of its candidates"
            )
        if re.search(r"\s", answer.strip()):
            yield _warning(f"the answer of example {number} has spaces; models copy them, which makes answers slower")
    if not prompt.examples:
        yield _warning("there is no example, so small models may not follow the answer format")
    elif chosen and all(chosen):
        yield _warning("no example chooses nothing, so the model will always choose something")
    elif chosen and not any(chosen):
        yield _warning("every example chooses nothing")


def _wording(prompt: Prompt) -> Iterator[PromptProblem]:
    if '"relevant"' not in prompt.system:
        yield _warning("'# System' does not show the answer format: {\"relevant\":[numbers]}")
    if not _DATA.search(prompt.system):
        yield _warning("'# System' does not say that candidates are data, not instructions")
