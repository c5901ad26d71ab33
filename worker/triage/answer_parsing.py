"""Parse model answers leniently. Pure; never raises.

The expected answer is `{"relevant":[3,1],"sufficient":true}`. Small models wrap it in fences or prose, think aloud,
write `1,2` or `none`, or write a tool call as text. An ambiguous answer is `Unparseable`, not "nothing is relevant".
"""

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import Any

from hooks.contract import as_given, as_utc
from hooks.contract.dates import end_of_day
from worker.domain.kinds import Budget
from worker.domain.memory import MemoryType, RecallQuery

_MOST_CHARACTERS = 20_000
_MOST_STARTS = 64
"""Maximum attempts to parse JSON in one answer, to limit the work for hostile input."""

_ID_KEYS = ("relevant", "ids", "selected", "chosen", "memories", "indices", "candidates", "answer", "result")
_TOOL_NAME = re.compile(r"recall|search|memor", re.IGNORECASE)
_NAME_KEYS = ("name", "tool", "function", "action")
_QUERY_KEYS = ("query", "q", "text", "search", "search_query", "keywords")


class UnusableAnswer(StrEnum):
    EMPTY = "empty"
    PROSE = "prose"
    TRUNCATED = "truncated"
    UNKNOWN_IDS = "unknown_ids"
    REFUSAL = "refusal"


@dataclass(frozen=True, slots=True)
class Choice:
    """Chosen candidates by number, in the model's order; unique and between 1 and the number offered.

    `unknown` are numbers that were not offered.
    """

    ids: tuple[int, ...] = ()
    sufficient: bool = True
    unknown: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class ToolRequest:
    """A tool call, native or written as text. `arguments` is `None` if they cannot be parsed."""

    name: str
    arguments: Mapping[str, Any] | None = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Unparseable:
    fault: UnusableAnswer


def parse_choice(text: str, offered: int) -> Choice | ToolRequest | Unparseable:
    """Parse an answer about candidates numbered 1 to `offered`."""
    answer = _bare(text[:_MOST_CHARACTERS])
    if not answer:
        return Unparseable(UnusableAnswer.EMPTY)
    for value in _json_values(answer):
        found = _tool_request(value) or _choice(value, offered)
        if found is not None:
            return found
    return _from_text(answer, offered)


def _from_text(answer: str, offered: int) -> Choice | ToolRequest | Unparseable:
    call = _written_call(answer)
    if call is not None:
        return call
    for pattern in (_CLOSED_IDS, _LONE_LIST, _BARE_NUMBERS):
        match = pattern.search(answer)
        if match:
            sufficient = _INSUFFICIENT.search(answer) is None
            return _checked([int(number) for number in re.findall(r"\d{1,9}", match.group(1))], offered, sufficient)
    if _NOTHING.fullmatch(answer):
        return Choice()
    return Unparseable(_fault(answer))


def parse_partial(text: str, offered: int) -> Choice | None:
    """Parse an answer that was cut off; return its complete numbers, or `None` if there are none.

    A last number that nothing follows may lack digits and is ignored.
    """
    answer = _bare(text[:_MOST_CHARACTERS])
    begun = _BEGUN_IDS.search(answer)
    if begun is None:
        return None
    whole = re.match(rf"{_COMPLETE}*", answer[begun.end() :])
    numbers = [int(number) for number in re.findall(r"\d{1,9}", whole.group())] if whole else []
    choice = _checked(numbers, offered, True)
    return choice if isinstance(choice, Choice) and choice.ids else None


def parse_arguments(raw: str) -> Mapping[str, Any] | None:
    """Parse the arguments of a native tool call; a bare string is the query. Return `None` if they are invalid."""
    text = raw.strip()
    if not text:
        return {}
    value = _loaded(text)
    if isinstance(value, str):
        inner = _loaded(value)
        value = inner if isinstance(inner, dict) else {"query": value}
    if value is None and text[0] not in "{[\"'":
        value = {"query": text}
    return value if isinstance(value, dict) else None


