"""Noting a transcript takes no longer than its hook may."""

import asyncio
from datetime import UTC, datetime
from typing import Any

from tests.support.load import Stopwatch
from worker.domain.capture import CaptureSource
from worker.domain.deadline import Deadline
from worker.hosts import HOSTS
from worker.operations.background_transcripts import TranscriptNotes
from worker.settings.injection import InjectionConfig


class Hanging:
    """A queue that does not answer."""

    async def note(self, *_: Any) -> None:
        await asyncio.Event().wait()


async def test_a_note_ends_with_the_deadline_of_its_hook() -> None:
    config = InjectionConfig(capture="auto")
    queue: Any = Hanging()
    notes = TranscriptNotes(queue, lambda _: config, lambda: datetime.now(UTC))
    event = {"hook_event_name": "Stop", "transcript_path": "/home/u/.claude/projects/p/s.jsonl"}
    watch = Stopwatch()
    await notes.note(HOSTS["claude-code"], event, CaptureSource(session_id="s"), Deadline.after(0.02))
    assert 0.01 < watch.seconds < 0.15
