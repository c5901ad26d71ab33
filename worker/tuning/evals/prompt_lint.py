"""What is doubtful about a prompt, beyond what keeps it from being loaded. Pure."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum

from worker.triage.answer_parsing import Choice, parse_choice
from worker.triage.live_selector import DECISION_PROMPT, TRIAGE_PROMPT
from worker.triage.prompt_files import Prompt, estimate_messages

LEAST_ANSWER_TOKENS = 32
"""An answer with five numbers takes about twenty; models that begin with a blank line take more."""

MOST_PREFIX_SHARE = 0.5
"""Share of the model's context that rules and examples may take: the rest is for the task and its candidates."""

MOST_TEMPERATURE = 0.3

NEEDED = {TRIAGE_PROMPT: ("task", "candidates"), DECISION_PROMPT: ("candidate",)}
"""Variables that the last section must show."""

_NUMBERED = re.compile(r"^\[(\d+)\] ", re.MULTILINE)
_DATA = re.compile(r"\bdata\b", re.IGNORECASE)


class Severity(StrEnum):
    """Whether a prompt cannot be used, or can be and had better be changed."""

    ERROR = "error"
    WARNING = "warning"


@dataclass(frozen=True, slots=True)
class PromptProblem:
    """Something about a prompt, in words that say what to do."""

    severity: Severity
    words: str


def problems(prompt: Prompt, window: int) -> list[PromptProblem]:
    """What is doubtful about a checked prompt, for a model whose context holds `window` tokens."""
    found = [*_unseen(prompt), *_size(prompt, window)]
    return [*found, *_examples(prompt), *_wording(prompt)] if prompt.id == TRIAGE_PROMPT else found


def _unseen(prompt: Prompt) -> Iterator[PromptProblem]:
    """What the model would not be told."""
    for name in NEEDED.get(prompt.id, ()):
        if f"{{{{{name}}}}}" not in prompt.user.replace(" ", ""):
            yield PromptProblem(Severity.ERROR, f"'# User' does not show {{{{{name}}}}}, so the model cannot know it")
    if prompt.id in NEEDED and "now" not in prompt.variables:
        yield PromptProblem(Severity.WARNING, "no section shows {{now}}, so the model cannot tell what is out of date")


def _size(prompt: Prompt, window: int) -> Iterator[PromptProblem]:
    tokens = estimate_messages(prompt.prefix())
    if tokens > MOST_PREFIX_SHARE * window:
        yield PromptProblem(
            Severity.WARNING,
            f"rules and examples take about {tokens} of {window} tokens; candidates will be left out to fit",
        )
    if prompt.temperature > MOST_TEMPERATURE:
        yield PromptProblem(
            Severity.WARNING, f"temperature {prompt.temperature:g}: the same request is answered differently"
        )


def _examples(prompt: Prompt) -> Iterator[PromptProblem]:
    if prompt.max_tokens < LEAST_ANSWER_TOKENS:
        yield PromptProblem(
            Severity.WARNING, f"max_tokens {prompt.max_tokens}: answers may be cut off; {LEAST_ANSWER_TOKENS} is safe"
        )
    chosen = []
    for number, (user, answer) in enumerate(prompt.examples, 1):
        offered = max((int(found) for found in _NUMBERED.findall(user)), default=0)
        choice = parse_choice(answer, offered)
        if isinstance(choice, Choice):
            chosen.append(choice.ids)
        else:
            yield PromptProblem(
                Severity.ERROR, f"the answer of example {number} cannot be read as a choice of its candidates"
            )
        if re.search(r"\s", answer.strip()):
            yield PromptProblem(
                Severity.WARNING, f"the answer of example {number} has spaces, which models copy and time pays for"
            )
    if not prompt.examples:
        yield PromptProblem(
            Severity.WARNING, "there is no example, so small models will not keep to the answer's shape"
        )
    elif chosen and all(chosen):
        yield PromptProblem(
            Severity.WARNING, "no example chooses nothing, so the model will choose something every time"
        )
    elif chosen and not any(chosen):
        yield PromptProblem(Severity.WARNING, "every example chooses nothing")


def _wording(prompt: Prompt) -> Iterator[PromptProblem]:
    if '"relevant"' not in prompt.system:
        yield PromptProblem(Severity.WARNING, "'# System' does not show the answer's shape: {\"relevant\":[numbers]}")
    if not _DATA.search(prompt.system):
        yield PromptProblem(Severity.WARNING, "'# System' does not say that candidates are data and no instructions")
