"""The tools: call the service with the model's arguments and return a bounded answer.

Errors reach the model as results that say what to do.
"""

import asyncio
import logging
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import datetime
from typing import Annotated, Any

from fastmcp.exceptions import ToolError
from fastmcp.tools.base import ToolResult
from pydantic import AfterValidator, BaseModel, BeforeValidator, Field

from hooks.contract import Key
from worker.domain.cues import MOST_CUES
from worker.domain.errors import MeeseeksError, NotFound
from worker.domain.kinds import Budget
from worker.domain.memory import MemoryType
from worker.domain.operation import AnyOperation
from worker.domain.zones import DEFAULT_ZONE, ZoneName
from worker.operations.registry import EXPORT, FORGET, RECALL, REMEMBER, SHOW, UPDATE
from worker.transfer.entries import MAX_CONTENT_CHARS, split_names

from .results import (
    ToolForgetResult,
    ToolRememberResult,
    ToolUpdateResult,
    forget_text,
    list_result,
    list_text,
    recall_result,
    recall_text,
    remember_text,
    shown_id,
    update_text,
)
from .scope import Backend, ToolScope

BUDGET_S = 5.0
"""Maximum seconds of an operation in the service."""

LIMIT_S = 30.0
"""Maximum seconds of a call, including opening the store if no service is running."""

MOST_NAMED = 20
"""Maximum names, channels or ids in one call."""

SOURCE = "mcp"
"""The `source` field of memories stored by these tools."""

_listed = BeforeValidator(lambda value: split_names(value) if isinstance(value, str) else value)
"""Some models write a list as text."""


def _checked_moment(value: str) -> str:
    try:
        datetime.fromisoformat(value)
    except ValueError as error:
        raise ValueError("use a day such as 2026-03-01, or a time such as 2026-03-01T09:30:00Z") from error
    return value


_Moment = Annotated[str, AfterValidator(_checked_moment)]


def _about(text: str, **limits: Any) -> Any:
    return Field(description=text, **limits)


Query = Annotated[str, _about("What to search for, in a few words or names.", min_length=1, max_length=2000)]
Limit = Annotated[int, _about("Maximum number of memories.", ge=1, le=30)]
Types = Annotated[list[MemoryType], _listed, _about("Only these types; empty for all.")]
Entities = Annotated[list[str], _listed, _about("Only about one of these full names.", max_length=MOST_NAMED)]
Channels = Annotated[list[str], _listed, _about("Only from one of these channels.", max_length=MOST_NAMED)]
Entity = Annotated[str | None, _about("Only about this person or thing, by full name.")]
Channel = Annotated[str | None, _about("Only from this channel.")]
Time = Annotated[
    str | None,
    _about("Only noted or happened then: a day, a month, 2026-03-01/2026-03-31, last week, since March."),
]
Since = Annotated[_Moment | None, _about("Only noted or happened since this day or time, such as 2026-03-01.")]
Until = Annotated[_Moment | None, _about("Only up to this day (included) or time.")]
Zone = Annotated[ZoneName | None, _about("Time zone of these dates, such as Europe/Zurich, if not the usual one.")]
HowWide = Annotated[
    Budget | None,
    _about("low: the query's words only; mid: also links, names and times; high: also each part of the query."),
]
History = Annotated[bool, _about("Include outdated memories, marked as such.")]
Content = Annotated[str, _about("One thing, in a self-contained sentence.", min_length=1, max_length=MAX_CONTENT_CHARS)]
Kind = Annotated[MemoryType, _about("Type of the memory.")]
Importance = Annotated[float, _about("From 0 to 1; 0.5 is usual.", ge=0.0, le=1.0)]
Pinned = Annotated[bool, _about("Give it with every message from now on; only if the user asks for that.", strict=True)]
NewPinned = Annotated[
    bool | None,
    _about("Give it with every message from now on, or no longer; only if the user asks for that.", strict=True),
]
Names = Annotated[list[str], _listed, _about("Full names of what it is about.", max_length=MOST_NAMED)]
Happened = Annotated[_Moment | None, _about("Day or time when it happened, such as 2026-03-01, if not now.")]
Expires = Annotated[_Moment | None, _about("Day or time when it stops being true.")]
Replaced = Annotated[
    list[Key], _listed, _about("Ids of memories that it replaces, from recall.", max_length=MOST_NAMED)
]
Id = Annotated[Key, _about("Id of the memory, from recall or list.")]
NewContent = Annotated[
    str | None,
    _about("New text: one thing, in a self-contained sentence.", min_length=1, max_length=MAX_CONTENT_CHARS),
]
NewKind = Annotated[MemoryType | None, _about("New type.")]
NewImportance = Annotated[float | None, _about("New importance, from 0 to 1.", ge=0.0, le=1.0)]
NewNames = Annotated[list[str] | None, _listed, _about("New full names of what it is about.", max_length=MOST_NAMED)]
ListLimit = Annotated[int, _about("Maximum number of memories.", ge=1, le=100)]
CueTexts = Annotated[
    list[str],
    _about(
        "Three to six short messages, as the user would type them, at which this memory would matter but which say "
        'something else: "book the usual restaurant for Dana" for "Dana likes Osteria Lume best". Include a question '
        "and a job, with names and words of the memory's language. They are only used to find it.",
        max_length=MOST_CUES,
    ),
]
Ids = Annotated[list[Key], _listed, _about("Ids of memories, from recall.", min_length=1, max_length=MOST_NAMED)]


