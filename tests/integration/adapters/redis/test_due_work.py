"""Work that waits until it is due: claimed once, kept when it was put again meanwhile."""

from collections.abc import AsyncIterator, Iterator
from datetime import UTC, datetime, timedelta

import pytest

from hooks.queue import connect
from tests.support.real_servers import REDIS_KINDS, redis_of
from tests.support.valkey import forget
from worker.adapters.redis.due_work import DueWork
from worker.adapters.redis.transcripts import redis_transcripts
from worker.domain.capture import CaptureSource, TranscriptWork

NOW = datetime(2026, 3, 4, 9, tzinfo=UTC)
MINUTE, LEASE = timedelta(minutes=1), timedelta(minutes=5)
WORK = TranscriptWork(id="w1", source=CaptureSource(session_id="s1"), path="/a.jsonl")


@pytest.fixture(scope="module", params=REDIS_KINDS)
def valkey(request: pytest.FixtureRequest) -> Iterator[str]:
    with redis_of(request.param) as url:
        yield url


@pytest.fixture
async def queue(valkey: str) -> AsyncIterator[DueWork[TranscriptWork]]:
    redis = connect(valkey)
    yield redis_transcripts(redis)
    await redis.aclose()
    forget(valkey)


async def test_work_is_claimed_when_it_is_due_and_once(queue: DueWork[TranscriptWork]) -> None:
    await queue.put(WORK, NOW + MINUTE)
    assert await queue.claim(NOW, LEASE) is None
    assert await queue.claim(NOW + MINUTE, LEASE) == WORK
    assert await queue.claim(NOW + MINUTE, LEASE) is None
    assert await queue.claim(NOW + MINUTE + LEASE, LEASE) == WORK


async def test_a_note_only_makes_work_due_earlier(queue: DueWork[TranscriptWork]) -> None:
    await queue.note(WORK, NOW + MINUTE)
    await queue.note(WORK, NOW + 2 * MINUTE)
    assert await queue.claim(NOW + MINUTE, LEASE) == WORK
    await queue.done(WORK, NOW + MINUTE + LEASE)
    await queue.note(WORK, NOW + LEASE)
    await queue.note(WORK, NOW)
    assert await queue.claim(NOW, LEASE) == WORK


async def test_what_is_noted_while_it_is_read_is_read_again(queue: DueWork[TranscriptWork]) -> None:
    await queue.note(WORK, NOW)
    assert await queue.claim(NOW, LEASE) == WORK
    await queue.note(WORK, NOW + MINUTE)
    await queue.done(WORK, NOW + LEASE)
    assert await queue.claim(NOW + MINUTE, LEASE) == WORK
    await queue.done(WORK, NOW + MINUTE + LEASE)
    assert await queue.claim(NOW + 2 * LEASE, LEASE) is None
