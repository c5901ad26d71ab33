"""Read PrecisionMemBench as a labelled world.

Only the text of a belief is stored: no aliases and no reasons. Its user is the owner; the domain of its scope is kept
as the agent, because a request may see the memories of two agents. Expected beliefs are essential. Pinned beliefs in
scope are useful, which means neither right nor wrong here: the set delivers them by another way. Beliefs of another
user or domain and outdated ones are forbidden.
"""

from collections.abc import Iterator, Sequence
from datetime import datetime, timedelta
from pathlib import Path
from typing import Annotated

from pydantic import Field, TypeAdapter

from hooks.contract import InjectionRequest, RecentMessage, Scope
from worker.domain.memory import Memory, MemoryScope, MemoryType
from worker.tuning.labelled_worlds import LabelledTask, LabelledWorld

from ..measure import Model
from ..processes import BenchError
from .files import read

NAME = "PrecisionMemBench"
BELIEFS, CASES, SESSIONS = "beliefs.seed.json", "retrieval.cases.json", "session-retrieval.cases.json"
EVERYWHERE = "user:universal"
USER = "test-user"
"""The user of cases that name none."""

MOST_DOMAINS = 2
TYPES = {"preference": MemoryType.PREFERENCE, "decision": MemoryType.DECISION}
"""Types that exist here too; the others become facts."""


class Belief(Model):
    """A belief of the seed."""

    id: str = Field(alias="_id")
    user_id: str
    type: str
    content: str
    scope: Annotated[tuple[str, ...], Field(min_length=1, max_length=1)]
    pinned: bool
    resolved_at: datetime | None
    superseded_by: str | None
    created_at: datetime
    updated_at: datetime

    @property
    def domain(self) -> str | None:
        return None if self.scope[0] == EVERYWHERE else self.scope[0]

    @property
    def outdated(self) -> bool:
        return self.superseded_by is not None or self.resolved_at is not None

    def memory(self) -> Memory:
        return Memory(
            id=self.id,
            type=TYPES.get(self.type, MemoryType.FACT),
            content=self.content,
            created_at=self.created_at,
            valid_until=self.resolved_at,
            superseded_by=self.superseded_by,
            superseded_at=self.updated_at if self.superseded_by else None,
            scope=MemoryScope(user=self.user_id, agent=self.domain),
        )


class Relevant(Model):
    only: tuple[str, ...] | None = Field(default=None, alias="shouldOnlyInclude")


class Expectation(Model):
    relevant: Relevant = Field(default=Relevant(), alias="relevantBeliefs")


class Case(Model):
    """A message, the scopes in which it is said, and what it should retrieve."""

    key: str = Field(alias="caseId")
    category: str
    query: str
    scope: tuple[str, ...]
    user: str = Field(default=USER, alias="userId")
    expect: Expectation
    recent: tuple[RecentMessage, ...] = ()


class Turn(Model):
    """A turn of a session."""

    number: int = Field(alias="turnIndex")
    scope: tuple[str, ...]
    message: str = Field(alias="userMessage")
    answer: str = Field(default="", alias="assistantMessage")
    expect: Expectation


class Session(Model):
    key: str = Field(alias="caseId")
    turns: tuple[Turn, ...]

    def cases(self) -> Iterator[Case]:
        """Yield each turn as a case, with the turns before it."""
        said: list[RecentMessage] = []
        for turn in self.turns:
            yield Case(
                caseId=f"{self.key}/{turn.number}",
                category="Session",
                query=turn.message,
                scope=turn.scope,
                expect=turn.expect,
                recent=tuple(said),
            )
            said += [RecentMessage(role="user", content=turn.message)]
            said += [RecentMessage(role="assistant", content=turn.answer)]


def read_precision_mem_bench(folder: Path) -> LabelledWorld:
    """Read the set. Sessions are optional; beliefs that they add on the way are left out.

    Raise `BenchError` for a missing or invalid file.
    """
    beliefs = read(folder / BELIEFS, TypeAdapter(tuple[Belief, ...]))
    cases = read(folder / CASES, TypeAdapter(tuple[Case, ...]))
    if (folder / SESSIONS).is_file():
        sessions = read(folder / SESSIONS, TypeAdapter(tuple[Session, ...]))
        cases += tuple(case for session in sessions for case in session.cases())
    if not beliefs or not cases:
        raise BenchError(f"{folder}: no beliefs or no cases")
    now = max(belief.updated_at for belief in beliefs) + timedelta(days=1)
    memories = tuple(belief.memory() for belief in beliefs)
    tasks = tuple(_task(case, beliefs, now) for case in cases if case.expect.relevant.only is not None)
    return LabelledWorld(NAME, memories, tasks, ())


def _task(case: Case, beliefs: Sequence[Belief], now: datetime) -> LabelledTask:
    if not 1 <= len(case.scope) <= MOST_DOMAINS:
        raise BenchError(f"{case.key}: {len(case.scope)} scopes; a case must have one or two")
    essential = frozenset(case.expect.relevant.only or ())
    visible = [one for one in beliefs if one.user_id == case.user and one.domain in (None, *case.scope)]
    current = {one.id for one in visible if not one.outdated}
    pinned = {one.id for one in visible if one.pinned} & current
    request = InjectionRequest(
        session_id=case.key,
        agent_id=case.scope[0],
        turn_id=case.key,
        message=case.query,
        recent_messages=case.recent,
        scope=Scope(tenant=NAME, user=case.user, agent=case.scope[-1]),
        now=now,
    )
    forbidden = {belief.id for belief in beliefs} - current - essential
    return LabelledTask(
        case.key, case.category, request, essential, frozenset(pinned - essential), frozenset(forbidden)
    )