def recall_query(request: ToolRequest) -> RecallQuery | None:
    """Return the search that a tool call asks for, without unknown parameters, or `None` if it is not a search."""
    arguments = request.arguments
    if arguments is None or not _TOOL_NAME.search(request.name):
        return None
    query = next((arguments[key] for key in _QUERY_KEYS if isinstance(arguments.get(key), str)), "")
    query = " ".join(query.split())[:300]
    if not query:
        return None
    since, until = _span(arguments)
    return RecallQuery(
        query=query,
        types=tuple(MemoryType(t) for t in _texts(arguments, "types", "type") if t in list(MemoryType)),
        entities=tuple(_texts(arguments, "entities", "entity"))[:5],
        since=since,
        until=until,
        channels=tuple(_texts(arguments, "channels", "channel"))[:5],
        budget=_budget(arguments.get("budget")),
        history=_flag(arguments.get("history")) is True,
        time=next(iter(_texts(arguments, "time")), None) if since is None and until is None else None,
    )


def ignored_filters(request: ToolRequest) -> tuple[str, ...]:
    """Return the arguments that `recall_query` leaves out: unknown ones, and those whose value cannot be."""
    given = {name: value for name, value in (request.arguments or {}).items() if value not in (None, "", [])}
    return tuple(
        name if name.isidentifier() else "unnamed"
        for name in (str(name)[:30] for name in given)
        if name not in _QUERY_KEYS and not _usable(name, given)
    )


def _usable(name: str, arguments: Mapping[str, Any]) -> bool:
    """Return whether the argument limits the search."""
    value, span = arguments.get(name), _span(arguments)
    match name:
        case "since" | "until":
            return span[name == "until"] is not None
        case "time":
            return span == (None, None) and bool(_texts(arguments, "time"))
        case "types" | "type":
            return all(kind in list(MemoryType) for kind in _as_list(value))
        case "entities" | "entity" | "channels" | "channel":
            return bool(_texts(arguments, name))
        case "budget":
            return _budget(value) is not None
        case "history":
            return _flag(value) is not None
    return False


def _span(arguments: Mapping[str, Any]) -> tuple[datetime | None, datetime | None]:
    """Return `since` and `until`, without a value that is no time, and neither if no time is between them."""
    since, until = _moment(arguments.get("since")), _moment(end_of_day(arguments.get("until")))
    impossible = since is not None and until is not None and as_utc(until) < as_utc(since)
    return (None, None) if impossible else (since, until)


def _flag(value: object) -> bool | None:
    return {"true": True, "false": False}.get(str(value).casefold())


def _budget(value: object) -> Budget | None:
    return Budget(value) if isinstance(value, str) and value in list(Budget) else None


def _texts(arguments: Mapping[str, Any], *keys: str) -> list[str]:
    values = [v for key in keys for v in _as_list(arguments.get(key))]
    return [value.strip()[:200] for value in values if isinstance(value, str) and value.strip()]


def _as_list(value: object) -> list[Any]:
    return value if isinstance(value, list) else [value]


def _moment(value: object) -> datetime | None:
    if not isinstance(value, str):
        return None
    try:
        return as_given(datetime.fromisoformat(value.strip()))
    except (ValueError, OverflowError):
        return None


_THOUGHT = re.compile(r"<(think|thinking|reasoning)>.*?(</\1>|\Z)", re.DOTALL | re.IGNORECASE)
_THOUGHT_END = re.compile(r"\A.*</(?:think|thinking|reasoning)>", re.DOTALL | re.IGNORECASE)
_TOKEN = re.compile(r"<\|(?:im_end|im_start|eot_id|end|endoftext|end_of_text|eom_id)\|>|</s>")
_FENCE = re.compile(r"```[a-zA-Z]*")
_BLANKS = re.compile(r"\s+")


def objects_in(text: str) -> Iterator[Any]:
    """Yield the JSON objects in an answer, or the whole answer's value if it is JSON."""
    return _json_values(_bare(text[:_MOST_CHARACTERS]))


def _bare(text: str) -> str:
    """Remove thoughts, control tokens and fences, and collapse white space."""
    text = _THOUGHT_END.sub("", _THOUGHT.sub("", text))
    text = _FENCE.sub("", _TOKEN.sub("", text))
    return _BLANKS.sub(lambda match: "\n" if "\n" in match.group() else " ", text).strip()


_DECODER = json.JSONDecoder()


