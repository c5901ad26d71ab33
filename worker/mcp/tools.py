"""The tools: arguments of a model in, operations of the service, a bounded answer out. No decisions about memory here.

Everything that goes wrong is told to the model as the result of its call, in words that say what to do.
"""

import asyncio
import logging
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import datetime
from typing import Annotated, Any

from fastmcp.exceptions import ToolError
from fastmcp.tools.base import ToolResult
from pydantic import AfterValidator, BaseModel, BeforeValidator, Field, ValidationError

from hooks.contract import Key
from worker.domain.errors import MeeseeksError, NotFound
from worker.domain.kinds import Budget
from worker.domain.memory import MemoryType
from worker.operations.memories import FORGET, REMEMBER, SHOW
from worker.operations.requests import RECALL
from worker.transfer.entries import MAX_CONTENT_CHARS, split_names

from .results import (
    ToolForgetResult,
    ToolRememberResult,
    forget_text,
    recall_result,
    recall_text,
    remember_text,
    shown_id,
)
from .scope import Backend, ToolScope

BUDGET_S = 5.0
"""Seconds that an operation may take in the service."""

LIMIT_S = 30.0
"""Seconds after which a call is given up, whatever it waits for; without a service the store is opened first."""

MOST_NAMED = 20
"""Names, channels or memories that one call may name."""

SOURCE = "mcp"
"""Where memories that come through these tools are said to come from."""

_listed = BeforeValidator(lambda value: split_names(value) if isinstance(value, str) else value)
"""Models write a list as text now and then."""


def _checked_moment(value: str) -> str:
    try:
        datetime.fromisoformat(value)
    except ValueError as error:
        raise ValueError("write a day as 2026-03-01, or a time as 2026-03-01T09:30:00Z") from error
    return value


_Moment = Annotated[str, AfterValidator(_checked_moment)]


def _about(text: str, **limits: Any) -> Any:
    return Field(description=text, **limits)


Query = Annotated[str, _about("What to look for, in a few words or names.", min_length=1, max_length=2000)]
Limit = Annotated[int, _about("Most memories to bring.", ge=1, le=30)]
Types = Annotated[list[MemoryType], _listed, _about("Only these types; none means all.")]
Entities = Annotated[list[str], _listed, _about("Only about one of these names, written whole.", max_length=MOST_NAMED)]
Channels = Annotated[list[str], _listed, _about("Only said in one of these channels.", max_length=MOST_NAMED)]
Since = Annotated[_Moment | None, _about("Only noted or happened from this day or time on, as 2026-03-01.")]
Until = Annotated[_Moment | None, _about("Only up to this day, which is included, or this time.")]
HowWide = Annotated[
    Budget | None,
    _about("low: the words of the query alone; mid: links, names and times too; high: each part of it by itself too."),
]
History = Annotated[bool, _about("Also what is out of date, marked as such.")]
Content = Annotated[
    str, _about("One thing, in a sentence that stands alone.", min_length=1, max_length=MAX_CONTENT_CHARS)
]
Kind = Annotated[MemoryType, _about("What kind of memory it is.")]
Importance = Annotated[float, _about("0 to 1; 0.5 is usual.", ge=0.0, le=1.0)]
Names = Annotated[list[str], _listed, _about("Names that it is about, written whole.", max_length=MOST_NAMED)]
Happened = Annotated[_Moment | None, _about("Day or time at which it happened, as 2026-03-01, where that is not now.")]
Expires = Annotated[_Moment | None, _about("Day or time from which on it no longer holds.")]
Replaced = Annotated[
    list[Key], _listed, _about("Ids, as recall gives them, of what it makes out of date.", max_length=MOST_NAMED)
]
Ids = Annotated[list[Key], _listed, _about("Ids, as recall gives them.", min_length=1, max_length=MOST_NAMED)]


