"""Ask a chat model for cues of memories, several memories in one call."""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from hooks.contract import Reason
from worker.domain.cues import MAX_CUE_CHARS, Cue, CueOrigin, cue_key, distinct
from worker.domain.deadline import Deadline
from worker.domain.errors import ModelError, PromptError
from worker.domain.memory import Memory
from worker.domain.model_calls import ChatRequest, ModelUsage
from worker.ports.models import ChatModel
from worker.text.rendering import shown_text

from .answer_parsing import objects_in
from .prompt_files import Prompt, estimate_messages, quote, user_message

CUES_PROMPT = "cues"
MEMORIES_PER_CALL = 5
CUES_PER_MEMORY = 6
TEXT_CHARS = 1_500
"""Characters of a memory that the model reads."""

ANSWER_TOKENS = 110
"""Usual tokens of the cues of one memory."""


MOST_TOKENS = 320
"""Tokens of the cues of one memory after which a model repeats itself."""

_HEAD = re.compile(r"^\s*[#*]*\s*(?:note\s+)?\[?(\d{1,2})\]?\W*$", re.IGNORECASE)
"""The number of a memory, alone on its line."""

_ITEM = re.compile(r"^\s*(?:[-*\u2022]|\(?\d{1,2}[.):])\s+[\"'\u201c]?(.*?\w.*?)[\"'\u201d]?,?\s*$")


@dataclass(frozen=True, slots=True)
class WrittenCues:
    """Cues by memory id, without memories that the model left out, and what the call took."""

    cues: Mapping[str, tuple[Cue, ...]]
    usage: ModelUsage | None = None


class CueWriter:
    """Writes cues with a model and a prompt; raise `PromptError` if the prompt cannot be used."""

    def __init__(self, model: ChatModel, prompt: Prompt) -> None:
        check_cues_prompt(prompt)
        self._model = model
        self._prompt = prompt

    @property
    def model(self) -> str:
        return self._model.name

    @property
    def prompt_id(self) -> str:
        """Return the id and version that each cue keeps."""
        return self._prompt.name

    def estimate(self, memories: Sequence[Memory]) -> tuple[int, int]:
        """Return about how many tokens one call for these memories reads and writes."""
        return estimate_messages(self._messages(memories)), ANSWER_TOKENS * len(memories)

    async def write(self, memories: Sequence[Memory], deadline: Deadline) -> WrittenCues:
        """Return cues for the memories. Raise `ModelError` if the model fails or its answer is unusable."""
        request = ChatRequest(
            self._messages(memories),
            schema=_schema(len(memories)),
            max_tokens=min(self._prompt.max_tokens, MOST_TOKENS * len(memories)),
            temperature=self._prompt.temperature,
        )
        reply = await self._model.complete(request, deadline)
        found = parse_cues(reply.text, len(memories))
        if found is None:
            raise ModelError(Reason.MODEL_UNPARSEABLE, f"{self.model}: the answer has no cues in a known form")
        cues = {memories[place - 1].id: self._cues(memories[place - 1], texts) for place, texts in found.items()}
        return WrittenCues({key: value for key, value in cues.items() if value}, reply.usage)

    def _messages(self, memories: Sequence[Memory]) -> tuple[dict[str, Any], ...]:
        lines = (
            f"[{place}] {quote(shown_text(memory.content, TEXT_CHARS, mask=True))}"
            for place, memory in enumerate(memories, 1)
        )
        asked = self._prompt.fill(self._prompt.user, {"memories": "\n".join(lines)})
        return (*self._prompt.prefix(), user_message(asked))

    def _cues(self, memory: Memory, texts: Sequence[str]) -> tuple[Cue, ...]:
        cues = (Cue(text=text, origin=CueOrigin.MODEL, prompt=self.prompt_id) for text in texts)
        return distinct(cue for cue in cues if cue_key(cue.text) != cue_key(memory.content))[:CUES_PER_MEMORY]


def check_cues_prompt(prompt: Prompt) -> None:
    """Raise `PromptError` if the prompt does not show the memories, or expects something else."""
    if prompt.variables != {"memories"} or "memories" not in prompt.user:
        raise PromptError(f"prompt {prompt.name}: '# User' must use {{{{memories}}}} and nothing else")


def parse_cues(text: str, number: int) -> dict[int, list[str]] | None:
    """Return the cues by number of the memory, 1 to `number`; `None` if the answer has none.

    Small models do not always answer with the object that they are asked for, so a list is taken if there is only one
    memory, and so are lines: a list of cues, below the number of their memory if there are several. Cues that are blank
    or too long are left out.
    """
    for value in objects_in(text):
        named = _named(value, number)
        if isinstance(named, dict) and (found := dict(_lists(named, number))):
            return found
    return None if "{" in text else _in_lines(text, number)


def _named(value: Any, number: int) -> Any:
    """Return the only list of an answer about one memory under its number."""
    if number == 1 and isinstance(value, dict) and "1" not in value:
        value = next((part for part in value.values() if isinstance(part, list)), value)
    return {"1": value} if number == 1 and isinstance(value, list) else value


def _in_lines(text: str, number: int) -> dict[int, list[str]] | None:
    """Return the cues of an answer that is a list in lines; prose, which has no marks of a list, is none."""
    found: dict[int, list[str]] = {}
    place = 1 if number == 1 else 0
    for line in text.splitlines():
        if head := _HEAD.match(line):
            place = int(head[1])
        elif (item := _ITEM.match(line)) and 1 <= place <= number and len(item[1]) <= MAX_CUE_CHARS:
            found.setdefault(place, []).append(item[1])
    return {key: cues[:CUES_PER_MEMORY] for key, cues in found.items()} or None


def _lists(value: Mapping[str, Any], number: int) -> Iterator[tuple[int, list[str]]]:
    for key, texts in value.items():
        if not (key.isdecimal() and len(key) < 4 and 1 <= int(key) <= number and isinstance(texts, list)):
            continue
        kept = [text for text in texts if isinstance(text, str) and 0 < len(text.strip()) <= MAX_CUE_CHARS]
        yield int(key), kept[:CUES_PER_MEMORY]


def _schema(number: int) -> dict[str, Any]:
    """Return the JSON schema of an answer about `number` memories."""
    cues = {"type": "array", "items": {"type": "string"}}
    keys = [str(place) for place in range(1, number + 1)]
    return {
        "type": "object",
        "properties": dict.fromkeys(keys, cues),
        "required": keys,
        "additionalProperties": False,
    }