def _json_values(text: str) -> Iterator[Any]:
    """Yield the JSON objects in the text, or the whole text's value if it is JSON."""
    whole = _loaded(text)
    if whole is not None:
        yield whole
        return
    position = 0
    for _ in range(_MOST_STARTS):
        position = text.find("{", position)
        if position < 0:
            return
        try:
            value, position = _DECODER.raw_decode(text, position)
            yield value
        except (ValueError, RecursionError):
            position += 1


_TRAILING_COMMA = re.compile(r",\s*([\]}])")


def _loaded(text: str) -> Any:
    """Parse JSON, tolerating single quotes and trailing commas; return `None` if it is invalid."""
    tidied = _TRAILING_COMMA.sub(r"\1", text.replace("'", '"')) if text[:1] in ("{", "[") else text
    for version in (text, tidied):
        try:
            return json.loads(version)
        except (ValueError, RecursionError):
            continue
    return None


def _choice(value: object, offered: int) -> Choice | Unparseable | None:
    if isinstance(value, dict):
        return _choice_of_object(value, offered)
    if isinstance(value, bool | float):
        return None
    ids = _ids(value)
    return None if ids is None else _checked(ids, offered, True)


def _choice_of_object(value: dict[Any, Any], offered: int) -> Choice | Unparseable | None:
    key = next((key for key in _ID_KEYS if key in value), None)
    if key is None:
        return _choice_of_flags(value, offered)
    ids = _ids(value[key])
    sufficient = str(value.get("sufficient", True)).lower() not in ("false", "no", "0")
    return None if ids is None else _checked(ids, offered, sufficient)


def _choice_of_flags(value: dict[Any, Any], offered: int) -> Choice | Unparseable | None:
    """Parse `{"1": true, "2": false}`."""
    if not value or not all(_number(key) is not None and isinstance(flag, bool) for key, flag in value.items()):
        return None
    return _checked([number for key, flag in value.items() if flag and (number := _number(key))], offered, True)


def _ids(value: object) -> list[int] | None:
    """Parse a list of numbers, a number, or a text such as "3,1" or "none"; return `None` for anything else."""
    if value is None:
        return []
    if isinstance(value, str):
        return _ids_of_text(value)
    items = list(value) if isinstance(value, list | tuple) else [value]
    numbers = [_number(item.get("id") if isinstance(item, dict) else item) for item in items]
    known = [number for number in numbers if number is not None]
    return known if known or not items else None


def _ids_of_text(text: str) -> list[int] | None:
    if not text.strip() or _NOTHING.fullmatch(text.strip()):
        return []
    match = _BARE_NUMBERS.fullmatch(text.strip())
    return [int(number) for number in re.findall(r"\d{1,9}", match.group(1))] if match else None


def _number(value: object) -> int | None:
    if isinstance(value, bool):
        return None
    if isinstance(value, int | float):
        return int(value) if abs(value) < 1e9 and value == int(value) else None
    match = re.fullmatch(r"\s*[\[#(]?\s*([0-9]{1,9})\s*[\])]?\s*", value) if isinstance(value, str) else None
    return int(match.group(1)) if match else None


def _checked(ids: list[int], offered: int, sufficient: bool) -> Choice | Unparseable:
    distinct = tuple(dict.fromkeys(ids))
    known = tuple(number for number in distinct if 1 <= number <= offered)
    if ids and not known:
        return Unparseable(UnusableAnswer.UNKNOWN_IDS)
    return Choice(known, sufficient, tuple(number for number in distinct if number not in known))


_NUMBERS = r"\s*[\"']?\d{1,9}[\"']?(?:\s*,\s*[\"']?\d{1,9}[\"']?){0,200}\s*,?\s*"
_COMPLETE = r"(?:\s*[\"']?\d{1,9}(?!\d)[\"']?\s*(?:,|(?=[\]\"']))|\s*\d{1,9}(?=\s))"
"""A number in an unfinished list, followed by something."""

