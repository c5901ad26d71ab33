"""Injected blocks in a conversation's history: find, strip and cap them. Pure, standard library only.

Messages are what chat interfaces take: strings, or mappings with `role` and `content` (OpenAI chat, Anthropic), or
items of OpenAI's responses interface. `content` is a string or a list of parts; parts with `text` are looked at, all
others are left alone: images, tool calls, and above all tool results. Blocks are looked for where callers put them, in
messages of users, systems and developers; what the model itself says is never changed.

No function changes what it is given. Messages in which nothing changes are returned as they are; a message, or part of
one, that is nothing but a block goes with it.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar, overload

from .blocks import block_id, drop_blocks, find_blocks, strip_blocks

INJECTED_ROLES = frozenset({"user", "system", "developer"})
TEXT_PARTS = frozenset({"text", "input_text", "output_text"})

Message = TypeVar("Message")
Unwanted = Callable[[str], bool]

_GONE: Any = object()


@dataclass(frozen=True, slots=True)
class FoundBlock:
    """A block in a history: the place of its message, its id and its whole text."""

    message: int
    block_id: str
    text: str


def find_blocks_in(messages: Sequence[Any]) -> list[FoundBlock]:
    """Every injected block, oldest first."""
    return [
        FoundBlock(place, block_id(block), block)
        for place, message in enumerate(messages)
        for text in _injectable(message)
        for block in find_blocks(text)
    ]


def visible_block_ids(messages: Sequence[Any]) -> tuple[str, ...]:
    """Ids of the blocks that a history still shows, each once: the `visible_blocks` of a request or event."""
    return tuple(dict.fromkeys(found.block_id for found in find_blocks_in(messages)))


def strip_messages(messages: Sequence[Message]) -> list[Message]:
    """The history without any injected block."""
    return _without(messages, lambda block: True)


@overload
def strip(given: str) -> str: ...
@overload
def strip(given: list[Message]) -> list[Message]: ...
def strip(given: Any) -> Any:
    """A text or a history without any injected block; see `strip_blocks` and `strip_messages`."""
    return strip_blocks(given) if isinstance(given, str) else strip_messages(given)


def cap_blocks(messages: Sequence[Message], keep: int, *, adding: int = 1) -> list[Message]:
    """The history with the oldest blocks taken out, so that `keep` are in it once `adding` new ones are added.

    `keep` is a result's `history_cap`; 0 takes all of them out. Raises `ValueError` for negative numbers.
    """
    if keep < 0 or adding < 0:
        raise ValueError("keep and adding must not be negative")
    surplus = len(find_blocks_in(messages)) - max(0, keep - adding)
    seen = 0

    def is_surplus(_: str) -> bool:
        nonlocal seen
        seen += 1
        return seen <= surplus

    return _without(messages, is_surplus) if surplus > 0 else list(messages)


def transcript(messages: Sequence[Any]) -> str:
    """The conversation as plain text for a summary, `role: text` per message, without blocks, whoever repeats them.

    Parts that are no text are left out, but for the text of tool results.
    """
    turns = ((_role(message), "\n".join(_spoken(message))) for message in messages)
    return "\n\n".join(f"{role}: {text}" for role, text in turns if text)


def _without(messages: Sequence[Message], unwanted: Unwanted) -> list[Message]:
    stripped = [_message_without(message, unwanted) for message in messages]
    return [message for message in stripped if message is not _GONE]


def _message_without(message: Any, unwanted: Unwanted) -> Any:
    """The message without unwanted blocks, `message` itself where it has none, `_GONE` where nothing is left."""
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
        changed = [part for part in parts if part is not _GONE] or _GONE
    if changed is content or changed is _GONE:
        return message if changed is content else _GONE
    return {**message, "content": changed}


def _part_without(part: Any, unwanted: Unwanted) -> Any:
    text = _part_text(part)
    if text is None:
        return part
    changed = _text_without(text, unwanted)
    if changed is text or changed is _GONE:
        return part if changed is text else _GONE
    return changed if isinstance(part, str) else {**part, "text": changed}


def _text_without(text: str, unwanted: Unwanted) -> Any:
    changed = drop_blocks(text, unwanted)
    if changed == text:
        return text
    return changed if changed.strip() else _GONE


def _may_hold_blocks(message: Any) -> bool:
    if not isinstance(message, Mapping) or message.get("role") not in INJECTED_ROLES:
        return False
    return isinstance(message.get("content"), str | list | tuple)


def _injectable(message: Any) -> Iterator[str]:
    """The texts of a message in which injected blocks may stand."""
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
    """Every text of a message, blocks taken out."""
    sources = [message] if isinstance(message, str) else []
    if isinstance(message, Mapping):
        content = message.get("content")
        sources = [*_texts(content), *_texts(message.get("output"))]
        if isinstance(content, list | tuple):
            results = [part for part in content if isinstance(part, Mapping) and part.get("type") == "tool_result"]
            sources += [text for part in results for text in _texts(part.get("content"))]
    yield from (text for source in sources if (text := strip_blocks(source).strip()))
