"""Build the conversation in which a model selects: rules and examples, the task, then numbered candidates."""

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from hooks.contract import Reason
from worker.domain.errors import ModelError, PromptError
from worker.domain.memory import Candidate, SelectionTask, is_superseded
from worker.domain.model_calls import ChatRequest
from worker.domain.model_profile import SchemaKind
from worker.domain.zones import zone_name
from worker.text.excerpts import excerpt
from worker.text.names import passage_text
from worker.text.rendering import OUTDATED, attributed, shown_day
from worker.text.tokens import estimate_tokens

from .answer_parsing import Choice, parse_choice
from .prompt_files import (
    Message,
    Prompt,
    assistant_message,
    clip_middle,
    estimate_messages,
    neutralise,
    quote,
    user_message,
)

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
                "time": {"type": "string", "description": "Only memories of this time, such as last week or 2026-03."},
                "channel": {"type": "string", "description": "Only memories from this channel."},
                "budget": {"type": "string", "enum": ["low", "mid", "high"], "description": "How widely to search."},
                "history": {"type": "boolean", "description": "Include outdated memories, for a task about the past."},
            },
            "required": ["query"],
            "additionalProperties": False,
        },
    },
}


def check_prompt(prompt: Prompt) -> None:
    """Raise `PromptError` if the prompt lacks a section or uses an unknown variable."""
    for name in SECTIONS:
        prompt.section(name)
    unknown = sorted(prompt.variables - VARIABLES)
    if unknown:
        raise PromptError(f"prompt {prompt.name}: unknown variable {unknown[0]!r}; use {', '.join(sorted(VARIABLES))}")


def answer_schema(offered: int, most: int) -> dict[str, Any]:
    """Return the JSON schema of an answer about candidates numbered 1 to `offered`."""
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


def answer_pattern(offered: int, most: int) -> dict[str, Any]:
    """Return the JSON schema of a string such as "3,1" or "none", which takes a third of the tokens.

    For servers that turn patterns into grammars (llama.cpp). Such an answer cannot say that something is missing.
    """
    number = _number_pattern(max(1, offered))
    further = min(most, max(1, offered)) - 1
    return {"type": "string", "pattern": f"^(none|{number}(,{number}){{0,{further}}})$"}


def _number_pattern(most: int) -> str:
    """Return a regular expression for the numbers 1 to `most` (at most 99), without leading zeros."""
    if most < 10:
        return f"[1-{most}]"
    tens, ones = divmod(most, 10)
    whole = [f"[1-{tens - 1}][0-9]"] if tens > 1 else []
    return f"({'|'.join(['[1-9]', *whole, f'{tens}[0-{ones}]'])})"


@dataclass(frozen=True, slots=True)
class AnswerShape:
    """Limits of a conversation: the model's `window` in tokens, the most memories to choose, and the answer format."""

    window: int
    most: int
    output: SchemaKind = SchemaKind.JSON_SCHEMA


