"""Capture from transcripts of hosts, in the background, a minute after something was said or when a session ends.

A hook only notes which transcript has grown. What waits is kept in Redis, and turns that were captured before are
skipped, so that a worker that is killed loses nothing and repeats nothing.
"""

import asyncio
import hashlib
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta, tzinfo
from pathlib import Path
from typing import Any

import structlog

from hooks.contract import Scope
from hooks.contract.capture import MOST_TURNS, CaptureMode
from worker.domain.capture import CaptureSource, DropReason, TranscriptWork
from worker.domain.deadline import Deadline
from worker.domain.errors import MeeseeksError, QueueError
from worker.domain.zones import zone_of
from worker.hosts import HostProfile
from worker.hosts.fields import key, text
from worker.hosts.transcripts import TranscriptFormat, read_transcript
from worker.ports.capture import TranscriptQueue
from worker.settings.injection import InjectionConfig

from .client import OperationClient
from .lasting import polled
from .registry import CAPTURE
from .retrying import Outage, Pause, is_faulty

AFTER_S = 60.0
"""Seconds after which something that was said is read."""

MOST_ATTEMPTS = 12
"""Attempts to read a file, which another worker may have, or to capture its turns, an hour apart at most."""

CAPTURE_S = 120.0
MOST_BYTES = 20_000_000
"""Bytes that are read of a transcript, from its end."""

NOTE_S = 0.2
"""Seconds that noting a transcript may take in a hook, within its deadline."""

SPOKEN = frozenset({"UserPromptSubmit", "Stop"})
ENDING = frozenset({"PreCompact", "SessionStart", "SessionEnd"})
"""Events after which a transcript is read at once: the session may go away, or was left unread."""

log = structlog.get_logger()


@dataclass(frozen=True, slots=True)
class TranscriptNotes:
    """Notes the transcripts that events name, for agents whose setting `capture` is on."""

    queue: TranscriptQueue
    config_for: Callable[[str], InjectionConfig]
    clock: Callable[[], datetime]

    async def note(
        self, host: HostProfile, event: Mapping[str, Any], source: CaptureSource, deadline: Deadline
    ) -> None:
        """Keep that a transcript has grown; a failure only delays it to the next event."""
        name, path = text(event, "hook_event_name"), text(event, "transcript_path")
        if name not in SPOKEN | ENDING or not path or self.config_for(source.agent_id).capture is CaptureMode.OFF:
            return
        now = self.clock()
        work = TranscriptWork(id=_work_id(source), source=source, path=path)
        due = now if name in ENDING else now + timedelta(seconds=AFTER_S)
        try:
            async with asyncio.timeout(deadline.within(NOTE_S).remaining()):
                await self.queue.note(work, due)
        except (QueueError, TimeoutError):
            log.warning("transcript_not_noted", host=host.name)


def source_of(host: HostProfile, event: Mapping[str, Any], scope: Scope) -> CaptureSource | None:
    """Return whose session an event belongs to; `None` for a subagent, whose prompts nobody typed."""
    session = key(event, "session_id")
    if not session or key(event, "agent_id"):
        return None
    owner = scope.model_dump(include={"tenant", "user", "project", "channel"})
    return CaptureSource.model_validate({**owner, "session_id": session, "host": host.name})


def _work_id(source: CaptureSource) -> str:
    parts = json.dumps([source.tenant, source.session_id, source.agent_id, source.user])
    return hashlib.sha256(parts.encode()).hexdigest()[:24]


@dataclass(frozen=True, slots=True)
class TranscriptPace:
    """How often work is looked for, and how long it waits after a failure or with a full inbox, in seconds."""

    every: float = 1.0
    again: Pause = field(default_factory=Pause)
    lease: float = 300.0
    full: float = 600.0


TRANSCRIPT_PACE = TranscriptPace()


@dataclass(frozen=True, slots=True)
class TranscriptReading:
    """What reading needs; `roots` are the folders in which hosts keep their transcripts."""

    client: OperationClient
    queue: TranscriptQueue
    config_for: Callable[[str], InjectionConfig]
    roots: Mapping[str, Path]
    clock: Callable[[], datetime]
    pace: TranscriptPace


class BackgroundTranscripts:
    """Starts at once; close it before the parts. While the store or Redis is away, it rests for a growing time."""

    def __init__(self, parts: TranscriptReading) -> None:
        self._parts = parts
        self._outage = Outage(parts.pace.again)
        self._work = polled("background-transcripts", self._run_once, parts.pace.every)

    async def aclose(self) -> None:
        await self._work.aclose()

    async def _run_once(self) -> bool:
        """Read a transcript that is due; return whether there was one."""
        now, lease = self._parts.clock(), timedelta(seconds=self._parts.pace.lease)
        work = None if self._outage.rests(now) else await self._parts.queue.claim(now, lease)
        if work is None:
            return False
        try:
            full = await self._capture(work)
        except (MeeseeksError, OSError) as error:
            await self._again(work, error, now + lease)
            return True
        self._outage.ends()
        if full:
            await self._parts.queue.put(work, now + timedelta(seconds=self._parts.pace.full))
        else:
            await self._parts.queue.done(work, now + lease)
        return True

    async def _again(self, work: TranscriptWork, error: MeeseeksError | OSError, leased: datetime) -> None:
        """Try again later, or give up a file that cannot be read or captured; the next event notes it again."""
        now, faulty = self._parts.clock(), is_faulty(error)
        attempts = work.attempts + faulty
        log.warning("transcript_failed", attempts=attempts, error=type(error).__name__)
        if attempts >= MOST_ATTEMPTS:
            await self._parts.queue.done(work, leased)
            return
        due = now + self._parts.pace.again.after(attempts) if faulty else self._outage.lasts(now)
        await self._parts.queue.put(work.model_copy(update={"attempts": attempts}), due)

    async def _capture(self, work: TranscriptWork) -> bool:
        """Capture what is new in a transcript; return whether turns are left, as too many proposals wait.

        Raise `OSError` if there is no such file where the host keeps them.
        """
        host = work.source.host or ""
        zone = zone_of(self._parts.config_for(work.source.agent_id).time_zone)
        turns = await asyncio.to_thread(_turns, work.path, self._parts.roots.get(host), host, zone)
        if not turns:
            return False
        fields = work.source.model_dump(mode="json", exclude_none=True)
        done = await self._parts.client.call(CAPTURE, {**fields, "turns": turns}, budget=CAPTURE_S)
        return any(one["reason"] == DropReason.INBOX_FULL for one in done["left_out"])


def _turns(path: str, root: Path | None, host: str, zone: tzinfo) -> list[dict[str, Any]]:
    """Return the last turns of a transcript, without reading any file outside of `root`."""
    file = _file(path, root)
    with file.open("rb") as stream:
        size = stream.seek(0, 2)
        stream.seek(max(0, size - MOST_BYTES))
        content = stream.read().decode("utf-8", "replace")
    transcript = read_transcript(content, zone, TranscriptFormat(host))
    turns = transcript.turns[-MOST_TURNS:] if transcript else ()
    return [turn.model_dump(mode="json", exclude_none=True) for turn in turns]


def _file(path: str, root: Path | None) -> Path:
    """Return a file below `root`, without links. Raise `FileNotFoundError` if it is another one, or none at all."""
    try:
        file = Path(path).resolve()
    except (ValueError, RuntimeError) as error:  # a NUL character, or links in a circle
        raise FileNotFoundError("no path") from error
    if root is None or not file.is_relative_to(root.resolve()):
        raise FileNotFoundError("not in the host's folder of transcripts")
    return file