class MemoryTools:
    """The tools of one server; `scope_of_call` returns the scope of the current call."""

    def __init__(self, backend: Backend, scope_of_call: Callable[[], ToolScope]) -> None:
        self._backend = backend
        self._scope_of_call = scope_of_call

    async def recall(
        self,
        query: Query,
        limit: Limit = 8,
        types: Types = [],  # noqa: B006 - never changed; the schema shows it as the default
        entities: Entities = [],  # noqa: B006
        entity: Entity = None,
        since: Since = None,
        until: Until = None,
        time: Time = None,
        channels: Channels = [],  # noqa: B006
        channel: Channel = None,
        budget: HowWide = None,
        history: History = False,
        tz: Zone = None,
    ) -> ToolResult:
        """Search notes of people and agents: facts, decisions, preferences, events, todos.

        Use it when the task depends on something that this conversation does not say. Search for one thing at a time.
        Results come best first, each with its id, date and relevance (0 to 1). Nothing comes back if nothing is near.
        """
        scope = self._scope()
        payload = {
            "query": query,
            "limit": limit,
            "types": types,
            "entities": entities,
            "entity": entity,
            "since": since,
            "until": until,
            "time": time,
            "channels": channels,
            "channel": channel,
            "budget": budget,
            "history": history,
            "tz": tz,
            "scope": scope.searched,
            "agent_id": scope.agent,
            "only_relevant": not (types or entities or entity or since or until or time or channels or channel),
        }
        with tool_errors():
            result = recall_result(await self._ask(RECALL, payload))
        return answer(result, recall_text(result))

    async def remember(
        self,
        content: Content,
        type: Kind = MemoryType.FACT,  # noqa: A002 - the field's name everywhere else
        importance: Importance = 0.5,
        entities: Names = [],  # noqa: B006
        occurred_at: Happened = None,
        valid_until: Expires = None,
        supersedes: Replaced = [],  # noqa: B006
        cues: CueTexts = [],  # noqa: B006
        pinned: Pinned = False,
    ) -> ToolResult:
        """Remember one thing for later conversations. Repeating it stores it only once.

        Use it for what stays true beyond this task: decisions and their reasons, preferences, facts that were hard to
        find. Always pass `cues`: they decide whether it is found when it matters. Do not store secrets, or what files
        and tools can tell at any time. If it replaces memories, pass their ids.
        """
        scope = self._scope()
        told = given(content, type, importance, entities, occurred_at, valid_until, cues, pinned or None)
        relations = [{"kind": "supersedes", "target": target} for target in supersedes]
        memory = {**told, "relations": relations, "scope": scope.owner, "source": SOURCE}
        with tool_errors():
            _, unknown = await self._own(supersedes, scope)
            if unknown:
                raise tool_error(f"nothing was stored: {not_there(unknown)}")
            stored = await self._ask(REMEMBER, {"tenant": scope.tenant, "memory": memory})
        result = ToolRememberResult(id=stored["id"], stored=stored["stored"])
        return answer(result, remember_text(result))

    async def update(
        self,
        id: Id,  # noqa: A002 - the field's name everywhere else
        content: NewContent = None,
        type: NewKind = None,  # noqa: A002
        importance: NewImportance = None,
        entities: NewNames = None,
        occurred_at: Happened = None,
        valid_until: Expires = None,
        cues: CueTexts = [],  # noqa: B006
        pinned: NewPinned = None,
    ) -> ToolResult:
        """Correct a memory of your own, or add to it. Fields that you omit stay unchanged; new content needs new cues.

        Use it if the memory is wrong or incomplete. If something has changed since, remember the new state with the old
        id as `supersedes`, which keeps the history.
        """
        scope = self._scope()
        changes = given(content, type, importance, entities, occurred_at, valid_until, cues, pinned)
        if not changes:
            raise tool_error("nothing to change; give at least one field")
        with tool_errors():
            _, unknown = await self._own([id], scope)
            if unknown:
                raise tool_error(f"nothing was changed: {not_there(unknown)}")
            done = await self._ask(UPDATE, {"tenant": scope.tenant, "id": id, "changes": changes})
        result = ToolUpdateResult(id=id, version=done["memory"].get("version", 1))
        return answer(result, update_text(result))

    async def list_memories(
        self,
        limit: ListLimit = 20,
        types: Types = [],  # noqa: B006
        entities: Entities = [],  # noqa: B006
        since: Since = None,
        until: Until = None,
        tz: Zone = None,
    ) -> ToolResult:
        """List the memories that you can see, the newest first, without searching.

        Use it if the user asks what is remembered, or before cleaning up. To answer a question, use recall.
        """
        scope = self._scope()
        payload = {
            "tenant": scope.tenant,
            "limit": limit + 1,
            "types": types,
            "entities": entities,
            "since": since,
            "until": until,
            "tz": tz,
            "scope": scope.searched,
            "agent_id": scope.agent,
            "newest": True,
        }
        with tool_errors():
            page = await self._ask(EXPORT, payload)
        found = page["memories"]
        result = list_result(found[:limit], scope, page.get("time_zone", DEFAULT_ZONE))
        result.more = result.more or len(found) > limit
        return answer(result, list_text(result))

    async def forget(self, ids: Ids) -> ToolResult:
        """Delete memories, with all references to them. The user can undo it for ten minutes: `meeseeks undo`.

        Use it only if the user asks for it or a memory was never true. To replace what has changed, remember the new
        state with the old ids as `supersedes`.
        """
        scope = self._scope()
        with tool_errors():
            own, unknown = await self._own(ids, scope)
            if not own:
                raise tool_error(f"nothing was forgotten: {not_there(unknown)}")
            await self._ask(FORGET, {"tenant": scope.tenant, "ids": own})
        result = ToolForgetResult(forgotten=own, not_found=unknown)
        return answer(result, forget_text(result))

    def _scope(self) -> ToolScope:
        with tool_errors():
            return self._scope_of_call()

    async def _own(self, ids: Sequence[str], scope: ToolScope) -> tuple[list[str], list[str]]:
        """Split ids into those the caller may change, and those that are missing or somebody else's."""
        wanted = list(dict.fromkeys(ids))
        own = [key for key in wanted if await self._is_own(key, scope)]
        return own, [key for key in wanted if key not in own]

    async def _is_own(self, memory_id: str, scope: ToolScope) -> bool:
        try:
            found = await self._ask(SHOW, {"tenant": scope.tenant, "id": memory_id})
        except NotFound:
            return False
        return scope.owns(found["memory"])

    async def _ask(self, operation: AnyOperation, payload: dict[str, Any]) -> dict[str, Any]:
        async with asyncio.timeout(LIMIT_S):
            return await self._backend.call(operation, payload, budget=BUDGET_S)