class Conversation:
    """The messages so far, and the candidates offered: number n is `offered[n - 1]`.

    Candidates at the end are left out if the window is too small. Raise `ModelError` if not even one fits.
    """

    def __init__(
        self,
        prompt: Prompt,
        task: SelectionTask,
        candidates: Sequence[Candidate],
        present: Callable[[str], str],
        shape: AnswerShape,
    ) -> None:
        self._prompt = prompt
        self._present = present
        self._shape = shape
        self._task = task
        self._sought = task.query
        self._values = {"now": present_day(task.now), "task": task_lines(task, present), "most": str(shape.most)}
        self._tokens_left = shape.window - prompt.max_tokens - _MARGIN_TOKENS
        self.offered: list[Candidate] = []
        self._messages = list(self._opening())
        lines = self._offer(candidates)
        if candidates and not lines:
            raise ModelError(Reason.MODEL_ERROR, "the triage prompt does not fit in the model's context window")
        self._messages.append(user_message(self._fill(prompt.user, lines)))

    def choice_request(self) -> ChatRequest:
        """Return a turn that must end in a choice."""
        shapes = {SchemaKind.JSON_SCHEMA: answer_schema, SchemaKind.PATTERN: answer_pattern}
        make = shapes.get(self._shape.output)
        return self._request(schema=make(len(self.offered), self._shape.most) if make else None)

    def search_request(self, answer: str) -> ChatRequest:
        """Return a turn in which the model may search, after it answered that something is missing."""
        self._add(assistant_message(answer), user_message(self._prompt.section("search")))
        return self._request(tools=(RECALL_TOOL,))

    def results_request(
        self, queries: Sequence[str], found: Sequence[Candidate], ignored: Sequence[str] = ()
    ) -> ChatRequest:
        """Show the results of searches, and which filters were ignored, and ask for the final choice.

        Calls are repeated as text, because some models' chat formats do not accept tool calls as input.
        """
        self._sought = " ".join([self._task.query, *queries])
        calls = "\n".join(f"recall(query={quote(query)})" for query in queries)
        lines = self._offer(found)
        results = self._fill(self._prompt.section("results"), lines)
        final = self._fill(self._prompt.section("final"), lines)
        without = f"Ignored filters, unknown or impossible: {', '.join(ignored)}\n" if ignored else ""
        self._add(assistant_message(calls or "recall()"), user_message(f"{without}{results}\n{final}"))
        return self.choice_request()

    def repair_request(self, answer: str) -> ChatRequest:
        """Ask again after an answer that could not be parsed."""
        self._add(
            assistant_message(clip_middle(answer, 400) or "(nothing)"), user_message(self._prompt.section("repair"))
        )
        return self.choice_request()

    def _opening(self) -> tuple[Message, ...]:
        """Return rules and examples, without the last examples if the window is too small."""
        prefix = self._prompt.prefix()
        if self._shape.output is SchemaKind.PATTERN:
            prefix = tuple(map(_in_pattern, prefix))
        first = estimate_tokens(self._fill(self._prompt.user, [])) + 200
        while len(prefix) > 2 and estimate_messages(prefix) + first > self._tokens_left:
            prefix = prefix[:-2]
        self._tokens_left -= estimate_messages(prefix) + first - 200
        return prefix

    def _offer(self, candidates: Sequence[Candidate]) -> list[str]:
        """Add the candidates that fit and return their numbered lines."""
        lines: list[str] = []
        for number, candidate in enumerate(candidates, len(self.offered) + 1):
            line = f"[{number}] {candidate_text(candidate, self._present, self._task, self._sought)}"
            cost = estimate_tokens(line) + 1
            if cost > self._tokens_left:
                break
            self._tokens_left -= cost
            lines.append(line)
        self.offered += candidates[: len(lines)]
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


def _in_pattern(message: Message) -> Message:
    """Rewrite an example's answer in the pattern format."""
    if message["role"] != "assistant":
        return message
    answer = parse_choice(message["content"], 99)
    written = ",".join(map(str, answer.ids)) or "none" if isinstance(answer, Choice) else message["content"]
    return assistant_message(json.dumps(written))


def candidate_text(candidate: Candidate, present: Callable[[str], str], task: SelectionTask, sought: str) -> str:
    """Return `2026-02-11 "text"`: the day a memory is about or was noted, and its quoted text.

    Of a long text, it is the part that says most of what is `sought`. A mark before it says that the memory is
    superseded.
    """
    memory = candidate.memory
    shown = shown_day(memory, task.now.tzinfo or UTC)
    day = f"{shown.isoformat()} " if shown else ""
    text = excerpt(present(passage_text(memory)), _CANDIDATE_CHARACTERS, sought)
    text = attributed(text, memory.scope.user, task.user)
    state = f"({OUTDATED}) " if is_superseded(memory, task.now) else ""
    return f"{day}{state}{quote(text)}"


def present_day(now: datetime) -> str:
    """Return the present day and the time zone in which it is that day."""
    return f"{now.date().isoformat()} ({zone_name(now.tzinfo)})"


def task_lines(task: SelectionTask, present: Callable[[str], str]) -> str:
    """Return the task as labelled, quoted lines; earlier turns come first, oldest first."""

    def line(label: str, text: str, limit: int) -> str:
        return f"{label}: {quote(clip_middle(present(text), limit))}"

    turns = [turn for turn in task.recent_messages if turn.content.strip()][-_TURNS:]
    lines = [line(f"Earlier ({neutralise(turn.role)[:20]})", turn.content, _TURN_CHARACTERS) for turn in turns]
    description = (task.task_description or "").strip()
    if description and description != task.message.strip():
        lines.append(line("Description", description, _DESCRIPTION_CHARACTERS))
    lines.append(line("Message", task.message, _MESSAGE_CHARACTERS))
    return "\n".join(lines)
