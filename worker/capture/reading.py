"""Ask a chat model what a window says: numbers in, numbers out."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from hooks.contract import Reason
from worker.domain.capture import WindowTurn
from worker.domain.cues import MAX_CUE_CHARS
from worker.domain.deadline import Deadline
from worker.domain.errors import ModelError, PromptError
from worker.domain.memory import Memory
from worker.domain.model_calls import ChatRequest, ModelUsage
from worker.ports.models import ChatModel
from worker.text.rendering import shown_text
from worker.triage.answer_parsing import objects_in
from worker.triage.prompt_files import Prompt, quote, user_message

from .window import Window

CAPTURE_PROMPT = "capture"
MEMORY_CHARS = 300
MOST_TEXT = 400
"""Characters of the text of a memory."""

MOST_NUMBERS = 12
MOST_CUES = 3
_LISTS = ("operations", "ops", "memories", "changes")


@dataclass(frozen=True, slots=True)
class RawOperation:
    """An operation as the model gave it, with numbers of turns and of the memory it is about."""

    turns: tuple[int, ...]
    kind: str
    target: int | None
    about: str
    type: str
    text: str
    when: str | None
    cues: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Answer:
    """The operations of a window, and what the call took."""

    operations: tuple[RawOperation, ...]
    usage: ModelUsage | None = None


class CaptureReader:
    """Reads windows with a model and a prompt; raise `PromptError` if the prompt cannot be used."""

    def __init__(self, model: ChatModel, prompt: Prompt) -> None:
        check_capture_prompt(prompt)
        self._model = model
        self._prompt = prompt
        self.markers = tuple(name.strip().casefold() for name in prompt.section("markers").split(",") if name.strip())

    @property
    def model(self) -> str:
        return self._model.name

    @property
    def prompt_id(self) -> str:
        return self._prompt.name

    async def read(self, window: Window, candidates: Sequence[Memory], deadline: Deadline) -> Answer:
        """Return what the window says. Raise `ModelError` if the model fails or its answer is unusable."""
        request = ChatRequest(
            self._messages(window, candidates),
            schema=_SCHEMA,
            max_tokens=self._prompt.max_tokens,
            temperature=self._prompt.temperature,
        )
        reply = await self._model.complete(request, deadline)
        found = parse_operations(reply.text)
        if found is None:
            raise ModelError(Reason.MODEL_UNPARSEABLE, f"{self.model}: the answer has no operations in a known form")
        return Answer(found, reply.usage)

    def _messages(self, window: Window, candidates: Sequence[Memory]) -> tuple[dict[str, Any], ...]:
        stored = (
            f"[{place}] {quote(shown_text(memory.content, MEMORY_CHARS, mask=True))}"
            for place, memory in enumerate(candidates, 1)
        )
        turns = (_line(place, turn) for place, turn in enumerate(window.turns, 1))
        values = {"candidates": "\n".join(stored) or "none", "turns": "\n".join(turns)}
        return (*self._prompt.prefix(), user_message(self._prompt.fill(self._prompt.user, values)))


def check_capture_prompt(prompt: Prompt) -> None:
    """Raise `PromptError` if the prompt does not show what is to be read, or has no names of its examples."""
    if prompt.variables != {"candidates", "turns"}:
        raise PromptError(
            f"prompt {prompt.name}: '# User' must use {{{{candidates}}}} and {{{{turns}}}}, and nothing else"
        )
    prompt.section("markers")


def _line(place: int, turn: WindowTurn) -> str:
    about = [f"{turn.at:%Y-%m-%d %A}"] if turn.at is not None else []
    about += [] if turn.evidence or turn.role != "user" else ["older"]
    marks = f" ({', '.join(about)})" if about else ""
    return f"[{place}] {turn.role}{marks}: {quote(turn.text)}"


def parse_operations(text: str) -> tuple[RawOperation, ...] | None:
    """Return the operations of an answer, `None` if it has none in a known form; faulty ones are left out."""
    for value in objects_in(text):
        listed = value if isinstance(value, list) else None
        if isinstance(value, dict):
            listed = next((value[key] for key in _LISTS if isinstance(value.get(key), list)), None)
            listed = [value] if listed is None and "text" in value and "turns" in value else listed
        if listed is not None:
            found = (_operation(one) for one in listed if isinstance(one, dict))
            return tuple(one for one in found if one is not None)
    return None


def _operation(value: dict[str, Any]) -> RawOperation | None:
    text = value.get("text")
    if not isinstance(text, str) or not 0 < len(text.strip()) <= MOST_TEXT:
        return None
    turns = value.get("turns", value.get("turn"))
    numbers = turns if isinstance(turns, list) else [turns]
    found = [number for one in numbers[:MOST_NUMBERS] if (number := _number(one)) is not None]
    when = value.get("when")
    cues = value.get("cues")
    return RawOperation(
        turns=tuple(found),
        kind=str(value.get("op") or "add").strip().casefold(),
        target=_number(value.get("target")),
        about=str(value.get("about") or "user").strip().casefold(),
        type=str(value.get("type") or "fact").strip().casefold(),
        text=" ".join(text.split()),
        when=when if isinstance(when, str) and when.strip() else None,
        cues=_cues(cues) if isinstance(cues, list) else (),
    )


def _cues(values: list[Any]) -> tuple[str, ...]:
    texts = (value.strip() for value in values if isinstance(value, str))
    return tuple(text for text in texts if 0 < len(text) <= MAX_CUE_CHARS)[:MOST_CUES]


def _number(value: Any) -> int | None:
    """Return a number, also from a text such as "[2]"."""
    if isinstance(value, bool) or value is None:
        return None
    digits = str(value).strip().strip("[]# ")
    return int(digits) if digits.isascii() and digits.isdecimal() and len(digits) < 4 else None


_TEXTS = {"type": "array", "items": {"type": "string"}}
_FIELDS = {
    "turns": {"type": "array", "items": {"type": "integer"}},
    "op": {"type": "string", "enum": ["add", "update", "supersede"]},
    "target": {"type": ["integer", "null"]},
    "about": {"type": "string", "enum": ["user", "project", "other"]},
    "type": {"type": "string", "enum": ["fact", "preference", "decision", "goal", "todo", "identity", "event"]},
    "text": {"type": "string"},
    "when": {"type": ["string", "null"]},
    "cues": _TEXTS,
}
_OPERATION = {"type": "object", "properties": _FIELDS, "required": list(_FIELDS), "additionalProperties": False}
_SCHEMA = {
    "type": "object",
    "properties": {"operations": {"type": "array", "items": _OPERATION}},
    "required": ["operations"],
    "additionalProperties": False,
}
