"""The conversation in which a model chooses: rules and examples first, the task, then the numbered candidates."""

from collections.abc import Callable, Sequence
from typing import Any

from hooks.contract import Reason

from .errors import ModelError, PromptError
from .models import Candidate, ChatRequest, SelectionTask
from .prompts import Message, Prompt, clip_middle, estimate_messages, neutralise, quote
from .tokens import estimate_tokens

VARIABLES = frozenset({"now", "task", "candidates", "most"})
SECTIONS = ("search", "results", "final", "repair")

_MARGIN_TOKENS = 128
_CANDIDATE_CHARACTERS = 400
_MESSAGE_CHARACTERS = 1600
_DESCRIPTION_CHARACTERS = 800
_TURN_CHARACTERS = 240
_TURNS = 3

RECALL_TOOL: dict[str, Any] = {
    "type": "function",
    "function": {
        "name": "recall",
        "description": "Search the memories for something that the candidates do not say.",
        "parameters": {
            "type": "object",
            "properties": {
                "query": {"type": "string", "description": "A name or a few words."},
                "types": {"type": "array", "items": {"type": "string"}, "description": "Only these memory types."},
                "entity": {"type": "string", "description": "Only memories about this person or thing."},
                "since": {"type": "string", "description": "Only memories from this date on, YYYY-MM-DD."},
                "until": {"type": "string", "description": "Only memories up to this date, YYYY-MM-DD."},
                "budget": {"type": "string", "enum": ["low", "mid", "high"], "description": "How widely to search."},
            },
            "required": ["query"],
            "additionalProperties": False,
        },
    },
}


def check_prompt(prompt: Prompt) -> None:
    """Raises `PromptError` where the prompt lacks a section or uses a variable that triage does not have."""
    for name in SECTIONS:
        prompt.section(name)
    unknown = sorted(prompt.variables - VARIABLES)
    if unknown:
        raise PromptError(f"prompt {prompt.name}: triage has no variable {unknown[0]!r}")


def answer_schema(offered: int, most: int) -> dict[str, Any]:
    """JSON schema of an answer about candidates numbered 1 to `offered`."""
    number = {"type": "integer", "minimum": 1, "maximum": max(1, offered)}
    return {
        "type": "object",
        "properties": {
            "relevant": {"type": "array", "items": number, "maxItems": min(most, max(1, offered))},
            "sufficient": {"type": "boolean"},
        },
        "required": ["relevant", "sufficient"],
        "additionalProperties": False,
    }


class Conversation:
    """What has been said so far, and the candidates offered: number n is `offered[n - 1]`.

    Whole candidates are left out from the end where the model's `window` (tokens) is too small; the rules stay.
    Raises `ModelError` where not even one candidate fits.
    """

    def __init__(
        self,
        prompt: Prompt,
        task: SelectionTask,
        candidates: Sequence[Candidate],
        present: Callable[[str], str],
        *,
        window: int,
        most: int,
    ) -> None:
        self._prompt = prompt
        self._present = present
        self._most = most
        self._values = {"now": task.now.date().isoformat(), "task": task_lines(task, present), "most": str(most)}
        self._tokens_left = window - prompt.max_tokens - _MARGIN_TOKENS
        self.offered: list[Candidate] = []
        self._messages = list(self._opening())
        lines = self._offer(candidates)
        if candidates and not lines:
            raise ModelError(Reason.MODEL_ERROR, "the triage prompt does not fit into the model's context window")
        self._messages.append(_user(self._fill(prompt.user, lines)))

    def choice_request(self) -> ChatRequest:
        """A turn that must end in a choice."""
        return self._request(schema=answer_schema(len(self.offered), self._most))

    def search_request(self, answer: str) -> ChatRequest:
        """A turn in which the model may search, after an answer that said that something is missing."""
        self._add(_assistant(answer), _user(self._prompt.section("search")))
        return self._request(tools=(RECALL_TOOL,))

    def results_request(self, queries: Sequence[str], found: Sequence[Candidate]) -> ChatRequest:
        """The final choice, after searches. Calls are retold as text: not every model's format takes them back."""
        calls = "\n".join(f"recall(query={quote(query)})" for query in queries)
        lines = self._offer(found)
        results = self._fill(self._prompt.section("results"), lines)
        final = self._fill(self._prompt.section("final"), lines)
        self._add(_assistant(calls or "recall()"), _user(f"{results}\n{final}"))
        return self.choice_request()

    def repair_request(self, answer: str) -> ChatRequest:
        """The choice once more, after an answer that could not be read."""
        self._add(_assistant(clip_middle(answer, 400) or "(nothing)"), _user(self._prompt.section("repair")))
        return self.choice_request()

    def _opening(self) -> tuple[Message, ...]:
        """Rules and examples; examples are left out, last ones first, where the window is too small for them."""
        prefix = self._prompt.prefix()
        first = estimate_tokens(self._fill(self._prompt.user, [])) + 200
        while len(prefix) > 2 and estimate_messages(prefix) + first > self._tokens_left:
            prefix = prefix[:-2]
        self._tokens_left -= estimate_messages(prefix) + first - 200
        return prefix

    def _offer(self, candidates: Sequence[Candidate]) -> list[str]:
        lines: list[str] = []
        for candidate in candidates:
            line = candidate_line(len(self.offered) + 1, candidate, self._present)
            cost = estimate_tokens(line) + 1
            if cost > self._tokens_left:
                break
            self._tokens_left -= cost
            self.offered.append(candidate)
            lines.append(line)
        return lines

    def _fill(self, template: str, lines: Sequence[str]) -> str:
        return self._prompt.fill(template, {**self._values, "candidates": "\n".join(lines) or "(none)"})

    def _add(self, *messages: Message) -> None:
        self._tokens_left -= estimate_messages(messages)
        self._messages.extend(messages)

    def _request(self, **shape: Any) -> ChatRequest:
        return ChatRequest(
            messages=tuple(self._messages),
            max_tokens=self._prompt.max_tokens,
            temperature=self._prompt.temperature,
            **shape,
        )


def candidate_line(number: int, candidate: Candidate, present: Callable[[str], str]) -> str:
    """`[3] 2026-02-11 "text"`: a label of ours, the day it is about or was noted, and quoted data."""
    memory = candidate.memory
    moment = memory.occurred_at or memory.created_at
    day = f"{moment.date().isoformat()} " if moment else ""
    text = present(memory.content)
    if len(text) > _CANDIDATE_CHARACTERS:
        text = text[: _CANDIDATE_CHARACTERS - 1] + "…"
    return f"[{number}] {day}{quote(text)}"


def task_lines(task: SelectionTask, present: Callable[[str], str]) -> str:
    """The task as labelled, quoted lines; the turns before it come first, oldest first."""

    def line(label: str, text: str, limit: int) -> str:
        return f"{label}: {quote(clip_middle(present(text), limit))}"

    turns = [turn for turn in task.recent_messages if turn.content.strip()][-_TURNS:]
    lines = [line(f"Earlier ({neutralise(turn.role)[:20]})", turn.content, _TURN_CHARACTERS) for turn in turns]
    description = (task.task_description or "").strip()
    if description and description != task.message.strip():
        lines.append(line("Description", description, _DESCRIPTION_CHARACTERS))
    lines.append(line("Message", task.message, _MESSAGE_CHARACTERS))
    return "\n".join(lines)


def _user(text: str) -> Message:
    return {"role": "user", "content": text}


def _assistant(text: str) -> Message:
    return {"role": "assistant", "content": text}
