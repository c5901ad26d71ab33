"""Read conversations of LoCoMo as labelled worlds, for the recall of evidence only.

Every turn is one memory with its speaker and the caption of its picture, dated like its session. Every question with
evidence is a task, asked a day after the last session; the turns given as evidence are essential. Questions of
category 5 are left out: they cannot be answered from the conversation.
"""

import re
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from pydantic import Field, TypeAdapter

from hooks.contract import InjectionRequest, Scope
from worker.domain.memory import Memory
from worker.tuning.labelled_worlds import LabelledTask, LabelledWorld

from ..measure import Model
from ..processes import BenchError
from .files import read

FILE = "locomo10.json"
UNANSWERABLE = 5
TIME = "%I:%M %p on %d %B, %Y"
_SESSION = re.compile(r"session_\d+")
_TURN = re.compile(r"D\d+:\d+")


class Question(Model):
    question: str
    category: int
    evidence: tuple[str, ...] = ()


class Turn(Model):
    speaker: str
    id: str = Field(alias="dia_id")
    text: str
    caption: str | None = Field(default=None, alias="blip_caption")

    def memory(self, at: datetime) -> Memory:
        picture = f" [shares {self.caption}]" if self.caption else ""
        return Memory(id=self.id, content=f"{self.speaker}: {self.text}{picture}", created_at=at)


class Conversation(Model):
    """A conversation; `sessions` holds `session_<n>` with turns, `session_<n>_date_time`, and the names."""

    key: str = Field(alias="sample_id")
    questions: tuple[Question, ...] = Field(alias="qa")
    sessions: dict[str, Any] = Field(alias="conversation")

    def memories(self) -> Iterator[Memory]:
        turns = TypeAdapter(tuple[Turn, ...])
        for name, said in self.sessions.items():
            if _SESSION.fullmatch(name):
                at = datetime.strptime(self.sessions[f"{name}_date_time"], TIME).replace(tzinfo=UTC)
                yield from (turn.memory(at) for turn in turns.validate_python(said))


def read_locomo(folder: Path, most: int | None) -> tuple[LabelledWorld, ...]:
    """Read the first `most` conversations, all by default. Raise `BenchError` for a missing or invalid file."""
    conversations = read(folder / FILE, TypeAdapter(tuple[Conversation, ...]))[:most]
    try:
        return tuple(_world(conversation) for conversation in conversations)
    except (KeyError, ValueError) as error:
        raise BenchError(f"{folder / FILE}: a session has no turns or no date like '1:56 pm on 8 May, 2023'") from error


def _world(conversation: Conversation) -> LabelledWorld:
    memories = tuple(conversation.memories())
    known = {memory.id for memory in memories}
    now = max(memory.created_at for memory in memories if memory.created_at) + timedelta(days=1)
    tasks = []
    for number, question in enumerate(conversation.questions):
        evidence = frozenset(_TURN.findall(" ".join(question.evidence))) & known
        if evidence and question.category != UNANSWERABLE:
            tasks.append(_task(conversation.key, number, question, evidence, now))
    return LabelledWorld(conversation.key, memories, tuple(tasks), ())


def _task(world: str, number: int, question: Question, evidence: frozenset[str], now: datetime) -> LabelledTask:
    request = InjectionRequest(
        session_id=f"{world}-{number}",
        turn_id=str(number),
        message=question.question,
        scope=Scope(tenant=world),
        now=now,
    )
    return LabelledTask(str(number), str(question.category), request, evidence, frozenset(), frozenset())
