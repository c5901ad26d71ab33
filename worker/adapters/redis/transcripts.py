"""Which transcripts of hosts are to be read, in Redis."""

from typing import Any

from worker.domain.capture import TranscriptWork

from .due_work import DueWork

WORK_KEY = "meeseeks:transcripts"
DUE_KEY = "meeseeks:transcripts-due"
KEPT_S = 7 * 86_400


def redis_transcripts(redis: Any) -> DueWork[TranscriptWork]:
    return DueWork(redis, TranscriptWork, work=WORK_KEY, due=DUE_KEY, kept_s=KEPT_S)