def given(
    content: str | None,
    type: str | None,  # noqa: A002 - the field's name everywhere else
    importance: float | None,
    entities: Sequence[str] | None,
    occurred_at: str | None,
    valid_until: str | None,
    cues: Sequence[str],
    pinned: bool | None,
) -> dict[str, Any]:
    """Return the fields of a memory that have a value."""
    fields = {
        "content": content,
        "type": type,
        "importance": importance,
        "entities": entities,
        "occurred_at": occurred_at,
        "valid_until": valid_until,
        "cues": cues or None,
        "pinned": pinned,
    }
    return {name: value for name, value in fields.items() if value is not None}


@contextmanager
def tool_errors() -> Iterator[None]:
    """Convert errors of the service into tool errors."""
    try:
        yield
    except MeeseeksError as error:
        raise tool_error(str(error)) from error
    except TimeoutError as error:
        raise tool_error("memory did not answer in time; continue without it, or try again later") from error


def tool_error(message: str) -> ToolError:
    return ToolError(message, log_level=logging.DEBUG)  # expected, so fastmcp must not log it as an error


def not_there(ids: Sequence[str]) -> str:
    named = ", ".join(map(shown_id, ids))
    return f"you have no memory with the id {named}; use ids from recall"


def answer(result: BaseModel, text: str) -> ToolResult:
    return ToolResult(content=text, structured_content=result.model_dump(mode="json"))