class MemoryTools:
    """The tools of one server. `whose` says for the call at hand whose memories it may touch."""

    def __init__(self, backend: Backend, whose: Callable[[], ToolScope]) -> None:
        self._backend = backend
        self._whose = whose

    async def recall(
        self,
        query: Query,
        limit: Limit = 8,
        types: Types = [],  # noqa: B006 - never changed; the schema shows it as the default
        entities: Entities = [],  # noqa: B006
        since: Since = None,
        until: Until = None,
        channels: Channels = [],  # noqa: B006
        budget: HowWide = None,
        history: History = False,
    ) -> ToolResult:
        """Search what people and agents have noted before: facts, decisions, preferences, events, todos.

        Use it when the task depends on something that this conversation does not say. Ask for one thing at a time.
        Memories come best first, each with its id and date.
        """
        whose = self._whose()
        payload = {
            "query": query,
            "limit": limit,
            "types": types,
            "entities": entities,
            "since": since,
            "until": until,
            "channels": channels,
            "budget": budget,
            "history": history,
            "scope": whose.searched,
            "agent_id": whose.agent,
        }
        with _telling():
            result = recall_result(await self._ask(RECALL, payload))
        return _answer(result, recall_text(result))

    async def remember(
        self,
        content: Content,
        type: Kind = MemoryType.FACT,  # noqa: A002 - the field's name everywhere else
        importance: Importance = 0.5,
        entities: Names = [],  # noqa: B006
        occurred_at: Happened = None,
        valid_until: Expires = None,
        supersedes: Replaced = [],  # noqa: B006
    ) -> ToolResult:
        """Remember one thing for later conversations. Saying the same twice stores it once.

        For what stays true beyond this task: decisions and their reasons, preferences, facts that were hard to find.
        Not for secrets, nor for what files or tools can tell at any time. Where it replaces memories, name their ids.
        """
        whose = self._whose()
        fields = {
            "content": content,
            "type": type,
            "importance": importance,
            "entities": entities,
            "occurred_at": occurred_at,
            "valid_until": valid_until,
            "relations": [{"kind": "supersedes", "target": target} for target in supersedes],
            "scope": whose.owner,
            "source": SOURCE,
        }
        memory = {name: value for name, value in fields.items() if value is not None}
        with _telling():
            _, unknown = await self._own(supersedes, whose)
            if unknown:
                raise _told(f"nothing was stored: {_not_there(unknown)}")
            stored = await self._ask(REMEMBER, {"tenant": whose.tenant, "memory": memory})
        result = ToolRememberResult(id=stored["id"], stored=stored["stored"])
        return _answer(result, remember_text(result))

    async def forget(self, ids: Ids) -> ToolResult:
        """Delete memories for good, with every mention of them in others.

        Only when the user asks for it, or where a memory was never true. What has changed is better replaced: remember
        what holds now, with the old ids as `supersedes`.
        """
        whose = self._whose()
        with _telling():
            own, unknown = await self._own(ids, whose)
            if not own:
                raise _told(f"nothing was forgotten: {_not_there(unknown)}")
            await self._ask(FORGET, {"tenant": whose.tenant, "ids": own})
        result = ToolForgetResult(forgotten=own, not_found=unknown)
        return _answer(result, forget_text(result))

    async def _own(self, ids: Sequence[str], whose: ToolScope) -> tuple[list[str], list[str]]:
        """Those ids that the caller may change, and those that are not there or somebody else's."""
        wanted = list(dict.fromkeys(ids))
        own = [key for key in wanted if await self._is_own(key, whose)]
        return own, [key for key in wanted if key not in own]

    async def _is_own(self, memory_id: str, whose: ToolScope) -> bool:
        try:
            found = await self._ask(SHOW, {"tenant": whose.tenant, "id": memory_id})
        except NotFound:
            return False
        return whose.owns(found["memory"])

    async def _ask(self, operation: str, payload: dict[str, Any]) -> dict[str, Any]:
        async with asyncio.timeout(LIMIT_S):
            return await self._backend.call(operation, payload, budget=BUDGET_S)


@contextmanager
def _telling() -> Iterator[None]:
    """Errors of the service become words for the model."""
    try:
        yield
    except MeeseeksError as error:
        raise _told(str(error)) from error
    except TimeoutError as error:
        raise _told("memory did not answer in time; go on without it, or try again later") from error


def faults_of(error: ValidationError) -> str:
    """What is wrong with arguments, without repeating them."""
    faults = error.errors(include_url=False, include_input=False, include_context=False)
    return "; ".join(f"{'.'.join(map(str, fault['loc']))}: {fault['msg']}" for fault in faults[:5])


def _told(words: str) -> ToolError:
    """An expected failure, for the model; the library is not to log it as a fault of ours."""
    return ToolError(words, log_level=logging.DEBUG)


def _not_there(ids: Sequence[str]) -> str:
    named = ", ".join(map(shown_id, ids))
    return f"there is no memory of yours by the id {named}; recall gives the ids"


def _answer(result: BaseModel, text: str) -> ToolResult:
    return ToolResult(content=text, structured_content=result.model_dump(mode="json"))