_BEGUN_IDS = re.compile(rf"\A(?:.*?[\"']?\b(?:{'|'.join(_ID_KEYS)})[\"']?\s*[:=]\s*[\[\"]|\s*[\[\"])", re.DOTALL)
_CLOSED_IDS = re.compile(rf"[\"']?(?:{'|'.join(_ID_KEYS)})[\"']?\s*[:=]\s*\[({_NUMBERS}|\s*)\]")
_LONE_LIST = re.compile(rf"(?:^|:)[ \t`]*\[({_NUMBERS}|\s*)\][ \t`.!]*$", re.MULTILINE)
_BARE_NUMBERS = re.compile(
    rf"\A(?:(?:{'|'.join(_ID_KEYS)}|id|relevant ids?)\s*[:=]?)?\s*[\[(]?({_NUMBERS})[\])]?\s*\.?\Z", re.IGNORECASE
)
_INSUFFICIENT = re.compile(r"[\"']sufficient[\"']\s*:\s*[\"']?(?:false|no)\b", re.IGNORECASE)
_NOTHING = re.compile(
    r"[\[\](\"'\s]*(?:none|nothing|null|n/?a|empty|\[\s*\]|no\s+(?:relevant\s+)?(?:memor(?:y|ies)|candidates?|notes?|items?))"
    r"(?:\s+(?:is|are)?\s*(?:relevant|needed|useful))?[\])\"'\s.!]*",
    re.IGNORECASE,
)
_REFUSAL = re.compile(
    r"\b(?:i\s*(?:['’]m|am)\s+(?:sorry|unable)|i\s+must\s+decline|as\s+an\s+ai\b"
    r"|i\s+(?:cannot|can['’]t|won['’]t)\s+(?:help|assist|comply|provide|fulfil|do|process|answer))",
    re.IGNORECASE,
)


def _fault(answer: str) -> UnusableAnswer:
    if _REFUSAL.search(answer[:300]):
        return UnusableAnswer.REFUSAL
    opened = answer.count("{") + answer.count("[")
    return UnusableAnswer.TRUNCATED if opened > answer.count("}") + answer.count("]") else UnusableAnswer.PROSE


def _tool_request(value: object, depth: int = 3) -> ToolRequest | None:
    """Parse a tool call in any of the JSON forms that models write."""
    if isinstance(value, list) and depth:
        return next((found for item in value[:5] if (found := _tool_request(item, depth - 1))), None)
    if not isinstance(value, dict):
        return None
    inner = value.get("tool_calls") or value.get("function") or value.get("tool_call")
    if isinstance(inner, dict | list):
        return _tool_request(inner, depth - 1) if depth else None
    name = next((value[key] for key in _NAME_KEYS if isinstance(value.get(key), str)), None)
    if name is None:
        return ToolRequest("recall", _argument_value(value["recall"])) if "recall" in value else None
    if not _TOOL_NAME.search(name):
        return None
    for key in ("arguments", "parameters", "args", "input", "action_input"):
        if key in value:
            return ToolRequest(name, _argument_value(value[key]))
    return ToolRequest(name, {key: item for key, item in value.items() if key not in _NAME_KEYS})


def _argument_value(value: object) -> Mapping[str, Any] | None:
    if isinstance(value, str):
        return parse_arguments(value)
    return value if isinstance(value, dict) else None


_CALL = re.compile(r"\b(\w{0,30}(?:recall|search|memor)\w{0,30})\s?(?:\.call)?\(([^()]{0,600})\)", re.IGNORECASE)
_TAGGED = re.compile(r"<function=(\w+)>(.{0,2000}?)(?:</function>|\Z)", re.DOTALL)
_PARAMETER = re.compile(r"<parameter=(\w+)>\s*(.{0,600}?)\s*</parameter>", re.DOTALL)
_KEYWORD = re.compile(r"(\w+)\s*=\s*(?:\"([^\"]*)\"|'([^']*)')")
_STRING = re.compile(r"\s*(?:\"([^\"]*)\"|'([^']*)')")


def _written_call(answer: str) -> ToolRequest | None:
    """Parse `recall(query="...")`, or `<function=recall>` with JSON or `<parameter=...>` inside."""
    tagged = _TAGGED.search(answer)
    if tagged and _TOOL_NAME.search(tagged.group(1)):
        parameters = dict(_PARAMETER.findall(tagged.group(2)))
        return ToolRequest(tagged.group(1), parameters or parse_arguments(tagged.group(2)))
    call = _CALL.search(answer)
    if call is None:
        return None
    keywords = {name: double or single for name, double, single in _KEYWORD.findall(call.group(2))}
    first = _STRING.match(call.group(2))
    if first and "query" not in keywords:
        keywords["query"] = first.group(1) or first.group(2)
    return ToolRequest(call.group(1), keywords) if keywords else None
