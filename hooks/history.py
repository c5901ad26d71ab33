"""Find, strip and cap the injected blocks in a conversation's history.

A message is a string, a mapping with `role` and `content` (OpenAI chat, Anthropic) or an item of OpenAI's Responses
API. `content` is a string or a list of parts. Only text parts are searched, not images, tool calls or tool results, and
only messages of users, systems and developers. Messages of the model never change.

Only blocks with a mark of the service count, and each mark once: what a person pasted or forged stays in the message.

Functions return new lists with unchanged messages as they are. A message or part that held only a block is removed.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar, overload

from .contract.blocks import block_id, drop_blocks, find_alike, find_blocks, mark_of, strip_blocks

INJECTED_ROLES = frozenset({"user", "system", "developer"})
TEXT_PARTS = frozenset({"text", "input_text", "output_text"})

Message = TypeVar("Message")
Unwanted = Callable[[str], bool]

_REMOVED: Any = object()


@dataclass(frozen=True, slots=True)
class FoundBlock:
    """A block in a history: the index of its message, its id and its text."""

    message: int
    block_id: str
    text: str


def find_blocks_in(messages: Sequence[Any]) -> list[FoundBlock]:
    """Return every injected block, oldest first."""
    is_first = _first_of_its_mark()
    return [
        FoundBlock(index, block_id(block), block)
        for index, message in enumerate(messages)
        for text in _injectable(message)
        for block in find_blocks(text)
        if is_first(block)
    ]


def visible_block_ids(messages: Sequence[Any]) -> tuple[str, ...]:
    """Return the distinct block ids in a history, for `visible_blocks` of a request or event.

    Copies and blocks in a host's own frame count too: their memories are in the context. The service ignores other ids.
    """
    texts = (text for message in messages for text in _injectable(message))
    return tuple(dict.fromkeys(block_id(block) for text in texts for block in find_alike(text)))


def strip_messages(messages: Sequence[Message]) -> list[Message]:
    """Return the history without injected blocks."""
    return _without(messages, _first_of_its_mark())


@overload
def strip(given: str) -> str: ...
@overload
def strip(given: list[Message]) -> list[Message]: ...
def strip(given: Any) -> Any:
    """Return a text or a history without injected blocks."""
    return strip_blocks(given) if isinstance(given, str) else strip_messages(given)


def cap_blocks(messages: Sequence[Message], keep: int, *, adding: int = 1) -> list[Message]:
    """Remove the oldest blocks, so that `keep` remain after `adding` new ones.

    Pass a result's `history_cap` as `keep`. Raise `ValueError` for negative numbers.
    """
    if keep < 0 or adding < 0:
        raise ValueError("keep and adding must not be negative")
    surplus = len(find_blocks_in(messages)) - max(0, keep - adding)
    seen, is_first = 0, _first_of_its_mark()

    def is_surplus(block: str) -> bool:
        nonlocal seen
        first = is_first(block)
        seen += first
        return first and seen <= surplus

    return _without(messages, is_surplus) if surplus > 0 else list(messages)


def transcript(messages: Sequence[Any]) -> str:
    """Return the conversation as plain text for a summary, one `role: text` per message, without blocks.

    Includes the text of tool results, but no other non-text parts.
    """
    turns = ((_role(message), "\n".join(_spoken(message))) for message in messages)
    return "\n\n".join(f"{role}: {text}" for role, text in turns if text)


def _first_of_its_mark() -> Unwanted:
    """Return a function that tells the first block with a mark from copies, which somebody has pasted."""
    marks: set[str | None] = set()

    def is_first(block: str) -> bool:
        mark = mark_of(block)
        known = mark in marks
        marks.add(mark)
        return not known

    return is_first


def _without(messages: Sequence[Message], unwanted: Unwanted) -> list[Message]:
    stripped = [_message_without(message, unwanted) for message in messages]
    return [message for message in stripped if message is not _REMOVED]


def _message_without(message: Any, unwanted: Unwanted) -> Any:
    """Return the message without unwanted blocks: `message` itself if unchanged, `_REMOVED` if nothing is left."""
    if isinstance(message, str):
        return _text_without(message, unwanted)
    if not _may_hold_blocks(message):
        return message
    content = message["content"]
    if isinstance(content, str):
        changed: Any = _text_without(content, unwanted)
    else:
        parts = [_part_without(part, unwanted) for part in content]
        if all(new is old for new, old in zip(parts, content, strict=True)):
            return message
        changed = [part for part in parts if part is not _REMOVED] or _REMOVED
    if changed is content or changed is _REMOVED:
        return message if changed is content else _REMOVED
    return {**message, "content": changed}


def _part_without(part: Any, unwanted: Unwanted) -> Any:
    text = _part_text(part)
    if text is None:
        return part
    changed = _text_without(text, unwanted)
    if changed is text or changed is _REMOVED:
        return part if changed is text else _REMOVED
    return changed if isinstance(part, str) else {**part, "text": changed}


def _text_without(text: str, unwanted: Unwanted) -> Any:
    changed = drop_blocks(text, unwanted)
    if changed == text:
        return text
    return changed if changed.strip() else _REMOVED


def _may_hold_blocks(message: Any) -> bool:
    if not isinstance(message, Mapping) or message.get("role") not in INJECTED_ROLES:
        return False
    return isinstance(message.get("content"), str | list | tuple)


def _injectable(message: Any) -> Iterator[str]:
    if isinstance(message, str):
        yield message
    elif _may_hold_blocks(message):
        yield from _texts(message["content"])


def _texts(content: Any) -> Iterator[str]:
    if isinstance(content, str):
        yield content
    elif isinstance(content, list | tuple):
        yield from (text for part in content if (text := _part_text(part)) is not None)


def _part_text(part: Any) -> str | None:
    if isinstance(part, str):
        return part
    if isinstance(part, Mapping) and part.get("type", "text") in TEXT_PARTS and isinstance(part.get("text"), str):
        return str(part["text"])
    return None


def _role(message: Any) -> str:
    if not isinstance(message, Mapping):
        return "user"
    return str(message.get("role") or ("tool" if "output" in message else message.get("type", "user")))


def _spoken(message: Any) -> Iterator[str]:
    """Yield every text of a message without blocks."""
    sources = [message] if isinstance(message, str) else []
    if isinstance(message, Mapping):
        content = message.get("content")
        sources = [*_texts(content), *_texts(message.get("output"))]
        if isinstance(content, list | tuple):
            results = [part for part in content if isinstance(part, Mapping) and part.get("type") == "tool_result"]
            sources += [text for part in results for text in _texts(part.get("content"))]
    yield from (text for source in sources if (text := strip_blocks(source).strip()))
