"""Tools with which a host's own agent writes cues for memories that were stored without."""

from typing import Annotated, Any

from fastmcp.tools.base import ToolResult
from pydantic import BaseModel, Field

from hooks.contract import Key
from worker.domain.cues import CueOrigin
from worker.operations.registry import ADD_CUES, EXPORT
from worker.operations.requests import MAX_BATCH

from .results import ToolListedMemory, ToolListResult, list_result, shown_id
from .tools import CueTexts, MemoryTools, answer, not_there, tool_error, tool_errors

MOST_AT_ONCE = 20
"""Memories in one call."""

BatchLimit = Annotated[int, Field(description="Maximum number of memories.", ge=1, le=MOST_AT_ONCE)]


class MemoryCues(BaseModel):
    id: Key = Field(description="Id of the memory, from list_without_cues.")
    cues: CueTexts


CuesToAdd = Annotated[
    list[MemoryCues], Field(description="The memories and their cues.", min_length=1, max_length=MOST_AT_ONCE)
]


class ToolAddCuesResult(BaseModel):
    added: list[str] = Field(description="Ids of the memories that got cues.")
    unchanged: list[str] = Field(description="Ids with nothing new, or only with cues that fit too many messages.")
    not_found: list[str] = Field(description="Ids that do not exist or belong to somebody else.")


class CueTools(MemoryTools):
    """The tools of one server, with those for cues."""

    async def list_without_cues(self, limit: BatchLimit = 10) -> ToolResult:
        """List memories of your own that have no cues yet, in no particular order.

        Use it if you are asked to write cues. Write three to six for each with `add_cues`, then list again until
        nothing is left.
        """
        scope = self._scope()
        payload = {"tenant": scope.tenant, "scope": scope.searched, "agent_id": scope.agent, "limit": MAX_BATCH}
        found: list[dict[str, object]] = []
        cursor: str | None = None
        with tool_errors():
            while True:
                page = await self._ask(EXPORT, {**payload, "cursor": cursor})
                found += [one for one in page["memories"] if not _has_cues(one) and scope.owns(one)]
                cursor = page["cursor"]
                if cursor is None or len(found) > limit:
                    break
        result = list_result(found[:limit], scope)
        result.more = result.more or len(found) > limit
        return answer(result, _listed(result))

    async def add_cues(self, memories: CuesToAdd) -> ToolResult:
        """Add cues to memories of your own: short messages at which each would matter. Their text stays as it is."""
        scope = self._scope()
        with tool_errors():
            own, unknown = await self._own([one.id for one in memories], scope)
            if not own:
                raise tool_error(f"nothing was added: {not_there(unknown)}")
            wanted = [{"id": one.id, "cues": one.cues} for one in memories if one.id in own]
            done = await self._ask(ADD_CUES, {"tenant": scope.tenant, "memories": wanted})
        result = ToolAddCuesResult(added=done["added"], unchanged=done["left"], not_found=unknown)
        missing = f"; not found, or not yours: {', '.join(map(shown_id, unknown))}" if unknown else ""
        return answer(result, f"added to {len(result.added)}, unchanged {len(result.unchanged)}{missing}")


def _has_cues(memory: dict[str, Any]) -> bool:
    """Return whether somebody wrote cues for a memory, beside those learned from messages."""
    return any(cue.get("origin") != CueOrigin.LEARNED for cue in memory.get("cues", ()))


def _listed(result: ToolListResult) -> str:
    if not result.memories:
        return "Every memory has cues."
    lines = [f"[{shown_id(memory.id)}] {_about(memory)}" for memory in result.memories]
    return "\n".join([*lines, *(["More are left; list again after `add_cues`."] if result.more else [])])


def _about(memory: ToolListedMemory) -> str:
    return f"{memory.type}: {memory.text}"
